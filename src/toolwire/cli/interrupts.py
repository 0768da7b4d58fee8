"""Ctrl-C: the first stops what runs, and all is put in order; a second one ends the program at once.

Rules of this file:
- What runs is stopped by its `Cancel`, from another thread: the interrupted one may hold its lock just now.
- Where nothing runs that could be stopped, Ctrl-C is a KeyboardInterrupt as ever.
"""

import contextlib
import queue
import signal
import threading
from collections.abc import Iterator
from typing import Any, Self

from toolwire.resolvers.execution import Cancel


class Interrupts:
    """Listens for Ctrl-C while it lasts."""

    def __init__(self) -> None:
        self._cancel: Cancel | None = None
        self._pressed: queue.SimpleQueue[Cancel | None] = queue.SimpleQueue()
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._press)
            threading.Thread(target=self._watch, name="interrupts", daemon=True).start()
        return self

    def __exit__(self, *_problem: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._pressed.put(None)

    @contextlib.contextmanager
    def stopping(self, cancel: Cancel) -> Iterator[None]:
        """Let Ctrl-C stop this while it lasts."""
        self._cancel = cancel
        try:
            yield
        finally:
            self._cancel = None
            if self._before is not None:
                signal.signal(signal.SIGINT, self._press)

    def _press(self, *_signal: object) -> None:
        if self._cancel is None:
            raise KeyboardInterrupt
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._pressed.put(self._cancel)

    def _watch(self) -> None:
        while (cancel := self._pressed.get()) is not None:
            cancel()
