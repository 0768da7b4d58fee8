"""Which format fits: by a model's name, by its template, by a text, and from a table of the user's own."""

import json

import pytest

from tests.text.offers import F, read
from toolwire import ToolCall
from toolwire.errors import InvalidField, MissingFields
from toolwire.text import UnknownFormat, detect, format, names

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
