"""Streams that are damaged: a decoder tells something of any bytes, an encoder writes it, nothing raises."""

import contextlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.stream_cases import all_cases, cases, decode, disorder, encode
from tests.wires import DIALECTS
from toolwire import CallDelta, CallEnd, Event, accumulate
from toolwire.dialects import NAMES
from toolwire.streams import encode_json
from toolwire.wire.framing import EventStream, JsonLines, JsonObjects

TIMES = [pytest.param(40, id="few"), pytest.param(4_000, id="many", marks=pytest.mark.slow)]
FRAME = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)")
LINE = re.compile(rb"(?<=\n)")
LEAF = re.compile(rb'"(?:[^"\\]|\\.)*"(?!\s*:)|-?\d+(?:\.\d+)?|true|false|null|\{\}|\[\]')
VALUES = (
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1e400",
    b"99999999999999999999",
    b'""',
    b'"x"',
    b"[]",
    b"{}",
    b"[null]",
    b'{"a":1}',
    b'"\\ud800"',
    b'"[DONE]"',
    b"[[[[[]]]]]",
    b'{"type":"x","index":0}',
    b'"\xff"',
    b"[" * 3000 + b"]" * 3000,
)
Chance = random.Random


def flip(data: bytes, chance: Chance) -> bytes:
    """Turn some bits."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
    return bytes(out)


def drop(data: bytes, chance: Chance) -> bytes:
    """Leave out some bytes."""
    place = chance.randrange(len(data))
    return data[:place] + data[place + chance.randint(1, 40) :]


def insert(data: bytes, chance: Chance) -> bytes:
    """Put some bytes between others."""
    place = chance.randrange(len(data))
    return (
        data[:place]
        + chance.choice((chance.randbytes(5), b"\n", b"\r", b"\n\n", b'"', b"}", b"\\", b"data: "))
        + data[place:]
    )


def cut(data: bytes, chance: Chance) -> bytes:
    """Break off."""
    return data[: chance.randrange(len(data))]


def frames(data: bytes) -> list[bytes]:
    """Give the frames of a stream, each with its end."""
    return [frame for frame in (FRAME if b"\n\n" in data else LINE).split(data) if frame] or [data]


def repeat(data: bytes, chance: Chance) -> bytes:
    """Say a frame twice."""
    parts = frames(data)
    place = chance.randrange(len(parts))
    return b"".join([*parts[: place + 1], *parts[place:]])


def swap(data: bytes, chance: Chance) -> bytes:
    """Say two frames in the order of each other."""
    parts = frames(data)
    one, other = chance.randrange(len(parts)), chance.randrange(len(parts))
    parts[one], parts[other] = parts[other], parts[one]
    return b"".join(parts)


def miss(data: bytes, chance: Chance) -> bytes:
    """Leave out a frame."""
    parts = frames(data)
    del parts[chance.randrange(len(parts))]
    return b"".join(parts)


def other_value(data: bytes, chance: Chance) -> bytes:
    """Say a value of another kind."""
    leaves = list(LEAF.finditer(data))
    if not leaves:
        return data
    leaf = chance.choice(leaves)
    return data[: leaf.start()] + chance.choice(VALUES) + data[leaf.end() :]


def mix(data: bytes, chance: Chance) -> bytes:
    """Say frames of another stream in between."""
    other = frames(chance.choice(all_cases(chance.choice(NAMES))).data)
    parts = frames(data)
    place = chance.randrange(len(parts))
    return b"".join([*parts[:place], *other[:3], *parts[place:]])


def noise(data: bytes, chance: Chance) -> bytes:
    """Say nothing that makes sense."""
    pieces = (
        b"data: ",
        b"event: ",
        b"\n",
        b"\r\n",
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b":",
        b",",
        b"[DONE]",
        b"null",
        b"\xff",
        b"\\",
    )
    del data
    return b"".join(chance.choices((*pieces, chance.randbytes(3)), k=chance.randint(0, 60)))


def damaged(data: bytes, chance: Chance) -> bytes:
    """Damage a stream in one to three ways."""
    for _ in range(chance.randint(1, 3)):
        data = chance.choice(DAMAGES)(data, chance) or b" "
    return data


DAMAGES: tuple[Callable[[bytes, Chance], bytes], ...] = (
    *(flip, drop, insert, cut, repeat, swap, miss, other_value, other_value, other_value, mix, noise),
)


def runnable(events: list[Event]) -> set[bytes]:
    """Give the calls that a stream offers: what would be run."""
    calls = [event.call for event in events if isinstance(event, CallEnd) and event.call.runs]
    return {encode_json([call.name, call.raw if call.custom else call.arguments]) for call in calls}


def told_whole(events: list[Event]) -> set[bytes]:
    """Give the calls whose text begins with a whole object, as it was told or as it was corrected last.

    A reader of Chat Completions takes the next call for the end of such a call.
    """
    texts: dict[int, str] = {}
    found = set()
    for event in events:
        if isinstance(event, CallDelta):
            texts[event.key] = texts.get(event.key, "") + event.fragment
        elif isinstance(event, CallEnd):
            for text in (texts.get(event.key, ""), event.call.raw or ""):
                with contextlib.suppress(ValueError, RecursionError):
                    found.add(encode_json([event.call.name, DECODER.raw_decode(text.lstrip())[0]]))
    return found


DECODER = json.JSONDecoder()


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_stream_raises_nothing(name: str, times: int, tally: Counter[str]) -> None:
    chance = random.Random(76)  # noqa: S311 - the same every time
    streams = [case.data for case in cases(name, 20_000)]
    for _ in range(times):
        data = damaged(chance.choice(streams), chance)
        events = decode(name, data, (chance.randrange(len(data)),))
        assert disorder(events) == "", data
        DIALECTS[name].encode_response(accumulate(events))
        for target in {name, chance.choice(NAMES)}:
            again = decode(target, encode(target, events)[0])
            assert disorder(again) == "", (target, data)
        tally["damaged streams"] += 1


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_stream_offers_no_call_elsewhere_that_it_does_not_offer(
    name: str, times: int, tally: Counter[str]
) -> None:
    chance = random.Random(78)  # noqa: S311 - the same every time
    streams = [case.data for case in cases(name, 20_000) if b"{" in case.data and CALLS.search(case.data)]
    for _ in range(times // 2):
        data = damaged(chance.choice(streams), chance)
        events = decode(name, data)
        calls = [event.call for event in events if isinstance(event, CallEnd)]
        if any(call.custom or LEGAL.fullmatch(call.name) is None for call in calls):
            continue  # it has another name or other arguments elsewhere
        offered = runnable(events) | told_whole(events)
        for target in {name, chance.choice(NAMES)}:
            assert runnable(decode(target, encode(target, events)[0])) <= offered, (target, data)
        tally["damaged streams with calls"] += 1


LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
CALLS = re.compile(rb"tool_calls|tool_use|function_call|functionCall")


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("framing", [EventStream, JsonLines, JsonObjects])
def test_damaged_bytes_are_framed_alike_in_any_pieces(framing: Any, times: int, tally: Counter[str]) -> None:
    chance = random.Random(77)  # noqa: S311 - the same every time
    for _ in range(times):
        data = noise(b"", chance) * chance.randint(1, 3)
        whole, pieces = framing(), framing()
        expected = [*whole.feed(data), *whole.unfinished()]
        cuts = sorted(chance.choices(range(len(data) + 1), k=3))
        found = [
            frame
            for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)
            for frame in pieces.feed(data[begin:end])
        ]
        assert [*found, *pieces.unfinished()] == expected, data
        tally["noises framed"] += 1
