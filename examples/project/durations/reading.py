"""Text to seconds."""

import re

from durations.units import UNITS

PARTS = re.compile(r"([0-9]+)([dhms])")


def seconds_of(text: str) -> int:
    """Read a duration such as `1h30m`."""
    if not re.fullmatch(rf"(?:{PARTS.pattern})+", text):
        raise ValueError(f"no duration: {text!r}")
    total = 0
    for amount, unit in PARTS.findall(text):
        total = int(amount) * UNITS[unit]
    return total
