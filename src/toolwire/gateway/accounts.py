"""Who may ask, and how much: what a process holds of each key's limits, counted here and borrowed from the ledger.

Rules of this file:
- A request is admitted when all that it may take is reserved: from what the process holds, or borrowed first in one
  transaction for all that wait. What is refused keeps nothing.
- A process borrows what it will use within a moment, and gives back what it did not use in the next one.
- A reservation is settled once, by what was used. What came of it is written with the next transaction.
- Where the ledger fails nobody is admitted.
"""

import asyncio
import contextlib
import hashlib
import logging
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec import Struct

from toolwire.errors import StoreFailed
from toolwire.gateway.endings import Refused
from toolwire.gateway.keys import Key, Limit, id_in, refuse_key
from toolwire.gateway.ledger import LEASE, LimitLedger, Move, Moved, Place, place_of

_log = logging.getLogger(__name__)
FRESH = 1.0  # seconds after which a key is read anew: a key that was revoked is used no longer than that
_MOMENT = 0.1
_FLUSH = 0.2
_ALIVE = LEASE / 5
_MOST_KEYS = 10_000
_TRIES = 6


class _Account(Struct):
    """What this process holds of one window: unused, reserved by requests, and spent but not yet written."""

    limit: Limit
    free: int = 0
    reserved: int = 0
    spent: int = 0
    asked: int = 0
    since: float = 0.0
    wish: int = 0

    def pace(self, now: float) -> None:
        """Work out how much is used within a moment."""
        if now - self.since >= _MOMENT / 2:
            self.wish = int(self.asked * _MOMENT / max(now - self.since, _MOMENT))
            self.asked, self.since = 0, now


class Reservation(Struct):
    """What a request may take; `settle` says what it took."""

    accounts: "Accounts | None" = None
    taken: list[tuple[_Account, int]] = []

    def settle(self, used: dict[str, int] | None) -> None:
        """Say what was used of each kind; None gives all of it back. A second time changes nothing."""
        taken, self.taken = self.taken, []
        for account, amount in taken:
            spent = 0 if used is None else used.get(account.limit.kind, 0)
            account.reserved -= amount
            account.spent += spent
            account.free += amount - spent  # below nothing where more was used than was reserved: it is taken later
        if taken and self.accounts is not None:
            self.accounts.wake()


class _Waiting(Struct):
    """A request that waits for what it needs."""

    needs: list[tuple[_Account, Place, int]]
    answer: "asyncio.Future[Reservation | None]"


