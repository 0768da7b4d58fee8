"""Frames that repeat each other are read by what differs, and tell what they would tell if read in full."""

import itertools
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

import toolwire
from tests.nasty import TABLE
from tests.stream_cases import all_cases
from tests.stream_examples import EXAMPLES
from tests.wires import DIALECTS, SHARES
from toolwire import translate
from toolwire.streams import StreamDecoder, calls, quick
from toolwire.types import CallDelta, ErrorEnd, Event
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


def plainly(name: str) -> StreamDecoder:
    """Give the decoder of a dialect that reads every frame in full."""
    decoder: StreamDecoder = import_module(f"toolwire.dialects.{name.replace('-', '_')}.stream_decoder").Decoder()
    return decoder


def read(name: str, pieces: Iterable[bytes], *, quickly: bool) -> list[Event]:
    decoder = DIALECTS[name].decode_stream() if quickly else plainly(name)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


def said(source: str, target: str, pieces: Iterable[bytes]) -> bytes:
    """Give what a stream is in another dialect."""
    stream = translate.stream(source, target)
    return b"".join(map(stream.feed, pieces)) + stream.close()


def said_plainly(source: str, target: str, pieces: Iterable[bytes]) -> bytes:
    """Give the same with every frame read in full, and every event told."""
    decoder, encoder = plainly(source), DIALECTS[target].encode_stream()
    told = [encoder.feed(event) for piece in pieces for event in decoder.feed(piece)]
    return b"".join([*told, *map(encoder.feed, decoder.close()), encoder.close()])


def frames_of(name: str, data: bytes) -> list[bytes]:
    end = b"\n" if name == "ollama" else b"\n\n"
    return [frame + end for frame in data.split(end)]


