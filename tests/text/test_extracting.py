"""The calls of an answer by whichever protocol: native ones in both shapes, and the table that chooses."""

from types import SimpleNamespace
from typing import Any

import pytest

from toolwire import Message, Response, Text, Thinking, ToolCall, tool_calls
from toolwire.errors import InvalidField, UnreadableCalls
from toolwire.text_tagged import calls_in_text, over
from toolwire.tool_calls import extract, extract_or_raise, native

OPENAI: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "call_abc",
            "type": "function",
            "function": {"name": "read_file", "arguments": '{"path": "/srv/foo"}'},
        }
    ],
}
CLAUDE: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "toolu_abc", "name": "read_file", "input": {"path": "/srv/foo"}}],
}
FOO = {"path": "/srv/foo"}
FENCED = 'Sure.\n~~~tool_call\n{"name": "read_file", "arguments": {"path": "/srv/foo"}}\n~~~\n'
CALLS: list[tuple[str, Any, list[ToolCall]]] = [
    ("OpenAI", OPENAI["tool_calls"], [ToolCall("call_abc", "read_file", FOO)]),
    ("a message without content", OPENAI, [ToolCall("call_abc", "read_file", FOO)]),
    ("Anthropic", CLAUDE["content"], [ToolCall("toolu_abc", "read_file", FOO)]),
    ("a message of Anthropic", CLAUDE, [ToolCall("toolu_abc", "read_file", FOO)]),
    (
        "both",
        [*OPENAI["tool_calls"], *CLAUDE["content"]],
        [ToolCall("call_abc", "read_file", FOO), ToolCall("toolu_abc", "read_file", FOO)],
    ),
    ("one call", OPENAI["tool_calls"][0], [ToolCall("call_abc", "read_file", FOO)]),
    (
        "words among blocks",
        [{"type": "text", "text": "Hm."}, {"type": "thinking", "thinking": "x"}, *CLAUDE["content"]],
        [ToolCall("toolu_abc", "read_file", FOO)],
    ),
    ("arguments", [{"id": "1", "name": "a", "arguments": FOO}], [ToolCall("1", "a", FOO)]),
    (
        "text of arguments",
        [{"id": "1", "name": "a", "arguments": '{"x": 1}'}],
        [ToolCall("1", "a", {"x": 1})],
    ),
    ("input", [{"id": "1", "name": "a", "input": FOO}], [ToolCall("1", "a", FOO)]),
    (
        "read already",
        [ToolCall("1", "a", FOO), ToolCall("2", "b", {})],
        [ToolCall("1", "a", FOO), ToolCall("2", "b", {})],
    ),
    ("one read already", ToolCall("1", "a", FOO), [ToolCall("1", "a", FOO)]),
    (
        "a canonical message",
        Message("assistant", [Text("x"), ToolCall("1", "a", FOO)]),
        [ToolCall("1", "a", FOO)],
    ),
    ("a response", Response.of(Message("assistant", [ToolCall("1", "a", FOO)])), [ToolCall("1", "a", FOO)]),
    (
        "Ollama's object",
        [{"function": {"name": "a", "arguments": {"x": 1}}, "id": "1"}],
        [ToolCall("1", "a", {"x": 1})],
    ),
    ("an empty list", [], []),
    ("nothing", None, []),
    ("no calls", {"role": "assistant", "content": "Hello.", "tool_calls": None}, []),
]


