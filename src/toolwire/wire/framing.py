"""Frames of a stream: bytes, however they were cut, to whole messages, and messages to bytes.

Rules of this file:
- The frames do not depend on how the bytes were cut, and each byte is looked at a bounded number of times.
- What has arrived of an unfinished frame is kept; a line, a data or an object of more than `limit` bytes is
  an error, which holds the frames before it.
- Server-sent events follow the WHATWG: a line ends with CR, LF or CRLF and with nothing else, a byte order
  mark may stand first, an empty line ends a frame. What none ended is no frame; `unfinished` gives it.
- A line that is no field says nothing there. It is told as a frame named `STRAY`, because some servers
  report an error as bare JSON.
"""

import re

from toolwire.errors import FrameTooLarge

LIMIT = 64 * 1024 * 1024
BOM = b"\xef\xbb\xbf"
STRAY = b"\n"
Frame = tuple[bytes, bytes]
"""An event's name, empty where it has none, and its data; `STRAY` is a name that no event can have."""


class _LineSplitter:
    """Bytes to lines; the last of them waits for its end."""

    __slots__ = ("after_return", "begun", "held")

    def __init__(self) -> None:
        self.held = bytearray()
        self.begun = False
        self.after_return = False

    def split(self, data: bytes) -> list[bytes]:
        """Give the lines that these bytes end."""
        if not self.begun:
            data = self._leave_out_mark(data)
        if self.after_return and data:
            self.after_return = False
            data = data.removeprefix(b"\n")
        if not data:
            return []
        lines = data.splitlines()
        last = data[-1]
        self.after_return = last == 13
        waiting = lines.pop() if last not in b"\r\n" else b""
        held = self.held
        if held and lines:
            lines[0] = bytes(held) + lines[0]
            held.clear()
        if waiting:
            held += waiting
        return lines

    def _leave_out_mark(self, data: bytes) -> bytes:
        data = bytes(self.held) + data
        self.held.clear()
        if len(data) < len(BOM) and BOM.startswith(data):
            self.held += data
            return b""
        self.begun = True
        return data.removeprefix(BOM)

    def rest(self) -> bytes:
        """Give what has arrived of a line that nothing ended."""
        return bytes(self.held)


_USUAL = re.compile(rb"(?:event: (.+)\n)?data: (.*)\n\n|:.*\n\n")


class EventStream:
    """Server-sent events to frames.

    Events of the usual shape that came whole take a short way, and so do comments; all others are read line by line.
    `_idle` says that a new event may begin with the next byte.
    """

    __slots__ = ("_data", "_id", "_idle", "_lines", "_name", "_size", "last_id", "limit", "retry")

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit: int = limit
        self.last_id: str = ""
        self.retry: int | None = None
        self._lines = _LineSplitter()
        self._idle = False
        self._name = b""
        self._id = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Give the frames that these bytes end."""
        frames: list[Frame] = []
        place, end = 0, len(data)
        if self._idle and end <= self.limit and b"\r" not in data:
            while place < end and (usual := _USUAL.match(data, place)) is not None:
                if usual.lastindex is not None:
                    frames.append(usual.groups(b""))  # type: ignore[arg-type]
                place = usual.end()
        if place < end:
            self._read_lines(data[place:], frames)
        return frames

    def _read_lines(self, data: bytes, frames: list[Frame]) -> None:
        self._idle, splitter = False, self._lines
        for line in splitter.split(data):
            if len(line) > self.limit:
                raise FrameTooLarge(self.limit, frames)
            if not line:
                if (lines := self._data) != []:
                    frames.append((self._name, lines[0] if len(lines) == 1 else b"\n".join(lines)))
                    self._data, self._size = [], 0
                self._name, self.last_id = b"", self._id
            elif line[:5] == b"data:":
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
                self._size += len(line)
            elif not self._read_field(line):
                frames.append((STRAY, line))
            if self._size > self.limit:
                raise FrameTooLarge(self.limit, frames)
        if len(splitter.held) > self.limit:
            raise FrameTooLarge(self.limit, frames)
        begun = self._data or self._name or splitter.held or splitter.after_return or self._id != self.last_id
        self._idle = splitter.begun and not begun

    def _read_field(self, line: bytes) -> bool:
        """Read a field, or a comment; whether the line is one."""
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"":
                pass
            case b"data":
                self._data.append(value)
                self._size += len(line)
            case b"event":
                self._name = value
            case b"id":
                if b"\0" not in value:
                    self._id = value.decode(errors="replace")
            case b"retry":
                if value.isdigit():
                    self.retry = int(value[:18])
            case _:
                return False
        return True

    def unfinished(self) -> list[Frame]:
        """Give the frame that no empty line ended; a reader of the WHATWG's kind would discard it."""
        line, data = self._lines.rest(), self._data
        if line[:5] == b"data:":
            data = [*data, line[5:].removeprefix(b" ")]
            line = b""
        stray = [(STRAY, line)] if line else []
        return [*stray, (self._name, b"\n".join(data))] if data else stray


