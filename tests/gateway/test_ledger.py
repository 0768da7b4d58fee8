"""The ledger of limits: it never grants more than a limit, and each request is settled once, whatever processes do."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.traces.postgres import Database
from toolwire.gateway.keys import Key, Limit, limit_of, mint
from toolwire.gateway.ledger import Admission, Estimate, LimitLedger, Window, window_of
from toolwire.gateway.starting import url_of_database

NOW = 1_800_000_000.0
LIMITS = (limit_of("requests", "6/min"), limit_of("tokens", "100/min"), limit_of("budget", "0.0000005/day"))
DAY = 86_400.0
CLOCKS = st.sampled_from([-400 * DAY, -DAY, -61.0, -20.0, 0.5, 20.0, 61.0, DAY, 41 * DAY])
AMOUNTS = st.fixed_dictionaries(
    {
        "requests": st.integers(0, 2),
        "tokens": st.integers(0, 120),
        "budget": st.integers(0, 600),
    }
)


def estimates(key: Key, now: float, **amounts: int) -> tuple[Estimate, ...]:
    """Write what a request may take of each limit of a key."""
    return tuple([Estimate(window_of(key, one, now), amounts.get(one.kind, 0), one.amount) for one in key.limits])


def key_with(ledger: LimitLedger, *limits: Limit) -> Key:
    """Store a key."""
    _, key = mint("ci", (), limits, NOW, None)
    ledger.add(key)
    return key


class Process:
    """What a gateway remembers: its clock, and which of its requests are in flight."""

    def __init__(self, name: str) -> None:
        self.name, self.now = name, NOW
        self.numbers = 0
        self.started: dict[int, tuple[Estimate, ...]] = {}
        self.paused = False


class Processes(RuleBasedStateMachine):
    """Processes on one database start and settle requests, pause, wake up late, die, and have clocks that jump.

    `counts` says for each request what it counts in each window: its estimate, or what it used.
    """

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.ledger = LimitLedger(f"sqlite:///{self.folder}/keys.db")
        self.keys = [key_with(self.ledger, *LIMITS), key_with(self.ledger, *LIMITS[:1])]
        self.processes = [Process("a"), Process("b"), Process("c")]
        self.counts: dict[tuple[str, int], dict[Window, int]] = {}
        self.dead = 0

    def teardown(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for process in self.processes:
            process.paused = False
            self.write(process, {number: {"requests": 1, "tokens": 7} for number in process.started}, [])
        self.spent_is_what_the_requests_count()
        self.ledger.close()
        shutil.rmtree(self.folder)

    def write(self, process: Process, settled: dict[int, dict[str, int]], waiting: list[Admission]) -> list[bool]:
        """Have a process write a transaction, and note what becomes of its requests."""
        full = self.ledger.write(process.name, settled, waiting)
        for number, used in settled.items():
            request = process.started.pop(number, None)
            if request is not None:
                counts = {one.window: used.get(one.window.kind, 0) for one in request}
                self.counts[process.name, number] = counts
        for admission, window in zip(waiting, full, strict=True):
            if window is None:
                process.started[admission.number] = admission.estimates
                counts = {one.window: one.amount for one in admission.estimates}
                self.counts[process.name, admission.number] = counts
        return [window is None for window in full]

    def spent(self, window: Window) -> int:
        return sum(counts.get(window, 0) for counts in self.counts.values())

    def awake(self, at: int) -> Process:
        return self.processes[at % len(self.processes)]

    @rule(at=st.integers(0, 2), asked=st.lists(st.tuples(st.integers(0, 1), AMOUNTS), min_size=1, max_size=4))
    def start(self, at: int, asked: list[tuple[int, dict[str, int]]]) -> None:
        process = self.awake(at)
        if process.paused:
            return
        waiting = []
        for place, amounts in asked:
            process.numbers += 1
            waiting.append(Admission(process.numbers, estimates(self.keys[place], process.now, **amounts)))
        room = dict.fromkeys((one.window for admission in waiting for one in admission.estimates), 0)
        room = {window: self.spent(window) for window in room}
        expected = []
        for admission in waiting:  # each gets all that it needs, or nothing, in the order in which they came
            fits = all(one.amount <= max(0, one.most - room[one.window]) for one in admission.estimates)
            expected.append(fits)
            for one in admission.estimates if fits else ():
                room[one.window] += one.amount
                assert room[one.window] <= max(one.most, self.spent(one.window)), "more is granted than the limit"
        assert self.write(process, {}, waiting) == expected

    @rule(at=st.integers(0, 2), pick=st.integers(0, 9), used=AMOUNTS, again=st.booleans())
    def settle(self, at: int, pick: int, used: dict[str, int], again: bool) -> None:
        process = self.awake(at)
        if process.paused or not process.started:
            return
        number = [*process.started][pick % len(process.started)]
        self.write(process, {number: used}, [])
        if again:  # a transaction whose outcome was not known is written again
            self.ledger.write(process.name, {number: {"requests": 9, "tokens": 9, "budget": 9}}, [])

    @rule(at=st.integers(0, 2), amounts=AMOUNTS)
    def start_whose_outcome_is_not_known(self, at: int, amounts: dict[str, int]) -> None:
        process = self.awake(at)
        if process.paused:
            return
        process.numbers += 1
        waiting = [Admission(process.numbers, estimates(self.keys[0], process.now, **amounts))]
        if amounts["requests"] % 2:  # it was committed, and the process did not learn of it
            self.ledger.write(process.name, {}, waiting)
        self.write(process, {process.numbers: {}}, [])

    @rule(at=st.integers(0, 2))
    def pause_or_wake(self, at: int) -> None:
        process = self.awake(at)
        process.paused = not process.paused

    @rule(at=st.integers(0, 2), seconds=CLOCKS)
    def move_clock(self, at: int, seconds: float) -> None:
        self.awake(at).now += seconds

    @precondition(lambda self: self.dead < 5)
    @rule(at=st.integers(0, 2))
    def kill(self, at: int) -> None:
        self.dead += 1
        self.processes[at] = Process(f"{at}{self.dead}")  # what it had started counts as estimated, for good

    @invariant()
    def spent_is_what_the_requests_count(self) -> None:
        if not hasattr(self, "ledger"):
            return
        windows = {window for counts in self.counts.values() for window in counts}
        with self.ledger._transaction() as cursor:
            taken = self.ledger._read(cursor, windows)
        assert {window: taken.get(window, 0) for window in windows} == {one: self.spent(one) for one in windows}
        assert all(amount >= 0 for amount in taken.values())


TestProcesses = Processes.TestCase


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'keys.db'}"
    else:
        yield url_of_database(request.getfixturevalue("database").url, None)


@pytest.fixture
def ledger(url: str) -> Iterator[LimitLedger]:
    ledger = LimitLedger(url)
    yield ledger
    ledger.close()


def rows(ledger: LimitLedger, table: str) -> int:
    """Count the rows of a table."""
    with ledger._engine.begin() as connection:
        return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())  # noqa: S608


def test_only_the_windows_that_were_created_last_are_kept(ledger: LimitLedger) -> None:
    key = key_with(ledger, limit_of("requests", "2/min"))
    other = key_with(ledger, limit_of("requests", "2/min"))
    assert ledger.write("a", {}, [Admission(0, estimates(other, NOW, requests=1))]) == [None]
    for minute in range(1, 251):
        assert ledger.write("a", {}, [Admission(minute, estimates(key, NOW + 60 * minute, requests=1))]) == [None]
    assert (rows(ledger, "toolwire_windows"), rows(ledger, "toolwire_started")) == (201, 201)
    assert ledger.write("a", {0: {"requests": 1}, 30: {"requests": 2}}, []) == []  # one of them was deleted
    assert rows(ledger, "toolwire_started") == 200
    later = NOW + 60 * 250
    assert ledger.write("b", {}, [Admission(1, estimates(key, later + 90 * DAY, requests=2))]) == [None]
    assert ledger.taken(key, later) == {"requests 2/min": 1}
    full = ledger.write("a", {250: {"requests": 2}}, [Admission(300, estimates(key, later, requests=1))])
    assert full == [window_of(key, key.limits[0], later)]


def test_a_clock_that_is_wrong_for_long_does_not_disturb_the_others(ledger: LimitLedger) -> None:
    key = key_with(ledger, limit_of("requests", "2/min"))
    for minute in range(300):
        now = NOW + 60 * minute
        for at, there in enumerate((now, now + 900 * DAY, now - 900 * DAY, now, now + 900 * DAY, now, now)):
            number = 10 * minute + at
            full = ledger.write("a", {}, [Admission(number, estimates(key, there, requests=1))])
            assert (full == [None]) is (at < 5), "two in each window, and no more"
    assert rows(ledger, "toolwire_windows") == 200


def test_an_amount_that_no_database_holds_does_not_stop_the_ledger(ledger: LimitLedger) -> None:
    key = key_with(ledger, limit_of("budget", "999999/day"))
    assert ledger.write("a", {}, [Admission(1, estimates(key, NOW, budget=1 << 80))]) != [None]
    for number in (2, 3):
        assert ledger.write("a", {}, [Admission(number, estimates(key, NOW, budget=0))]) == [None]
    ledger.write("a", {2: {"budget": 1 << 80}, 3: {"budget": 1 << 80}}, [])
    assert ledger.taken(key, NOW)["budget 999999/day"] > key.limits[0].amount
    assert ledger.write("a", {}, [Admission(4, estimates(key, NOW, budget=1))]) != [None]


def test_a_window_that_somebody_has_reset_by_hand_does_not_go_below_zero(ledger: LimitLedger) -> None:
    key = key_with(ledger, limit_of("tokens", "100/day"))
    assert ledger.write("a", {}, [Admission(1, estimates(key, NOW, tokens=80))]) == [None]
    with ledger._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE toolwire_windows SET taken = 0")
    ledger.write("a", {1: {"tokens": 5}}, [])
    assert ledger.taken(key, NOW) == {"tokens 100/day": 0}


def test_a_database_of_an_older_version_gets_the_columns_of_team_user_and_admin(url: str) -> None:
    older = LimitLedger(url)
    before = key_with(older, *LIMITS)
    columns = "id, name, salt, hash, models, limits, created, expires, revoked"
    with older._engine.begin() as connection:
        for name in ("team", '"user"', "is_admin", "alert"):
            connection.exec_driver_sql(f"ALTER TABLE toolwire_keys DROP COLUMN {name}")
    newer = LimitLedger(url)
    assert newer.listed() == [before]
    _, key = mint("boss", (), (), NOW + 1, None, team="core", user="ann", is_admin=True)
    newer.add(key)
    with older._engine.begin() as connection:  # a process of the older version adds a key
        connection.exec_driver_sql(
            f"INSERT INTO toolwire_keys ({columns}) SELECT 'old22222', {columns.partition(', ')[2]}"  # noqa: S608
            f" FROM toolwire_keys WHERE id = '{before.id}'"
        )
    again = LimitLedger(url)
    assert again.find(key.id) == key
    old = again.find("old22222")
    assert old is not None
    assert (old.team, old.user, old.is_admin) == ("", "", False)
    for ledger in (older, newer, again):
        ledger.close()


def test_a_thousand_keys_in_one_transaction(ledger: LimitLedger) -> None:
    keys = [mint("ci", (), LIMITS, NOW, None)[1] for _ in range(1000)]
    waiting = [Admission(at, estimates(key, NOW, requests=1, tokens=2, budget=3)) for at, key in enumerate(keys)]
    assert ledger.write("a", {}, waiting) == [None] * 1000
    ledger.write("a", {at: {"tokens": 5} for at in range(1000)}, [])
    assert [*ledger.taken(keys[999], NOW).values()] == [0, 5, 0]
    assert rows(ledger, "toolwire_started") == 0


@pytest.mark.slow
def test_what_processes_write_at_once_is_added_up(url: str) -> None:
    first = LimitLedger(url)
    keys = [key_with(first, limit_of("requests", "500/day"), limit_of("tokens", "100000/day")) for _ in range(2)]
    granted: list[int] = []

    def work(name: str) -> None:
        ledger = LimitLedger(url)
        for number in range(200):
            pair = keys if number % 2 else keys[::-1]
            waiting = [
                Admission(2 * number + at, estimates(key, NOW, requests=1, tokens=9)) for at, key in enumerate(pair)
            ]
            got = ledger.write(name, {}, waiting)
            granted.append(sum(window is None for window in got))
            ledger.write(name, {one.number: {"requests": 1, "tokens": 3} for one in waiting}, [])
        ledger.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(granted) == 1000
    assert [[*first.taken(key, NOW).values()] for key in keys] == [[500, 1500]] * 2
    first.close()


@pytest.mark.slow
def test_a_process_that_pauses_within_a_transaction_holds_up_others_for_seconds_only(database: Database) -> None:
    url = url_of_database(database.url, None)
    paused, other = LimitLedger(url), LimitLedger(url)
    key = key_with(paused, limit_of("requests", "5/day"))
    assert paused.write("a", {}, [Admission(1, estimates(key, NOW, requests=1))]) == [None]
    began = time.monotonic()
    with pytest.raises(Exception, match="idle-in-transaction"), paused._transaction() as cursor:  # noqa: PT012
        paused._read(cursor, [window_of(key, key.limits[0], NOW)])  # it is locked by now
        assert other.write("b", {}, [Admission(1, estimates(key, NOW, requests=1))]) == [None]
    assert time.monotonic() - began < 9
    paused.write("a", {1: {"requests": 1}}, [Admission(2, estimates(key, NOW, requests=1))])
    assert other.taken(key, NOW) == {"requests 5/day": 3}
    paused.close()
    other.close()


FULL = """
set -e
mount -t tmpfs -o size=400k tmpfs "$1"
"$2" -c "$3" "$1"
"""
FILLED = """
import asyncio, contextlib, pathlib, sys
from toolwire.gateway.accounts import Accounts
from toolwire.gateway.errors import GatewayError
from toolwire.gateway.keys import limit_of, mint
from toolwire.gateway.ledger import LimitLedger

