"""What streams have in common in every dialect: reading one, writing one, what belongs together in it."""

from collections.abc import Callable

from toolwire.streams import quick
from toolwire.streams.reading import DONE, NOT_UTF8, TWICE, Speech, StreamDecoder, WireDecoder, repair
from toolwire.streams.writing import (
    CUT_FREE_TEXT,
    TOLD_OTHERWISE,
    Say,
    SequentialEncoder,
    StreamEncoder,
    WordsDelta,
    encode_json,
    say_between,
)

__all__ = [
    "CUT_FREE_TEXT",
    "DONE",
    "NOT_UTF8",
    "TOLD_OTHERWISE",
    "TWICE",
    "Say",
    "SequentialEncoder",
    "Speech",
    "StreamDecoder",
    "StreamEncoder",
    "WireDecoder",
    "WordsDelta",
    "encode_json",
    "offer",
    "relay",
    "repair",
    "say_between",
]


def offer(decoder: WireDecoder, volatile: bytes | None = None) -> StreamDecoder:
    """Give a decoder as its dialect offers it: with the short way for frames that repeat each other.

    `volatile` is the key under which such frames differ and tell nothing. Plain reading is `return decoder`.
    """
    return quick.QuickDecoder(decoder, volatile)


def relay(decoder: StreamDecoder, encoder: StreamEncoder) -> Callable[[bytes], bytes]:
    """Give what takes bytes to a decoder and gives what an encoder says of them: words go the short way.

    Plain relaying is `return lambda data: b"".join(map(encoder.feed, decoder.feed(data)))`.
    """
    return quick.relay(decoder, encoder)
