"""Values that stay what they were, whatever is done to what they were made of, or to what is read from them."""

import copy
import json
import pickle
from typing import Any

import pytest

from toolwire import Context, Message, Request, Text, Tool, ToolCall, ToolResult, dialect

SCHEMA = {"type": "object", "properties": {"q": {"type": "string", "enum": ["a"]}}}
BODY = {
    "model": "m",
    "messages": [
        {"role": "assistant", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"q": {"r": [1]}}'}}]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "description": "F", "parameters": SCHEMA}}],
}  # fmt: skip


SEARCH = Tool("f", "F", SCHEMA)


def attempt(change: Any) -> None:
    """Try to change something; that it is refused is as good as that nothing comes of it."""
    try:
        change()
    except (TypeError, AttributeError):
        return


def made() -> Request:
    calls: list[Any] = [ToolCall("c", "f", {"q": {"r": [1]}})]
    messages = [Message("assistant", calls), Message("tool", [ToolResult("c", "f", "x")])]
    return Request(context=Context("Be brief.", messages, [Tool("f", "F", SCHEMA, {"tag": ["x"]})]), model="m")


@pytest.mark.row("R002-52")
@pytest.mark.parametrize("make", [made, lambda: dialect("openai").decode_request(BODY)])
def test_nothing_that_is_done_to_a_value_changes_it(make: Any) -> None:
    request, same = make(), make()
    call = request.messages[0].tool_calls[0]
    attempt(lambda: call.arguments.__setitem__("x", 2))
    attempt(lambda: call.arguments["q"]["r"].append(2))
    attempt(request.tools[0].parameters["properties"].clear)
    attempt(lambda: request.tools[0].metadata.update(x=1))
    attempt(lambda: request.context.messages.append(Message("more")))
    attempt(request.context.tools.clear)
    attempt(lambda: setattr(call, "name", "g"))
    assert request == same
    assert call.arguments == {"q": {"r": [1]}}


@pytest.mark.row("R002-52")
def test_nothing_that_is_done_to_what_a_value_was_made_of_changes_it() -> None:
    schema: dict[str, Any] = copy.deepcopy(SCHEMA)
    arguments: dict[str, Any] = {"q": ["a"]}
    parts: list[Any] = [Text("a")]
    messages: list[Any] = [Message("user", parts)]
    given = [
        Tool.new(name="a", description="b", parameters=schema),
        Tool.from_map({"name": "a", "description": "b", "input_schema": schema}),
        Tool("a", "b", schema),
        ToolCall("c", "f", arguments),
        ToolCall.new(name="f", arguments=arguments),
        messages[0],
        Context(None, messages),
    ]
    before = copy.deepcopy(given)
    schema["x"] = schema["properties"]["q"]["x"] = 1
    arguments["q"].append("b")
    parts.append(Text("b"))
    messages.append(Message("b"))
    assert given == before


def test_lists_and_maps_are_what_they_look_like() -> None:
    request = made()
    assert request.messages == list(request.messages)
    assert isinstance(request.messages, list)
    assert ["x", *request.messages] == ["x"] + request.messages  # noqa: RUF005 - as users join histories
    assert request.messages[0].content == [ToolCall("c", "f", {"q": {"r": [1]}})]
    assert json.loads(json.dumps(SEARCH.parameters)) == SCHEMA
    assert type(request.messages[0].tool_calls[0].arguments) is dict
    for again in (pickle.loads(pickle.dumps(request)), copy.deepcopy(request), copy.copy(request)):  # noqa: S301 - ours
        assert again == request
    with pytest.raises(TypeError, match="a value is frozen"):
        made().messages.append(Message("x"))  # type: ignore[attr-defined]


def test_a_value_of_parts_of_another_is_written_as_ever() -> None:
    """What is read from a value can stand in a new one, and in a body that is read again."""
    call = made().messages[0].tool_calls[0]
    again = ToolCall("d", "f", {**call.arguments, "more": call.arguments["q"]})
    request = Request(context=Context(None, [Message("?"), Message("assistant", [again])]), model="m")
    for name in ("openai", "openai-responses", "anthropic", "gemini", "ollama"):
        encoded = dialect(name).encode_request(request)
        history = dialect(name).decode_request(encoded.body, encoded.path).messages
        assert [call.arguments for message in history for call in message.tool_calls] == [again.arguments]


@pytest.mark.slow
def test_a_map_without_an_end_costs_no_more_than_its_depth() -> None:
    endless: dict[str, Any] = {}
    endless |= {"a": endless, "b": endless}
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    for arguments in (endless, deep):
        assert list(ToolCall("c", "f", arguments).arguments) == list(arguments)
