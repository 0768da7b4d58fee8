"""The parts of reading and writing a stream that all dialects share."""

from toolwire.streams.reading import DONE, PartBuilder, StreamDecoder, WireDecoder, repair
from toolwire.streams.writing import (
    ARGUMENTS_CHANGED,
    CUT_FREE_TEXT,
    AnyTextDelta,
    SequentialEncoder,
    StreamEncoder,
    encode_json,
)

__all__ = [
    "ARGUMENTS_CHANGED",
    "CUT_FREE_TEXT",
    "DONE",
    "AnyTextDelta",
    "PartBuilder",
    "SequentialEncoder",
    "StreamDecoder",
    "StreamEncoder",
    "WireDecoder",
    "encode_json",
    "repair",
]
