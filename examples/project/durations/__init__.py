"""Durations as text."""

from durations.reading import seconds_of
from durations.writing import text_of

__all__ = ["seconds_of", "text_of"]
