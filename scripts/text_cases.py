"""Write the published cases of text formats: `src/toolwire/text/cases/*.json`.

The texts are put together here, by hand and for each format anew, and not by the package that is judged with them.
Run it after a change: `python scripts/text_cases.py`; `--check` says whether the files are in step.
"""

# ruff: noqa: C416, D103, PLW0108, RUF001

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parent.parent / "src" / "toolwire" / "text" / "cases"
Call = tuple[str, dict[str, Any]]


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: given for name, given in properties.items()}}


STRING = {"type": "string"}
TOOLS = [
    {"name": "get_weather", "description": "The weather.", "parameters": schema(city=STRING, days={"type": "integer"})},
    {"name": "get_time", "description": "The time.", "parameters": schema(timezone=STRING)},
    {
        "name": "search",
        "description": "Search.",
        "parameters": schema(
            query=STRING,
            limit={"type": "integer"},
            exact={"type": "boolean"},
            score={"type": "number"},
            tags={"type": "array", "items": STRING},
            filter={"type": "object", "properties": {"lang": STRING, "min": {"type": "integer"}}},
            note={"type": ["string", "null"]},
        ),
    },
    {
        "name": "read_video",
        "description": "Read a video.",
        "parameters": schema(
            path=STRING,
            part={"anyOf": [schema(begin={"type": "integer"}, end={"type": "integer"}), {"type": "null"}]},
        ),
    },
]


class Spec(NamedTuple):
    """How a format is written, by hand."""

    write: Callable[[list[Call]], str]
    style: str = "object"  # or "list": calls count with the end of their list
    thinking: tuple[str, str] | None = None
    bad: tuple[str, str] = ('"Paris"', "Paris")
    marks: str = ""
    bare: Callable[[list[Call]], str] | None = None  # without the wrapper
    empties: tuple[str, ...] = ()  # other spellings of a call of get_time without arguments
    words: tuple[str, str] = ("", "")  # what stands around words
    nested: bool = True


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else dump(value)


def objects(begin: str, end: str, between: str = "\n", keys: tuple[str, str] = ("name", "arguments")) -> Any:
    def write(calls: list[Call]) -> str:
        return between.join(f"{begin}{dump({keys[0]: name, keys[1]: given})}{end}" for name, given in calls)

    return write


def around(begin: str, end: str, write: Any) -> Any:
    return lambda calls: f"{begin}{write(calls)}{end}"


def listed(begin: str, end: str, keys: tuple[str, str] = ("name", "arguments")) -> Any:
    return lambda calls: f"{begin}{dump([{keys[0]: name, keys[1]: given} for name, given in calls])}{end}"


def headed(begin: str, middle: str, end: str, between: str = "") -> Any:
    return lambda calls: between.join(f"{begin}{name}{middle}{dump(given)}{end}" for name, given in calls)


def tags(call: str, argument: str, end: str, between: str = "\n") -> Any:
    def write(calls: list[Call]) -> str:
        texts = []
        for place, (name, given) in enumerate(calls):
            inner = "".join(
                argument.replace("KEY", key)
                .replace("IS_TEXT", str(isinstance(value, str)).lower())
                .replace("TYPE", kind(value))
                .replace("VALUE", text_of(value))
                for key, value in given.items()
            )
            texts.append(call.replace("NAME", name).replace("INDEX", str(place)) + inner + end)
        return between.join(texts)

    return write


def kind(value: Any) -> str:
    kinds = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def pythonic(begin: str, end: str, between: str = ", ") -> Any:
    def write(calls: list[Call]) -> str:
        return (
            begin
            + between.join(f"{name}({', '.join(f'{k}={v!r}' for k, v in given.items())})" for name, given in calls)
            + end
        )

    return write


def braces(begin: str, end: str, quote: str) -> Any:
    def value(given: Any) -> str:
        if isinstance(given, str):
            return f"{quote}{given}{quote}"
        if isinstance(given, dict):
            return "{" + ",".join(f"{key}:{value(each)}" for key, each in given.items()) + "}"
        return "[" + ",".join(map(value, given)) + "]" if isinstance(given, list) else dump(given)

    return lambda calls: "".join(f"{begin}{name}{value(given)}{end}" for name, given in calls)


def elements(prefix: str) -> Any:
    def value(given: Any) -> str:
        if isinstance(given, dict):
            return "".join(f"{prefix}<{key}>{value(each)}{prefix}</{key}>" for key, each in given.items())
        if isinstance(given, list):
            return "".join(f"{prefix}<item>{value(each)}{prefix}</item>" for each in given)
        return text_of(given)

    def write(calls: list[Call]) -> str:
        inner = "".join(f'{prefix}<invoke name="{name}">{value(given)}{prefix}</invoke>\n' for name, given in calls)
        return f"{prefix}<tool_call>\n{inner}{prefix}</tool_call>"

    return write


THINK = ("<think>\n", "\n</think>\n\n")
TIGHT = ("<think>", "</think>")
HERMES = Spec(
    objects("<tool_call>\n", "\n</tool_call>"),
    thinking=THINK,
    marks="</tool_call> and <tool_call>",
    empties=(
        '<tool_call>\n{"name": "get_time"}\n</tool_call>',
        '<tool_call>\n{"name": "get_time", "arguments": "{}"}\n</tool_call>',
        '<tool_call>{"name":"get_time","arguments":null}</tool_call>',
    ),
    bare=lambda calls: objects("<tool_call>\n", "\n</tool_call>")(calls).removesuffix("\n</tool_call>"),
)
CODER_CALLS = tags("<function=NAME>\n", "<parameter=KEY>\nVALUE\n</parameter>\n", "</function>", "\n")
CODER = Spec(
    lambda calls: "\n".join(f"<tool_call>\n{CODER_CALLS([call])}\n</tool_call>" for call in calls),
    thinking=THINK,
    bad=("\n</parameter>", ""),
    marks="</function>, </tool_call> and <tool_call>",
    bare=CODER_CALLS,
    empties=(
        "<tool_call><function=get_time></function></tool_call>",
        "<tool_call>\n<function=get_time>\n{}\n</function>\n</tool_call>",
    ),
)
GLM = Spec(
    tags("<tool_call>NAME\n", "<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value>\n", "</tool_call>"),
    thinking=("<think>", "</think>\n"),
    bad=("</arg_value>", ""),
    marks="</tool_call> and <tool_call>",
    empties=("<tool_call>get_time</tool_call>",),
)
GLM47 = GLM._replace(
    write=tags("<tool_call>NAME", "<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>", "</tool_call>", ""),
    empties=("<tool_call>get_time\n</tool_call>",),
)


def invoke(p: str, outer: str, argument: str = ' name="KEY">VALUE', thinking: Any = None) -> Spec:
    calls = tags(f'<{p}invoke name="NAME">\n', f"<{p}parameter{argument}</{p}parameter>\n", f"</{p}invoke>\n", "")
    return Spec(
        around(f"<{outer}>\n", f"</{outer}>", calls),
        thinking=thinking,
        bad=(f"</{p}parameter>", ""),
        marks=f"</{p}invoke>, </{outer}> and <{p}invoke>",
        bare=calls,
        empties=(f'<{outer}><{p}invoke name="get_time"></{p}invoke></{outer}>',),
    )


