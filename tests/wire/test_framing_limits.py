"""Framing has limits: what is kept of a frame is bounded, and its time grows with its bytes alone."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.timing import least
from tests.wire.test_framing import pieces_of
from toolwire.errors import FrameTooLarge
from toolwire.wire.framing import EventStream, Frame, JsonLines, JsonObjects

# Each comes to 21 bytes of one frame, after a frame that is small enough.
TOO_LARGE: dict[str, tuple[Callable[[int], Any], bytes]] = {
    "a usual event": (EventStream, b"data: 1\n\ndata: " + b"x" * 15 + b"\n\n"),
    "a usual event with a name": (
        EventStream,
        b"event: a\ndata: 1\n\nevent: a\ndata: " + b"x" * 15 + b"\n\n",
    ),
    "lines of data": (EventStream, b"data: 1\n\ndata: xxxx\ndata: xxxxx\nd"),
    "lines of no data": (EventStream, b"data: 1\n\ndata\ndata\ndata\ndata\ndata:\n\n"),
    "an open line": (EventStream, b"data: 1\n\ndata: " + b"x" * 15),
    "a comment": (EventStream, b"data: 1\n\n:" + b"x" * 20 + b"\n"),
    "a name": (EventStream, b"data: 1\n\nevent: " + b"x" * 14 + b"\n"),
    "a line that is no field": (EventStream, b"data: 1\r\n\r\n" + b"x" * 21 + b"\r\n"),
    "an object": (JsonObjects, b'{"a":1}{"a":"' + b"x" * 13 + b'"}'),
    "an open object": (JsonObjects, b'[{"a":1},{"a":"' + b"{" * 15),
    "a line": (JsonLines, b'{"a":1}\n' + b"x" * 21 + b"\n"),
    "an open line of none": (JsonLines, b'{"a":1}\r\n' + b"x" * 21),
}
LIMIT = 20


def until_refused(make: Callable[[int], Any], pieces: list[bytes], limit: int) -> tuple[list[Frame], bool]:
    """Give the frames before the one that is refused, and whether one was."""
    framing, frames = make(limit), []
    for piece in pieces:
        try:
            frames += framing.feed(piece)
        except FrameTooLarge as refusal:
            return frames + list(refusal.before), True
    return frames, False


@pytest.mark.parametrize(("make", "data"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_frame_that_is_too_large_is_refused(make: Callable[[int], Any], data: bytes) -> None:
    whole, refused = until_refused(make, [data], LIMIT + 1)
    assert not refused
    for pieces in pieces_of(data):
        assert until_refused(make, pieces, LIMIT) == (whole[:1], True), pieces


SMALL: dict[str, tuple[Callable[[int], Any], bytes]] = {
    "events": (EventStream, b"data: 1\n\n"),
    "comments": (EventStream, b": ping\n\n"),
    "comments in a row": (EventStream, b": ping\n"),
    "names": (EventStream, b"event: a\n"),
    "ids": (EventStream, b"id: 1\r\n\r\n"),
    "lines that are no field": (EventStream, b"x: y\n"),
    "objects": (JsonObjects, b'{"a":1},'),
    "what is no object": (JsonObjects, b'"abc\\", '),
    "lines": (JsonLines, b"{}\n"),
    "blank lines": (JsonLines, b"\n"),
}


@pytest.mark.parametrize(("make", "data"), SMALL.values(), ids=SMALL)
def test_many_small_frames_are_not_too_large(make: Callable[[int], Any], data: bytes) -> None:
    assert until_refused(make, [data * 3000, *([data] * 3000)], LIMIT)[1] is False


# How each is read, how one of a size is written, and how large one is for a test in pieces of 1 KB.
LARGE: dict[str, tuple[Callable[[], Any], Callable[[int], bytes], int]] = {
    "an event": (EventStream, lambda size: b"data: " + b"x" * size + b"\n\n", 20_000_000),
    "lines of data": (EventStream, lambda size: b"data: xxxx\n" * (size // 11) + b"\n", 1_000_000),
    "an object": (JsonObjects, lambda size: b'{"a":"' + b"x" * size + b'"}', 20_000_000),
    "escapes": (JsonObjects, lambda size: b'{"a":"' + b"\\n" * (size // 2) + b'"}', 1_000_000),
    "objects": (JsonObjects, lambda size: b'{"a":[' + b"{}," * (size // 3) + b"{}]}", 1_000_000),
    "a line": (JsonLines, lambda size: b"x" * size + b"\n", 20_000_000),
}


def seconds(make: Callable[[], Any], data: bytes, step: int, times: int) -> float:
    """Measure the reading of one frame in pieces of one size: the least of some times."""
    pieces = [data[place : place + step] for place in range(0, len(data), step)]

    def frame() -> None:
        framing = make()
        assert sum([len(framing.feed(piece)) for piece in pieces]) == 1

    return least(frame, times)


def takes_its_time(
    make: Callable[[], Any], write: Callable[[int], bytes], size: int, step: int, tries: int = 3
) -> bool:
    """Whether eight times the bytes take about eight times as long, and not 64 times; clocks are rough."""
    small = seconds(make, write(size // 8), step, 3)
    allowed = 24 * small + 0.2
    return any(seconds(make, write(size), step, 1) < allowed for _ in range(tries))


@pytest.mark.slow
@pytest.mark.parametrize("step", [1024, 1], ids=["1 KB", "1 byte"])
@pytest.mark.parametrize(("make", "write", "size"), LARGE.values(), ids=LARGE)
def test_the_time_grows_with_the_bytes_alone(make: Any, write: Any, size: int, step: int) -> None:
    assert takes_its_time(make, write, size if step > 1 else 200_000, step)


class Copying:
    """Frames as many write them: with each read, all bytes are split anew."""

    def __init__(self) -> None:
        self.held = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Give the frames that these bytes end."""
        *frames, self.held = (self.held + data).split(b"\n\n")
        return frames


@pytest.mark.slow
def test_a_copy_of_all_bytes_with_each_read_is_too_slow() -> None:
    """A control: the measure can fail, for a frame of a tenth of the size."""
    assert not takes_its_time(Copying, LARGE["an event"][1], 1_200_000, 1024, tries=1)
