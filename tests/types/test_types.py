"""The canonical values: how they are made, what they refuse, when they are equal."""

from typing import Any

import msgspec
import pytest

from toolwire import (
    Context,
    Image,
    Loss,
    Message,
    Opaque,
    Response,
    ServerTool,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    dialect,
)
from toolwire.dialects import NAMES
from toolwire.errors import InvalidField, MissingFields

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
SEARCH = {"name": "search", "description": "Search.", "parameters": SCHEMA}
CALL = {"id": "call_1", "name": "search", "arguments": {"query": "x"}}
RESULT = {"tool_call_id": "call_1", "name": "search", "content": "found"}
KINDS: dict[str, Any] = {"Tool": Tool, "ToolCall": ToolCall, "ToolResult": ToolResult}

MADE: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "a tool": (Tool, SEARCH, Tool("search", "Search.", SCHEMA)),
    "a tool with more": (
        Tool,
        SEARCH | {"metadata": {"a": 1}, "strict": False, "parameters": {}},
        Tool("search", "Search.", {}, {"a": 1}, strict=False),
    ),
    "a tool with what it does not know": (Tool, SEARCH | {"colour": 1}, Tool("search", "Search.", SCHEMA)),
    "a call": (ToolCall, CALL, ToolCall("call_1", "search", {"query": "x"})),
    "a call without an id": (
        ToolCall,
        {"name": "search", "arguments": {}},
        ToolCall(None, "search", {}),
    ),
    "a result": (ToolResult, RESULT, ToolResult("call_1", "search", "found")),
    "a result that failed": (
        ToolResult,
        RESULT | {"content": "", "is_error": True},
        ToolResult("call_1", "search", "", is_error=True),
    ),
    "a result of parts": (
        ToolResult,
        RESULT | {"content": [Text("a"), Image("u")]},
        ToolResult("call_1", "search", [Text("a"), Image("u")]),
    ),
    "a result without an id": (
        ToolResult,
        {"name": "search", "content": "x"},
        ToolResult(None, "search", "x"),
    ),
}


@pytest.mark.parametrize(("kind", "attrs", "made"), MADE.values(), ids=MADE)
def test_new(kind: Any, attrs: dict[str, Any], made: Any) -> None:
    assert kind.new(attrs) == made
    assert kind.new(**attrs) == made
    first, *others = attrs
    assert kind.new({first: attrs[first]}, **{key: attrs[key] for key in others}) == made


def test_keywords_win_over_the_map() -> None:
    assert Tool.new(SEARCH, name="find").name == "find"


MISSING: list[tuple[str, dict[str, Any], list[str]]] = [
    ("Tool", {}, ["name", "description", "parameters"]),
    ("Tool", {"parameters": SCHEMA}, ["name", "description"]),
    ("Tool", {"description": "d", "name": None}, ["name", "parameters"]),
    ("Tool", {"name": "n", "parameters": SCHEMA}, ["description"]),
    ("ToolCall", {}, ["name", "arguments"]),
    ("ToolCall", {"id": "x", "arguments": {}}, ["name"]),
    ("ToolCall", {"id": "x", "name": "n"}, ["arguments"]),
    ("ToolResult", {}, ["name", "content"]),
    ("ToolResult", {"tool_call_id": "x", "name": "n"}, ["content"]),
    ("ToolResult", {"tool_call_id": "x", "content": ""}, ["name"]),
]


@pytest.mark.parametrize(("kind", "attrs", "fields"), MISSING)
def test_missing_fields_are_named_in_order(kind: str, attrs: dict[str, Any], fields: list[str]) -> None:
    with pytest.raises(MissingFields) as caught:
        KINDS[kind].new(attrs)
    assert (caught.value.code, caught.value.fields) == ("missing_keys", fields)
    assert str(caught.value) == f"{kind} needs {', '.join(fields)}"


INVALID: list[tuple[str, dict[str, Any], str, str]] = [
    ("Tool", SEARCH | {"name": 1}, "name", "must be a string"),
    ("Tool", SEARCH | {"description": ["d"]}, "description", "must be a string"),
    ("Tool", SEARCH | {"parameters": "{}"}, "parameters", "must be a map"),
    ("Tool", SEARCH | {"name": 1, "parameters": []}, "name", "must be a string"),
    ("Tool", SEARCH | {"metadata": []}, "metadata", "must be a map"),
    ("Tool", SEARCH | {"strict": "yes"}, "strict", "must be a boolean"),
    ("ToolCall", CALL | {"id": 1}, "id", "must be a string"),
    ("ToolCall", CALL | {"name": b"n"}, "name", "must be a string"),
    ("ToolCall", CALL | {"arguments": '{"query": "x"}'}, "arguments", "must be a map"),
    ("ToolResult", RESULT | {"tool_call_id": 1}, "tool_call_id", "must be a string"),
    ("ToolResult", RESULT | {"name": 1}, "name", "must be a string"),
    ("ToolResult", RESULT | {"content": {"a": 1}}, "content", "must be a string or a list of parts"),
]


