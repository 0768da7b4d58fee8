"""Admission of requests against the limits of their keys.

The ledger admits a request before it is sent, and settles it when it ends.

Rules of this file:
- A request is admitted when the ledger has stored its estimate. Requests that wait share one transaction.
- No limit is counted in this process. So nothing is lost or counted twice if the process pauses or is killed.
- A request is settled with what it used. The ledger learns of it with the next transaction.
- If the ledger fails, no request is admitted, and the requests that ended are settled once it works again.
- The budget of a key with an alert is checked after a request of the key was settled.
"""

import asyncio
import hashlib
import itertools
import logging
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from toolwire.errors import StoreFailed, UserError
from toolwire.gateway.budget_alerts import BudgetAlerts
from toolwire.gateway.errors import GatewayError
from toolwire.gateway.keys import Key, Limit, id_in, invalid_key
from toolwire.gateway.ledger import Admission, BudgetWatch, Estimate, LimitLedger, Window, window_of

_log = logging.getLogger(__name__)
FRESH = 1.0  # seconds for which a key is cached: a revoked key works no longer than that
_FLUSH = 0.1  # seconds for which a settled request waits for others, so that they share a transaction
_RETRY = 0.5
_BATCH = 256
_MOST_KEYS = 10_000
_Result = TypeVar("_Result")


class Reservation(Struct):
    """The estimate of a request that was admitted. `settle` replaces it by what the request used."""

    accounts: "Accounts | None" = None
    number: int = 0

    def settle(self, used: Mapping[str, int] | None) -> None:
        """Settle the request with what it used of each kind; None is nothing. A second call changes nothing."""
        accounts, self.accounts = self.accounts, None
        if accounts is not None:
            accounts.settle(self.number, used or {})


class _Waiting(Struct):
    """A request that waits to be admitted."""

    admission: Admission
    key: Key
    time: float
    answer: "asyncio.Future[Reservation]"


