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
    "kimi-k2": Spec(
        around("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", kimi),
        thinking=TIGHT,
        marks="<|tool_call_end|>",
        bare=kimi,
    ),
    "mistral": Spec(headed("[TOOL_CALLS]", "[ARGS]", ""), thinking=("[THINK]", "[/THINK]"), marks="[TOOL_CALLS]"),
    "mistral-v3": lists("[TOOL_CALLS] ", ""),
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
    "gigachat35": invoke("｜GCML｜", "｜GCML｜tool_calls", ' name="KEY" string="IS_TEXT">VALUE'),
    "dots": invoke("", "dots_function_call"),
    "muse-glimmer": invoke("atem:", "atem:function_calls"),
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
    "minimax-m3": Spec(elements(M3), thinking=TIGHT, bad=(f"{M3}</city>", ""), marks="</invoke> and <tool_call>"),
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
    "text after": "vLLM drops text after a tool block (comment in vllm/parser/minimax_m3.py)",
    "broken then whole": "vllm-project/vllm#44873: parsers of single models, each wrong in its own way",
    "a list that is cut": "vllm-project/vllm#44873: parsers of single models, each wrong in its own way",
    "call in a closed thought": "vllm-project/vllm#39885: reasoning and calls run into each other",
    "text around": "ai-dynamo/dynamo PR#9593: marks leak into the text",
}


def case(kind_of_case: str, text: str, calls: list[Call] | None = None, **more: Any) -> dict[str, Any]:
    expected = {
        "content": more.get("content", ""),
        "thinking": more.get("thinking", ""),
        "calls": [{"name": name, "arguments": given} for name, given in calls or []],
        "broken": more.get("broken", []),
    }
    made = {"kind": kind_of_case, "text": text.removesuffix("<|start|>assistant"), "expected": expected}
    return {**made, "issue": ISSUES[kind_of_case]} if kind_of_case in ISSUES else made


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
