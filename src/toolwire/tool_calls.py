"""Finds the calls of an answer, in whichever protocol the model wrote them."""

from toolwire.text_tagged import augment_system_prompt
from toolwire.text_tagged.tool_calls import CallError, Parsed, extract, extract_or_raise, native

__all__ = ["CallError", "Parsed", "augment_system_prompt", "extract", "extract_or_raise", "native"]
