"""The line that Claude Code's own vendor bills by: it stays with that vendor.

Rules of this file:
- It is the first block of the system prompt, or its first line, and changes with each request: nothing after it is
  found in the cache of another vendor (claude-code 2.1.197, 2026-11-22).
- It is cut out of the bytes, so that a longer conversation still begins with the bytes of the shorter one.
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
_LOST = Loss("system", "billing", "dropped", "it is for its own vendor, and would change what is cached", "formal")
_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Billed(msgspec.Struct, frozen=True):
    """What was cut out: nothing, a line, or a block."""

    lines: int = 0
    blocks: int = 0

    def told(self, losses: Iterable[Loss]) -> tuple[Loss, ...]:
        """Give losses as the client finds them in its own body, and what was cut out."""
        if not self.lines:
            return tuple(losses)
        return (_LOST, *(replace(loss, path=_BLOCK.sub(self._moved, loss.path)) for loss in losses))

    def _moved(self, found: "re.Match[str]") -> str:
        return str(int(found[0]) + self.blocks)


def without_billing(body: Body) -> tuple[Body, Billed]:
    """Give a body of Messages without what its own vendor bills by."""
    if isinstance(body, dict):
        left, billed = _cut(body.get("system"))
        if not billed.lines:
            return body, billed
        return {name: left if name == "system" else value for name, value in body.items()}, billed
    data = body.encode() if isinstance(body, str) else body
    if _MARK.encode() not in data:
        return body, Billed()
    members = members_of(data)
    left, billed = _cut_raw(bytes(members.get("system") or b"null"))
    if not billed.lines:
        return body, billed
    start, end = find_member(data, "system", members)
    return data[:start] + left + data[end:], billed


def _cut(system: Any) -> tuple[Any, Billed]:
    if isinstance(system, str) and system.startswith(_MARK):
        return system.partition("\n")[2], Billed(1)
    first: Any = system[0] if isinstance(system, list) and system else None
    text = first.get("text") if isinstance(first, dict) else None
    if not (isinstance(text, str) and text.startswith(_MARK)):
        return system, Billed()
    left = text.partition("\n")[2]
    return ([{**first, "text": left}, *system[1:]], Billed(1)) if left else (system[1:], Billed(1, 1))


def _cut_raw(system: bytes) -> tuple[bytes, Billed]:
    left, billed = _cut(msgspec.json.decode(system))
    if not billed.blocks:
        return msgspec.json.encode(left), billed
    return b"[" + b",".join(map(bytes, _raws(system)[1:])) + b"]", billed
