"""What a key may take: reserved before a request, settled once, never more than there is, over both databases."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.traces.postgres import Database, Postgres
from toolwire.gateway import accounts as accounts_module
from toolwire.gateway.accounts import Accounts, Reservation
from toolwire.gateway.errors import GatewayError
from toolwire.gateway.keys import NANO, Key, Limit, limit_of, mint
from toolwire.gateway.ledger import LimitLedger
from toolwire.gateway.memory import StoredMemory
from toolwire.gateway.starting import url_of_database

NOW = 1_800_000_000.0


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'keys.db'}"
    else:
        yield url_of_database(request.getfixturevalue("database").url, None)


def made(url: str, *limits: Limit, **more: Any) -> Key:
    """Make a key, and keep it."""
    ledger = LimitLedger(url)
    _, key = mint("ci", more.get("models", ()), limits, NOW, None)
    ledger.add(key)
    ledger.close()
    return key


def taken(url: str, key: Key, now: float = NOW) -> list[int]:
    """Say what the database says is taken of each limit."""
    ledger = LimitLedger(url)
    found = list(ledger.taken(key, now).values())
    ledger.close()
    return found


async def tries(accounts: Accounts, key: Key, count: int, **needs: int) -> list[Reservation]:
    """Ask for so many reservations at once; give those that were granted."""
    got = await asyncio.gather(*[accounts.reserve(key, needs) for _ in range(count)], return_exceptions=True)
    assert all(isinstance(one, Reservation | GatewayError) for one in got), got
    return [one for one in got if isinstance(one, Reservation)]


def vanish(accounts: Accounts) -> None:
    """End a process without a word: nothing of it is written any more."""
    accounts._closed = True
    if accounts._timer is not None:
        accounts._timer.cancel()
    accounts._thread.shutdown()
    accounts._ledger.close()


@pytest.mark.row("O17")
def test_of_many_at_once_as_many_are_admitted_as_the_limit_says(url: str) -> None:
    async def lead() -> None:
        key = made(url, limit_of("requests", "100/day"))
        first, second = Accounts(LimitLedger(url), Clock()), Accounts(LimitLedger(url), Clock())
        got = await asyncio.gather(*[tries(one, key, 500, requests=1) for one in (first, second)])
        assert sum(map(len, got)) == 100
        for one in [*got[0], *got[1]]:
            one.settle({"requests": 1})
        assert await tries(first, key, 5, requests=1) == []
        await first.close()
        await second.close()
        assert taken(url, key) == [100]

    asyncio.run(lead())


@pytest.mark.row("O17")
def test_what_one_process_holds_unused_another_gets(url: str) -> None:
    async def lead() -> None:
        key = made(url, limit_of("requests", "1000/day"))
        clock = Clock()
        busy, other = Accounts(LimitLedger(url), clock), Accounts(LimitLedger(url), clock)
        got = []
        for _ in range(30):
            got += await tries(busy, key, 10, requests=1)
            await asyncio.sleep(0.02)
        assert len(got) == 300
        got += await tries(other, key, 900, requests=1)
        assert len(got) == 1000
        await busy.close()
        await other.close()

    asyncio.run(lead())


def test_what_is_settled_is_what_counts_and_once(url: str) -> None:
    async def lead() -> None:
        key = made(url, limit_of("tokens", "1000/min"), limit_of("budget", "0.001/day"))
        accounts = Accounts(LimitLedger(url), Clock())
        [one] = await tries(accounts, key, 1, tokens=900, budget=900_000)
        assert await tries(accounts, key, 1, tokens=10, budget=200_000) == []
        one.settle({"tokens": 30, "budget": 100_000})
        one.settle({"tokens": 30, "budget": 100_000})
        one.settle(None)
        [two] = await tries(accounts, key, 1, tokens=900, budget=900_000)
        two.settle(None)
        [three] = await tries(accounts, key, 1, tokens=10, budget=0)
        three.settle({"tokens": 2000, "budget": 5})
        assert await tries(accounts, key, 1, tokens=1, budget=0) == []
        await accounts.close()
        assert taken(url, key) == [2030, 100_005]

    asyncio.run(lead())


def test_what_a_dead_process_had_started_stays_spent(url: str) -> None:
    async def lead() -> None:
        key, clock = made(url, limit_of("requests", "10/day"), limit_of("tokens", "1000/day")), Clock()
        dead, living = Accounts(LimitLedger(url), clock), Accounts(LimitLedger(url), clock)
        held = await tries(dead, key, 7, requests=1, tokens=50)
        for one in held[:3]:
            one.settle({"requests": 1, "tokens": 2})
        await asyncio.sleep(0.3)
        vanish(dead)
        for seconds in (0, 20, 3600):
            clock.now += seconds
            assert taken(url, key, clock.now) == [7, 206]
        assert len(await tries(living, key, 10, requests=1, tokens=50)) == 3
        await living.close()

    asyncio.run(lead())


JUMPS = [20.0, -20.0, 3600.0, -3600.0]


@pytest.mark.row("O17")
@pytest.mark.parametrize("seconds", JUMPS)
def test_a_process_that_pauses_or_whose_clock_jumps_loses_nothing_that_is_in_flight(seconds: float, url: str) -> None:
    async def lead() -> None:
        key, clock = made(url, limit_of("requests", "100/day"), limit_of("budget", "1/day")), Clock()
        paused, other = Accounts(LimitLedger(url), clock), Accounts(LimitLedger(url), Clock())
        held = await tries(paused, key, 40, requests=1, budget=1000)
        clock.now += seconds
        assert len(await tries(other, key, 200, requests=1, budget=1000)) == 60
        assert await tries(paused, key, 50, requests=1, budget=1000) == []
        assert taken(url, key) == [100, 100_000]
        for one in held:
            one.settle({"requests": 1, "budget": 300})
        await paused.close()
        assert taken(url, key) == [100, 72_000]
        vanish(other)

    asyncio.run(lead())


def test_what_is_in_flight_in_the_only_process_counts_once_however_long_it_was_silent(url: str) -> None:
    async def lead() -> None:
        key, clock = made(url, limit_of("requests", "100/day"), limit_of("tokens", "10000/day")), Clock()
        accounts = Accounts(LimitLedger(url), clock)
        held = await tries(accounts, key, 40, requests=1, tokens=10)
        for seconds in (13, 20, 600):
            clock.now += seconds
            held += await tries(accounts, key, 1, requests=1, tokens=10)
            assert taken(url, key) == [len(held), 10 * len(held)]
        assert len(await tries(accounts, key, 100, requests=1, tokens=10)) == 57
        for one in held:
            one.settle({"requests": 1, "tokens": 1})
        await accounts.close()
        assert taken(url, key) == [100, 43 + 570]

    asyncio.run(lead())


def test_a_request_that_ends_after_its_window_corrects_its_own_window(url: str) -> None:
    async def lead() -> None:
        key, clock = made(url, limit_of("tokens", "100/min"), limit_of("budget", "1/day")), Clock()
        accounts = Accounts(LimitLedger(url), clock)
        [late] = await tries(accounts, key, 1, tokens=80, budget=500)
        clock.now += 60
        [new] = await tries(accounts, key, 1, tokens=80, budget=500)
        late.settle({"tokens": 7, "budget": 30})
        await asyncio.sleep(0.2)
        assert (taken(url, key), taken(url, key, clock.now)) == ([7, 530], [80, 530])
        new.settle({"tokens": 9, "budget": 40})
        await accounts.close()
        assert (taken(url, key), taken(url, key, clock.now)) == ([7, 70], [9, 70])

    asyncio.run(lead())


def test_a_clock_that_jumps_far_grants_no_window_more_than_its_limit(url: str) -> None:
    async def lead() -> None:
        key, clock = made(url, limit_of("requests", "5/day")), Clock()
        accounts = Accounts(LimitLedger(url), clock)
        granted: dict[float, int] = {}
        for days in (0, 90, 0, -400, 0, 90, -400, 1, 0):
            clock.now = NOW + days * 86_400
            granted[days] = granted.get(days, 0) + len(await tries(accounts, key, 3, requests=1))
        assert granted == {0: 5, 90: 5, -400: 5, 1: 3}
        await accounts.close()

    asyncio.run(lead())


@pytest.mark.parametrize("committed", [True, False])
def test_a_ledger_that_fails_and_comes_back_has_lost_nothing(committed: bool, url: str) -> None:
    async def lead() -> None:
        key = made(url, limit_of("requests", "10/day"), limit_of("tokens", "1000/day"))
        accounts = Accounts(LimitLedger(url), Clock())
        held = await tries(accounts, key, 4, requests=1, tokens=100)
        ledger: Any = accounts._ledger
        write, failing = ledger.write, True

        def written(*what: Any) -> Any:
            if failing and not committed:
                raise OSError("the server is away")
            done = write(*what)
            if failing:
                raise OSError("the connection was lost")
            return done

        ledger.write = written
        for one in held[:2]:
            one.settle({"requests": 1, "tokens": 5})
        assert await tries(accounts, key, 3, requests=1, tokens=100) == []
        failing = False
        await asyncio.sleep(1.2)
        assert taken(url, key) == [4, 210]
        assert len(await tries(accounts, key, 10, requests=1, tokens=100)) == 6
        await accounts.close()

    asyncio.run(lead())


def test_a_window_ends_and_what_is_refused_says_when(url: str) -> None:
    async def lead() -> None:
        key, clock = made(url, limit_of("requests", "1/min")), Clock()
        accounts = Accounts(LimitLedger(url), clock)
        assert len(await tries(accounts, key, 2, requests=1)) == 1
        with pytest.raises(GatewayError) as refused:
            await accounts.reserve(key, {"requests": 1})
        wait = refused.value.error.retry_after
        assert wait is not None
        assert 1 <= wait <= 60
        assert refused.value.error.status == 429
        clock.now += wait
        assert len(await tries(accounts, key, 2, requests=1)) == 1
        await accounts.close()

    asyncio.run(lead())


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        ("2026-01-31T23:59:59", "2026-02-01T00:00:00"),
        ("2026-02-01T00:00:00", "2026-03-01T00:00:00"),
        ("2028-02-29T12:00:00", "2028-03-01T00:00:00"),
        ("2026-12-15T00:00:00", "2027-01-01T00:00:00"),
    ],
)
def test_a_budget_of_a_month_lasts_for_the_calendar_month(begins: str, ends: str, url: str) -> None:
    async def lead() -> None:
        key, clock = made(url, limit_of("budget", "300/month")), Clock()
        clock.now = datetime.fromisoformat(f"{begins}+00:00").timestamp()
        end = datetime.fromisoformat(f"{ends}+00:00").timestamp()
        accounts = Accounts(LimitLedger(url), clock)
        assert len(await tries(accounts, key, 4, budget=100 * NANO)) == 3
        with pytest.raises(GatewayError, match=r"no more of its budget \(\$300/month\) in this month") as refused:
            await accounts.reserve(key, {"budget": 1})
        assert refused.value.error.retry_after == max(1, end - clock.now)
        clock.now = end - 1
        assert await tries(accounts, key, 1, budget=1) == []
        clock.now = end
        assert len(await tries(accounts, key, 4, budget=100 * NANO)) == 3
        assert taken(url, key, end) == [300 * NANO]
        await accounts.close()

    asyncio.run(lead())


def test_one_who_leaves_while_it_waits_holds_nothing(url: str) -> None:
    async def lead() -> None:
        key = made(url, limit_of("requests", "5/day"))
        accounts = Accounts(LimitLedger(url), Clock())
        for _ in range(20):
            tasks = [asyncio.ensure_future(accounts.reserve(key, {"requests": 1})) for _ in range(3)]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        got = await tries(accounts, key, 10, requests=1)
        assert len(got) == 5
        await accounts.close()

    asyncio.run(lead())


@pytest.mark.slow
def test_a_connection_that_the_server_has_cut_is_made_anew(database: Database, postgres: Postgres) -> None:
    url = url_of_database(database.url, None)
    key, ledger, memory = made(url), LimitLedger(url), StoredMemory(url, 1000, 60)
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'"

    async def lead() -> None:
        for number in range(3):
            assert ledger.find(key.id) == key
            await memory.keep("me", [("a", str(number).encode())])
            postgres.run(cut.format(database.name))
            assert dict(await memory.find("me", ["a"])) == {"a": str(number).encode()}
            postgres.run(cut.format(database.name))

    asyncio.run(lead())
    ledger.close()
    memory.close()


def test_a_ledger_that_fails_admits_nobody(tmp_path: Path) -> None:
    async def lead() -> None:
        url = f"sqlite:///{tmp_path / 'keys.db'}"
        key = made(url, limit_of("requests", "5/day"))
        accounts = Accounts(LimitLedger(url), Clock())
        assert len(await tries(accounts, key, 1, requests=1)) == 1
        with accounts._ledger._engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE toolwire_windows")
        with pytest.raises(GatewayError) as refused:
            await accounts.reserve(key, {"requests": 1})
        assert (refused.value.error.status, refused.value.error.retry_after) == (503, 5)
        vanish(accounts)

    asyncio.run(lead())


@pytest.mark.row("O5")
def test_a_key_is_known_whole_and_until_it_is_revoked_or_over(url: str) -> None:
    async def lead() -> None:
        ledger, clock = LimitLedger(url), Clock()
        text, key = mint("ci", (), (), NOW, NOW + 100)
        other, _ = mint("ci", (), (), NOW, None)
        ledger.add(key)
        accounts = Accounts(LimitLedger(url), clock)
        assert (await accounts.key(text)).id == key.id
        flipped = text[:-1] + ("a" if text[-1] != "a" else "b")
        for wrong in (
            flipped,
            text[:-1],
            text + "a",
            other,
            text.upper(),
            "' OR '1'='1",
            "\0",
            "",
            text[:11],
            "é" * 99,
        ):
            with pytest.raises(GatewayError) as refused:
                await accounts.key(wrong)
            assert refused.value.error.status == 401
        ledger.revoke(key.id, NOW)
        clock.now += accounts_module.FRESH
        with pytest.raises(GatewayError):
            await accounts.key(text)
        await accounts.close()
        ledger.close()

    asyncio.run(lead())


def test_only_a_salted_hash_of_a_key_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "keys.db"
    ledger = LimitLedger(f"sqlite:///{file}")
    text, key = mint("ci", (), (), NOW, None)
    ledger.add(key)
    kept = ledger.listed()[0]
    assert kept == key
    assert kept.is_of(text)
    ledger.close()
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert text.encode() not in written
    assert text[11:].encode() not in written
    assert key.hash in written, "the control: what is kept would be found"
