"""Streams that are damaged: a decoder tells something of any bytes, an encoder writes it, nothing raises."""

import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.stream_cases import all_cases, cases, decode, disorder, encode
from tests.wires import DIALECTS
from toolwire import accumulate
from toolwire.dialects import NAMES
from toolwire.framing import EventStream, JsonLines, JsonObjects

TIMES = [pytest.param(150, id="few"), pytest.param(6_000, id="many", marks=pytest.mark.slow)]
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


DAMAGES: tuple[Callable[[bytes, Chance], bytes], ...] = (
    *(flip, drop, insert, cut, repeat, swap, miss, other_value, other_value, other_value, mix, noise),
)


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_stream_raises_nothing(name: str, times: int, tally: Counter[str]) -> None:
    chance = random.Random(76)  # noqa: S311 - the same every time
    streams = [case.data for case in cases(name, 20_000)]
    for _ in range(times):
        data = chance.choice(streams)
        for _ in range(chance.randint(1, 3)):
            data = chance.choice(DAMAGES)(data, chance) or b" "
        middle = chance.randrange(len(data))
        events = decode(name, data, (middle,))
        assert disorder(events) == "", data
        response = accumulate(events)
        for target in {name, chance.choice(NAMES)}:
            encoded, _ = encode(target, events)
            assert disorder(decode(target, encoded)) == "", data
        DIALECTS[name].encode_response(response)
        tally["damaged streams"] += 1


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
    assert msgspec.json.decode(b"1") == 1
