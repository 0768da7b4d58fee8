"""OpenAI's Chat Completions, and the many servers that speak it."""

from toolwire.dialects.openai_chat.error import decode_error, encode_error
from toolwire.dialects.openai_chat.messages import decode_later, encode_later
from toolwire.dialects.openai_chat.parts import DIALECT, WIRE
from toolwire.dialects.openai_chat.request import SETTING_PATHS, decode_request, encode_request
from toolwire.dialects.openai_chat.response import decode_response, encode_response
from toolwire.dialects.openai_chat.stream_decoder import decode_stream
from toolwire.dialects.openai_chat.stream_encoder import encode_stream
from toolwire.dialects.openai_chat.traits import TRAITS

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
