"""What users of resolvers rely on: tools, calls and results as values, and their own resolvers."""

import ast
import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

import toolwire
from toolwire import (
    AgentResolver,
    Composition,
    Context,
    Message,
    Request,
    Tool,
    ToolCall,
    ToolResult,
    aio,
    dialect,
    execute,
    resolvers,
    session_tools,
)
from toolwire.errors import InvalidField, MissingFields

SEARCH = {
    "name": "search",
    "description": "Search the knowledge base",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}


class ToolResolver:
    """A caller's own resolver, in the shape of the original's example."""

    def available_tools(self) -> list[Tool]:
        return [Tool.new(SEARCH)]

    def resolve(self, call: ToolCall) -> tuple[str, str]:
        match call:
            case ToolCall(name="search", arguments={"query": str(query)}):
                return ("ok", f"results for {query}") if query else ("error", "the query is empty")
        return ("error", f"Unknown tool: {call.name}")


@pytest.mark.row("R002-38", "R002-19")
def test_the_original_example_works() -> None:
    resolver = Composition.new([ToolResolver()])
    calls = [
        ToolCall("1", "search", {"query": "tea"}),
        ToolCall("2", "search", {"query": ""}),
        ToolCall("3", "bash", {}),
    ]
    for results in (execute(calls, resolver), asyncio.run(aio.execute(calls, resolver))):
        assert [(one.tool_call_id, one.content, one.is_error) for one in results] == [
            ("1", "results for tea", False),
            ("2", "the query is empty", True),
            ("3", "unknown tool 'bash'. Available: search", True),
        ]


@pytest.mark.row("R002-40", "R002-41", "R002-42")
def test_a_tool_is_pure_data() -> None:
    tool = Tool.new(SEARCH)
    assert tool.metadata == {}
    assert json.loads(json.dumps(to_builtins(tool)))["name"] == "search"
    assert Tool.new(SEARCH, metadata={"a": 1}).metadata == {"a": 1}


@pytest.mark.parametrize(
    ("given", "code", "fields", "message"),
    [
        ({}, "missing_keys", ["name", "description", "parameters"], "name, description, parameters"),
        ({"name": "x"}, "missing_keys", ["description", "parameters"], "description, parameters"),
        ({**SEARCH, "name": 1}, "invalid_field", "name", "must be a string"),
        ({**SEARCH, "description": []}, "invalid_field", "description", "must be a string"),
        ({**SEARCH, "parameters": "x"}, "invalid_field", "parameters", "must be a map"),
        ({**SEARCH, "metadata": 1}, "invalid_field", "metadata", "must be a map"),
    ],
)
@pytest.mark.row("R002-43", "I-07", "4.3.7")
def test_a_tool_that_lacks_something_is_not_made(given: Any, code: str, fields: Any, message: str) -> None:
    with pytest.raises((MissingFields, InvalidField), match=message) as raised:
        Tool.new(given)
    problem: Any = raised.value
    assert (problem.code, getattr(problem, "fields", None) or problem.field) == (code, fields)


@pytest.mark.row("I-08")
def test_keywords_and_maps_are_alike() -> None:
    assert Tool.new(**SEARCH) == Tool.new(SEARCH) == Tool.from_map(SEARCH)


@pytest.mark.parametrize(
    ("make", "good", "bad"),
    [
        (
            ToolCall.new,
            {"name": "x", "arguments": {}},
            [{}, {"name": "x"}, {"arguments": {}}, {"name": 1, "arguments": {}}],
        ),
        (ToolResult.new, {"name": "x", "content": "y"}, [{}, {"name": "x"}, {"name": "x", "content": 3}]),
    ],
)
@pytest.mark.row("R002-46", "R002-48", "R002-49", "R002-50")
def test_calls_and_results_are_made_or_refused(make: Any, good: dict[str, Any], bad: list[Any]) -> None:
    made = make({**good, **({"id": "c"} if make == ToolCall.new else {"tool_call_id": "c"})})
    assert getattr(made, "id", None) or made.tool_call_id == "c"
    assert getattr(make(good), "id" if make == ToolCall.new else "tool_call_id") is None
    for given in bad:
        with pytest.raises((MissingFields, InvalidField)):
            make(given)


@pytest.mark.parametrize("arguments", ['{"a": 1}', None, [], 3])
@pytest.mark.row("R002-47")
def test_arguments_are_never_text(arguments: Any) -> None:
    with pytest.raises(InvalidField, match="arguments must be a map"):
        ToolCall("c", "x", arguments)


@pytest.mark.parametrize("value", [Tool.new(SEARCH), ToolCall("c", "x", {"a": 1}), ToolResult("c", "x", "y")])
@pytest.mark.row("R002-52")
def test_values_are_equal_and_frozen(value: Any) -> None:
    assert value == copy.deepcopy(value)
    with pytest.raises(AttributeError):
        value.name = "other"
    assert replace(value, name="other") != value


