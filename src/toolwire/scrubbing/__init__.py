"""Keeps sensitive values out of traces, logs and telemetry. The tools themselves receive the original values.

Rules of this package:
- A value is hidden because of its field's name, because it is a known secret, or because it looks like a key.
- A known secret is found wherever it reappears, also encoded, in texts and in values.
- Scrubbing never raises. Anything that cannot be examined completely is replaced by a mask.
"""

from toolwire.scrubbing.forms import HIDDEN, LONG, SHORTEST, UNREADABLE, Known, mask
from toolwire.scrubbing.screening import SecretScreen
from toolwire.scrubbing.streamed import Scrubber
from toolwire.scrubbing.values import find_spans, scrub, scrub_text, scrub_texts, secrets_of

__all__ = [
    "HIDDEN",
    "LONG",
    "SHORTEST",
    "UNREADABLE",
    "Known",
    "Scrubber",
    "SecretScreen",
    "find_spans",
    "mask",
    "scrub",
    "scrub_text",
    "scrub_texts",
    "secrets_of",
]
