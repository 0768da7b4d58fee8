"""Which format fits: by a model's name, by its template, by a text, and from a table of the user's own."""

import json

import pytest

from tests.text.offers import F, read
from toolwire import ToolCall
from toolwire.errors import InvalidField, MissingFields
from toolwire.text import UnknownFormat, detect, format, names
from toolwire.text.rows import bare_mark, rows

HERMES = '<tools>{{ tools }}</tools><|im_start|>\n<tool_call>\n{"name": x}\n</tool_call>'
CODER = HERMES + "<function=example>\n<parameter=p>\n</parameter>\n</function>"
RESPONSE = {
    "version": 1,
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "thinking": {"open": "<think>", "close": "</think>"},
        "content": {},
        "tool_calls": {
            "open": "<call>",
            "close": "</call>",
            "content": "json",
            "repeats": True,
            "transform": {"type": "function", "function": {"name": "{content.tool}", "arguments": "{content.with}"}},
        },
    },
}


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("Qwen/Qwen3-8B", ("qwen3",)),
        ("Qwen3-Coder-480B-A35B-Instruct", ("qwen3-coder",)),
        ("Qwen/Qwen2.5-7B-Instruct", ("qwen25",)),
        ("openai/gpt-oss-120b", ("harmony",)),
        ("NousResearch/Hermes-3-Llama-3.1-8B", ("hermes",)),
        ("moonshotai/Kimi-K2-Instruct", ("kimi-k2",)),
        ("zai-org/GLM-4.7", ("glm47",)),
        ("meta-llama/Llama-3.1-8B-Instruct", ("llama3-json",)),
        ("meta-llama/Llama-4-Scout-17B", ("llama4-json", "llama4-pythonic")),
        ("deepseek-ai/DeepSeek-V3.1", ("deepseek-v31",)),
        ("deepseek-ai/DeepSeek-V3", ("deepseek-v3",)),
        ("MiniMaxAI/MiniMax-M2", ("minimax-m2",)),
        ("nobody/knows-it", ()),
    ],
)
def test_by_name(model: str, found: tuple[str, ...]) -> None:
    guess = detect(model=model)
    assert guess.names == found
    assert (guess.format is None) == (len(found) != 1)


def test_by_template() -> None:
    assert detect(template=HERMES).names[:1] in {("hermes",), ("qwen3",)}
    assert detect(template=CODER).format is not None
    assert detect(template=CODER).names == ("qwen3-coder",)
    config = json.dumps({"chat_template": CODER})
    assert detect(template=config).names == ("qwen3-coder",)
    assert detect(
        template={"chat_template": [{"name": "default", "template": "x"}, {"name": "tool_use", "template": CODER}]}
    )
    for several in ({"default": "x", "tool_use": CODER}, {"chat_template": {"default": "x", "tool_use": CODER}}):
        assert detect(template=several).names == ("qwen3-coder",)
        assert detect(template=json.dumps(several)).names == ("qwen3-coder",)
    assert detect(template={"chat_template": CODER, "response_template": {}}).names == ("qwen3-coder",)
    assert detect(template="{{ messages }}").names == ()