@pytest.mark.row("R002-61")
def test_one_buggy_tool_leaves_the_others_alone() -> None:
    def good() -> str:
        return "fine"

    def bad() -> str:
        raise RuntimeError("broken")

    calls = [ToolCall(str(n), name, {}) for n, name in enumerate(["good", "bad", "good"])]
    assert [one.is_error for one in execute(calls, AgentResolver([good, bad]))] == [False, True, False]


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"])
@pytest.mark.row("R002-90")
def test_without_tools_a_request_has_no_tools(name: str) -> None:
    tools, _ = session_tools.prepare(AgentResolver([]), ["anything"], {})
    encoded = dialect(name).encode_request(
        Request(model="m", max_tokens=9, context=Context(None, [Message("Hi")], tools))
    )
    assert "tools" not in encoded.body


def test_a_prepared_tool_goes_to_every_dialect_and_its_call_comes_back() -> None:
    def search(query: str) -> str:
        """Search."""
        return query

    tools, resolve = session_tools.prepare(AgentResolver([search]), ["search"], {})
    history = [Message("Find."), Message("assistant", [ToolCall("call_1", "search", {"query": "x"})])]
    for name in ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama"):
        one = dialect(name)
        encoded = one.encode_request(Request(model="m", max_tokens=9, context=Context(None, history, tools)))
        decoded = one.decode_request(encoded.body, encoded.path)
        assert [getattr(tool, "name", None) for tool in decoded.tools] == ["search"]
        [call] = decoded.messages[1].tool_calls
        [result] = execute([call], resolve)
        assert result.content == "x"


SOURCES = sorted(
    path
    for name in ("resolvers", "resolvers/functions", "schema", "codetools", "declarations", "mcp")
    for path in (Path(toolwire.__file__).parent / name).glob("*.py")
) + [Path(toolwire.__file__).parent / f"{name}.py" for name in ("waiting/steps", "waiting/results")]
CACHES = {"lru_cache", "cache"}


def shared_state(text: str) -> list[str]:
    """Name what one session could see of another: default arguments that change, and caches of results."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            found += [
                f"{node.name} has a default that changes"
                for one in defaults
                if isinstance(one, ast.List | ast.Dict | ast.Set)
            ]
            names = {getattr(one, "attr", getattr(one, "id", "")) for one in node.decorator_list}
            names |= {
                getattr(one.func, "attr", getattr(one.func, "id", ""))
                for one in node.decorator_list
                if isinstance(one, ast.Call)
            }
            if names & CACHES and any(
                argument.arg in {"resolver", "call", "context", "self"} for argument in node.args.args
            ):
                found.append(f"{node.name} remembers what it was called with")
    return found


@pytest.mark.row("R002-23", "K4")
def test_no_module_keeps_what_a_session_gave() -> None:
    assert {path.name: found for path in SOURCES if (found := shared_state(path.read_text("utf-8")))} == {}


@pytest.mark.parametrize(
    "text", ["def f(a=[]): ...", "@cache\ndef f(context): ...", "@functools.lru_cache(8)\ndef f(call): ..."]
)
def test_shared_state_is_found(text: str) -> None:
    """A control."""
    assert len(shared_state(text)) == 1


@pytest.mark.row("K10")
def test_a_tool_that_shadows_another_is_refused_or_comes_second() -> None:
    def bash() -> str:
        return "mine"

    def other() -> str:
        return "theirs"

    other.__name__ = "bash"
    with pytest.raises(InvalidField, match="has 'bash' twice"):
        AgentResolver([bash, other])
    assert (
        Composition([AgentResolver([bash]), AgentResolver([other])]).resolve(ToolCall("1", "bash", {})).content
        == "mine"
    )


@pytest.mark.row("R002-24")
def test_each_module_of_the_original_has_its_counterpart() -> None:
    for name in ("CodeTools", "AgentResolver", "Composition", "Tool", "ToolCall", "ToolResult", "Trace"):
        assert isinstance(getattr(toolwire, name), type), name
    assert issubclass(toolwire.AgentResolver, resolvers.ToolResolver)
    assert callable(toolwire.session_tools.prepare)


@pytest.mark.row("R002-31", "R002-54", "R002-63")
def test_every_resolver_lists_its_tools_and_resolves_a_call(tmp_path: Path) -> None:
    def hello() -> str:
        """Say hello."""
        return "hello"

    (tmp_path / "f").write_text("hello")
    mine = AgentResolver([hello])
    reading, saying = ToolCall("1", "read_file", {"path": "f"}), ToolCall("1", "hello", {})
    made: list[tuple[Any, ToolCall]] = [
        (toolwire.CodeTools(tmp_path), reading),
        (mine, saying),
        (Composition([mine]), saying),
    ]
    for resolver, call in made:
        tools = resolver.available_tools()
        assert (type(tools), {type(tool) for tool in tools}) == (list, {Tool})
        assert call.name in [tool.name for tool in tools]
        assert resolver.resolve(call) == ToolResult("1", call.name, "hello")
    for lacking in ("resolve", "available_tools"):
        has: dict[str, Any] = {name: lambda *_: [] for name in ("resolve", "available_tools") if name != lacking}
        with pytest.raises(InvalidField, match=f"resolver must have `{lacking}`"):
            Composition([type("Half", (), has)()])