def lists(
    begin: str, end: str, *, thinking: Any = None, keys: tuple[str, str] = ("name", "arguments"), **more: Any
) -> Spec:
    marks = f"{end or ']'} and {begin}"
    if end:
        more.setdefault("bare", lambda calls: listed(begin, "", keys)(calls))
    return Spec(listed(begin, end, keys), style="list", thinking=thinking, marks=marks, **more)


def kimi(calls: list[Call]) -> str:
    return "".join(
        f"<|tool_call_begin|>functions.{name}:{place}<|tool_call_argument_begin|>{dump(given)}<|tool_call_end|>"
        for place, (name, given) in enumerate(calls)
    )


def harmony(calls: list[Call]) -> str:
    head = "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>{}<|call|>"
    return "<|start|>assistant".join(head.replace("{}", name, 1).replace("{}", dump(given), 1) for name, given in calls)


def inkling(calls: list[Call]) -> str:
    return "".join(
        f"<|message_model|>{name}<|content_invoke_tool_json|>{dump({'name': name, 'args': given})}<|end_message|>"
        for name, given in calls
    )


def cohere(calls: list[Call]) -> str:
    items = [{"tool_call_id": str(i), "tool_name": name, "parameters": given} for i, (name, given) in enumerate(calls)]
    return f"<|START_ACTION|>{json.dumps(items, ensure_ascii=False, indent=4)}<|END_ACTION|>"


def solar(calls: list[Call]) -> str:
    return "".join(
        f"<|tool_call:begin|>c{i}<|tool_call:name|>{name}<|tool_call:args|>{dump(given)}<|tool_call:end|>"
        for i, (name, given) in enumerate(calls)
    )


V3 = headed("<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n", "\n```<｜tool▁call▁end｜>", "\n")
V31 = headed("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>")
STEP3 = tags(
    '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="NAME">',
    '<steptml:parameter name="KEY">VALUE</steptml:parameter>',
    "</steptml:invoke><｜tool_call_end｜>",
    "",
)
K3 = tags(
    '<|open|>call tool="NAME" index="INDEX"<|sep|>',
    '<|open|>argument key="KEY" type="TYPE"<|sep|>VALUE<|close|>argument<|sep|>',
    "<|close|>call<|sep|>",
    "",
)
SEED = tags("<function=NAME>\n", "<parameter=KEY>VALUE</parameter>\n", "</function>")
HY3 = tags(
    "<tool_call>NAME<tool_sep>\n", "<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value>\n", "</tool_call>\n", ""
)
IFM = tags(
    "<ifm|tool_call>NAME\n",
    "<ifm|arg_key>KEY</ifm|arg_key><ifm|arg_value>VALUE</ifm|arg_value>\n",
    "</ifm|tool_call>\n",
    "",
)
OPEN_HY3 = tags(
    "<tool_call:opensource>NAME<tool_sep:opensource>\n",
    "<arg_key:opensource>KEY</arg_key:opensource>\n<arg_value:opensource>VALUE</arg_value:opensource>\n",
    "</tool_call:opensource>\n",
    "",
)
M3 = "]<]minimax[>["

