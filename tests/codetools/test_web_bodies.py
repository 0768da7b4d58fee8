"""What servers send: packed, endless, broken, or in odd characters."""

import gzip
import random
import socket
import time
import zlib
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codetools.web_lab import PUBLIC, Answer, Mapped, answer, get, packed, serving, zipped
from toolwire.codetools.fetching import Fetched, Unpacking
from toolwire.codetools.readable import CODECS, detect_codec, is_text, is_valid, iterate_text
from toolwire.errors import ToolError

MIB = 1024 * 1024


def fetched(say: Answer, limit: int = MIB, seconds: float = 10) -> Fetched:
    with serving(say) as server:
        network = Mapped({PUBLIC: server}, {"a.example": [PUBLIC]})
        return get("http://a.example/", network, limit=limit, seconds=seconds)


def refused(say: Answer, *words: str, limit: int = MIB) -> str:
    with pytest.raises(ToolError) as caught:
        fetched(say, limit)
    told = str(caught.value)
    assert all(word in told for word in words), told
    return told


MEMBERS = gzip.compress(b"one ") + gzip.compress(b"two ") + b"\0" * 512 + gzip.compress(b"three")
NOISE = random.Random(5).randbytes(300_000)  # noqa: S311 - the same for everybody


@pytest.mark.parametrize(
    ("say", "body"),
    [
        (zipped(b"hello"), b"hello"),
        (packed(gzip.compress(b"hello"), "X-GZIP"), b"hello"),
        (packed(b"hello", "identity"), b"hello"),
        (packed(b"hello", ""), b"hello"),
        (packed(b"", "gzip"), b""),
        (packed(MEMBERS), b"one two three"),
        (zipped(b"x" * MIB), b"x" * MIB),
        (zipped(NOISE), NOISE),
    ],
    ids=["gzip", "x-gzip", "identity", "nothing", "empty", "members", "exact", "noise"],
)
@pytest.mark.row("E12")
def test_gzip_is_read(say: bytes, body: bytes) -> None:
    found = fetched(say)
    assert found.body == body
    assert not found.cut


@pytest.mark.parametrize(
    ("say", "word"),
    [
        (packed(b"x", "br"), "br"),
        (packed(b"x", "zstd"), "zstd"),
        (packed(zlib.compress(b"x"), "deflate"), "deflate"),
        (packed(gzip.compress(gzip.compress(b"x")), "gzip, gzip"), "gzip, gzip"),
        (packed(gzip.compress(b"x"), "identity, gzip"), "identity, gzip"),
        (packed(b"x", "\x1b[2Jnew\u00ff"), "x1b"),
        (packed(gzip.compress(b"x" * 1000)[:-1]), "too early"),
        (packed(gzip.compress(NOISE)[:-9]), "too early"),
        (packed(MEMBERS[:-3]), "too early"),
        (packed(MEMBERS + b"rest"), "not proper gzip"),
        (packed(b"hello"), "not proper gzip"),
        (packed(gzip.compress(b"x")[:-8] + b"\1\2\3\4\1\0\0\0"), "not proper gzip"),
        (packed(gzip.compress(b"") * 1500), "parts"),
    ],
    ids="br zstd deflate twice both odd trailer half member rest none checksum parts".split(),
)
@pytest.mark.row("E12")
def test_other_codings_and_broken_ones_are_errors(say: bytes, word: str) -> None:
    refused(say, word)


@pytest.mark.row("E12")
def test_a_bomb_is_cut() -> None:
    bomb = gzip.compress(bytes(20 * MIB), 9)
    assert len(bomb) < 100_000
    found = fetched(packed(bomb))
    assert found.cut
    assert len(found.body or b"") == MIB


@pytest.mark.row("E12")
def test_what_is_packed_twice_is_unpacked_once() -> None:
    double = gzip.compress(gzip.compress(bytes(20 * MIB), 9), 9)
    found = fetched(packed(double))
    assert found.body == gzip.decompress(double)


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=4),
    st.integers(0, 400),
    st.lists(st.integers(0, 500), max_size=5),
)
@pytest.mark.row("E12")
def test_however_it_is_cut_into_pieces_the_body_is_the_same(bodies: list[bytes], limit: int, cuts: list[int]) -> None:
    whole, wire = b"".join(bodies), b"".join(map(gzip.compress, bodies))
    unpacking = Unpacking("gzip", limit)
    places = [0, *sorted(cuts), len(wire)]
    for begin, end in pairwise(places):
        unpacking.feed(wire[begin:end])
    unpacking.finish()
    assert unpacking.data == whole[:limit]
    assert unpacking.cut is (len(whole) > limit)


