"""Tool definitions, calls and results of a provider, in three functions."""

from toolwire.translation.codec import decode_tool_calls, encode_definitions, encode_result, encode_results

__all__ = ["decode_tool_calls", "encode_definitions", "encode_result", "encode_results"]
