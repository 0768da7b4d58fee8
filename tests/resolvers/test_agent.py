"""A resolver of Python tools: what may declare one, what it is given, and what becomes of what it raises."""

import asyncio
import copy
import gc
import json
import logging
import time
import weakref
from typing import Any

import pytest

from toolwire import AgentResolver, Document, Image, Text, Tool, ToolCall, ToolError, ToolResult, UnknownTool, tool
from toolwire.errors import InvalidField
from toolwire.resolvers import ToolResolver
from toolwire.resolvers.handler import handlers_of

SEARCH = Tool.new(
    name="search",
    description="Search the knowledge base",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)


class Search:
    definition = SEARCH

    def execute(self, args: dict[str, Any], context: Any) -> Any:
        return f"{args['query']} for {context}"

    def sensitive_fields(self) -> list[str]:
        return ["api_key"]


class Static:
    @staticmethod
    def definition() -> Tool:
        return SEARCH

    @staticmethod
    def execute(args: dict[str, Any]) -> str:
        return str(args["query"])


@tool(sensitive=["token"], timeout=3)
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
async def fetch(query: str, context: Any) -> str:
    """Fetch."""
    await asyncio.sleep(0)
    return f"{query} {context}"


class Service:
    def __init__(self, place: str) -> None:
        self.place = place

    @tool
    def weather(self, day: str) -> str:
        """Say the weather."""
        return f"{self.place} {day}"

    @tool
    def tide(self) -> str:
        """Say the tide."""
        return "low"


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("call_1", name, arguments)


@pytest.mark.row("R002-53")
def test_no_tools_are_no_tools() -> None:
    assert AgentResolver([]).available_tools() == []
    assert AgentResolver(tools=[]).available_tools() == []


@pytest.mark.row("R002-54", "R002-31")
def test_it_is_a_resolver() -> None:
    assert isinstance(AgentResolver([add]), ToolResolver)


@pytest.mark.row("R002-62")
def test_tools_are_listed_in_the_order_in_which_they_were_given() -> None:
    resolver = AgentResolver(tools=[Search, add, Service("Rome"), fetch])
    names = [declared.name for declared in resolver.available_tools()]
    assert names == ["search", "add", "weather", "tide", "fetch"]
    assert resolver.available_tools()[0] == SEARCH


@pytest.mark.parametrize("given", [Search, Search(), Static, Static()])
@pytest.mark.row("R002-20", "R002-21")
def test_classes_and_objects_have_a_definition_and_execute(given: Any) -> None:
    resolver = AgentResolver([given])
    assert resolver.available_tools() == [SEARCH]
    assert resolver.resolve(call("search", query="cats")).content.startswith("cats")  # type: ignore[union-attr]


@pytest.mark.row("R002-55")
def test_the_context_is_forwarded_as_it_is() -> None:
    seen = []

    def look(context: Any) -> None:
        seen.append(context)

    context = object()
    AgentResolver([look]).resolve(call("look"), context)
    assert seen == [context]
    assert seen[0] is context


@pytest.mark.row("R002-56")
def test_without_a_context_there_is_an_empty_map() -> None:
    assert AgentResolver([Search]).resolve(call("search", query="x")).content == "x for {}"


@pytest.mark.row("R002-51")
def test_a_result_is_linked_to_its_call() -> None:
    assert AgentResolver([add]).resolve(call("add", a=1)) == ToolResult("call_1", "add", "3")


@pytest.mark.row("R002-57", "4.3.8")
def test_sensitive_fields_are_those_that_were_declared() -> None:
    resolver = AgentResolver([Search, add, fetch])
    fields = [resolver.sensitive_fields_for(name) for name in ("search", "add", "fetch", "nothing")]
    assert fields == [["api_key"], ["token"], [], []]


@tool(sensitive=["api_key"])
def leak(api_key: str, inner: dict[str, Any]) -> str:
    """Leak."""
    raise ValueError(f"bad key {api_key!r} in {inner}")


@pytest.mark.row("R002-58", "R002-59", "R002-60", "4.3.8")
def test_what_a_tool_raises_is_its_result_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "toolwire"):
        result = AgentResolver([leak]).resolve(call("leak", api_key="sk-12345", inner={"API_KEY": "n3sted", "a": 1}))
    assert result.is_error
    assert str(result.content).startswith("Tool execution failed: bad key")
    assert "'leak'" in caplog.text
    assert "ValueError" in caplog.text
    for secret in ("sk-12345", "n3sted"):
        assert secret not in caplog.text
        assert secret not in str(result.content)
    assert "'a': 1" in caplog.text, "what is not sensitive is told"


