"""Seconds to text."""

from durations.units import UNITS


def text_of(seconds: int) -> str:
    """Write seconds as a duration such as `1h30m`."""
    parts = []
    for unit, size in UNITS.items():
        amount, seconds = divmod(seconds, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts) or "0s"
