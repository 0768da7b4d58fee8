"""Frames that differ from the one before in a few words: each is read for what it says, however it is cut."""

import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from tests.wires import DIALECTS
from toolwire import translate
from toolwire.streams import call_judge
from toolwire.types import CallDelta, ErrorEnd, Event, MessageStart, Opaque, PartStart, Response, Text, TextDelta
from toolwire.wire.framing import write_event

WIRES = ("openai-chat", "anthropic", "openai-responses")
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


def read(name: str, pieces: Iterable[bytes]) -> list[Event]:
    """Return the events of a stream that arrives in these pieces."""
    decoder = DIALECTS[name].decode_stream()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


def said(source: str, target: str, pieces: Iterable[bytes]) -> bytes:
    """Return a stream in another dialect."""
    stream = translate.stream(source, target)
    return b"".join(map(stream.feed, pieces)) + stream.close()


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


@pytest.mark.parametrize("place", range(len(WIRES)), ids=WIRES)
def test_words_of_any_kind_are_those_that_were_said(place: int) -> None:
    choose = random.Random(place)  # noqa: S311 - the same words in every run
    for _ in range(300):
        said = choose.choices(WORDS, k=choose.randrange(2, 9))
        frames = say(place, [spell(words, choose) for words in said])
        pieces = [BEGIN[place], *frames] if choose.random() < 0.5 else [BEGIN[place] + b"".join(frames)]
        told = [event.text for event in read(WIRES[place], pieces) if hasattr(event, "text")]
        assert told == said


def test_a_frame_that_says_more_than_words() -> None:
    chunks = [CHUNK[0].replace("WORDS", f'"{words}"') for words in ("one", "two", "three", "four")]
    chunks[3] = chunks[3].replace("}]", '}],"usage":{"prompt_tokens":1}').replace("null", '"stop"')
    events = read("openai-chat", [write_event(chunk.encode()) for chunk in chunks])
    assert [event.text for event in events if hasattr(event, "text")] == ["one", "two", "three", "four"]
    assert [type(event).__name__ for event in events][-4:] == [
        "PartEnd",
        "UsageDelta",
        "ChoiceEnd",
        "MessageEnd",
    ]


def test_spaces_before_the_end_of_a_frame_are_only_spaces() -> None:
    """Anthropic pads frames so, also between the last two braces."""
    for frames in (say(1, [f'"word {number}"' for number in range(9)]), say(1, ['"a"', '"}"', '"} "', '"b"'])):
        padded = [frame[:-3] + b" " * place + b"}" + b" " * (place % 3) + b"\n\n" for place, frame in enumerate(frames)]
        for pieces in (padded, [b"".join(padded)]):
            assert read(WIRES[1], [BEGIN[1], *pieces]) == read(WIRES[1], [BEGIN[1], *frames])


def chat(*deltas: str) -> list[bytes]:
    return [write_event(f'{{"id":"a","choices":[{{"index":0,"delta":{delta}}}]}}'.encode()) for delta in deltas]


def step(kind: str, **fields: Any) -> bytes:
    return write_event(msgspec.json.encode({"type": kind, **fields}))


PICTURE = {"mimeType": "image/png", "data": "AAAA"}
BEGINNING = '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"%s"}}'
CALLED = '{"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":""}}]}'
PIECE = '{"tool_calls":[{"function":{"arguments":"%s"}}]}'
CALLS = write_event(b'{"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}')
ITEM = {"id": "i", "type": "function_call", "call_id": "c", "name": "f", "arguments": ""}
DETAILED = '{"content":"","reasoning":"%s","reasoning_details":[{"type":"reasoning.text","text":"%s","index":%d}]}'
GROWING = chat(*(f'{{"content":"{words}"}}' for words in ("one", "two", "three")))
ALIKE = {
    "a part begins with words, and begins again": (
        "anthropic",
        [write_event((BEGINNING % words).encode()) for words in ("Hel", "lo", "you")],
    ),
    "a text that does not say whose it is, after a whole one": (
        "openai-chat",
        [
            *chat(CALLED, *(PIECE % piece for piece in ('{\\"x\\"', ":1}", '{\\"y\\":', "2}"))),
            CALLS,
            write_event(b"[DONE]"),
        ],
    ),
    "all of the arguments, and all of them again": (
        "openai-responses",
        [
            step("response.created", response={"id": "r", "output": []}),
            step("response.output_item.added", output_index=0, item=ITEM),
            *(
                step("response.function_call_arguments.done", item_id="i", output_index=0, arguments=text)
                for text in ('{"x":1}', '{"x":1}', '{"x":1} ')
            ),
        ],
    ),
    "a picture and words, and both of them again": (
        "gemini",
        [
            step("x", candidates=[{"content": {"parts": [{"inlineData": PICTURE}, {"text": words}]}}])
            for words in ("one", "two", "three")
        ],
    ),
    "thoughts, then words": (
        "openai-chat",
        chat(*(f'{{"{key}":"{words}"}}' for key in ("reasoning", "content") for words in ("one", "two", "three"))),
    ),
    "thoughts and their details": (
        "openai-chat",
        chat(
            *(DETAILED % (words, words, 0) for words in ("one", "two", r"a \"b\"", "", "three", "four")),
            *(DETAILED % (words, words, 1) for words in ("five", "six", "reasoning.text", "seven")),
            *(DETAILED % (words, f"{words}!", 1) for words in ("eight", "nine")),
            *(f'{{"reasoning":"{words}","reasoning_details":[]}}' for words in ("ten", "eleven")),
        ),
    ),
    "words under two keys": (
        "openai-chat",
        chat(*(f'{{"reasoning":"{words}","reasoning_content":"{words}"}}' for words in ("one", "two", "three"))),
    ),
    "words with a note that stays": (
        "openai-chat",
        chat(
            *(f'{{"content":"{words}","channel":"final"}}' for words in ("one", "two", "three", "final", "four")),
            *(f'{{"content":"{words}","channel":"{words}"}}' for words in ("five", "six")),
            *(f'{{"content":"{words}","channel":["x"],"audio":{{"data":"x"}}}}' for words in ("seven", "eight")),
        ),
    ),
    "words with a list that grows": (
        "openai-chat",
        [frame.replace(b'"index":0,', b'"index":0,"logprobs":{"content":[{"token":"x"}]},') for frame in GROWING],
    ),
    "steps that are numbered by text, or not at all": (
        "openai-responses",
        [
            step("response.created", response={"id": "r", "output": []}),
            *(step("response.output_text.delta", item_id="i", delta="one", sequence_number=n) for n in ("1", "2", 3.5)),
            *(step("response.output_text.delta", item_id="i", delta=words) for words in ("two", "three", "four")),
            *(step("response.output_text.delta", item_id="i", delta=f"w{n}", sequence_number=n) for n in (7, 8, 8, 11)),
        ],
    ),
    "an object, and events after it": (
        "anthropic",
        [b'{"type":"ping"}', step("ping"), write_event(b'{"index":0}', b"message_stop"), write_event(b"[DONE]")],
    ),
    "what came after the end": ("openai-chat", [*chat('{"content":"x"}'), write_event(b"[DONE]") + chat("{}")[0] * 2]),
}


