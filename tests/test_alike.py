"""Frames that repeat each other are read by what differs, and tell what they would tell if read in full."""

import random
from typing import Any

import pytest

from tests.stream_cases import all_cases
from tests.wires import DIALECTS
from toolwire.framing import write_event
from toolwire.types import Event

FAST = ("openai-chat", "anthropic")
LEARNING = (*FAST, "gemini", "ollama")
WORDS = [
    "a",
    "a",
    '"',
    "\\",
    "}}",
    '"}}',
    "\n\n",
    "\u2028",
    "\U0001f600",
    "\x00",
    "text",
    "index",
    "0",
    "\\u0061",
]
CHUNK = (
    '{"id":"a","choices":[{"index":0,"delta":{"content":WORDS},"finish_reason":null}],"text":"index"}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":WORDS}}',
)
BEGIN = (
    b"",
    write_event(b'{"type":"message_start","message":{"id":"m","content":[]}}')
    + write_event(b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'),
)


def read(name: str, pieces: list[bytes], *, learns: bool) -> list[Event]:
    decoder = DIALECTS[name].decode_stream()
    decoder.learns = learns
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


@pytest.mark.parametrize("name", LEARNING)
def test_every_stream_tells_what_it_tells_when_read_in_full(name: str) -> None:
    for case in all_cases(name):
        whole = read(name, [case.data], learns=False)
        assert read(name, [case.data], learns=True) == whole, case.name
        end = b"\n" if name == "ollama" else b"\n\n"
        frames = [frame + end for frame in case.data.split(end)]
        assert read(name, frames, learns=True) == read(name, frames, learns=False), case.name


def spell(words: str, choose: random.Random) -> str:
    """Spell a JSON string in one of the ways that servers spell it."""
    letters = []
    for letter in words:
        code = ord(letter)
        if choose.random() < 0.2 and code < 0x10000:
            letters.append(f"\\u{code:04x}")
        elif letter in '"\\':
            letters.append("\\" + letter)
        elif code < 0x20:
            letters.append(f"\\u{code:04x}")
        else:
            letters.append(letter)
    return '"' + "".join(letters) + '"'


@pytest.mark.parametrize("place", range(len(FAST)), ids=FAST)
def test_words_of_any_kind_are_those_that_were_said(place: int) -> None:
    choose = random.Random(place)  # noqa: S311 - the same words in every run
    for _ in range(300):
        said = choose.choices(WORDS, k=choose.randrange(2, 9))
        frames = [write_event(CHUNK[place].replace("WORDS", spell(words, choose)).encode()) for words in said]
        pieces = [BEGIN[place], *frames] if choose.random() < 0.5 else [BEGIN[place] + b"".join(frames)]
        told = [event.text for event in read(FAST[place], pieces, learns=True) if hasattr(event, "text")]
        assert told == said


def test_a_frame_that_says_more_than_words_is_read_in_full() -> None:
    chunks = [CHUNK[0].replace("WORDS", f'"{words}"') for words in ("one", "two", "three", "four")]
    chunks[3] = chunks[3].replace("}]", '}],"usage":{"prompt_tokens":1}').replace("null", '"stop"')
    events = read("openai-chat", [write_event(chunk.encode()) for chunk in chunks], learns=True)
    assert [event.text for event in events if hasattr(event, "text")] == ["one", "two", "three", "four"]
    assert [type(event).__name__ for event in events][-4:] == [
        "PartEnd",
        "UsageDelta",
        "ChoiceEnd",
        "MessageEnd",
    ]


def test_frames_that_are_alike_are_not_read_in_full() -> None:
    """A control: the quick way is taken."""
    decoder = DIALECTS["anthropic"].decode_stream()
    decoder.feed(BEGIN[1])
    full = []
    read_in_full = decoder.read

    def count(body: dict[str, Any], name: bytes) -> None:
        full.append(body)
        read_in_full(body, name)

    decoder.read = count  # type: ignore[method-assign]
    for number in range(50):
        decoder.feed(write_event(CHUNK[1].replace("WORDS", f'"word {number}"').encode()))
    assert len(full) == 2
