"""Streams over a wire whose model calls in its text: what the user sees, and what is called, at any cut."""

import random
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

from tests.amounts import FULL
from tests.stream_cases import disorder, plain
from tests.stream_examples import EXAMPLES
from tests.text.tagged.texts import BLOCK, BODY, TOOLS, cuts, written
from toolwire import (
    CallDelta,
    CallEnd,
    CallStart,
    Event,
    Message,
    PartStart,
    Response,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    accumulate,
    dialect,
    events_of,
)
from toolwire.dialects import NAMES
from toolwire.text_tagged import READERS, over

SAMPLE = f"Sure ~ so:\n\n{BLOCK}\n\nAnd:\n~~~tool_call\n{{\n~~~\n{BLOCK}\nDone.\n~~~tool_cal"
TEXTS = [
    SAMPLE,
    BLOCK,
    f"{BLOCK}\n\n{BLOCK}\n",
    f"```\n{BLOCK}\n```\n~~~tool_call\r\n{BODY}\r\n~~~\r\n \r\nx",
    f"{BLOCK}\n~~~tool_call\n{{",
    "\n\n Hello.\n~~~tool",
    "",
]


def whole(text: str, reason: Any = "stop") -> Response:
    return Response.of(Message("assistant", text), reason, id="r1", model="m")


@cache
def stream_of(name: str, text: str, size: int = 3, reason: Any = "stop") -> bytes:
    """Write an answer as the wire streams it, a few characters in each frame."""
    encoder = dialect(name).encode_stream()
    data = b""
    for event in events_of(whole(text, reason)):
        if isinstance(event, TextDelta):
            pieces = [event.text[place : place + size] for place in range(0, len(event.text), size)]
            data += b"".join(encoder.feed(TextDelta(event.key, piece)) for piece in pieces)
        else:
            data += encoder.feed(event)
    return data + encoder.close()


def decode(name: str, pieces: Iterable[bytes], **settings: Any) -> list[Event]:
    decoder = over(name, TOOLS, **settings).decode_stream()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return [*events, *decoder.close()]


