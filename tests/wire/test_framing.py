"""Framing: the same frames however the bytes were cut, and server-sent events as the WHATWG says."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.wire.framing import (
    BOM,
    STRAY,
    EventStream,
    Frame,
    JsonArray,
    JsonLines,
    JsonObjects,
    write_event,
)

Event = tuple[str, str, str]


def event(data: str, name: str = "", last_id: str = "") -> Event:
    return name, data, last_id


def pieces_of(data: bytes) -> Iterator[list[bytes]]:
    """Cut bytes in every way that is tried: not at all, once at every place, everywhere."""
    for cut in range(len(data) + 1):
        yield [data[:cut], data[cut:]]
    yield [data[place : place + 1] for place in range(len(data))]
    yield [b"", *(data[place : place + 3] for place in range(0, len(data), 3)), b""]


LONG = "x" * 3000
EVENTS: dict[str, tuple[bytes, list[Event]]] = {
    "nothing": (b"", []),
    "blank lines": (b"\n\n\r\n\r\r\n", []),
    "one event": (b"data: a\n\n", [event("a")]),
    "a mark": (b"\xef\xbb\xbfdata:a\n\n", [event("a")]),
    "two marks": (b"\xef\xbb\xbf\xef\xbb\xbfdata:a\n\ndata:b\n\n", [event("b")]),
    "a late mark": (b"data:a\n\n\xef\xbb\xbfdata:b\n\ndata:c\n\n", [event("a"), event("c")]),
    "a mark after a blank line": (b"\n\xef\xbb\xbfdata:a\n\ndata:b\n\n", [event("b")]),
    "a mark alone": (b"\xef\xbb\xbf", []),
    "half a mark": (b"\xef\xbbdata:a\n\ndata:b\n\n", [event("b")]),
    "a mark within data": (b"data:\xef\xbb\xbfa\n\n", [event("\ufeffa")]),
    "ends with LF": (b"data: a\ndata: b\n\ndata: c\n\n", [event("a\nb"), event("c")]),
    "ends with CRLF": (b"data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", [event("a\nb"), event("c")]),
    "ends with CR": (b"data: a\rdata: b\r\rdata: c\r\r", [event("a\nb"), event("c")]),
    "ends of all kinds": (
        b"data:a\r\ndata\ndata:b\rdata:c\n\r\ndata:d\r\n\r",
        [event("a\n\nb\nc"), event("d")],
    ),
    "LF and CR are two ends": (b"data:a\n\rdata:b\n\n", [event("a"), event("b")]),
    "CR, LF, LF": (b"data:a\r\n\ndata:b\r\r\n", [event("a"), event("b")]),
    "no last line": (b"data:a\n\nid:1\ndata:b\n", [event("a")]),
    "no end of the last line": (b"data:a\n\ndata:b", [event("a")]),
    "no end of the blank line": (b"data:a\r\n\r", [event("a")]),
    "comments": (
        f"data:a\r:\0\n:\r\ndata:b\n:{LONG}\rdata:c\n:data:x\r: event: y\ndata:d\n\n: ping\n\n".encode(),
        [event("a\nb\nc\nd")],
    ),
    "data that is empty": (b"data:\n\ndata\ndata\n\ndata: \n\n", [event(""), event("\n"), event("")]),
    "data without a colon": (b"data\n\ndata:a\ndata\ndata:b\n\n", [event(""), event("a\n\nb")]),
    "one space is left out": (b"data: a\n\ndata:  b\n\n", [event("a"), event(" b")]),
    "a tab stays": (b"data:\ta\rdata: \ndata:b\n\n", [event("\ta\n\nb")]),
    "a space at the end stays": (b"data: a \n\n", [event("a ")]),
    "colons in data": (b"data:a:b: c\n\ndata::\n\n", [event("a:b: c"), event(":")]),
    "data that looks like a field": (b"data:data:a\n\ndata: id: 1\n\n", [event("data:a"), event("id: 1")]),
    "names in the wrong case": (b"Data:a\nDATA:b\ndata:c\nEvent:d\nID:e\n\n", [event("c")]),
    "names with a space": (b" data:a\ndata :b\n\tdata:c\ndata:d\n event:e\n\n", [event("d")]),
    "names with NUL": (b"\0data:a\ndata\0:b\nda\0ta:c\ndata:d\n\n", [event("d")]),
    "other names": (b"da-ta:a\ndata_5\ndatab:b\ndat:c\nwords alone\nx:y\ndata:d\n\n", [event("d")]),
    "NUL in data": (b"data:\0\n\ndata: a\0b\n\n", [event("\0"), event("a\0b")]),
    "a name": (
        b"event:a\ndata:1\n\nevent: b\ndata: 2\n\ndata: 3\n\n",
        [event("1", "a"), event("2", "b"), event("3")],
    ),
    "a name after the data": (b"data: 1\nevent: a\n\n", [event("1", "a")]),
    "a name that is empty": (b"event: \ndata: 1\n\nevent\ndata: 2\n\n", [event("1"), event("2")]),
    "a name that is taken back": (
        b"event:a\nevent:\ndata:1\n\nevent:a\nevent:b\ndata:2\n\n",
        [event("1"), event("2", "b")],
    ),
    "a name without data": (b"event: a\n\ndata: 1\n\n", [event("1")]),
    "a name with spaces": (b"event:  a b \ndata: 1\n\n", [event("1", " a b ")]),
    "a name of any letters": ("event: é\u2028\ndata: 1\n\n".encode(), [event("1", "é\u2028")]),
    "an id": (b"id: 1\ndata: a\n\ndata: b\n\n", [event("a", last_id="1"), event("b", last_id="1")]),
    "an id after the data": (b"data: a\nid:1\n\n", [event("a", last_id="1")]),
    "ids": (b"id:1\ndata:a\n\nid: x y\ndata:b\n\n", [event("a", last_id="1"), event("b", last_id="x y")]),
    "an id of any letters": ("id: …é\ndata:a\n\n".encode(), [event("a", last_id="…é")]),
    "an id that is empty": (
        b"id:1\ndata:a\n\nid:\ndata:b\n\nid:2\nid\ndata:c\n\n",
        [event("a", last_id="1"), event("b"), event("c")],
    ),
    "an id with NUL": (
        b"id:1\ndata:a\n\nid:2\0\ndata:b\n\n",
        [event("a", last_id="1"), event("b", last_id="1")],
    ),
    "an id without data": (b"id:1\n\ndata:a\n\n", [event("a", last_id="1")]),
    "an id of what nothing ended": (b"id:1\ndata:a\n\nid:2\ndata:b\n", [event("a", last_id="1")]),
    "a time to wait": (b"retry:3000\ndata:a\n\n", [event("a")]),
    "letters of two bytes": ("data: é\u0085ß\n\n".encode(), [event("é\u0085ß")]),
    "letters of three bytes": ("data: …€日本\n\n".encode(), [event("…€日本")]),
    "letters of four bytes": ("data: 😀𝄞\n\n".encode(), [event("😀𝄞")]),
    "what only Python ends a line with": (
        'data: {"a":"\u2028\u2029\u0085\v\f\x1c\x1d\x1e"}\n\n'.encode(),
        [event('{"a":"\u2028\u2029\u0085\v\f\x1c\x1d\x1e"}')],
    ),
    "too long a form": (b"data: a\xc0\x80b\n\n", [event("a\ufffd\ufffdb")]),
    "half a pair of surrogates": (b"data: \xed\xa0\x80\n\n", [event("\ufffd\ufffd\ufffd")]),
    "no UTF-8 at all": (b"data: \xff\xfe\xf8\n\ndata: b\n\n", [event("\ufffd\ufffd\ufffd"), event("b")]),
    "half a letter, then the end": (
        b"data: \xe2\x80\n\ndata: \xf0\x9f\x98\r\n\r\n",
        [event("\ufffd"), event("\ufffd")],
    ),
    "usual and unusual events in turn": (
        b"event: a\ndata: 1\n\nevent: b\ndata: 2\r\n\r\ndata: 3\n\n:x\ndata: 4\n\nevent:c\ndata: 5\n\n",
        [event("1", "a"), event("2", "b"), event("3"), event("4"), event("5", "c")],
    ),
    "a name, then a usual event": (
        b"data: 0\n\nevent: a\nevent: b\ndata: 1\n\n",
        [event("0"), event("1", "b")],
    ),
    "an id, then a usual event": (
        b"data: 0\n\nid: 1\nevent: b\ndata: 1\n\n",
        [event("0"), event("1", "b", last_id="1")],
    ),
    "data, then a usual event": (b"data: 0\n\ndata:1\ndata: 2\n\n", [event("0"), event("1\n2")]),
}  # fmt: skip


def told(pieces: list[bytes], *, at_once: bool = False) -> list[Event]:
    """Give the events that a reader of the WHATWG's kind would dispatch."""
    stream, found = EventStream(), []
    for piece in pieces:
        frames = [frame for frame in stream.feed(piece) if frame[0] != STRAY]
        if not at_once:
            assert len(frames) < 2
        for name, data in frames:
            found.append((name.decode(errors="replace"), data.decode(errors="replace"), stream.last_id))
    return found


