"""Other names, fewer tools, and a question before a call is run."""

import asyncio
from datetime import date
from typing import Any, ClassVar

import pytest

from toolwire import (
    AgentResolver,
    CodeTools,
    Composition,
    ToolCall,
    UnknownTool,
    aio,
    approved,
    execute,
    filtered,
    prefixed,
    renamed,
    tool,
)
from toolwire.errors import InvalidField
from toolwire.waiting.results import CallRecord, Ran


@tool(sensitive=["key"], preview=lambda path, **_key: f"would write {path}")
def write(path: str, key: str = "") -> str:
    """Write."""
    return f"wrote {path}{key[:0]}"


@tool(sensitive=["key"])
def read(path: str, key: str = "") -> str:
    """Read."""
    return f"read {path}{key[:0]}"


FILES = AgentResolver([write, read], recipes={"read": lambda _arguments: {}})


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("c", name, {"path": "a", **arguments})


def names(resolver: Any) -> list[str]:
    return [declared.name for declared in resolver.available_tools()]


@pytest.mark.parametrize(
    ("resolver", "listed", "inside"),
    [
        (prefixed(FILES, "fs_"), ["fs_write", "fs_read"], {"fs_write": "wrote a", "fs_read": "read a"}),
        (renamed(FILES, {"write": "save"}), ["save", "read"], {"save": "wrote a", "read": "read a"}),
        (
            renamed(FILES, {"write": "read", "read": "write"}),
            ["read", "write"],
            {"read": "wrote a", "write": "read a"},
        ),
        (filtered(FILES, ["read", "other"]), ["read"], {"read": "read a"}),
        (filtered(FILES, lambda declared: declared.name == "write"), ["write"], {"write": "wrote a"}),
        (prefixed(renamed(filtered(FILES, ["read"]), {"read": "get"}), "x."), ["x.get"], {"x.get": "read a"}),
    ],
)
def test_tools_go_by_their_outer_names(resolver: Any, listed: list[str], inside: dict[str, str]) -> None:
    assert names(resolver) == listed
    for name, content in inside.items():
        result = resolver.resolve(call(name))
        assert (result.name, result.content, result.tool_call_id) == (name, content, "c")
        assert resolver.sensitive_fields_for(name) == ["key"]
    for name in {"write", "read", "save", "fs_", "", "fs_write "} - set(listed):
        with pytest.raises(UnknownTool, match=f"available: {', '.join(listed)}") as raised:
            resolver.resolve(call(name))
        assert raised.value.name == name
        assert resolver.sensitive_fields_for(name) == []
        assert resolver.dispatch_recipe(name) is None


def test_recipes_go_by_the_outer_names() -> None:
    assert prefixed(FILES, "fs_").dispatch_recipe("fs_read") is not None
    assert prefixed(FILES, "fs_").dispatch_recipe("read") is None


@tool
def search(query: str) -> str:
    """Search."""
    return f"found {query}"


@tool
def research(query: str) -> str:
    """Research."""
    return query


def plan(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "serial": [
            {"tool": "search", "arguments": arguments},
            {"tool": "search", "arguments": lambda known: {"query": f"more than {known['search']}"}},
        ],
        "compose": lambda serial, _parallel, errors: "; ".join(
            [*(f"{one.tool}: {one.content}" for one in serial), *(one.reason for one in errors)]
        ),
    }


@tool(name="search")
def search_elsewhere(query: str) -> str:
    """Search elsewhere."""
    return f"elsewhere {query}"


KNOWING = AgentResolver([search, research], recipes={"research": plan})
FOUND = "search: found x; search: found more than found x"


@pytest.mark.parametrize(
    ("resolver", "name", "content"),
    [
        (KNOWING, "research", FOUND),
        (prefixed(KNOWING, "kb_"), "kb_research", FOUND),
        (prefixed(prefixed(KNOWING, "a_"), "b_"), "b_a_research", FOUND),
        (renamed(KNOWING, {"search": "find", "research": "study"}), "study", FOUND),
        (Composition([prefixed(KNOWING, "kb_"), AgentResolver([search_elsewhere])]), "kb_research", FOUND),
        (prefixed(Composition([KNOWING]), "kb_"), "kb_research", FOUND),
        (filtered(KNOWING, ["research"]), "research", "the tool is hidden here; KeyError: 'search'"),
        (
            Composition([filtered(KNOWING, ["research"]), AgentResolver([search_elsewhere])]),
            "research",
            "the tool is hidden here; KeyError: 'search'",
        ),
    ],
)
def test_the_steps_of_a_recipe_are_its_own_tools_by_whatever_name(resolver: Any, name: str, content: str) -> None:
    asked = ToolCall("c", name, {"query": "x"})
    [result] = execute([asked], resolver)
    assert (result.name, result.content) == (name, content)
    seen: list[str] = []

    def ask(given: ToolCall, _preview: str) -> bool:
        seen.append(given.name)
        return True

    [result] = execute([asked], approved(resolver, ask))
    assert (result.content, seen[0]) == (content, name)
    assert all(one.endswith(("search", "find")) for one in seen[1:])


