"""How texts are read: what counts as a call, what stays words, and how long it takes."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amounts import FULL
from tests.text.offers import SHAPES, TOOLS, raw_block, read
from tests.timing import least
from toolwire import CallEnd, TextDelta, Thinking, Tool, ToolCall, accumulate
from toolwire.text import format, names
from toolwire.text.rows import bare_mark, rows

CALL = '<tool_call>\n{"name": "f", "arguments": {"s": "x"}}\n</tool_call>'


def calls(response: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in response.tool_calls if call.runs]


def test_only_offered_tools_become_calls() -> None:
    form = format("hermes")
    assert calls(read(form, CALL, tools=None)) == [("f", {"s": "x"})]
    assert calls(read(form, CALL, tools=[])) == []
    assert read(form, CALL, tools=["g"]).content == CALL
    assert calls(read(form, CALL, tools=["f"])) == [("f", {"s": "x"})]


def test_a_call_is_told_as_soon_as_it_is_whole() -> None:
    stream = format("hermes").decode_stream(TOOLS)
    events = stream.feed(CALL.removesuffix("\n</tool_call>"))
    assert [event.call.name for event in events if isinstance(event, CallEnd)] == ["f"]


def test_words_wait_for_one_mark_and_no_longer() -> None:
    stream = format("hermes").decode_stream(TOOLS)
    told = [
        [event.text for event in stream.feed(piece) if isinstance(event, TextDelta)]
        for piece in ("ab <", "b> <tool", "_x")
    ]
    assert told == [["ab "], ["<b> "], ["<tool_x"]]


@pytest.mark.parametrize(
    ("text", "thought", "words", "found"),
    [
        (f"<think>Say {CALL} or not</think>No.", f"Say {CALL} or not", "No.", 0),
        (f"<think>I call.\n{CALL}", "I call.\n", None, 1),
        (f"<think>I say {CALL} and go on", f"I say {CALL} and go on", None, 0),
    ],
)
def test_a_call_in_a_thought(text: str, thought: str, words: str | None, found: int) -> None:
    for pieces in ([text], list(text)):
        response = read(format("hermes"), text, pieces)
        assert "".join(part.text for part in response.message.parts if isinstance(part, Thinking)) == thought
        assert (response.content, len(calls(response))) == (words, found)


@pytest.mark.parametrize(
    ("name", "text"), [("qwen3", "Hi<|im_end|>"), ("minimax-m2", "Hi[e~["), ("kimi-k2", "Hi<|im_end|>")]
)
def test_the_mark_that_ends_a_turn_is_no_word(name: str, text: str) -> None:
    assert format(name).decode(text, TOOLS).content == "Hi"
    assert format("mistral").decode("<s>no</s>", TOOLS).content == "<s>no</s>"


def test_a_thought_that_was_cut_calls_nothing() -> None:
    response = format("hermes").decode(f"<think>I call.\n{CALL}", TOOLS, whole=False)
    assert (response.tool_calls, response.finish_reason) == ([], "incomplete")


def test_an_answer_may_begin_in_a_thought() -> None:
    response = format("qwen3").decode("Hm.\n</think>\n\nYes.", TOOLS, thinking=True)
    assert [type(part).__name__ for part in response.message.parts] == ["Thinking", "Text"]
    assert response.content == "Yes."


def test_a_broken_call_does_not_take_its_siblings_with_it() -> None:
    text = (
        "<tool_call>\n<function=f>\n<parameter=s>\nParis\n</function>\n</tool_call>\n"
        "<tool_call>\n<function=f>\n<parameter=s>\nRome\n</parameter>\n</function>\n</tool_call>"
    )
    for pieces in ([text], list(text)):
        response = read(format("qwen3-coder"), text, pieces)
        assert calls(response) == [("f", {"s": "Rome"})]
        assert [call.name for call in response.broken_calls] == ["f"]


def named_arguments() -> Iterator[tuple[str, str, str]]:
    """Give the formats in which arguments have a name, with a call of theirs and that name."""
    for name in names():
        good = format(name).encode_call(ToolCall("c1", "f", {"s": "x"})).text
        for key in ("arguments", "parameters"):
            if re.search(rf"""["']{key}["']\s*:""", good):
                yield name, good, key


@pytest.mark.parametrize(("name", "good", "key"), [*named_arguments()])
def test_a_call_does_not_run_without_arguments_that_stand_elsewhere(
    name: str, good: str, key: str, tally: Counter[str]
) -> None:
    form = format(name)
    assert calls(read(form, good)) == [("f", {"s": "x"})]
    for other in ("args", "input", "params"):
        misspelled = read(form, good.replace(key, other))
        assert [(call.name, call.runs) for call in misspelled.message.parts if type(call) is ToolCall] == [("f", False)]
        assert f"under {key!r}, not under {other!r}" in str(misspelled.broken_calls[0].error)
    bare = read(form, re.sub(rf"""(["']){key}["']\s*:\s*\{{(.*?)\}}""", r"\2", good))
    assert not calls(bare), good
    tally["formats in which no misplaced argument is left out"] += 1


def test_an_argument_without_its_end_is_ended_by_the_next_one_of_the_tool() -> None:
    text = "<function=f>\n<parameter=s>\nTX\n<parameter=i>\n4\n</parameter>\n</function>"
    assert calls(read(format("qwen3-coder"), text)) == [("f", {"s": "TX", "i": 4})]
    kept = "<function=f>\n<parameter=s>\nsee\n<parameter=other>\n4\n</parameter>\n</function>"
    assert calls(read(format("qwen3-coder"), kept)) == [("f", {"s": "see\n<parameter=other>\n4"})]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("5", {"type": "integer"}, 5),
        ("5", {"type": "string"}, "5"),
        ("5", {}, "5"),
        ("5.5", {"type": "number"}, 5.5),
        ("True", {"type": "boolean"}, True),
        ("null", {"type": ["string", "null"]}, None),
        ("null", {"type": "string"}, "null"),
        ("[1, 2]", {"type": "array"}, [1, 2]),
        ("{'a': True}", {"type": "object"}, {"a": True}),
        ("7", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 7),
        ("7", {"$ref": "#/$defs/whole"}, 7),
        ("two", {"type": "integer"}, "two"),
        ("a &lt; b", {"type": "string"}, "a &lt; b"),
        ("b", {"enum": ["a", "b"]}, "b"),
    ],
)
def test_the_schema_says_what_a_text_is(text: str, kind: dict[str, Any], value: Any) -> None:
    schema = {"type": "object", "properties": {"k": kind}, "$defs": {"whole": {"type": "integer"}}}
    tool = {"name": "t", "description": "", "parameters": schema}
    response = read(
        format("glm47"), f"<tool_call>t<arg_key>k</arg_key><arg_value>{text}</arg_value></tool_call>", tools=[tool]
    )
    [call] = response.tool_calls
    assert (call.arguments["k"], type(call.arguments["k"])) == (value, type(value))


