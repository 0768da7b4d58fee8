"""The tables of usage and their writer: nothing is lost or counted twice, and sums are what the rows add up to."""

import asyncio
import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.traces.postgres import Database, Postgres
from toolwire.errors import InvalidField, StoreFailed
from toolwire.gateway import usage_ledger, usage_rows
from toolwire.gateway.starting import url_of_database
from toolwire.gateway.usage_ledger import IN_PROCESS, UsageLedger
from toolwire.gateway.usage_queries import COLUMNS, DAY, Period, UsageQuery, check_rows_remain, query_of
from toolwire.gateway.usage_rows import UsageRow, WaitingRows, day_of, row_id
from toolwire.gateway.usage_tables import UsageTables

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC).timestamp()
MIDNIGHT = NOON - DAY / 2


def row(number: int, time: float = NOON, **more: Any) -> UsageRow:
    """Make the row of a request."""
    request = f"tw_{number:024x}"
    defaults: dict[str, Any] = {
        "key": "abcdefgh",
        "key_name": "ci",
        "team": "core",
        "user_name": "ann",
        "session": "",
        "wire": "openai-chat",
        "action": "answer",
        "asked": "local/m",
        "provider": "local",
        "model": "local/m",
        "status": 200,
        "ending": "answer",
        "requests": 1,
        "input_tokens": 11,
        "output_tokens": 7,
        "cached_tokens": 3,
        "cache_write_tokens": 0,
        "cost_nano": 1000,
        "estimated": False,
        "seconds": 1.5,
        "first_byte": 0.5,
        "formal_losses": 0,
        "minor_losses": 1,
        "semantic_losses": 0,
    }
    return UsageRow(id=row_id(time, request), request=request, time=time, day=day_of(time), **{**defaults, **more})


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'usage.db'}"
    return url_of_database(request.getfixturevalue("database").url, None)


@pytest.fixture
def tables(url: str) -> Iterator[UsageTables]:
    tables = UsageTables(url)
    yield tables
    tables.close()


async def eventually(met: Callable[[], Any]) -> None:
    """Wait until something is so, while the event loop runs."""
    late = time.monotonic() + 30
    while not met():
        assert time.monotonic() < late, "it did not happen in time"
        await asyncio.sleep(0.01)


def counts(tables: UsageTables) -> tuple[int, int]:
    """Count the requests in the rows and in the sums."""
    with tables._engine.connect() as connection:
        tables_of_usage = ("toolwire_usage", "toolwire_usage_days")
        found = [
            connection.exec_driver_sql(f"SELECT coalesce(sum(requests), 0) FROM {name}").scalar_one()  # noqa: S608
            for name in tables_of_usage
        ]
    return int(found[0]), int(found[1])


def test_a_batch_that_is_written_again_counts_once(tables: UsageTables) -> None:
    first, second = [row(n) for n in range(700)], [row(n) for n in range(600, 800)]
    tables.write(first)
    tables.write(first, again=True)
    tables.write(second, again=True)
    assert counts(tables) == (800, 800)
    with pytest.raises(StoreFailed):
        tables.write([row(9000), *second])  # it cannot be known which of them are new
    assert counts(tables) == (800, 800)


def test_each_column_can_be_asked_for(tables: UsageTables) -> None:
    tables.write([row(1), row(2, NOON - DAY / 4), row(3, key_name="boss", team="", user_name="ben", wire="gemini")])
    chosen = {"key": ["ci", "boss"], "wire": ["openai-chat", "gemini"]}
    asked = query_of(",".join(COLUMNS), "", "", chosen, NOON)
    for start, requests in ((None, {"ci": 2, "boss": 1}), (NOON - 3600, {"ci": 1, "boss": 1})):  # by sums, and by rows
        found = tables.sums(replace(asked, period=Period(start)))
        assert {one["key"]: one["requests"] for one in found} == requests
        assert {one["key"]: [one[name] for name in COLUMNS] for one in found} == {
            "ci": ["2026-11-27", "ci", "core", "ann", "local", "local/m", "openai-chat"],
            "boss": ["2026-11-27", "boss", "", "ben", "local", "local/m", "gemini"],
        }


