"""A wrapper around all arguments is removed if the tool is known not to have it, and reported otherwise."""

import json
from typing import Any

import pytest

from tests.text.offers import F, G, read
from toolwire import Tool, ToolCall
from toolwire.text import format, names

WRAPPERS = ("arguments", "parameters", "input", "properties")
OBJECT = {"type": "object"}


def result(text: str, tools: Any, name: str = "hermes") -> tuple[list[Any], list[str]]:
    """Return the arguments of calls that can run, and the errors of the others. They do not depend on the pieces."""
    found = []
    for pieces in ([text], list(text)):
        response = read(format(name), text, pieces, tools=tools)
        assert not (response.content or "").strip()
        calls = [call.arguments for call in response.tool_calls if call.runs]
        found.append((calls, [str(call.error) for call in response.broken_calls]))
    assert found[0] == found[1]
    return found[0]


def wrapped(name: str, arguments: dict[str, Any]) -> str:
    """Write a call with its arguments as they are."""
    return format(name).encode_call(ToolCall(None, "f", arguments)).text


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("key", WRAPPERS)
def test_a_wrapper_that_a_known_tool_does_not_declare_is_removed(name: str, key: str) -> None:
    inner = {"s": "x", "i": 3}
    assert result(wrapped(name, {key: inner}), [F], name) == ([inner], [])
    assert result(wrapped(name, {key: json.dumps(inner)}), [F], name) == ([inner], [])
    calls, [error] = result(wrapped(name, {key: {"s": "x", "zz": 1}}), [F], name)
    assert calls == []
    assert f"inside of {key!r}, which is not a parameter of the tool: write" in error


def test_a_tool_without_parameters_has_no_wrapper_either() -> None:
    text = '<tool_call>{"name": "g", "arguments": {"arguments": {}}}</tool_call>'
    assert result(text, [G]) == ([{}], [])
    assert result(text, [Tool("g", "", {"type": "object", "additionalProperties": False})]) == ([{}], [])


@pytest.mark.parametrize("key", WRAPPERS)
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"KEY": OBJECT}},
        {"type": "object", "properties": {"KEY": {"type": "string"}}},
        {"type": "object", "allOf": [{"properties": {"KEY": OBJECT}}], "properties": {"s": {"type": "string"}}},
        {"type": "object", "properties": {"s": {"type": "string"}}, "additionalProperties": True},
        {"type": "object", "properties": {"s": {"type": "string"}}, "additionalProperties": OBJECT},
        {
            "type": "object",
            "properties": {"s": {"type": "string"}},
            "patternProperties": {"^a": {}, "^i": {}, "^p": {}},
        },
        {"type": "object"},
    ],
)
def test_a_parameter_of_the_tool_is_no_wrapper(key: str, schema: dict[str, Any]) -> None:
    tool = Tool("f", "", json.loads(json.dumps(schema).replace("KEY", key)))
    assert result(wrapped("hermes", {key: {"s": "x"}}), [tool]) == ([{key: {"s": "x"}}], [])


@pytest.mark.parametrize("tools", [None, ["f"]])
def test_without_the_tools_a_wrapper_is_reported_with_the_remedy(tools: list[str] | None) -> None:
    for key in ("arguments", "parameters"):
        calls, [error] = result(wrapped("qwen3-coder", {key: {"s": "x"}}), tools, "qwen3-coder")
        assert (calls, "pass the tools with their parameters" in error) == ([], True)
    for arguments in ({"input": {"s": "x"}}, {"properties": {"s": "x"}}, {"arguments": "x"}, {"arguments": [1]}):
        assert result(wrapped("hermes", arguments), tools) == ([arguments], [])


def test_what_is_not_alone_is_no_wrapper() -> None:
    arguments = {"arguments": {"s": "x"}, "i": 3}
    assert result(wrapped("hermes", arguments), [F]) == ([arguments], [])
    assert result(wrapped("hermes", {"args": {"s": "x"}}), [F]) == ([{"args": {"s": "x"}}], [])
    assert result(wrapped("hermes", {"arguments": "{no"}), [F]) == ([{"arguments": "{no"}], [])
