"""Streams that were damaged so that a call would run with less than what was sent: it is refused, or all of it is.

Rules of this file:
- A row is what a server sends, and the calls that may run; `None` says that the answer fails as a whole.
- Each shape is tried in every wire in which it can occur.
"""

import json
from typing import Any

import pytest

from tests.stream_cases import decode
from toolwire import ErrorEnd, accumulate
from toolwire.streams.call_judge import has_several_pieces

Body = dict[str, Any]
Row = tuple[str, list[Body], list[tuple[str, Any]] | None]
X = {"key": "v1-234"}
BEGIN, MIDDLE, END = '{"key": "v1', "-2", '34"}'


def chat(*entries: Body) -> list[Body]:
    """Tell entries of calls as Chat Completions does."""
    told = [{"choices": [{"index": 0, "delta": {"tool_calls": [entry]}, "finish_reason": None}]} for entry in entries]
    return [*told, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]


def named(name: str | None, arguments: Any = "", **around: Any) -> Body:
    """Give an entry of a call that has a name."""
    return {**around, "type": "function", "function": {"name": name, "arguments": arguments}}


def piece(arguments: Any, **around: Any) -> Body:
    """Give an entry of a call that has arguments alone."""
    return {**around, "function": {"arguments": arguments}}


def messages(*bodies: Body) -> list[Body]:
    """Tell events as Messages does."""
    ending = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    start = {"type": "message_start", "message": {"id": "m", "role": "assistant"}}
    return [start, *bodies, ending, {"type": "message_stop"}]


def begin(index: int | None, call_id: str, name: str) -> Body:
    """Begin a block of a call."""
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return {"type": "content_block_start", "index": index, "content_block": block}


def fill(index: int | None, text: str) -> Body:
    """Add to the input of a block."""
    delta = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(index: int) -> Body:
    """End a block."""
    return {"type": "content_block_stop", "index": index}


def items(*bodies: Body, output: Any = ()) -> list[Body]:
    """Tell events as Responses does."""
    response = {"id": "r", "object": "response", "status": "in_progress", "output": []}
    ending = {**response, "status": "completed", "output": list(output)}
    start = {"type": "response.created", "response": response}
    return [start, *bodies, {"type": "response.completed", "response": ending}]


def call(number: int, name: str, arguments: Any = "", **odd: Any) -> Body:
    """Give an item of a call."""
    item = {"type": "function_call", "id": f"i{number}", "call_id": f"c{number}", "name": name, "arguments": arguments}
    return {key: value for key, value in {**item, **odd}.items() if value is not ...}


def added(number: int, item: Body) -> Body:
    """Add an item."""
    return {"type": "response.output_item.added", "output_index": number, "item": item}


def done(number: int, item: Body) -> Body:
    """End an item."""
    return {"type": "response.output_item.done", "output_index": number, "item": item}


def grow(number: int, text: str, **odd: Any) -> Body:
    """Add to the arguments of an item."""
    kind = "response.function_call_arguments.delta"
    body = {"type": kind, "output_index": number, "item_id": f"i{number}", "delta": text, **odd}
    return {key: value for key, value in body.items() if value is not ...}


