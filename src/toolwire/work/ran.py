"""What became of each call of a turn, for whoever keeps a record of it: traces, telemetry.

Rules of this file:
- A call is told once, when it has ended, whatever ended it.
- Why it ended is what was noted while it ran (`outcome.Note`); else its result says so.
- Durations are taken from a clock that nobody sets back.
"""

import time
from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from toolwire.types import ToolCall, ToolResult
from toolwire.work.results import CallEnding, CallNote, SecretsWanted
from toolwire.work.waiting import Work, through


class Ran(Struct, frozen=True):
    """What became of a call: its result, how it ended, when it began (Unix time), how long it took."""

    call: ToolCall
    result: ToolResult
    ending: CallEnding
    started: float | None
    seconds: float
    approval: str | None = None
    sandbox: str | None = None


class CallRecord:
    """Keeps what became of each call, whatever that is; `tell` gets it. `secrets` says what is secret."""

    def __init__(self, tell: Callable[[Ran], None], secrets: Callable[[], Collection[str]] = tuple) -> None:
        self._tell = tell
        self._secrets = secrets
        self._begun: dict[int, tuple[float, float]] = {}
        self._notes: dict[int, dict[str, Any]] = {}

    def keeping(self, call: ToolCall, steps: Work[ToolResult]) -> Work[ToolResult]:
        """Do the steps of a call, and keep what is said on the way."""
        self._begun[id(call)] = time.time(), time.monotonic()
        notes = self._notes[id(call)] = dict[str, Any]()

        def hear(said: Any) -> Work[Collection[str] | None]:
            if type(said) is CallNote:
                notes.update({name: value for name, value in asdict(said).items() if value is not None})
            yield from ()
            return self._secrets() if type(said) is SecretsWanted else None

        result = yield from through(steps, hear)
        self.end(call, result)
        return result

    def end(self, call: ToolCall, result: ToolResult, ending: CallEnding | None = None) -> None:
        """Tell the end of a call; why it ended is what was said of it, where nothing else is."""
        started, begun = self._begun.pop(id(call), (time.time(), time.monotonic()))
        notes = self._notes.pop(id(call), {})
        seconds = max(0.0, time.monotonic() - begun)
        usual: CallEnding = "error" if result.is_error else "ok"
        said = ending or notes.pop("ending", usual)
        notes.pop("ending", None)
        self._tell(Ran(call, result, said, started, seconds, **notes))