@pytest.mark.parametrize(("data", "events"), EVENTS.values(), ids=EVENTS)
@pytest.mark.row("F3", "F4", "F5")
def test_server_sent_events(data: bytes, events: list[Event]) -> None:
    assert told([data[place : place + 1] for place in range(len(data))]) == events
    for pieces in pieces_of(data):
        found = told(pieces, at_once=True)
        assert [part[:2] for part in found] == [part[:2] for part in events], pieces
        assert not events or found[-1] == events[-1], pieces


RETRIES: dict[bytes, int | None] = {
    b"data:a\n\n": None,
    b"retry:3000\n": 3000,
    b"retry: 0300\n": 300,
    b"retry:3000\nretry:100x\n": 3000,
    b"retry:3000\nretry\nretry:\nretry:-1\nretry:1.5\nretry:  7\n": 3000,
    "retry:٣\n".encode(): None,
    b"retry:3000\nretry:1\n": 1,
    b"retry:" + b"9" * 5000 + b"\n": 10**18 - 1,
}


@pytest.mark.parametrize(("data", "retry"), RETRIES.items(), ids=[data.decode()[:24] for data in RETRIES])
@pytest.mark.row("F5")
def test_the_time_to_wait(data: bytes, retry: int | None) -> None:
    stream = EventStream()
    assert stream.feed(data) == [] or retry is None
    assert stream.retry == retry