# One model of each format, as its owner names it.
MODELS = {
    "hermes": "HuggingFaceTB/SmolLM3-3B NousResearch/Hermes-4-70B arcee-ai/Trinity-Mini",
    "qwen25": "Qwen/Qwen2.5-72B-Instruct Qwen/QwQ-32B",
    "qwen3": "Qwen/Qwen3-235B-A22B-Instruct-2507",
    "granite4": "ibm-granite/granite-4.0-h-small",
    "ernie45": "baidu/ERNIE-4.5-21B-A3B-Thinking",
    "longcat": "meituan-longcat/LongCat-Flash-Chat",
    "qwen25-coder": "Qwen/Qwen2.5-Coder-32B-Instruct",
    "granite-20b-fc": "ibm-granite/granite-20b-functioncalling",
    "internlm": "internlm/internlm2_5-7b-chat internlm/Intern-S1",
    "minimax-m1": "MiniMaxAI/MiniMax-M1-80k",
    "inkling": "thinkingmachines/inkling",
    "gigachat3": "ai-sage/GigaChat3-10B-A1.8B ai-sage/GigaChat3.1-10B-A1.8B-bf16",
    "jamba": "ai21labs/AI21-Jamba-Mini-1.7 ServiceNow-AI/Apriel-1.5-15b-Thinker",
    "hunyuan-a13b": "tencent/Hunyuan-A13B-Instruct",
    "nemotron-nano-v2": "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
    "granite": "ibm-granite/granite-3.3-8b-instruct",
    "phi4-mini": "microsoft/Phi-4-mini-instruct",
    "firefunction": "fireworks-ai/llama-3-firefunction-v2",
    "sarashina": "sbintuitions/sarashina2.2-3b-instruct-v0.1",
    "apertus": "swiss-ai/Apertus-8B-Instruct-2509",
    "cohere-command3": "CohereForAI/c4ai-command-r7b-12-2024 CohereLabs/c4ai-command-a-03-2025",
    "cohere-command4": "CohereLabs/command-a-plus-05-2026",
    "cohere-command-r-plus": "CohereForAI/c4ai-command-r-plus-08-2024 CohereForAI/c4ai-command-r-08-2024",
    "xlam": "Salesforce/xLAM-2-3b-fc-r",
    "llama3-json": "meta-llama/Llama-3.3-70B-Instruct",
    "llama4-json": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "deepseek-v3": "deepseek-ai/DeepSeek-V3-0324 deepseek-ai/DeepSeek-R1-0528 "
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
    "deepseek-v31": "deepseek-ai/DeepSeek-V3.1-Terminus deepseek-ai/DeepSeek-V3.2-Exp "
    "accounts/fireworks/models/deepseek-v3p1",
    "solar-open": "upstage/Solar-Open-100B",
    "kimi-k2": "moonshotai/Kimi-K2-Thinking moonshotai/Kimi-K2.5 accounts/fireworks/models/kimi-k2p5",
    "mistral": "mistralai/Devstral-Small-2507 mistralai/Magistral-Small-2506 mistralai/Ministral-3-14B-Reasoning-2512",
    "mistral-v3": "mistralai/Mistral-Nemo-Instruct-2407",
    "llama-function": "meetkai/functionary-medium-v3.1",
    "functionary-v32": "meetkai/functionary-small-v3.2 meetkai/functionary-medium-v3.2",
    "qwen3-coder": "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8 Qwen/Qwen3.5-4B",
    "nemotron-3": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "mimo": "XiaomiMiMo/MiMo-V2-Flash",
    "step3p5": "stepfun-ai/Step-3.5-Flash",
    "seed-oss": "ByteDance-Seed/Seed-OSS-36B-Instruct",
    "minicpm5": "openbmb/MiniCPM5-1B",
    "glm45": "zai-org/GLM-4.5-Air zai-org/GLM-4.6",
    "glm47": "zai-org/GLM-4.7-Flash zai-org/GLM-5.2",
    "poolside-v1": "poolside/Laguna-XS-v2",
    "ling3": "inclusionAI/Ling-3.0-flash",
    "spark25": "XHToken/Spark-X2.5-4B",
    "hy-v3": "tencent/Hy3-preview",
    "hy-v3-opensource": "tencent/Hy3-opensource",
    "solar-open2": "upstage/Solar-Open2-250B",
    "k2-horizon": "IFM/K2-Horizon-7B",
    "minimax-m2": "MiniMaxAI/MiniMax-M2.1",
    "deepseek-v32": "deepseek-ai/DeepSeek-V3.2 deepseek-ai/DeepSeek-V3.2-Speciale",
    "deepseek-v4": "deepseek-ai/DeepSeek-V4 deepseek-ai/DeepSeek-V4-Flash deepseek/deepseek-v4-pro",
    "deepseek-v41": "deepseek-ai/DeepSeek-V4.1-Flash deepseek-v4.1",
    "gigachat35": "ai-sage/GigaChat3.5-432B-A25B",
    "dots": "dots-studio/dots-3-note-preview",
    "muse-glimmer": "meta/glimmer",
    "step3": "stepfun-ai/step3",
    "kimi-k3": "moonshotai/Kimi-K3 kimi-k3 openrouter/moonshotai/kimi-k3:free",
    "minimax-m3": "MiniMaxAI/MiniMax-M3",
    "pythonic": "google/gemma-3-27b-it",
    "llama4-pythonic": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "toolace": "Team-ACE/ToolACE-2-Llama-3.1-8B",
    "lfm2": "LiquidAI/LFM2-8B-A1B LiquidAI/LFM2.5-1.2B-Instruct",
    "olmo3": "allenai/Olmo-3-7B-Instruct",
    "functiongemma": "google/functiongemma-270m-it",
    "gemma4": "google/gemma-4-31B-it",
    "harmony": "openai/gpt-oss-120b openai/gpt-oss-20b",
}
# What a chat template of the format has, as far as it differs from the marks of the calls. Templates often put their
# marks together from variables.
GLM = "[gMASK]<sop><tool_call>{function-name}\n<arg_key>{{ key }}</arg_key>"
DSML = "{%- set dsml = '｜DSML｜' -%}{{ '<' + dsml + 'CALLS>' }}{{ '<' + dsml + 'invoke name=\"' }}"
TEMPLATES = {
    "hermes": "system: You are a helpful AI assistant named SmolLM, trained by Hugging Face.",
    "qwen25-coder": 'Write <tools>\n{"name": x}\n</tools>',
    "granite4": '<|start_of_role|>system<|end_of_role|><tool_call>\n{"name"',
    "ernie45": '<tool_call>\n{"name"}\n</tool_call><response>{{ content }}</response>',
    "minimax-m1": '<beginning_of_sentence>system ai_setting<tool_calls>\n{"name"',
    "gigachat3": '{%- set add = namespace(role_sep="<|role_sep|>\\n", message_sep="<|message_sep|>\\n\\n") -%}',
    "jamba": '<|bom|><|system|> <tool_calls>[{"name"',
    "hunyuan-a13b": '<|startoftext|><tool_calls>[{"name"}]</tool_calls><|extra_0|>',
    "phi4-mini": "<|system|>{{ content }}<|tool|>{{ tools }}<|/tool|><|end|>",
    "cohere-command4": "<|START_ACTION|>[\n<|START_TEXT|>{{ content }}<|END_TEXT|>",
    "cohere-command-r-plus": "{{ '\\nAction:\\n```json\\n[\\n' }}",
    "xlam": 'by Salesforce xLAM team. [{"name": "tool_call_name", "arguments"',
    "llama3-json": 'Answer {"name": x, "parameters": y}<|start_header_id|>ipython',
    "llama4-json": 'Answer {"name": x, "parameters": y}<|header_start|>ipython',
    "deepseek-v3": "'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + t['type'] + '<｜tool▁sep｜>' + n +"
    " '\\n' + '```json' + '\\n'",
    "deepseek-v31": "'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + n + '<｜tool▁sep｜>'",
    "solar-open": "<|begin|>assistant<|tool_calls|>{{ '<|tool_call:begin|>' + id + '<|tool_call:name|>' }}",
    "mistral": "'[TOOL_CALLS]' + name + '[ARGS]'",
    "mistral-v3": "'[TOOL_CALLS] ['",
    "functionary-v32": "Respond in this format:\n>>>${recipient}\n${content}",
    "glm45": GLM + "\n<arg_value>",
    "glm47": GLM + "<arg_value>",
    "poolside-v1": "made by Poolside<assistant><tool_call>{{ name"
    " }}<arg_key>k</arg_key><arg_value>v</arg_value></assistant>",
    "ling3": "<role>ASSISTANT</role><tool_call>n\n<arg_key>k</arg_key>\n<arg_value>v</arg_value><|role_end|>",
    "hy-v3": "<tool_calls>\n<tool_call>n<tool_sep>\n<arg_key>k</arg_key>\n<arg_value>v</arg_value>",
    "hy-v3-opensource": "{%- set k = ':opensource' %}{%- set sep = '<tool_sep' ~ k ~ '>' %}{%- set call"
    " = '<tool_call' ~ k ~ '>' %}",
    "deepseek-v32": DSML.replace("CALLS", "function_calls"),
    "deepseek-v4": DSML.replace("CALLS", "tool_calls"),
    "deepseek-v41": DSML.replace("CALLS", " calls"),
    "gigachat35": "<|role_sep|>\n<|message_sep|>\n\n{{- '<｜GCML｜tool_calls>\\n' -}}",
    "kimi-k3": "{{- '<|open|>' + tag -}}{{- '<|sep|>' -}}{{- '<|close|>' + tag + '<|sep|>' -}}",
    "minimax-m3": "{%- set ns = ']<]minimax[>[' -%}{%- set begin = ns ~ '<tool_call>' -%}<response>{{ r }}</response>",
    "pythonic": "[func_name1(params_name1=params_value1)]",
    "llama4-pythonic": "<|header_start|>system<|header_end|>[func_name1(params_name1=params_value1)]",
    "toolace": "If none of the function can be used, point it out. [func_name1(params_name1=params_value1)]",
    "lfm2": "{{ 'List of tools: [' }}<|im_start|>system",
    "harmony": '{{- "<|start|>assistant to=" }}{{- "functions." + n + "<|channel|>commentary json<|message|>" }}',
}


