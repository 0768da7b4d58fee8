"""What streams have in common in every dialect: reading one, writing one, what belongs together in it."""

from toolwire.streams.reading import DONE, Speech, StreamDecoder, WireDecoder, repair
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
    "TOLD_OTHERWISE",
    "SequentialEncoder",
    "Speech",
    "StreamDecoder",
    "StreamEncoder",
    "WireDecoder",
    "WordsDelta",
    "encode_json",
    "repair",
]