def shown(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def runnable(events: list[Event]) -> list[ToolCall]:
    return [event.call for event in events if isinstance(event, CallEnd) and event.call.runs]


def as_told(response: Response) -> Any:
    """Give a response without how its wire mark_spellings it, and without what only one of its forms has."""
    [choice] = response.choices
    parts = [part for part in choice.message.parts if not (type(part) is Text and not part.text)]
    return plain(parts), choice.finish_reason


@pytest.mark.sampled
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_stream_tells_what_the_response_says(name: str, text: str) -> None:
    body = dialect(name).encode_response(whole(text)).body
    expected = over(name, TOOLS).decode_response(body)
    data = stream_of(name, text)
    events = decode(name, [data])
    assert disorder(events) == ""
    assert as_told(accumulate(events)) == as_told(expected)
    assert [call.arguments for call in runnable(events)] == [call.arguments for call in expected.tool_calls]


@pytest.mark.sampled
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_stream_is_the_same_however_it_is_cut(name: str, text: str, tally: Counter[str]) -> None:
    data = stream_of(name, text, 7)
    expected = decode(name, [data])
    assert decode(name, (data[place : place + 1] for place in range(len(data)))) == expected
    chance = random.Random(text)  # noqa: S311 - the same every time
    for _ in range(10):
        assert decode(name, cuts(data, chance)) == expected
        tally["streams with calls in text, read in other pieces"] += 1


@pytest.mark.sampled
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("size", range(1, 14))
@pytest.mark.row("I-40")
def test_no_fence_is_ever_shown(size: int, native: bool, tally: Counter[str]) -> None:
    for first in range(size):
        encoder = dialect("ollama").encode_stream()
        start, *rest = events_of(whole(SAMPLE))
        data = encoder.feed(start)
        for event in rest:
            text = event.text if isinstance(event, TextDelta) else ""
            pieces = [text[:first], *(text[place : place + size] for place in range(first, len(text), size))]
            told = [TextDelta(event.key, piece) for piece in pieces] if isinstance(event, TextDelta) else [event]
            data += b"".join(map(encoder.feed, told))
        events = decode("ollama", [data + encoder.close()], native=native)
        assert shown(events) == "Sure ~ so:\n\nAnd:\nDone.\n~~~tool_cal"
        assert not any("~~~tool_call" in event.text for event in events if isinstance(event, TextDelta))
        assert len(runnable(events)) == 2
        tally["streams in which no fence was shown"] += 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.row("I-40")
def test_no_fence_of_any_text_is_shown(name: str, tally: Counter[str]) -> None:
    chance = random.Random(name)  # noqa: S311 - the same every time
    for _ in range(25):
        case = written(chance)
        events = decode(name, cuts(stream_of(name, case.text, chance.randint(1, 30)), chance))
        assert [(call.name, call.arguments) for call in runnable(events)] == [each[1:] for each in case.calls]
        assert shown(events).strip() == case.words.strip()
        tally["streams in which no fence was shown"] += 1


LEAST = 1 if FULL else 5
STEPS = [pytest.param(131, id="some"), pytest.param(LEAST, id="more", marks=pytest.mark.slow)]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.row("I6")
def test_a_stream_that_breaks_off_offers_no_half_call(name: str, step: int, tally: Counter[str]) -> None:
    text = f"Go.\n{BLOCK}\n~~~tool_call\n{BODY}\n~~~~\n~~~\n{BLOCK}"
    data = stream_of(name, text, 2)
    calls = runnable(decode(name, [data]))
    assert len(calls) == 2
    for place in range(0, len(data), step):
        cut = decode(name, [data[:place]])
        offered = runnable(cut)
        assert offered == calls[: len(offered)], data[:place]
        assert disorder(cut) == ""
        assert accumulate(cut).tool_calls == offered
        tally["bytes at which streams with calls in text were cut"] += 1


@pytest.mark.parametrize("name", NAMES)
def test_half_a_block_is_a_broken_call(name: str) -> None:
    for text, reason in ((f"Go.\n{BLOCK[:-1]}", "stop"), (BLOCK, "length"), (f"{BLOCK}\n", "length")):
        read = accumulate(decode(name, [stream_of(name, text, 4, reason)]))
        assert len(read.tool_calls) == (1 if text.endswith("\n") else 0)
        assert [call.complete for call in read.broken_calls] == ([] if text.endswith("\n") else [False])


@pytest.mark.parametrize("name", NAMES)
def test_a_call_starts_has_its_text_and_ends(name: str) -> None:
    events = decode(name, [stream_of(name, f"Go.\n{BLOCK}\nDone.")])
    [place] = [place for place, event in enumerate(events) if isinstance(event, CallStart)]
    start, delta, end = events[place : place + 3]
    assert isinstance(start, CallStart)
    assert isinstance(delta, CallDelta)
    assert isinstance(end, CallEnd)
    assert {start.key, delta.key, end.key} == {start.key}
    assert (start.name, start.id) == ("read_file", end.call.id)
    assert delta.fragment == '{"path":"/etc/passwd"}'
    assert [event.part for event in events if isinstance(event, PartStart)].count(Text("")) <= 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.row("I10")
def test_words_are_shown_as_they_come(name: str) -> None:
    decoder = over(name, TOOLS).decode_stream()
    data, seen = stream_of(name, f"Go on.\n{BLOCK}\nDone.", 1), ""
    for place in range(len(data)):
        seen += shown(decoder.feed(data[place : place + 1]))
        if seen == "Go on.\n":
            break
    assert b"~~~" not in data[: place + 1]
    assert (decoder.over, decoder.done, decoder.ignored) == (False, False, 0)


@pytest.mark.parametrize("name", NAMES)
def test_what_has_no_block_is_told_as_ever(name: str) -> None:
    for what, data in EXAMPLES[name].items():
        plainly = dialect(name).decode_stream()
        expected = [*plainly.feed(data), *plainly.close()]
        for settings in ({}, {"native": True}, {"readers": READERS}):
            read = decode(name, [data], **settings)
            assert accumulate(read) == accumulate(expected), what
            assert disorder(read) == "", what


def encode(name: str, events: Iterable[Event]) -> tuple[bytes, Any]:
    encoder = over(name, TOOLS).encode_stream()
    data = b"".join(map(encoder.feed, events)) + encoder.close()
    return data, encoder


@pytest.mark.sampled
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_stream_that_is_written_again_tells_the_same(name: str, text: str) -> None:
    events = decode(name, [stream_of(name, text)])
    data, encoder = encode(name, events)
    assert (encoder.losses, encoder.ended) == ((), True)
    assert accumulate(decode(name, [data])) == accumulate(events)
    plainly = dialect(name).decode_stream()
    assert accumulate([*plainly.feed(data), *plainly.close()]).content == ((text.strip("\n") and text) or text or None)


@pytest.mark.sampled
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_a_stream_goes_to_another_wire_in_text_and_natively(source: str, target: str) -> None:
    events = decode(source, [stream_of(source, f"Go.\n{BLOCK}\nAnd:\n{BLOCK}\n")])
    calls = runnable(events)
    data, _ = encode(target, events)
    assert [call.arguments for call in runnable(decode(target, [data]))] == [call.arguments for call in calls]
    encoder = dialect(target).encode_stream()
    native = b"".join(map(encoder.feed, events)) + encoder.close()
    read = dialect(target).decode_stream()
    assert [call.name for call in runnable([*read.feed(native), *read.close()])] == ["read_file", "read_file"]


@pytest.mark.parametrize("name", NAMES)
def test_words_that_would_begin_a_call_are_marked_in_a_stream(name: str) -> None:
    response = Response.of(
        Message("assistant", [Text(f"Like:\n{BLOCK}\n```\nx"), ToolCall("c1", "search", {}), Text("Done.")]),
        model="m",
    )
    data, encoder = encode(name, events_of(response))
    read = accumulate(decode(name, [data]))
    assert [call.name for call in read.tool_calls] == ["search"]
    assert {loss.concept for loss in encoder.losses} >= {"quoted_fence"}


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.row("R004-16", "I3")
def test_a_call_of_the_wires_own_counts_beside_the_text_or_before_it(
    native: bool,
) -> None:
    response = Response.of(
        Message("assistant", [Thinking("Hm."), Text(f"So:\n{BLOCK}\n"), ToolCall("c1", "search", {"q": "x"})]),
        "tool_calls",
    )
    encoder = dialect("ollama").encode_stream()
    data = b"".join(map(encoder.feed, events_of(response))) + encoder.close()
    events = decode("ollama", [data], native=native)
    assert [call.name for call in runnable(events)] == (["search"] if native else ["read_file", "search"])
    assert shown(events) == (f"So:\n{BLOCK}\n" if native else "So:\n")
    assert disorder(events) == ""


@pytest.mark.row("R004-20")
def test_a_model_that_was_asked_natively_and_writes_fences_is_understood() -> None:
    events = decode("openai-chat", [stream_of("openai-chat", f"So:\n{BLOCK}\nDone.")], native=True)
    assert (shown(events), [call.name for call in runnable(events)]) == ("So:\nDone.", ["read_file"])
    assert accumulate(events).finish_reason == "tool_calls"
    plainly = dialect("openai-chat").decode_stream()
    data = stream_of("openai-chat", f"So:\n{BLOCK}\nDone.")
    assert accumulate([*plainly.feed(data), *plainly.close()]).tool_calls == []


@pytest.mark.sampled
@pytest.mark.parametrize(
    "text", [f"<tool_call>\n{BODY}\n</tool_call>", "<function=search>{}</function>\n", f" {BODY}\n"]
)
@pytest.mark.parametrize("name", NAMES)
def test_other_forms_are_not_shown_either(name: str, text: str) -> None:
    events = decode(name, cuts(stream_of(name, text, 2), random.Random(1)), readers=READERS)  # noqa: S311
    assert (shown(events), len(runnable(events))) == ("", 1)
    assert shown(decode(name, [stream_of(name, text)])) == text
