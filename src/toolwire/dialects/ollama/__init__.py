"""Ollama's native chat."""

from toolwire.dialects.ollama.error import decode_error, encode_error
from toolwire.dialects.ollama.messages import decode_later, encode_later
from toolwire.dialects.ollama.parts import DIALECT, WIRE
from toolwire.dialects.ollama.request import SETTING_PATHS, decode_request, encode_request
from toolwire.dialects.ollama.response import decode_response, encode_response
from toolwire.dialects.ollama.stream_decoder import decode_stream
from toolwire.dialects.ollama.stream_encoder import encode_stream
from toolwire.dialects.ollama.traits import TRAITS

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
