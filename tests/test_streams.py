"""The laws of streams, over streams written by hand and recorded ones; a vendor's own client is the judge.

Each law runs over the small streams in the fast suite, and over all of them in the slow one.
"""

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.stream_cases import (
    EVERY,
    FIELDS,
    SMALL,
    cases,
    decode,
    decoded,
    disorder,
    encode,
    is_sound,
    is_whole,
    judged,
    lines,
    plain,
    shown,
    tell,
    unlike,
    unlike_there,
    whole_turn,
)
from tests.stream_examples import blocks, tool, words
from tests.stream_misread import MISREAD, NO_RESPONSE, NO_STREAM
from tests.stream_oracles import READERS
from tests.wires import DIALECTS, PAIRS, differences, responses_of
from toolwire import (
    CallDelta,
    CallEnd,
    CallStart,
    Choice,
    ChoiceEnd,
    Event,
    Message,
    MessageEnd,
    MessageStart,
    Response,
    ToolCall,
    accumulate,
    events_of,
)
from toolwire.dialects import NAMES
from toolwire.encoding.finish import cut_off

SIZES = [pytest.param(SMALL, id="small"), pytest.param(EVERY, id="all", marks=pytest.mark.slow)]
TINY = [pytest.param(700, id="tiny"), pytest.param(EVERY, id="all", marks=pytest.mark.slow)]
CUTS = [
    pytest.param(SMALL, 5, id="small"),
    pytest.param(EVERY, 100, id="all", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("most", "times"), CUTS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.row("R003-38", "F2")
def test_events_do_not_depend_on_how_the_bytes_were_cut(name: str, most: int, times: int, tally: Counter[str]) -> None:
    chance = random.Random(74)  # noqa: S311 - the same every time
    for case in cases(name, most):
        size, whole = len(case.data), decoded(name, case.data)
        assert disorder(whole) == "", case.name
        assert decode(name, case.data, range(1, size)) == whole, case.name
        for _ in range(times):
            cuts = sorted(chance.choices(range(size + 1), k=chance.randint(1, 12)))
            assert decode(name, case.data, cuts) == whole, (case.name, cuts)
        tally["streams read in other pieces"] += times + 1


@pytest.mark.parametrize("most", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_events_tell_what_the_vendors_client_tells(name: str, most: int, tally: Counter[str]) -> None:
    found = []
    for case in cases(name, most):
        theirs, ours = judged(name, case.data), tell(decoded(name, case.data))
        differing = unlike(name, theirs, ours)
        expected = MISREAD[case.name][0] if case.name in MISREAD else set()
        found += lines(case.name, differing ^ expected, theirs, ours)
        tally["streams compared with what the vendor's client tells"] += 1
    assert found == [], shown(found)


@pytest.mark.parametrize("most", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_a_stream_that_is_written_again_tells_the_same(name: str, most: int, tally: Counter[str]) -> None:
    found = []
    for case in cases(name, most):
        events = decoded(name, case.data)
        data, losses = encode(name, events)
        assert losses == (), case.name
        assert accumulate(decode(name, data)) == accumulate(events), case.name
        before, after = judged(name, case.data), READERS[name](data)
        fields = {field for field in FIELDS if getattr(before, field) != getattr(after, field)}
        excused = MISREAD[case.name][0] if case.name in MISREAD else set()
        found += lines(case.name, fields - excused, after, before)
        tally["streams written again"] += 1
    assert found == [], shown(found)


@pytest.mark.parametrize("most", SIZES)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_stream_in_another_dialect_tells_the_same(source: str, target: str, most: int, tally: Counter[str]) -> None:
    found = []
    for case in cases(source, most):
        events = decoded(source, case.data)
        data, losses = encode(target, events)
        theirs = READERS[target](data)
        found += lines(case.name, unlike_there(target, theirs, events, losses), theirs, tell(events))
        tally["streams written in another dialect"] += 1
    assert found == [], shown(found)


@pytest.mark.parametrize("most", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_a_stream_tells_what_its_whole_turn_says(name: str, most: int, tally: Counter[str]) -> None:
    found, seen = [], 0
    for case in cases(name, most):
        response = accumulate(decoded(name, case.data))
        if (body := whole_turn(name, case.data)) is not None and is_sound(response):
            whole = plain(DIALECTS[name].decode_response(body))
            found += [f"{case.name} {line}" for line in differences(whole, plain(response))]
            tally["streams compared with their whole turn"] += 1
            seen += 1
    assert found == [], shown(found)
    assert seen > 0 or name == "openai-chat" or most < EVERY


@pytest.mark.parametrize("most", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_a_stream_tells_what_a_response_can_say(name: str, most: int, tally: Counter[str]) -> None:
    found = []
    for case in cases(name, most):
        response = accumulate(decoded(name, case.data))
        if is_sound(response) and is_whole(decoded(name, case.data)):
            encoded = DIALECTS[name].encode_response(response)
            again = DIALECTS[name].decode_response(encoded.body)
            if (plain(again) != plain(response)) != (case.name in NO_RESPONSE):
                found += [f"{case.name} {line}" for line in differences(plain(response), plain(again))]
            tally["streams written as a response"] += 1
    assert found == [], shown(found)


@pytest.mark.parametrize("most", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_a_response_told_as_a_stream_is_the_same(name: str, most: int, tally: Counter[str]) -> None:
    found = []
    for recording, body in responses_of(name):
        if len(msgspec.json.encode(body)) > most:
            continue
        response = DIALECTS[name].decode_response(body)
        events = list(events_of(response))
        assert accumulate(events) == response, recording.name
        data, losses = encode(name, events)
        if len(data) <= most:
            theirs, ours, again = READERS[name](data), tell(events), accumulate(decode(name, data))
            differing = [f"{recording.name}: {loss}" for loss in losses]
            differing += [f"{recording.name} {line}" for line in differences(plain(response), plain(again))]
            differing += lines(recording.name, unlike(name, theirs, ours), theirs, ours)
            if bool(differing) != (recording.name in NO_STREAM):
                found += differing or [f"{recording.name} is no exception any more"]
            tally["responses told as streams"] += 1
    assert found == [], shown(found)


@pytest.mark.parametrize("most", TINY)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_response_told_as_a_stream_in_another_dialect_is_the_same(
    source: str, target: str, most: int, tally: Counter[str]
) -> None:
    found = []
    for recording, body in responses_of(source):
        events = list(events_of(DIALECTS[source].decode_response(body)))
        data, losses = encode(target, events)
        if len(data) <= most:
            theirs = READERS[target](data)
            differing = unlike_there(target, theirs, events, losses)
            found += lines(recording.name, differing, theirs, tell(events))
            tally["responses told as streams in another dialect"] += 1
    assert found == [], shown(found)


def test_what_is_said_to_no_block_goes_to_no_other() -> None:
    fragment = {"type": "input_json_delta", "partial_json": '{"not": "yours"}'}
    stray = {"type": "content_block_delta", "index": 1, "delta": fragment}
    start, stop = tool(2, "now")
    events = decode("anthropic", blocks(start, stray, stop, reason="tool_use"))
    data, losses = encode("anthropic", events)
    told = accumulate(decode("anthropic", data))
    assert (told.tool_calls, "opaque" in [loss.concept for loss in losses]) == ([], True)


def test_a_message_that_nobody_started_starts_first() -> None:
    data = blocks(*words(0, "I"))
    events = decode("anthropic", data[data.index(b"event: ping") :])
    assert disorder(events) == ""
    assert type(events[0]) is MessageStart
    assert accumulate(events).content == "I"


@pytest.mark.sampled
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("text", ["", "{}", '{"a":'])
def test_half_a_call_is_half_a_call_elsewhere(target: str, text: str) -> None:
    start, *steps = tool(0, "now", *([text] if text else []))
    events = decode("anthropic", blocks(start, *steps[:-1], reason="tool_use"))
    assert [event.call.runs for event in events if isinstance(event, CallEnd)] == [text == "{}"]
    damaged = [replace(event, call=cut_off(event.call)) if isinstance(event, CallEnd) else event for event in events]
    assert accumulate(decode(target, encode(target, damaged)[0])).tool_calls == []


def test_a_call_whose_fragments_said_otherwise_is_not_run_elsewhere() -> None:
    call = ToolCall("call_1", "search", {"q": "tea"}, raw='{"q":"tea"}')
    told: list[Event] = [
        MessageStart(Response(id="r", model="m")),
        CallStart(0, "call_1", "search"),
        CallDelta(0, '{"q":"coffee"}'),
        CallEnd(0, call),
        ChoiceEnd(0, Choice(Message("assistant", []), "tool_calls")),
        MessageEnd(),
    ]
    for target in NAMES:
        calls = accumulate(decode(target, encode(target, told)[0])).tool_calls
        assert [call.arguments for call in calls] in ([], [{"q": "tea"}]), target


@pytest.mark.corpus
def test_every_exception_is_recorded(corpus: Any) -> None:
    assert corpus
    streams = {case.name for name in NAMES for case in cases(name)}
    responses = {recording.name for name in NAMES for recording, _ in responses_of(name)}
    assert {*MISREAD, *NO_RESPONSE} - streams == set()
    assert NO_STREAM.keys() - responses == set()