class Accounts:
    """The connection of a process to the ledger."""

    def __init__(self, ledger: LimitLedger, now: Callable[[], float] = time.time) -> None:
        self._ledger, self._now = ledger, now
        self.process: str = secrets.token_hex(16)
        self._numbers = itertools.count(1)
        self._thread = ThreadPoolExecutor(1, "toolwire-ledger")
        self._keys: OrderedDict[bytes, tuple[float, Key | None]] = OrderedDict()
        self._waiting: list[_Waiting] = []
        self._settled: dict[int, Mapping[str, int]] = {}
        self._alerting: dict[int, tuple[Key, float]] = {}  # admitted requests of keys with an alert, and their times
        self.alerts: BudgetAlerts = BudgetAlerts(self._raise_alerts, self.time_in_utc)
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        self._writing: asyncio.Future[list[Window | None]] | None = None
        self._failing: str | None = None
        self._closed = False

    def is_lost(self) -> bool:
        """Return True if the files of the ledger were taken away: nobody is admitted until they are back."""
        try:
            self._ledger.check()
        except StoreFailed:
            return True
        return False

    async def key(self, text: str) -> Key:
        """Return the key of a text, or refuse it."""
        mark, now = hashlib.sha256(text.encode()).digest(), self._now()
        kept = self._keys.get(mark)
        if kept is None or not 0 <= now - kept[0] < FRESH:
            kept = now, await self._find(text)
            self._keys[mark] = kept
            if len(self._keys) > _MOST_KEYS:
                self._keys.popitem(last=False)
        if kept[1] is None or kept[1].state(now) != "active":
            raise invalid_key()
        return kept[1]

    async def _find(self, text: str) -> Key | None:
        identity = id_in(text)
        key = await self._do(self._ledger.find, identity) if identity else None
        return key if key is not None and key.is_of(text) else None

    async def run(self, work: Callable[[LimitLedger], _Result]) -> _Result:
        """Run `work` on the ledger, in its thread. Raise `UserError` if `work` does."""
        result: _Result = await self._do(work, self._ledger)
        return result

    async def _raise_alerts(self, watches: list[BudgetWatch]) -> dict[BudgetWatch, int | None]:
        return await self.run(lambda ledger: ledger.raise_alerts(self.process, watches))

    def time_in_utc(self) -> str:
        """Return the time now in UTC, as the log has it."""
        return datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    @property
    def now(self) -> float:
        """The time now."""
        return self._now()

    def forget(self, identity: str) -> None:
        """Read a key again from the ledger when it is used next: it was changed."""
        for mark, (_, key) in [*self._keys.items()]:
            if key is not None and key.id == identity:
                del self._keys[mark]

    async def _do(self, work: Callable[..., Any], *args: Any) -> Any:
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)
        except UserError:
            self._note_success()
            raise
        except Exception as problem:
            raise self._note_failure(problem) from problem
        self._note_success()
        return result

    def _note_failure(self, problem: BaseException) -> GatewayError:
        if str(problem) != self._failing:  # every request is refused now, but the log needs only one line
            _log.error("the ledger failed: %s", problem, exc_info=None if isinstance(problem, StoreFailed) else problem)
        self._failing = str(problem)
        return GatewayError("overloaded", "keys cannot be checked now: the database does not answer", retry_after=5)

    def _note_success(self) -> None:
        if self._failing is not None:
            _log.warning("the ledger works again")
            self._failing = None

    async def reserve(self, key: Key, needs: Mapping[str, int]) -> Reservation:
        """Admit a request that may use so much of each kind, or refuse it."""
        if not key.limits:
            return Reservation()
        now = self._now()
        estimates = tuple([_estimate(key, limit, needs.get(limit.kind, 0), now) for limit in key.limits])
        answer: asyncio.Future[Reservation] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(Admission(next(self._numbers), estimates), key, now, answer))
        self._write_within(0)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                answer.result().settle(None)
            raise

    def settle(self, number: int, used: Mapping[str, int]) -> None:
        """Settle a request. It is written soon, with others."""
        self._settled[number] = used
        self._write_within(_FLUSH)

    def _write_within(self, seconds: float) -> None:
        """Write within `seconds`. Requests that arrive in one turn of the event loop share a transaction."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if due < self._due and not self._closed:
            if self._timer is not None:
                self._timer.cancel()
            self._due, self._timer = due, loop.call_later(seconds, self._write)

    def _write(self) -> None:
        """Write what was settled and admit who waits, in one transaction at a time."""
        if self._timer is not None:
            self._timer.cancel()
        self._due, self._timer = math.inf, None
        self._waiting = [one for one in self._waiting if not one.answer.done()]  # the others' clients have left
        if self._writing is not None or not (self._waiting or self._settled):
            return
        waiting, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
        settled = {number: self._settled.pop(number) for number in list(itertools.islice(self._settled, _BATCH))}
        asked = [one.admission for one in waiting]
        loop = asyncio.get_running_loop()
        self._writing = loop.run_in_executor(self._thread, self._ledger.write, self.process, settled, asked)
        self._writing.add_done_callback(partial(self._written, waiting, settled))

    def _written(
        self,
        waiting: list[_Waiting],
        settled: dict[int, Mapping[str, int]],
        writing: "asyncio.Future[list[Window | None]]",
    ) -> None:
        """Answer those who waited, and write what came meanwhile."""
        self._writing = None
        problem = writing.exception()
        if problem is None:
            self._note_success()
            for number in settled:
                if (alerting := self._alerting.pop(number, None)) is not None:
                    self.alerts.note(*alerting)
            for one, full in zip(waiting, writing.result(), strict=True):
                self._answer(one, full)
            self._write()
            return
        # Nobody knows whether the transaction was committed. To settle a request twice changes nothing.
        self._settled |= settled | {one.admission.number: {} for one in waiting}
        rejection = self._note_failure(problem)
        for one in waiting:
            if not one.answer.done():
                one.answer.set_exception(rejection)
        self._write_within(_RETRY)

    def _answer(self, one: _Waiting, full: Window | None) -> None:
        """Answer a request that waits. One whose client has left meanwhile takes nothing."""
        if full is not None and full.kind == "budget":
            self.alerts.note(one.key, one.time, refused=True)
        if full is None and one.answer.done():
            self.settle(one.admission.number, {})
        elif full is None:
            if one.key.alert is not None:
                self._alerting[one.admission.number] = one.key, one.time
            one.answer.set_result(Reservation(self, one.admission.number))
        elif not one.answer.done():
            one.answer.set_exception(_limit_error(one.key.limits, full, self._now()))

    async def close(self) -> None:
        """Write what was settled, and close the ledger."""
        self._closed = True
        self._write()
        while self._writing is not None:
            await asyncio.wait([self._writing])
        if self._timer is not None:
            self._timer.cancel()
        await self.alerts.close()
        self._thread.shutdown()
        self._ledger.close()


def _estimate(key: Key, limit: Limit, amount: int, now: float) -> Estimate:
    """Return what a request may take of a limit.

    Tokens are a matter of pace: a request that is larger than the limit is let through alone. Money is never more than
    there is.
    """
    most = min(amount, limit.amount) if limit.kind == "tokens" and limit.amount else amount
    return Estimate(window_of(key, limit, now), most, limit.amount)


def _limit_error(limits: tuple[Limit, ...], window: Window, now: float) -> GatewayError:
    """Return the error for a limit that is reached, with the time until its window ends."""
    limit = next(one for one in limits if (one.kind, one.window) == (window.kind, window.unit))
    description = f"${limit}" if limit.kind == "budget" else f"{limit} {limit.kind}"
    wait = max(1, math.ceil(limit.window_at(window.start)[1] - now))
    message = f"this key has no more of its {limit.kind} ({description}) in this {limit.window}"
    return GatewayError("rate_limit", message, code="limit_reached", retry_after=wait)
