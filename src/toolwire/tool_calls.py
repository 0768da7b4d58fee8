"""The calls of an answer, by whichever protocol the model wrote them."""

from toolwire.text_tagged.tool_calls import CallError, Parsed, extract, extract_or_raise, native

__all__ = ["CallError", "Parsed", "extract", "extract_or_raise", "native"]