def rules(name: str) -> object:
    """Return what decides how a format is read and written. Some formats differ in their models alone."""
    row = rows()[name]
    return [getattr(row, key) for key in ("shape", "sections", "wrap", "call", "argument", "value", "keys")]


@pytest.mark.parametrize("name", [name for name in names() if name != "tagged"])
def test_every_format_is_found_by_the_name_of_its_models(name: str) -> None:
    for model in MODELS[name].split():
        found = detect(model=model).names
        assert name in found, model
        assert len(found) == 1 or {row.partition("-")[0] for row in found} == {"llama4"}, model
        assert detect(model=model.partition("/")[2] or model).names == found
        assert detect(model=f"{model}-GGUF:Q4_K_M").names == found


@pytest.mark.parametrize("name", [name for name in names() if name != "tagged"])
def test_every_format_is_found_by_a_template(name: str) -> None:
    row = rows()[name]
    marks = "\n".join(bare_mark(mark) for pair in row.sections or row.pairs[:1] for mark in pair)
    call = format(name).encode_call(ToolCall(None, "f", {"s": "x"}), [F]).text
    found = detect(template=TEMPLATES.get(name, f"{marks}\n{call}")).names
    assert len(found) == 1, found
    assert rules(found[0]) == rules(name)


def test_a_template_that_puts_its_marks_together_is_not_that_of_another_format() -> None:
    assert detect(template="{{ '<tool_call>' }}<|im_start|>").names == ("hermes",)
    assert detect(template="{{ messages }}<|im_start|>").names == ()
    assert detect(model="moonshot-v1-8k").names == ("kimi-k2",)
    assert detect(model="deepseek-ai/DeepSeek-V2").names == ()


