"""Calls in a model's own text: every format read while it streams, and written, as data.

Rules of this package:
- A format is a row of `formats.toml`; an engine for each shape of syntax reads and writes it; a table adds one.
- Only offered tools become calls, complete or not at all. Everything else is words, as it stood.
- What is written is read back the same; what a format cannot say is a loss.
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