def test_names_that_would_be_lost_or_taken_twice_are_refused() -> None:
    with pytest.raises(InvalidField, match="has 'delete', which the resolver does not have"):
        renamed(FILES, {"delete": "remove"})
    with pytest.raises(InvalidField, match="two tools the same name"):
        renamed(FILES, {"write": "read"})
    with pytest.raises(InvalidField, match="must be a list of names"):
        filtered(FILES, "read")


class Asked:
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.seen: list[tuple[str, str]] = []

    def __call__(self, call: ToolCall, preview: str) -> Any:
        self.seen.append((call.name, preview))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (True, "wrote a"),
        (False, "the call was not approved"),
        (None, "the call was not approved"),
        (1, "the call was not approved"),
        ("ask my manager", "the call was not approved: ask my manager"),
        (ValueError("no terminal"), "the call was not approved: nobody could be asked"),
    ],
)
def test_only_a_plain_yes_runs_a_call(answer: Any, content: str) -> None:
    ask = Asked(answer)
    result = approved(FILES, ask).resolve(call("write"))
    assert (result.content, result.is_error) == (content, answer is not True)
    assert ask.seen == [("write", "would write a")]


def test_without_a_preview_the_arguments_are_shown_scrubbed() -> None:
    ask = Asked(False)
    approved(FILES, ask).resolve(call("read", key="sk-1"))
    assert ask.seen == [("read", 'read({"path": "a", "key": "[hidden:key]"})')]


def test_only_what_is_named_is_asked() -> None:
    ask = Asked(False)
    guarded = approved(FILES, ask, only=["write"])
    assert guarded.resolve(call("read")).content == "read a"
    assert guarded.resolve(call("write")).is_error
    assert [name for name, _ in ask.seen] == ["write"]


def test_nobody_is_asked_about_a_tool_that_is_not_there() -> None:
    ask = Asked(True)
    with pytest.raises(UnknownTool):
        approved(FILES, ask).resolve(call("delete"))
    assert ask.seen == []


@tool
def book(day: date) -> str:
    """Book."""
    return f"booked {day}"


def tagged(_arguments: dict[str, Any]) -> dict[str, Any]:
    return {"serial": [{"tool": "read", "arguments": {"path": "b"}}]}


WRAPS = (
    approved,
    lambda one, ask: approved(Composition([AgentResolver([research]), one]), ask),
    lambda one, ask: Composition([approved(one, ask)]),
    lambda one, ask: approved(prefixed(one, ""), ask),
    lambda one, ask: approved(approved(one, ask), ask),
)


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize(
    ("tools", "asked"),
    [
        (FILES, ToolCall("c", "write", {})),
        (FILES, ToolCall("c", "write", {"path": 5})),
        (FILES, ToolCall("c", "read", {}, error="they are not JSON", complete=False)),
        (AgentResolver([book]), ToolCall("c", "book", {"day": "2030-02-30"})),
        (CodeTools(tools=["write_file"]), ToolCall("c", "write_file", {"path": "a.txt"})),
    ],
)
def test_nobody_is_asked_about_a_call_whose_arguments_are_invalid(wrap: Any, tools: Any, asked: ToolCall) -> None:
    ask, told = Asked(True), list[Ran]()
    resolver = wrap(tools, ask)
    result = resolver.resolve(asked)
    assert str(result.content).startswith(f"invalid arguments for {asked.name!r}: ")
    assert execute([asked], resolver, record=CallRecord(told.append)) == [result]
    assert [(one.ending, one.approval) for one in told] == [("invalid", None)]
    assert ask.seen == []


def test_a_recipe_is_asked_about_whatever_its_arguments_are() -> None:
    ask = Asked(False)
    resolver = approved(AgentResolver([write, read], recipes={"write": tagged}), ask)
    for one in (resolver, Composition([resolver])):
        ask.seen.clear()
        [result] = execute([ToolCall("c", "write", {})], one)
        assert (result.content, len(ask.seen)) == ("the call was not approved", 1)


