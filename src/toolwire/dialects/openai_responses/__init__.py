"""OpenAI's Responses, and the servers that speak it."""

from toolwire.dialects.openai_responses.error import decode_error, encode_error
from toolwire.dialects.openai_responses.messages import decode_later, encode_later
from toolwire.dialects.openai_responses.parts import DIALECT, WIRE
from toolwire.dialects.openai_responses.request import SETTING_PATHS, decode_request, encode_request
from toolwire.dialects.openai_responses.response import decode_response, encode_response
from toolwire.dialects.openai_responses.stream_decoder import decode_stream
from toolwire.dialects.openai_responses.stream_encoder import encode_stream
from toolwire.dialects.openai_responses.traits import TRAITS

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
