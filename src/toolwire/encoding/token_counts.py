"""Token counts as OpenAI's two wires say them: sums, and what they are made of, under different names.

Rule: the wire's own counts stay beside ours, and are written for as long as they mean the same.
"""

from typing import Any

from msgspec import Struct

from toolwire.encoding.ledger import Ledger, made_by
from toolwire.types import Opaque, Usage


class Counts(Struct, frozen=True):
    """The names of one wire: tokens `given` to the model and `made` by it; `complete` says every detail."""

    given: str
    made: str
    complete: bool = False

    def decode(self, body: dict[str, Any], dialect: str) -> Usage:
        """Read the counts."""
        given, made = _object(body, f"{self.given}_details"), _object(body, f"{self.made}_details")
        return Usage(
            _count(body, self.given),
            _count(body, self.made),
            _count(given, "cached_tokens"),
            _count(given, "cache_write_tokens"),
            _count(made, "reasoning_tokens"),
            Opaque(dialect, body),
        )

    def encode(self, usage: Usage, ledger: Ledger) -> dict[str, Any]:
        """Write the counts."""
        mine = made_by(usage.opaque, ledger.dialect)
        body: dict[str, Any] = dict(usage.opaque.value) if mine else {}  # type: ignore[union-attr]
        before = self.decode(body, ledger.dialect)
        if mine and usage == before:
            return body
        if not mine or (usage.input_tokens, usage.output_tokens) != (
            before.input_tokens,
            before.output_tokens,
        ):
            body[self.given], body[self.made] = usage.input_tokens or 0, usage.output_tokens or 0
            body["total_tokens"] = usage.total_tokens
        given = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
        for key, counts in ((self.given, given), (self.made, {"reasoning_tokens": usage.reasoning_tokens})):
            every = self.complete and not mine
            said = {name: count or 0 for name, count in counts.items() if count is not None or every}
            if said:
                body[f"{key}_details"] = {**(body.get(f"{key}_details") or {}), **said}
        if not mine and usage.opaque is not None:
            ledger.lose("usage.opaque", "usage_details", "the wire's own counts stay there", severity="minor")
        return body


def _object(body: dict[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key)
    return value if type(value) is dict else {}


def _count(body: dict[str, Any], key: str) -> int | None:
    value = body.get(key)
    return value if type(value) is int and value >= 0 else None