@pytest.mark.parametrize(("kind", "attrs", "field", "reason"), INVALID)
def test_an_invalid_field_is_named(kind: str, attrs: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(InvalidField) as caught:
        KINDS[kind].new(attrs)
    assert (caught.value.code, caught.value.field, caught.value.reason) == ("invalid_field", field, reason)
    assert str(caught.value) == f"{field} {reason}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attrs", [[], "x", 1])
def test_attributes_are_a_map(kind: str, attrs: Any) -> None:
    with pytest.raises(InvalidField, match=f"{kind}: attributes must be a map"):
        KINDS[kind].new(attrs)


def test_a_call_never_holds_text_as_arguments() -> None:
    with pytest.raises(InvalidField, match="ToolCall: arguments must be a map"):
        ToolCall("call_1", "search", '{"query": "x"}')  # type: ignore[arg-type]


OPENAI = {"type": "function", "function": SEARCH}
MAPS: dict[str, tuple[dict[str, Any], Tool]] = {
    "configuration": (SEARCH, Tool("search", "Search.", SCHEMA)),
    "a wire's own word": (
        {"name": "search", "description": "Search.", "input_schema": SCHEMA},
        Tool("search", "Search.", SCHEMA),
    ),
    "a listing": (
        {"name": "search", "description": "Search.", "inputSchema": SCHEMA, "title": "Search"},
        Tool("search", "Search.", SCHEMA),
    ),
    "the short word": (
        {"name": "search", "description": "Search.", "schema": SCHEMA},
        Tool("search", "Search.", SCHEMA),
    ),
    "the same twice": (SEARCH | {"input_schema": SCHEMA}, Tool("search", "Search.", SCHEMA)),
    "the known spelling": (OPENAI, Tool("search", "Search.", SCHEMA)),
    "the known spelling, strict": (
        {"type": "function", "function": SEARCH | {"strict": True}},
        Tool("search", "Search.", SCHEMA, strict=True),
    ),
}


@pytest.mark.parametrize(("attrs", "tool"), MAPS.values(), ids=MAPS)
def test_a_tool_from_a_map(attrs: dict[str, Any], tool: Tool) -> None:
    before = msgspec.json.encode(attrs)
    assert Tool.from_map(attrs) == tool
    assert msgspec.json.encode(attrs) == before


def test_a_tool_of_two_schemas_is_refused() -> None:
    with pytest.raises(InvalidField, match="parameters must be given under one of parameters, input_schema"):
        Tool.from_map(SEARCH | {"input_schema": {"type": "object"}})


@pytest.mark.parametrize("attrs", [None, [], "search"])
def test_a_tool_from_what_is_no_map(attrs: Any) -> None:
    with pytest.raises(InvalidField, match="Tool: attributes must be a map"):
        Tool.from_map(attrs)


@pytest.mark.parametrize(
    ("tool", "body"),
    [
        (Tool("search", "Search.", SCHEMA, {"a": 1}), OPENAI),
        (Tool("search"), {"type": "function", "function": {"name": "search"}}),
        (
            Tool("search", "Search.", SCHEMA, strict=False),
            {"type": "function", "function": SEARCH | {"strict": False}},
        ),
    ],
)
def test_a_tool_in_the_known_spelling(tool: Tool, body: dict[str, Any]) -> None:
    assert tool.to_openai_format() == body


