"""A stream that breaks off, at any byte: nothing raises, no half call is offered, no whole call is lost.

How every byte is cut:
- What a decoder has read changes only where a line or an object may end. Between two such places the bytes
  only lengthen a frame that is no JSON yet, so that all cuts there are one cut. Each place is cut.
- That this is so is held too: small streams are cut at every single byte, each with a decoder of its own,
  and of the others some bytes by chance.
"""

import pickle
import random
import re
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest

from tests.stream_cases import EVERY, cases, decode, decoded, disorder, is_whole, shown
from tests.wires import DIALECTS
from toolwire import CallEnd, ErrorEnd, Event, ToolCall, accumulate
from toolwire.dialects import NAMES

# What stands in every prefix that holds the end of an answer.
TERMINALS = {
    "openai-chat": rb'"finish_reason"\s*:\s*"|\[DONE\]',
    "openai-responses": rb'"response\.(?:completed|incomplete|failed)"',
    "anthropic": rb"message_stop",
    "gemini": rb'"finish_?[Rr]eason"|"block_?[Rr]eason"',
    "ollama": rb'"done"\s*:\s*true',
}
PLACES = re.compile(rb"[\r\n}\]]")
FRAME_END = re.compile(rb"\r?\n\r?\n|\r\r")
UNENDED = {"incomplete", "error"}
BY_BYTE = [pytest.param(500, id="tiny"), pytest.param(1_600, id="small", marks=pytest.mark.slow)]
BY_PLACE = [pytest.param(700, id="small"), pytest.param(EVERY, id="all", marks=pytest.mark.slow)]


def offered(events: list[Event]) -> list[ToolCall]:
    """Give the calls that may be run."""
    return [event.call for event in events if isinstance(event, CallEnd) and event.call.runs]


def is_json(text: bytes) -> bool:
    """Whether a text is one JSON value."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def places(data: bytes) -> Iterator[int]:
    """Give every length of a prefix that ends where something may have been read."""
    yield 0
    objects = data.lstrip()[:1] == b"["
    line = 0
    for found in PLACES.finditer(data):
        place = found.end()
        if data[place - 1] in b"\r\n":
            line = place
        elif not objects and not is_json(data[line:place].removeprefix(b"data:")) and data[place - 1] == 125:
            continue
        yield place
    yield len(data)


def complaint(name: str, data: bytes, cut: int, seen: list[Event], closing: list[Event]) -> str:
    """Say what is wrong with what a prefix told, before and at its end; nothing if all is well."""
    events, whole = seen + closing, decoded(name, data)
    calls, late = offered(events), offered(closing)
    if any(call not in offered(whole) for call in calls):
        return "a call is offered that the whole stream does not offer"
    if late and any(call not in offered(read_to_end_of_frame(name, data, cut)) for call in late):
        return "a call is offered at the end that nothing closed"
    response = accumulate(events)
    kept = [part for choice in response.choices for part in choice.message.parts if type(part) is ToolCall]
    if Counter(call.id for call in kept if call.runs) != Counter(call.id for call in calls):
        return "what was offered and what the response holds differ"
    if wrong := disorder(events):
        return wrong
    if re.search(TERMINALS[name], data[:cut]) is None:
        reasons = {choice.finish_reason for choice in response.choices}
        if is_whole(events) or not reasons <= UNENDED:
            return f"it ended well without an end: {reasons}"
    return ""


def read_to_end_of_frame(name: str, data: bytes, cut: int) -> list[Event]:
    """Read the frame that a cut went through to its end, and nothing after it."""
    end = FRAME_END.search(data, max(cut - 2, 0)) if name != "ollama" else re.search(rb"\n", data[cut:])
    length = len(data) if end is None else end.end() + (cut if name == "ollama" else 0)
    return DIALECTS[name].decode_stream().feed(data[:length])


@pytest.mark.parametrize("most", BY_BYTE)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.row("R003-39", "F1")
def test_a_cut_at_every_byte(name: str, most: int, tally: Counter[str]) -> None:
    found = []
    for case in cases(name, most):
        before: list[Event] = []
        live = set(places(case.data))
        for cut in range(len(case.data) + 1):
            decoder = DIALECTS[name].decode_stream()
            seen = decoder.feed(case.data[:cut])
            closing = decoder.close()
            if what := complaint(name, case.data, cut, seen, closing):
                found.append(f"{case.name} at {cut}: {what}")
            told: list[Event] = [event for event in seen + closing if not isinstance(event, ErrorEnd)]
            if cut not in live and told != before:
                found.append(f"{case.name} at {cut}: it is not what was told of a byte less")
            before = told
        tally["cuts, each with a decoder of its own"] += len(case.data) + 1
    assert found == [], shown(found)


@pytest.mark.parametrize("most", BY_PLACE)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.row("R003-39", "F1")
def test_a_cut_at_every_place(name: str, most: int, tally: Counter[str]) -> None:
    found = []
    chance = random.Random(75)  # noqa: S311 - the same every time
    for case in cases(name, most):
        decoder = DIALECTS[name].decode_stream()
        events: list[Event] = []
        fed = 0
        for cut in places(case.data):
            events += decoder.feed(case.data[fed:cut])
            fed = cut
            closing = pickle.loads(pickle.dumps(decoder, 5)).close()  # noqa: S301 - our own
            if what := complaint(name, case.data, cut, events, closing):
                found.append(f"{case.name} at {cut}: {what}")
            tally["cuts at places that matter"] += 1
        assert events == decoded(name, case.data)[: len(events)], case.name
        tally["bytes at which streams were cut"] += len(case.data) + 1
        found += [
            f"{case.name} at {cut}: {what}"
            for cut in chance.choices(range(len(case.data)), k=3)
            if (what := complaint(name, case.data, cut, decode(name, case.data[:cut]), []))
        ]
    assert found == [], shown(found)