@pytest.mark.parametrize("what", ALIKE)
def test_frames_that_are_alike_and_tell_other_things(what: str) -> None:
    name, frames = ALIKE[what]
    for count in range(1, len(frames) + 1):
        for pieces in (frames[:count], [*frames[:count], b"".join(frames)]):
            whole = b"".join(pieces)
            bytewise = [whole[place : place + 1] for place in range(len(whole))]
            assert read(name, pieces) == read(name, [whole]) == read(name, bytewise)
            for target in DIALECTS:
                assert said(name, target, pieces) == said(name, target, [whole])


def fragments(*pieces: str) -> list[bytes]:
    """Say the text of a call in fragments."""
    begun = {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}
    entries = [begun, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
    chunks = [{"id": "a", "choices": [{"index": 0, "delta": {"tool_calls": [entry]}}]} for entry in entries]
    return [write_event(msgspec.json.encode(chunk)) for chunk in chunks]


def test_only_what_is_certainly_new_goes_to_a_call() -> None:
    frames = fragments('{"a":', "1", "}", '{"a":1}', '{"a":1}', " ", "x")
    events = read(WIRES[0], frames)
    assert [event.fragment for event in events if type(event) is CallDelta] == ['{"a":', "1", "}", " ", "x"]


def test_the_text_of_a_call_has_the_same_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_judge, "LIMIT", 1_000)
    frames = fragments(*("x" * 100 + str(number) for number in range(20)))
    events = read(WIRES[0], frames)
    assert [type(event) for event in events].count(CallDelta) == 9
    assert [event.error.kind for event in events if type(event) is ErrorEnd] == ["server"]


def test_a_step_that_comes_again_says_nothing() -> None:
    frames = say(2, [f'"word {number}"' for number in range(9)])
    again = [*frames[:6], *frames[3:]]
    for pieces in ([BEGIN[2], *again], [BEGIN[2] + b"".join(again)]):
        told = [event.text for event in read(WIRES[2], pieces) if hasattr(event, "text")]
        assert told == [f"word {number}" for number in range(9)]


def test_words_that_stand_twice_are_not_taken_from_the_wrong_place() -> None:
    words = ['"i"', '"m"', '"i"', '"response.output_text.delta"', '","', '":"', '"delta"', '"x"', '"y"']
    for first in range(len(words)):
        said = words[first:] + words[:first]
        told = read(WIRES[2], [BEGIN[2], *say(2, said)])
        assert [event.text for event in told if hasattr(event, "text")] == [word[1:-1] for word in said]


@pytest.mark.parametrize("wire", ["gemini", "ollama", "openai-responses"])
def test_words_that_are_empty_are_no_frame(wire: str) -> None:
    """OpenRouter sends a signature with empty words of reasoning: a wire that cannot say it says nothing."""
    empty = TextDelta(0, "", opaque=Opaque("openai-chat", {"x": 1}))
    encoder = DIALECTS[wire].encode_stream()
    encoder.feed(MessageStart(Response(id="r", model="m")))
    encoder.feed(PartStart(0, Text("")))
    written = [encoder.feed(event) for event in (TextDelta(0, "a"), empty, TextDelta(0, "b"))]
    assert [frame != b"" for frame in written] == [True, False, True]
