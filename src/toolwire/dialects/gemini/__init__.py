"""Google's Gemini, over generateContent."""

from toolwire.dialects.gemini.error import decode_error, encode_error
from toolwire.dialects.gemini.messages import decode_later, encode_later
from toolwire.dialects.gemini.parts import DIALECT, WIRE
from toolwire.dialects.gemini.request import SETTING_PATHS, decode_request, encode_request
from toolwire.dialects.gemini.response import decode_response, encode_response
from toolwire.dialects.gemini.stream_decoder import decode_stream
from toolwire.dialects.gemini.stream_encoder import encode_stream
from toolwire.dialects.gemini.traits import TRAITS

__all__ = [
    "DIALECT",
    "SETTING_PATHS",
    "TRAITS",
    "WIRE",
    "decode_error",
    "decode_later",
    "decode_request",
    "decode_response",
    "decode_stream",
    "encode_error",
    "encode_later",
    "encode_request",
    "encode_response",
    "encode_stream",
]