_IN_STRING = re.compile(rb'["\\]')
_OUTSIDE = re.compile(rb'["{}\[\]]')


class JsonObjects:
    """JSON objects one after the other, whatever stands between them: in an array, in lines, over lines.

    An object is found by its braces; whether it is one, its reader says.
    """

    __slots__ = ("_depth", "_escaped", "_held", "_quoted", "limit")

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit: int = limit
        self._held = bytearray()
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def feed(self, data: bytes) -> list[Frame]:
        """Give the objects that these bytes end."""
        frames: list[Frame] = []
        place, begin = int(self._escaped and bool(data)), 0
        self._escaped = self._escaped and not data
        while (match := (_IN_STRING if self._quoted else _OUTSIDE).search(data, place)) is not None:
            place, depth = match.end(), self._depth
            if match.group() == b"\\":
                self._escaped = place == len(data)
                place += 1
                continue
            self._turn(match.group())
            if not depth and self._depth:
                begin = place - 1
            elif depth and not self._depth:
                if len(self._held) + place - begin > self.limit:
                    raise FrameTooLarge(self.limit, frames)
                frames.append((b"", bytes(self._held) + data[begin:place]))
                self._held.clear()
        if self._depth:
            self._held += data[begin:]
            if len(self._held) > self.limit:
                raise FrameTooLarge(self.limit, frames)
        return frames

    def _turn(self, mark: bytes) -> None:
        """Go into or out of a string, an object or an array; outside of objects only an object counts."""
        if mark == b'"':
            self._quoted = not self._quoted and self._depth > 0
        elif mark == b"{" or (mark == b"[" and self._depth):
            self._depth += 1
        elif mark in b"}]" and self._depth:
            self._depth -= 1

    def is_idle(self) -> bool:
        """Whether a new object may begin with the next byte: none has begun and not ended."""
        return self._depth == 0

    def unfinished(self) -> list[Frame]:
        """Give nothing: half an object is none."""
        return []


class JsonLines:
    """JSON objects, one on each line; a line that is none may be a piece of one that is spread over lines."""

    __slots__ = ("_lines", "limit")

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit: int = limit
        self._lines = _LineSplitter()

    def feed(self, data: bytes) -> list[Frame]:
        """Give the lines that these bytes end, without the empty ones."""
        frames: list[Frame] = []
        for line in self._lines.split(data):
            if len(line) > self.limit:
                raise FrameTooLarge(self.limit, frames)
            if line and not line.isspace():
                frames.append((b"", line))
        if len(self._lines.held) > self.limit:
            raise FrameTooLarge(self.limit, frames)
        return frames

    def unfinished(self) -> list[Frame]:
        """Give the last line, which may lack its end."""
        line = self._lines.rest()
        return [(b"", line)] if line.strip() else []


Framing = EventStream | JsonObjects | JsonLines


def write_event(data: bytes, name: bytes = b"") -> bytes:
    """Write one server-sent event; data that has lines gets as many."""
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(data.splitlines() + ([b""] if data[-1:] in b"\r\n" else []))
    return b"event: " + name + b"\ndata: " + data + b"\n\n" if name else b"data: " + data + b"\n\n"


class JsonArray:
    """Writes objects as one JSON array, each as soon as it is there."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun = False

    def write(self, data: bytes) -> bytes:
        """Write one object."""
        before = b",\r\n" if self._begun else b"["
        self._begun = True
        return before + data

    def close(self) -> bytes:
        """End the array."""
        return b"]" if self._begun else b"[]"
