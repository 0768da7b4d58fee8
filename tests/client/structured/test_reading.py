"""From an answer to the wanted value: exactly, or not at all."""

import datetime as dt
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.client.structured.wanting import (
    INSTRUCTION,
    NATIVE,
    STRICT,
    TOOL,
    Person,
    Point,
    answering,
    by_tool,
)
from toolwire.client.structured import AnswerProblems, OutputForm, OutputMethod, ParsedValue, parse_answer
from toolwire.types import Refusal, Response, Text, Thinking, ToolCall

GOOD = '{"x": 1, "y": 2}'
OTHER = ToolCall("c9", "get_weather", {})
WANTED = OutputForm.of(Point)

TEXTS: list[tuple[str, str]] = [
    (GOOD, "found"),
    (f" \n{GOOD}\n ", "found"),
    (f"```json\n{GOOD}\n```", "found"),
    (f"Here it is:\n\n```\n{GOOD}\n```\nAnything else?", "found"),
    (f"~~~json\n{GOOD}\n~~~", "found"),
    (f"<think>\nMaybe\n```json\n{{}}\n```\n</think>\n\n{GOOD}", "found"),
    (f"<think>it is {{}}</think>{GOOD}", "found"),
    (f"<think>\nso\n</think>\n```json\n{GOOD}\n```", "found"),
    ("", "empty"),
    (" \n", "empty"),
    ("null", "no_json"),
    ("42", "no_json"),
    (f"[{GOOD}]", "no_json"),
    (json.dumps(GOOD), "no_json"),
    (f"Here it is: {GOOD}", "no_json"),
    (f"{GOOD} Anything else?", "no_json"),
    (f"{GOOD}\n{GOOD}", "no_json"),
    (GOOD[:-1], "no_json"),
    ("{'x': 1, 'y': 2}", "no_json"),
    ('{"x": 1, "y": 2,}', "no_json"),
    ('{"x": 1, "y": 2} // so', "no_json"),
    ('{"x": 1, "x": 1, "y": 2}', "no_json"),
    ('{"x": 1, "y": NaN}', "no_json"),
    (f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```", "no_json"),
    (f"```json\n{GOOD}", "no_json"),
    ("```\n\n```", "no_json"),
    ("```\nnull\n```", "no_json"),
    (f"```json\n{GOOD}\n{GOOD}\n```", "no_json"),
    (f"<think>{GOOD}", "no_json"),
    (f"<!--\n{GOOD}\n-->", "no_json"),
    ("[" * 5000, "no_json"),
    ('{"x":' * 5000, "no_json"),
    ('{"x": "1", "y": 2}', "invalid"),
    ('{"x": 1, "y": 2, "z": 3}', "invalid"),
    ('{"x": 1, "y": null}', "invalid"),
    ("{}", "invalid"),
]


def kind_of(read_: Any) -> str:
    return read_.kind if isinstance(read_, AnswerProblems) else "found"


@pytest.mark.sampled
@pytest.mark.parametrize(("text", "kind"), TEXTS, ids=[repr(row[0][:40]) for row in TEXTS])
@pytest.mark.parametrize("way", [NATIVE, INSTRUCTION, TOOL], ids=lambda way: way.kind)
@pytest.mark.row("R001-10")
def test_json_is_the_whole_text_or_its_only_block(text: str, kind: str, way: OutputMethod) -> None:
    """Valid, or a problem; never a guess."""
    found = parse_answer(answering(text), WANTED, way)
    assert kind_of(found) == kind
    if isinstance(found, AnswerProblems):
        assert (found.text, bool(found.problems)) == (text, True)
    else:
        assert found == ParsedValue(Point(1, 2))


@pytest.mark.parametrize(
    ("parts", "finish", "kind"),
    [
        ([by_tool(GOOD)], "tool_calls", "found"),
        ([by_tool(GOOD)], "stop", "found"),
        (["I answer now.", by_tool(GOOD)], "tool_calls", "found"),
        ([Thinking("Hm."), by_tool(GOOD)], "tool_calls", "found"),
        ([by_tool('{"x": 1}')], "tool_calls", "invalid"),
        ([by_tool("")], "tool_calls", "invalid"),
        ([by_tool('{"x": 1,')], "tool_calls", "no_json"),
        ([by_tool('{"x": 1, "x": 1, "y": 2}')], "tool_calls", "no_json"),
        ([by_tool(GOOD), by_tool(GOOD, 2)], "tool_calls", "invalid"),
        ([by_tool(GOOD), OTHER], "tool_calls", "unfinished"),
        ([OTHER], "tool_calls", "unfinished"),
        ([GOOD, OTHER], "tool_calls", "unfinished"),
        ([GOOD, ToolCall.parse("c9", "get_weather", "{")], "tool_calls", "unfinished"),
        ([GOOD], "pause", "unfinished"),
        ([GOOD], "length", "cut_off"),
        ([by_tool(GOOD)], "length", "cut_off"),
        ([GOOD], "context_window", "cut_off"),
        ([GOOD], "incomplete", "cut_off"),
        ([GOOD], "error", "cut_off"),
        ([GOOD], "refusal", "refused"),
        ([GOOD], "content_filter", "refused"),
        ([Refusal(text="I cannot.")], "stop", "refused"),
        ([GOOD], None, "found"),
        ([GOOD[:8], GOOD[8:]], "stop", "found"),
        ([], "malformed_tool_call", "empty"),
        ([Thinking("Hm.")], "stop", "empty"),
    ],
)
@pytest.mark.row("I-34")
def test_what_is_no_answer_is_told_apart(parts: list[Any], finish: Any, kind: str) -> None:
    """The call of the answer's tool is the answer, and no other call is."""
    found = parse_answer(answering(*parts, finish=finish), WANTED, TOOL)
    assert kind_of(found) == kind
    assert isinstance(found, ParsedValue) or found.correctable == (kind in ("empty", "no_json", "invalid"))


def test_a_response_without_a_choice_is_empty() -> None:
    assert kind_of(parse_answer(Response(), WANTED, NATIVE)) == "empty"


def test_a_strict_model_says_absent_with_null() -> None:
    wanted, said = OutputForm.of(Person), answering('{"name": "Ada", "age": null, "tags": null}')
    assert parse_answer(said, wanted, STRICT) == ParsedValue(Person("Ada"))
    assert kind_of(parse_answer(said, wanted, NATIVE)) == "invalid"
    nested = answering('{"value": [{"name": "Ada", "age": null, "tags": ["a"]}]}')
    assert parse_answer(nested, OutputForm.of(list[Person]), STRICT) == ParsedValue([Person("Ada", 3, ["a"])])


def test_none_is_a_value() -> None:
    assert parse_answer(answering('{"value": null}'), OutputForm.of(int | None), NATIVE) == ParsedValue(None)


def test_what_no_value_can_be_made_of_is_named() -> None:
    found = parse_answer(answering('{"value": "2026-02-30"}'), OutputForm.of(dt.date), NATIVE)
    assert isinstance(found, AnswerProblems)
    assert found.kind == "invalid"
    assert found.problems[0].startswith("field value: ")


SECRET = "s3cr3t-" * 200_000


@pytest.mark.parametrize("text", [json.dumps({"x": SECRET, "y": 2}), SECRET, json.dumps({SECRET: 1})])
def test_a_huge_answer_is_not_repeated(text: str) -> None:
    found = parse_answer(answering(text), WANTED, NATIVE)
    assert isinstance(found, AnswerProblems)
    assert sum(map(len, found.problems)) < 3000
    assert found.text == text


NUMBERS = st.integers(-9, 9) | st.floats() | st.booleans() | st.just("1")
POINTS = st.fixed_dictionaries({"x": st.integers(-9, 9), "y": NUMBERS}).map(json.dumps)
NOISE = st.sampled_from(["", "\n", "```\n", "```json\n", "\n```", "<think>\n", "</think>\n", "So: ", "}", "\\"])


def test_no_text_gives_a_wrong_value(tally: Counter[str]) -> None:
    """What is found stood in the text as a whole object of its own, and was the only one."""
    kinds: Counter[str] = Counter()

    @settings(max_examples=120)
    @given(st.lists(POINTS | NOISE, max_size=4), st.lists(POINTS, max_size=1))
    def hold(pieces: list[str], last: list[str]) -> None:
        text = "".join([*pieces, *last])
        found = parse_answer(answering(Text(text)), WANTED, INSTRUCTION)
        kinds[kind_of(found)] += 1
        if isinstance(found, ParsedValue):
            whole = text.rpartition("</think>")[2]
            written = json.loads(whole[whole.index("{") : whole.rindex("}") + 1])
            assert type(written["x"]) is not bool
            assert type(written["y"]) is not bool
            assert found.value == Point(**written)

    hold()
    assert kinds.keys() >= {"found", "no_json", "invalid", "empty"}
    tally["texts read as structured output"] += kinds.total()
