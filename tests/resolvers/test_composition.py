"""Several resolvers as one: their order, who answers, and what is tried next."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from toolwire import AgentResolver, Composition, Tool, ToolCall, ToolResult, UnknownTool
from toolwire.errors import InvalidField


def declared(name: str) -> Tool:
    return Tool.new(name=name, description="", parameters={"type": "object"})


class Plain:
    """A caller's own resolver, in the words of the original."""

    def __init__(self, *names: str, answer: Any = None) -> None:
        self.names = names
        self.answer = answer
        self.asked: list[str] = []

    def available_tools(self) -> list[Tool]:
        return [declared(name) for name in self.names]

    def resolve(self, call: ToolCall) -> Any:
        self.asked.append(call.name)
        if call.name not in self.names:
            return ("error", f"Unknown tool: {call.name}")
        return self.answer or ("ok", f"{call.name} by {self.names}")


class Waiting(Plain):
    async def resolve(self, call: ToolCall) -> Any:
        await asyncio.sleep(0)
        return super().resolve(call)


class Folder(Plain):
    def __init__(self, cwd: str = ".") -> None:
        super().__init__("where")
        self.cwd = cwd

    def at(self, cwd: str) -> "Folder":
        return Folder(cwd)

    def resolve(self, call: ToolCall) -> Any:
        return ("ok", self.cwd) if call.name == "where" else ("error", f"Unknown tool: {call.name}")


def agent(name: str, answer: str) -> AgentResolver:
    def run() -> str:
        return answer

    run.__name__ = name
    return AgentResolver([run])


def call(name: str) -> ToolCall:
    return ToolCall("c", name, {})


@pytest.mark.row("R002-72", "R002-73", "R002-81", "4.3.9")
def test_tools_are_listed_in_order_and_duplicates_are_kept() -> None:
    composition = Composition([Plain("a", "b"), Plain("b", "c")])
    assert [tool.name for tool in composition.available_tools()] == ["a", "b", "b", "c"]
    assert [tool.name for tool in Composition.available_tools(composition)] == [
        "a",
        "b",
        "b",
        "c",
    ]


@pytest.mark.row("R002-71", "R002-74", "R002-79")
def test_the_first_that_knows_a_tool_runs_it() -> None:
    first, second = Plain("b"), Plain("b", "c")
    composition = Composition.new([first, second])
    assert composition.resolve(call("b")).content == "b by ('b',)"
    assert composition.resolve(call("c")).content == "c by ('b', 'c')"
    assert second.asked == ["c"]
    assert Composition([agent("bash", "mine"), agent("bash", "theirs")]).resolve(call("bash")).content == "mine"


@pytest.mark.row("R002-75", "R002-76", "4.3.9")
def test_an_error_of_the_first_is_final() -> None:
    second = Plain("b")
    for answer in (
        ("error", "it is closed"),
        ("error", "Unknown tool: bb"),
        ("error", "Unknown tool: other"),
        ("ok", "Unknown tool: b"),
    ):
        result = Composition([Plain("b", answer=answer), second]).resolve(call("b"))
        assert (result.content, result.is_error) == (answer[1], answer[0] == "error")
    assert second.asked == []


@pytest.mark.row("R002-37", "K8")
def test_a_resolver_that_raises_has_answered() -> None:
    class Broken(Plain):
        def resolve(self, call: ToolCall) -> Any:
            raise ValueError(f"{call.name} broke")

    result = Composition([Broken("b"), Plain("b")]).resolve(call("b"))
    assert result == ToolResult("c", "b", "Tool execution failed: b broke", is_error=True)


@pytest.mark.row("R002-75")
def test_unknown_tools_fall_through_in_either_spelling() -> None:
    composition = Composition([agent("a", "1"), Plain("b"), agent("c", "3")])
    assert [composition.resolve(call(name)).content for name in "abc"] == ["1", "b by ('b',)", "3"]


@pytest.mark.row("R002-77")
def test_what_nobody_has_is_unknown() -> None:
    with pytest.raises(UnknownTool, match="Unknown tool: z; available: a, b") as raised:
        Composition([agent("a", "1"), Plain("b", "a")]).resolve(call("z"))
    assert raised.value.known == ("a", "b")
    with pytest.raises(UnknownTool, match="available: none"):
        Composition([]).resolve(call("z"))


@pytest.mark.row("R002-82", "4.3.9")
def test_a_composition_is_a_resolver() -> None:
    inner = Composition([agent("a", "1"), agent("b", "2")])
    outer = Composition([agent("c", "3"), inner, Composition([])])
    assert [outer.resolve(call(name)).content for name in "abc"] == ["1", "2", "3"]
    assert [tool.name for tool in outer.available_tools()] == ["c", "a", "b"]


