"""What a run may use while it runs: its seconds, and what the runs that its tools lead have used.

Rules of this file:
- A run whose seconds have passed is stopped, whatever it does then: an exchange, a tool, a run within it.
- A run that is led by a tool of another run is a part of that one: its tokens, its cost, its cancellation.
- A limit that nobody could keep is refused before anything is sent.
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
    """Says stop when the caller does, or when the seconds of the run have passed; it runs while it is entered."""

    def __init__(self, seconds: float | None, stops: Iterable[Cancel | None], begun: float | None = None) -> None:
        self._seconds = seconds
        self._begun = time.monotonic() if begun is None else begun
        self._stops = [stop for stop in stops if stop is not None]
        self._is_own = self._seconds is not None or len(self._stops) > 1
        self.stop: Cancel | None = Cancel() if self._is_own else next(iter(self._stops), None)
        self._held = contextlib.ExitStack()

    def __enter__(self) -> None:
        if not self._is_own or self.stop is None:
            return
        for stop in self._stops:
            self._held.enter_context(stop.telling(self.stop))
        if self._seconds is not None:
            left = max(0.0, min(self._seconds - self._spent(), threading.TIMEOUT_MAX))
            timer = threading.Timer(left, self.stop)
            timer.daemon = True
            self._held.callback(timer.cancel)
            timer.start()

    def __exit__(self, *_raised: object) -> None:
        self._held.close()

    def _spent(self) -> float:
        return time.monotonic() - self._begun

    def is_over(self) -> bool:
        """Whether the run is to end."""
        return self.stop is not None and self.stop.is_set()

    def end(self, partial: Response | None = None) -> Cancelled:
        """Give why the run ends."""
        if self._seconds is None or any(stop.is_set() for stop in self._stops):
            return Cancelled(response=partial)
        reason = f"{self._spent():.1f} of {self._seconds:g} seconds have passed"
        return Cancelled(reason, partial, ending="budget")


class Account:
    """What the runs that a run's tools lead have used: it is the run's own, and so is its cancellation."""

    def __init__(
        self, limits: LoopLimits, cancel: Cancel | None, above: "Account | None", begun: float | None = None
    ) -> None:
        self.clock: Clock = Clock(limits.seconds, (cancel, None if above is None else above.clock.stop), begun)
        self._tools = RunTools([], 0)
        self._lock = threading.Lock()
        self._usage: Usage | None = None
        self._cost: float | None = None

    @staticmethod
    def of_the_run_around() -> "Account | None":
        """Give the account of the run whose tool leads a run here, if one does."""
        return _running.get()

    def execute(self, tools: RunTools, *given: Any, **options: Any) -> list[ToolResult]:
        """Run calls; a run that one of them leads finds its account here."""
        token = self._begin(tools)
        try:
            return execute(tools.calls, *given, **options)
        finally:
            _running.reset(token)

    async def aexecute(self, tools: RunTools, *given: Any, **options: Any) -> list[ToolResult]:
        """Run calls without blocking the event loop."""
        token = self._begin(tools)
        try:
            return await aexecute(tools.calls, *given, **options)
        finally:
            _running.reset(token)

    def _begin(self, tools: RunTools) -> "contextvars.Token[Account | None]":
        self._tools = tools
        return _running.set(self)

    def limited(self, limits: LoopLimits) -> LoopLimits:
        """Give the limits of a run within this one: it may not use more than is left here."""
        with self._lock:
            used = self._usage.total_tokens if self._usage is not None else 0
            tokens = None if self._tools.tokens is None else self._tools.tokens - used
            money = None if self._tools.cost is None else self._tools.cost - (self._cost or 0.0)
        return replace(limits, tokens=_least(limits.tokens, tokens), cost=_least(limits.cost, money))

    def add(self, usage: Usage | None, money: float | None) -> None:
        """Add what a run within this one has used, or an exchange."""
        with self._lock:
            self._usage = add_usage(self._usage, usage)
            self._cost = self._cost if money is None else (self._cost or 0.0) + money

    def taken(self) -> tuple[Usage | None, float | None]:
        """Give what was added since this was asked last."""
        with self._lock:
            usage, money = self._usage, self._cost
            self._usage = self._cost = None
        return usage, money


_running: contextvars.ContextVar[Account | None] = contextvars.ContextVar("toolwire_running", default=None)


def _least(one: Any, other: Any) -> Any:
    return min((each for each in (one, other) if each is not None), default=None)


def check_price(limits: LoopLimits, model: str | None) -> None:
    """Refuse a limit of cost that nobody could keep."""
    if limits.cost is not None and cost(Usage(1, 1), model) is None:
        raise InvalidField("cost", f"cannot be kept: the catalogue has no price of {model!r}", path="limits")
