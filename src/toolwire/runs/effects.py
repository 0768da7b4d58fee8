"""What is done with a call that had begun and not ended, by what its tool declared; pure.

Rules of this file:
- `once` is never run again, and what a tool does not say is `once`.
- Whatever is done, the model reads it in the result of the call.
"""

from typing import Literal

from toolwire.resolvers.effects import Checkable, Effects

_Treatment = Literal["run", "again", "probe", "unknown"]
_AGAIN = {
    "none": "the call had begun before, and had not ended: it has no effects, and was run again",
    "idempotent": "the call had begun before, and had not ended: it was run again with the same key",
}
UNKNOWN = (
    "interrupted: the call had begun, and the process ended before the call did. Whether it happened is unknown."
    " It was not run again: find out what happened before you call it once more"
)
HAPPENED = "the call had begun before, and had not ended: it was checked that it has happened, and was not run again"
NOT_YET = "the call had begun before, and had not ended: it was checked that it has not happened, and was run again"
NOT_KEPT = "not run: its arguments were secret, and are not kept where the process ends. Call it again with them"


def treatment(begun: int, effects: Effects) -> _Treatment:
    """Say what is done with a call that has begun so often, and never ended."""
    if begun == 0:
        return "run"
    if isinstance(effects, Checkable):
        return "probe"
    return "again" if is_repeatable(effects) else "unknown"


def is_repeatable(effects: Effects) -> bool:
    """Whether a call may be run again, whoever knows that it had begun."""
    return isinstance(effects, str) and effects in _AGAIN


def note(effects: Effects) -> str:
    """Say that a call was run again, and why it may be."""
    return _AGAIN[effects] if isinstance(effects, str) else NOT_YET