def test_the_mark_after_a_call_may_be_missing_where_the_model_stops() -> None:
    text = '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"s": "<|call|>"}'
    assert calls(read(format("gpt-oss"), text)) == [("f", {"s": "<|call|>"})]
    assert calls(read(format("gpt-oss"), text[:-1])) == []
    heads = (
        "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>",
        "<|channel|>commentary to=f<|message|>",
    )
    for head in heads:
        assert calls(read(format("harmony"), head + '{"s": "x"}<|call|>')) == [("f", {"s": "x"})]


def test_ids_of_a_text_are_kept_and_others_derived() -> None:
    text = '[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{"s": "x"}[TOOL_CALLS]g[ARGS]{}'
    first, second = read(format("mistral"), text).tool_calls
    assert first.id == "abcdefghi"
    again = read(format("mistral"), text, list(text)).tool_calls
    assert [call.id for call in again] == [first.id, second.id]
    assert read(format("mistral"), text, seed="2").tool_calls[1].id != second.id


@given(st.sampled_from(sorted(SHAPES.values())), st.lists(st.integers(0, 40), max_size=12), st.randoms())
def test_any_text_is_read_and_none_is_lost(name: str, picks: list[int], chance: Any) -> None:
    row = rows()[name]
    marks = [*row.call, *row.argument, row.value, *row.quotes, *(row.wrap or ()), *(row.thinking or ()), *row.noise]
    bits = [bare_mark(mark) for mark in marks if mark] + [
        '{"name": "f"',
        '"arguments": {',
        "}",
        "[",
        "f(",
        ")",
        '"',
        "\\",
        "word",
        "f",
        "\n",
    ]
    text = "".join(bits[pick % len(bits)] for pick in picks)
    whole = read(format(name), text)
    places = sorted(chance.randrange(len(text) + 1) for _ in range(3))
    pieces = [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True)]
    assert read(format(name), text, pieces).message == whole.message
    if "word" in text and not whole.tool_calls and not whole.broken_calls:
        said = "".join(getattr(part, "text", "") for part in whole.message.parts)
        assert said.count("word") == text.count("word")


