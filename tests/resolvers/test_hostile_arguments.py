"""Argument texts that attack: each becomes good arguments or an error result; nothing is run by mistake."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.timing import within
from toolwire import AgentResolver, Tool, ToolCall, ToolResult, execute
from toolwire.errors import FrameTooLarge
from toolwire.streams.call_judge import PartialCall
from toolwire.wire.framing import LIMIT

RAN: list[Any] = []


class Anything:
    definition = Tool.new(name="take", description="Take anything.", parameters={"type": "object"})

    def execute(self, args: dict[str, Any]) -> str:
        RAN.append(args)
        return "taken"


def typed(count: int = 0, flag: bool = False, ratio: float = 0.0, text: str = "") -> str:
    """Take typed values."""
    RAN.append((count, flag, ratio, text))
    return "taken"


RESOLVER = AgentResolver([Anything, typed])


def run(raw: str, name: str = "take") -> ToolResult:
    RAN.clear()
    [result] = execute([ToolCall.parse("c", name, raw)], RESOLVER)
    assert result.is_error == (RAN == []), "what is an error was not run, and what was run is none"
    return result


@pytest.mark.row("G1")
def test_the_parsing_suite_as_argument_text(suites: Any, tally: Any) -> None:
    for file in sorted((suites / "json-parsing").rglob("*.json")):
        text = file.read_bytes().decode("utf-8", "surrogateescape")
        result = run(text)
        is_object = text.strip()[:1] == "{"
        if file.name[0] == "n" and text.strip():  # blank text is no arguments
            assert result.is_error, file.name
        elif file.name[0] == "y" and is_object and "duplicated" not in file.name:
            assert not result.is_error, (file.name, result.content)
        tally["files of the parsing suite, as argument text"] += 1


@pytest.mark.parametrize(
    "raw",
    ['{"a":1,"a":2}', '{"x":{"a":1,"a":2}}', '{"x":[{"a":1,"a":2}]}', '{"path":"a","\\u0070ath":"b"}'],
)
@pytest.mark.row("G2")
def test_a_key_given_twice_is_refused(raw: str) -> None:
    assert "twice" in str(run(raw).content)


@pytest.mark.parametrize("depth", [100, 1_000, 100_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
@pytest.mark.row("G3")
def test_deep_nesting_is_bounded(depth: int, begin: str, end: str) -> None:
    with within(2):
        result = run('{"x":' + begin * depth + "1" + end * depth + "}")
        assert result.is_error == (depth * len(begin.replace('"a":', "")) > 127)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ('{"x":1.0}', 1.0),
        ('{"x":-0}', 0),
        ('{"x":9007199254740993}', 2**53 + 1),
        ('{"x":9223372036854775808}', 2**63),
        ('{"x":0.1}', 0.1),
    ],
)
@pytest.mark.row("G4")
def test_numbers_are_exact(raw: str, value: Any) -> None:
    assert not run(raw).is_error
    assert RAN[0]["x"] == value
    assert type(RAN[0]["x"]) is type(value)


@pytest.mark.parametrize("raw", ['{"x":1e999}', '{"x":' + "9" * 5000 + "}", '{"x":NaN}', '{"x":-Infinity}'])
@pytest.mark.row("G1", "G4")
def test_numbers_that_nobody_can_hold_are_refused(raw: str) -> None:
    assert run(raw).is_error


@pytest.mark.parametrize(
    "raw", ['{"x":"\\ud800"}', "\ufeff{}", '{"x":1}'.encode("utf-16").decode("latin-1"), '{"\udcff":1}']
)
@pytest.mark.row("G5")
def test_text_that_is_no_unicode_is_refused(raw: str) -> None:
    assert run(raw).is_error


@pytest.mark.row("G5")
def test_a_nul_is_a_character() -> None:
    assert not run('{"x":"\\u0000\\uffff"}').is_error
    assert RAN == [{"x": "\x00\uffff"}]


@pytest.mark.parametrize(
    "raw",
    [
        "[]",
        '"x"',
        "1",
        "true",
        '"{}"',
        "{} {}",
        "{}garbage",
        '{"a":1,}',
        "{'a':1}",
        "{a:1}",
        "{/**/}",
        "{'a': None}",
    ],
)
@pytest.mark.row("G6")
def test_only_an_object_is_arguments(raw: str) -> None:
    assert run(raw).is_error


@pytest.mark.parametrize("raw", ["", "  ", "null", "{}"])
@pytest.mark.row("G6")
def test_nothing_is_no_arguments(raw: str) -> None:
    assert not run(raw).is_error
    assert RAN == [{}]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: "x" * 20_000_000,
        lambda: {f"k{n}": n for n in range(1_000_000)},
        lambda: {"k" * 1_000_000: 1},
        lambda: list(range(100_000)),
    ],
    ids=["text", "keys", "key", "array"],
)
@pytest.mark.row("G7")
def test_large_arguments_take_bounded_time(make: Callable[[], Any]) -> None:
    with within(10):
        run(json.dumps({"x": make()}))


@pytest.mark.parametrize(
    "key", ["__proto__", "__class__", "self", "cls", "*args", "**kwargs", "return", "args", "call"]
)
@pytest.mark.row("G8")
def test_keys_never_reach_the_inside_of_python(key: str) -> None:
    assert not run(json.dumps({key: 1})).is_error
    assert [{key: 1}] == RAN
    assert (
        f"unknown field {key}" in str(run(json.dumps({key: 1}), "typed").content)
        or run(json.dumps({key: 1}), "typed").is_error
    )


WRONG: list[Any] = [None, True, 1, 1.5, "x", [], {}]
FITS: dict[str, set[Any]] = {"count": {1}, "flag": {True}, "ratio": {1, 1.5}, "text": {"x"}}


@pytest.mark.sampled
@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.row("G9", "G10")
def test_each_type_for_each_parameter(name: str, value: Any) -> None:
    fits = any(type(value) is type(one) and value == one for one in FITS[name] if not isinstance(value, dict | list))
    result = run(json.dumps({name: value}), "typed")
    assert result.is_error is not fits
    if result.is_error:
        assert f"field {name}: expected type" in str(result.content)


@pytest.mark.parametrize("raw", ['{"count":"5"}', '{"flag":1}', '{"count":true}', '{"flag":"true"}', '{"ratio":"1"}'])
@pytest.mark.row("G10")
def test_nothing_is_coerced(raw: str) -> None:
    assert run(raw, "typed").is_error


@pytest.mark.row("G10")
def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert not run('{"count":5.0}', "typed").is_error
    assert RAN == [(5, False, 0.0, "")]
    assert type(RAN[0][0]) is int


@pytest.mark.row("G11")
def test_text_over_the_limit_is_refused_while_it_arrives() -> None:
    call = PartialCall("c", "take")
    piece = "x" * (LIMIT // 4)
    for _ in range(4):
        call.add(piece)
    with pytest.raises(FrameTooLarge):
        call.add("y")