def test_an_async_question_is_awaited() -> None:
    async def ask(_call: ToolCall, _preview: str) -> bool:
        await asyncio.sleep(0)
        return True

    guarded = approved(FILES, ask)
    assert guarded.resolve(call("write")).content == "wrote a"
    assert asyncio.run(guarded.aresolve(call("write"))).content == "wrote a"


def test_a_question_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(InvalidField, match="must take a call and its preview"):
        approved(FILES, lambda _call: True)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(("answer", "content"), [(True, "wrote b"), (False, "the call was not approved")])
def test_a_recipe_is_asked_about_too(answer: Any, content: str) -> None:
    ran = []

    def publish(arguments: dict[str, Any]) -> dict[str, Any]:
        ran.append(arguments)
        return {
            "serial": [{"tool": "write", "arguments": {"path": "b"}, "label": "write"}],
            "compose": lambda serial, _parallel, _errors: serial[0].content,
        }

    @tool
    def both(path: str) -> str:
        """Do both."""
        return path

    ask = Asked(answer)
    guarded = approved(AgentResolver([write, both], recipes={"both": publish}), ask, only=["both"])
    for resolver in (guarded, Composition([guarded]), prefixed(guarded, "")):
        ran.clear()
        [result] = execute([call("both")], resolver)
        assert result.content == content
        assert len(ran) == (answer is True)
    assert {name for name, _ in ask.seen} == {"both"}


@pytest.mark.parametrize("given", [True, "not today"])
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: prefixed(one, "kb_")])
def test_a_recipe_is_asked_about_in_the_loop_of_the_program_and_on_record(given: Any, wrap: Any) -> None:
    told: list[Ran] = []

    async def main() -> Any:
        loop = asyncio.get_running_loop()

        async def ask(_call: ToolCall, _preview: str) -> Any:
            answer = loop.create_future()
            loop.call_later(0.05, answer.set_result, given)
            return await answer

        resolver = wrap(approved(KNOWING, ask, only=["research"]))
        name = resolver.available_tools()[1].name
        return await aio.execute([ToolCall("c", name, {"query": "x"})], resolver, record=CallRecord(told.append))

    [result] = asyncio.run(main())
    [one] = told
    assert one.waited >= 0.02
    assert one.result == result
    if given is True:
        assert (result.content, one.ending, one.approval) == (FOUND, "ok", "granted")
    else:
        assert (result.content, one.ending, one.approval) == (
            "the call was not approved: not today",
            "denied",
            "denied",
        )


@tool(preview=lambda path: f"would delete {path}")
def delete(path: str, context: dict[str, Any]) -> str:
    """Delete."""
    return f"{context['user']} deleted {path}"


@tool(preview=lambda path, context: f"{context['user']} would move {path}")
def move(path: str, context: dict[str, Any]) -> str:
    """Move."""
    return f"{context['user']} moved {path}"


@tool(custom=True, preview=lambda text: f"would run {text}")
def shell(text: str) -> str:
    """Run."""
    return f"ran {text}"


class Declared:
    """A tool as an object, whose preview wants the arguments alone."""

    name, description = "declared", "Declared."
    parameters: ClassVar[dict[str, Any]] = {"type": "object", "properties": {"path": {"type": "string"}}}

    def execute(self, arguments: dict[str, Any], context: Any) -> str:
        """Run."""
        return f"{context['user']}: {arguments['path']}"

    def preview(self, arguments: dict[str, Any]) -> str:
        """Show."""
        return f"would take {arguments['path']}"


@pytest.mark.parametrize(
    ("asked", "shown", "content"),
    [
        (ToolCall("c", "delete", {"path": "a"}), "would delete a", "ann deleted a"),
        (ToolCall("c", "move", {"path": "a"}), "ann would move a", "ann moved a"),
        (ToolCall("c", "shell", {}, raw="ls", custom=True), "would run ls", "ran ls"),
        (ToolCall("c", "shell", {"input": "ls"}), "would run ls", "ran ls"),
        (ToolCall("c", "declared", {"path": "a"}), "would take a", "ann: a"),
    ],
)
def test_a_preview_takes_the_arguments_of_its_tool(asked: ToolCall, shown: str, content: str) -> None:
    ask = Asked(True)
    resolver = approved(AgentResolver([delete, move, shell, Declared()]), ask)
    assert str(resolver.resolve(asked, {"user": "ann"}).content).startswith(content)
    [(_, preview)] = ask.seen
    assert preview.startswith(shown)