SPECS: dict[str, Spec] = {
    **dict.fromkeys("hermes qwen25 qwen3 granite4 ernie45".split(), HERMES),
    "longcat": Spec(
        objects("<longcat_tool_call>\n", "\n</longcat_tool_call>"),
        thinking=("<longcat_think>\n", "\n</longcat_think>\n"),
        marks="</longcat_tool_call>",
    ),
    "qwen25-coder": HERMES._replace(write=objects("<tools>\n", "\n</tools>"), marks="</tools> and <tools>", bare=None),
    "granite-20b-fc": Spec(objects("<function_call> ", ""), marks="<function_call>"),
    "internlm": Spec(
        objects("<|action_start|><|plugin|>\n", "\n<|action_end|>", keys=("name", "parameters")),
        thinking=THINK,
        marks="<|action_end|>",
    ),
    "minimax-m1": Spec(
        around("<tool_calls>\n", "\n</tool_calls>", objects("", "")), thinking=THINK, marks="</tool_calls>"
    ),
    "inkling": Spec(
        inkling, thinking=("<|message_model|><|content_thinking|>", "<|end_message|>"), marks="<|end_message|>"
    ),
    "gigachat3": Spec(objects("<|message_sep|>\n\nfunction call<|role_sep|>\n", "", ""), thinking=THINK, marks="</s>"),
    "jamba": lists("<tool_calls>", "</tool_calls>"),
    "hunyuan-a13b": lists("<tool_calls>", "</tool_calls>", thinking=("<think>\n", "\n</think>\n")),
    "granite": lists("<|tool_call|>", "", thinking=TIGHT),
    "nemotron-nano-v2": lists("<TOOLCALL>", "</TOOLCALL>", thinking=("<think>\n", "\n</think>\n")),
    "phi4-mini": lists("functools", ""),
    "firefunction": lists("functools", ""),
    "sarashina": Spec(
        lambda calls: f"<|tool_calls|>{[{'name': n, 'arguments': a} for n, a in calls]!r}</s>",
        style="list",
        bad=("'Paris'", "Paris"),
        marks="</s> and <|tool_calls|>",
    ),
    "apertus": Spec(
        lambda calls: f"<|tools_prefix|>{dump([{n: a} for n, a in calls])}<|tools_suffix|>",
        style="list",
        thinking=("<|inner_prefix|>", "<|inner_suffix|>"),
        marks="<|tools_suffix|>",
    ),
    "cohere-command3": Spec(
        cohere, style="list", thinking=("<|START_THINKING|>", "<|END_THINKING|>"), marks="<|END_ACTION|>"
    ),
    "cohere-command4": Spec(
        cohere, style="list", thinking=("<|START_THINKING|>", "<|END_THINKING|>"), marks="<|END_ACTION|>"
    ),
    "cohere-command-r-plus": lists("Action: ```json\n", "\n```", keys=("tool_name", "parameters")),
    "xlam": lists("", "", thinking=TIGHT),
    "llama3-json": Spec(objects("", "", "; ", ("name", "parameters")), marks="<|python_tag|>"),
    "llama4-json": Spec(objects("", "", "; ", ("name", "parameters")), marks="<|python_tag|>"),
    "deepseek-v3": Spec(
        around("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", V3),
        thinking=THINK,
        marks="<｜tool▁call▁end｜>",
        bare=V3,
    ),
    "deepseek-v31": Spec(
        around("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", V31),
        thinking=TIGHT,
        marks="<｜tool▁call▁end｜>",
        bare=V31,
    ),
    "solar-open": Spec(
        around("<|tool_calls|>", "<|calls|>", solar),
        thinking=("<|think|>", "<|end|>"),
        marks="<|tool_call:end|> and <|calls|>",
        bare=solar,
    ),
    "kimi-k2": Spec(
        around("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", kimi),
        thinking=TIGHT,
        marks="<|tool_call_end|>",
        bare=kimi,
    ),
    "mistral": Spec(headed("[TOOL_CALLS]", "[ARGS]", ""), thinking=("[THINK]", "[/THINK]"), marks="[TOOL_CALLS]"),
    "mistral-v3": lists("[TOOL_CALLS] ", ""),
    "functionary-v32": Spec(headed(">>>", "\n", ""), marks=">>> and >>>all", words=(">>>all\n", "")),
    "llama-function": Spec(headed("<function=", ">", "</function>", "\n"), marks="</function>"),
    **dict.fromkeys("qwen3-coder nemotron-3 mimo step3p5".split(), CODER),
    "seed-oss": CODER._replace(
        write=lambda calls: "\n".join(f"<seed:tool_call>\n{SEED([call])}\n</seed:tool_call>" for call in calls),
        thinking=("<seed:think>", "</seed:think>"),
        bad=("</parameter>", ""),
        marks="</function> and </seed:tool_call>",
        bare=SEED,
        empties=(),
    ),
    "minicpm5": Spec(
        tags('<function name="NAME">', '<param name="KEY">VALUE</param>', "</function>"),
        thinking=THINK,
        bad=("</param>", ""),
        marks="</function>",
    ),
    **dict.fromkeys("glm45 poolside-v1 ling3".split(), GLM),
    "glm47": GLM47,
    "spark25": GLM._replace(
        write=tags("<tool_call>NAME\n", "<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>\n", "</tool_call>")
    ),
    "hy-v3": Spec(
        around("<tool_calls>\n", "</tool_calls>", HY3),
        thinking=("<think>\n", "\n</think>\n"),
        bad=("</arg_value>", ""),
        marks="</tool_call> and </tool_calls>",
        bare=HY3,
    ),
    "hy-v3-opensource": Spec(
        around("<tool_calls:opensource>\n", "</tool_calls:opensource>", OPEN_HY3),
        thinking=("<think:opensource>", "</think:opensource>"),
        bad=("</arg_value:opensource>", ""),
        marks="</tool_call:opensource> and </tool_calls:opensource>",
        bare=OPEN_HY3,
    ),
    "solar-open2": Spec(
        tags(
            "<|tool_call:start|>NAME\n",
            "<|tool_arg:start|>KEY<|tool_arg:value|>VALUE<|tool_arg:end|>\n",
            "<|tool_call:end|>",
        ),
        bad=("<|tool_arg:end|>", ""),
        marks="<|tool_call:end|>",
    ),
    "k2-horizon": Spec(
        around("<ifm|tool_calls>\n", "</ifm|tool_calls>", IFM),
        thinking=("<ifm|think>", "</ifm|think>\n"),
        bad=("</ifm|arg_value>", ""),
        marks="</ifm|tool_call>",
        bare=IFM,
    ),
    "minimax-m2": invoke("", "minimax:tool_call", thinking=THINK),
    "deepseek-v32": invoke("｜DSML｜", "｜DSML｜function_calls", ' name="KEY" string="IS_TEXT">VALUE', TIGHT),
    "deepseek-v4": invoke("｜DSML｜", "｜DSML｜tool_calls", ' name="KEY" string="IS_TEXT">VALUE', TIGHT),
    "deepseek-v41": invoke("｜DSML｜ ", "｜DSML｜ calls", ' name="KEY" string="IS_TEXT">VALUE', TIGHT),
    "gigachat35": invoke("｜GCML｜", "｜GCML｜tool_calls", ' name="KEY" string="IS_TEXT">VALUE'),
    "dots": invoke("", "dots_function_call"),
    "muse-glimmer": invoke("atem:", "atem:function_calls", thinking=(" to=self<|message|>", "<|eom|>")),
    "step3": Spec(
        around("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>", STEP3),
        thinking=("<think>\n", "\n</think>\n"),
        bad=("</steptml:parameter>", ""),
        marks="</steptml:invoke> and <｜tool_call_end｜>",
        bare=STEP3,
    ),
    "kimi-k3": Spec(
        around("<|open|>tools<|sep|>", "<|close|>tools<|sep|>", K3),
        thinking=("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        bad=("<|close|>argument<|sep|>", ""),
        marks="<|close|>call<|sep|>",
        bare=K3,
    ),
    "minimax-m3": Spec(
        elements(M3),
        thinking=("<mm:think>", "</mm:think>"),
        bad=(f"{M3}</city>", ""),
        marks="</invoke> and <tool_call>",
    ),
    "pythonic": Spec(pythonic("[", "]"), style="list", bad=("'Paris'", "Paris"), marks="] and [get_time()]"),
    "llama4-pythonic": Spec(pythonic("[", "]"), style="list", bad=("'Paris'", "Paris"), marks="] and [get_time()]"),
    "toolace": Spec(pythonic("[", "]"), style="list", bad=("'Paris'", "Paris"), marks="] and [get_time()]"),
    "lfm2": Spec(
        pythonic("<|tool_call_start|>[", "]<|tool_call_end|>"),
        style="list",
        thinking=TIGHT,
        bad=("'Paris'", "Paris"),
        marks="<|tool_call_end|>",
    ),
    "olmo3": Spec(
        pythonic("<function_calls>", "</function_calls>", "\n"),
        thinking=TIGHT,
        bad=("'Paris'", "Paris"),
        marks="</function_calls>",
    ),
    "functiongemma": Spec(
        braces("<start_function_call>call:", "<end_function_call>", "<escape>"),
        bad=("Paris<escape>", "Paris"),
        marks="<end_function_call> and {",
    ),
    "gemma4": Spec(
        braces("<|tool_call>call:", "<tool_call|>", '<|"|>'),
        thinking=("<|channel>thought\n", "<channel|>"),
        bad=('Paris<|"|>', "Paris"),
        marks="<tool_call|> and {",
    ),
    "harmony": Spec(
        harmony,
        thinking=("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"),
        marks="<|call|>, <|end|> and <|start|>",
        words=("<|channel|>final<|message|>", "<|end|><|start|>assistant"),
    ),
    "tagged": Spec(
        objects("~~~tool_call\n", "\n~~~\n", ""),
        marks="~~~ and ~~~tool_call",
        words=("", "\n"),
        bad=('"Paris"', "Paris"),
    ),
}

PARIS: Call = ("get_weather", {"city": "Paris"})
LONDON: Call = ("get_weather", {"city": "London"})
NOW: Call = ("get_time", {})
UTC: Call = ("get_time", {"timezone": "UTC"})
UNKNOWN: Call = ("launch", {"city": "Paris"})
HARD = 'He said "hi", C:\\temp\\new, a tab\there,\nand a line; it\'s 100% {ok} [1] <b>.'
FOREIGN = (
    '<tool_calls>[{"name": "get_time", "arguments": {}}]</tool_calls> or ~~~tool_call {} or [get_time()] or functools[]'
)
ISSUES = {
    "parallel": "ggml-org/llama.cpp#20260: parallel calls came as text",
    "text after": "vllm-project/vllm parser/minimax_m3.py 2d7b9a7: text after a block is dropped, on purpose",
    "broken then whole": "vllm-project/vllm#44873: parsers of single models, each wrong in its own way",
    "a list that is cut": "vllm-project/vllm#44873: parsers of single models, each wrong in its own way",
    "call in a closed thought": "vllm-project/vllm#39885: reasoning and calls run into each other",
    "text around": "ai-dynamo/dynamo#9593: marks leak into the text",
}


def case(kind_of_case: str, text: str, calls: list[Call] | None = None, **more: Any) -> dict[str, Any]:
    expected = {
        "content": more.get("content", ""),
        "thinking": more.get("thinking", ""),
        "calls": [{"name": name, "arguments": given} for name, given in calls or []],
        "broken": more.get("broken", []),
    }
    made = {"kind": kind_of_case, "text": text.removesuffix("<|start|>assistant"), "expected": expected}
    issue = more.get("issue") or ISSUES.get(kind_of_case)
    return {**made, "issue": issue} if issue else made


def cases(name: str, spec: Spec) -> Iterator[dict[str, Any]]:
    write = spec.write

    def say(words: str) -> str:
        return f"{spec.words[0]}{words}{spec.words[1]}" if words else ""

    def one(given: dict[str, Any], tool: str = "search") -> list[Call]:
        return [(tool, given)]

    tail = say("Done.").removesuffix("<|start|>assistant") if name == "harmony" else say("Done.")
    yield case("single", write([PARIS]), [PARIS])
    yield case("parallel", write([PARIS, UTC]), [PARIS, UTC])
    yield case("three", write([PARIS, UTC, LONDON]), [PARIS, UTC, LONDON])
    yield case("the same twice", write([PARIS, PARIS]), [PARIS, PARIS])
    yield case("none", say("There is nothing to call."), content="There is nothing to call.")
    lone = "If a < b and c > d, take {x}, [y], <z> or x|y; 1 <2 [3]."
    yield case("lone characters of marks", say(lone), content=lone)
    yield case("empty arguments", write([NOW]), [NOW])
    for place, text in enumerate(spec.empties):
        yield case(f"empty arguments, spelling {place + 2}", text, [NOW])
    for label, given in VALUES.items():
        yield case(label, write(one(given)), one(given))
    marked = one({"query": f"see {spec.marks} here"})
    yield case("marks in a text", write(marked), marked)
    if spec.bad[1] == "" and spec.bad[0] != f"{M3}</city>":
        end = spec.bad[0].strip()
        ended = one({"query": f"use {end} and {spec.marks}; then {end}."})
        yield case("end marks of its own in a text", write(ended), ended)
    foreign = one({"query": FOREIGN})
    yield case("another format in a text", write(foreign), foreign)
    yield case("text before", say("Let me look.") + write([PARIS]), [PARIS], content="Let me look.")
    yield case("text after", write([PARIS]) + joint(name) + tail, [PARIS], content="Done.")
    yield case("text around", say("First.") + write([PARIS]) + joint(name) + tail, [PARIS], content="First.Done.")
    between = write([PARIS]) + joint(name) + say("Then.") + write([UTC])
    yield case("text between", between, [PARIS, UTC], content="Then.")
    yield case("several blocks", write([PARIS]) + joint(name, "\n") + write([UTC]), [PARIS, UTC])
    yield from cut_cases(spec)
    yield from odd_cases(name, spec, say)
    if spec.thinking is not None:
        yield from thought_cases(spec, say)
    if spec.bare is not None:
        yield case("without the wrapper", spec.bare([PARIS]), [PARIS])
    video = one({"path": "a.mp4"}, "read_video")
    yield case("a mark's word in a name", write(video), video)
    for names, label, issue, text, calls, *more in DIFFERING:
        if name in names.split():
            yield case(label, text_for(name, text), calls, issue=issue, **(more[0] if more else {}))


VALUES: dict[str, dict[str, Any]] = {
    "nested": {"filter": {"lang": "de", "min": 3}, "tags": ["a", "b c"]},
    "empty list and object": {"tags": [], "filter": {}},
    "escapes": {"query": HARD},
    "Unicode": {"query": "Zürich 東京 🌧️ שלום e\u0301 \u2028 ¿?"},
    "types": {"limit": 42, "exact": True, "score": -1.5, "note": None},
    "numbers": {"limit": -7, "score": 1e-07, "exact": False},
    "a number in a text": {"query": "007"},
    "true in a text": {"query": "true"},
    "null in a text": {"query": "null"},
    "JSON in a text": {"query": '{"a": [1, "b"]}'},
    "an empty text": {"query": ""},
    "blanks in a text": {"query": "  two before, two after  "},
    "lines in a text": {"query": "def f():\n    return 1\n\n\nf()"},
    "entities": {"query": "a &lt; b &amp;&amp; c &quot;d&quot; &#39;"},
    "tags in a text": {"query": '<div class="a">x</div><br/>'},
    "a long text": {"query": "lorem ipsum " * 120},
}


QUERY = "search"
WORDS = {"content": "I look."}
NO_OPENING = f"I look.\n{CODER_CALLS([PARIS])}\n</tool_call>"
FAMILY = "qwen3-coder nemotron-3 mimo step3p5"


def coder(calls: list[Call]) -> str:
    return "\n".join(f"<tool_call>\n{CODER_CALLS([each])}\n</tool_call>" for each in calls)


def one_json(call: Call) -> str:
    return dump({"name": call[0], "arguments": call[1]})


def lfm(inner: str) -> str:
    return f"<|tool_call_start|>[{inner}]<|tool_call_end|>"


def harmony_to(head: str, name: str = "get_weather") -> str:
    return f'{head.replace("NAME", f"functions.{name}")}<|message|>{{"city": "Paris"}}'


def m3(inner: str, name: str = "search") -> str:
    return f'{M3}<tool_call>\n{M3}<invoke name="{name}">{inner}{M3}</invoke>\n{M3}</tool_call>'


def dsml(inner: str) -> str:
    return f'<｜DSML｜invoke name="search">\n{inner}</｜DSML｜invoke>\n'


def said_as_text(key: str, value: str) -> str:
    return f'<｜DSML｜parameter name="{key}" string="true">{value}</｜DSML｜parameter>\n'


SHELL = "ls && echo \"a > b\" | grep -F ']'"
CODE = "x = {'a': [1, 2]}\nprint(x, sep=',')"
BRACKETS = "Say: [City] - [Weather], {x} and [1, [2]]."
THREE = [PARIS, UTC, LONDON]
HIT: list[Call] = [(QUERY, {"query": SHELL})]

# Where engines were known to differ: the formats, the kind, where it is told, the text, what it says.
DIFFERING: list[tuple[Any, ...]] = [
    (FAMILY, "no opening mark", "ollama/ollama#16686: the call came as text", NO_OPENING, [PARIS], WORDS),
    (
        FAMILY,
        "words, a thought, three calls",
        "ggml-org/llama.cpp#20260: an error after words before the mark",
        f"<think>\nThree.\n</think>\n\nI look.\n{coder(THREE)}",
        THREE,
        {"content": "I look.", "thinking": "Three."},
    ),
    (FAMILY, "a shell line", "ollama/ollama#12357: & in a value was an XML error", coder(HIT), HIT),
    (
        "qwen3-coder",
        "words before",
        "ggml-org/llama.cpp#15012: with words before it, the call came as text",
        f"Both cities, then.\n\n{coder([PARIS])}",
        [PARIS],
        {"content": "Both cities, then."},
    ),
    (
        "qwen3-coder",
        "a pattern",
        "vllm-project/vllm#22975: the call stayed in the text",
        "I look.\n\n" + coder([(QUERY, {"query": "class Base\\("})]),
        [(QUERY, {"query": "class Base\\("})],
        WORDS,
    ),
    (
        "qwen3-coder",
        "a value of many lines",
        "vllm-project/vllm#30439: arguments were not streamed",
        coder([(QUERY, {"query": f"{CODE}\n" * 40})]),
        [(QUERY, {"query": f"{CODE}\n" * 40})],
    ),
    (
        "hermes qwen25 qwen3 granite4",
        "a value without quotes at the end",
        "vllm-project/vllm#19056: the last value was lost in streams",
        '<tool_call>\n{"name": "search", "arguments": {"query": "x", "exact": true}}\n</tool_call>',
        [(QUERY, {"query": "x", "exact": True})],
    ),
    (
        "qwen25",
        "three calls in a stream",
        "InternLM/lmdeploy#3412: an error after the first of several calls",
        objects("<tool_call>\n", "\n</tool_call>")(THREE),
        THREE,
    ),
    (
        "hermes qwen25",
        "arguments as a text",
        "vllm-project/vllm tests/tool_parsers/test_hermes_tool_parser.py 0eb73d6: they were encoded twice",
        '<tool_call>\n{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}\n</tool_call>',
        [PARIS],
    ),
    (
        "hermes qwen25 mistral-v3 llama3-json",
        "a list with something else in it",
        "sgl-project/sglang test_malformed_tool_call_payloads.py 11d40db: an error, and no call",
        {"mark": True},
        [PARIS],
    ),
    (
        "mistral mistral-v3",
        "a list after the mark",
        "ml-explore/mlx-lm#1374: only the newer way was known",
        f"[TOOL_CALLS][{dump({'name': 'get_weather', 'arguments': {'city': 'Paris'}, 'id': 'abcdefghi'})}]",
        [PARIS],
    ),
    (
        "mistral",
        "two calls, then words",
        "ml-explore/mlx-lm#1448: both calls were dropped",
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]get_time[ARGS]{"timezone": "UTC"}\n\nI look.',
        [PARIS, UTC],
        WORDS,
    ),
    (
        "mistral",
        "no mark before the arguments",
        "waybarrios/vllm-mlx#631: the mark became part of the name",
        '[TOOL_CALLS]get_weather{"city": "Paris"}[TOOL_CALLS]get_weather[ARGS]{"city": "London"}',
        [PARIS, LONDON],
    ),
    (
        "mistral mistral-v3",
        "a number at the end",
        "vllm-project/vllm#13622: a number in a stream was an error",
        '[TOOL_CALLS][{"name": "search", "arguments": {"query": "x", "limit": 42}}]',
        [(QUERY, {"query": "x", "limit": 42})],
    ),
    (
        "mistral mistral-v3",
        "brackets in a text",
        "sgl-project/sglang test/srt/test_function_call_parser.py 278e503: the list ended at the first bracket",
        f"[TOOL_CALLS] [{dump({'name': 'search', 'arguments': {'query': BRACKETS}})}]",
        [(QUERY, {"query": BRACKETS})],
    ),
    (
        "llama3-json llama4-json",
        "braces that are no call",
        "ggml-org/llama.cpp#20806: the text was cut at the first brace",
        'int main(void) { puts("hi"); return 0; } and {"a": 1}',
        [],
        {"content": 'int main(void) { puts("hi"); return 0; } and {"a": 1}'},
    ),
    (
        "llama3-json llama4-json",
        "a type beside the name",
        "vllm-project/vllm#46863: the call stayed in the text",
        '{"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}}',
        [PARIS],
    ),
    (
        "llama4-json",
        "marks of Python around JSON",
        "vllm-project/vllm#16214: the call stayed in the text",
        '<|python_start|>{"name": "get_weather", "parameters": {"city": "Paris"}}<|python_end|>',
        [PARIS],
    ),
    (
        "llama3-json",
        "broken, then whole",
        "sgl-project/sglang test_llama32_detector.py cc1f580: the second call was lost",
        '{"name": "get_weather", "parameters": {{"name": "get_weather", "parameters": {"city": "Paris"}}',
        [PARIS],
        {"broken": ["get_weather"]},
    ),
    ("lfm2", "a bracket in a text", "vllm-project/vllm#48171: dropped", lfm(f"search(query={SHELL!r})"), HIT),
    (
        "lfm2",
        "lines in a text of Python",
        "vllm-project/vllm#48171: dropped",
        lfm("search(query='cat << EOF\none\nEOF')"),
        [(QUERY, {"query": "cat << EOF\none\nEOF"})],
    ),
    (
        "lfm2 pythonic llama4-pythonic toolace",
        "a negative number, and a tuple",
        "vllm-project/vllm#48171: dropped",
        {"python": "search(score=-74.004, tags=('a', 'b'))"},
        [(QUERY, {"score": -74.004, "tags": ["a", "b"]})],
    ),
    (
        "lfm2 pythonic llama4-pythonic toolace",
        "a set, and zeros before a number",
        "vllm-project/vllm tests/tool_parsers/test_lfm2_tool_parser.py 011cde7: dropped",
        {"python": "search(tags={'a', 'b'}, limit=07)"},
        [(QUERY, {"tags": ["a", "b"], "limit": 7})],
    ),
    (
        "lfm2 pythonic llama4-pythonic toolace",
        "a comma between single quotes",
        "ml-explore/mlx-lm#1785: the value ended at the comma",
        {"python": "search(query='one, two, and three')"},
        [(QUERY, {"query": "one, two, and three"})],
    ),
    (
        "lfm2 pythonic llama4-pythonic toolace",
        "quotes in code",
        "ggml-org/llama.cpp#26658: an error in the stream",
        {"python": "search(query=\"plot(x, 'red', label='a')\")"},
        [(QUERY, {"query": "plot(x, 'red', label='a')"})],
    ),
    (
        "lfm2",
        "objects in an argument",
        "ml-explore/mlx-lm#1246: the call stayed in the text",
        lfm("search(filter={'lang': 'de', 'min': 3}, tags=['a', 'b'])"),
        [(QUERY, {"filter": {"lang": "de", "min": 3}, "tags": ["a", "b"]})],
    ),
    (
        "pythonic llama4-pythonic toolace lfm2",
        "a broken quote beside a call",
        "vllm-project/vllm tests/tool_parsers/test_pythonic_tool_parser.py 0716d26: both were lost",
        {"python": "get_weather(city='Paris'), search(query='x 'y', note='z')"},
        [PARIS],
        {"broken": ["search"]},
    ),
    (
        "pythonic llama4-pythonic toolace lfm2",
        "bytes beside a call",
        "vllm-project/vllm tests/tool_parsers/test_pythonic_tool_parser.py 0716d26: both were lost",
        {"python": "search(query=b'z'), get_weather(city='Paris')"},
        [PARIS],
        {"broken": ["search"]},
    ),
    (
        "pythonic lfm2 llama4-pythonic",
        "a link of Markdown",
        "ggml-org/llama.cpp tests/test-chat.cpp 0042e20: links were taken for calls",
        "See [get_weather](https://example.org) and [x](y).",
        [],
        {"content": "See [get_weather](https://example.org) and [x](y)."},
    ),
    (
        "kimi-k2",
        "three calls in one section",
        "vllm-project/vllm#24478: several calls were read wrongly",
        around("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", kimi)(THREE),
        THREE,
    ),
    (
        "kimi-k2",
        "calls in an open thought",
        "ggml-org/llama.cpp tests/test-chat.cpp 0042e20: without section and ends",
        (
            "<think>Two calls."
            '<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Paris"}'
            '<|tool_call_begin|>functions.get_time:1<|tool_call_argument_begin|>{"timezone": "UTC"}'
        ),
        [PARIS, UTC],
        {"thinking": "Two calls."},
    ),
    (
        "glm45 glm47 poolside-v1 ling3",
        "a number that is a text",
        "Blaizzy/mlx-vlm#2207: the type of the schema was not found",
        {"glm": "<arg_key>city</arg_key>\n<arg_value>10001</arg_value>\n"},
        [("get_weather", {"city": "10001"})],
    ),
    (
        "glm45 glm47 poolside-v1 ling3",
        "lines in an argument",
        "ggml-org/llama.cpp#15186: breaks became backslashes",
        {"glm": "<arg_key>city</arg_key>\n<arg_value>a\nb\nc</arg_value>\n"},
        [("get_weather", {"city": "a\nb\nc"})],
    ),
    (
        "glm47",
        "a stray end after a call",
        "guoqingbao/xinfer#392: the call came as text",
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call></tool_call>",
        [PARIS],
    ),
    (
        "glm47 glm45",
        "a name alone, after words",
        "ggml-org/llama.cpp#20650: a call without arguments was an error",
        "<think>I look.</think><tool_call>get_time</tool_call>",
        [NOW],
        {"thinking": "I look."},
    ),
    (
        "granite",
        "arguments before the name",
        "ollama/ollama#11505: no call was read",
        '<|tool_call|>[{"arguments": {"city": "Paris"}, "name": "get_weather"}]',
        [PARIS],
    ),
    (
        "deepseek-v32",
        "calls without their section",
        "sgl-project/sglang#24199: no call was read",
        dsml(said_as_text("query", "a")) + dsml(said_as_text("query", "b")),
        [(QUERY, {"query": "a"}), (QUERY, {"query": "b"})],
    ),
    (
        "deepseek-v32",
        "words, then a section",
        "sgl-project/sglang#17593: the calls came as text",
        f"I look.\n\n<｜DSML｜function_calls>\n{dsml(said_as_text('query', SHELL))}</｜DSML｜function_calls>",
        HIT,
        WORDS,
    ),
    (
        "deepseek-v32 deepseek-v4 gigachat35 minimax-m2 dots",
        "a call that closes itself",
        "sgl-project/sglang function_call/deepseekv4_detector.py 00a8f59: read there, and nowhere else",
        {"self-closing": True},
        [NOW],
    ),
    (
        "k2-horizon",
        "the call as JSON",
        "vllm-project/vllm#k2_horizon tests of tool parsers 0.33: a second form of the template",
        f"<ifm|tool_calls>\n<ifm|tool_call>{one_json(PARIS)}</ifm|tool_call>\n</ifm|tool_calls>",
        [PARIS],
    ),
    (
        "k2-horizon",
        "two calls as JSON, in one mark and in two",
        "vllm-project/vllm#k2_horizon tests of tool parsers 0.33: a second form of the template",
        (
            f"<ifm|tool_call>[{one_json(PARIS)}, {one_json(UTC)}]</ifm|tool_call>"
            f"<ifm|tool_call>{one_json(LONDON)}</ifm|tool_call>"
        ),
        [PARIS, UTC, LONDON],
    ),
    (
        "k2-horizon",
        "types beside the keys",
        "vllm-project/vllm#k2_horizon tests of tool parsers 0.33: a third form of the template",
        (
            "<ifm|tool_call>search\n<ifm|arg_key>limit</ifm|arg_key>\n<ifm|arg_type>integer</ifm|arg_type>\n"
            "<ifm|arg_value>3</ifm|arg_value>\n<ifm|arg_key>other</ifm|arg_key><ifm|arg_type>boolean</ifm|arg_type>"
            "<ifm|arg_value>true</ifm|arg_value>\n<ifm|arg_key>query</ifm|arg_key><ifm|arg_type>integer</ifm|arg_type>"
            "<ifm|arg_value>7</ifm|arg_value></ifm|tool_call>"
        ),
        [(QUERY, {"limit": 3, "other": True, "query": "7"})],
    ),
    (
        "k2-horizon",
        "a fast thought",
        "vllm-project/vllm#k2_horizon tests of tool parsers 0.33: marks for each effort",
        "<ifm|think_fast>I look.</ifm|think_fast>Yes.<ifm|think_faster>So.</ifm|think_faster>",
        [],
        {"thinking": "I look.So.", "content": "Yes."},
    ),
    (
        "functionary-v32",
        "a completion that begins with its recipient",
        "ggml-org/llama.cpp tests/test-chat.cpp 0042e20: the prompt ends with the mark",
        f"get_weather\n{dump({'city': 'Paris'})}>>>get_time\n{{}}>>>all\nI look.",
        [PARIS, NOW],
        WORDS,
    ),
    (
        "functionary-v32",
        "words that begin with their recipient",
        "ggml-org/llama.cpp tests/test-chat.cpp 0042e20: the prompt ends with the mark",
        "all\n>>> print(1) and all\nof it >> 2",
        [],
        {"content": ">>> print(1) and all\nof it >> 2"},
    ),
    (
        "dots",
        "the calls as JSON",
        "sgl-project/sglang#dots test_dots_tool_detector.py: JSON in place of the tags",
        (
            f"<dots_function_call>{one_json(PARIS)}\n{one_json(UTC)}</dots_function_call>\n"
            f"<dots_function_call>[{one_json(LONDON)}]</dots_function_call>"
        ),
        [PARIS, UTC, LONDON],
    ),
    (
        "kimi-k2",
        "a section without calls",
        "CanIToolCall 0.1.1, kimi/k2i-vllm-empty-tool-section: the marks came as text",
        "I look. <|tool_calls_section_begin|><|tool_calls_section_end|>",
        [],
        WORDS,
    ),
    (
        "mistral mistral-v3",
        "a mark at the end",
        "CanIToolCall 0.1.1, mistral/v13think-stop-at-open-marker: the mark came as text",
        "I look.[TOOL_CALLS]",
        [],
        WORDS,
    ),
    (
        f"hermes qwen3 {FAMILY} glm45 glm47",
        "a mark at the end, after words",
        "CanIToolCall 0.1.1, qwen3-xml/q38-truncated-at-tool-call-open: the mark came as text",
        "I look.\n\n<tool_call>\n",
        [],
        WORDS,
    ),
    (
        "mistral",
        "a thought between tags",
        "vllm-project/vllm parser/mistral.py ce67e59: of Magistral 2506",
        "<think>\nI look.\n</think>\nYes.",
        [],
        {"thinking": "I look.", "content": "Yes."},
    ),
    (
        "kimi-k3",
        "words alone",
        "CanIToolCall 0.1.1, kimi/k3-bug-response-only-completion: the marks came as text",
        "<|open|>response<|sep|>I look.<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>",
        [],
        WORDS,
    ),
    (
        "kimi-k3",
        "words that the prompt has begun",
        "CanIToolCall 0.1.1, kimi/k3-thinking-disabled-no-call: the marks came as text",
        "I look.<|close|>response<|sep|><|close|>message<|sep|>",
        [],
        WORDS,
    ),
    (
        "kimi-k3",
        "arguments as JSON",
        "ggml-org/llama.cpp models/templates/Kimi-K3.jinja 181a4a8: a second form of the template",
        (
            '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>json type="object"<|sep|>'
            '{"city": "Paris"}<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|>'
        ),
        [PARIS],
    ),
    (
        "gigachat3",
        "the end of a turn",
        "vllm-project/vllm tests of tool parsers 0.33: the mark came as text",
        "I look.</s>",
        [],
        WORDS,
    ),
    (
        "deepseek-v32 deepseek-v4",
        "a number that is said to be a text",
        "vllm-project/vllm tests/tool_parsers/test_deepseekv32_tool_parser.py 0081655: the schema has the last word",
        dsml(said_as_text("limit", "42") + said_as_text("filter", '{"lang": "de"}')),
        [(QUERY, {"limit": 42, "filter": {"lang": "de"}})],
    ),
    (
        "deepseek-v3",
        "a call without its object",
        "unslothai/unsloth#5624: the name ran into the next call",
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time<｜tool▁call▁end｜>\n"
            f"{V3([PARIS])}<｜tool▁calls▁end｜>"
        ),
        [NOW, PARIS],
    ),
    (
        "minimax-m2",
        "null where null may be",
        "vllm-project/vllm#32342: a text became null",
        (
            '<minimax:tool_call>\n<invoke name="search">\n<parameter name="note">nullable</parameter>\n</invoke>\n'
            '<invoke name="search">\n<parameter name="note">null</parameter>\n</invoke>\n</minimax:tool_call>'
        ),
        [(QUERY, {"note": "nullable"}), (QUERY, {"note": None})],
    ),
    (
        "minimax-m3",
        "an end of a thought at the beginning",
        "ggml-org/llama.cpp#24523: an error",
        "</mm:think>" + m3(f"{M3}<query>x{M3}</query>"),
        [(QUERY, {"query": "x"})],
    ),
    (
        "minimax-m3",
        "an object in a choice",
        "ml-explore/mlx-lm#1416: everything was a text",
        m3(f"{M3}<part>{M3}<begin>1{M3}</begin>{M3}<end>2{M3}</end>{M3}</part>", "read_video"),
        [("read_video", {"part": {"begin": 1, "end": 2}})],
    ),
    (
        "minimax-m3",
        "blanks at the end of a text",
        "sgl-project/sglang test_minimax_m3_detector.py 0f68937: they were taken off",
        m3(f"{M3}<query>two after  {M3}</query>"),
        [(QUERY, {"query": "two after  "})],
    ),
    (
        "gemma4",
        "a call alone",
        "ml-explore/mlx-lm#1096: the call stayed in the text",
        '<|tool_call>call:get_time{timezone:<|"|>Asia/Tokyo<|"|>}<tool_call|>',
        [("get_time", {"timezone": "Asia/Tokyo"})],
    ),
    (
        "gemma4",
        "plain quotes in a text",
        "ollama/ollama#15241: an error",
        '<|tool_call>call:search{query:<|"|>say "hi", then "bye"<|"|>,limit:2}<tool_call|>',
        [(QUERY, {"query": 'say "hi", then "bye"', "limit": 2})],
    ),
    (
        "gemma4",
        "a number that ends with its point",
        "vllm-project/vllm#42047: digits were moved",
        "<|tool_call>call:search{score:108.,limit:22}<tool_call|>",
        [(QUERY, {"score": 108, "limit": 22})],
    ),
    (
        "gemma4",
        "two thoughts",
        "vllm-project/vllm#39885: thoughts came as text",
        "<|channel>thought\nOne.<channel|><|channel>Two.<channel|>I look.",
        [],
        {"content": "I look.", "thinking": "One.Two."},
    ),
    (
        "functiongemma",
        "no comma between arguments",
        "vllm-project/vllm tests/tool_parsers/test_functiongemma_tool_parser.py 26c3628: no JSON came of it",
        "<start_function_call>call:search{query:<escape>x<escape>limit:3}<end_function_call>",
        [(QUERY, {"query": "x", "limit": 3})],
    ),
    (
        "harmony",
        "the tool beside the role",
        "ggml-org/llama.cpp#15181: no call was read",
        "<|channel|>analysis<|message|>I look.<|end|>"
        + harmony_to("<|start|>assistant to=NAME<|channel|>commentary <|constrain|>json"),
        [PARIS],
        {"thinking": "I look."},
    ),
    (
        "harmony",
        "the tool in the channel of thoughts",
        "waybarrios/vllm-mlx#562: no call was read",
        "<|channel|>analysis<|message|>I look.<|end|>"
        + harmony_to("<|start|>assistant<|channel|>analysis to=NAME code")
        + "<|call|>",
        [PARIS],
        {"thinking": "I look."},
    ),
    (
        "harmony",
        "blanks after marks",
        "ggml-org/llama.cpp tests/test-chat.cpp 0042e20: of LLM-jp",
        harmony_to("<|channel|> commentary to=NAME")
        + "<|end|>"
        + harmony_to("<|start|> assistant to=NAME<|channel|> commentary <|constrain|>  json"),
        [PARIS, PARIS],
    ),
    (
        "harmony",
        "a completion that begins with its recipient",
        "ggml-org/llama.cpp tests/test-chat.cpp 0042e20: without the role, which the prompt ends with",
        harmony_to(" to=NAME<|channel|>commentary <|constrain|>json"),
        [PARIS],
    ),
    (
        "harmony",
        "a recipient in the channel of thoughts",
        "ggml-org/llama.cpp tests/test-chat.cpp 0042e20: without the role, which the prompt ends with",
        harmony_to(" to=NAME<|channel|>analysis <|constrain|>json") + "<|call|>",
        [PARIS],
    ),
    (
        "harmony",
        "a header that is cut",
        "CanIToolCall 0.1.1, gpt-oss/harmony-truncated-in-header: the header came as text",
        "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant to=functions.get_weather<|channel|>comm",
        [],
        {"thinking": "I look.", "broken": ["get_weather"]},
    ),
    (
        "harmony",
        "a tool that the model was trained with",
        "CanIToolCall 0.1.1, gpt-oss/llamacpp-builtin-python-recipient: the message came as text",
        "<|channel|>commentary to=python <|constrain|>code<|message|>print(1)",
        [],
        {"broken": ["python"]},
    ),
    (
        "cohere-command3 cohere-command4",
        "a broken value, and no comma",
        "ollama/ollama model/parsers/cohere_test.go 0d13c18: the other calls were lost",
        (
            '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "search", "parameters": {"limit": 15:30}}'
            '{"tool_call_id": "1", "tool_name": "get_weather", "parameters": {"city": "Paris"}}]<|END_ACTION|>'
        ),
        [PARIS],
        {"broken": ["search"]},
    ),
    (
        "step3",
        "a mark between calls",
        "vllm-project/vllm tests/tool_parsers/test_step3_tool_parser.py 04b590e: marked as failing there",
        "<｜tool_calls_begin｜>"
        + "<｜tool_sep｜>".join(STEP3([each]).replace("function<｜tool_sep｜>", "") for each in [PARIS, UTC])
        + "<｜tool_calls_end｜>",
        [PARIS, UTC],
    ),
    (
        "phi4-mini",
        "objects in arguments",
        "vllm-project/vllm tests/tool_parsers/test_phi4mini_tool_parser.py 2471a1c: marked as failing there",
        'functools[{\n "name": "search",\n "arguments": {"filter": {"lang": "de"}, "tags": ["a"]}\n}]',
        [(QUERY, {"filter": {"lang": "de"}, "tags": ["a"]})],
    ),
    (
        "olmo3",
        "a broken line, and a whole one",
        "vllm-project/vllm tests/tool_parsers/test_olmo3_tool_parser.py 2aac44d: both were lost",
        "<function_calls>search(query=b'z')\nget_weather(city='Paris')</function_calls>",
        [PARIS],
        {"broken": ["search"]},
    ),
    (
        "seed-oss",
        "a thought with a mark of its own",
        "sipeed/picoclaw#3153: the marks came as text",
        (
            "<seed:think>Half of it is used.</seed:cot_budget_reflect> I look.</seed:think>\n"
            f"<seed:tool_call>\n{SEED([PARIS])}\n</seed:tool_call>"
        ),
        [PARIS],
        {"thinking": "Half of it is used.</seed:cot_budget_reflect> I look."},
    ),
    (
        "minicpm5",
        "a mark around the arguments",
        "ollama/ollama model/parsers/minicpm5_test.go a7f786f",
        '<function name="get_weather"><arguments><param name="city">Paris</param></arguments></function>',
        [PARIS],
    ),
    (
        "minicpm5",
        "an end in CDATA",
        "ggml-org/llama.cpp tests/test-chat.cpp 0042e20",
        '<function name="search"><param name="query"><![CDATA[<b>x</b> </param> y]]></param></function>',
        [(QUERY, {"query": "<b>x</b> </param> y"})],
    ),
    (
        "muse-glimmer",
        "heads of messages",
        "ollama/ollama model/parsers/glimmer_test.go 43f4eda: the head came as text",
        (
            " to=self<|message|>I look.<|eom|><|start|>assistant to=get_weather<|message|><atem:function_calls>\n"
            '<atem:invoke name="get_weather">\n<atem:parameter name="city">Paris</atem:parameter>\n</atem:invoke>\n'
            "</atem:function_calls><|eom|><|start|>assistant to=user<|message|>Done.<|eot|>"
        ),
        [PARIS],
        {"thinking": "I look.", "content": "Done."},
    ),
]


