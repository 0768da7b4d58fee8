"""Alerts of budgets: a key has spent the part of its budget that its `alert` names.

Rules of this file:
- The database decides which process reports an alert, so it is reported once.
- The budgets of requests that ended are checked within a second, outside of any request.
- An alert has the id and the name of a key, never the key.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from toolwire.gateway.errors import GatewayError
from toolwire.gateway.keys import NANO, Key
from toolwire.gateway.ledger import BudgetWatch, Window, window_of

_PAUSE = 0.5  # seconds from the end of a request until its budget is checked, together with others
_MOST_RAISED = 10_000


class BudgetAlert(Struct, frozen=True, kw_only=True):
    """An alert of a budget, as a line of the log."""

    time: str
    event: str = "budget_alert"
    key: str
    key_name: str
    budget: str
    alert: str
    spent: float
    """The dollars that the key has spent in the window."""


class BudgetAlerts:
    """The budgets of this process whose alerts are to be checked.

    `raise_alerts` is the ledger's function, run in its thread. `time_now` returns the time as the log has it.
    """

    def __init__(
        self,
        raise_alerts: Callable[[list[BudgetWatch]], Awaitable[Mapping[BudgetWatch, int | None]]],
        time_now: Callable[[], str],
    ) -> None:
        self._raise_alerts, self._time_now = raise_alerts, time_now
        self.observers: list[Callable[[BudgetAlert], None]] = []
        self._due: dict[tuple[Window, int], tuple[BudgetWatch, Key]] = {}
        self._raised: OrderedDict[tuple[Window, int], None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._checking: asyncio.Task[None] | None = None
        self._closed = False

    def note(self, key: Key, now: float, *, refused: bool = False) -> None:
        """Check the budget of `key` in the window of `now` soon. With `refused` it has refused a request."""
        watch = _watch_of(key, now, refused)
        if watch is None or (watch.window, watch.threshold) in self._raised:
            return
        before = self._due.get((watch.window, watch.threshold))
        if before is None or not before[0].refused:
            self._due[watch.window, watch.threshold] = watch, key
        self._check_soon()

    def _check_soon(self) -> None:
        if self._timer is None and self._checking is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._start)

    def _start(self) -> None:
        self._timer = None
        self._checking = asyncio.get_running_loop().create_task(self._check())

    async def _check(self) -> None:
        """Check the budgets that are due. If the database fails, they are checked again later."""
        due, self._due = self._due, {}
        try:
            raised = await self._raise_alerts([watch for watch, _ in due.values()])
        except GatewayError:
            self._due = due | self._due
            raised = {}
        for watch, spent in raised.items():
            self._raised[watch.window, watch.threshold] = None
            if len(self._raised) > _MOST_RAISED:
                self._raised.popitem(last=False)
            if spent is not None:
                self._report(due[watch.window, watch.threshold][1], spent)
        self._checking = None
        if self._due:
            self._check_soon()

    def _report(self, key: Key, spent: int) -> None:
        alert = BudgetAlert(
            time=self._time_now(),
            key=key.id,
            key_name=key.name,
            budget=str(key.budget),
            alert=f"{key.alert}%",
            spent=spent / NANO,
        )
        for observe in self.observers:
            observe(alert)

    async def close(self) -> None:
        """Check what is due for the last time."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._checking is not None:
            await self._checking
        if self._due:
            await self._check()


def _watch_of(key: Key, now: float, refused: bool) -> BudgetWatch | None:
    """Return the window and the threshold of a key's alert. Return None if the key has none."""
    budget = key.budget
    if budget is None or key.alert is None:
        return None
    return BudgetWatch(window_of(key, budget, now), -(-budget.amount * key.alert // 100), refused)
