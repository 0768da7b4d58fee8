"""Tool calls in a model's text, for models without native calls: the format `tagged` of `toolwire.text`.

Rules of this module:
- Only the text of the current answer is parsed, and only for tools that were offered. Text in results, in user messages
  and in the history is never a call, and neither is text in code, comments or thinking. A block that repeats the input
  is a quotation.
- A block that is not a valid call is an error with a reason. It does not affect the valid calls of the answer.
- The same text yields the same calls and ids, however the stream was split.
"""

from toolwire.text.calls import CallError, Parsed
from toolwire.text.looks import look_of_call
from toolwire.text.overlay.dialect import TextDialect as TextTagged
from toolwire.text.overlay.dialect import over
from toolwire.text.quoting import texts_given
from toolwire.text.tagged.blocks import parse, parse_or_raise
from toolwire.text.tagged.call_blocks import calls_in_text
from toolwire.text.tagged.forms import READERS
from toolwire.text.tagged.prompting import augment_system_prompt

__all__ = [
    "READERS",
    "CallError",
    "Parsed",
    "TextTagged",
    "augment_system_prompt",
    "calls_in_text",
    "look_of_call",
    "over",
    "parse",
    "parse_or_raise",
    "texts_given",
]
