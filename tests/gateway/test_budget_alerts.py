"""Alerts of budgets: once in a window, by one process, after the part was spent and not before."""

import asyncio
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.gateway.test_accounts import NOW, Clock, url
from toolwire.errors import InvalidField
from toolwire.gateway import budget_alerts
from toolwire.gateway.accounts import Accounts, Reservation
from toolwire.gateway.budget_alerts import BudgetAlert
from toolwire.gateway.errors import GatewayError
from toolwire.gateway.keys import NANO, Key, alert_of, check_key, limit_of, mint
from toolwire.gateway.ledger import BudgetWatch, LimitLedger, window_of

__all__ = ["url"]

DAY = 86_400


@pytest.fixture(autouse=True)
def _short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_alerts, "_PAUSE", 0.02)


def stored_key(url: str, budget: str = "10/day", alert: int | None = 80) -> Key:
    """Store a key with a budget and an alert."""
    _, key = mint("ci", (), [limit_of("requests", "1000/day"), limit_of("budget", budget)], NOW, None)
    key = replace(key, alert=alert)
    ledger = LimitLedger(url)
    ledger.add(key)
    ledger.close()
    return key


def process(url: str, raised: list[BudgetAlert], clock: Any = None) -> Accounts:
    """Return the accounts of a process whose alerts are appended to `raised`."""
    accounts = Accounts(LimitLedger(url), clock or Clock())
    accounts.alerts.observers.append(raised.append)
    return accounts


async def spend(accounts: Accounts, key: Key, dollars: float, estimate: float | None = None) -> None:
    """Make a request that costs so much, and wait until its end is written and checked."""
    reservation = await reserve(accounts, key, dollars if estimate is None else estimate)
    reservation.settle({"requests": 1, "budget": int(dollars * NANO)})
    await checked(accounts)


async def reserve(accounts: Accounts, key: Key, dollars: float) -> Reservation:
    return await accounts.reserve(key, {"requests": 1, "budget": int(dollars * NANO)})


async def checked(accounts: Accounts) -> None:
    """Wait until all is written and all alerts are checked."""
    alerts, deadline = accounts.alerts, time.monotonic() + 20
    while accounts._settled or accounts._writing or alerts._due or alerts._timer or alerts._checking:
        assert time.monotonic() < deadline, "it is not checked in time"
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(("text", "percent"), [("80%", 80), (" 1% ", 1), ("100%", 100)])
def test_an_alert_is_a_part_of_the_budget(text: str, percent: int) -> None:
    assert alert_of(text) == percent


@pytest.mark.parametrize("text", ["", "0%", "101%", "80", "-5%", "8.5%", "1e1%", "\u0668%", "080%"])
def test_a_text_that_is_no_part_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(InvalidField, match="such as 80%"):
        alert_of(text)


def test_an_alert_needs_a_budget() -> None:
    _, key = mint("ci", (), [limit_of("requests", "1/day")], NOW, None)
    with pytest.raises(InvalidField, match="alert needs a budget"):
        check_key(replace(key, alert=80))


def test_an_alert_is_raised_once_in_each_window(url: str) -> None:
    async def lead() -> None:
        key, clock, raised = stored_key(url), Clock(), list[BudgetAlert]()
        accounts = process(url, raised, clock)
        await spend(accounts, key, 7.9)
        assert raised == []
        await spend(accounts, key, 0.1)
        await spend(accounts, key, 0.5)
        assert raised == [
            BudgetAlert(
                time="2027-01-15T08:00:00.000Z", key=key.id, key_name="ci", budget="10/day", alert="80%", spent=8.0
            )
        ]
        clock.now += DAY
        await spend(accounts, key, 7)
        assert len(raised) == 1
        await spend(accounts, key, 1)
        assert [one.spent for one in raised] == [8.0, 8.0]
        await accounts.close()

    asyncio.run(lead())


def test_of_several_processes_one_raises_the_alert(url: str) -> None:
    async def lead() -> None:
        key, raised = stored_key(url), list[BudgetAlert]()
        processes = [process(url, raised) for _ in range(4)]
        for _ in range(5):
            await asyncio.gather(*[spend(one, key, 0.45) for one in processes])
        assert [one.key for one in raised] == [key.id]
        assert 8 <= raised[0].spent <= 9
        for one in processes:
            await one.close()
        restarted = process(url, raised)
        await spend(restarted, key, 0.1)
        await restarted.close()
        assert len(raised) == 1

    asyncio.run(lead())


