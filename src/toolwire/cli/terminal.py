"""The person at the terminal: who is asked whether a call may run, and who may stop everything with Ctrl-C.

Rules of this file:
- Only a yes is one. Where nobody can be asked, the answer is no, and the model reads why.
- Nothing that was typed before the question is taken for an answer to it.
- The first Ctrl-C stops what runs, and all is put in order; a second one ends the program at once. What runs is stopped
  by its `Cancel`, from another thread: the interrupted one may hold its lock just now.
- Where nothing runs that could be stopped, Ctrl-C is a KeyboardInterrupt as ever.
"""

import contextlib
import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from toolwire.cli.screen import Screen, is_terminal
from toolwire.cli.showing import show_change, show_running
from toolwire.resolvers.execution import Cancel
from toolwire.types import Tool, ToolCall

_FETCHES = frozenset({"http_get"})
WHOLE, _PART = 400, 40
_BLINK = 0.1
_QUESTION = "Run it? [y/N], [a]lways {tool}, or say why not: "
NOBODY = "there is no terminal to ask for approval; --yes approves all calls"
_STOPPED = "everything was stopped"


def to_be_asked(tools: Iterable[Tool]) -> list[str]:
    """Name the tools that do more than look into the project folder."""
    return [tool.name for tool in tools if tool.metadata.get("writes") or tool.name in _FETCHES]


class Approving:
    """Asks whether a call may run; what was answered with "always" is not asked again."""

    def __init__(self, screen: Screen, *, all_of_it: bool = False) -> None:
        self.screen: Screen = screen
        self.all_of_it: bool = all_of_it
        self.always: set[str] = set()
        self.cancel: Cancel = Cancel()
        self.written: str = ""
        self._one = threading.Lock()

    def __call__(self, call: ToolCall, preview: str) -> bool | str:
        """Give True, or why not."""
        with self._one:
            self.screen.wait(None)
            if self.all_of_it or call.name in self.always:
                show_change(self.screen, preview, _PART)
                answer: bool | str = True
            else:
                answer = self._ask(call, preview)
            if answer is True:
                self.written = ""
                show_running(self.screen, call.name, lambda: self.written)
            return answer

    def hear(self, data: bytes) -> None:
        """Keep the last line of what a command writes."""
        lines = [line for line in data.decode(errors="replace").splitlines() if line.strip()]
        self.written = lines[-1] if lines else self.written

    def _ask(self, call: ToolCall, preview: str) -> bool | str:
        screen = self.screen if self.screen.terminal and not self.screen.quiet else Screen(sys.stderr)
        if not (screen.terminal and is_terminal(sys.stdin)):
            show_change(self.screen, preview, _PART)
            return NOBODY
        show_change(screen, preview, WHOLE)
        with contextlib.suppress(ImportError, OSError):
            import termios  # noqa: PLC0415 - not on every system

            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        screen.write(_QUESTION.format(tool=call.name), "question")
        answer = typed(self.cancel)
        if answer is None:
            screen.fresh()
            return _STOPPED if self.cancel.is_set() else verdict("")
        screen.entered()
        if answer.strip().lower() in ("a", "always"):
            self.always.add(call.name)
        return verdict(answer)


def verdict(answer: str) -> bool | str:
    """Read an answer: yes, or what the model is told."""
    words = answer.strip()
    if words.lower() in ("y", "yes", "a", "always"):
        return True
    return "the user said no" + (f": {words}" if words.lower() not in ("", "n", "no") else "")


def typed(cancel: Cancel, fd: int | None = None, wait: Callable[..., Any] = select.select) -> str | None:
    """Read a line from the terminal; None if everything is stopped, or nobody is there any more."""
    fd = sys.stdin.fileno() if fd is None else fd
    while not cancel.is_set():
        if wait([fd], [], [], _BLINK)[0]:
            data = os.read(fd, 4096)
            return data.decode(errors="replace") if data else None
    return None


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