ROWS: dict[str, Row] = {
    "a piece without an index breaks another call": (
        "openai-chat",
        chat(
            *(named("f", index=0, id="a"), named("g", index=1, id="b"), piece(BEGIN, index=1)),
            *(piece(MIDDLE), piece(END, index=1), piece("{", index=0)),
        ),
        [],
    ),
    "a piece without an index, after its call was told": (
        "openai-chat",
        chat(
            *(named("g", index=1, id="b"), piece(BEGIN, index=1), piece(END, index=1)),
            *(named("f", index=2, id="a"), piece("{", index=2), piece(MIDDLE)),
        ),
        None,
    ),
    "a piece with the index of no call, after its call was told": (
        "openai-chat",
        chat(
            *(named("g", index=0, id="b"), piece(BEGIN, index=0), piece(END, index=0)),
            *(piece(MIDDLE, index=7), named("f", "{}", index=1, id="a")),
        ),
        None,
    ),
    "white space is left of the arguments": (
        "openai-chat",
        chat(named("f", index=0, id="a"), piece(" ", index=0)),
        [],
    ),
    "arguments of another type reach no call": (
        "openai-chat",
        chat(named("f", index=0, id="a"), piece([], index=7)),
        [],
    ),
    "arguments that are no text and then none": (
        "openai-chat",
        chat(named("f", index=0, id="a"), piece([], index=0), piece(None, index=0)),
        [],
    ),
    "half a name, and the other half with another index": (
        "openai-chat",
        chat(named("to", index=0, id="a"), named("ol", index=7, id="a"), piece("{}", index=0)),
        [],
    ),
    "half a name alone, between a call and its arguments": (
        "openai-chat",
        chat(named("t", index=0, id="a"), {"function": {"name": "ool"}}, piece("{}", index=0, id="a")),
        [],
    ),
    "a name in halves, and one of them twice": (
        "openai-chat",
        chat(*(named(name, index=0, id=name_id) for name, name_id in (("t", "a"), ("ool", "b"), ("ool", "c")))),
        [],
    ),
    "a call lost its index, and its arguments have one": (
        "openai-chat",
        chat(named("f", id="a"), named("f", index=0, id="b"), piece("{}", index=0)),
        [("f", {})],
    ),
    "a call begins again after the reason": (
        "openai-chat",
        [*chat(named("f", index=0, id="a"), piece(json.dumps(X), index=0)), *chat(named("f", index=0, id="b"))],
        [("f", X)],
    ),
    "a block begins again with its input": (
        "anthropic",
        messages(begin(0, "a", "f"), stop(0), begin(0, "a", "f"), fill(0, json.dumps(X)), stop(0)),
        [("f", X)],
    ),
    "a place begins again with its input": (
        "anthropic",
        messages(begin(0, "a", "f"), stop(0), begin(0, "b", "f"), fill(0, json.dumps(X)), stop(0)),
        [("f", X)],
    ),
    "an id begins again with its input": (
        "anthropic",
        messages(begin(0, "a", "f"), stop(0), begin(1, "a", "f"), fill(1, json.dumps(X)), stop(1)),
        [("f", X)],
    ),
    "input without an index breaks another call": (
        "anthropic",
        messages(
            *(begin(0, "a", "f"), stop(0), begin(1, "b", "g"), fill(1, "{}")),
            *(fill(None, json.dumps(X)), stop(1)),
        ),
        [],
    ),
    "input without an index, after its call was told": (
        "anthropic",
        messages(
            *(begin(0, "a", "f"), fill(0, BEGIN), fill(0, END), stop(0)),
            *(begin(1, "b", "g"), fill(1, "{"), fill(None, MIDDLE), fill(1, "}"), stop(1)),
        ),
        None,
    ),
    "white space is left of the input": ("anthropic", messages(begin(0, "a", "f"), fill(0, " "), stop(0)), []),
    "a block in two halves of a name": (
        "anthropic",
        messages(begin(0, "a", "to"), begin(0, "a", "ol"), fill(0, "{}"), stop(0)),
        [],
    ),
    "a block begins under the type of a piece": (
        "anthropic",
        messages(
            *({**begin(0, "a", "f"), "type": "content_block_delta"}, fill(0, json.dumps(X)), stop(0)),
        ),
        [("f", X)],
    ),
    "a piece and the beginning of its item lost their types": (
        "openai-responses",
        items(added(0, call(0, "f", type=...)), {**grow(0, json.dumps(X)), "type": 5}, done(0, call(0, "f"))),
        [],
    ),
    "an item begins again, without its id": (
        "openai-responses",
        items(
            *(added(0, call(0, "f")), added(0, call(0, "f", id=None))),
            *(grow(0, json.dumps(X)), done(0, call(0, "f", id=None))),
        ),
        [("f", X)],
    ),
    "an item ends before its arguments": (
        "openai-responses",
        items(done(0, call(0, "f", id=...)), added(0, call(0, "f", id=...)), grow(0, json.dumps(X))),
        [("f", X)],
    ),
    "an item ends twice, with halves of its name": (
        "openai-responses",
        items(done(0, call(0, "to", "{}")), done(0, call(0, "ol", "{}"))),
        None,
    ),
    "the end says the name otherwise": (
        "openai-responses",
        items(done(0, call(0, "to", "{}")), output=[call(0, "tool", "{}")]),
        None,
    ),
    "the end alone has the arguments": (
        "openai-responses",
        items(added(0, call(0, "f")), done(0, call(0, "f")), output=[call(0, "f", json.dumps(X))]),
        [],
    ),
    "an item of another type, with its id": (
        "openai-responses",
        items(added(0, call(0, "f")), grow(0, '{"kye": 1}'), done(0, call(0, "f", json.dumps(X), type="x"))),
        [("f", X)],
    ),
    "a piece whose type is lost, after its call was told": (
        "openai-responses",
        items(
            *(added(0, call(0, "f")), grow(0, BEGIN), grow(0, END), done(0, call(0, "f"))),
            {"output_index": 0, "item_id": "i0", "delta": MIDDLE},
        ),
        None,
    ),
    "a piece comes again, after its call was told": (
        "openai-responses",
        items(
            *(added(0, call(0, "f")), grow(0, BEGIN), grow(0, END), done(0, call(0, "f"))),
            grow(0, BEGIN),
        ),
        None,
    ),
    "a piece of the type of another event": (
        "openai-responses",
        items(added(0, call(0, "f")), grow(0, json.dumps(X), type="response.output_item.added"), done(0, call(0, "f"))),
        [],
    ),
    "a piece comes before its call, without the id": (
        "openai-responses",
        items(
            *(grow(0, MIDDLE, item_id=None), added(0, call(0, "f")), grow(0, BEGIN), grow(0, END)),
            done(0, call(0, "f")),
        ),
        [],
    ),
    "white space is left of an item": (
        "openai-responses",
        items(added(0, call(0, "f")), grow(0, " "), done(0, call(0, "f"))),
        [],
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_may_run_of_a_stream_that_is_in_doubt(row: Row) -> None:
    name, bodies, runs = row
    events = decode(name, b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies))
    failed = any(type(event) is ErrorEnd for event in events)
    assert failed is (runs is None)
    assert failed or [(call.name, call.arguments) for call in accumulate(events).tool_calls] == runs


# A text that came in one piece lacks nothing: what comes later is not its own. Empty pieces do not count.
WHOLE = json.dumps(X)
PIECES: list[tuple[list[str], bool]] = [
    ([WHOLE], False),
    (["", WHOLE], False),
    ([WHOLE, ""], False),
    (["", "", WHOLE, ""], False),
    ([BEGIN, MIDDLE + END], True),
    (["", BEGIN, MIDDLE + END], True),
    ([BEGIN, "", MIDDLE, END], True),
]


def late(wire: str, pieces: list[str]) -> list[Body]:
    """Write a stream in which a piece of arguments comes when the call of these pieces has ended."""
    if wire == "openai-chat":
        told = [named("f", index=0, id="a"), *(piece(text, index=0) for text in pieces)]
        return chat(*told, named("g", "{}", index=1, id="b"), piece(" ", index=0))
    if wire == "anthropic":
        told = [begin(0, "a", "f"), *(fill(0, text) for text in pieces), stop(0)]
        return messages(*told, begin(1, "b", "g"), fill(1, "{}"), stop(1), fill(0, " "))
    first, second = call(0, "f", arguments=...), call(1, "g", "{}")
    told = [added(0, first), *(grow(0, text) for text in pieces), done(0, first)]
    return items(*told, added(1, call(1, "g")), grow(1, "{}"), done(1, second), grow(7, "-5", type=...))


@pytest.mark.parametrize("wire", ["openai-chat", "anthropic", "openai-responses"])
@pytest.mark.parametrize(("pieces", "lacks"), PIECES)
def test_a_late_piece_is_doubted_where_the_arguments_came_in_pieces(wire: str, pieces: list[str], lacks: bool) -> None:
    assert has_several_pieces(pieces) is lacks
    bodies = late(wire, pieces)
    events = decode(wire, b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies))
    assert any(type(event) is ErrorEnd for event in events) is lacks
    calls = [(call.name, call.arguments) for call in accumulate(events).tool_calls]
    assert lacks or calls == [("f", X), ("g", {})]


