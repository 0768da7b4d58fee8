"""`@tool`: what is declared of a function, a method or a class, and that it is called as before."""

import asyncio
from typing import Any

import pytest

from toolwire import AgentResolver, Tool, ToolCall, tool
from toolwire.errors import InvalidField, InvalidSchema
from toolwire.resolvers.functions import FunctionTool


@tool
def search(query: str, limit: int = 5) -> list[str]:
    """Search the knowledge base.

    Args:
        query: What to look for.
        limit: How many results.
    """
    return [query] * limit


def test_a_function_says_what_it_is() -> None:
    assert search.definition() == Tool(
        "search",
        "Search the knowledge base.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for."},
                "limit": {"type": "integer", "default": 5, "description": "How many results."},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    )


def test_it_is_called_as_before() -> None:
    assert search("a", limit=2) == ["a", "a"]
    assert (search.__name__, search.__doc__ is None) == ("search", False)
    assert search.execute({"query": "a", "limit": 1}) == ["a"]
    assert repr(search) == "<tool 'search'>"


def test_an_async_function_is_one_too() -> None:
    @tool
    async def wait(seconds: float) -> float:
        """Wait."""
        await asyncio.sleep(0)
        return seconds

    assert asyncio.run(wait(1.5)) == 1.5
    assert AgentResolver([wait]).resolve(ToolCall("c", "wait", {"seconds": 2})).content == "2.0"


def test_options_say_what_the_function_does_not() -> None:
    @tool(
        name="find",
        description="Find.",
        parameters={"type": "object", "properties": {"q": {"type": "string"}}},
        sensitive=["key"],
        strict=True,
        parallel=True,
        timeout=3,
        output_limit=10,
        metadata={"team": "search"},
    )
    def anything(q: str = "") -> str:
        return q

    assert anything.definition() == Tool(
        "find",
        "Find.",
        {"type": "object", "properties": {"q": {"type": "string"}}},
        {"team": "search", "parallel": True, "timeout": 3, "output_limit": 10},
        strict=True,
    )
    assert anything.sensitive_fields() == ["key"]


@pytest.mark.parametrize("name", ["timeout", "output_limit"])
@pytest.mark.parametrize("amount", [0, -1, float("nan"), "5", True])
def test_a_limit_that_would_limit_nothing_is_refused(name: str, amount: Any) -> None:
    with pytest.raises(InvalidField, match=f"tool: {name} must be a number above 0, not "):
        tool(name="one", **{name: amount})(lambda: None)


def test_an_option_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidField, match=r"tool: paralel is not an option; there are: context, custom, description"):
        tool(paralel=True)  # type: ignore[call-overload]


@pytest.mark.parametrize("given", [lambda: 1])
def test_what_has_no_name_needs_one(given: Any) -> None:
    with pytest.raises(InvalidField, match="name is missing"):
        tool(given)
    assert tool(name="one")(given).definition().name == "one"


def test_the_context_is_no_parameter() -> None:
    def plain(query: str, context: Any) -> str:
        return f"{query} {context}"

    def other(query: str, session: Any) -> str:
        return f"{query} {session}"

    def none(context: str) -> str:
        return context

    made = tool(plain), tool(context="session")(other), tool(context=None)(none)
    assert [list((one.definition().parameters or {})["properties"]) for one in made] == [
        ["query"],
        ["query"],
        ["context"],
    ]
    resolver = AgentResolver(made)
    results = [
        resolver.resolve(ToolCall("c", name, arguments), "here").content
        for name, arguments in (
            ("plain", {"query": "a"}),
            ("other", {"query": "a"}),
            ("none", {"context": "mine"}),
        )
    ]
    assert results == ["a here", "a here", "mine"]


class Shop:
    name = "shop"

    @tool
    def buy(self, item: str) -> str:
        """Buy."""
        return f"{item} at {self.name}"

    @tool
    @classmethod
    def open(cls, day: str) -> str:
        """Open."""
        return f"{cls.name} opens on {day}"

    @tool
    @staticmethod
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @tool
    async def wait(self) -> str:
        """Wait."""
        return self.name


