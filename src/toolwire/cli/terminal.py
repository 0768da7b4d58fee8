"""The user at the terminal: approval of calls, and Ctrl-C.

Rules of this file:
- A call runs without a question only if the mode or a rule allows it. Otherwise only an explicit yes approves it.
- Without a terminal a call that needs a question is rejected, and the model reads why.
- Input that was typed before the question is discarded.
- The first Ctrl-C cancels what runs; the second ends the program at once. The cancel is set from another thread,
  because the interrupted thread may hold the lock of `Cancel`.
- If nothing can be cancelled, Ctrl-C raises KeyboardInterrupt as usual.
"""

import contextlib
import os
import queue
import re
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

from toolwire.cli.display import show_change, show_running
from toolwire.cli.permissions import ASK, RUN, Permissions
from toolwire.cli.rules import Rule
from toolwire.cli.screen import Screen, is_terminal
from toolwire.resolvers.execution import Cancel
from toolwire.types import ToolCall

_PREVIEW_LINES, _SHORT_PREVIEW_LINES = 400, 40
_POLL_SECONDS = 0.1
_VERBS = {
    **dict.fromkeys(("write_file", "append_to_file", "edit_file", "multi_edit"), "Write it?"),
    "http_get": "Fetch it?",
}
_NO_TERMINAL = "there is no terminal to ask for approval; --yes approves all calls, and --allow RULE some"
_ALWAYS = re.compile(r"a(?:lways)?(?:\s+(?P<rule>\S.*))?", re.IGNORECASE | re.DOTALL)
_STOPPED = "everything was stopped"


class Approver:
    """Decides whether a call may run: by the permissions, or by asking the user.

    An answer of "always" adds a rule, which is kept for the project folder. `on_approved` gets each call that may run.
    """

    def __init__(
        self, screen: Screen, permissions: Permissions, on_approved: Callable[[ToolCall], object] | None = None
    ) -> None:
        self.screen: Screen = screen
        self.permissions: Permissions = permissions
        self.on_approved: Callable[[ToolCall], object] | None = on_approved
        self.cancel: Cancel = Cancel()
        self.last_line: str = ""
        self._lock = threading.Lock()

    def __call__(self, call: ToolCall, preview: str) -> bool | str:
        """Return True if the call is approved, otherwise the reason for the model."""
        with self._lock:
            verdict = self.permissions.verdict(call)
            if verdict == RUN and self.permissions.only_reads(call.name):
                return True
            self.screen.wait(None)
            if verdict == ASK:
                answer = self._ask(call, preview)
            else:
                if not preview.startswith(f"{call.name}("):  # otherwise it repeats the line of the call
                    show_change(self.screen, preview, _SHORT_PREVIEW_LINES)
                answer = True if verdict == RUN else verdict
            if answer is True:
                if self.on_approved is not None:
                    self.on_approved(call)
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
        rule = self.permissions.usual_rule(call)
        always = "" if rule is None else f", [a]lways {rule}"
        screen.write(f"{_VERBS.get(call.name, 'Run it?')} [y/N]{always}, or say why not: ", "question")
        answer = _read_typed_line(self.cancel)
        if answer is None:
            screen.start_line()
            return _STOPPED if self.cancel.is_set() else parse_answer("")
        screen.line_entered()
        return self._add_rule(call, rule, answer, screen) or parse_answer(answer)

    def _add_rule(self, call: ToolCall, rule: Rule | None, answer: str, screen: Screen) -> bool:
        """Keep the rule that the answer "always" adds, and return True; return False for any other answer."""
        match = _ALWAYS.fullmatch(answer.strip())
        if match is None:
            return False
        if match["rule"] is not None:
            rule = self.permissions.parse_own_rule(match["rule"], call)
            if rule is None:
                return False
        if rule is None:
            screen.line("[approved once: no rule can say which calls like this one are meant]", "note")
            return True
        problem = self.permissions.keep(rule)
        screen.line(f"[{problem or f'always {rule}, in this folder; /mode forget in a chat removes it'}]", "note")
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
