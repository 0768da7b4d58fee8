"""Streams from elsewhere, written as streams of generateContent."""

import msgspec
import pytest

from tests.dialects.stream_parts import asked, ended
from tests.dialects.test_gemini_stream import BESIDE, Body, bodies_of, chunk, encode
from tests.oracles import RESPONSES
from tests.stream_cases import decode
from tests.stream_oracles import READERS
from toolwire import (
    CallEnd,
    CallStart,
    Citation,
    Error,
    ErrorEnd,
    Event,
    MessageEnd,
    MessageStart,
    Opaque,
    PartEnd,
    PartStart,
    Refusal,
    RefusalDelta,
    Response,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    Usage,
    UsageDelta,
    accumulate,
)
from toolwire.dialects import gemini

SHELL = Response(id="r", model="m")


def said(key: int, text: str, choice: int = 0) -> list[Event]:
    return [PartStart(key, Text(""), choice), TextDelta(key, text), PartEnd(key, Text(""))]


EVENTS: list[Event] = [
    MessageStart(SHELL),
    PartStart(0, Thinking("")),
    ThinkingDelta(0, "hm"),
    PartEnd(0, Thinking("", signature="S", opaque=Opaque("anthropic", {}))),
    PartStart(1, Text("")),
    TextDelta(1, "a"),
    TextDelta(1, "\u00e9\u2028"),
    PartEnd(1, Text("", citations=[Citation(url="u")])),
    *asked(2, ToolCall("c", "a b", {"x": 1})),
    *asked(3, ToolCall("d", "cut", {}, 1, complete=False, raw='{"x')),
    UsageDelta(Usage(3, 4)),
    ended("tool_calls"),
    MessageEnd(),
]
CALL = {"functionCall": {"name": "a_b__tw1-20", "id": "c", "args": {"x": 1}}}
LAST = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP", "index": 0}
COUNTS = {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7}


def test_events_make_chunks() -> None:
    data, lost = encode(*EVENTS)
    parts = ({"text": "hm", "thought": True}, {"text": "a"}, {"text": "\u00e9\u2028"}, CALL)
    last = {"candidates": [LAST], "usageMetadata": COUNTS, **BESIDE}
    assert bodies_of(data) == [*map(chunk, parts), last]
    assert lost == [
        ("choices[0].message.content[0].signature", "thinking_signature", "semantic"),
        ("choices[0].message.content[0].text", "thinking", "minor"),
        ("choices[0].message.content[1].citations", "citation", "semantic"),
        ("choices[0].message.content[3]", "incomplete_call", "semantic"),
    ]
    assert [RESPONSES["gemini"](body) for body in bodies_of(data)] == [None] * 5


def test_the_client_reads_what_is_written() -> None:
    told = READERS["gemini"](encode(*EVENTS)[0])
    assert (told.text, told.thinking, told.finish) == ("a\u00e9\u2028", "hm", "STOP")
    assert (told.calls, told.usage, told.error) == ((("c", "a_b__tw1-20", {"x": 1}),), (3, 4), None)


