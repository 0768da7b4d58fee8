"""Streams of Chat Completions: what ends a call, what stands beside words, what is written."""

from typing import Any

import msgspec
import pytest

from toolwire import Audio, Error, Response, accumulate, dialect
from toolwire.types import ErrorEnd, Event, MessageStart
from toolwire.wire.framing import EventStream, write_event

CHAT = dialect("openai-chat")
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "search", "arguments": '{"q":'}}
REST = {"index": 0, "function": {"arguments": '"hello"}'}}
DONE = write_event(b"[DONE]")


def chunk(delta: Any, finish: str | None = None, **beside: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
    return write_event(msgspec.json.encode({**body, **beside}))


def read(*frames: bytes) -> list[Event]:
    decoder = CHAT.decode_stream()
    return [event for frame in frames for event in decoder.feed(frame)] + decoder.close()


def write(events: list[Event], **quirks: Any) -> list[Any]:
    encoder = CHAT.encode_stream(**quirks)
    data = b"".join(encoder.feed(event) for event in events) + encoder.close()
    frames = EventStream()
    return [frame if frame == b"[DONE]" else msgspec.json.decode(frame) for _, frame in frames.feed(data)]


ASKED = (chunk({"tool_calls": [CALL]}), chunk({"tool_calls": [REST]}))


@pytest.mark.parametrize(
    ("end", "offered", "finish"),
    [
        ((chunk({}, "tool_calls"), DONE), True, "tool_calls"),
        ((chunk({}, "stop"), DONE), True, "tool_calls"),
        ((chunk({}, "tool_calls"),), True, "tool_calls"),
        ((chunk({}, "length"), DONE), True, "length"),
        ((DONE,), True, "tool_calls"),
        ((), False, "incomplete"),
        ((write_event(b'{"error":{"message":"gone"}}'),), False, "error"),
    ],
)
def test_what_ends_a_call(end: tuple[bytes, ...], offered: bool, finish: str) -> None:
    response = accumulate(read(*ASKED, *end))
    calls = [(call.id, call.name, call.arguments, call.complete) for call in response.tool_calls]
    assert calls == ([("call_1", "search", {"q": "hello"}, True)] if offered else [])
    assert [call.raw for call in response.broken_calls] == ([] if offered else ['{"q":"hello"}'])
    assert response.finish_reason == finish


def test_sound_is_whole_at_the_end() -> None:
    pieces = ({"id": "a1", "transcript": "He"}, {"transcript": "llo"}, {"data": "AAAA"}, {"data": "BBBB"})
    events = read(*(chunk({"audio": piece}) for piece in pieces), chunk({}, "stop"), DONE)
    [part] = accumulate(events).parts
    assert isinstance(part, Audio)
    assert (part.file_id, part.transcript, part.data) == ("a1", "Hello", "AAAABBBB")
    told = [body["choices"][0]["delta"].get("audio") for body in write(events)[:4]]
    assert told == list(pieces)


def test_sound_without_an_id_stays_what_the_wire_said() -> None:
    pieces = ({"transcript": "He"}, {"transcript": "llo"}, {"data": "AAAA"})
    events = read(*(chunk({"audio": piece}) for piece in pieces), chunk({}, "stop"), DONE)
    answer = accumulate(events)
    assert answer.parts == []
    [choice] = CHAT.encode_response(answer).body["choices"]
    assert choice["message"]["audio"] == {"transcript": "Hello", "data": "AAAA"}


def test_lists_that_nobody_understands_grow() -> None:
    """OpenRouter sends each picture that a model draws in a delta of its own."""
    one, two = (
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}} for data in ("AA==", "BB==")
    )
    frames = [chunk({"images": [one], "mood": "calm"}), chunk({"images": [two], "mood": "glad"})]
    events = read(*frames, chunk({}, "stop"), DONE)
    [choice] = CHAT.encode_response(accumulate(events)).body["choices"]
    assert (choice["message"]["images"], choice["message"]["mood"]) == ([one, two], "glad")
    assert [body["choices"][0]["delta"].get("images") for body in write(events)[:2]] == [[one], [two]]


def test_counts_are_said_last_and_only_if_they_are_wanted() -> None:
    usage = {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
    events = read(chunk({"content": "Hi"}), chunk({}, "stop"), chunk(None, usage=usage), DONE)
    written = write(events)
    assert written[-1] == b"[DONE]"
    assert (written[-2]["choices"], written[-2]["usage"]) == ([], usage)
    assert all("usage" not in body for body in write(events, stream_usage=False)[:-1])


def test_what_pads_a_chunk_means_nothing() -> None:
    frames = [chunk({"content": word}, obfuscation=word * 3) for word in ("a", "b", "c", "d")]
    events = read(*frames, chunk({}, "stop"), DONE)
    assert accumulate(events).content == "abcd"
    assert all("obfuscation" not in body for body in write(events)[:-1])


def test_after_an_error_nothing_is_said() -> None:
    start = MessageStart(Response(id="r", model="m"))
    written = write([start, ErrorEnd(Error("overloaded", "busy")), start])
    assert [list(body) for body in written] == [["error"]]
    assert written[0]["error"]["message"] == "busy"
