"""The codec: declarations and results in each provider's words, and nothing more."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolwire
from toolwire import codec
from toolwire.dialects import ALIASES, NAMES
from toolwire.errors import InvalidField, InvalidSchema, MissingFields, UnknownDialect, UserError
from toolwire.types import Image, Opaque, ServerTool, Text, Tool, ToolCall, ToolResult

PROVIDERS = (*NAMES, *ALIASES)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "minLength": 1}}, "required": ["city"]}
CLOSED = {**SCHEMA, "additionalProperties": False}
PING = Tool("ping", "Ping", {"type": "object"}, metadata={"owner": "me"})
LOOK = Tool("look", "Look.", SCHEMA)
NESTED = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": SCHEMA}}
DEFINITIONS: dict[str, dict[str, Any]] = {
    "openai": NESTED,
    "openai-chat": NESTED,
    "ollama": NESTED,
    "anthropic": {"name": "look", "description": "Look.", "input_schema": SCHEMA},
    "responses": {
        "type": "function",
        "name": "look",
        "description": "Look.",
        "parameters": SCHEMA,
        "strict": False,
    },
}


@pytest.mark.parametrize(("provider", "body"), DEFINITIONS.items(), ids=DEFINITIONS)
@pytest.mark.row("R000-04", "R000-05", "R000-06")
def test_a_definition(provider: str, body: dict[str, Any]) -> None:
    assert codec.encode_definitions([LOOK], provider) == [body]
    assert codec.encode_definitions([NESTED], provider) == [body]


def test_definitions_of_gemini_stand_together() -> None:
    [body] = codec.encode_definitions([LOOK, PING], "gemini")
    assert [tool["name"] for tool in body["functionDeclarations"]] == ["look", "ping"]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.row("R000-07")
def test_definitions_as_a_list(provider: str) -> None:
    assert codec.encode_definitions([], provider) == []
    bodies = codec.encode_definitions((PING, LOOK), provider)
    assert str(bodies).index("ping") < str(bodies).index("look")
    assert "metadata" not in str(bodies)
    assert "owner" not in str(bodies)


@pytest.mark.row("R000-08")
def test_the_example_of_the_documentation() -> None:
    [encoded] = codec.encode_definitions([PING], "openai")
    assert encoded == {
        "type": "function",
        "function": {"name": "ping", "description": "Ping", "parameters": {"type": "object", "properties": {}}},
    }
    [told] = codec.encode_definitions([PING], "ollama")
    assert told["function"]["parameters"] == {"type": "object"}


@pytest.mark.parametrize(("provider", "knows"), [("openai", True), ("anthropic", True), ("ollama", False)])
def test_strict_is_said_where_it_is_known(provider: str, knows: bool) -> None:
    [silent] = codec.encode_definitions([Tool("look", "Look.", CLOSED)], provider)
    [strict] = codec.encode_definitions([Tool("look", "Look.", CLOSED, strict=True)], provider)
    assert "strict" not in str(silent)
    assert strict.get("function", strict).get("strict") is (True if knows else None)


def test_a_name_is_written_in_the_grammar_of_the_target_and_read_back() -> None:
    [body] = codec.encode_definitions([Tool("srv/look.up", "Look.", SCHEMA)], "anthropic")
    assert body["name"] == "srv_look_up__tw3-2f_8-2e"
    block = {"type": "tool_use", "id": "t", "name": body["name"], "input": {}}
    assert codec.decode_tool_calls({"content": [block]}, "anthropic") == [ToolCall("t", "srv/look.up")]
    [same] = codec.encode_definitions([Tool("srv/look.up", "Look.", SCHEMA)], "ollama")
    assert same["function"]["name"] == "srv/look.up"


def test_many_definitions_and_those_of_servers() -> None:
    tools = [Tool(f"t{number}", "T.", {"type": "object"}) for number in range(200)]
    assert len(codec.encode_definitions(tools, "openai")) == 200
    search = ServerTool("web_search_20250305", "anthropic", {"type": "web_search_20250305", "name": "s"})
    assert codec.encode_definitions([search], "anthropic") == [search.value]
    assert codec.encode_definitions([search], "openai") == []


def test_what_is_no_tool_is_refused() -> None:
    with pytest.raises(MissingFields, match="description, parameters"):
        codec.encode_definitions([{"name": "look"}], "openai")


def test_a_tool_that_was_read_keeps_what_its_wire_said() -> None:
    tool = Tool("look", "Look.", SCHEMA, opaque=Opaque("ollama", {"note": 1}))
    assert codec.encode_definitions([tool], "ollama") == [{**NESTED, "note": 1}]
    assert codec.encode_definitions([tool], "openai") == [NESTED]


RESULT = ToolResult("call_1", "look", "sunny")
RESULTS: dict[str, dict[str, Any]] = {
    "openai": {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    "openai-chat": {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    "anthropic": {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "sunny"}],
    },
    "ollama": {"role": "tool", "content": "sunny"},
    "gemini": {
        "role": "user",
        "parts": [{"functionResponse": {"id": "call_1", "name": "look", "response": {"output": "sunny"}}}],
    },
    "openai-responses": {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
    "responses": {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
}


@pytest.mark.parametrize(("provider", "body"), RESULTS.items(), ids=RESULTS)
@pytest.mark.row("R000-15", "R000-16", "R000-17")
def test_a_result(provider: str, body: dict[str, Any]) -> None:
    encoded = codec.encode_result(RESULT, provider)
    if provider == "gemini":
        encoded["parts"][0]["functionResponse"].setdefault("id", "call_1")  # it is free to leave the id out
    assert encoded == body


@pytest.mark.parametrize("provider", ["openai", "ollama"])
@given(content=st.text() | st.just("Error: ") | st.just(" Error: boom"))
def test_the_text_of_a_result_is_given_exactly(provider: str, content: str) -> None:
    assert codec.encode_result(ToolResult("call_1", "look", content), provider)["content"] == content


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ("openai", {"role": "tool", "tool_call_id": "call_1", "content": "Error: boom"}),
        ("ollama", {"role": "tool", "content": "Error: boom"}),
        ("responses", {"type": "function_call_output", "call_id": "call_1", "output": "Error: boom"}),
        (
            "anthropic",
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "boom", "is_error": True}],
            },
        ),
    ],
)
def test_an_error(provider: str, said: dict[str, Any]) -> None:
    assert codec.encode_result(ToolResult("call_1", "look", "boom", is_error=True), provider) == said


def test_several_results_are_grouped_where_the_wire_groups_them() -> None:
    results = [RESULT, ToolResult("call_2", "find", "there")]
    assert codec.encode_results(results, "openai") == [codec.encode_result(result, "openai") for result in results]
    assert codec.encode_results(results, "ollama") == [
        {"role": "tool", "content": "sunny"},
        {"role": "tool", "content": "there"},
    ]
    [turn] = codec.encode_results(results, "anthropic")
    assert [block["tool_use_id"] for block in turn["content"]] == ["call_1", "call_2"]
    [content] = codec.encode_results(results, "gemini")
    assert [part["functionResponse"]["name"] for part in content["parts"]] == ["look", "find"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_results(provider: str) -> None:
    assert codec.encode_results([], provider) == []


def test_a_result_that_needs_two_messages() -> None:
    seen = ToolResult("call_1", "look", [Text("a"), Image(data="aW1hZ2U=", media_type="image/png")])
    with pytest.raises(UserError, match="encode_results returns them all"):
        codec.encode_result(seen, "openai")
    assert [body["role"] for body in codec.encode_results([seen], "openai")] == ["tool", "user"]
    assert codec.encode_result(seen, "ollama") == {"role": "tool", "content": "a", "images": ["aW1hZ2U="]}


@pytest.mark.parametrize(
    ("provider", "result", "missing"),
    [
        ("openai", ToolResult(None, "look", "x"), "tool_call_id"),
        ("anthropic", ToolResult(None, "look", "x"), "tool_call_id"),
        ("responses", ToolResult(None, "look", "x"), "tool_call_id"),
        ("gemini", ToolResult("call_1", None, "x"), "name"),
    ],
)
def test_a_result_that_nothing_links_to_its_call(provider: str, result: ToolResult, missing: str) -> None:
    with pytest.raises(MissingFields, match=missing):
        codec.encode_result(result, provider)


def test_a_result_of_ollama_needs_no_link() -> None:
    assert codec.encode_result(ToolResult(None, "look", "x"), "ollama") == {"role": "tool", "content": "x"}


def test_what_is_no_result_is_refused() -> None:
    with pytest.raises(InvalidField, match=r"results\[0\] must be a ToolResult, not dict"):
        codec.encode_result({"content": "x"}, "openai")  # type: ignore[arg-type]


@pytest.mark.parametrize("provider", ["", "OpenAI", "mistrel", None, 1, ["openai"], {}])
@pytest.mark.row("I-04")
def test_an_unknown_provider(provider: Any) -> None:
    operations: tuple[tuple[Any, Any], ...] = (
        (codec.encode_definitions, [PING]),
        (codec.decode_tool_calls, {}),
        (codec.encode_result, RESULT),
        (codec.encode_results, []),
    )
    for operation, value in operations:
        with pytest.raises(UnknownDialect, match="known: openai-chat, openai-responses, anthropic") as caught:
            operation(value, provider)
        assert set(caught.value.known) == set(PROVIDERS)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_definition_that_nobody_can_write_is_refused(provider: str) -> None:
    deep: Any = {"type": "string"}
    for _ in range(5000):
        deep = {"type": "object", "properties": {"a": deep}}
    endless: dict[str, Any] = {"type": "object"}
    endless["default"] = [endless]
    for schema in (deep, endless):
        declared = {"type": "function", "function": {"name": "look", "parameters": schema}}
        for look in (Tool("look", None, schema), Tool("look", None, schema, strict=True), declared):
            with pytest.raises(InvalidSchema, match=r"^tools\[1\]: is nested too deeply"):
                codec.encode_definitions([PING, look], provider)


LOOKED = {"city": "Tokyo"}
# What a reader of the comparison sees: a declaration, a body with its calls, the calls' id, a result.
SIDE_BY_SIDE: dict[str, tuple[dict[str, Any], Any, str | None, dict[str, Any]]] = {
    "openai": (
        NESTED,
        lambda calls: {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": calls}}]},
        "call_1",
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ),
    "anthropic": (
        {"name": "look", "description": "Look.", "input_schema": SCHEMA},
        lambda calls: {"content": [{"type": "text", "text": "Hm."}, {"type": "thinking", "thinking": "?"}, *calls]},
        "call_1",
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "sunny"}]},
    ),
    "ollama": (
        NESTED,
        lambda calls: {"message": {"role": "assistant", "content": "", "tool_calls": calls}},
        None,
        {"role": "tool", "content": "sunny"},
    ),
}
CALLED: dict[str, Any] = {
    "openai": lambda name: {
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": '{"city": "Tokyo"}'},
    },
    "anthropic": lambda name: {"type": "tool_use", "id": "call_1", "name": name, "input": LOOKED},
    "ollama": lambda name: {"function": {"name": name, "arguments": LOOKED}},
}


@pytest.mark.parametrize("provider", SIDE_BY_SIDE)
@pytest.mark.row("R000-03", "R000-04", "R000-05", "R000-06", "R000-07", "R000-09", "R000-10", "R000-11", "R000-12")
@pytest.mark.row("R000-13", "R000-15", "R000-16", "R000-17", "R000-18", "R000-19", "R000-20", "R000-21", "R000-22")
@pytest.mark.row("R000-23", "R000-24")
def test_three_providers_side_by_side(provider: str) -> None:
    declared, answer, call_id, told = SIDE_BY_SIDE[provider]
    tools = [Tool("look", "Look.", SCHEMA, metadata={"owner": "me"}), Tool("find", "Look.", SCHEMA)]
    named = [
        declared if name == "look" else msgspec.json.decode(msgspec.json.encode(declared).replace(b"look", b"find"))
        for name in ("look", "find")
    ]
    assert codec.encode_definitions(tools, provider) == named
    assert codec.encode_definitions([], provider) == []
    calls = codec.decode_tool_calls(answer([CALLED[provider]("look"), CALLED[provider]("find")]), provider)
    assert [(type(call), call.id, call.name, call.arguments) for call in calls] == [
        (toolwire.ToolCall, call_id, "look", LOOKED),
        (toolwire.ToolCall, call_id, "find", LOOKED),
    ]
    assert codec.encode_result(toolwire.ToolResult("call_1", "look", "sunny"), provider) == told


@pytest.mark.parametrize("provider", SIDE_BY_SIDE)
@pytest.mark.row("R000-14")
def test_where_nothing_is_called_nothing_is_read(provider: str) -> None:
    key = {"openai": "choices", "anthropic": "content", "ollama": "message"}[provider]
    _, answer, _, _ = SIDE_BY_SIDE[provider]
    bodies: list[Any] = [{}, {"other": 1}, {key: None}, {key: []}, {key: {}}, answer([]), {key: "Hello."}]
    for body in bodies:
        assert codec.decode_tool_calls(body, provider) == []
    if provider != "anthropic":
        assert codec.decode_tool_calls(answer(None), provider) == []


@pytest.mark.row("R000-01")
def test_the_codec_needs_no_network_and_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: Any, **_more: Any) -> Any:
        raise AssertionError("the codec only reads and writes values")

    ran: list[str] = []

    @toolwire.tool
    def look(city: str) -> str:
        """Look."""
        ran.append(city)
        return city

    for name in ("socket.socket", "socket.getaddrinfo", "builtins.open", "os.open", "subprocess.Popen"):
        monkeypatch.setattr(name, refuse)
    for provider, (_, answer, _, _) in SIDE_BY_SIDE.items():
        assert codec.encode_definitions([look.definition()], provider)
        assert codec.decode_tool_calls(answer([CALLED[provider]("look")]), provider)
        assert codec.encode_result(RESULT, provider)
    assert ran == []


@pytest.mark.row("R000-02")
def test_the_operations_are_few_and_in_one_place() -> None:
    assert set(toolwire.codec.__all__) == {"encode_definitions", "decode_tool_calls", "encode_result", "encode_results"}
