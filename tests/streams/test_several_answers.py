"""Is a stream of several answers complete? Decision tables for the wires that send several: Chat and Gemini.

A stream is written as a row of chunks: `0a` is the word `a` of answer 0, `0.stop` is its finish reason. Of Chat alone,
`0{` and `0}` are the two halves of a call of answer 0, and `DONE` is the line that ends the stream. `ERROR` is an
error.
"""

import json
from typing import Any

import pytest

from toolwire import accumulate, dialect, translate
from toolwire.types import ChoiceEnd, ErrorEnd, MessageEnd

CUT = "incomplete"
CHAT, GEMINI = "openai-chat", "gemini"
GEMINI_REASONS = {"stop": "STOP", "length": "MAX_TOKENS"}

# The chunks, whether the stream is complete, and the finish reason of each answer by its words.
BOTH: list[tuple[str, bool, dict[str, str]]] = [
    ("0a", False, {"a": CUT}),
    ("0a 0.stop", True, {"a": "stop"}),
    ("0a 1b", False, {"a": CUT, "b": CUT}),
    ("0a 1b 0.stop", False, {"a": "stop", "b": CUT}),
    ("0a 1b 1.stop", False, {"a": CUT, "b": "stop"}),
    ("0a 1b 0.stop 1.stop", True, {"a": "stop", "b": "stop"}),
    ("0a 1b 1.stop 0.stop", True, {"a": "stop", "b": "stop"}),
    ("0a 1b 0.length", False, {"a": "length", "b": CUT}),
    ("0a 1b 0.length 1.stop", True, {"a": "length", "b": "stop"}),
    ("0a 1b 1.length 0.stop", True, {"a": "stop", "b": "length"}),
    ("1b 0a 1.stop", False, {"a": CUT, "b": "stop"}),
    ("1b 0a 1.stop 0.stop", True, {"a": "stop", "b": "stop"}),
    ("0a 0.stop 1b 1.stop", True, {"a": "stop", "b": "stop"}),
    ("0a 1b 2c 0.stop", False, {"a": "stop", "b": CUT, "c": CUT}),
    ("0a 1b 2c 0.stop 1.stop", False, {"a": "stop", "b": "stop", "c": CUT}),
    ("0a 1b 2c 0.stop 2.stop", False, {"a": "stop", "b": CUT, "c": "stop"}),
    ("0a 1b 2c 2.stop 1.stop", False, {"a": CUT, "b": "stop", "c": "stop"}),
    ("0a 1b 2c 1.stop 2.length 0.stop", True, {"a": "stop", "b": "stop", "c": "length"}),
    ("0a 1b 0.stop ERROR", False, {"a": "error", "b": "error"}),
]
# An answer that begins after another one has ended.
LATER: list[tuple[str, bool, dict[str, str]]] = [
    ("0a 0.stop 1b", False, {"a": "stop", "b": CUT}),
    ("0a 0.stop 1b 1.stop 2c", False, {"a": "stop", "b": "stop", "c": CUT}),
]
# The line `DONE` ends every answer of which nothing is half.
ENDED: list[tuple[str, bool, dict[str, str]]] = [
    ("0a 1b DONE", True, {"a": "stop", "b": "stop"}),
    ("0a 1b 0.stop DONE", True, {"a": "stop", "b": "stop"}),
    ("0a 1b 1.length DONE", True, {"a": "stop", "b": "length"}),
    ("0a 1b 0.stop 1.length DONE", True, {"a": "stop", "b": "length"}),
    ("0a 0.stop 1b DONE", True, {"a": "stop", "b": "stop"}),
    ("0a 1b 2c 0.stop 2.length DONE", True, {"a": "stop", "b": "stop", "c": "length"}),
    ("0a 1b 0.stop ERROR DONE", False, {"a": "error", "b": "error"}),
]
# Answers with calls: the finish reasons in order, and whether the call of each answer can be run.
CALLING: list[tuple[str, bool, list[str], list[bool]]] = [
    ("0{ 0} 1{", False, [CUT, CUT], [False, False]),
    ("0{ 0} 1{ 0.tool_calls", False, ["tool_calls", CUT], [True, False]),
    ("0{ 1{ 1} 1.tool_calls", False, [CUT, "tool_calls"], [False, True]),
    ("0{ 1{ 1} 1.tool_calls 0}", False, [CUT, "tool_calls"], [False, True]),
    ("0{ 1{ 1} 1.tool_calls 0} 0.tool_calls", True, ["tool_calls", "tool_calls"], [True, True]),
    ("0{ 0} 1{ DONE", True, ["tool_calls", CUT], [True, False]),
    ("0{ 0} 1{ 1} DONE", True, ["tool_calls", "tool_calls"], [True, True]),
    ("0{ 0} 1{ 0.tool_calls DONE", True, ["tool_calls", CUT], [True, False]),
]