@pytest.mark.row("R002-19", "R002-71", "R002-80")
def test_a_pair_binds_a_folder_and_others_do_not_mind() -> None:
    composition = Composition([(Folder, "/a"), (Plain("p"), "/b"), Plain("q")])
    assert [cwd for _, cwd in composition.resolvers] == ["/a", "/b", "."]
    assert composition.resolve(call("where")).content == "/a"
    assert composition.resolve(call("p")).content == "p by ('p',)"
    assert Composition([(Folder(), "/c")]).resolve(call("where")).content == "/c"
    assert Composition([Folder]).resolve(call("where")).content == "."


class Cook(Plain):
    def __init__(self, *names: str, **recipes: Callable[..., Any]) -> None:
        super().__init__(*names)
        self.recipes = recipes

    def dispatch_recipe(self, name: str) -> Callable[..., Any] | None:
        return self.recipes.get(name)


@pytest.mark.row("R002-32", "R002-39", "R002-78", "4.3.6")
def test_the_first_recipe_wins() -> None:
    def one(_arguments: Any) -> dict[str, Any]:
        return {}

    def two(_arguments: Any) -> dict[str, Any]:
        return {}

    composition = Composition([Plain("a"), Cook("a"), Cook("a", a=one), Cook("a", "b", a=two, b=two)])
    assert [composition.dispatch_recipe(name) for name in "abc"] == [one, two, None]


def test_the_context_reaches_those_that_take_one() -> None:
    class Taking(Plain):
        def resolve(self, call: ToolCall, context: Any = None) -> Any:
            return (
                ("ok", f"{call.name} {context}") if call.name in self.names else ("error", f"Unknown tool: {call.name}")
            )

    composition = Composition([Plain("a"), Taking("b")])
    assert composition.resolve(call("b"), {"user": 1}).content == "b {'user': 1}"
    assert composition.resolve(call("a"), {"user": 1}).content == "a by ('a',)"


def test_sync_and_async_resolvers_are_alike() -> None:
    composition = Composition([Waiting("a"), Plain("b")])
    assert [composition.resolve(call(name)).content for name in "ab"] == ["a by ('a',)", "b by ('b',)"]

    async def main() -> list[Any]:
        return [(await composition.aresolve(call(name))).content for name in "ab"]

    assert asyncio.run(main()) == ["a by ('a',)", "b by ('b',)"]


def test_a_module_may_be_a_resolver() -> None:
    from types import ModuleType

    module = ModuleType("mine")
    plain = Plain("a")
    module.resolve = plain.resolve  # type: ignore[attr-defined]
    module.available_tools = plain.available_tools  # type: ignore[attr-defined]
    assert Composition([module]).resolve(call("a")).content == "a by ('a',)"


def test_sensitive_fields_are_those_of_all_resolvers() -> None:
    class Keys(Plain):
        def sensitive_fields_for(self, name: str) -> list[str]:
            return [f"{name}_{len(self.names)}"]

    assert Composition([Keys("a"), Plain("a"), Keys("a", "b")]).sensitive_fields_for("a") == ["a_1", "a_2"]


@pytest.mark.parametrize("given", [3, object(), None, print])
def test_what_is_no_resolver_is_refused(given: Any) -> None:
    with pytest.raises(InvalidField, match=r"Composition\[1\]: resolver must have `resolve`"):
        Composition([Plain("a"), given])


@pytest.mark.row("R002-81", "R002-30")
def test_it_is_used_by_methods_or_as_the_first_argument() -> None:
    def recipe(_arguments: Any) -> dict[str, Any]:
        return {}

    composition = Composition.new([Plain("a"), Cook("b", b=recipe)])
    assert composition.available_tools() == Composition.available_tools(composition)
    for found in (composition.resolve(call("a")), Composition.resolve(composition, call("a"))):
        assert found == ToolResult("c", "a", "a by ('a',)")
    assert composition.dispatch_recipe("b") == Composition.dispatch_recipe(composition, "b") == recipe


class Greedy(Plain):
    """A resolver that answers whatever it is asked."""

    def resolve(self, call: ToolCall) -> Any:
        self.asked.append(call.name)
        return ("ok", f"{call.name} by whoever comes first")


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: Composition([one])])
def test_who_lists_a_tool_runs_it_before_one_that_answers_anything(wrap: Any) -> None:
    greedy, plain = Greedy("mine"), Plain("look")
    resolver = Composition([wrap(greedy), wrap(plain)])
    assert resolver.resolve(ToolCall("c", "look", {})).content == "look by ('look',)"
    assert (greedy.asked, plain.asked) == ([], ["look"])
    assert resolver.resolve(ToolCall("c", "hidden", {})).content == "hidden by whoever comes first"
