"""What streams have in common in every dialect: reading one, writing one, what belongs together in it."""

from toolwire.streams.quick import QuickDecoder
from toolwire.streams.reading import DONE, NOT_UTF8, TWICE, Speech, StreamDecoder, WireDecoder, repair
from toolwire.streams.writing import SequentialEncoder, StreamEncoder, WordsDelta, encode_json

__all__ = [
    "DONE",
    "NOT_UTF8",
    "TWICE",
    "SequentialEncoder",
    "Speech",
    "StreamDecoder",
    "StreamEncoder",
    "WireDecoder",
    "WordsDelta",
    "encode_json",
    "offer",
    "repair",
]


def offer(decoder: WireDecoder, volatile: bytes | None = None) -> StreamDecoder:
    """Give a decoder as its dialect offers it: with the short way for frames that repeat each other.

    `volatile` is the key under which such frames differ and tell nothing. Plain reading is `return decoder`.
    """
    return QuickDecoder(decoder, volatile)