def text_for(name: str, text: Any) -> str:
    """Give a text that several formats share but for their marks."""
    match text:
        case {"python": inner}:
            return lfm(inner) if name == "lfm2" else f"[{inner}]"
        case {"glm": inner}:
            inner = inner.replace("\n<arg", "<arg").removesuffix("\n") if name == "glm47" else inner
            return f"<tool_call>get_weather{'' if name == 'glm47' else chr(10)}{inner}</tool_call>"
        case {"self-closing": True}:
            section = SPECS[name].write([NOW])
            begin, _, end = section.partition(SPECS[name].bare([NOW]))  # type: ignore[misc]
            prefix = {"deepseek-v32": "｜DSML｜", "deepseek-v4": "｜DSML｜", "gigachat35": "｜GCML｜"}.get(name, "")
            return f'{begin}<{prefix}invoke name="get_time"/>\n{end}'
        case {"mark": True}:
            inner = f'[{dump({"name": "get_weather", "arguments": {"city": "Paris"}})}, "junk"]'
            begin = {"mistral-v3": "[TOOL_CALLS] ", "llama3-json": "<|python_tag|>"}.get(name)
            return f"<tool_call>\n{inner}\n</tool_call>" if begin is None else f"{begin}{inner}"
    return str(text)


def joint(name: str, text: str = "") -> str:
    return "<|start|>assistant" if name == "harmony" else text


