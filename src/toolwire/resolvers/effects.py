"""The effect of running a tool twice, as its declaration states it or a probe finds out.

Durable runs need it after an interruption.

Rules of this file:
- A tool without such a declaration runs at most once. An interrupted call is never run again.
- Hints of an MCP server count as declared, but the tool's own declaration comes first.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from msgspec import Struct

from toolwire.errors import InvalidField
from toolwire.types import Tool
from toolwire.waiting.call_keys import CallKey

_EFFECT_NAMES = ("none", "idempotent", "once")


class Happened(Struct, frozen=True):
    """The call has had its effect. `value` is its result.

    >>> from toolwire import CallKey, Happened, checkable
    >>> paid = {"k1": "order 7 is paid"}
    >>> effects = checkable(lambda key: Happened(paid[key]))
    >>> effects.probe(CallKey("k1"))
    Happened(value='order 7 is paid')
    """

    value: Any = None


class NotYet(Struct, frozen=True):
    """The call has had no effect, so that it may be run.

    >>> from toolwire import CallKey, Happened, NotYet, checkable
    >>> effects = checkable(lambda key: Happened() if key in {"k1"} else NotYet())
    >>> effects.probe(CallKey("k2"))
    NotYet()
    """


class Unknown(Struct, frozen=True):
    """It is unknown whether the call has had its effect.

    >>> from toolwire import CallKey, Unknown, checkable
    >>> effects = checkable(lambda key: Unknown())  # the bank does not answer
    >>> effects.probe(CallKey("k1"))
    Unknown()
    """


_ProbeResult = Happened | NotYet | Unknown
Probe = Callable[[CallKey], _ProbeResult | Awaitable[_ProbeResult]]
"""A function that returns what happened to a call, by its key."""


class Checkable(Struct, frozen=True):
    """Effects that `probe` can check.

    >>> from toolwire import Checkable, NotYet, checkable
    >>> isinstance(checkable(lambda key: NotYet()), Checkable)
    True
    """

    probe: Probe


Effects = Literal["none", "idempotent", "once"] | Checkable
"""The effect of running a tool twice."""


def checkable(probe: Probe) -> Checkable:
    """Declare that `probe` can check whether a call has had its effect.

    It is called with the call's key before the call is run again. Raises `InvalidField` if it is not callable.

    >>> from toolwire import CallKey, Happened, NotYet, checkable, tool
    >>> paid = set()
    >>> def probe(key: CallKey) -> Happened | NotYet:
    ...     return Happened("paid") if key in paid else NotYet()
    >>> @tool(effects=checkable(probe))
    ... def pay(order: str, key: CallKey) -> str:
    ...     paid.add(key)
    ...     return "paid"
    >>> probe(CallKey("k1"))
    NotYet()
    """
    if not callable(probe):
        raise InvalidField("probe", f"must be a function of a call's key, not {probe!r}", path="checkable")
    return Checkable(probe)


def check_effects(effects: Any) -> Effects:
    """Return `effects` if it is valid. Raise `InvalidField` otherwise."""
    if isinstance(effects, Checkable) or (isinstance(effects, str) and effects in _EFFECT_NAMES):
        return effects  # type: ignore[return-value]
    raise InvalidField(
        "effects", f"must be one of {', '.join(_EFFECT_NAMES)}, or checkable(probe), not {effects!r}", path="tool"
    )


def effects_of(tool: Tool | None) -> Effects:
    """Return the effect of running `tool` twice. The default is `once`."""
    if tool is None:
        return "once"
    if (declared := tool.metadata.get("effects")) is not None:
        return check_effects(declared)
    match tool.metadata.get("annotations"):
        case {"readOnlyHint": True}:
            return "none"
        case {"idempotentHint": True}:
            return "idempotent"
    return "once"