A = ToolCall("call_1", "search", {"query": "x"})
EQUAL: dict[str, tuple[ToolCall, bool]] = {
    "another position": (ToolCall("call_1", "search", {"query": "x"}, 3), True),
    "another spelling": (ToolCall.parse("call_1", "search", '{"query":  "x"}'), True),
    "another origin": (ToolCall("call_1", "search", {"query": "x"}, opaque=Opaque("ollama", {})), True),
    "another id": (ToolCall("call_2", "search", {"query": "x"}), False),
    "no id": (ToolCall(None, "search", {"query": "x"}), False),
    "another name": (ToolCall("call_1", "find", {"query": "x"}), False),
    "other arguments": (ToolCall("call_1", "search", {"query": "y"}), False),
    "half a call": (ToolCall("call_1", "search", {"query": "x"}, complete=False), False),
    "a call of free text": (ToolCall("call_1", "search", {"query": "x"}, custom=True), False),
    "a call that is wrong": (ToolCall("call_1", "search", {"query": "x"}, error="not JSON"), False),
}


@pytest.mark.parametrize(("other", "equal"), EQUAL.values(), ids=EQUAL)
def test_calls_are_equal(other: ToolCall, equal: bool) -> None:
    assert (other == A) is equal
    assert (other != A) is not equal
    assert len({other, A}) == (1 if equal else 2)


@pytest.mark.parametrize("other", [None, "call_1", ("call_1", "search", {"query": "x"}), Text("x")])
def test_a_call_is_equal_to_calls_only(other: Any) -> None:
    assert other != A


def test_calls_that_are_wrong_differ_by_their_text() -> None:
    one, two = ToolCall.parse("c", "f", "{"), ToolCall.parse("c", "f", "[1]")
    assert (one.arguments, two.arguments) == ({}, {})
    assert one != two
    assert one == ToolCall.parse("c", "f", "{", index=4)


@pytest.mark.parametrize(
    "value",
    [
        Tool("search"),
        A,
        ToolResult("c", "f", "x"),
        Text("x"),
        Message("x"),
        Context(),
        ServerTool("t", "anthropic", {}),
    ],
)
def test_values_are_frozen(value: Any) -> None:
    for field in value.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(value, field, None)


def test_defaults_are_not_shared() -> None:
    Tool("a").metadata["x"] = 1
    ToolCall("c", "f").arguments["x"] = 1
    assert (Tool("a").metadata, ToolCall("c", "f").arguments) == ({}, {})


def test_a_tool_is_pure_data() -> None:
    tool = Tool("search", "Search.", SCHEMA, {"a": [1]})
    assert msgspec.json.decode(msgspec.json.encode(tool), type=Tool) == tool
    assert msgspec.json.decode(msgspec.json.encode(msgspec.structs.asdict(tool)))["parameters"] == SCHEMA


def test_declarations_that_may_leave_the_description_out() -> None:
    schema = {"type": "object"}
    assert Tool.from_map({"type": "function", "function": {"name": "f", "parameters": schema}}) == Tool(
        "f", None, schema
    )
    assert Tool.from_map({"name": "f", "inputSchema": schema}) == Tool("f", None, schema)
    with pytest.raises(MissingFields) as caught:
        Tool.from_map({"name": "f", "parameters": schema})
    assert caught.value.fields == ["description"]


@pytest.mark.row("I-33")
def test_a_usage_reads_like_a_map_in_both_spellings() -> None:
    usage = Usage(9, 4)
    assert dict(usage) == {
        "input_tokens": 9,
        "output_tokens": 4,
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "total_tokens": 13,
    }
    assert Usage()["prompt_tokens"] == 0
    with pytest.raises(KeyError):
        usage["tokens"]


@pytest.mark.row("I-23")
def test_a_response_says_whether_it_is_the_answer() -> None:
    answer = Response.of(Message("assistant", "Warm."), "stop")
    call = Response.of(Message("assistant", [ToolCall("c", "f", {})]), "tool_calls")
    broken = Response.of(Message("assistant", [ToolCall.parse("c", "f", "{")]), "stop")
    cut = Response.of(Message("assistant", "War"), "length")
    assert [one.has_tool_calls() for one in (answer, call, broken, cut)] == [False, True, False, False]
    assert [one.is_final_answer() for one in (answer, call, broken, cut)] == [True, False, False, False]


def test_losses_are_no_part_of_what_came_back() -> None:
    loss = Loss("seed", "seed", "dropped", "anthropic has no seed")
    answer = Response.of(Message("assistant", "Warm."), "stop")
    lossy = Response.of(Message("assistant", "Warm."), "stop", losses=(loss,))
    assert (answer.losses, lossy.losses) == ((), (loss,))
    assert answer == lossy
    assert lossy != Response.of(Message("assistant", "Cold."), "stop", losses=(loss,))
    assert answer != "Warm."
    for name in NAMES:
        assert dialect(name).encode_response(lossy) == dialect(name).encode_response(answer)