def test_methods_are_tools_of_their_object() -> None:
    shop = Shop()
    assert shop.buy("tea") == "tea at shop"
    assert Shop.open("Monday") == "shop opens on Monday"  # type: ignore[call-arg, arg-type]
    assert Shop.add(1, 2) == 3
    resolver = AgentResolver([shop])
    assert [declared.name for declared in resolver.available_tools()] == ["buy", "open", "add", "wait"]
    assert all("self" not in (one.parameters or {})["properties"] for one in resolver.available_tools())
    calls: dict[str, Any] = {
        "buy": {"item": "tea"},
        "open": {"day": "Monday"},
        "add": {"a": 1, "b": 2},
        "wait": {},
    }
    found = [resolver.resolve(ToolCall("c", name, given)).content for name, given in calls.items()]
    assert found == ["tea at shop", "shop opens on Monday", "3", "shop"]


def test_two_objects_of_a_class_do_not_share_their_methods() -> None:
    one, other = Shop(), Shop()
    one.name, other.name = "one", "other"
    first, second = AgentResolver([one.buy]), AgentResolver([other.buy])
    call = ToolCall("c", "buy", {"item": "x"})
    assert (first.resolve(call).content, second.resolve(call).content) == ("x at one", "x at other")


@tool
class WebSearch:
    """Search the web."""

    def execute(self, query: str, context: Any, limit: int = 3) -> str:
        """Unused."""
        return f"{query} {limit} {context}"

    def sensitive_fields(self) -> list[str]:
        return ["query"]


def test_a_class_is_declared_by_its_execute() -> None:
    resolver = AgentResolver([WebSearch])
    [declared] = resolver.available_tools()
    assert (declared.name, declared.description) == ("web_search", "Search the web.")
    assert (declared.parameters or {})["required"] == ["query"]
    assert resolver.resolve(ToolCall("c", "web_search", {"query": "a"}), 7).content == "a 3 7"
    assert resolver.sensitive_fields_for("web_search") == ["query"]
    assert resolver.resolve(ToolCall("c", "web_search", {"query": 3})).is_error


def test_a_class_that_has_a_definition_is_declared_already() -> None:
    class Made:
        definition = Tool("made", "Made.", {"type": "object"})

        def execute(self, _args: dict[str, Any], _context: Any) -> str:
            return "made"

    assert tool(Made) is Made
    assert AgentResolver([tool(Made)]).resolve(ToolCall("c", "made", {})).content == "made"
    with pytest.raises(InvalidField, match="pass no options"):
        tool(name="other")(Made)
    with pytest.raises(InvalidField, match="execute is missing"):
        tool(type("Empty", (), {}))


def test_a_custom_tool_takes_the_text_as_it_is() -> None:
    @tool(custom=True)
    def patch(text: str) -> str:
        """Apply a patch."""
        return text.upper()

    resolver = AgentResolver([patch])
    assert (patch.definition().custom, patch.definition().parameters) == (True, None)
    assert resolver.resolve(ToolCall("c", "patch", raw="*** begin", custom=True)).content == "*** BEGIN"
    assert resolver.resolve(ToolCall("c", "patch", {"input": "*** begin"})).content == "*** BEGIN"
    for arguments in ({"text": "x"}, {"input": 5}, {"input": "x", "more": "y"}, {}):
        assert "the tool takes text" in str(resolver.resolve(ToolCall("c", "patch", arguments)).content)


def test_what_cannot_be_declared_is_an_error_at_once() -> None:
    with pytest.raises(InvalidSchema, match="when"):

        @tool
        def bad(when: "NotThere") -> None:  # type: ignore[name-defined]  # noqa: F821 - it is the point
            """Be bad."""


def test_declaring_again_changes_the_declaration_only() -> None:
    again = tool(name="again")(search)
    assert isinstance(again, FunctionTool)
    assert (again.definition().name, search.definition().name) == ("again", "search")
    assert again("a", 1) == ["a"]