def test_requests_in_flight_raise_no_alert_unless_the_budget_refuses_a_request(url: str) -> None:
    async def lead() -> None:
        key, raised = stored_key(url), list[BudgetAlert]()
        accounts = process(url, raised)
        in_flight = await reserve(accounts, key, 9)
        await spend(accounts, key, 0.5)
        assert raised == []
        in_flight.settle({"requests": 1, "budget": NANO})
        await checked(accounts)
        assert raised == []
        dead = await reserve(accounts, key, 8)
        assert dead
        with pytest.raises(GatewayError, match="no more of its budget"):
            await reserve(accounts, key, 2)
        await checked(accounts)
        assert [one.spent for one in raised] == [9.5]
        await accounts.close()

    asyncio.run(lead())


def test_a_refusal_of_a_budget_of_which_little_is_spent_raises_no_alert(url: str) -> None:
    async def lead() -> None:
        key, raised = stored_key(url), list[BudgetAlert]()
        accounts = process(url, raised)
        with pytest.raises(GatewayError, match="no more of its budget"):
            await reserve(accounts, key, 11)
        await checked(accounts)
        assert raised == []
        await accounts.close()

    asyncio.run(lead())


def test_a_key_without_an_alert_raises_none(url: str) -> None:
    async def lead() -> None:
        key, raised = stored_key(url, alert=None), list[BudgetAlert]()
        accounts = process(url, raised)
        await spend(accounts, key, 10)
        with pytest.raises(GatewayError):
            await reserve(accounts, key, 1)
        await checked(accounts)
        assert raised == []
        await accounts.close()

    asyncio.run(lead())


def test_a_budget_that_was_raised_has_an_alert_of_its_own(url: str) -> None:
    async def lead() -> None:
        key, raised = stored_key(url), list[BudgetAlert]()
        accounts = process(url, raised)
        await spend(accounts, key, 9)
        larger = replace(key, limits=(key.limits[0], limit_of("budget", "20/day")))
        await spend(accounts, larger, 6)
        await spend(accounts, larger, 1)
        await spend(accounts, key, 0)
        assert [(one.budget, one.spent) for one in raised] == [("10/day", 9.0), ("20/day", 16.0)]
        await accounts.close()

    asyncio.run(lead())


def test_an_alert_is_raised_when_the_process_ends_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_alerts, "_PAUSE", 60)

    async def lead() -> None:
        key, raised = stored_key(url), list[BudgetAlert]()
        accounts = process(url, raised)
        reservation = await reserve(accounts, key, 9)
        reservation.settle({"requests": 1, "budget": 9 * NANO})
        await accounts.close()
        assert [one.spent for one in raised] == [9.0]

    asyncio.run(lead())


@pytest.mark.parametrize("committed", [True, False])
def test_an_alert_of_a_transaction_that_failed_is_raised_once(committed: bool, url: str) -> None:
    async def lead() -> None:
        key, raised = stored_key(url), list[BudgetAlert]()
        accounts = process(url, raised)
        ledger: Any = accounts._ledger
        raise_alerts, failures = ledger.raise_alerts, [0]

        def failing(*arguments: Any) -> Any:
            failures[0] += 1
            result = raise_alerts(*arguments) if committed or failures[0] > 2 else None
            if failures[0] <= 2:
                raise OSError("the connection was lost")
            return result

        ledger.raise_alerts = failing
        await spend(accounts, key, 9)
        assert failures == [3]
        assert [one.spent for one in raised] == [9.0]
        await accounts.close()

    asyncio.run(lead())


def test_alerts_go_with_their_windows(tmp_path: Path) -> None:
    ledger = LimitLedger(f"sqlite:///{tmp_path / 'keys.db'}")
    key = stored_key(f"sqlite:///{tmp_path / 'keys.db'}")
    budget = key.budget
    assert budget is not None

    async def lead() -> None:
        raised = list[BudgetAlert]()
        clock = Clock()
        accounts = process(f"sqlite:///{tmp_path / 'keys.db'}", raised, clock)
        for _ in range(3):
            await spend(accounts, key, 9)
            clock.now += DAY
        for _ in range(200):
            (await reserve(accounts, key, 0)).settle(None)
            clock.now += DAY
        assert len(raised) == 3
        await accounts.close()

    asyncio.run(lead())
    with sqlite3.connect(tmp_path / "keys.db") as database:
        assert database.execute("SELECT count(*) FROM toolwire_alerts").fetchone() == (0,)
    watch = BudgetWatch(window_of(key, budget, NOW), 8 * NANO)
    assert ledger.raise_alerts("p", [watch]) == {}
    ledger.close()