def frames_of(make: Callable[[], Any], pieces: list[bytes]) -> tuple[list[Frame], list[Frame]]:
    """Give the frames, and what is left at the end."""
    framing = make()
    return [frame for piece in pieces for frame in framing.feed(piece)], framing.unfinished()


def stray(line: str) -> Frame:
    return STRAY, line.encode()


ERROR = b'{\n  "error": {\n    "code": 503\n  }\n}\n'
STRAYS: dict[str, tuple[bytes, list[Frame], list[Frame]]] = {
    "before, between and after": (
        b"x\ndata: 1\ny: z\n\n{\n",
        [stray("x"), stray("y: z"), (b"", b"1"), stray("{")],
        [],
    ),
    "an error as it stands": (ERROR, [stray(line) for line in ERROR.decode().splitlines()], []),
    "a line that nothing ended": (b"data: 1\n\n{}", [(b"", b"1")], [stray("{}")]),
    "an event that nothing ended": (b"event: a\ndata: 1\ndata: 2", [], [(b"a", b"1\n2")]),
    "an event whose blank line is missing": (b"data: 1\n", [], [(b"", b"1")]),
    "an event and a line": (b"data: 1\nx", [], [stray("x"), (b"", b"1")]),
    "a comment that nothing ended": (b": x", [], [stray(": x")]),
    "nothing": (b"data: 1\n\n", [(b"", b"1")], []),
}


@pytest.mark.parametrize(("data", "frames", "left"), STRAYS.values(), ids=STRAYS)
def test_what_is_no_event_is_told_apart(data: bytes, frames: list[Frame], left: list[Frame]) -> None:
    for pieces in pieces_of(data):
        assert frames_of(EventStream, pieces) == (frames, left), pieces


OBJECTS: dict[str, tuple[bytes, list[bytes]]] = {
    "nothing": (b" \n", []),
    "one": (b'{"a":1}', [b'{"a":1}']),
    "an empty one": (b"{}", [b"{}"]),
    "an array": (b'[{"a":1},{"b":2}]', [b'{"a":1}', b'{"b":2}']),
    "an array over lines": (b'[{"a":1}\r\n,\r\n{"b":\n2}\r\n]\r\n', [b'{"a":1}', b'{"b":\n2}']),
    "an empty array": (b"[]", []),
    "one after the other": (b'{"a":1}{"b":2}\n{"c":3} ,{}', [b'{"a":1}', b'{"b":2}', b'{"c":3}', b"{}"]),
    "over lines": (b'{\n"a": [\n1,\n {"b": 2}\n]\n}\n', [b'{\n"a": [\n1,\n {"b": 2}\n]\n}']),
    "within each other": (b'{"a":{"b":[{"c":[[]]},{}]}}', [b'{"a":{"b":[{"c":[[]]},{}]}}']),
    "braces in a text": (b'{"a":"}{][","}":"{"}{}', [b'{"a":"}{][","}":"{"}', b"{}"]),
    "quotes in a text": (
        rb'{"a":"\"}{\"","b":"\\"}{"c":"\\\""}',
        [rb'{"a":"\"}{\"","b":"\\"}', rb'{"c":"\\\""}'],
    ),
    "escapes in a text": (rb'[{"a":"\u007d\n\\\\"},{"\\":"}"}]', [rb'{"a":"\u007d\n\\\\"}', rb'{"\\":"}"}']),
    "any letters": ('{"é":"😀\u2028"}'.encode(), ['{"é":"😀\u2028"}'.encode()]),
    "a mark": (BOM + b'{"a":1}', [b'{"a":1}']),
    "values that are none": (b'1, true, {"a":1}, null ] } {"b":2}', [b'{"a":1}', b'{"b":2}']),
    "half of one": (b'{"a":1}{"b":[2}', [b'{"a":1}']),
    "half a text": (b'{"a":1}{"b":"}', [b'{"a":1}']),
    "half an escape": (b'{"a":1}{"b":"\\', [b'{"a":1}']),
    "not JSON": (b"{a: '}'}", [b"{a: '}"]),
}  # fmt: skip


