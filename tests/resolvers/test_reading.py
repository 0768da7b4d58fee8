"""Tools as callers give them: every door takes the same, in the order given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire import Context, Tool, ToolCall, execute, generate, tool
from toolwire.codetools import CodeTools
from toolwire.errors import InvalidField
from toolwire.mcp.server import server_of
from toolwire.resolvers import AgentResolver
from toolwire.resolvers.reading import read_tools, unique_tools
from toolwire.testing import simulate
from toolwire.types import Message, ServerTool, ToolResult

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def plain(city: str = "") -> str:
    """Return the weather."""
    return f"plain {city}"


decorated = tool(plain)


class WithValue:
    definition = Tool.new(name="value", description="d", parameters=SCHEMA)

    def execute(self, arguments: dict[str, Any], context: Any) -> str:
        del context
        return f"value {arguments.get('city')}"


class WithMethod:
    @staticmethod
    def definition() -> Tool:
        return Tool.new(name="method", description="d", parameters=SCHEMA)

    @staticmethod
    def execute(arguments: dict[str, Any]) -> str:
        return f"method {arguments.get('city')}"


class WithAttributes:
    name, description, input_schema = "attributes", "d", SCHEMA

    def execute(self, arguments: dict[str, Any]) -> str:
        return f"attributes {arguments.get('city')}"


class Listing:
    def available_tools(self) -> list[Tool]:
        return [Tool.new(name="listed", description="d", parameters=SCHEMA)]

    def resolve(self, call: ToolCall) -> str:
        return f"listed {call.arguments.get('city')}"


KINDS: dict[str, tuple[Any, str]] = {
    "function": (plain, "plain"),
    "decorated function": (decorated, "plain"),
    "class with a value": (WithValue, "value"),
    "object with a value": (WithValue(), "value"),
    "class with a method": (WithMethod, "method"),
    "class with attributes": (WithAttributes, "attributes"),
    "resolver": (Listing(), "listed"),
    "resolver class": (Listing, "listed"),
    "resolver of functions": (AgentResolver([decorated]), "plain"),
}


def _through_generate(tools: Any, name: str) -> str:
    with simulate([[ToolCall("c", name, {"city": "Bonn"})], "done"]) as model:
        done = generate("x", "openai", "m", tools=tools, base_url=model.url, api_key="k")
    return _result_in(done.messages)


def _through_context(tools: Any, name: str) -> str:
    with simulate([[ToolCall("c", name, {"city": "Bonn"})], "done"]) as model:
        done = generate(Context(messages=["x"], tools=tools), "openai", "m", base_url=model.url, api_key="k")
    return _result_in(done.messages)


def _through_execute(tools: Any, name: str) -> str:
    [result] = execute([ToolCall("c", name, {"city": "Bonn"})], tools)
    return str(result.content)


def _result_in(messages: Any) -> str:
    [result] = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
    return str(result.content)


DOORS: dict[str, Callable[[Any, str], str]] = {
    "generate": _through_generate,
    "Context": _through_context,
    "execute": _through_execute,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_door_takes_every_kind_of_tool(door: str, kind: str) -> None:
    source, name = KINDS[kind]
    assert DOORS[door]([source], name) == f"{name} Bonn"


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_of_the_model_context_protocol_takes_it_too(kind: str) -> None:
    source, _ = KINDS[kind]
    assert server_of([source]) is not None
    assert server_of(source) is not None


def test_a_context_takes_one_resolver(tmp_path: Path) -> None:
    declared = Context(messages=["x"], tools=CodeTools(tmp_path)).tools
    assert [one.name for one in declared if isinstance(one, Tool)] == [
        one.name for one in CodeTools(tmp_path).available_tools()
    ]


def test_the_error_names_the_tool_that_is_none() -> None:
    tools: Any = [plain, 5]
    with pytest.raises(InvalidField, match=r"Context\.tools\[1\]: .*not 5"):
        Context(messages=["x"], tools=tools)
    with pytest.raises(InvalidField, match=r"tools\[1\]: .*not 5"):
        generate("x", "openai", "m", tools=tools, api_key="k")
    with pytest.raises(InvalidField, match=r"mcp\.serve\[1\]: .*not 5"):
        server_of(tools)


def test_tools_are_sent_in_the_order_given() -> None:
    order: list[Any] = [WithValue, {"name": "map", "description": "d", "parameters": SCHEMA}, Listing(), plain]
    assert [one.name for one in read_tools(order).declared if isinstance(one, Tool)] == [
        "value",
        "map",
        "listed",
        "plain",
    ]
    with simulate(["done"]) as model:
        generate("x", "openai", "m", tools=order, base_url=model.url, api_key="k")
        [request] = model.requests
    assert [one["function"]["name"] for one in request.body["tools"]] == ["value", "map", "listed", "plain"]


def test_the_first_match_runs_a_call(tmp_path: Path) -> None:
    @tool
    def read_file(path: str) -> str:
        """Read."""
        return f"mine {path}"

    (tmp_path / "a").write_text("theirs")
    call = ToolCall("c", "read_file", {"path": "a"})
    assert execute([call], [CodeTools(tmp_path), read_file])[0].content == "theirs"
    assert execute([call], [read_file, CodeTools(tmp_path)])[0].content == "mine a"
    declared = unique_tools(read_tools([CodeTools(tmp_path), read_file]).declared)
    assert len({one.name for one in declared if isinstance(one, Tool)}) == len(declared)


EDITOR = {"type": "text_editor_20250124", "name": "str_replace_editor"}


def _editor(command: str = "", path: str = "") -> str:
    """Edit."""
    return f"edited {command}" if path else "no path"


class Editor:
    definition = EDITOR

    def execute(self, arguments: dict[str, Any]) -> str:
        return f"edited {arguments['command']}"


class EditorResolver:
    def available_tools(self) -> list[Tool]:
        return [Tool(name="str_replace_editor")]

    def resolve(self, call: ToolCall) -> str:
        return f"edited {call.arguments['command']}"


_editor.__name__ = "str_replace_editor"
RUNNERS: dict[str, dict[str, Any]] = {
    "a resolver": {"tools": [EDITOR], "resolver": EditorResolver()},
    "a resolver among the tools": {"tools": [EDITOR, EditorResolver()]},
    "a function of its name": {"tools": [EDITOR, _editor]},
    "a function before it": {"tools": [_editor, EDITOR]},
    "a class that declares it": {"tools": [Editor]},
}


@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini"])
@pytest.mark.parametrize("runner", RUNNERS)
def test_a_tool_that_its_provider_defines_is_run_by_the_client(runner: str, provider: str) -> None:
    call = ToolCall("toolu_1", "str_replace_editor", {"command": "view", "path": "/a"})
    with simulate([[call], "done"]) as model:
        done = generate("x", provider, "m", base_url=model.url, api_key="k", **RUNNERS[runner])
        body = model.requests[0].body
    assert _result_in(done.messages) == "edited view"
    if provider == "anthropic":
        assert body["tools"] == [EDITOR]


def test_a_tool_that_its_provider_runs_stays_as_it_is() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    [declared] = read_tools([search]).declared
    assert isinstance(declared, ServerTool)
    assert read_tools([search]).resolver is None


def test_results_go_on_in_a_history() -> None:
    calls = [ToolCall("a", "plain", {"city": "Bonn"}), ToolCall("b", "plain", {"city": "Rome"})]
    results = execute(calls, [plain])
    with simulate(["done"]) as model:
        generate(["Weather?", Message("assistant", [*calls]), *results], "openai", "m", base_url=model.url, api_key="k")
        body = model.requests[0].body
    assert [one["role"] for one in body["messages"]] == ["user", "assistant", "tool", "tool"]
    assert [one["content"] for one in body["messages"][2:]] == ["plain Bonn", "plain Rome"]
    context = Context(messages=["x", Message("assistant", [*calls]), *results, "and now?", "?"])
    assert [message.role for message in context.messages] == ["user", "assistant", "tool", "user", "user"]