def raw(*parts: bytes, pause: float = 0) -> Callable[[bytes, socket.socket], None]:
    def say(_: bytes, connection: socket.socket) -> None:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)

    return say


def endless(head: bytes, part: bytes) -> Callable[[bytes, socket.socket], None]:
    def say(_: bytes, connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(part)

    return say


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "say",
    [
        endless(OK + b"\r\n", b"x" * 10_000),
        endless(CHUNKED, b"2710\r\n" + b"x" * 10_000 + b"\r\n"),
        raw(OK + b"Content-Length: 1000000000000\r\n\r\n", b"x" * 200_000),
    ],
    ids=["no length", "chunked", "huge length"],
)
@pytest.mark.row("E13")
def test_an_endless_body_is_cut_at_the_limit(say: Answer) -> None:
    found = fetched(say, 100_000)
    assert found.body == b"x" * 100_000
    assert found.cut


@pytest.mark.row("E13")
def test_a_body_without_length_ends_with_the_connection() -> None:
    assert fetched(raw(OK + b"\r\nhello")).body == b"hello"
    assert fetched(raw(b"HTTP/1.0 200 OK\r\n\r\nhello")).body == b"hello"


@pytest.mark.parametrize(
    "say",
    [
        raw(OK + b"Content-Length: 10\r\n\r\nshort"),
        raw(OK + b"Content-Length: -1\r\n\r\nx"),
        raw(OK + b"Content-Length: 1" + b"0" * 30 + b"\r\n\r\nx"),
        raw(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
        raw(CHUNKED + b"5\r\nhel"),
        raw(CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n"),
        raw(CHUNKED + b"5\r\nhello\r\n"),
        raw(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n"),
        endless(CHUNKED, b"1;" + b"e" * 10_000 + b"\r\nx\r\n"),
    ],
    ids="smaller negative huge two half no-size no-end coding extensions".split(),
)
@pytest.mark.row("E13")
def test_a_length_that_is_not_true_is_an_error(say: Answer) -> None:
    refused(say)


@pytest.mark.row("E13")
def test_what_comes_after_the_length_is_not_read() -> None:
    assert fetched(raw(OK + b"Content-Length: 5\r\n\r\nhello, world")).body == b"hello"


@pytest.mark.row("E13")
def test_a_body_that_trickles_is_not_waited_for() -> None:
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        fetched(raw(OK + b"Content-Length: 1000\r\n\r\n", *[b"x"] * 8, pause=0.05), seconds=0.15)
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    "say",
    [
        raw(OK + b"".join(b"h%d: x\r\n" % n for n in range(100_000)) + b"\r\n"),
        raw(OK + b"big: " + b"x" * MIB + b"\r\n\r\n"),
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        endless(b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
        endless(b"", b"x" * 1000),
        raw(b"hello, I am HTTP/0.9"),
        raw(b"HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nname: a\0b\r\n\r\n"),
        raw(b"HTTP/1.1 999999 OK\r\n\r\n"),
        raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        raw(b""),
        raw(b"HTTP/1.1 200"),
    ],
    ids="many big continue hints garbage 0.9 name nul status switch nothing half".split(),
)
@pytest.mark.row("E14")
def test_a_head_that_is_none_is_an_error(say: Answer) -> None:
    refused(say)


@pytest.mark.parametrize(
    ("say", "status", "body"),
    [
        (raw(b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"), 204, b""),
        (raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + OK + b"Content-Length: 1\r\n\r\nx"), 200, b"x"),
        (raw(OK + b"folded: a\r\n b\r\nContent-Length: 1\r\n\r\nx"), 200, b"x"),
        (raw(b"HTTP/9.9 200 OK\r\n\r\nx"), 200, b"x"),
        (raw(OK + b"name: \xff\xfe\r\nContent-Length: 1\r\n\r\nx"), 200, b"x"),
    ],
    ids=["204", "continue", "folded", "version", "bytes"],
)
@pytest.mark.row("E14")
def test_odd_heads_are_read(say: Answer, status: int, body: bytes) -> None:
    found = fetched(say)
    assert (found.status, found.body) == (status, body)


@pytest.mark.parametrize("codec", sorted(set(CODECS.values())))
@pytest.mark.row("E15")
def test_every_codec_of_the_list_reads_any_bytes(codec: str) -> None:
    body = bytearray(NOISE[:70_000])
    assert "".join(iterate_text(body, codec))
    assert isinstance(is_text(body, codec), bool)


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain; charset=utf-8", "h\u00e9".encode(), "h\u00e9"),
        ("text/plain; charset=ISO-8859-1", b"h\xe9 \x80", "h\u00e9 \u20ac"),
        ('text/plain; charset="utf-16"', "h\u00e9".encode("utf-16-le"), "h\u00e9"),
        ("text/plain; charset=utf-16", b"h\xe9llo", None),
        ("text/plain", "h\u00e9".encode(), "h\u00e9"),
        ("text/plain", b"h\xe9", "h\u00e9"),
        ("text/plain; charset=zip", b"h\xe9", "h\u00e9"),
        ("text/plain; charset=base64", b"aGk=", "aGk="),
        ("text/plain; charset=hex", b"6869", "6869"),
        ("text/plain; charset=rot13", b"uv", "uv"),
        ("text/plain; charset=unicode_escape", b"\\x41", "\\x41"),
        ("text/plain; charset=../x", b"x", "x"),
        ("text/plain; charset=utf-7", b"+AGE-", "+AGE-"),
        ("text/plain; charset=", b"x", "x"),
        ("text/plain; charset=utf-8", b"h\xe9 x", "h\ufffd x"),
        ("text/plain; charset=iso-8859-1", b"\xef\xbb\xbf" + "h\u00e9".encode(), "h\u00e9"),
        ("text/plain; charset=utf-8", b"\xff\xfe" + "h\u00e9".encode("utf-16-le"), "h\u00e9"),
        ("text/plain", b"\xfe\xff" + "h\u00e9".encode("utf-16-be"), "h\u00e9"),
        ("text/html", b'<meta charset="windows-1251">\xef', '<meta charset="windows-1251">\u043f'),
        ("text/html", b"<meta http-equiv=x content='text/html; charset=koi8-r'>\xd0", None),
        ("text/html", b"<meta charset=utf-16>\xc3\xa9", "<meta charset=utf-16>\u00e9"),
        ("text/html", b"<meta charset=zlib>x", "<meta charset=zlib>x"),
        ("text/xml", b"<?xml version='1.0' encoding='iso-8859-2'?>\xb1", None),
        ("text/plain; charset=shift_jis", "\u65e5\u672c".encode("cp932"), "\u65e5\u672c"),
        ("text/plain; charset=GBK", "\u4e2d\u6587".encode("gbk"), "\u4e2d\u6587"),
        ("text/plain; charset=euc-kr", "\ud55c".encode("cp949"), "\ud55c"),
    ],
)
@pytest.mark.row("E15")
def test_the_codec_is_taken_from_a_list(kind: str, body: bytes, text: str | None) -> None:
    codec = detect_codec(kind, bytearray(body))
    read = "".join(iterate_text(bytearray(body), codec))
    assert codec in CODECS.values()
    if text is not None:
        assert read == text


@pytest.mark.row("E15")
def test_what_is_cut_in_the_middle_of_a_character_stays_what_it_is() -> None:
    body = bytearray("\u65e5\u672c".encode()[:-1])
    assert detect_codec("text/plain", body, cut=True) == "utf-8"
    assert "".join(iterate_text(body, "utf-8", final=False)) == "\u65e5"
    assert not is_valid(body, "utf-8")
    assert is_valid(body, "utf-8", cut=True)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", False),
        (b"\x1f\x8b\x08" + NOISE[:500], False),
        (NOISE[:500], False),
        (b"a\0b", False),
        (b"", True),
        (b"tabs\tand\r\nlines\x0c\x1b[1m", True),
        ("h\u00e9".encode(), True),
    ],
)
@pytest.mark.row("E16")
def test_bytes_that_are_no_text_are_known_by_their_looks(body: bytes, text: bool) -> None:
    assert is_text(bytearray(body), detect_codec("text/plain", bytearray(body))) is text
    assert answer(body)
