"""Events to the response that they tell: all of it, and of a beginning no more than it said."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.timing import least
from tests.wires import DIALECTS, responses_of
from toolwire import (
    Accumulator,
    Choice,
    Citation,
    Document,
    Event,
    Image,
    Message,
    Opaque,
    Refusal,
    Response,
    ServerToolCall,
    Text,
    Thinking,
    ToolCall,
    Usage,
    accumulate,
    events_of,
)
from toolwire.dialects import NAMES
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    ChoiceEnd,
    CitationDelta,
    Error,
    ErrorEnd,
    MessageDelta,
    MessageEnd,
    MessageStart,
    OpaqueDelta,
    PartEnd,
    PartStart,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    UsageDelta,
)
from toolwire.types.spelling.gemini import GeminiPartSpelling


def plain(value: Any) -> Any:
    """Give every field of a value, also those that its equality leaves out."""
    return msgspec.to_builtins(value)


words = st.sampled_from(["", "a", " ", "é😀", "\u2028{"])
opaques = st.none() | st.just(Opaque("gemini", {"x": 1}, GeminiPartSpelling(snake_keys=("y",))))
calls = st.builds(
    ToolCall.parse,
    st.none() | words,
    words,
    st.sampled_from(["", "{}", '{"a":1}', '{"a":', "null", "x"]),
    index=st.integers(0, 3),
    custom=st.booleans(),
    opaque=opaques,
)
parts = (
    st.builds(Text, words, citations=st.none() | st.just([Citation("u", "t")]), opaque=opaques)
    | st.builds(Thinking, words, signature=st.none() | words, redacted=st.booleans(), opaque=opaques)
    | st.builds(Refusal, words, opaque=opaques)
    | calls
    | calls.map(lambda call: msgspec.structs.replace(call, complete=False))
    | st.just(ToolCall("c", "f", {"a": 1}))
    | st.just(Image("u"))
    | st.just(Document(text="words"))
    | st.just(ServerToolCall("s", "search", {"q": 1}))
    | st.just(Opaque("anthropic", {"type": "x"}))
)
choices = st.builds(
    Choice,
    st.builds(Message, st.just("assistant"), words | st.lists(parts, max_size=4), opaque=opaques),
    st.sampled_from([None, "stop", "tool_calls", "incomplete"]),
    raw_finish_reason=st.none() | words,
    opaque=opaques,
)
responses = st.builds(
    Response,
    choices=st.lists(choices, max_size=3),
    model=st.none() | words,
    usage=st.none() | st.just(Usage(1, 2)),
    opaque=opaques,
)


@given(response=responses)
def test_a_response_is_told_and_understood(response: Response) -> None:
    assert plain(accumulate(events_of(response))) == plain(response)


@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_response_is_told_and_understood(name: str, corpus: Any) -> None:
    assert corpus
    seen = 0
    for recording, body in responses_of(name):
        response = DIALECTS[name].decode_response(body)
        assert plain(accumulate(events_of(response))) == plain(response), recording.name
        seen += 1
    assert seen > 10


def beginnings(events: list[Event]) -> Iterator[tuple[list[Event], Response]]:
    """Give each beginning of events with what it tells, understood event by event."""
    accumulator = Accumulator()
    for count, event in enumerate(events, start=1):
        accumulator.feed(event)
        yield events[:count], accumulator.response


@given(response=responses)
def test_a_beginning_tells_no_more_than_it_said(response: Response) -> None:
    for events, told in beginnings(list(events_of(response))):
        assert plain(told) == plain(accumulate(events))
        ended = [event.call for event in events if type(event) is CallEnd and event.call.runs]
        assert sorted(map(repr, told_calls(told))) == sorted(map(repr, ended))
        for place, choice in enumerate(told.choices):
            if not any(type(event) is ChoiceEnd and event.index == place for event in events):
                assert choice.finish_reason == "incomplete"


def told_calls(response: Response) -> list[ToolCall]:
    return [call for choice in response.choices for call in choice.message.tool_calls]


SIGNED = SignatureDelta(2, "s")
HERE, THERE = Citation("u"), Citation("v")
CALL = ToolCall("c", "f", {"a": 1}, raw='{"a":1}')
HALF = ToolCall("c", "f", {}, 2, complete=False, raw='{"a"', error="the stream ended before the call did")
TEXT, BEGUN, SAID = PartStart(0, Text("")), CallStart(0, "c", "f", 2), CallDelta(0, '{"a"')
CUT, FAILED = "incomplete", Error("server", "x")
ENDED = ChoiceEnd(0, Choice(Message("assistant", []), "stop"))
TOLD: dict[str, tuple[list[Event], list[Any], str | None]] = {
    "nothing": ([], [], None),
    "a beginning": ([MessageStart(Response(model="m"))], [], None),
    "an end": ([MessageEnd()], [], None),
    "half a text": ([TEXT, TextDelta(0, "a"), TextDelta(0, "b")], [Text("ab")], CUT),
    "a text that begins with words": ([PartStart(0, Text("a")), TextDelta(0, "b")], [Text("ab")], CUT),
    "half a call": (
        [BEGUN, CallDelta(0, '{"a'), CallDelta(0, '"')],
        [HALF],
        CUT,
    ),
    "half a call, and an error": (
        [BEGUN, SAID, ErrorEnd(FAILED), MessageEnd(complete=False)],
        [HALF],
        "error",
    ),
    "half a call in an answer that ended": ([BEGUN, SAID, ENDED], [HALF], "stop"),
    "a whole text that nothing ended": (
        [BEGUN, CallDelta(0, '{"a":1}'), ENDED],
        [msgspec.structs.replace(HALF, raw='{"a":1}')],
        "stop",
    ),
    "half a call of free text": (
        [CallStart(0, "c", "f", 2, custom=True), CallDelta(0, "x")],
        [msgspec.structs.replace(HALF, raw="x", custom=True)],
        CUT,
    ),
    "a call": ([CallStart(0, "c", "f"), CallDelta(0, "{"), CallEnd(0, CALL), ENDED], [CALL], "stop"),
    "interleaved": (
        [
            PartStart(4, Thinking("")),
            CallStart(2, "c", "f"),
            PartStart(3, Text("")),
            TextDelta(3, "a"),
            ThinkingDelta(4, "h"),
            CallDelta(2, "x"),
            TextDelta(3, "b"),
            PartEnd(3, Text("")),
            SignatureDelta(4, "s"),
            ThinkingDelta(4, "m"),
            CallEnd(2, CALL),
            PartEnd(4, Thinking("", "s")),
            ENDED,
        ],
        [Thinking("hm", "s"), CALL, Text("ab")],
        "stop",
    ),
    "a signature before the end": (
        [PartStart(0, Thinking("")), ThinkingDelta(0, "h"), SignatureDelta(0, "s"), SignatureDelta(0, "t")],
        [Thinking("h", "t")],
        CUT,
    ),
    "citations before the end": (
        [TEXT, CitationDelta(0, HERE), TextDelta(0, "a"), CitationDelta(0, THERE)],
        [Text("a", [HERE, THERE])],
        CUT,
    ),
    "no words in the end of a part": (
        [PartStart(0, Refusal("")), RefusalDelta(0, "No."), PartEnd(0, Refusal("")), ENDED],
        [Refusal("No.")],
        "stop",
    ),
    "what never began": (
        [TextDelta(0, "a"), CallDelta(1, "{}"), CallEnd(1, CALL), PartEnd(0, Text("")), SIGNED],
        [],
        None,
    ),
    "words for what has none": (
        [PartStart(0, Image("u")), TextDelta(0, "a"), CitationDelta(0, HERE), PartEnd(0, Image("u"))],
        [Image("u")],
        CUT,
    ),
    "words for a file": ([PartStart(0, Document("u")), TextDelta(0, "a")], [Document("u")], CUT),
    "the end of a call for a text": (
        [TEXT, TextDelta(0, "a"), CallEnd(0, CALL)],
        [Text("a")],
        CUT,
    ),
    "the end of a text for a call": (
        [BEGUN, SAID, PartEnd(0, Text("")), ENDED],
        [HALF],
        "stop",
    ),
    "opaque steps": ([OpaqueDelta(opaque=Opaque("gemini", {})), ENDED], [], "stop"),
}  # fmt: skip


@pytest.mark.parametrize(("events", "parts", "finish"), TOLD.values(), ids=TOLD)
def test_what_events_tell(events: list[Event], parts: list[Any], finish: str | None) -> None:
    response = accumulate(events)
    assert plain(response.parts) == plain(parts)
    assert response.finish_reason == finish
    assert response.tool_calls == [part for part in parts if type(part) is ToolCall and part.complete]


def test_the_last_word_counts() -> None:
    first, last = Response(model="a", usage=Usage(1, 1)), Response(model="b", id="i", usage=Usage(1, 1))
    events: list[Event] = [
        MessageStart(first),
        MessageDelta(last),
        UsageDelta(Usage(2, 2)),
        UsageDelta(Usage(3, 4)),
    ]
    assert plain(accumulate(events)) == plain(Response(model="b", id="i", usage=Usage(3, 4)))
    assert accumulate(events[:2]).usage == Usage(1, 1)


def test_what_was_told_does_not_change() -> None:
    ended = PartEnd(0, Text("", [HERE]))
    accumulator, told = Accumulator(), []
    for event in (TEXT, CitationDelta(0, HERE), CitationDelta(0, THERE), ended, CitationDelta(0, THERE)):
        accumulator.feed(event)
        told.append(accumulator.response.parts)
    citations = [[], [HERE], [HERE, THERE], [HERE], [HERE, THERE]]
    assert told == [[Text("", notes or None)] for notes in citations]
    assert ended == PartEnd(0, Text("", [HERE]))


def test_each_part_stands_in_its_choice() -> None:
    shell = Choice(Message("assistant", ""), "stop")
    events: list[Event] = [
        PartStart(0, Text(""), choice=2),
        CallStart(1, "c", "f", choice=1),
        TextDelta(0, "two"),
        CallEnd(1, CALL),
        PartStart(2, Text("")),
        TextDelta(2, "zero"),
        ChoiceEnd(2, shell),
        ChoiceEnd(1, shell),
        ChoiceEnd(0, shell),
    ]
    told = [choice.message.content for choice in accumulate(events).choices]
    assert told == ["zero", [CALL], "two"]


SHELLS = [Choice(Message("assistant", ""), "stop"), Choice(Message("assistant", []), "stop")]
BEGINNINGS: tuple[Any, ...] = (Text(""), Image("u"))
ANY: list[Any] = [
    *(PartStart(key, part, choice) for key in (0, 1) for choice, part in enumerate(BEGINNINGS)),
    *(CallStart(key, "c", "f", custom=custom) for key in (0, 1) for custom in (False, True)),
    *(kind(key, "x") for key in (0, 1) for kind in (TextDelta, RefusalDelta, ThinkingDelta, CallDelta)),
    *(kind(0, "s") for kind in (SignatureDelta, TextDelta)),
    *(PartEnd(key, part) for key in (0, 1) for part in (Text(""), Thinking(""), Document("u"), CALL)),
    *(CallEnd(key, call) for key in (0, 1) for call in (CALL, HALF)),
    *(ChoiceEnd(place, shell) for place in (-1, 0, 1) for shell in SHELLS),
    *(
        MessageStart(Response(choices=SHELLS)),
        UsageDelta(Usage(1, 2)),
        OpaqueDelta(0),
        CitationDelta(0, HERE),
    ),
    *(ErrorEnd(FAILED), MessageEnd()),
]


@given(events=st.lists(st.sampled_from(ANY), max_size=12))
def test_any_events_tell_something(events: list[Event]) -> None:
    calls = told_calls(accumulate(events))
    assert calls == [CALL] * len(calls)
    assert len(calls) <= sum([type(event) is CallEnd and event.call is CALL for event in events])


def seconds(count: int) -> float:
    """Measure the words and fragments of two parts that interleave."""
    told: list[Event] = [PartStart(0, Text("")), CallStart(1, "c", "f")]
    told += [TextDelta(0, "word "), CallDelta(1, "word ")] * count
    assert len(accumulate(told).message.text) == 5 * count
    return least(lambda: accumulate(told))


def test_the_time_grows_with_the_events_alone() -> None:
    assert seconds(40_000) < 24 * seconds(5_000) + 0.1