@pytest.mark.parametrize(("data", "objects"), OBJECTS.values(), ids=OBJECTS)
def test_objects(data: bytes, objects: list[bytes]) -> None:
    for pieces in pieces_of(data):
        assert frames_of(JsonObjects, pieces) == ([(b"", found) for found in objects], []), pieces


LINES: dict[str, tuple[bytes, list[bytes], bytes]] = {
    "nothing": (b"", [], b""),
    "lines": (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}'], b""),
    "the last without an end": (b'{"a":1}\n{"b":2}', [b'{"a":1}'], b'{"b":2}'),
    "half a line": (b'{"a":1}\n{"b', [b'{"a":1}'], b'{"b'),
    "CRLF": (b'{"a":1}\r\n\r\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}'], b""),
    "CR": (b'{"a":1}\r{"b":2}\r', [b'{"a":1}', b'{"b":2}'], b""),
    "blank lines": (b'\n \n{"a":1}\n\n\t\n{"b":2}\n\n ', [b'{"a":1}', b'{"b":2}'], b""),
    "a mark": (BOM + b'{"a":1}\n', [b'{"a":1}'], b""),
    "what only Python ends a line with": ('"\u2028\u0085\v"\n'.encode(), ['"\u2028\u0085\v"'.encode()], b""),
}  # fmt: skip


@pytest.mark.parametrize(("data", "lines", "left"), LINES.values(), ids=LINES)
def test_lines(data: bytes, lines: list[bytes], left: bytes) -> None:
    expected = [(b"", line) for line in lines], [(b"", left)] if left else []
    for pieces in pieces_of(data):
        assert frames_of(JsonLines, pieces) == expected, pieces


json_objects = st.dictionaries(
    st.text('ab{}[]"\\\n\u2028é', max_size=3),
    st.recursive(
        st.none() | st.text('ab{}[]"\\\né😀', max_size=5) | st.integers(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text('a{"', max_size=2), inner),
        max_leaves=5,
    ),
    max_size=3,
)  # fmt: skip


@given(
    values=st.lists(json_objects, max_size=4),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
    step=st.integers(1, 9),
)
def test_any_objects_come_back(values: list[Any], indent: int | None, ascii_only: bool, step: int) -> None:
    written = [json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode() for value in values]
    array = JsonArray()
    whole = b"".join(map(array.write, written)) + array.close()
    assert json.loads(whole) == values
    cut = [whole[place : place + step] for place in range(0, len(whole), step)]
    assert frames_of(JsonObjects, cut)[0] == [(b"", data) for data in written]


def test_an_array_is_written_as_it_grows() -> None:
    array, empty = JsonArray(), JsonArray()
    assert [array.write(b"{}"), array.write(b'{"a":1}'), array.close()] == [b"[{}", b',\r\n{"a":1}', b"]"]
    assert empty.close() == b"[]"


WRITTEN: list[tuple[bytes, bytes, bytes]] = [
    (b"{}", b"", b"data: {}\n\n"),
    (b"{}", b"ping", b"event: ping\ndata: {}\n\n"),
    (b"", b"", b"data: \n\n"),
    (b"a\nb", b"", b"data: a\ndata: b\n\n"),
    (b"a\r\nb\rc", b"x", b"event: x\ndata: a\ndata: b\ndata: c\n\n"),
    (b"a\n", b"", b"data: a\ndata: \n\n"),
    (b"\n", b"", b"data: \ndata: \n\n"),
    (b" a", b"", b"data:  a\n\n"),
]


@pytest.mark.parametrize(("data", "name", "written"), WRITTEN)
def test_how_an_event_is_written(data: bytes, name: bytes, written: bytes) -> None:
    assert write_event(data, name) == written


@given(
    data=st.text("a :\n\r\0é\u2028\v{}", max_size=12).map(str.encode),
    name=st.text("ab:é \0", max_size=4).map(str.encode),
)
def test_what_is_written_is_read(data: bytes, name: bytes) -> None:
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for pieces in pieces_of(write_event(data, name) * 2):
        assert frames_of(EventStream, pieces) == ([(name, lines)] * 2, []), pieces
