"""Anthropic's Messages API."""

from toolwire.dialects.anthropic.error import decode_error, encode_error
from toolwire.dialects.anthropic.parts import DIALECT
from toolwire.dialects.anthropic.request import SETTING_PATHS, decode_request, encode_request
from toolwire.dialects.anthropic.response import decode_response, encode_response

__all__ = [
    "DIALECT",
    "SETTING_PATHS",
    "decode_error",
    "decode_request",
    "decode_response",
    "encode_error",
    "encode_request",
    "encode_response",
]
