"""Tool calls in a model's own text: decode them while the text streams, and encode them.

A text format describes how one family of models writes its calls (for example `hermes` or `mistral`).

Rules of this package:
- A format is data: a row of `formats.toml`, or a table that the user passes. One engine for each shape of syntax
  decodes and encodes every format of that shape.
- Only tools that were offered become calls, and only complete calls can run. All other text is left unchanged.
- Encoded calls decode to the same calls. A value that a format cannot express is reported as a loss.
"""

from toolwire.errors import UnknownFormat
from toolwire.text.detecting import Guess, detect
from toolwire.text.format import Format, format
from toolwire.text.overlay.completions import completions
from toolwire.text.overlay.dialect import over
from toolwire.text.rows import names
from toolwire.text.templates import from_response_template
from toolwire.text.writing import Written

__all__ = [
    "Format",
    "Guess",
    "UnknownFormat",
    "Written",
    "completions",
    "detect",
    "format",
    "from_response_template",
    "names",
    "over",
]
