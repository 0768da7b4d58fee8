"""The time limit of a run, and the usage of runs that its tools start.

Rules of this file:
- A run whose time has passed is stopped, whatever it does at that moment: an exchange, a tool, a nested run.
- A run that a tool of another run starts is part of that run: its tokens, its cost and its cancellation.
- A cost limit that cannot be enforced is rejected before anything is sent.
"""

import contextlib
import contextvars
import threading
import time
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from toolwire.errors import InvalidField
from toolwire.loop import Cancelled, LoopLimits, RunTools, add_usage
from toolwire.providers.catalogue import cost
from toolwire.resolvers.execution import Cancel, aexecute, execute
from toolwire.types import Response, ToolResult, Usage


class Clock:
    """Stops a run when the caller cancels it, or when its seconds have passed. It runs while it is entered."""

    def __init__(self, seconds: float | None, cancels: Iterable[Cancel | None], started: float | None = None) -> None:
        self._seconds = seconds
        self._started = time.monotonic() if started is None else started
        self._cancels = [stop for stop in cancels if stop is not None]
        self._is_own = self._seconds is not None or len(self._cancels) > 1
        self.stop: Cancel | None = Cancel() if self._is_own else next(iter(self._cancels), None)
        self._exit_stack = contextlib.ExitStack()

    def __enter__(self) -> None:
        if not self._is_own or self.stop is None:
            return
        for stop in self._cancels:
            self._exit_stack.enter_context(stop.telling(self.stop))
        if self._seconds is not None:
            remaining = max(0.0, min(self._seconds - self._spent(), threading.TIMEOUT_MAX))
            timer = threading.Timer(remaining, self.stop)
            timer.daemon = True
            self._exit_stack.callback(timer.cancel)
            timer.start()

    def __exit__(self, *_raised: object) -> None:
        self._exit_stack.close()

    def _spent(self) -> float:
        return time.monotonic() - self._started

    def is_over(self) -> bool:
        """Return True if the run has to end."""
        return self.stop is not None and self.stop.is_set()

    def end(self, partial: Response | None = None) -> Cancelled:
        """Return the reason for the end of the run."""
        if self._seconds is None or any(stop.is_set() for stop in self._cancels):
            return Cancelled(response=partial)
        reason = f"{self._spent():.1f} of {self._seconds:g} seconds have passed"
        return Cancelled(reason, partial, ending="budget")


class Account:
    """The usage of the runs that a run's tools start. It counts for the run itself, and so does its cancellation."""

    def __init__(
        self, limits: LoopLimits, cancel: Cancel | None, parent: "Account | None", started: float | None = None
    ) -> None:
        self.clock: Clock = Clock(limits.seconds, (cancel, None if parent is None else parent.clock.stop), started)
        self._tools = RunTools([], 0)
        self._lock = threading.Lock()
        self._usage: Usage | None = None
        self._cost: float | None = None

    @staticmethod
    def current() -> "Account | None":
        """Return the account of the run whose tool runs this code, or None."""
        return _running.get()

    def execute(self, tools: RunTools, *arguments: Any, **options: Any) -> list[ToolResult]:
        """Run calls. A run that one of them starts finds this account."""
        token = self._begin(tools)
        try:
            return execute(tools.calls, *arguments, **options)
        finally:
            _running.reset(token)

    async def aexecute(self, tools: RunTools, *arguments: Any, **options: Any) -> list[ToolResult]:
        """Run calls without blocking the event loop."""
        token = self._begin(tools)
        try:
            return await aexecute(tools.calls, *arguments, **options)
        finally:
            _running.reset(token)

    def _begin(self, tools: RunTools) -> "contextvars.Token[Account | None]":
        self._tools = tools
        return _running.set(self)

    def nested_limits(self, limits: LoopLimits) -> LoopLimits:
        """Return the limits of a nested run: it may not use more than is left here."""
        with self._lock:
            used = self._usage.total_tokens if self._usage is not None else 0
            tokens = None if self._tools.tokens is None else self._tools.tokens - used
            money = None if self._tools.cost is None else self._tools.cost - (self._cost or 0.0)
        return replace(limits, tokens=_least(limits.tokens, tokens), cost=_least(limits.cost, money))

    def add(self, usage: Usage | None, money: float | None) -> None:
        """Add the usage of a nested run or exchange."""
        with self._lock:
            self._usage = add_usage(self._usage, usage)
            self._cost = self._cost if money is None else (self._cost or 0.0) + money

    def take_added(self) -> tuple[Usage | None, float | None]:
        """Return what was added since the last call, and reset it."""
        with self._lock:
            usage, money = self._usage, self._cost
            self._usage = self._cost = None
        return usage, money


_running: contextvars.ContextVar[Account | None] = contextvars.ContextVar("toolwire_running", default=None)


def _least(one: Any, other: Any) -> Any:
    return min((value for value in (one, other) if value is not None), default=None)


def check_price(limits: LoopLimits, model: str | None) -> None:
    """Raise InvalidField if there is a limit of cost and the catalogue has no price of the model."""
    if limits.cost is not None and cost(Usage(1, 1), model) is None:
        raise InvalidField("cost", f"cannot be enforced: the catalogue has no price for {model!r}", path="limits")
