"""Repairs a history, so that each call is followed by its result."""

from toolwire.encoding.repair import repair

__all__ = ["repair"]
