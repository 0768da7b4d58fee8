"""Finds the tool calls of an answer, in whichever format the model wrote them."""

from toolwire.text import native
from toolwire.text.calls import CallError, Parsed
from toolwire.text.extracting import extract, extract_or_raise
from toolwire.text.tagged.prompting import augment_system_prompt

__all__ = ["CallError", "Parsed", "augment_system_prompt", "extract", "extract_or_raise", "native"]
