"""Tool calls in a model's text, for models that have no calls of their own: the format `tagged` of `toolwire.text`.

Rules of this door:
- Only the text of the present answer is read, and only for tools that were offered. Text in results, in a
  user's messages and in a history is never a call, and neither is what stands in code, comments or thoughts. A block
  that repeats what the model was given is a quotation.
- A block that is no call is an error that says why; it never takes the good calls of its answer with it.
- The same text gives the same calls and ids, however it was cut.
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
