"""Other names, fewer tools, and a question before a call is run."""

import asyncio
from typing import Any

import pytest

from toolwire import (
    AgentResolver,
    Composition,
    ToolCall,
    UnknownTool,
    approved,
    execute,
    filtered,
    prefixed,
    renamed,
    tool,
)
from toolwire.errors import InvalidField


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
    assert prefixed(FILES, "fs_").dispatch_recipe("fs_read") is FILES.dispatch_recipe("read")
    assert prefixed(FILES, "fs_").dispatch_recipe("read") is None


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
