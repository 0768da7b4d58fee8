"""A call without arguments, beside which some came where its wire has none: it does not run with `{}`.

Rules of this file:
- A row is a wire, a name under which another wire has arguments, and the place: in the call, or around it.
- Each is tried as an answer, as a stream and as a turn of a history, and its body comes back as it was.
"""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.stream_cases import decode, encode
from toolwire import Message, Response, ToolCall, accumulate, translate
from toolwire.dialects import dialect

Body = dict[str, Any]
OWN = {"openai-chat": "arguments", "openai-responses": "arguments", "gemini": "args", "ollama": "arguments"}
WITH_INPUT = {**OWN, "anthropic": "input"}
NAMES = ("arguments", "args", "input", "parameters")
HERE: Any = {"city": "Oslo"}
MISPLACED = [
    (wire, name, place)
    for wire, own in OWN.items()
    for name in NAMES
    for place in ("in", "around")
    if (name != own or place == "around") and (wire, place) != ("openai-responses", "around")
]


def call_of(wire: str, inside: Body, around: Body) -> Body:
    """Write a call as a wire does, with more in it and around it."""
    match wire:
        case "openai-chat":
            return {"id": "call_1", "type": "function", "function": {"name": "f", **inside}, **around}
        case "openai-responses":
            return {"type": "function_call", "id": "i0", "call_id": "c0", "name": "f", "status": "completed", **inside}
        case "gemini":
            return {"functionCall": {"name": "f", **inside}, **around}
    return {"function": {"name": "f", **inside}, **around}


def answer_of(wire: str, call: Body) -> Body:
    """Write an answer that holds a call."""
    spoken = {"role": "assistant", "content": "", "tool_calls": [call]}
    match wire:
        case "openai-chat":
            choice = {"index": 0, "message": spoken, "finish_reason": "tool_calls"}
            return {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice]}
        case "openai-responses":
            return {"id": "r", "object": "response", "model": "m", "status": "completed", "output": [call]}
        case "gemini":
            return {"candidates": [{"content": {"role": "model", "parts": [call]}, "finishReason": "STOP"}]}
    return {"model": "m", "message": spoken, "done": True, "done_reason": "stop"}


def stream_of(wire: str, call: Body) -> bytes:
    """Tell the same answer as a stream."""
    bodies = [answer_of(wire, call)]
    match wire:
        case "openai-chat":
            delta = {"index": 0, "delta": {"tool_calls": [{"index": 0, **call}]}}
            bodies = [{"choices": [delta]}, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]
        case "openai-responses":
            shell = {**bodies[0], "output": []}
            bodies = [
                {"type": "response.created", "response": {**shell, "status": "in_progress"}},
                {"type": "response.output_item.added", "output_index": 0, "item": {**call, "status": "in_progress"}},
                {"type": "response.output_item.done", "output_index": 0, "item": call},
                {"type": "response.completed", "response": bodies[0]},
            ]
        case "ollama":
            return b"".join(json.dumps(body).encode() + b"\n" for body in bodies)
    return b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies)


