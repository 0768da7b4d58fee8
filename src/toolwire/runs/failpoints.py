"""The moments at which a test kills the process, to prove that a run survives. In production they do nothing.

Rules of this file:
- Every write has one failpoint before it and one after it. `POINTS` lists all of them. An unknown name in the
  environment variable is rejected when the module is imported.
- `TOOLWIRE_FAILPOINT=NAME` kills the process with SIGKILL at that failpoint; `NAME:3`, when it is reached the third
  time.
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
        raise ValueError(f"{VARIABLE}: there is no failpoint {name!r}; use one of {', '.join(POINTS)}")
    return name, int(count or 1)


_name, _countdown = _armed()


def failpoint(name: str) -> None:
    """Kill the process if the test variable names this failpoint."""
    global _countdown  # noqa: PLW0603 - the countdown is the process's
    if name == _name:
        _countdown -= 1
        if _countdown == 0:
            os.kill(os.getpid(), signal.SIGKILL)