def seconds(name: str, text: str, step: int) -> float:
    def read_all() -> None:
        stream = format(name).decode_stream(TOOLS)
        for place in range(0, len(text), step):
            stream.feed(text[place : place + step])
        stream.close()

    return least(read_all, 1)


LONG = 100_000 if FULL else 20_000
TIMED = [("hermes", 2_000), *(pytest.param(name, LONG, marks=pytest.mark.slow) for name in SHAPES.values())]


@pytest.mark.parametrize(("name", "size"), TIMED)
@pytest.mark.slow
def test_time_is_linear_in_the_text(name: str, size: int) -> None:
    row, block = rows()[name], raw_block(format(name), ToolCall(None, "f", {"s": "SPLIT"}))
    head, tail = block.split("SPLIT")
    marks = {
        bare_mark(mark)
        for mark in (*row.call, *row.argument, *(row.wrap or ()), *row.quotes, "[f(", '{"name": "f", ')
        if mark
    }
    for text in ("lorem <b> ", *marks, head, block):
        for begin, end, step in ((head, tail, 1), ("", "", 1), (head, tail, 65_536), ("", "", 65_536)):
            short, long = (begin + text * (count // len(text)) + end for count in (size, 8 * size))
            allowed = 30 * max(seconds(name, short, step), 0.002)
            assert any(seconds(name, long, step) < allowed for _ in range(3)), (text, begin[:20], step)


@pytest.mark.parametrize("name", ["llama3-json", "xlam"])
@pytest.mark.slow
def test_json_that_is_too_deep_is_read_once(name: str) -> None:
    text = '{"name":' * 2_000 + ' and {"name": "f", "arguments": {}}'
    assert seconds(name, text, 65_536) < 5
    response = read(format(name), text)
    assert [call.name for call in response.tool_calls] == ["f"]
    assert response.message.text.strip() == '{"name":' * 2_000 + " and"


def test_every_name_of_the_engines_is_known() -> None:
    engines = """
        hermes qwen2.5 qwen3 granite4 ernie45 qwen2.5-coder jamba hunyuan_a13b granite granite-20b-fc phi4_mini
        phi4_mini_json firefunction internlm sarashina apertus qwen3_coder qwen3_xml qwen3.5 nemotron-3
        mimo step3p5 seed_oss minicpm5
        glm45 glm47 glm5 poolside_v1 hy_v3 minimax_m2 deepseek_v32 deepseek_v4 deepseek_v41 step3 minimax_m3 deepseek_v3
        deepseek_v31 kimi_k2 kimi_k3 mistral ministral llama4_pythonic pythonic toolace olmo3 lfm2 llama3_json
        llama4_json xlam
        functiongemma gemma4 harmony gpt-oss openai cohere_command3 cohere_command4 inkling gigachat3 tagged longcat
    """.split()
    for name in engines:
        assert format(name).name == format(name.upper().replace("_", "-").replace("-", ".")).name
    assert format("gpt-oss").name == "harmony"
    assert len(names()) >= 40
    assert all(row.source and row.as_of for row in rows().values())


def test_a_schema_that_refers_to_itself_often_is_read_once() -> None:
    often = [{"$ref": "#/$defs/n"}] * 4
    schema = {"properties": {"n": {"anyOf": often}}, "$defs": {"n": {"anyOf": [*often, {"type": "integer"}]}}}
    text = "<tool_call>\n<function=f>\n<parameter=n>\n7\n</parameter>\n</function>\n</tool_call>"
    assert calls(read(format("qwen3-coder"), text, tools=[Tool("f", None, schema)])) == [("f", {"n": 7})]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("mistral", "Look: [TOOL_CALLS]", "Look:"),
        ("mistral", "Look: [TOOL_CALLS] ", "Look:"),
        ("qwen3-coder", "Look:\n<tool_call>\n<function=", "Look:"),
        ("hermes", "Look: <tool_call></tool_call>", "Look:"),
        ("hermes", "A <tool_call> here", "A <tool_call> here"),
        ("kimi-k2", "A <|tool_calls_section_begin|><|tool_calls_section_end|> B", "A  B"),
        ("olmo3", "Look: <function_calls>", "Look:"),
        ("minimax-m3", "Look: ]<]minimax[>[<tool_call>\n", "Look:"),
        ("xlam", "Code:\n```\nx\n```", "Code:\n```\nx\n```"),
        ("llama3-json", "A brace: {", "A brace: {"),
        ("pythonic", "A bracket: [", "A bracket: ["),
        ("harmony", "<|channel|>final<|message|>Yes.<|end|><|start|>assistant", "Yes."),
        ("harmony", "<|channel|>final<|message|>Yes.<|end|><|start|>assistant<|channel|>comm", "Yes."),
    ],
)
def test_a_begin_mark_without_a_call_is_no_word_at_the_end(name: str, text: str, words: str) -> None:
    for pieces in ([text], list(text)):
        for whole in (True, False):
            stream = format(name).decode_stream(TOOLS)
            events = [event for piece in pieces for event in stream.feed(piece)]
            response = accumulate([*events, *stream.close(whole=whole)])
            assert ((response.content or "").strip(), response.tool_calls, response.broken_calls) == (words, [], [])


def test_each_thought_ends_with_its_own_mark() -> None:
    for text, thought, words in (
        ("<think>\nA [/THINK] b\n</think>\nYes.", "A [/THINK] b", "Yes."),
        ("[THINK]A </think> b[/THINK]Yes.", "A </think> b", "Yes."),
    ):
        response = read(format("mistral"), text, list(text))
        assert "".join(part.text for part in response.message.parts if isinstance(part, Thinking)).strip() == thought
        assert response.content == words
    begun = read(format("mistral"), "A\n</think>\nYes.", thinking=True)
    assert [type(part).__name__ for part in begun.message.parts] == ["Thinking", "Text"]


@pytest.mark.parametrize("name", ["deepseek-v32", "deepseek-v4", "deepseek-v41", "minimax-m2", "dots", "minicpm5"])
def test_a_call_that_closes_itself_has_no_arguments(name: str) -> None:
    row = rows()[name]
    for end in ("/>", " />"):
        text = f'{bare_mark(row.call[0])} name="g"{end}'
        for pieces in ([text], list(text)):
            assert calls(read(format(name), text, pieces)) == [("g", {})]
            assert calls(read(format(name), f"{text}{text}", pieces * 2)) == [("g", {}), ("g", {})]
