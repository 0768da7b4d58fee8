"""The filter of the traffic, as one line of text: `key:ann model:sonnet loss:semantic since:1h`.

Rule: a word that is not understood is reported beside the filter, and the others apply.
"""

import re
import shlex
import time
from typing import Any

from msgspec import Struct

PERIODS = {"15m": 900, "1h": 3600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000}
_TEXTS = {
    "key": "key_name",
    "model": "model",
    "answered": "provider_model",
    "provider": "provider",
    "wire": "wire",
    "ending": "ending",
    "session": "session",
    "conversation": "conversation",
    "program": "program",
}
NAMES = (*_TEXTS, "status", "loss", "since")
_AGO = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST = 1000


class _TrafficFilter(Struct, frozen=True):
    """What a filter's text says: the filters of the store, and the words that are not understood."""

    text: str
    filters: dict[str, Any]
    problems: tuple[str, ...] = ()


def parse_filter(text: str, known: frozenset[str]) -> _TrafficFilter:
    """Return the filter of a text. `known` are the filters that the store has."""
    filters: dict[str, Any] = {}
    problems = []
    text = text[:_LONGEST].strip()
    for word in _words_of(text):
        name, colon, value = word.partition(":")
        problem = _read(name if colon else "model", value if colon else word, filters, known)
        if problem:
            problems.append(problem)
    return _TrafficFilter(text, filters, tuple(problems))


def _words_of(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that does not end
        return text.split()


def _read(name: str, value: str, filters: dict[str, Any], known: frozenset[str]) -> str:
    """Add one word to the filters. Return what is wrong with it."""
    field = _TEXTS.get(name, "")
    if field and field in known:
        filters[field] = value
    elif name == "status" and value.isascii() and value.isdigit() and len(value) < 6:
        filters["status"] = int(value)
    elif name == "loss" and value in ("any", "none"):
        filters["lossy"] = value == "any"
    elif name == "loss" and value in ("semantic", "minor") and "loss" in known:
        filters["loss"] = value
    elif name == "since" and (match := _AGO.fullmatch(value)):
        filters["since"] = time.time() - int(match[1]) * _SECONDS[match[2]]
    else:
        names = ", ".join(one for one in NAMES if _TEXTS.get(one, one) in known or one in ("status", "loss", "since"))
        return f"{name}:{value} is not understood; there are {names}"
    return ""
