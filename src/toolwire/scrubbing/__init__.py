"""What is sensitive, kept out of traces, logs and telemetry; the tool itself gets the original.

Rules of this package:
- A value is hidden for its field's name, for being known as a secret, or for looking like a key.
- A secret that is known is found again wherever it reappears, also encoded, in text as in values.
- What cannot be looked through whole is replaced: scrubbing never raises, and never lets through in doubt.
"""

from toolwire.scrubbing.forms import HIDDEN, LONG, SHORTEST, UNREADABLE, Known, mask
from toolwire.scrubbing.streamed import Scrubber
from toolwire.scrubbing.values import scrub, scrub_text, secrets_of

__all__ = [
    "HIDDEN",
    "LONG",
    "SHORTEST",
    "UNREADABLE",
    "Known",
    "Scrubber",
    "mask",
    "scrub",
    "scrub_text",
    "secrets_of",
]