def test_rows_are_read_as_they_were_written(tables: UsageTables) -> None:
    odd = row(
        1,
        key_name="Ann \N{SNOWMAN} 'x\"; --",
        input_tokens=1 << 40,
        cost_nano=1 << 46,
        first_byte=None,
        estimated=True,
        time=NOON + 0.123,
    )
    tables.write([odd, row(2)])
    with tables._engine.connect() as connection:
        stored = connection.exec_driver_sql("SELECT * FROM toolwire_usage ORDER BY id").mappings().all()
    assert [UsageRow(**{**one, "estimated": bool(one["estimated"])}) for one in stored] == [row(2), odd]


def test_old_rows_are_deleted_in_pieces_and_sums_stay(tables: UsageTables) -> None:
    rows = [row(n, NOON - n * 60) for n in range(2500)]
    tables.write(rows)
    assert tables.prune(NOON - 400 * 60) is True
    assert counts(tables) == (1500, 2500)
    assert tables.prune(NOON - 400 * 60) is True
    assert tables.prune(NOON - 400 * 60) is False
    assert counts(tables) == (401, 2500)
    assert tables.sums(UsageQuery(("key",)))[0]["requests"] == 2500
    tables.prune_to(100)
    assert counts(tables) == (100, 2500)


def test_the_sums_of_processes_are_joined_once_their_day_is_over(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolwire.gateway.usage_tables._PIECE", 10)
    processes = [UsageTables(url) for _ in range(3)]
    for number, tables in enumerate(processes):
        for ago in range(3):
            rows = [
                row(number * 100 + ago * 10 + at, NOON - ago * DAY, key_name=f"key {at}", cost_nano=1 << at)
                for at in range(6)
            ]
            tables.write(rows)
    tables = processes[0]
    question = UsageQuery(("day", "key"))
    before = tables.sums(question)

    def sums() -> int:
        with tables._engine.connect() as connection:
            return int(connection.exec_driver_sql("SELECT count(*) FROM toolwire_usage_days").scalar_one())

    assert sums() == 54
    assert [tables.join_sums("2026-11-27") for _ in range(4)] == [True, True, True, False]
    assert sums() == 18 + 12, "the sums of today stay apart"
    assert tables.sums(question) == before
    processes[1].write([row(900, NOON - DAY, key_name="key 0")])  # a process that was away for long
    assert tables.join_sums("2026-11-27") is False
    assert sums() == 30
    assert sum(one["requests"] for one in tables.sums(question)) == 55
    for one in processes:
        one.close()


def answered(rows: Sequence[UsageRow], query: UsageQuery) -> list[dict[str, Any]]:
    """Answer a question by reading all rows."""
    names = {"key": "key_name", "user": "user_name"}
    groups: dict[tuple[str, ...], Counter[str]] = {}
    for one in rows:
        start, end = query.period.start, query.period.end
        chosen = all(getattr(one, names.get(name, name)) in texts for name, texts in query.chosen)
        if chosen and (start is None or one.time >= start) and (end is None or one.time < end):
            group = tuple(getattr(one, names.get(name, name)) for name in query.by)
            counted = groups.setdefault(group, Counter())
            for name in ("requests", "input_tokens", "output_tokens", "cached_tokens", "cost_nano"):
                counted[name] += getattr(one, name)
    found = [
        {**dict(zip(query.by, group, strict=True)), **dict(sums), "cost": sums["cost_nano"] / 1e9}
        for group, sums in groups.items()
    ]
    return [{name: value for name, value in one.items() if name != "cost_nano"} for one in found]


HOURS = st.integers(-80, 80).map(lambda hours: NOON + hours * 3600.0)
TIMES = st.none() | HOURS | st.integers(-3, 3).map(lambda days: MIDNIGHT + days * DAY)
ROWS = st.lists(
    st.builds(
        lambda time, key, model, tokens: {
            "time": time + 0.25,
            "key_name": key,
            "model": model,
            "input_tokens": tokens,
            "cost_nano": tokens * 10,
        },
        HOURS,
        st.sampled_from(["ann", "ben"]),
        st.sampled_from(["local/m", "local/n", ""]),
        st.integers(0, 5),
    ),
    max_size=30,
)


@given(
    ROWS,
    TIMES,
    TIMES,
    st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True),
    st.sampled_from([(), (("key", ("ann",)),), (("model", ("", "local/n")), ("team", ("core",)))]),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sums_are_what_the_rows_add_up_to(
    tmp_path: Path, rows: list[dict[str, Any]], start: Any, end: Any, by: list[str], chosen: Any
) -> None:
    stored = [row(number, **more) for number, more in enumerate(rows)]
    query = UsageQuery(tuple(by), Period(start, end), chosen)
    path = tmp_path / "sums.db"
    path.unlink(missing_ok=True)
    for tables in (UsageTables(f"sqlite:///{path}"), UsageTables(IN_PROCESS, sums=False)):
        tables.write(stored)
        found, expected = tables.sums(query), answered(stored, query)
        assert sorted(found, key=str) == sorted(expected, key=str) or _equal(found, expected)
        if "day" in by:
            assert [one["day"] for one in found] == sorted(one["day"] for one in found)
        else:
            assert [one["cost"] for one in found] == sorted((one["cost"] for one in found), reverse=True)
        tables.close()


def _equal(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> bool:
    def key(one: dict[str, Any]) -> list[tuple[str, Any]]:
        return sorted(one.items())

    return sorted(map(key, found)) == sorted(map(key, expected))


@pytest.mark.parametrize(
    ("since", "until", "start", "end"),
    [
        ("", "", None, None),
        ("7d", "", "2026-11-20T00:00", None),
        ("0d", "0d", "2026-11-27T00:00", "2026-11-28T00:00"),
        ("2026-11", "2026-11", "2026-11-01T00:00", "2026-12-01T00:00"),
        ("2024-02", "2024-02-28", "2024-02-01T00:00", "2024-02-29T00:00"),
        ("2026-12-31", "2027-01-01", "2026-12-31T00:00", "2027-01-02T00:00"),
        ("6h", "30m", "2026-11-27T06:00", "2026-11-27T11:30"),
        ("90s", "", "2026-11-27T11:58:30", None),
        ("2026-11-26T05:00+01:00", "2026-11-26T06:30Z", "2026-11-26T04:00", "2026-11-26T06:30"),
    ],
)
def test_times_are_days_months_and_hours_of_utc(since: str, until: str, start: str | None, end: str | None) -> None:
    def seconds(text: str | None) -> float | None:
        return None if text is None else datetime.fromisoformat(f"{text}+00:00").timestamp()

    assert query_of("key", since, until, {}, NOON).period == Period(seconds(start), seconds(end))


@pytest.mark.parametrize(
    "text", ["7", "d", "7w", "-1d", "2026-00", "26-01-01", "999999999d", "99999-01", "now", "\u0667d"]
)
def test_a_time_that_is_none_is_refused(text: str) -> None:
    for texts in ((text, ""), ("", text)):
        with pytest.raises(InvalidField, match="must be a time such as 7d"):
            query_of("key", *texts, {}, NOON)


def test_hours_whose_rows_are_deleted_cannot_be_answered() -> None:
    for since, until, field in (("2026-08-01T05:00", "", "since"), ("2026-01", "2026-08-01T05:00", "until")):
        query = query_of("key", since, until, {}, NOON)
        with pytest.raises(InvalidField, match=f"{field} rows are deleted after 90d.*such as 2026-08-01"):
            check_rows_remain(query, NOON - 90 * DAY, "90d")
    for since, until in (("2026-01", "2026-08-01"), ("2026-11-01T05:00", "6h"), ("2026-01", "6h")):
        check_rows_remain(query_of("key", since, until, {}, NOON), NOON - 90 * DAY, "90d")


def test_rows_that_wait_are_bounded_and_their_sums_stay_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_rows, "MOST_ROWS", 10)
    monkeypatch.setattr(usage_rows, "MOST_SHARED_ROWS", 2)
    waiting = WaitingRows()
    for number in range(100):
        waiting.add(row(number, model=f"local/m{number % 2}", cost_nano=number))
    assert (len(waiting), waiting.merged, waiting.lost) == (12, 88, 0)
    waiting.add(row(100, model="local/other"))
    assert (len(waiting), waiting.merged, waiting.lost) == (12, 88, 1)
    taken = waiting.take(100)
    assert sum(one.requests for one in taken) == 100
    assert sum(one.cost_nano for one in taken) == sum(range(100))
    assert len(waiting) == 0
    waiting.add(row(101))
    waiting.add(row(102))
    assert [one.requests for one in waiting.take(1)] == [1]
    waiting.add(row(103, provider="", model="", status=429))
    assert [one.requests for one in waiting.take(9)] == [1, 1]
    waiting.add(row(104, provider="", model="", status=429))
    waiting.add(row(105, provider="", model="", status=429))
    assert [one.requests for one in waiting.take(9)] == [2], "a row that was taken is not changed any more"


def test_a_provider_that_reports_absurd_numbers_does_not_stop_the_ledger(tables: UsageTables) -> None:
    waiting = WaitingRows()
    for number in range(1000):
        waiting.add(row(number, input_tokens=1 << 80, output_tokens=1 << 63, cost_nano=1 << 90))
    tables.write(waiting.take(1000))
    assert tables.sums(UsageQuery(("key",)))[0]["requests"] == 1000


class FailingTables:
    """Tables whose transactions fail before or after they are committed, in turn, until `works`."""

    def __init__(self, real: UsageTables) -> None:
        self.real, self.works, self.calls, self.batches = real, False, 0, list[int]()

    def write(self, rows: Sequence[UsageRow], *, again: bool = False) -> None:
        """Write the rows, or fail."""
        self.calls += 1
        self.batches.append(len(rows))
        if not self.works and self.calls % 2:
            raise OSError("the connection was refused")
        self.real.write(rows, again=again)
        if not self.works:
            raise OSError("the connection was lost")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def test_while_the_database_fails_rows_wait_and_none_counts_twice(
    tables: UsageTables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(usage_ledger, "_DELAY", 0.01)
    monkeypatch.setattr(usage_ledger, "_RETRY", 0.01)
    monkeypatch.setattr(usage_rows, "MOST_ROWS", 50)
    monkeypatch.setattr(usage_rows, "MOST_SHARED_ROWS", 1)
    failing = FailingTables(tables)
    caplog.set_level(logging.WARNING)

    async def run() -> None:
        ledger = UsageLedger(lambda: failing)  # type: ignore[arg-type,return-value]
        ledger.start()
        for number in range(20):
            ledger.add(row(number))
        await eventually(lambda: failing.calls >= 6)
        assert ledger.size == 20
        for number in range(20, 90):
            ledger.add(row(number))
        ledger.add(row(91, model="local/other"))
        assert {one.name: one.samples[0].value for one in ledger.collect()} == {
            "toolwire_usage_rows_waiting": 71,
            "toolwire_usage_rows_merged": 19,
            "toolwire_usage_rows_lost": 1,
        }
        failing.works = True
        await eventually(lambda: not ledger.size)
        assert counts(tables) == (90, 90)
        await ledger.close()

    asyncio.run(run())
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if line.startswith("the usage ledger failed, 20 rows wait")] != []
    assert len(lines) == 3, "one line when it fails, one when it is full, and one when it works again"
    assert "the usage ledger is full" in lines[1]
    assert lines[2] == "the usage ledger works again; requests without a row of their own: 19, lost: 1"


def test_a_row_is_written_within_a_second(tables: UsageTables) -> None:
    async def run() -> None:
        ledger = UsageLedger(lambda: tables)
        for number in range(5):
            ledger.add(row(number))
            await asyncio.sleep(0.15)
        began = time.monotonic()
        ledger.add(row(9))
        while counts(tables) != (6, 6):
            assert time.monotonic() < began + 1
            await asyncio.sleep(0.01)
        await ledger.close()

    asyncio.run(run())


def test_a_stop_writes_all_rows_and_tells_of_those_that_it_cannot_write(
    tables: UsageTables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(usage_ledger, "_BATCH", 7)
    monkeypatch.setattr(usage_ledger, "_STOP_SECONDS", 0.5)

    async def stop(ledger: UsageLedger, first: int) -> None:
        for number in range(first, first + 100):
            ledger.add(row(number))
        await ledger.close()

    asyncio.run(stop(UsageLedger(lambda: tables), 0))
    assert counts(tables) == (100, 100)
    failing = FailingTables(tables)
    asyncio.run(stop(UsageLedger(lambda: failing), 1000))  # type: ignore[arg-type,return-value]
    assert "100 rows of usage are lost: the database does not answer" in caplog.text


def test_old_rows_are_deleted_while_nobody_asks(tables: UsageTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolwire.gateway.usage_tables._PIECE", 100)
    tables.write([row(n, NOON - 30 * DAY + n) for n in range(450)] + [row(900)])

    async def run() -> None:
        ledger = UsageLedger(lambda: tables, "7d", now=lambda: NOON)
        ledger.start()
        await eventually(lambda: counts(tables) == (1, 451))
        await ledger.close()

    asyncio.run(asyncio.wait_for(run(), 10))


def test_in_the_process_the_last_day_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_ledger, "IN_PROCESS_ROWS", 5)
    monkeypatch.setattr(usage_ledger, "_PRUNE_EVERY", 0.02)

    async def run() -> None:
        ledger = UsageLedger(lambda: UsageTables(IN_PROCESS, sums=False), in_process=True, now=lambda: NOON)
        for number, ago in enumerate([DAY + 60, DAY - 60, 3600, 60]):
            ledger.add(row(number, NOON - ago, cost_nano=10**number))
        assert [(one["day"], one["requests"]) for one in await ledger.sums(UsageQuery(("day",)))] == [
            ("2026-11-26", 1),
            ("2026-11-27", 2),
        ]
        question = query_of("key", "2h", "", {}, NOON)
        assert [one["requests"] for one in await ledger.sums(question)] == [2]
        for number in range(100):
            ledger.add(row(100 + number))
        await ledger.sums(question)
        ledger.start()
        while (await ledger.sums(UsageQuery(("key",))))[0]["requests"] != 5:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.02)
        await ledger.close()

    asyncio.run(asyncio.wait_for(run(), 10))


def test_sums_that_processes_add_at_once_are_added_up(url: str) -> None:
    failures: list[Exception] = []

    def work(process: int) -> None:
        tables = UsageTables(url)
        try:
            for number in range(20):
                some = [
                    row((process * 20 + number) * 10 + at, key_name=f"key{(at * (1 if process % 2 else -1)) % 10}")
                    for at in range(10)
                ]
                tables.write(some)
        except Exception as problem:  # noqa: BLE001 - the test tells of it
            failures.append(problem)
        tables.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    tables = UsageTables(url)
    assert counts(tables) == (800, 800)
    assert [one["requests"] for one in tables.sums(UsageQuery(("key",)))] == [80] * 10
    tables.close()


PAUSED = """
import sys, time
from tests.gateway.test_usage_ledger import row
from toolwire.gateway.usage_tables import UsageTables, _sums_of
tables = UsageTables(sys.argv[1])
with tables._engine.begin() as connection:
    tables._insert(connection, [row(1)])
    tables._add(connection, tables._process, _sums_of([row(1)]))
    print("within", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_a_process_that_pauses_within_a_transaction_holds_up_others_for_seconds_only(database: Database) -> None:
    url = url_of_database(database.url, None)
    tables = UsageTables(url)
    tables.write([row(0)])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", "."])}
    command = [sys.executable, "-c", PAUSED, url]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as paused:
        assert paused.stdout is not None
        assert paused.stdout.readline() == b"within\n"
        began = time.monotonic()
        tables.write([row(2), row(3)])  # equal requests of this process
        assert time.monotonic() - began < 1
        tables.write([row(1), row(4)])  # the row of a batch whose outcome is unknown is waited for
        assert time.monotonic() - began < 9
        paused.kill()
    assert counts(tables) == (5, 5)
    tables.close()


@pytest.mark.slow
def test_rows_wait_while_postgresql_is_stopped_and_are_written_afterwards(
    postgres: Postgres, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_ledger, "_RETRY", 0.1)
    tables = UsageTables(url_of_database(database.url, None))

    async def run() -> None:
        ledger = UsageLedger(lambda: tables)
        for number in range(300):
            ledger.add(row(number))
            if number == 100:
                postgres.stop()
            if number == 250:
                postgres.go_on()  # the server ends with the thread that starts it
            await asyncio.sleep(0.01)
        await eventually(lambda: not ledger.size)
        await ledger.close()

    asyncio.run(run())
    again = UsageTables(url_of_database(database.url, None))
    assert counts(again) == (300, 300)
    again.close()


def test_a_database_without_the_tables_gets_them_and_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as old:
        old.execute("CREATE TABLE toolwire_keys (id)")
        old.execute("INSERT INTO toolwire_keys VALUES ('kept')")
    for _ in range(2):
        tables = UsageTables(f"sqlite:///{path}")
        tables.write([replace(row(int(time.monotonic_ns())))])
        tables.close()
    with sqlite3.connect(path) as now:
        assert now.execute("SELECT id FROM toolwire_keys").fetchall() == [("kept",)]
        assert now.execute("SELECT count(*) FROM toolwire_usage").fetchone() == (2,)
