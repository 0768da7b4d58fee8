"""Streams of Responses, both ways."""

from typing import Any

import msgspec
import pytest

from tests.dialects.responses_turns import (
    BEGIN,
    HELLO,
    LOGS,
    THOUGHT,
    TURNS,
    Body,
    Y,
    read,
    response,
    tell,
    text,
    write,
)
from tests.stream_oracles import read_responses
from tests.wires import differences
from toolwire import accumulate, translate
from toolwire.dialects import openai_responses
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    Choice,
    ChoiceEnd,
    Citation,
    CitationDelta,
    Error,
    ErrorEnd,
    Event,
    Message,
    MessageEnd,
    MessageStart,
    Opaque,
    OpaqueDelta,
    PartEnd,
    PartStart,
    Response,
    ServerToolCall,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    Usage,
    UsageDelta,
)


@pytest.mark.parametrize("case", TURNS)
def test_a_stream_tells_what_its_response_says(case: str) -> None:
    events, body = TURNS[case]
    told, whole = accumulate(read(*write(events))), openai_responses.decode_response(body)
    assert differences(msgspec.to_builtins(told), msgspec.to_builtins(whole)) == []


@pytest.mark.sampled
@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("case", TURNS)
def test_events_do_not_depend_on_how_the_bytes_were_cut(case: str, numbered: bool) -> None:
    frames = write(TURNS[case][0], numbered=numbered)
    data = b"".join(frames)
    whole = read(data)
    assert read(*frames) == whole
    assert read(*(data[place : place + 1] for place in range(len(data)))) == whole


@pytest.mark.parametrize("case", TURNS)
def test_a_stream_that_is_written_again_tells_the_same(case: str) -> None:
    events = read(*write(TURNS[case][0]))
    assert accumulate(read(*write(tell(events)))) == accumulate(events)


@pytest.mark.parametrize("case", TURNS)
def test_half_a_stream_is_no_answer(case: str) -> None:
    frames = write(TURNS[case][0])
    closed = {"response.output_item.done", "response.completed", "response.incomplete", "response.failed"}
    for place in range(1, len(frames)):
        events = read(*frames[:place], frames[place][:-9])
        told = accumulate(events)
        assert told.finish_reason == "incomplete", place
        assert isinstance(events[-1], MessageEnd), place
        assert not events[-1].complete, place
        if not any(name in frame.decode() for name in closed for frame in frames[:place]):
            assert told.tool_calls == [], place
        assert accumulate(read(*write(tell(events)))) == told, place


def test_a_call_begins_when_it_is_named_and_is_whole_at_its_end() -> None:
    started, *pieces, ended = read(*write(TURNS["a call"][0]))[1:-4]
    assert isinstance(started, CallStart)
    assert (started.id, started.name) == ("c0", "look")
    assert [piece.fragment for piece in pieces if isinstance(piece, CallDelta)] == ['{"x"', ":1}"]
    assert isinstance(ended, CallEnd)
    assert ended.call == ToolCall.parse("c0", "look", '{"x":1}')


def test_texts_of_reasoning_are_joined_by_a_blank_line() -> None:
    events = read(*write(TURNS["two summaries"][0]))
    said = [event.text for event in events if isinstance(event, ThinkingDelta)]
    assert said == ["On", "e.", "\n\n", "Two."]


def test_odds_of_words_stay_with_the_step() -> None:
    [said] = [event for event in read(*write(TURNS["words with their odds"][0])) if isinstance(event, TextDelta)]
    assert said.opaque == Opaque("openai-responses", {"logprobs": LOGS})


def test_steps_that_come_again_are_not_told_again() -> None:
    frames = write(TURNS["words"][0])
    assert read(*frames[:6], *frames[3:]) == read(*frames)


def test_numbers_that_say_nothing_are_not_minded() -> None:
    events = [{**event, "sequence_number": 0} for event in TURNS["words"][0]]
    assert read(*write(events, numbered=False)) == read(*write(TURNS["words"][0]))


@pytest.mark.parametrize("mark", [b"data: [DONE]\n\n", b": ping\n\n", b'data: {"type":"keepalive"}\n\n'])
def test_what_says_nothing_is_left_out(mark: bytes) -> None:
    frames = write(TURNS["words"][0])
    quiet = frames if b"DONE" in mark else [frames[0], mark, *frames[1:]]
    assert read(*quiet, mark) == read(*frames)


def test_a_mark_of_an_end_ends_no_answer() -> None:
    events = read(*write(TURNS["words"][0][:-1]), b"data: [DONE]\n\n")
    assert not isinstance(events[-1], MessageEnd) or not events[-1].complete


