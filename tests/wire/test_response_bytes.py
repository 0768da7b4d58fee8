"""Where bytes of a connection are cut: a parser never holds what follows the end of its response."""

import random

import h11
import pytest

from toolwire.wire.response_bytes import ResponseBytes

MESSAGES = 1_500


def a_response(chance: random.Random) -> bytes:
    """Write a response of any framing, with the spellings that h11 reads."""
    line = chance.choice([b"\r\n"] * 4 + [b"\n"])
    form = chance.choice(["sized", "sized", "chunks", "chunks", "chunks", "no body", "empty"])
    interim = b"HTTP/1.1 103 Hints" + line + b"a: b" + line + line if chance.random() < 0.2 else b""
    body = bytes(chance.choice(b"\r\n0ab;: \n\n0") for _ in range(chance.randrange(1, 60)))
    head = interim + b"HTTP/1.1 %d OK" % (204 if form == "no body" else 200) + line
    head += b"X-A: 0" + line if chance.random() < 0.5 else b""
    match form:
        case "sized":
            return head + b"Content-Length:%s%d" % (chance.choice([b" ", b"", b"\t"]), len(body)) + line + line + body
        case "empty":
            return head + b"content-length: 0" + line + line
        case "no body":
            return head + chance.choice([b"", b"content-length: 5" + line]) + line
    return head + b"Transfer-Encoding: chunked" + line + line + in_chunks(body, chance)


def in_chunks(body: bytes, chance: random.Random) -> bytes:
    written, start = b"", 0
    while start < len(body):
        piece = body[start : start + chance.randrange(1, 20)]
        start += len(piece)
        size = chance.choice([b"%x", b"00%x"]) % len(piece) + chance.choice([b"", b"", b";ext=0"])
        written += size + b"\r\n" + piece + b"\r\n"
    last = chance.choice([b"0", b"000"]) + chance.choice([b"", b";x=y"]) + b"\r\n"
    return written + last + chance.choice([b"", b"", b"T: 0\r\nU: 1\r\n"]) + chance.choice([b"\r\n", b"\n"])


def read_all(responses: list[bytes], data: bytes, cuts: list[int], *, cut: bool = True) -> list[bytes]:
    """Read responses with h11, each after a request; give what it holds after each that does not belong to it."""
    received = ResponseBytes()
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        if start < end:
            received.add(data[start:end])
    reader, held = h11.Connection(h11.CLIENT), []
    for _ in responses:
        reader.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
        reader.send(h11.EndOfMessage())
        received.begin()
        while not isinstance(event := reader.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                piece = received.take() if cut else data
                assert piece, "bytes were held back"
                reader.receive_data(piece)
        held.append(bytes(reader.trailing_data[0]))
        reader.start_next_cycle()
        if not cut:
            break
    return held


@pytest.mark.parametrize("block", range(8))
def test_a_parser_never_holds_what_follows_a_response(block: int) -> None:
    for seed in range(block * MESSAGES, (block + 1) * MESSAGES):
        chance = random.Random(seed)  # noqa: S311 - repeatable
        responses = [a_response(chance) for _ in range(chance.randrange(1, 4))]
        data = b"".join(responses) + chance.choice([b"", b"HTTP/1.1 408 X\r\n", b"x", b"\r\n"])
        cuts = sorted(chance.randrange(len(data)) for _ in range(chance.randrange(6)))
        try:
            assert not any(read_all(responses, data, cuts)), (seed, data, cuts)
        except h11.RemoteProtocolError:
            continue  # a spelling that h11 refuses


def test_without_cuts_a_parser_holds_the_next_response() -> None:
    """The control."""
    one = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
    assert read_all([one, one], one * 2, [], cut=False) == [one]


def test_the_size_is_what_was_not_taken() -> None:
    received = ResponseBytes()
    received.add(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP")
    assert [received.take(), received.take(), received.size] == [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n",
        b"{}",
        4,
    ]
