"""What streams have in common in every dialect: reading one, writing one, what belongs together in it."""

from toolwire.streams.reading import DONE, NOT_UTF8, TWICE, Speech, StreamDecoder, repair
from toolwire.streams.writing import (
    BROKEN_OFF,
    SequentialEncoder,
    StreamEncoder,
    encode_json,
    is_own,
    left_at_step,
)

__all__ = [
    "BROKEN_OFF",
    "DONE",
    "NOT_UTF8",
    "TWICE",
    "SequentialEncoder",
    "Speech",
    "StreamDecoder",
    "StreamEncoder",
    "encode_json",
    "is_own",
    "left_at_step",
    "repair",
]