def chat_chunk(step: str) -> bytes:
    """Return a chunk of Chat Completions."""
    if step == "DONE":
        return b"data: [DONE]\n\n"
    if step == "ERROR":
        return b'data: {"error": {"message": "overloaded", "type": "server_error"}}\n\n'
    index, what = int(step[0]), step[1:]
    delta: dict[str, Any] = {"content": what}
    if what.startswith("."):
        delta = {}
    elif what == "{":
        call = {"index": 0, "id": f"call_{index}", "type": "function", "function": {"name": "f", "arguments": '{"a'}}
        delta = {"tool_calls": [call]}
    elif what == "}":
        delta = {"tool_calls": [{"index": 0, "function": {"arguments": '": 1}'}}]}
    choice = {"index": index, "delta": delta, "finish_reason": what[1:] if what.startswith(".") else None}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def gemini_chunk(step: str) -> bytes:
    """Return a chunk of generateContent."""
    if step == "ERROR":
        return b'data: {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}\n\n'
    candidate: dict[str, Any] = {"index": int(step[0])}
    if step[1:].startswith("."):
        candidate["finishReason"] = GEMINI_REASONS[step[2:]]
    else:
        candidate["content"] = {"role": "model", "parts": [{"text": step[1:]}]}
    body = {"candidates": [candidate], "modelVersion": "m", "responseId": "r"}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def decoded(wire: str, chunks: str, size: int) -> list[Any]:
    """Return the events of a stream that arrives in pieces of `size` bytes."""
    write = chat_chunk if wire == CHAT else gemini_chunk
    data = b"".join(map(write, chunks.split()))
    decoder = dialect(wire).decode_stream()
    events = [event for at in range(0, len(data), size) for event in decoder.feed(data[at : at + size])]
    return [*events, *decoder.close()]


def check(events: list[Any], complete: bool, reasons: list[str]) -> None:
    """Check how the events end: the end of each answer, the error if there is one, and the end of the message."""
    count = len(reasons)
    ended = [event for event in events if type(event) in (ChoiceEnd, ErrorEnd, MessageEnd)]
    kinds: list[type] = [ChoiceEnd] * count + [ErrorEnd] * ("error" in reasons) + [MessageEnd]
    assert [type(event) for event in ended] == kinds
    assert events[-1] == MessageEnd(complete=complete)
    assert [event.index for event in ended[:count]] == list(range(count))
    assert sorted(event.choice.finish_reason for event in ended[:count]) == sorted(reasons)


def cases(wire: str) -> list[Any]:
    """Return the rows of the tables that a wire has."""
    rows = [*BOTH, *(ENDED if wire == CHAT else ())]
    return [
        *(pytest.param(wire, *row, id=f"{wire}: {row[0]}") for row in rows),
        *(pytest.param(wire, *row, id=f"{wire}: {row[0]}") for row in LATER),
    ]


@pytest.mark.parametrize(("wire", "chunks", "complete", "reasons"), [*cases(CHAT), *cases(GEMINI)])
@pytest.mark.parametrize("size", [1, 10_000])
def test_a_stream_is_complete_if_each_answer_has_ended(
    wire: str, chunks: str, complete: bool, reasons: dict[str, str], size: int
) -> None:
    events = decoded(wire, chunks, size)
    check(events, complete, list(reasons.values()))
    response = accumulate(events)
    assert {choice.message.text: choice.finish_reason for choice in response.choices} == reasons


@pytest.mark.parametrize(("chunks", "complete", "reasons", "runs"), CALLING, ids=[row[0] for row in CALLING])
@pytest.mark.parametrize("size", [1, 10_000])
def test_an_answer_whose_call_is_half_has_not_ended(
    chunks: str, complete: bool, reasons: list[str], runs: list[bool], size: int
) -> None:
    events = decoded(CHAT, chunks, size)
    check(events, complete, reasons)
    response = accumulate(events)
    assert [choice.finish_reason for choice in response.choices] == reasons
    calls = [[*choice.message.tool_calls, *choice.message.broken_calls] for choice in response.choices]
    assert [[call.complete for call in made] for made in calls] == [[whole] for whole in runs]
    assert [call.arguments for made in calls for call in made] == [{"a": 1} if whole else {} for whole in runs]


@pytest.mark.parametrize("target", [CHAT, GEMINI])
@pytest.mark.parametrize(("wire", "chunks", "complete", "reasons"), [*cases(CHAT), *cases(GEMINI)])
def test_a_translated_stream_is_as_complete_as_its_source(
    wire: str, target: str, chunks: str, complete: bool, reasons: dict[str, str]
) -> None:
    stream = translate.stream(source=wire, target=target)
    write = chat_chunk if wire == CHAT else gemini_chunk
    data = b"".join([*map(stream.feed, map(write, chunks.split())), stream.close()])
    decoder = dialect(target).decode_stream()
    events = [*decoder.feed(data), *decoder.close()]
    assert events[-1] == MessageEnd(complete=complete)
    # On another wire, a stream that broke off ends in an error.
    expected = reasons if complete or wire == target else dict.fromkeys(reasons, "error")
    assert {choice.message.text: choice.finish_reason for choice in accumulate(events).choices} == expected
