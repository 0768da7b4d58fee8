"""The treatment of a call that was interrupted, by its tool's `effects`; pure.

Rules of this file:
- A call of a `once` tool is never run again. A tool without `effects` is `once`.
- The call's result contains a note for the model on how the call was treated.
"""

from typing import Literal

from toolwire.resolvers.effects import Checkable, Effects

_Treatment = Literal["run", "again", "probe", "unknown"]
_AGAIN = {
    "none": "an earlier attempt of the call was interrupted. The tool has no effects, so the call was run again",
    "idempotent": "an earlier attempt of the call was interrupted: it was run again with the same key",
}
UNKNOWN = (
    "interrupted: the process ended while the call was running. Whether it happened is unknown."
    " It was not run again: find out what happened before you repeat the call"
)
HAPPENED = "an earlier attempt of the call was interrupted. A check showed that it took effect, so it was not run again"
NOT_YET = "an earlier attempt of the call was interrupted. A check showed that it took no effect, so it was run again"
NOT_RECORDED = "not run: its secret arguments were lost when the process ended. Make the call again with all arguments"


def choose_treatment(starts: int, effects: Effects) -> _Treatment:
    """Return how to treat a call that was started `starts` times and never ended."""
    if starts == 0:
        return "run"
    if isinstance(effects, Checkable):
        return "probe"
    return "again" if is_repeatable(effects) else "unknown"


def is_repeatable(effects: Effects) -> bool:
    """Return True if a call may be run again without a check, although it was started before."""
    return isinstance(effects, str) and effects in _AGAIN


def rerun_note(effects: Effects) -> str:
    """Return the note for the model on why the call could be run again."""
    return _AGAIN[effects] if isinstance(effects, str) else NOT_YET