def history_of(wire: str, call: Body) -> Body:
    """Write a request in whose history the call is."""
    asked = {"role": "user", "content": "Hi"}
    spoken = {"role": "assistant", "content": "", "tool_calls": [call]}
    match wire:
        case "openai-responses":
            return {"model": "m", "input": [asked, call]}
        case "gemini":
            contents = [{"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [call]}]
            return {"contents": contents}
    return {"model": "m", "messages": [asked, spoken]}


def calls_in(wire: str, call: Body) -> list[ToolCall]:
    """Read the call from an answer, from a stream and from a history."""
    wired = dialect(wire)
    messages = (
        wired.decode_response(answer_of(wire, call)).message,
        accumulate(decode(wire, stream_of(wire, call))).message,
        wired.decode_request(history_of(wire, call)).messages[-1],
    )
    return [part for message in messages for part in message.parts if type(part) is ToolCall]


@pytest.mark.parametrize("kind", [HERE, json.dumps(HERE)], ids=["object", "text"])
@pytest.mark.parametrize(("wire", "name", "place"), MISPLACED)
def test_a_call_does_not_run_without_the_arguments_that_came_elsewhere(
    wire: str, name: str, place: str, kind: Any
) -> None:
    news = {name: kind}
    for own in ({}, {OWN[wire]: None}, {OWN[wire]: ""}):
        call = call_of(wire, {**own, **(news if place == "in" else {})}, news if place == "around" else {})
        found = calls_in(wire, call)
        assert [(one.name, one.runs, one.plain_arguments) for one in found] == [("f", False, {})] * 3
        for body, back in (
            (answer_of(wire, call), translate.response(answer_of(wire, call), source=wire, target=wire)),
            (history_of(wire, call), translate.request(history_of(wire, call), source=wire, target=wire)),
        ):
            assert json.dumps(back.body, sort_keys=True) == json.dumps(body, sort_keys=True)


@pytest.mark.parametrize("wire", OWN)
def test_a_call_without_arguments_runs_beside_all_else_that_nobody_knows(wire: str) -> None:
    odd = {"extra": {"city": "Oslo"}, "args_left": 1, "arguments_of": "x"}
    said: list[Body] = [{}, {OWN[wire]: {}}, {OWN[wire]: "{}"} if wire != "gemini" else {}]
    for own in said:
        found = calls_in(wire, call_of(wire, {**own, **odd}, {}))
        assert [(one.name, one.runs, one.plain_arguments) for one in found] == [("f", True, {})] * 3


@pytest.mark.parametrize("wire", OWN)
def test_a_call_that_says_its_arguments_runs_with_them(wire: str) -> None:
    news = {name: {"city": "Bergen"} for name in NAMES if name != OWN[wire]}
    found = calls_in(wire, call_of(wire, {**news, OWN[wire]: HERE}, {}))
    assert [(one.runs, one.plain_arguments) for one in found] == [(True, HERE)] * 3


TEXT = json.dumps(HERE)
ODD: list[Any] = [5, True, [1], "[1]", "5", "nope", '{"a":1', '{"a":1,"a":2}']
UNREAD = {
    "input under another name": {"delta": {"type": "input_json_delta", "json": TEXT}},
    "input that is no text": {"delta": {"type": "input_json_delta", "partial_json": HERE}},
    "another kind of delta": {"delta": {"type": "input_delta", "input": HERE}},
    "a delta that is a text": {"delta": TEXT},
    "a delta that is not there": {},
    "input beside the delta": {"partial_json": TEXT},
    "another kind of event": {"type": "tool_input", "partial_json": TEXT},
}


def block_of(block: Body, *events: Body) -> list[ToolCall]:
    """Read a stream of one block of Messages, with events between its start and its stop."""
    start = {"type": "tool_use", "id": "t1", "name": "f", "input": {}, **block}
    bodies = [
        {"type": "message_start", "message": {"id": "m", "role": "assistant"}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        *({"type": "content_block_delta", "index": 0, **event} for event in events),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    told = accumulate(decode("anthropic", b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies)))
    return [part for part in told.message.parts if type(part) is ToolCall]


@pytest.mark.parametrize("event", UNREAD.values(), ids=UNREAD)
def test_a_block_does_not_run_without_what_came_for_it(event: Body) -> None:
    assert [call.runs for call in block_of({}, event) if call.name] == [False]
    empty = {"delta": {"type": "input_json_delta", "partial_json": ""}}
    assert [call.runs for call in block_of({}, empty, event) if call.name] == [False]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "input"])
def test_a_block_does_not_run_without_the_input_that_stands_elsewhere(name: str) -> None:
    assert [call.runs for call in block_of({name: HERE})] == [False]
    assert [call.plain_arguments for call in block_of({name: HERE, "input": {"a": 1}})] == [{"a": 1}]


def test_a_block_without_input_runs_if_nothing_else_came_for_it() -> None:
    for events in ([], [{"delta": {"type": "input_json_delta", "partial_json": ""}}], [{"delta": {"type": "x"}}]):
        assert [(call.runs, call.plain_arguments) for call in block_of({"extra": 1}, *events)] == [(True, {})]


ODD_INPUTS: dict[str, tuple[Body, tuple[bool, Body]]] = {
    "none": ({}, (True, {})),
    "null": ({"input": None}, (True, {})),
    "the text of an object": ({"input": TEXT}, (True, HERE)),
    "no text": ({"input": ""}, (True, {})),
    "words": ({"input": "Oslo"}, (False, {})),
    "a list": ({"input": [HERE]}, (False, {})),
    "a number": ({"input": 5}, (False, {})),
    "none, and some elsewhere": ({"arguments": HERE}, (False, {})),
    "no text, and some elsewhere": ({"input": "", "args": HERE}, (False, {})),
}


@pytest.mark.parametrize(("block", "read"), ODD_INPUTS.values(), ids=ODD_INPUTS)
def test_a_block_whose_input_is_no_object_is_a_call(block: Body, read: tuple[bool, Body]) -> None:
    body = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "t1", "name": "f", **block}],
    }
    [call] = dialect("anthropic").decode_response(body).message.parts
    assert isinstance(call, ToolCall)
    assert (call.runs, call.plain_arguments) == read
    back = translate.response(body, source="anthropic", target="anthropic")
    assert (back.body["content"], back.losses) == (body["content"], ())
    changed = replace(call, arguments={"a": 1}, error=None)
    encoded = dialect("anthropic").encode_response(Response.of(Message("assistant", [changed]), "tool_calls"))
    assert encoded.body["content"][0]["input"] == {"a": 1}


@pytest.mark.parametrize("target", WITH_INPUT)
@pytest.mark.parametrize("source", OWN)
def test_no_wire_makes_a_call_of_it_that_runs(source: str, target: str) -> None:
    """A call that does not run here is none for a client of another wire either, in an answer and in a stream."""
    for odd in (
        {"parameters": HERE},
        {"args": HERE} if source != "gemini" else {"input": HERE},
        *({OWN[source]: value} for value in ODD),
    ):
        call = call_of(source, odd, {})
        body = translate.response(answer_of(source, call), source=source, target=target).body
        told = accumulate(decode(target, encode(target, decode(source, stream_of(source, call)))[0]))
        for message in (dialect(target).decode_response(body).message, told.message):
            assert not any(part.runs for part in message.parts if type(part) is ToolCall)
