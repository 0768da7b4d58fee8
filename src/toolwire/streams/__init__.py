"""What streams have in common in every dialect: reading one, writing one, what belongs together in it."""

from toolwire.streams.reading import DONE, NOT_UTF8, TWICE, Speech, StreamDecoder, WireDecoder, repair
from toolwire.streams.writing import (
    CUT_FREE_TEXT,
    TOLD_OTHERWISE,
    SequentialEncoder,
    StreamEncoder,
    WordsDelta,
    encode_json,
)

__all__ = [
    "CUT_FREE_TEXT",
    "DONE",
    "NOT_UTF8",
    "TOLD_OTHERWISE",
    "TWICE",
    "SequentialEncoder",
    "Speech",
    "StreamDecoder",
    "StreamEncoder",
    "WireDecoder",
    "WordsDelta",
    "encode_json",
    "repair",
]