def cuts_of(data: bytes, chance: random.Random) -> Iterator[list[bytes]]:
    """Cut a stream in odd ways: by its lines, anywhere, and at each byte."""
    yield data.splitlines(keepends=True)
    yield [data[place : place + 1] for place in range(len(data))]
    for size in (30, 300):
        places = [0, *sorted(chance.choices(range(len(data)), k=len(data) // size)), len(data)]
        yield [data[begin:end] for begin, end in pairwise(places)]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", DIALECTS)
def test_every_stream_tells_what_it_tells_when_read_in_full(name: str, share: int) -> None:
    for case in itertools.islice(all_cases(name), None, None, share):
        for pieces in ([case.data], frames_of(name, case.data)):
            assert read(name, pieces, quickly=True) == read(name, pieces, quickly=False), case.name


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", DIALECTS)
def test_the_same_however_it_is_cut(name: str, share: int) -> None:
    chance = random.Random(name)  # noqa: S311 - the same cuts in every run
    nasty = {row.name: row.frames for row in TABLE if row.dialect == name}
    told = {**{key: [data] for key, data in EXAMPLES[name].items()}, **nasty}
    for what, frames in itertools.islice(told.items(), None, None, share):
        whole = read(name, frames, quickly=False)
        assert read(name, frames, quickly=True) == whole, what
        for pieces in cuts_of(b"".join(frames), chance):
            assert read(name, pieces, quickly=True) == read(name, pieces, quickly=False), what


WITHOUT = """
import msgspec, sys
from toolwire import dialect, translate
from toolwire.streams import WireDecoder

for name, streams in msgspec.json.decode(sys.stdin.buffer.read()).items():
    for text in streams:
        through = translate.stream(name, "anthropic")
        decoder = dialect(name).decode_stream()
        assert isinstance(decoder, WireDecoder)
        sys.stdout.write(f"{decoder.feed(text.encode()) + decoder.close()}\\n")
        sys.stdout.write(f"{through.feed(text.encode()) + through.close()}\\n")
assert not any(module.endswith("quick") for module in sys.modules)
"""


@pytest.mark.slow
def test_without_the_short_way_every_stream_is_still_read(tmp_path: Path) -> None:
    """The short way is one file and the lines that apply it: a package that lacks them reads as it should."""
    copy = tmp_path / "toolwire"
    shutil.copytree(Path(toolwire.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "streams/quick.py").unlink()
    door = copy / "streams/__init__.py"
    text = door.read_text(encoding="utf-8")
    for line, instead in (
        ("from toolwire.streams import quick\n", ""),
        ("return quick.QuickDecoder(decoder, volatile)", "return decoder"),
        ("return quick.relay(decoder, encoder)", 'return lambda data: b"".join(map(encoder.feed, decoder.feed(data)))'),
    ):
        assert text.count(line) == 1
        text = text.replace(line, instead)
    door.write_text(text, encoding="utf-8")
    streams = {name: [data.decode() for data in EXAMPLES[name].values()] for name in DIALECTS}
    command = [sys.executable, "-B", "-c", WITHOUT]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, input=msgspec.json.encode(streams), env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    texts = [(name, text.encode()) for name, found in streams.items() for text in found]
    told = [(read(name, [text], quickly=True), said(name, "anthropic", [text])) for name, text in texts]
    assert done.stdout.decode().splitlines() == [str(one) for both in told for one in both]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", DIALECTS)
def test_words_that_are_relayed_are_those_that_events_tell(name: str, share: int) -> None:
    """Where the short way leads through no event, each encoder says and keeps the same; also when parts alternate."""
    nasty = {row.name: row.frames for row in TABLE if row.dialect == name}
    for frames in [*(frames_of(name, data) for data in EXAMPLES[name].values()), *nasty.values()][::share]:
        for target in DIALECTS:
            assert said(name, target, frames) == said_plainly(name, target, frames), target


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
        told = [event.text for event in read(FAST[place], pieces, quickly=True) if hasattr(event, "text")]
        assert told == said


def test_a_frame_that_says_more_than_words_is_read_in_full() -> None:
    chunks = [CHUNK[0].replace("WORDS", f'"{words}"') for words in ("one", "two", "three", "four")]
    chunks[3] = chunks[3].replace("}]", '}],"usage":{"prompt_tokens":1}').replace("null", '"stop"')
    events = read("openai-chat", [write_event(chunk.encode()) for chunk in chunks], quickly=True)
    assert [event.text for event in events if hasattr(event, "text")] == ["one", "two", "three", "four"]
    assert [type(event).__name__ for event in events][-4:] == [
        "PartEnd",
        "UsageDelta",
        "ChoiceEnd",
        "MessageEnd",
    ]


@pytest.mark.parametrize(("place", "count"), [(0, 2), (1, 1), (2, 2)])
def test_frames_that_are_alike_are_not_read_in_full(place: int, count: int) -> None:
    """A control: the quick way is taken."""
    decoder: Any = DIALECTS[FAST[place]].decode_stream()
    plain = decoder._decoder
    decoder.feed(BEGIN[place])
    full = []
    read_in_full = plain.read

    def note(body: dict[str, Any], name: bytes) -> None:
        full.append(body)
        read_in_full(body, name)

    plain.read = note
    for frame in say(place, [f'"word {number}"' for number in range(50)]):
        decoder.feed(frame)
    assert len(full) == count


def test_spaces_before_the_end_of_a_frame_are_only_spaces() -> None:
    """Anthropic pads so, also between its last two braces; a frame that lacks a brace is none."""
    for frames in (say(1, [f'"word {number}"' for number in range(9)]), say(1, ['"a"', '"}"', '"} "', '"b"'])):
        padded = [frame[:-3] + b" " * place + b"}" + b" " * (place % 3) + b"\n\n" for place, frame in enumerate(frames)]
        lacking = [frame.replace(b"}}\n\n", b"}\n\n") for frame in frames]
        for pieces in (padded, [b"".join(padded)], [frames[0], *lacking], [padded[-1], frames[0]]):
            told = read(FAST[1], [BEGIN[1], *pieces], quickly=True)
            assert told == read(FAST[1], [BEGIN[1], *pieces], quickly=False)
        told = read(FAST[1], [BEGIN[1], *padded], quickly=True)
        assert told == read(FAST[1], [BEGIN[1], *frames], quickly=False)


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
        for pieces in (frames[:count], [b"".join(frames[:count])], [*frames[:count], b"".join(frames)]):
            assert read(name, pieces, quickly=True) == read(name, pieces, quickly=False)
            quick_one, plain = DIALECTS[name].decode_stream(), plainly(name)
            for piece in pieces:
                assert quick_one.feed(piece) == plain.feed(piece)
            assert (quick_one.done, quick_one.over, quick_one.ignored) == (plain.done, plain.over, plain.ignored)
            for target in DIALECTS:
                assert said(name, target, pieces) == said_plainly(name, target, pieces)


def fragments(*pieces: str) -> list[bytes]:
    """Say the text of a call in fragments."""
    begun = {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}
    entries = [begun, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
    chunks = [{"id": "a", "choices": [{"index": 0, "delta": {"tool_calls": [entry]}}]} for entry in entries]
    return [write_event(msgspec.json.encode(chunk)) for chunk in chunks]


@pytest.mark.parametrize("delta", ['"channel":"final","content":"%s"', DETAILED[1:-1].replace("%d", "0")])
def test_what_stays_beside_the_words_does_not_cost_the_short_way(delta: str) -> None:
    """A control: of a hundred frames with a note or with a detail only the first few are read in full."""
    decoder: Any = DIALECTS["openai-chat"].decode_stream()
    read_in_full, full = decoder._decoder.read, []

    def note(body: dict[str, Any], name: bytes) -> None:
        full.append(body)
        read_in_full(body, name)

    decoder._decoder.read = note
    for number in range(100):
        decoder.feed(chat("{" + delta.replace("%s", f"word {number}") + "}")[0])
    assert len(full) <= 2


def test_only_what_is_certainly_new_goes_to_a_call() -> None:
    frames = fragments('{"a":', "1", "}", '{"a":1}', '{"a":1}', " ", "x")
    events = read(FAST[0], frames, quickly=True)
    assert [event.fragment for event in events if type(event) is CallDelta] == ['{"a":', "1", "}", " ", "x"]
    assert events == read(FAST[0], frames, quickly=False)


def test_the_text_of_a_call_has_the_same_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "LIMIT", 1_000)
    monkeypatch.setattr(quick, "LIMIT", 1_000)
    frames = fragments(*("x" * 100 + str(number) for number in range(20)))
    events = read(FAST[0], frames, quickly=True)
    assert [type(event) for event in events].count(CallDelta) == 9
    assert [event.error.kind for event in events if type(event) is ErrorEnd] == ["server"]
    assert events == read(FAST[0], frames, quickly=False)


def test_a_step_whose_number_does_not_follow_is_read_in_full() -> None:
    frames = say(2, [f'"word {number}"' for number in range(9)])
    again = [*frames[:6], *frames[3:]]
    for pieces in ([BEGIN[2], *again], [BEGIN[2] + b"".join(again)]):
        told = [event.text for event in read(FAST[2], pieces, quickly=True) if hasattr(event, "text")]
        assert told == [f"word {number}" for number in range(9)]


def test_words_that_stand_twice_are_not_taken_from_the_wrong_place() -> None:
    words = ['"i"', '"m"', '"i"', '"response.output_text.delta"', '","', '":"', '"delta"', '"x"', '"y"']
    for first in range(len(words)):
        said = words[first:] + words[:first]
        told = read(FAST[2], [BEGIN[2], *say(2, said)], quickly=True)
        assert [event.text for event in told if hasattr(event, "text")] == [word[1:-1] for word in said]