def cut_cases(spec: Spec) -> Iterator[dict[str, Any]]:
    one, two = spec.write([PARIS]), spec.write([PARIS, LONDON])
    yield case("cut in the name", (text := one[: one.index("get_weather") + 3]), content=text)
    broken = ["get_weather"]
    yield case("cut in an argument", one[: one.index("Paris") + 2], broken=broken)
    yield case("cut after a value", one[: one.index("Paris") + 5], broken=broken)
    cut = two[: two.index("London") + 2]
    if spec.style == "list":
        yield case("a list that is cut", cut, broken=[*broken, *broken])
    else:
        yield case("whole, then cut", cut, [PARIS], broken=broken)


def odd_cases(name: str, spec: Spec, say: Any) -> Iterator[dict[str, Any]]:
    old, new = spec.bad
    bad = spec.write([PARIS]).replace(old, new, 1)
    yield case("malformed", bad, broken=["get_weather"])
    mixed = spec.write([PARIS, UTC]).replace(old, new, 1)
    yield case("broken then whole", mixed, [UTC], broken=["get_weather"])
    two = spec.write([UTC, PARIS])
    yield case("whole then broken", new.join(two.rsplit(old, 1)), [UTC], broken=["get_weather"])
    unknown = spec.write([UNKNOWN])
    yield case("an unknown tool", unknown, content=unknown)
    yield case("an unknown tool in words", say("So:") + unknown, content="So:" + joint(name) + unknown)


