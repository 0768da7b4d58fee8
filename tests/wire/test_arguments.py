"""Argument text: read to an object, or kept with the reason; written as it came while it means the same.

It also tests stand-ins: text that replaces what a wire cannot express, and that is read back.
"""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolwire import ToolCall
from toolwire.encoding.calls import mark_error, read_error
from toolwire.encoding.repair import wrap_reminder
from toolwire.wire.arguments import argument_text, format_arguments, parse_arguments, type_name

READ: dict[str, dict[str, Any]] = {
    "": {},
    "  \n\t": {},
    "null": {},
    " null ": {},
    "{}": {},
    '{"a":1}': {"a": 1},
    ' { "a" : 1 } ': {"a": 1},
    '{"a": {"a": {"a": 1}}}': {"a": {"a": {"a": 1}}},
    '{"a":"x:y","b":["c:d",{"e":":"}]}': {"a": "x:y", "b": ["c:d", {"e": ":"}]},
    '{"a\\":b": 1}': {'a":b': 1},
    '{"a": 1e3, "b": -0.5, "c": true, "d": null}': {"a": 1000.0, "b": -0.5, "c": True, "d": None},
    '{"a": 123456789012345678901234567890}': {"a": 123456789012345678901234567890},
    '{"\\u00e9": "\\ud83d\\ude00"}': {"é": "😀"},
    '{"a": 1, "A": 2}': {"a": 1, "A": 2},
    '{"a": {"b": 1}, "b": 2}': {"a": {"b": 1}, "b": 2},
}


@pytest.mark.parametrize(("raw", "arguments"), READ.items())
def test_what_is_read(raw: str, arguments: dict[str, Any]) -> None:
    assert parse_arguments(raw) == (arguments, None)


NOT_READ: dict[str, str] = {
    "[1]": "an object was expected, not an array",
    "7": "an object was expected, not a number",
    "1.5": "an object was expected, not a number",
    '"{}"': "an object was expected, not a string",
    "false": "an object was expected, not a boolean",
    '{"a":1,"a":2}': "the key 'a' is given twice",
    '{"a" :1,\n"a": 1}': "the key 'a' is given twice",
    '{"a": {"b": 1, "b": 1}}': "the key 'b' is given twice",
    '{"a": [{"b": 1}, {"c": 1, "c": 2}]}': "the key 'c' is given twice",
    '{"a":1,"\\u0061":2}': "the key 'a' is given twice",
    '{"a": ":", "a": 2}': "the key 'a' is given twice",
}


@pytest.mark.parametrize(("raw", "error"), NOT_READ.items())
def test_what_is_not_read(raw: str, error: str) -> None:
    assert parse_arguments(raw) == ({}, error)


@pytest.mark.parametrize(
    "raw",
    ["{", '{"a":', '{"a":1}}', "{'a':1}", '{"a":NaN}', "x", '{"a":1,}', "\ud800", "[" * 5000],
)
def test_what_is_no_json(raw: str) -> None:
    arguments, error = parse_arguments(raw)
    assert arguments == {}
    assert error is not None
    assert error.startswith("not JSON: ")


def pairs_of(value: Any) -> Any:
    """Tell twice-given keys apart from others, the slow and certain way."""
    return json.loads(value, object_pairs_hook=lambda pairs: ("object", pairs))


def has_a_key_twice(value: Any) -> bool:
    match value:
        case ("object", pairs):
            return len({key for key, _ in pairs}) != len(pairs) or any(has_a_key_twice(inner) for _, inner in pairs)
        case list():
            return any(has_a_key_twice(inner) for inner in value)
    return False


keys = st.sampled_from(["a", "b", ":", '"', '":', "\\", "é"])
values = st.recursive(
    st.integers(-9, 9) | st.sampled_from([":", '":', '"', "\\", "a", None, True]),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(keys, inner), max_size=3).map(tuple),
    max_leaves=8,
)


def write(value: Any, gap: str) -> str:
    """Write a value as JSON; a tuple is an object as a list of pairs, so that keys may be given twice."""
    match value:
        case tuple():
            inside = ",".join(f"{json.dumps(key)}{gap}:{gap}{write(inner, gap)}" for key, inner in value)
            return f"{{{inside}}}"
        case list():
            return f"[{','.join(write(inner, gap) for inner in value)}]"
    return json.dumps(value)


@given(pairs=st.lists(st.tuples(keys, values), max_size=4).map(tuple), gap=st.sampled_from(["", " ", "\n"]))
def test_a_key_given_twice_is_never_missed(pairs: Any, gap: str) -> None:
    raw = write(pairs, gap)
    arguments, error = parse_arguments(raw)
    if has_a_key_twice(pairs_of(raw)):
        assert (arguments, error is not None and error.endswith("is given twice")) == ({}, True)
    else:
        assert (arguments, error) == (json.loads(raw), None)