@pytest.mark.parametrize(("given", "expected"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
@pytest.mark.row("R004-01", "R004-02", "R004-03", "R004-04", "R004-06", "I-36")
def test_native_calls_of_every_shape(given: Any, expected: list[ToolCall]) -> None:
    read = native.parse(given)
    assert (read.calls, read.errors, read.protocol) == (expected, [], "native")
    assert native.parse_or_raise(given) == expected


ARGUMENTS: list[tuple[str, Any, Any]] = [
    ("a map", {"path": "/srv"}, {"path": "/srv"}),
    ("JSON text", '{"path": "/srv"}', {"path": "/srv"}),
    ("empty text", "", {}),
    ("a list", [1], "not an array"),
    ("a number", 5, "not a number"),
    ("a boolean", False, "not a boolean"),
    ("null", None, "not null"),
    ("text of a list", "[1]", "not an array"),
    ("text of a number", "5", "not a number"),
    ("text of null", "null", "not null"),
    ("no JSON", "{", "not JSON"),
]
SHAPES: dict[str, Any] = {
    "openai": lambda given: {"id": "1", "type": "function", "function": {"name": "a", "arguments": given}},
    "anthropic": lambda given: {"id": "1", "type": "tool_use", "name": "a", "input": given},
    "read": lambda given: {"id": "1", "name": "a", "arguments": given},
}


@pytest.mark.sampled
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("given", "expected"), [row[1:] for row in ARGUMENTS], ids=[row[0] for row in ARGUMENTS])
@pytest.mark.row("R004-22", "R004-23", "R004-24", "R004-25", "R004-26")
def test_the_rules_of_arguments_hold_for_native_calls_too(shape: str, given: Any, expected: Any) -> None:
    read = native.parse([SHAPES[shape](given)])
    if isinstance(expected, dict):
        assert [call.arguments for call in read.calls] == [expected]
    else:
        assert [error.code for error in read.errors] == ["invalid_arguments"]
        assert expected in read.errors[0].message


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"foo": 1}, "unrecognised_tool_call"),
        ("read_file", "unrecognised_tool_call"),
        (None, "unrecognised_tool_call"),
        ({"type": "image"}, "unrecognised_tool_call"),
        ({"type": "tool_use", "id": 5, "name": "a", "input": {}}, "unrecognised_tool_call"),
        ({"type": "tool_use", "id": "1", "input": {}}, "missing_tool_name"),
        ({"type": "function", "function": {"arguments": "{}"}}, "missing_tool_name"),
        ({"type": "function", "function": {"name": "", "arguments": "{}"}}, "missing_tool_name"),
        ({"id": "1", "arguments": {}}, "missing_tool_name"),
        ({"type": "function", "function": {"name": "a", "arguments": "{x}"}}, "invalid_arguments"),
        (ToolCall("1", "a", error="no", raw="x"), "invalid_arguments"),
        (ToolCall("1", "a", complete=False), "incomplete"),
    ],
)
@pytest.mark.row("I-01", "I-37")
def test_a_bad_call_is_an_error_value_beside_the_good_ones(given: Any, code: str) -> None:
    read = native.parse([*OPENAI["tool_calls"], given, *CLAUDE["content"]])
    assert [call.id for call in read.calls] == ["call_abc", "toolu_abc"]
    assert [(error.code, error.index) for error in read.errors] == [(code, 1)]
    with pytest.raises(UnreadableCalls) as raised:
        native.parse_or_raise([*OPENAI["tool_calls"], given])
    assert [call.id for call in raised.value.calls] == ["call_abc"]


@pytest.mark.row("I-38", "R004-11")
def test_a_missing_id_is_made_and_always_the_same() -> None:
    given = [
        {"function": {"name": "a", "arguments": {}}},
        {"name": "a", "arguments": {}},
        ToolCall(None, "a"),
    ]
    ids = [call.id or "" for call in native.parse(given).calls]
    assert [(call_id[:5], len(call_id)) for call_id in ids] == [("call_", 17)] * 3
    assert len(set(ids)) == 3
    assert ids == [call.id for call in native.parse(given).calls]
    assert native.parse(given, seed="later").calls[0].id != ids[0]


def test_native_calls_of_tools_that_were_not_offered_are_errors() -> None:
    read = native.parse([*OPENAI["tool_calls"], ToolCall("1", "rm")], ["read_file"])
    assert ([call.name for call in read.calls], [error.code for error in read.errors]) == (
        ["read_file"],
        ["unknown_tool"],
    )


@pytest.mark.parametrize("given", [5, "x", b"x"])
def test_what_holds_no_calls_is_refused(given: Any) -> None:
    with pytest.raises(InvalidField, match="must be a message or a list of calls"):
        native.parse(given)
    with pytest.raises(InvalidField, match="must be a response or a message"):
        extract(given)


