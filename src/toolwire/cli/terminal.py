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
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Self

from toolwire.cli.display import show_change, show_running
from toolwire.cli.edits import Edits
from toolwire.cli.permissions import Permissions, Rule, parse_rule, permissions_file
from toolwire.cli.screen import Screen, is_terminal
from toolwire.errors import UserError
from toolwire.resolvers.execution import Cancel
from toolwire.types import Tool, ToolCall

_FETCHES = frozenset({"http_get"})
_PREVIEW_LINES, _SHORT_PREVIEW_LINES = 400, 40
_POLL_SECONDS = 0.1
_QUESTION = "Run it? [y/N], {always}or say why not: "
_ONCE = "[only this once: a command with ; & | < > $ is always asked about]"
_NO_TERMINAL = "there is no terminal to ask for approval; --yes approves all calls"
_STOPPED = "everything was stopped"


def tools_needing_approval(tools: Iterable[Tool]) -> list[str]:
    """Return the names of the tools that do more than read the project folder."""
    return [tool.name for tool in tools if tool.metadata.get("writes") or tool.name in _FETCHES]


class Approver:
    """Decides whether a call may run, by the permissions or by asking the user. "always" adds a rule and keeps it.

    `needing` are the tools that need approval, or None for all.
    """

    def __init__(self, screen: Screen, permissions: Permissions, needing: Collection[str] | None = None) -> None:
        self.screen: Screen = screen
        self.permissions: Permissions = permissions
        self.needing: Collection[str] | None = needing
        self.cancel: Cancel = Cancel()
        self.last_line: str = ""
        self.edits: Edits | None = None
        self._lock = threading.Lock()

    def __call__(self, call: ToolCall, preview: str) -> bool | str:
        """Return True if the call is approved, otherwise the reason for the model."""
        needs_approval = self.needing is None or call.name in self.needing
        with self._lock:
            answer = self.permissions.decide(call, needs_approval=needs_approval)
            if answer is True and not needs_approval:
                return True
            self.screen.wait(None)
            if answer is None:
                answer = self._ask(call, preview)
            else:
                show_change(self.screen, preview, _SHORT_PREVIEW_LINES)
            if answer is True:
                if self.edits is not None:
                    self.edits.note(call)
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
        rule = self.permissions.suggest(call)
        screen.write(_QUESTION.format(always=f"[a]lways {rule}, " if rule else ""), "question")
        answer = _read_typed_line(self.cancel)
        if answer is None:
            screen.start_line()
            return _STOPPED if self.cancel.is_set() else parse_answer("")
        screen.line_entered()
        word, _, more = answer.strip().partition(" ")
        if word.lower() in ("a", "always") and (not more or self._is_rule(more, call)):
            return self._always(parse_rule(more) if more else rule, screen)
        return parse_answer(answer)

    def _is_rule(self, text: str, call: ToolCall) -> bool:
        """Return True if the user has typed a rule that allows this call."""
        try:
            return Permissions(self.permissions.folder, allow=[text]).is_allowed(call)
        except UserError:
            return False

    def _always(self, rule: Rule | None, screen: Screen) -> bool:
        """Add the rule of "always", and show where it is kept."""
        if rule is None:
            screen.line(_ONCE, "note")
            return True
        try:
            self.permissions.allow(rule)
            screen.line(f"[{rule} is allowed in this folder from now on: {permissions_file()}]", "note")
        except (OSError, UserError) as problem:
            screen.line(f"[{rule} is allowed until the end, and not kept: {problem}]", "error")
        return True


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
