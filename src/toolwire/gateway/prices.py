"""What a request may cost before it is sent, and what it has cost: in tokens, and in billionths of a dollar.

Rules of this file:
- A price is that of the settings, or of the catalogue on this day. What has none has no price, and is not free.
- In the settings `PROVIDER/*` prices the models that no longer name there fits. A name without `*` comes first.
- Before a request, its tokens are estimated, and rather too many: a byte in three of what is asked, and as much as the
  answer may be long. Afterwards what the provider reported counts; where it reported nothing, what was seen.
- Money is rounded up.
"""

import math
import time
from collections.abc import Mapping
from datetime import date
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.config import PriceSettings
from toolwire.gateway.routes import Candidate
from toolwire.providers import catalogue
from toolwire.types import Usage
from toolwire.types.answer import is_count

_BYTES_OF_TOKEN = 3
_UNSAID = 4096  # tokens of an answer whose length the request does not bound
_SAID = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_NESTED = (("generationConfig", "maxOutputTokens"), ("options", "num_predict"))
_NANO_OF_MILLION = 1000  # a dollar for a million tokens is so many billionths of a dollar for one
_read = msgspec.json.Decoder().decode


class Tokens(Struct, frozen=True):
    """Tokens that were read and written; `guessed` where nobody has reported them."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    estimated: bool = False


class Prices:
    """The prices of models."""

    def __init__(self, said: Mapping[str, PriceSettings]) -> None:
        self._said = {name: price for name, price in said.items() if "*" not in name}
        patterns = (name for name in said if "*" in name)
        self._patterns = [(name, said[name]) for name in sorted(patterns, key=len, reverse=True)]
        self._known: dict[str, Any] = {}
        self._hour, self._today = -1, date.min

    def of(self, candidate: Candidate) -> Any:
        """Give the price of a model at a provider; None where nobody knows it."""
        hour = int(time.time() // 3600)
        if hour != self._hour or len(self._known) > 10_000:
            self._hour, self._today = hour, date.today()  # noqa: DTZ011 - a day of a list of prices
            self._known.clear()
        name = candidate.name
        if name not in self._known:
            self._known[name] = self._said.get(name) or self._matching(name) or _listed(candidate, self._today)
        return self._known[name]

    def _matching(self, name: str) -> PriceSettings | None:
        """Return the price of the longest pattern that a model's name matches."""
        return next((price for pattern, price in self._patterns if fnmatchcase(name, pattern)), None)

    def cost(self, candidate: Candidate, tokens: Tokens) -> int:
        """Say what tokens cost; what has no price costs nothing."""
        price = self.of(candidate)
        if price is None:
            return 0
        read, written = tokens.cache_read, tokens.cache_write
        dear: float = max(0, tokens.input - read - written) * price.input + tokens.output * price.output
        if read:
            dear += read * (price.input if price.cache_read is None else price.cache_read)
        if written:
            dear += written * (price.input if price.cache_write is None else price.cache_write)
        return math.ceil(_NANO_OF_MILLION * float(dear))


@lru_cache(1024)
def _entry(name: str, model: str) -> Any:
    return catalogue.model(name) or catalogue.model(model)


def _listed(candidate: Candidate, day: date) -> Any:
    entry = _entry(candidate.name, candidate.model)
    return entry.price.on(day) if entry is not None and entry.price is not None else None


def estimate(size: int, members: Mapping[str, Any], candidate: Candidate) -> Tokens:
    """Say how many tokens a request of so many bytes may take."""
    said = [_count(members[name]) for name in _SAID if name in members]
    said += [_count(_inner(members[outer], inner)) for outer, inner in _NESTED if outer in members]
    output = max(said, default=0)
    known = _entry(candidate.name, candidate.model)
    most = known.max_output if known is not None else None
    output = min(output or _UNSAID, most or output or _UNSAID)
    if "n" in members or "generationConfig" in members:
        answers = max(1, _count(members.get("n")), _count(_inner(members.get("generationConfig"), "candidateCount")))
        output *= min(answers, 128)
    return Tokens(size // _BYTES_OF_TOKEN + 1, output, estimated=True)


def _inner(raw: Any, name: str) -> Any:
    value = _value(raw)
    return value.get(name) if type(value) is dict else None


def _count(raw: Any) -> int:
    value = _value(raw) if isinstance(raw, msgspec.Raw) else raw
    return value if type(value) is int and 0 < value < 1 << 40 else 0


def _value(raw: Any) -> Any:
    try:
        return None if raw is None else _read(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def used(usage: Usage | None, sent: int, heard: int, *, whole: bool) -> Tokens:
    """Say how many tokens were used: as reported, or as guessed from the bytes asked and the characters heard."""
    read = _reported(usage.input_tokens if usage is not None else None)
    written = _reported(usage.output_tokens if usage is not None else None)
    estimated = read is None or written is None or not whole
    seen = math.ceil(heard / 4)
    return Tokens(
        math.ceil(sent / 4) if read is None else read,
        max(written or 0, seen) if estimated else written or 0,
        _reported(usage.cache_read_tokens if usage is not None else None) or 0,
        _reported(usage.cache_write_tokens if usage is not None else None) or 0,
        estimated,
    )


def sum_of(one: Tokens | None, other: Tokens | None) -> Tokens | None:
    """Add what two answers took."""
    if one is None or other is None:
        return one or other
    sums = {name: getattr(one, name) + getattr(other, name) for name in Tokens.__struct_fields__}
    return Tokens(**{**sums, "estimated": bool(sums["estimated"])})


def _reported(count: Any) -> int | None:
    return count if is_count(count) else None