NATIVE, PLAIN = {"native_tool_calls": True}, {"native_tool_calls": False}
TABLE: list[tuple[str, Any, Any, str, int]] = [
    ("native, calls", NATIVE, OPENAI, "native", 1),
    ("native, calls of Anthropic", NATIVE, CLAUDE, "native", 1),
    ("native, calls and fences", NATIVE, {**OPENAI, "content": FENCED}, "native", 1),
    ("native, fences", NATIVE, {"role": "assistant", "content": FENCED}, "text_tagged", 1),
    (
        "native, an empty list and fences",
        NATIVE,
        {"content": FENCED, "tool_calls": []},
        "text_tagged",
        1,
    ),
    ("native, neither", NATIVE, {"role": "assistant", "content": "Hello."}, "native", 0),
    (
        "native, nothing",
        NATIVE,
        {"role": "assistant", "content": None, "tool_calls": []},
        "native",
        0,
    ),
    ("not native, fences", PLAIN, {"role": "assistant", "content": FENCED}, "text_tagged", 1),
    ("not native, neither", PLAIN, {"role": "assistant", "content": "Hello."}, "text_tagged", 0),
    ("not native, calls all the same", PLAIN, OPENAI, "native", 1),
    ("not native, calls all the same and fences", PLAIN, {**OPENAI, "content": FENCED}, "native", 1),
    ("nothing was said of it", {}, {"role": "assistant", "content": "Hello."}, "text_tagged", 0),
    ("nothing was said at all", None, {"role": "assistant", "content": FENCED}, "text_tagged", 1),
]


@pytest.mark.parametrize(
    ("capabilities", "given", "protocol", "count"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
@pytest.mark.row("R004-05", "R004-16", "R004-17", "R004-18", "R004-19", "R004-21")
def test_the_table_of_protocols(capabilities: Any, given: Any, protocol: str, count: int) -> None:
    calls: Any = native.parse(given).calls
    answer = Message("assistant", calls) if given is CLAUDE else Message.from_map({"role": "assistant", **given})
    forms: list[Any] = [given, answer, Response.of(answer, "stop")]
    for form in forms:
        found = extract(form, capabilities)
        assert (found.protocol, len(found.calls), found.errors) == (protocol, count, [])
        assert all((call.name, call.arguments) == ("read_file", FOO) for call in found.calls)


def test_what_is_left_for_the_user_is_there_in_every_protocol() -> None:
    assert extract({"content": FENCED}, NATIVE).text == "Sure.\n"
    assert extract({"content": "Hello."}, NATIVE).text == "Hello."
    assert extract({**OPENAI, "content": FENCED}, NATIVE).text == FENCED


def test_calls_that_a_dialect_read_in_the_text_are_known_for_that() -> None:
    body = {"message": {"role": "assistant", "content": FENCED}, "done": True}
    response = over("ollama", ["read_file"], native=True).decode_response(body)
    assert calls_in_text(response.message)
    found = extract(response, NATIVE)
    assert (found.protocol, found.calls, found.text) == ("text_tagged", response.tool_calls, "Sure.\n")
    assert not calls_in_text(Message("assistant", [ToolCall("1", "a")]))


def test_capabilities_may_be_a_value() -> None:
    assert extract({"content": "Hello."}, SimpleNamespace(native_tool_calls=True)).protocol == "native"
    assert extract({"content": "Hello."}, SimpleNamespace()).protocol == "text_tagged"


@pytest.mark.row("R004-13")
def test_a_bad_block_is_an_error_that_the_fallback_keeps() -> None:
    found = extract({"content": f"{FENCED}~~~tool_call\n{{\n~~~"}, NATIVE)
    assert ([call.name for call in found.calls], [error.code for error in found.errors]) == (
        ["read_file"],
        ["invalid_json"],
    )
    with pytest.raises(UnreadableCalls):
        extract_or_raise({"content": "~~~tool_call\n{\n~~~"}, PLAIN)


def test_each_text_of_an_answer_is_read_on_its_own() -> None:
    half = ['~~~tool_call\n{"name": "read_file"', ', "arguments": {}}\n~~~']
    assert extract(Message("assistant", [Text(half[0]), Text(half[1])]), PLAIN).calls == []
    assert extract(Message("assistant", [Text("Hm."), Thinking("x"), Text(FENCED)]), PLAIN).calls[0].arguments == FOO


def test_a_call_at_the_end_of_an_answer_that_was_cut_off_must_be_whole() -> None:
    for text, reason, count in ((FENCED, "length", 1), (FENCED[:-1], "length", 0), (FENCED[:-1], "stop", 1)):
        response = Response.of(Message("assistant", text), reason)  # type: ignore[arg-type]
        assert len(extract(response, PLAIN).calls) == count


def test_equal_calls_of_two_answers_have_two_ids() -> None:
    first, second = (Response.of(Message("assistant", FENCED), "stop", id=name) for name in "ab")
    assert extract(first).calls[0].id != extract(second).calls[0].id
    assert extract(first).calls[0].id == extract(first).calls[0].id


def test_the_module_offers_what_the_design_names() -> None:
    assert callable(tool_calls.native.parse)
    assert callable(tool_calls.extract)
