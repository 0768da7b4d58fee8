"""Runs that are looked at more often: whoever waits here for what happens elsewhere asks for it every few milliseconds.

Only pauses between looks are shorter. What a lease, a deadline or a limit says, it says as always.
"""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from dbos import _dbos as process
from dbos._queue import queue_thread as take
from dbos._sys_db import SystemDatabase

from toolwire.runs import aio, core, engine, journal, run

PAUSE = 0.06
LISTENS = "_notification_listener_polling_interval_sec"
PAUSES = [
    (aio, "_PAUSE"),
    (core, "_TICK"),
    (engine, "_POLLING"),
    (journal, "_LONGEST"),
    (run, "_LONGEST"),
]


class Often(threading.Event):
    """An event for which nobody waits long without a look."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait a moment."""
        return super().wait(PAUSE if timeout is None else min(timeout, PAUSE))


def taking(_stop: threading.Event, engine_of: Any) -> None:
    """Take from the queues, as the engine does, but look often whether there is a new one."""
    often = Often()
    engine_of.background_thread_stop_events.append(often)
    take(often, engine_of)


sweep = core.Core.sweep


def sweeping(of: core.Core, only: str | None = None) -> float:
    """Take over what nobody leads, and look again soon."""
    return min(PAUSE, sweep(of, only))


@pytest.fixture(autouse=True, scope="module")
def impatient() -> Iterator[None]:
    """Look often."""
    with pytest.MonkeyPatch.context() as changes:
        for module, name in PAUSES:
            changes.setattr(module, name, PAUSE)
        changes.setattr(process, "queue_thread", taking)
        changes.setattr(core.Core, "sweep", sweeping)
        changes.setattr(SystemDatabase, LISTENS, property(lambda _: PAUSE, lambda *_: None), raising=False)
        yield
