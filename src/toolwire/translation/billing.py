"""Remove the billing line of Claude Code from requests to other vendors than Anthropic.

Rules of this file:
- The line is the first block of the system prompt, or its first line. It changes with each request, so no other
  vendor's prompt cache would match anything that follows it (claude-code 2.1.197, 2026-11-22).
- The line is cut out of the bytes, so that a longer conversation still begins with the bytes of the shorter one.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from toolwire.translation.translate import Body
from toolwire.types import Loss
from toolwire.wire.bodies import find_member, members_of

_MARK = "x-anthropic-billing-header:"
_BLOCK = re.compile(r"(?<=^system\.content\[)\d+(?=\])|(?<=^system\[)\d+(?=\])")
_LOSS = Loss(
    "system",
    "billing",
    "dropped",
    "only Anthropic reads this line, and its changes would disable the prompt cache of another provider",
    "formal",
)
_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode


class BillingCut(msgspec.Struct, frozen=True):
    """The number of lines and of blocks that were removed from a request."""

    lines: int = 0
    blocks: int = 0

    def restore_paths(self, losses: Iterable[Loss]) -> tuple[Loss, ...]:
        """Return losses with the paths of the client's own body, after a loss for the line that was removed."""
        if not self.lines:
            return tuple(losses)
        return (_LOSS, *(replace(loss, path=_BLOCK.sub(self._restore_index, loss.path)) for loss in losses))

    def _restore_index(self, match: "re.Match[str]") -> str:
        return str(int(match[0]) + self.blocks)


def remove_billing_line(body: Body) -> tuple[Body, BillingCut]:
    """Return a Messages body without its billing line."""
    if isinstance(body, dict):
        remaining, removed = _remove(body.get("system"))
        if not removed.lines:
            return body, removed
        return {name: remaining if name == "system" else value for name, value in body.items()}, removed
    data = body.encode() if isinstance(body, str) else body
    if _MARK.encode() not in data:
        return body, BillingCut()
    members = members_of(data)
    remaining, removed = _remove_raw(bytes(members.get("system") or b"null"))
    if not removed.lines:
        return body, removed
    start, end = find_member(data, "system", members)
    return data[:start] + remaining + data[end:], removed


def _remove(system: Any) -> tuple[Any, BillingCut]:
    if isinstance(system, str) and system.startswith(_MARK):
        return system.partition("\n")[2], BillingCut(1)
    first: Any = system[0] if isinstance(system, list) and system else None
    text = first.get("text") if isinstance(first, dict) else None
    if not (isinstance(text, str) and text.startswith(_MARK)):
        return system, BillingCut()
    remaining = text.partition("\n")[2]
    return ([{**first, "text": remaining}, *system[1:]], BillingCut(1)) if remaining else (system[1:], BillingCut(1, 1))


def _remove_raw(system: bytes) -> tuple[bytes, BillingCut]:
    remaining, removed = _remove(msgspec.json.decode(system))
    if not removed.blocks:
        return msgspec.json.encode(remaining), removed
    return b"[" + b",".join(map(bytes, _raws(system)[1:])) + b"]", removed