def test_what_nobody_declared_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A control: the log does hold arguments and exceptions."""

    def bare(word: str) -> str:
        raise ValueError(word)

    AgentResolver([bare]).resolve(call("bare", word="sk-12345"))
    assert "sk-12345" in caplog.text


def test_a_tool_fails_with_its_own_words() -> None:
    def book() -> str:
        raise ToolError("there is no seat left on Monday")

    assert AgentResolver([book]).resolve(call("book")) == ToolResult(
        "call_1", "book", "there is no seat left on Monday", is_error=True
    )


@pytest.mark.sampled
@pytest.mark.parametrize(
    "problem",
    [
        ValueError("x"),
        KeyError("x"),
        SystemExit(3),
        RecursionError("x"),
        MemoryError(),
        StopIteration("x"),
        StopAsyncIteration("x"),
        UnknownTool("other", []),
        ExceptionGroup("x", [ValueError("x")]),
        AssertionError(),
    ],
    ids=lambda problem: type(problem).__name__,
)
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.row("J3")
def test_whatever_a_tool_raises_is_an_error_result(problem: BaseException, is_async: bool) -> None:
    def plain() -> str:
        raise problem

    async def waiting() -> str:
        raise problem

    resolver = AgentResolver([tool(name="bad")(waiting if is_async else plain)])
    for result in (resolver.resolve(call("bad")), asyncio.run(resolver.aresolve(call("bad")))):
        assert result.is_error
        assert str(result.content).startswith("Tool execution failed: ")
        assert len(str(result.content)) > len("Tool execution failed: ")


@pytest.mark.row("J3")
def test_what_stops_the_program_goes_through() -> None:
    def stop() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        AgentResolver([stop]).resolve(call("stop"))


class Own(BaseException):
    pass


@pytest.mark.parametrize(
    "problem",
    [asyncio.CancelledError("why"), GeneratorExit("why"), Own("why"), BaseExceptionGroup("why", [Own("x")])],
    ids=lambda problem: type(problem).__name__,
)
def test_a_tool_cannot_end_the_turn_by_what_it_raises(problem: BaseException) -> None:
    def stop() -> str:
        raise problem

    async def astop() -> str:
        raise problem

    for tool_of in (stop, astop):
        resolver = AgentResolver([tool_of])
        for result in (
            resolver.resolve(call(tool_of.__name__)),
            asyncio.run(resolver.aresolve(call(tool_of.__name__))),
        ):
            assert result.is_error
            assert f"{type(problem).__name__}: why" in str(result.content)


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        ("", ""),
        (None, "null"),
        (3, "3"),
        (1.5, "1.5"),
        (True, "true"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([1, "x"], '[1,"x"]'),
        ({3, 1, 2}, "[1,2,3]"),
        (b"ab", '"YWI="'),
        ("half \ud800", "half \ufffd\ufffd\ufffd"),
        (["half \ud800", "é", {1, 2}], '["half \ufffd\ufffd\ufffd","é",[1,2]]'),
        ({"\udcff": b"ab"}, '{"\ufffd\ufffd\ufffd":"YWI="}'),
        (Text("half \ud800"), [Text("half \ufffd\ufffd\ufffd")]),
        (
            ["\ud800", {"a": "\ud800"}, Document(text="\ud800", name="é")],
            [
                Text("\ufffd\ufffd\ufffd"),
                Text('{"a":"\ufffd\ufffd\ufffd"}'),
                Document(text="\ufffd\ufffd\ufffd", name="é"),
            ],
        ),
        (ToolResult("other", "other", [Text("\ud800")], is_error=True), [Text("\ufffd\ufffd\ufffd")]),
        (Text("a"), [Text("a")]),
        (["see", Image("https://x/y.png")], [Text("see"), Image("https://x/y.png")]),
        (("ok", "x"), '["ok","x"]'),
        (ToolResult("other", "other", "x", is_error=True), "x"),
    ],
)
def test_a_value_is_the_content_of_the_result(value: Any, content: Any) -> None:
    def give() -> Any:
        return value

    result = AgentResolver([give]).resolve(call("give"))
    assert result.content == content
    assert (result.tool_call_id, result.name) == ("call_1", "give")
    assert result.is_error == isinstance(value, ToolResult)


@pytest.mark.parametrize(
    "value",
    [
        CIRCLE,
        float("nan"),
        {"x": [float("inf")]},
        {"\ud800": [float("inf")]},
        object(),
        (n for n in "ab"),
        {1: {2: object()}},
        "\ud800".encode,
    ],
)
@pytest.mark.row("J3")
def test_a_value_that_has_no_json_is_an_error_result(value: Any) -> None:
    def give() -> Any:
        return value

    result = AgentResolver([give]).resolve(call("give"))
    assert result.is_error
    assert str(result.content).startswith("Tool execution failed: ")


@pytest.mark.row("R002-21", "R002-30")
def test_an_object_may_answer_ok_or_error() -> None:
    class Picky:
        definition = SEARCH

        def execute(self, args: dict[str, Any], _context: Any) -> tuple[str, str]:
            return ("ok", "found") if args["query"] == "x" else ("error", "nothing")

    resolver = AgentResolver([Picky()])
    assert resolver.resolve(call("search", query="x")) == ToolResult("call_1", "search", "found")
    assert resolver.resolve(call("search", query="y")) == ToolResult("call_1", "search", "nothing", is_error=True)


@pytest.mark.row("R002-36")
def test_a_name_that_is_not_there_is_raised_with_those_that_are() -> None:
    with pytest.raises(UnknownTool, match=r"Unknown tool: Add; available: add, fetch") as raised:
        AgentResolver([add, fetch]).resolve(call("Add"))
    assert (raised.value.name, raised.value.known) == ("Add", ("add", "fetch"))


@pytest.mark.row("I-09", "I-19")
def test_a_call_that_does_not_fit_is_not_run_and_says_what_to_mend() -> None:
    ran = []

    def order(item: str, count: int) -> None:
        ran.append((item, count))

    resolver = AgentResolver([order])
    result = resolver.resolve(call("order", count="5"))
    assert result.is_error
    assert str(result.content).startswith("invalid arguments for 'order': ")
    assert "missing required field: item" in str(result.content)
    assert "field count: expected type integer, got" in str(result.content)
    for broken in (ToolCall("c", "order", {}, complete=False), ToolCall.parse("c", "order", '{"item": ')):
        assert resolver.resolve(broken).is_error
    assert ran == []
    assert not resolver.resolve(call("order", item="tea", count=5.0)).is_error
    assert ran == [("tea", 5)]
    assert type(ran[0][1]) is int


@pytest.mark.row("K8")
def test_a_tool_cannot_change_the_arguments_of_its_call() -> None:
    def spoil(items: list[Any]) -> str:
        items.append("more")
        return json.dumps(items)

    class Spoil:
        definition = Tool.new(name="spoiling", description="", parameters={"type": "object"})

        def execute(self, args: dict[str, Any]) -> str:
            args["items"].append("more")
            return json.dumps(args["items"])

    resolver = AgentResolver([spoil, Spoil])
    for name in ("spoil", "spoiling"):
        given = call(name, items=["one"])
        assert resolver.resolve(given).content == '["one", "more"]'
        assert given.arguments == {"items": ["one"]}


def test_async_tools_work_from_sync_and_from_async_code() -> None:
    resolver = AgentResolver([fetch, add])
    assert resolver.resolve(call("fetch", query="a"), 7).content == "a 7"

    async def main() -> None:
        assert (await resolver.aresolve(call("fetch", query="a"), 7)).content == "a 7"
        assert (await resolver.aresolve(call("add", a=1))).content == "3"
        waiting: Any = resolver.resolve(call("fetch", query="b"), 8)
        assert (await waiting).content == "b 8"
        assert resolver.resolve(call("add", a=1)).content == "3"

    asyncio.run(main())


@pytest.mark.row("H8")
def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidField, match="has 'add' twice"):
        AgentResolver([add, add])


def test_a_method_needs_its_object() -> None:
    assert AgentResolver([Service("Rome").weather]).resolve(call("weather", day="Monday")).content == "Rome Monday"
    with pytest.raises(InvalidField, match="pass the method of an object"):
        AgentResolver([Service.weather])


@pytest.mark.parametrize("given", [3, "add", None, object(), int])
def test_what_is_no_tool_is_refused(given: Any) -> None:
    with pytest.raises(InvalidField, match="must be functions"):
        AgentResolver([given])


def test_the_schema_of_a_tool_is_read_once() -> None:
    @tool
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    [first], [again] = handlers_of(double), handlers_of(double)
    assert first is again
    texts = {"type": "object", "properties": {"n": {"type": "string"}}}
    double.tool = Tool.new(name="twice", description="Double.", parameters=texts)
    [other] = handlers_of(double)
    assert (other.tool.name, len(other.problems(ToolCall("c", "twice", {"n": 2})))) == ("twice", 1)
    [of_a_copy] = handlers_of(copy.deepcopy(double))
    assert of_a_copy is not other
    left = weakref.ref(double)
    del double
    end = time.monotonic() + 5
    while left() is not None and time.monotonic() < end:
        gc.collect()  # it does nothing while another thread of this process collects
    assert left() is None, "what is kept of a tool goes with it"


def test_what_a_tool_tells_the_model_of_a_failure_is_told_whole() -> None:
    """The end of a failing command says how it ended."""

    @tool
    def build() -> str:
        """Build."""
        raise ToolError("line\n" * 2_000 + "[exit code 3]")

    result = AgentResolver([build]).resolve(ToolCall("c", "build", {}))
    assert result.is_error
    assert str(result.content).endswith("line\n[exit code 3]")
    assert len(str(result.content)) > 10_000