def thought_cases(spec: Spec, say: Any) -> Iterator[dict[str, Any]]:
    begin, end = spec.thinking or ("", "")
    yield case("thought", f"{begin}Let me see.{end}" + say("Yes."), content="Yes.", thinking="Let me see.")
    yield case("thought, then call", f"{begin}Let me see.{end}" + spec.write([PARIS]), [PARIS], thinking="Let me see.")
    text = f"{begin}Let me see.{end}" + say("I look.") + spec.write([PARIS, UTC])
    yield case("thought, text, calls", text, [PARIS, UTC], content="I look.", thinking="Let me see.")
    inner = spec.write([PARIS])
    if end not in inner and "<|end" not in end:
        thought = f"Shall I say {inner} now?"
        yield case("call in a closed thought", f"{begin}{thought}{end}" + say("No."), content="No.", thinking=thought)
        yield case("an empty thought", f"{begin}{end}" + spec.write([PARIS]), [PARIS])


def files() -> dict[str, str]:
    """Give what stands in each file."""
    made = {"tools.json": TOOLS}
    for name, spec in SPECS.items():
        made[f"{name}.json"] = {"format": name, "tools": "tools.json", "cases": list(cases(name, spec))}  # type: ignore[assignment]
    return {name: json.dumps(value, ensure_ascii=False, indent=1) + "\n" for name, value in made.items()}


if __name__ == "__main__":
    written = files()
    if "--check" in sys.argv:
        stale = [name for name, text in written.items() if (FOLDER / name).read_text("utf-8") != text]
        sys.exit(f"stale: {stale}" if stale else 0)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for name, text in written.items():
        (FOLDER / name).write_text(text, "utf-8")
    print(f"{len(SPECS)} formats, {sum(len(list(cases(n, s))) for n, s in SPECS.items())} cases")
