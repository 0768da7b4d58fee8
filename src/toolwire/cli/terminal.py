"""The user at the terminal: approval of calls, and Ctrl-C.

Rules of this file:
- Only an explicit yes approves a call. Without a terminal the call is rejected, and the model reads why.
- Input that was typed before the question is discarded.
- The first Ctrl-C cancels what runs; the second ends the program at once. The cancel is set from another thread,
  because the interrupted thread may hold the lock of `Cancel`.
- If nothing can be cancelled, Ctrl-C raises KeyboardInterrupt as usual.
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

from toolwire.cli.display import show_change, show_running
from toolwire.cli.screen import Screen, is_terminal
from toolwire.resolvers.execution import Cancel
from toolwire.types import Tool, ToolCall

_FETCHES = frozenset({"http_get"})
_PREVIEW_LINES, _SHORT_PREVIEW_LINES = 400, 40
_POLL_SECONDS = 0.1
_QUESTION = "Run it? [y/N], [a]lways {tool}, or say why not: "
_NO_TERMINAL = "there is no terminal to ask for approval; --yes approves all calls"
_STOPPED = "everything was stopped"


def tools_needing_approval(tools: Iterable[Tool]) -> list[str]:
    """Return the names of the tools that do more than read the project folder."""
    return [tool.name for tool in tools if tool.metadata.get("writes") or tool.name in _FETCHES]


class Approver:
    """Asks the user whether a call may run. An answer of "always" holds for all calls of the tool."""

    def __init__(self, screen: Screen, *, approve_all: bool = False) -> None:
        self.screen: Screen = screen
        self.approve_all: bool = approve_all
        self.always: set[str] = set()
        self.cancel: Cancel = Cancel()
        self.last_line: str = ""
        self._lock = threading.Lock()

    def __call__(self, call: ToolCall, preview: str) -> bool | str:
        """Return True if the call is approved, otherwise the reason for the model."""
        with self._lock:
            self.screen.wait(None)
            if self.approve_all or call.name in self.always:
                show_change(self.screen, preview, _SHORT_PREVIEW_LINES)
                answer: bool | str = True
            else:
                answer = self._ask(call, preview)
            if answer is True:
                self.last_line = ""
                show_running(self.screen, call.name, lambda: self.last_line)
            return answer

    def observe_output(self, data: bytes) -> None:
        """Store the last line of a running command's output, for the status line."""
        lines = [line for line in data.decode(errors="replace").splitlines() if line.strip()]
        self.last_line = lines[-1] if lines else self.last_line

    def _ask(self, call: ToolCall, preview: str) -> bool | str:
        screen = self.screen if self.screen.terminal and not self.screen.quiet else Screen(sys.stderr)
        if not (screen.terminal and is_terminal(sys.stdin)):
            show_change(self.screen, preview, _SHORT_PREVIEW_LINES)
            return _NO_TERMINAL
        show_change(screen, preview, _PREVIEW_LINES)
        with contextlib.suppress(ImportError, OSError):
            import termios  # noqa: PLC0415 - not on every system

            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        screen.write(_QUESTION.format(tool=call.name), "question")
        answer = _read_typed_line(self.cancel)
        if answer is None:
            screen.start_line()
            return _STOPPED if self.cancel.is_set() else parse_answer("")
        screen.line_entered()
        if answer.strip().lower() in ("a", "always"):
            self.always.add(call.name)
        return parse_answer(answer)


def parse_answer(answer: str) -> bool | str:
    """Return True for a yes, otherwise the reason for the model."""
    text = answer.strip()
    if text.lower() in ("y", "yes", "a", "always"):
        return True
    return "the user said no" + (f": {text}" if text.lower() not in ("", "n", "no") else "")


def _read_typed_line(cancel: Cancel, fd: int | None = None, wait: Callable[..., Any] = select.select) -> str | None:
    """Return a line from the terminal; None if `cancel` is set or the input has ended."""
    fd = sys.stdin.fileno() if fd is None else fd
    while not cancel.is_set():
        if wait([fd], [], [], _POLL_SECONDS)[0]:
            data = os.read(fd, 4096)
            return data.decode(errors="replace") if data else None
    return None


class Interrupts:
    """A context in which Ctrl-C can cancel the running request or tool."""

    def __init__(self) -> None:
        self._cancel: Cancel | None = None
        self._pressed: queue.SimpleQueue[Cancel | None] = queue.SimpleQueue()
        self._previous_handler: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous_handler = signal.signal(signal.SIGINT, self._press)
            threading.Thread(target=self._watch, name="interrupts", daemon=True).start()
        return self

    def __exit__(self, *_problem: object) -> None:
        if self._previous_handler is not None:
            signal.signal(signal.SIGINT, self._previous_handler)
            self._pressed.put(None)

    @contextlib.contextmanager
    def stopping(self, cancel: Cancel) -> Iterator[None]:
        """While this context lasts, Ctrl-C sets `cancel`."""
        self._cancel = cancel
        try:
            yield
        finally:
            self._cancel = None
            if self._previous_handler is not None:
                signal.signal(signal.SIGINT, self._press)

    def _press(self, *_signal: object) -> None:
        if self._cancel is None:
            raise KeyboardInterrupt
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._pressed.put(self._cancel)

    def _watch(self) -> None:
        while (cancel := self._pressed.get()) is not None:
            cancel()
