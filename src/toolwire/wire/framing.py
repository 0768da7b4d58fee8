"""Split the bytes of a stream into frames, and write frames as bytes.

Rules of this file:
- The frames do not depend on how the bytes were split. Each byte is scanned a bounded number of times.
- The bytes of an unfinished frame are buffered. A line, the data of an event or an object of more than `limit` bytes
  raises `FrameTooLarge`, which has the frames before it.
- Server-sent events follow the WHATWG (https://html.spec.whatwg.org/multipage/server-sent-events.html). A line ends
  with CR, LF or CRLF only. A byte order mark may come first. An empty line ends a frame. An event without this line is
  no frame. `unfinished` returns it.
- The WHATWG ignores a line that is no field. Here it is a frame with the name `STRAY`, because some servers report an
  error as bare JSON.
"""

import re

from toolwire.errors import FrameTooLarge

LIMIT = 64 * 1024 * 1024
BOM = b"\xef\xbb\xbf"
STRAY = b"\n"
Frame = tuple[bytes, bytes]
"""The name of an event, which may be empty, and its data. No event can have the name `STRAY`."""


class _LineSplitter:
    """Splits bytes into lines, and buffers an unfinished line."""

    __slots__ = ("after_return", "buffer", "started")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.started = False
        self.after_return = False

    def split(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes."""
        if not self.started:
            data = self._strip_mark(data)
        if self.after_return and data:
            self.after_return = False
            data = data.removeprefix(b"\n")
        if not data:
            return []
        lines = data.splitlines()
        last = data[-1]
        self.after_return = last == 13
        unfinished = lines.pop() if last not in b"\r\n" else b""
        buffer = self.buffer
        if buffer and lines:
            lines[0] = bytes(buffer) + lines[0]
            buffer.clear()
        if unfinished:
            buffer += unfinished
        return lines

    def _strip_mark(self, data: bytes) -> bytes:
        data = bytes(self.buffer) + data
        self.buffer.clear()
        if len(data) < len(BOM) and BOM.startswith(data):
            self.buffer += data
            return b""
        self.started = True
        return data.removeprefix(BOM)

    def unfinished_line(self) -> bytes:
        """Return the unfinished line."""
        return bytes(self.buffer)


_USUAL_EVENT = re.compile(rb"(?:event: (.+)\n)?data: (.*)\n\n|:.*\n\n")


class EventStream:
    """Splits server-sent events into frames.

    Complete events of the usual form, and comments, are matched by one pattern. All others are read line by line.

    - `last_id`: the last event id.
    - `retry`: the milliseconds before a reconnection that the server asked for.
    - `_idle`: the next byte starts a new event.
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
        """Return the frames that `data` completes. Raise `FrameTooLarge` if one exceeds the limit."""
        frames: list[Frame] = []
        position, end = 0, len(data)
        if self._idle and end <= self.limit and b"\r" not in data:
            while position < end and (usual := _USUAL_EVENT.match(data, position)) is not None:
                if usual.lastindex is not None:
                    frames.append(usual.groups(b""))  # type: ignore[arg-type]
                position = usual.end()
        if position < end:
            self._read_lines(data[position:], frames)
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
        if len(splitter.buffer) > self.limit:
            raise FrameTooLarge(self.limit, frames)
        has_started = self._data or self._name or splitter.buffer or splitter.after_return or self._id != self.last_id
        self._idle = splitter.started and not has_started

    def _read_field(self, line: bytes) -> bool:
        """Process a field or a comment. Return False if `line` is neither."""
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
        """Return the frame that no empty line has ended. A parser as the WHATWG describes it would discard it."""
        line, data = self._lines.unfinished_line(), self._data
        if line[:5] == b"data:":
            data = [*data, line[5:].removeprefix(b" ")]
            line = b""
        stray = [(STRAY, line)] if line else []
        return [*stray, (self._name, b"\n".join(data))] if data else stray


_IN_STRING = re.compile(rb'["\\]')
_OUTSIDE = re.compile(rb'["{}\[\]]')


class JsonObjects:
    """Splits consecutive JSON objects, in an array, on lines or over several lines, into frames.

    An object is found by its braces. Whether it is valid JSON is not checked here.
    """

    __slots__ = ("_buffer", "_depth", "_escaped", "_quoted", "limit")

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit: int = limit
        self._buffer = bytearray()
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def feed(self, data: bytes) -> list[Frame]:
        """Return the objects that `data` completes. Raise `FrameTooLarge` if one exceeds the limit."""
        frames: list[Frame] = []
        position, start = int(self._escaped and bool(data)), 0
        self._escaped = self._escaped and not data
        while (match := (_IN_STRING if self._quoted else _OUTSIDE).search(data, position)) is not None:
            position, depth = match.end(), self._depth
            if match.group() == b"\\":
                self._escaped = position == len(data)
                position += 1
                continue
            self._track_nesting(match.group())
            if not depth and self._depth:
                start = position - 1
            elif depth and not self._depth:
                if len(self._buffer) + position - start > self.limit:
                    raise FrameTooLarge(self.limit, frames)
                frames.append((b"", bytes(self._buffer) + data[start:position]))
                self._buffer.clear()
        if self._depth:
            self._buffer += data[start:]
            if len(self._buffer) > self.limit:
                raise FrameTooLarge(self.limit, frames)
        return frames

    def _track_nesting(self, mark: bytes) -> None:
        """Update the nesting at the start or end of a string, object or array. Outside of objects, only `{` counts."""
        if mark == b'"':
            self._quoted = not self._quoted and self._depth > 0
        elif mark == b"{" or (mark == b"[" and self._depth):
            self._depth += 1
        elif mark in b"}]" and self._depth:
            self._depth -= 1

    def is_idle(self) -> bool:
        """Return True if no object is unfinished."""
        return self._depth == 0

    def unfinished(self) -> list[Frame]:
        """Return no frame, because an unfinished object is none."""
        return []


class JsonLines:
    """Splits lines of JSON into frames. A line may be a piece of an object that is spread over several lines."""

    __slots__ = ("_lines", "limit")

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit: int = limit
        self._lines = _LineSplitter()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the lines that `data` completes, but no blank ones. Raise `FrameTooLarge` beyond the limit."""
        frames: list[Frame] = []
        for line in self._lines.split(data):
            if len(line) > self.limit:
                raise FrameTooLarge(self.limit, frames)
            if line and not line.isspace():
                frames.append((b"", line))
        if len(self._lines.buffer) > self.limit:
            raise FrameTooLarge(self.limit, frames)
        return frames

    def unfinished(self) -> list[Frame]:
        """Return the last line, which may be incomplete."""
        line = self._lines.unfinished_line()
        return [(b"", line)] if line.strip() else []


Framing = EventStream | JsonObjects | JsonLines


def write_event(data: bytes, name: bytes = b"") -> bytes:
    """Return one server-sent event. Each line of `data` gets its own `data` field."""
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(data.splitlines() + ([b""] if data[-1:] in b"\r\n" else []))
    return b"event: " + name + b"\ndata: " + data + b"\n\n" if name else b"data: " + data + b"\n\n"


class JsonArray:
    """Writes objects one by one as a JSON array."""

    __slots__ = ("_has_object",)

    def __init__(self) -> None:
        self._has_object = False

    def write(self, data: bytes) -> bytes:
        """Return the bytes for the next object `data`."""
        separator = b",\r\n" if self._has_object else b"["
        self._has_object = True
        return separator + data

    def close(self) -> bytes:
        """Return the bytes that end the array."""
        return b"]" if self._has_object else b"[]"