class Accounts:
    """The accounts of a process."""

    def __init__(self, ledger: LimitLedger, now: Callable[[], float] = time.time) -> None:
        self._ledger, self._now = ledger, now
        self.process: str = secrets.token_hex(16)
        self._thread = ThreadPoolExecutor(1, "toolwire-ledger")
        self._keys: OrderedDict[bytes, tuple[float, Key | None]] = OrderedDict()
        self._open: dict[Place, _Account] = {}
        self._waiting: list[_Waiting] = []
        self._touched: set[Place] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._living: asyncio.Task[None] | None = None
        self._alive = -math.inf
        self._failing: str | None = None

    def is_lost(self) -> bool:
        """Whether the files of the ledger were taken away: nobody is admitted until they are back."""
        try:
            self._ledger.check()
        except StoreFailed:
            return True
        return False

    async def key(self, text: str) -> Key:
        """Give the key of a text, or refuse it."""
        mark, now = hashlib.sha256(text.encode()).digest(), self._now()
        kept = self._keys.get(mark)
        if kept is None or not 0 <= now - kept[0] < FRESH:
            kept = now, await self._read(text)
            self._keys[mark] = kept
            if len(self._keys) > _MOST_KEYS:
                self._keys.popitem(last=False)
        if kept[1] is None or kept[1].state(now) != "active":
            raise refuse_key()
        return kept[1]

    async def _read(self, text: str) -> Key | None:
        identity = id_in(text)
        found = await self._do(self._ledger.find, identity) if identity else None
        return found if found is not None and found.is_of(text) else None

    async def _do(self, work: Callable[..., Any], *args: Any) -> Any:
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)
        except Exception as problem:
            if str(problem) != self._failing:  # every request is refused now, and one line says why
                _log.error("the ledger failed: %s", problem, exc_info=not isinstance(problem, StoreFailed))
            self._failing = str(problem)
            raise Refused("overloaded", "who may ask cannot be found out now", retry_after=5) from problem
        if self._failing is not None:
            _log.warning("the ledger works again")
            self._failing = None
        return found

    async def reserve(self, key: Key, needs: dict[str, int]) -> Reservation:
        """Reserve what a request may take, or refuse it."""
        if not key.limits:
            return Reservation()
        if self._now() - self._alive > LEASE - _ALIVE:
            await self._begin()
        for _ in range(_TRIES):
            wanted = [self._need(key, limit, needs.get(limit.kind, 0)) for limit in key.limits]
            if _has(wanted):
                return self._take(wanted)
            if (reservation := await self._borrow(wanted)) is not None:
                return reservation
            await asyncio.sleep(_FLUSH / 2)  # another process holds what it does not use, and will give it back
        raise _refused(wanted, self._now())

    async def _begin(self) -> None:
        """Say that this process lives; what it held before it was silent for too long is no longer its own."""
        for account in self._open.values():
            account.free = -account.reserved - account.spent
        now = self._alive = self._now()
        try:
            await self._do(self._ledger.live, self.process, now)
        except Refused:
            self._alive = -math.inf
            raise
        if self._living is None or self._living.done():
            self._living = asyncio.ensure_future(self._live())

    async def _live(self) -> None:
        """Say again and again that this process lives, and forget windows that are over."""
        while True:
            await asyncio.sleep(_ALIVE)
            now = self._now()
            with contextlib.suppress(Refused):
                await self._do(self._ledger.live, self.process, now)
                self._alive = now
            for place in [place for place in self._open if place not in self._touched]:
                if place.start + self._open[place].limit.seconds < now and not self._open[place].reserved:
                    del self._open[place]

    def _need(self, key: Key, limit: Limit, amount: int) -> tuple[_Account, Place, int]:
        place = place_of(key, limit, self._now())
        account = self._open.get(place)
        if account is None:
            account = self._open[place] = _Account(limit, since=time.monotonic())
        self._touched.add(place)
        # Tokens are a matter of pace: what is larger than the limit goes alone. Money is never more than there is.
        return account, place, min(amount, limit.amount) if limit.kind == "tokens" and limit.amount else amount

    def _take(self, wanted: list[tuple[_Account, Place, int]]) -> Reservation:
        for account, _, amount in wanted:
            account.free -= amount
            account.reserved += amount
            account.asked += amount
        return Reservation(self, [(account, amount) for account, _, amount in wanted])

    async def _borrow(self, wanted: list[tuple[_Account, Place, int]]) -> Reservation | None:
        """Wait for what a request needs; None is to be tried again."""
        answer: asyncio.Future[Reservation | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(wanted, answer))
        self._write()
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and (got := answer.result()) is not None:
                got.settle(None)
            raise

    def wake(self) -> None:
        """See to it that what was settled is written soon."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH, self._write)

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write_all())

    async def _write_all(self) -> None:
        """Write in one transaction what all who wait need, and what was settled; and again, for who came meanwhile."""
        while True:
            waiting, self._waiting = [one for one in self._waiting if not one.answer.done()], []
            moves = self._moves(waiting)
            try:
                moved = await self._do(self._ledger.move, self.process, moves) if moves else {}
            except Refused as refused:
                for move in moves:
                    self._open[move.place].spent += move.used
                    self._open[move.place].free += move.back
                for one in waiting:
                    if not one.answer.done():
                        one.answer.set_exception(refused)
                self.wake()
                return
            for place, lent in moved.items():
                self._open[place].free += lent.granted
            for one in waiting:
                self._serve(one, moved)
            if not self._waiting:
                break
        if self._touched:
            self.wake()

    def _moves(self, waiting: list[_Waiting]) -> list[Move]:
        """Say what is to be written of each window, and take it out of what is held here."""
        needs: dict[Place, list[int]] = {}
        for one in waiting:
            for _, place, amount in one.needs:
                needs.setdefault(place, []).append(amount)
        moves = []
        for place in [*self._touched]:
            account = self._open[place]
            account.pace(time.monotonic())
            wanted = needs.get(place, [])
            back = min(account.free, 0) if wanted else account.free - min(max(account.free, 0), account.wish)
            if wanted and account.free > 0:  # what is held is used for the first of those who wait
                wanted = _without(wanted, account.free)
            if not (wanted or account.spent or back):
                if not (account.free or account.reserved):
                    self._touched.discard(place)
                continue
            wish = account.wish if wanted else 0
            moves.append(
                Move(place, account.limit.amount, wanted, wish, account.spent, back, max(0, account.free - back))
            )
            account.free, account.spent = account.free - back, 0
        return moves

    def _serve(self, one: _Waiting, moved: Mapping[Place, Moved]) -> None:
        if one.answer.done():
            return
        lacking = [place for account, place, amount in one.needs if account.free < amount]
        short = [moved[place] for place in lacking if place in moved and moved[place].short]
        if not lacking:
            one.answer.set_result(self._take(one.needs))
        elif not short:  # a request that came meanwhile took what was here
            self._waiting.append(one)
        elif any(ones.others_spare for ones in short):
            one.answer.set_result(None)
        else:
            one.answer.set_exception(_refused(one.needs, self._now()))

    async def close(self) -> None:
        """Write what was settled, and give back what is held."""
        if self._living is not None:
            self._living.cancel()
        if self._writing is not None:
            await self._writing
        with contextlib.suppress(Refused):
            for account in self._open.values():
                account.wish = account.asked = 0
            if moves := self._moves([]):
                await self._do(self._ledger.move, self.process, moves)
            await self._do(self._ledger.leave, self.process, self._now())
        if self._timer is not None:
            self._timer.cancel()
        self._thread.shutdown()
        self._ledger.close()


def _has(wanted: list[tuple[_Account, Place, int]]) -> bool:
    return all(account.free >= amount for account, _, amount in wanted)


def _without(needs: list[int], free: int) -> list[int]:
    """Give what is needed beyond what is there."""
    left = []
    for need in needs:
        here = min(free, need)
        free -= here
        if need > here:
            left.append(need - here)
    return left


def _refused(wanted: list[tuple[_Account, Place, int]], now: float) -> Refused:
    """Say which limit is reached, and when its window ends."""
    account, place, _ = next((one for one in wanted if one[0].free < one[2]), wanted[0])
    limit = account.limit
    what = f"${limit}" if limit.kind == "budget" else f"{limit} {limit.kind}"
    wait = max(1, math.ceil(place.start + limit.seconds - now))
    message = f"this key has no more of its {limit.kind} ({what}) in this {limit.window}"
    return Refused("rate_limit", message, code="limit_reached", retry_after=wait)