folder = pathlib.Path(sys.argv[1])
url = f"sqlite:///{folder / 'keys.db'}"

async def lead():
    ledger, now = LimitLedger(url), lambda: 1_800_000_000.0
    _, key = mint("ci", [], [limit_of("requests", "300/day"), limit_of("tokens", "100000/day")], now(), None)
    ledger.add(key)
    ledger.close()
    accounts, statuses, admitted = Accounts(LimitLedger(url), now), [], 0

    async def ask(count):
        nonlocal admitted
        got = []
        for _ in range(count):
            try:
                got.append(await accounts.reserve(key, {"requests": 1, "tokens": 10}))
            except GatewayError as refused:
                statuses.append(refused.error.status)
        admitted += len(got)
        return got

    def settle(requests):
        for one in requests:
            one.settle({"requests": 1, "tokens": 3})

    for _ in range(200):  # what they write to the log of the database is more than the disk
        settle(await ask(1))
    running = await ask(5)
    with (folder / "full").open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
    settle(running)
    statuses.clear()
    while 503 not in statuses:  # until the database has used up what is left of its log
        settle(await ask(1))
    (folder / "full").unlink()
    statuses.clear()
    for _ in range(400):
        settle(await ask(1))
    assert statuses[-1] == 429, statuses
    await accounts.close()
    print(admitted, *LimitLedger(url).taken(key, now()).values())

asyncio.run(lead())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a small disk is made by a mount namespace, on Linux")
@pytest.mark.slow
def test_a_full_disk_admits_nobody_and_loses_nothing(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare")
    command = [unshare, "-rm", "sh", "-c", FULL, "sh", str(tmp_path), sys.executable, FILLED]
    around = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=around)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.splitlines()[0]}")
    assert done.stdout == "300 300 900\n", done.stderr
