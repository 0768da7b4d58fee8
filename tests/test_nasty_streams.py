"""The table of nasty streams: a row tells what it should however it is cut, and misleads a naive reader."""

import pytest

from tests import nasty_anthropic as messages
from tests import nasty_chat as chat
from tests import nasty_gemini as gemini
from tests import nasty_ollama as ollama
from tests import nasty_responses as items
from tests.naive import READERS
from tests.nasty import TABLE
from tests.nasty_row import Row, Told, decode, tell
from tests.timing import least
from toolwire import MessageEnd
from toolwire.dialects import NAMES
from toolwire.types import ErrorEnd

IDS = [f"{row.dialect}: {row.name}" for row in TABLE]
each_row = pytest.mark.parametrize("row", TABLE, ids=IDS)


def test_each_row_has_a_name_of_its_own() -> None:
    assert len(set(IDS)) == len(IDS)


@each_row
@pytest.mark.row("F6", "F7", "F8", "F9", "F11", "F12", "F13", "F14", "F16")
def test_what_a_nasty_stream_tells(row: Row) -> None:
    events = decode(row.dialect, row.frames)
    assert tell(events).like(row.told) == row.told
    assert [type(event) for event in events].count(MessageEnd) == 1
    assert events[-1] == MessageEnd(complete=row.ended)
    assert any(type(event) is ErrorEnd for event in events) is (row.told.finish == "error")


@each_row
def test_the_same_however_it_is_cut(row: Row) -> None:
    data = row.data
    events = decode(row.dialect, row.frames)
    assert decode(row.dialect, [data]) == events
    assert decode(row.dialect, [data[place : place + 1] for place in range(len(data))]) == events
    for place in range(0, len(data), 97):
        assert decode(row.dialect, [data[:place], data[place:]]) == events


def naively(row: Row) -> Told | Exception:
    """Say what a naive reader makes of a row."""
    try:
        return READERS[row.dialect](row.frames)
    except (LookupError, TypeError, AttributeError, ValueError) as problem:
        return problem


@each_row
def test_a_naive_reader_is_right_only_where_nothing_is_nasty(row: Row) -> None:
    assert (naively(row) == row.told) is not row.nasty


@pytest.mark.parametrize("name", NAMES)
def test_the_control_is_a_fair_one(name: str) -> None:
    rows = [row for row in TABLE if row.dialect == name]
    assert len([row for row in rows if not row.nasty and row.told.calls]) > 3
    assert len([row for row in rows if row.nasty]) > 20


NOTE = {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1}}
CITED = {"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "x"}}
WORDS = "some words "
# What a stream begins with, and what comes again and again.
LONG: dict[str, tuple[str, tuple[bytes, ...], bytes]] = {
    "words": ("openai-chat", (chat.ROLE,), chat.say(WORDS)),
    "fragments": ("openai-chat", (chat.ask(0, "a", "f", '{"x":"'),), chat.ask(0, text="}")),
    "fragments with names": ("openai-chat", (chat.ask(0, "a", "f", '{"x":"'),), chat.ask(0, "a", "f", "}")),
    "calls": ("openai-chat", (chat.ROLE,), chat.ask(0, name="f", text=chat.X)),
    "notes": ("openai-chat", (chat.say("x"),), chat.chunk({"annotations": [NOTE]})),
    "words in a block": ("anthropic", (messages.START, messages.TEXT), messages.say(0, WORDS)),
    "input": ("anthropic", (messages.START, messages.tool(0, "a", "f")), messages.fill(0, "}")),
    "citations": (
        "anthropic",
        (messages.START, messages.TEXT),
        messages.named("content_block_delta", index=0, delta=CITED),
    ),
    "what nobody knows": (
        "anthropic",
        (messages.START, messages.begin(0, type="odd", odd="")),
        messages.delta(0, "odd_delta", "odd", "x" * 20),
    ),
    "words in an item": ("openai-responses", (items.START, items.WORDS[0]), items.say(0, WORDS)),
    "arguments": ("openai-responses", (items.START, items.BEGUN), items.fill(0, "}")),
    "parts": ("gemini", (), gemini.say(WORDS)),
    "whole calls": ("gemini", (), gemini.FIRST),
    "pieces of a call": ("gemini", (gemini.BEGUN,), gemini.piece("$.x", more=True, stringValue="x")),
    "lines": ("ollama", (), ollama.piece(WORDS)),
    "calls in lines": ("ollama", (), ollama.ask(ollama.call("f", {"x": 1}))),
    "pieces of a line": ("ollama", (b'{"message":{"content":"',), b"x" * 20),
}


@pytest.mark.sampled
@pytest.mark.parametrize("step", [pytest.param(29, id="some"), pytest.param(7, id="all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("odd", [b"\xff", b"\\", b"}"], ids=repr)
@pytest.mark.parametrize(("name", "begin", "again"), LONG.values(), ids=LONG)
def test_a_spoiled_byte_is_told_the_same_way(
    name: str, begin: tuple[bytes, ...], again: bytes, odd: bytes, step: int
) -> None:
    """A frame that is like those before it but for one byte is read as it would be letter by letter."""
    for place in range(ord(odd) % 7, len(again) - 2, step):
        spoiled = again[:place] + odd + again[place + 1 :]
        frames = [*begin, again, again, again, spoiled, again, again]
        data = b"".join(frames)
        events = decode(name, frames)
        assert decode(name, [data]) == events, spoiled
        assert type(events[-1]) is MessageEnd
        if place % 4 == 0:
            assert decode(name, [data[place : place + 1] for place in range(len(data))]) == events, spoiled


def seconds(name: str, begin: tuple[bytes, ...], again: bytes, times: int, tries: int) -> float:
    """Measure the reading of a long stream: the least of some times."""
    return least(lambda: decode(name, [*begin, *([again] * times)]), tries)


# What is copied cheaply shows only when there is a lot of it.
MANY = {"notes": 24_000, "citations": 24_000, "what nobody knows": 48_000}


@pytest.mark.slow
@pytest.mark.parametrize("case", LONG)
def test_the_time_grows_with_the_frames_alone(case: str) -> None:
    """Eight times the frames take about eight times as long; 64 times is what copying them would take."""
    many = MANY.get(case, 8_000)
    allowed = 24 * seconds(*LONG[case], many // 8, 2) + 0.1
    assert any(seconds(*LONG[case], many, 1) < allowed for _ in range(3))