def test_a_response_template_is_a_format_of_its_own() -> None:
    form = detect(template={"response_template": RESPONSE}).format
    assert form is not None
    text = '<think>Hm.</think>Yes <call>{"tool": "f", "with": {"s": "</call>"}}</call> so <call>{"tool": "f", "wi'
    for pieces in ([text], list(text)):
        response = read(form, text, pieces)
        assert [(call.name, call.arguments) for call in response.tool_calls if call.runs] == [("f", {"s": "</call>"})]
        assert response.content == "Yes  so "


@pytest.mark.parametrize("name", [name for name in names() if name != "granite4"])
def test_by_a_text_of_its_own(name: str) -> None:
    text = format(name).encode_call(ToolCall(None, "f", {"s": "x"}), [F]).text
    found = detect(text, tools=[F]).names
    assert found, name
    assert any(format(each).encode_call(ToolCall(None, "f", {"s": "x"}), [F]).text == text for each in found)


def test_a_text_without_a_call_fits_nothing() -> None:
    assert detect("Just words.").names == ()
    with pytest.raises(MissingFields):
        detect()


def test_a_table_is_a_format() -> None:
    own = format(
        {"name": "mine", "shape": "json", "wrap": ["<do>", "</do>"], "loose": False, "keys": ["tool", "with", "id"]}
    )
    assert [call.arguments for call in read(own, 'So <do>{"tool": "f", "with": {"s": "x"}}</do>').tool_calls] == [
        {"s": "x"}
    ]
    assert own.encode_call(ToolCall(None, "f", {"s": "x"})).text == '<do>{"tool": "f", "with": {"s": "x"}}</do>'
    like = format({"like": "qwen3-coder", "wrap": ["<mine>\n", "\n</mine>"]})
    assert like.encode_call(ToolCall(None, "f", {})).text == "<mine>\n<function=f>\n</function>\n</mine>"


def test_a_table_with_empty_marks_ends_all_the_same() -> None:
    own = format({"shape": "json", "sections": [["", ""]], "noise": [""], "thinking": ["", ""]})
    assert own.decode("Words.", ["f"]).content == "Words."


def test_what_is_no_format_says_so() -> None:
    with pytest.raises(UnknownFormat, match="known: hermes"):
        format("hermess")
    with pytest.raises(InvalidField, match="shpe"):
        format({"shpe": "json"})


def test_deepseek_v41_has_marks_of_its_own() -> None:
    form = format("deepseek-v4.1")
    text = form.encode_call(ToolCall(None, "f", {"s": "x", "i": 3}), [F]).text
    assert text == (
        '<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n'
        '<｜DSML｜ parameter name="s" string="true">x</｜DSML｜ parameter>\n'
        '<｜DSML｜ parameter name="i" string="false">3</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
    )
    for pieces in ([text], list(text)):
        assert [call.arguments for call in read(form, text, pieces).tool_calls] == [{"s": "x", "i": 3}]
        assert read(format("deepseek-v4"), text, pieces).tool_calls == []
