"""The estimated and the actual cost of a request, in tokens and in billionths of a dollar.

Rules of this file:
- A price is the one of the settings, or the catalogue's price of this day. A model without a price is not free.
- In the settings, `PROVIDER/*` is the price of the models that match no other name. A name without `*` comes first.
- Before a request, the estimate is high: one token for three bytes, all of them written to a cache at its highest
  price, and the longest answer that the request allows.
  Afterwards the provider's report counts. If there is none, the gateway estimates from what was received.
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
_DEFAULT_OUTPUT = 4096  # tokens of an answer if the request does not limit its length
_OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_NESTED_OUTPUT_LIMITS = (("generationConfig", "maxOutputTokens"), ("options", "num_predict"))
_NANO_OF_MILLION = 1000  # one dollar for a million tokens, in billionths of a dollar for one token
_read = msgspec.json.Decoder().decode


class Tokens(Struct, frozen=True):
    """Input and output tokens. `estimated` is True if a provider did not report them.

    `input` includes `cache_read` and `cache_write`. `cache_write` includes `cache_write_long`.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_long: int = 0
    estimated: bool = False


class Prices:
    """The prices of models."""

    def __init__(self, settings: Mapping[str, PriceSettings]) -> None:
        self._exact = {name: price for name, price in settings.items() if "*" not in name}
        patterns = (name for name in settings if "*" in name)
        self._patterns = [(name, settings[name]) for name in sorted(patterns, key=len, reverse=True)]
        self._known: dict[str, Any] = {}
        self._hour, self._today = -1, date.min

    def of(self, candidate: Candidate) -> Any:
        """Return the price of a candidate, or None if it is unknown."""
        hour = int(time.time() // 3600)
        if hour != self._hour or len(self._known) > 10_000:
            self._hour, self._today = hour, date.today()  # noqa: DTZ011 - a day of a list of prices
            self._known.clear()
        name = candidate.name
        if name not in self._known:
            self._known[name] = self._exact.get(name) or self._matching(name) or _listed(candidate, self._today)
        return self._known[name]

    def _matching(self, name: str) -> PriceSettings | None:
        """Return the price of the longest pattern that the model's name matches."""
        return next((price for pattern, price in self._patterns if fnmatchcase(name, pattern)), None)

    def cost(self, candidate: Candidate, tokens: Tokens) -> int:
        """Return the cost of `tokens`. It is 0 if the price is unknown."""
        price = self.of(candidate)
        if price is None:
            return 0
        read, written = tokens.cache_read, tokens.cache_write
        long = min(tokens.cache_write_long, written)
        cost: float = max(0, tokens.input - read - written) * price.input + tokens.output * price.output
        if read:
            cost += read * (price.input if price.cache_read is None else price.cache_read)
        if written:
            cost += (written - long) * _write_rate(price) + long * _long_write_rate(price)
        return math.ceil(_NANO_OF_MILLION * float(cost))

    def highest_cost(self, candidate: Candidate, tokens: Tokens) -> int:
        """Return the cost of `tokens` if all of the input is written to a cache, which may cost more."""
        price, replace = self.of(candidate), msgspec.structs.replace
        if price is None or max(_write_rate(price), _long_write_rate(price)) <= price.input:
            return self.cost(candidate, tokens)
        long = tokens.input if _long_write_rate(price) > _write_rate(price) else 0
        written = replace(tokens, cache_read=0, cache_write=tokens.input, cache_write_long=long)
        return self.cost(candidate, written)


def _write_rate(price: Any) -> float:
    rate: float = price.input if price.cache_write is None else price.cache_write
    return rate


def _long_write_rate(price: Any) -> float:
    """Return the price of a cache write with the longer lifetime."""
    return _write_rate(price) if price.cache_write_long is None else float(price.cache_write_long)


@lru_cache(1024)
def _entry(name: str, model: str) -> Any:
    return catalogue.model(name) or catalogue.model(model)


def _listed(candidate: Candidate, day: date) -> Any:
    entry = _entry(candidate.name, candidate.model)
    return entry.price.on(day) if entry is not None and entry.price is not None else None


def estimate(size: int, members: Mapping[str, Any], candidate: Candidate) -> Tokens:
    """Return the estimated tokens of a request with `size` bytes."""
    limits = [_count(members[name]) for name in _OUTPUT_LIMITS if name in members]
    limits += [_count(_member(members[outer], inner)) for outer, inner in _NESTED_OUTPUT_LIMITS if outer in members]
    output = max(limits, default=0)
    entry = _entry(candidate.name, candidate.model)
    max_output = entry.max_output if entry is not None else None
    output = min(output or _DEFAULT_OUTPUT, max_output or output or _DEFAULT_OUTPUT)
    if "n" in members or "generationConfig" in members:
        answers = max(1, _count(members.get("n")), _count(_member(members.get("generationConfig"), "candidateCount")))
        output *= min(answers, 128)
    return Tokens(size // _BYTES_OF_TOKEN + 1, output, estimated=True)


def _member(raw: Any, name: str) -> Any:
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


def used(usage: Usage | None, sent: int, characters: int, *, complete: bool) -> Tokens:
    """Return the tokens that were used: those that the provider reported, or an estimate.

    The estimate is one token for four of the `sent` bytes and of the received `characters`. `whole` says that the
    answer is complete; the count of an incomplete answer may be too low.
    """
    input_tokens = _reported(usage.input_tokens if usage is not None else None)
    output_tokens = _reported(usage.output_tokens if usage is not None else None)
    estimated = input_tokens is None or output_tokens is None or not complete
    received = math.ceil(characters / 4)
    return Tokens(
        math.ceil(sent / 4) if input_tokens is None else input_tokens,
        max(output_tokens or 0, received) if estimated else output_tokens or 0,
        _reported(usage.cache_read_tokens if usage is not None else None) or 0,
        _reported(usage.cache_write_tokens if usage is not None else None) or 0,
        _reported(usage.cache_write_long_tokens if usage is not None else None) or 0,
        estimated,
    )


def sum_of(first: Tokens | None, second: Tokens | None) -> Tokens | None:
    """Return the sum of two counts."""
    if first is None or second is None:
        return first or second
    sums = {name: getattr(first, name) + getattr(second, name) for name in Tokens.__struct_fields__}
    return Tokens(**{**sums, "estimated": bool(sums["estimated"])})


def _reported(count: Any) -> int | None:
    return count if is_count(count) else None
