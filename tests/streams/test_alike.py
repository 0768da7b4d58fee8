"""Frames that repeat each other are read by what differs, and tell what they would tell if read in full."""

import random
from typing import Any

import pytest

from tests.stream_cases import all_cases
from tests.wires import DIALECTS
from toolwire.types import Event
from toolwire.wire.framing import write_event

FAST = ("openai-chat", "anthropic", "openai-responses")
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
    '{"type":"response.output_text.delta","item_id":"i","delta":WORDS,"obfuscation":"PAD","sequence_number":NUMBER}',
)
BEGIN = (
    b"",
    write_event(b'{"type":"message_start","message":{"id":"m","content":[]}}')
    + write_event(b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'),
    write_event(b'{"type":"response.created","response":{"id":"r","output":[]},"sequence_number":0}'),
)


def say(place: int, words: list[str]) -> list[bytes]:
    """Say each of these JSON strings in a frame of its own; steps are numbered, and some padded."""
    chunks = [
        CHUNK[place].replace("PAD", "x" * (number % 7)).replace("NUMBER", str(number)).replace("WORDS", word)
        for number, word in enumerate(words, 1)
    ]
    return [write_event(chunk.encode()) for chunk in chunks]


def read(name: str, pieces: list[bytes], *, learns: bool) -> list[Event]:
    decoder = DIALECTS[name].decode_stream()
    decoder.learns = learns
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


@pytest.mark.parametrize("name", DIALECTS)
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
        frames = say(place, [spell(words, choose) for words in said])
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


@pytest.mark.parametrize(("place", "count"), [(0, 3), (1, 2), (2, 2)])
def test_frames_that_are_alike_are_not_read_in_full(place: int, count: int) -> None:
    """A control: the quick way is taken."""
    decoder = DIALECTS[FAST[place]].decode_stream()
    decoder.feed(BEGIN[place])
    full = []
    read_in_full = decoder.read

    def note(body: dict[str, Any], name: bytes) -> None:
        full.append(body)
        read_in_full(body, name)

    decoder.read = note  # type: ignore[method-assign]
    for frame in say(place, [f'"word {number}"' for number in range(50)]):
        decoder.feed(frame)
    assert len(full) == count


def test_a_step_whose_number_does_not_follow_is_read_in_full() -> None:
    frames = say(2, [f'"word {number}"' for number in range(9)])
    again = [*frames[:6], *frames[3:]]
    for pieces in ([BEGIN[2], *again], [BEGIN[2] + b"".join(again)]):
        told = [event.text for event in read(FAST[2], pieces, learns=True) if hasattr(event, "text")]
        assert told == [f"word {number}" for number in range(9)]


def test_words_that_stand_twice_are_not_taken_from_the_wrong_place() -> None:
    words = ['"i"', '"m"', '"i"', '"response.output_text.delta"', '","', '":"', '"delta"', '"x"', '"y"']
    for first in range(len(words)):
        said = words[first:] + words[:first]
        told = read(FAST[2], [BEGIN[2], *say(2, said)], learns=True)
        assert [event.text for event in told if hasattr(event, "text")] == [word[1:-1] for word in said]
