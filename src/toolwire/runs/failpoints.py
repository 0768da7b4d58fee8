"""The moments at which a test ends the process, to see that a run survives it; nothing happens anywhere else.

Rules of this file:
- Each place where something is written has a name before it and one after it. The list is whole: a name that is
  not in it is refused where the module is loaded.
- `TOOLWIRE_FAILPOINT=name` or `name:3` ends the process with SIGKILL when that moment has come for the third time.
"""

import os
import signal

POINTS = (
    "before-start",
    "after-start",
    "before-claim",
    "after-claim",
    "after-take",
    "before-ask",
    "after-ask",
    "after-keep",
    "after-ask-record",
    "before-begin",
    "after-begin",
    "in-call",
    "after-call",
    "after-call-record",
    "before-end",
    "after-end",
    "before-park",
    "in-release",
    "after-park",
)
VARIABLE = "TOOLWIRE_FAILPOINT"


def _armed() -> tuple[str, int]:
    name, _, count = os.environ.get(VARIABLE, "").partition(":")
    if name and name not in POINTS:
        raise ValueError(f"{VARIABLE}: {name!r} is none of {', '.join(POINTS)}")
    return name, int(count or 1)


_name, _left = _armed()


def at(name: str) -> None:
    """End the process here, if a test says so."""
    global _left  # noqa: PLW0603 - it is counted down for the process
    if name == _name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
