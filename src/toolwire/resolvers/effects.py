"""What it means to run a tool twice: what its declaration says, and what a probe finds out.

Rules of this file:
- A tool that says nothing is run once: a call of it that had begun and not ended is never run again.
- What an MCP server hints of a tool is taken as said; what the declaration itself says comes first.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from msgspec import Struct

from toolwire.errors import InvalidField
from toolwire.types import Tool
from toolwire.waiting.call_keys import CallKey

WORDS = ("none", "idempotent", "once")


class Happened(Struct, frozen=True):
    """The call has had its effect, and this is what it gave."""

    value: Any = None


class NotYet(Struct, frozen=True):
    """The call has had no effect, so that it may be run."""


class Unknown(Struct, frozen=True):
    """Nobody can say whether the call has had its effect."""


_Probed = Happened | NotYet | Unknown
Probe = Callable[[CallKey], _Probed | Awaitable[_Probed]]
"""Says what became of a call, by its key."""


class Checkable(Struct, frozen=True):
    """Effects that can be asked for."""

    probe: Probe


Effects = Literal["none", "idempotent", "once"] | Checkable
"""What it means to run a tool twice."""


def checkable(probe: Probe) -> Checkable:
    """Say that a probe knows whether a call has had its effect; it is asked before the call is run again."""
    if not callable(probe):
        raise InvalidField("probe", f"must be a function of a call's key, not {probe!r}", path="checkable")
    return Checkable(probe)


def checked_effects(given: Any) -> Effects:
    """Give what was said of the effects of a tool, if it is one of the words."""
    if isinstance(given, Checkable) or (isinstance(given, str) and given in WORDS):
        return given  # type: ignore[return-value]
    raise InvalidField("effects", f"must be one of {', '.join(WORDS)}, or checkable(probe), not {given!r}", path="tool")


def effects_of(tool: Tool | None) -> Effects:
    """Say what it means to run a tool twice."""
    if tool is None:
        return "once"
    if (said := tool.metadata.get("effects")) is not None:
        return checked_effects(said)
    match tool.metadata.get("annotations"):
        case {"readOnlyHint": True}:
            return "none"
        case {"idempotentHint": True}:
            return "idempotent"
    return "once"