@given(raw=st.text(max_size=20) | st.text('{}[]":,a1 \\n', max_size=20))
def test_any_text_is_read_or_refused_with_a_reason(raw: str) -> None:
    arguments, error = parse_arguments(raw)
    assert (error is None) or (arguments == {} and error != "")
    if error is None and arguments:
        assert json.loads(raw) == arguments


@given(
    arguments=st.dictionaries(
        st.text(max_size=3), st.none() | st.integers(-(2**60), 2**60) | st.text(max_size=4), max_size=4
    )
)
def test_what_is_written_reads_back(arguments: dict[str, Any]) -> None:
    raw = format_arguments(arguments)
    assert parse_arguments(raw) == (arguments, None)
    assert format_arguments(dict(arguments)) == raw


@pytest.mark.parametrize(
    ("arguments", "raw"),
    [
        ({}, "{}"),
        ({"a": 1, "b": [True, None]}, '{"a":1,"b":[true,null]}'),
        ({"é": "😀"}, '{"é":"😀"}'),
        ({"a": 2**70}, '{"a":1180591620717411303424}'),
        ({"a": "\ud800"}, '{"a":"\\ud800"}'),
    ],
)
def test_how_arguments_are_written(arguments: dict[str, Any], raw: str) -> None:
    assert format_arguments(arguments) == raw


RAW = '{ "b" :1, "a": "\\u0061" }'
CALL, WRONG = ToolCall.parse("c", "f", RAW), ToolCall.parse("c", "f", '{"a":')
TEXTS: dict[str, tuple[ToolCall, str]] = {
    "as it came": (CALL, RAW),
    "changed": (replace(CALL, arguments={"b": 2}), '{"b":2}'),
    "changed back": (replace(replace(CALL, arguments={}), arguments={"b": 1, "a": "a"}), RAW),
    "made here": (ToolCall("c", "f", {"a": 1}), '{"a":1}'),
    "nothing": (ToolCall.parse("c", "f", ""), ""),
    "null": (ToolCall.parse("c", "f", "null"), "null"),
    "nothing, changed": (replace(ToolCall.parse("c", "f", ""), arguments={"a": 1}), '{"a":1}'),
    "not JSON": (WRONG, '{"a":'),
    "a key twice": (ToolCall.parse("c", "f", '{"a":1,"a":2}'), '{"a":1,"a":2}'),
    "not JSON, mended": (replace(WRONG, arguments={"a": 1}, error=None), '{"a":1}'),
    "not JSON, emptied": (replace(WRONG, error=None), "{}"),
    "large numbers": (ToolCall.parse("c", "f", '{"a":1.0}'), '{"a":1.0}'),
}


@pytest.mark.parametrize(("call", "text"), TEXTS.values(), ids=TEXTS)
def test_the_text_of_a_call(call: ToolCall, text: str) -> None:
    assert argument_text(call) == text


KINDS = {
    "an object": {},
    "an array": [],
    "a string": "",
    "a boolean": True,
    "a number": 1.5,
    "null": None,
    "bytes": b"",
}


@pytest.mark.parametrize(("name", "value"), KINDS.items())
def test_the_name_of_a_kind(name: str, value: Any) -> None:
    assert type_name(value) == name


@given(text=st.text(max_size=12) | st.text(" Error:", max_size=16), is_error=st.booleans())
@example(text="Error: boom", is_error=False)
@example(text="  Error: boom", is_error=False)
@example(text="", is_error=True)
@example(text="Error: ", is_error=True)
@example(text=" ", is_error=False)
@example(text="Error:\n", is_error=False)
def test_an_error_in_words_is_read_back(text: str, is_error: bool) -> None:
    assert read_error(mark_error(text, is_error=is_error)) == (text, is_error)


@given(text=st.text(max_size=12) | st.text(" Error:", max_size=16))
@example(text=" Error: x")
def test_words_that_were_read_are_written_as_they_were(text: str) -> None:
    words, is_error = read_error(text)
    assert mark_error(words, is_error=is_error) == text


MARKED: list[tuple[str, bool, str]] = [
    ("boom", True, "Error: boom"),
    ("boom", False, "boom"),
    ("", True, "Error: "),
    ("Error: boom", False, " Error: boom"),
    (" Error: boom", False, "  Error: boom"),
    ("Error: boom", True, "Error: Error: boom"),
    ("Error:boom", False, "Error:boom"),
    ("Errors: 0", False, "Errors: 0"),
    ("  indented", False, "  indented"),
]


@pytest.mark.parametrize(("text", "is_error", "marked"), MARKED)
def test_how_an_error_is_said(text: str, is_error: bool, marked: str) -> None:
    assert mark_error(text, is_error=is_error) == marked


def test_how_a_late_instruction_is_said() -> None:
    assert wrap_reminder("Be brief.") == "<system-reminder>\nBe brief.\n</system-reminder>"


def test_reading_leaves_a_decoder_of_the_library_alone() -> None:
    """A control: the library itself would take the last of two keys."""
    assert msgspec.json.decode('{"a":1,"a":2}') == {"a": 2}