def test_an_array_holds_the_same_chunks() -> None:
    data, _ = encode(*EVENTS, stream_array=True)
    assert msgspec.json.decode(data) == bodies_of(encode(*EVENTS)[0])
    failed, _ = encode(MessageStart(SHELL), ErrorEnd(Error("overloaded", "busy")), stream_array=True)
    assert msgspec.json.decode(failed) == [{"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}]


def test_words_and_calls_go_out_at_once() -> None:
    encoder = gemini.encode_stream()
    at_once = (ThinkingDelta, TextDelta, MessageEnd)
    for event in EVENTS:
        whole = isinstance(event, CallEnd) and event.call.complete
        assert len(bodies_of(encoder.feed(event))) == (whole or isinstance(event, at_once))


@pytest.mark.parametrize("shell", [SHELL, Response(opaque=Opaque("gemini", {}))])
def test_what_broke_off_elsewhere_is_an_error_here(shell: Response) -> None:
    data, _ = encode(MessageStart(shell), PartStart(0, Text("")), TextDelta(0, "a"))
    errors = [body["error"]["status"] for body in bodies_of(data) if "error" in body]
    assert errors == ([] if shell.opaque else ["INTERNAL"])
    assert accumulate(decode("gemini", data)).content == "a"


def test_nothing_follows_an_error() -> None:
    failure = ErrorEnd(Error("rate_limit", "slow down"))
    data, _ = encode(MessageStart(SHELL), *said(0, "a"), failure, *said(1, "b"), MessageEnd(complete=False))
    assert [min(body) for body in bodies_of(data)] == ["candidates", "error"]
    assert decode("gemini", data)[-2:] == [
        ErrorEnd(gemini.decode_error(None, bodies_of(data)[-1])),
        MessageEnd(complete=False),
    ]


ENDS = {
    "stop": ("STOP", []),
    "length": ("MAX_TOKENS", []),
    "content_filter": ("SAFETY", []),
    "malformed_tool_call": ("MALFORMED_FUNCTION_CALL", []),
    "incomplete": ("OTHER", [("choices[0].finish_reason", "finish_reason", "semantic")]),
}


@pytest.mark.parametrize("reason", ENDS)
def test_why_an_answer_ended_is_said_last(reason: str) -> None:
    word, losses = ENDS[reason]
    data, lost = encode(MessageStart(SHELL), *said(0, "a"), ended(reason), MessageEnd())
    assert [body["candidates"][0].get("finishReason") for body in bodies_of(data)] == [None, word]
    assert lost == losses


def test_words_that_follow_each_other_are_one_part() -> None:
    refusal: list[Event] = [PartStart(2, Refusal("")), RefusalDelta(2, "no"), PartEnd(2, Refusal(""))]
    data, lost = encode(MessageStart(SHELL), *said(0, "a"), *said(1, "b"), *refusal, ended("stop"), MessageEnd())
    assert accumulate(decode("gemini", data)).content == "abno"
    assert [(path, concept) for path, concept, _ in lost] == [
        ("choices[0].message.content[1]", "parts"),
        ("choices[0].message.content[2]", "parts"),
        ("choices[0].message.content[2]", "refusal"),
    ]


def test_the_parts_of_an_answer_take_turns_and_answers_do_not() -> None:
    call = ToolCall("c", "f")
    data, _ = encode(
        *(MessageStart(SHELL), PartStart(0, Text("")), TextDelta(0, "a"), CallStart(1, "c", "f", 0)),
        *(PartStart(2, Text(""), 1), TextDelta(2, "x"), CallEnd(1, call), TextDelta(0, "b")),
        *(PartEnd(0, Text("")), PartEnd(2, Text("")), ended("stop"), ended("stop", 1), MessageEnd()),
    )
    *chunks, last = bodies_of(data)
    entries: list[Body] = [body["candidates"][0] for body in chunks]
    asks = {"functionCall": {"name": "f", "id": "c", "args": {}}}
    parts = [(0, {"text": "a"}), (1, {"text": "x"}), (0, {"text": "b"}), (0, asks)]
    assert [(entry["index"], *entry["content"]["parts"]) for entry in entries] == parts
    assert [entry["index"] for entry in last["candidates"]] == [0, 1]


def test_counts_go_with_the_next_chunk_and_with_the_last() -> None:
    data, _ = encode(
        *(MessageStart(SHELL), PartStart(0, Text("")), TextDelta(0, "a"), TextDelta(0, "b")),
        *(UsageDelta(Usage(3)), TextDelta(0, "c"), TextDelta(0, "d"), UsageDelta(Usage(3, 4))),
        *(PartEnd(0, Text("")), ended("stop"), MessageEnd()),
    )
    told = [body.get("usageMetadata", {}).get("totalTokenCount") for body in bodies_of(data)]
    assert told == [None, None, 3, None, 7]