LOST_TEXTS: dict[str, tuple[str, list[Body], str, str]] = {
    "words under the type of an ending": (
        "anthropic",
        messages({"type": "message_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}),
        "Hi",
        "tool_calls",
    ),
    "the reason under the type of the end, before the words": (
        "anthropic",
        messages(
            {"type": "message_stop", "delta": {"stop_reason": "end_turn"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        ),
        "Hi",
        "tool_calls",
    ),
    "words under the type of a beginning": (
        "openai-responses",
        items({"type": "response.created", "output_index": 0, "item_id": "m0", "content_index": 0, "delta": "Hi"}),
        "",
        "incomplete",
    ),
    "a message without a type at the end": (
        "openai-responses",
        items(
            added(0, {"type": "message", "id": "m0", "role": "assistant", "content": []}),
            output=[
                {"type": None, "id": "m0", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
            ],
        ),
        "Hi",
        "stop",
    ),
}


@pytest.mark.parametrize("row", LOST_TEXTS.values(), ids=LOST_TEXTS)
def test_a_text_is_told_or_its_answer_is_not_complete(row: tuple[str, list[Body], str, str]) -> None:
    name, bodies, text, finish = row
    response = accumulate(decode(name, b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies)))
    assert (response.content or "", response.finish_reason) == (text, finish)