def test_a_whole_body_is_read_as_one() -> None:
    body = response(THOUGHT, HELLO, Y)
    assert accumulate(read(msgspec.json.encode(body))) == openai_responses.decode_response(body)


FLAT = {"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None}
NESTED = {"type": "error", "error": {"type": "server_error", "message": "boom"}}
ERRORS: dict[str, tuple[list[Body], str, str | None]] = {
    "flat": ([*BEGIN, FLAT], "rate_limit", "error"),
    "nested": ([*BEGIN, NESTED], "server", "error"),
    "before anything": ([FLAT], "rate_limit", None),
    "in the end": (TURNS["an answer that failed"][0], "server", "error"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_ends_a_stream(case: str) -> None:
    bodies, kind, finish = ERRORS[case]
    events = read(*write(bodies))
    *_, error, end = events
    assert isinstance(error, ErrorEnd)
    assert (error.error.kind, accumulate(events).finish_reason) == (kind, finish)
    assert end == MessageEnd(complete=False)
    written = tell(events)
    assert written[-1]["type"] == bodies[-1]["type"]
    assert [event for event in read(*write(written)) if isinstance(event, ErrorEnd)] == [error]


def test_what_nobody_knows_is_said_again_here_and_lost_elsewhere() -> None:
    events = read(*write(TURNS["an event that nobody knows"][0]))
    assert {"type": "response.dreamt", "of": "sheep", "sequence_number": 2} in tell(events)
    stream = translate.stream("openai-responses", "anthropic")
    for frame in write(TURNS["an event that nobody knows"][0]):
        stream.feed(frame)
    assert "opaque.of" in [loss.path for loss in stream.losses]


def test_progress_of_a_search_is_said_again_in_its_place() -> None:
    events = read(*write(TURNS["a search"][0]))
    [progress] = [event for event in events if isinstance(event, OpaqueDelta)]
    assert (progress.key, progress.repeated) == (0, True)
    assert [body["type"] for body in tell(events)] == [body["type"] for body in TURNS["a search"][0]]


SHELL = Response(id="r", model="m", created=7)
FOREIGN = Opaque("anthropic", {})


def answer(*events: Event, reason: Any = "stop") -> list[Event]:
    """Give the events of an answer from elsewhere."""
    end = Choice(Message("assistant", []), reason)
    return [MessageStart(SHELL), *events, UsageDelta(Usage(3, 5)), ChoiceEnd(0, end), MessageEnd()]


def thought(key: int) -> list[Event]:
    part = Thinking("", opaque=FOREIGN)
    return [PartStart(key, part), ThinkingDelta(key, "Hm"), ThinkingDelta(key, "."), PartEnd(key, part)]


def said(key: int, *pieces: str) -> list[Event]:
    return [PartStart(key, Text("")), *(TextDelta(key, piece) for piece in pieces), PartEnd(key, Text(""))]


def asked(key: int, *pieces: str, custom: bool = False) -> list[Event]:
    name, raw, call_id = "run" if custom else "look", "".join(pieces), f"c{key}"
    whole = ToolCall(call_id, name, raw=raw, custom=True) if custom else ToolCall.parse(call_id, name, raw)
    fragments = [CallDelta(key, piece) for piece in pieces]
    return [CallStart(key, whole.id, name, custom=custom), *fragments, CallEnd(key, whole)]


RUN = ServerToolCall("s", "web_search")
WRITTEN: dict[str, tuple[list[Event], list[str], list[Body]]] = {
    "words": (
        answer(*said(0, "Hel", "lo")),
        "item.added part.added text.delta text.delta text.done part.done item.done completed".split(),
        [{"type": "message", "status": "completed", "content": [text("Hello")]}],
    ),
    "words that join": (
        answer(*said(0, "a"), *said(1, ""), *said(2, "b")),
        "item.added part.added text.delta text.done part.done part.added text.delta text.done".split()
        + "part.done item.done completed".split(),
        [{"type": "message", "status": "completed", "content": [text("a"), text("b")]}],
    ),
    "a thought": (
        answer(*thought(0)),
        "item.added summary_part.added summary_text.delta summary_text.delta summary_text.done".split()
        + "summary_part.done item.done completed".split(),
        [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}],
    ),
    "a call": (
        answer(*asked(0, '{"x"', ":1}"), reason="tool_calls"),
        "item.added arguments.delta arguments.delta arguments.done item.done completed".split(),
        [{"type": "function_call", "call_id": "c0", "status": "completed", "arguments": '{"x":1}'}],
    ),
    "a call without arguments": (
        answer(CallStart(0, "c0", "look"), CallEnd(0, ToolCall("c0", "look", {})), reason="tool_calls"),
        "item.added arguments.delta arguments.done item.done completed".split(),
        [{"type": "function_call", "call_id": "c0", "arguments": "{}"}],
    ),
    "a custom call": (
        answer(*asked(0, "1 + ", "1", custom=True), reason="tool_calls"),
        "item.added input.delta input.delta input.done item.done completed".split(),
        [{"type": "custom_tool_call", "call_id": "c0", "input": "1 + 1"}],
    ),
    "a note": (
        answer(
            PartStart(0, Text("")),
            TextDelta(0, "Hello"),
            CitationDelta(0, Citation("u", "t", None, 0, 2)),
            PartEnd(0, Text("")),
        ),
        "item.added part.added text.delta annotation.added text.done part.done item.done completed".split(),
        [{"type": "message", "content": [text("Hello")]}],
    ),
    "an answer that was cut off": (
        answer(*said(0, "Hel"), reason="length"),
        "item.added part.added text.delta text.done part.done item.done incomplete".split(),
        [{"type": "message", "content": [text("Hel")]}],
    ),
    "what another provider ran": (
        answer(PartStart(0, RUN), PartEnd(0, RUN)),
        ["completed"],
        [],
    ),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_an_answer_from_elsewhere_is_written(case: str) -> None:
    events, kinds, items = WRITTEN[case]
    created, in_progress, *bodies, end = written = tell(events)
    assert created["response"] == in_progress["response"]
    told = [body["type"] for body in written[2:]]
    assert [kind.endswith(wanted) for kind, wanted in zip(told, kinds, strict=True)] == [True] * len(kinds)
    output = end["response"]["output"]
    assert [{key: given[key] for key in wanted} for given, wanted in zip(output, items, strict=True)] == items
    assert [body["item"] for body in bodies if body["type"] == "response.output_item.done"] == output
    assert (end["response"]["id"], end["response"]["usage"]["total_tokens"]) == ("r", 8)
    assert tell(events) == written


@pytest.mark.parametrize("case", WRITTEN)
def test_the_vendors_client_reads_what_is_written(case: str) -> None:
    events, _, _ = WRITTEN[case]
    told, response = read_responses(b"".join(write(tell(events)))), accumulate(events)
    assert (told.error, told.text) == (None, response.message.text)
    assert [found[0] for found in told.calls] == [call.id for call in response.tool_calls]
    assert told.usage == (3, 5)


def test_ids_of_items_are_made_from_the_answer() -> None:
    events = answer(*thought(0), *said(1, "a"), *asked(2, "{}"))
    ids = [body["item"]["id"] for body in tell(events) if body["type"] == "response.output_item.done"]
    assert [made.partition("_")[0] for made in ids] == ["rs", "msg", "fc"]
    assert len({made[-2:] for made in ids}) == 3
    grown = {body["item_id"]: None for body in tell(events) if body["type"].endswith("delta")}
    assert list(grown) == ids


def test_parts_side_by_side_are_written_one_after_the_other() -> None:
    (start, delta, end), (start_2, delta_2, end_2) = asked(0, "{}"), asked(1, "{}")
    bodies = tell(answer(start, start_2, delta_2, delta, end_2, end))
    assert [body["output_index"] for body in bodies if "output_index" in body] == [0] * 4 + [1] * 4


BROKEN: list[Event] = [MessageStart(SHELL), *said(0, "a")]
BOOM = ErrorEnd(Error("overloaded", "boom", 529))
FAILURES: dict[str, tuple[list[Event], str, Any]] = {
    "before the answer": ([BOOM], "error", None),
    "after words": ([*BROKEN, BOOM, TextDelta(0, "b")], "response.failed", "server_error"),
    "a broken line": (BROKEN, "response.failed", "stream_incomplete"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_said_last(case: str) -> None:
    events, kind, code = FAILURES[case]
    *_, last = tell(events)
    assert last["type"] == kind
    if code is None:
        assert last == {"type": "error", "code": None, "message": "boom", "param": None, "sequence_number": 0}
    else:
        assert (last["response"]["status"], last["response"]["error"]["code"]) == ("failed", code)
        assert last["response"]["output"][0]["content"] == [text("a")]


def test_a_stream_of_this_wire_that_broke_off_just_stops() -> None:
    frames = write(TURNS["words"][0])
    assert tell(read(*frames[:5]))[-1]["type"] == "response.output_item.done"
