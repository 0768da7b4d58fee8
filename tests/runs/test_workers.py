"""Workers: a dead one's runs are taken over, one that only slept does no more, one that is told to stop hands on."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.runs.forking import ROOT
from tests.runs.jobs import PARTS, serving, started
from tests.runs.killing import begun, check, ended, program
from tests.runs.scripted import Busy, given, turns
from tests.runs.victim import lines
from tests.traces.postgres import Database, Postgres
from toolwire import Done, Runs, ToolResult, tool
from toolwire.errors import RunParked
from toolwire.runs.core import MAX_FAILURES
from toolwire.runs.owners import is_dead, new_owner

ENDING = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'"
POSIX = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed as POSIX does it")


@tool
def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.row("N10")
def test_many_starts_of_one_id_are_one_run(count: int, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    started = given(turns([("add", {"one": 1, "other": 2})], "3"))
    ends: list[Done] = []
    with Runs(url) as runs:

        def start() -> None:
            ends.append(runs.start("Add.", tools=[add], id="one", **started).result(30))

        threads = [threading.Thread(target=start) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(ends) == count
    assert len(started["options"]["transport"].asked) == 2


@POSIX
@pytest.mark.slow
@pytest.mark.row("N10")
def test_two_processes_start_one_id_at_once_a_hundred_times(runs_url: str, tmp_path: Path) -> None:
    number = 100
    with contextmanager(serving)() as model, Runs(runs_url) as runs:
        twins = [program("begins", "together", runs_url, tmp_path, number, model.url) for _ in range(2)]
        try:
            waited(lambda: len(list(tmp_path.glob("ready-*"))) == len(twins))
            for one in range(number):
                (tmp_path / str(one)).touch()
                waited(lambda: runs.core.register.row(f"run-{one}") is not None)  # noqa: B023 - called at once
            said = [ended(twin) for twin in twins]
        finally:
            for twin in twins:
                twin.kill()
    wanted = [f"run-{one} all parts are done" for one in range(number)]
    assert [(code, words.splitlines()) for code, words, _ in said] == [(0, wanted)] * 2, said
    assert len(model.asked) == number


@POSIX
@pytest.mark.slow
def test_another_process_is_told_the_same_from_the_beginning_and_the_middle(runs_url: str) -> None:
    say = turns(*[[("add", {"one": turn, "other": 1})] for turn in range(4)], "done")

    def slowly(messages: list[dict[str, Any]]) -> dict[str, Any]:
        time.sleep(0.3)
        return say(messages)

    with Runs(runs_url) as runs:
        run = runs.start("Add.", tools=[add], id="one", **given(slowly))
        listeners = [program("begins", "listens", runs_url, "one", after) for after in (0, 4)]
        here = [f"{offset} {event!r}" for offset, event in run.events()]
        late = program("begins", "listens", runs_url, "one", 4)
        heard = [ended(one) for one in (*listeners, late)]
    assert len(here) == 10
    assert [(code, words.splitlines()) for code, words, _ in heard] == [(0, here), (0, here[4:]), (0, here[4:])]


@POSIX
@pytest.mark.slow
@pytest.mark.row("N6")
@pytest.mark.timeout(300)
def test_a_thousand_runs_that_are_started_again_do_not_all_ask_at_once(tmp_path: Path) -> None:
    number, most = 1000, 8
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    with contextmanager(serving)(seconds=600.0) as silent:
        first = program("begins", "many", url, number, silent.url)
        assert first.stdout is not None
        assert first.stdout.readline() == "begun\n"
        first.send_signal(signal.SIGKILL)
        first.communicate()
    model = Busy(0.02)
    with Runs(url, concurrency=most) as runs:
        started = [runs.start("Go.", id=f"run-{one}", **given(model.say)) for one in range(number)]
        ends = [run.result(240) for run in started]
    assert [end.content for end in ends] == ["done"] * number
    assert len(model.begun) == number
    assert 1 < model.most <= most


@POSIX
@pytest.mark.slow
def test_a_run_that_was_taken_from_a_queue_and_never_begun_is_found(runs_url: str, tmp_path: Path) -> None:
    with contextmanager(serving)() as model, Runs(runs_url, lease=2.0) as runs:
        job = started(runs, 1, model.url)
        first = worker(runs_url, tmp_path, TOOLWIRE_FAILPOINT="before-claim")
        assert first.wait(60) == -signal.SIGKILL
        first.communicate()
        assert job.state == "queued"
        second = worker(runs_url, tmp_path)
        try:
            assert job.result(60).content == "all parts are done"
        finally:
            second.kill()
            second.communicate()


def waited(what: Any, seconds: float = 60.0) -> None:
    late = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < late
        time.sleep(0.001)


def test_an_owner_that_lives_is_not_dead() -> None:
    owner = new_owner()
    assert not is_dead(owner)
    machine, pid, begun_at, mark = owner.split("|")
    assert is_dead(f"{machine}|{pid}|1{begun_at}|{mark}")
    assert not is_dead(f"elsewhere|{pid}|1|{mark}")


@POSIX
@pytest.mark.slow
@pytest.mark.row("N3")
def test_one_that_slept_does_not_go_on_with_what_was_taken_over(runs_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "effects"
    folder.mkdir()
    asleep = begun(runs_url, "run", folder, pause=1.0)
    late = time.monotonic() + 60
    while not lines(folder, "pay"):
        assert time.monotonic() < late
        time.sleep(0.002)
    time.sleep(0.2)
    asleep.send_signal(signal.SIGSTOP)
    try:
        awake = begun(runs_url, "run", folder)
        code, said, complained = ended(awake)
        assert code == 0, complained
        before = {path.name: path.read_text() for path in folder.iterdir()}
    finally:
        asleep.send_signal(signal.SIGCONT)
        code, again, complained = ended(asleep)
    assert code == 0, complained
    assert again == said
    check(folder, said)
    after = {path.name: path.read_text() for path in folder.iterdir()}
    assert Counter(after["pay"].split()).most_common(1)[0][1] == 1
    assert after["send"] == before["send"]


def worker(
    url: str, folder: Path, *, lease: float = 2.0, program: str = "toolwire", **around: str
) -> "subprocess.Popen[str]":
    """Begin a worker of the queue `jobs`."""
    path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    command = [sys.executable, "-m", program, "worker", "tests.runs.jobs:TOOLS", "--database", url]
    command += ["--queue", "jobs", "--concurrency", "4", "--lease", f"{lease:g}"]
    env = {**os.environ, "PYTHONPATH": path, "JOBS": str(folder), "OPENAI_API_KEY": "sk-test-0123456789", **around}
    return subprocess.Popen(command, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def await_a_call(folder: Path) -> None:
    """Wait until a worker has done the first of its calls."""
    late = time.monotonic() + 60
    while not (folder / "done").exists():
        assert time.monotonic() < late
        time.sleep(0.01)


@POSIX
@pytest.mark.slow
@pytest.mark.row("N2")
def test_a_dead_workers_runs_are_taken_over(runs_url: str, tmp_path: Path) -> None:
    number = 6
    workers: list[subprocess.Popen[str]] = []
    with contextmanager(serving)() as model, Runs(runs_url, lease=2.0) as runs:
        jobs = [started(runs, n, model.url) for n in range(number)]
        try:
            workers.append(worker(runs_url, tmp_path))
            await_a_call(tmp_path)
            workers[0].send_signal(signal.SIGKILL)
            workers.append(worker(runs_url, tmp_path))
            ends = [run.result(60) for run in jobs]
            workers[1].send_signal(signal.SIGTERM)
            assert workers[1].wait(60) == 0
        finally:
            for one in workers:
                one.kill()
                one.communicate()
    assert [end.ending for end in ends] == ["answer"] * number
    did = (tmp_path / "done").read_text().split()
    assert max(Counter(did).values()) == 1


@POSIX
@pytest.mark.slow
@pytest.mark.row("N7")
def test_a_run_that_crashes_its_process_each_time_is_parked(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    folder = tmp_path / "effects"
    folder.mkdir()
    for _ in range(MAX_FAILURES + 1):
        code, _, _ = ended(begun(url, "run", folder, "before-begin"))
        assert code == -signal.SIGKILL
    code, _, complained = ended(begun(url, "run", folder))
    assert code != 0
    assert "is parked: it failed 5 times in a row without a new step" in complained
    with Runs(url) as runs:
        run = runs.run("run")
        with pytest.raises(RunParked):
            run.result(1)
        run.resume()
    code, said, complained = ended(begun(url, "run", folder))
    assert code == 0, complained
    check(folder, said)


@POSIX
@pytest.mark.slow
@pytest.mark.row("N7")
@pytest.mark.timeout(300)
def test_a_run_beside_one_that_crashes_its_process_each_time_is_not_parked(runs_url: str, tmp_path: Path) -> None:
    late, crashes = time.monotonic() + 240, 0
    with contextmanager(serving)(seconds=2.0) as model, Runs(runs_url, lease=2.0) as runs:
        poison = started(runs, 1, model.url, 1, kind="Burst")
        beside = started(runs, 2, model.url, 1)
        one = worker(runs_url, tmp_path)
        try:
            while poison.state != "parked" or beside.state != "done":
                assert time.monotonic() < late, (poison.state, beside.state, beside.reason)
                if one.poll() is not None:
                    one.communicate()
                    one, crashes = worker(runs_url, tmp_path), crashes + 1
                time.sleep(0.05)
        finally:
            one.kill()
            one.communicate()
        assert beside.result(5).content == "all parts are done"
        with pytest.raises(RunParked, match="it failed 5 times in a row without a new step"):
            poison.result(5)
    assert MAX_FAILURES <= crashes <= 2 * MAX_FAILURES


@POSIX
@pytest.mark.slow
@pytest.mark.row("N4")
def test_a_run_whose_tools_are_gone_says_which(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    folder = tmp_path / "effects"
    folder.mkdir()
    ended(begun(url, "run", folder, "after-call-record:2"))
    with Runs(url) as runs:
        run = runs.start("Do it all.", id="run", tools=[add], **given(turns("no")))
        with pytest.raises(RunParked, match="tools that are missing here: look, note, pay, send, careless"):
            run.result(60)


@pytest.mark.row("N4")
def test_a_run_whose_tools_take_other_arguments_says_which(tmp_path: Path, made_runs: Path) -> None:
    def of_before(one: int, other: int) -> int:
        """Add two numbers."""
        return one + other

    def of_now(one: int, other: str) -> str:
        """Add two numbers."""
        return f"{one} {other}"

    shutil.copy(made_runs, tmp_path / "runs.db")
    begins, goes_on = tool(name="add")(of_before), tool(name="add")(of_now)
    say = turns([("add", {"one": 1, "other": 2})], "3")
    with Runs(f"sqlite:///{tmp_path / 'runs.db'}") as runs:
        runs.start("Add.", tools=[begins], approve=True, id="one", **given(say))
        waited(lambda: runs.run("one").state == "waiting")
    with Runs(f"sqlite:///{tmp_path / 'runs.db'}") as runs:
        run = runs.start("Add.", tools=[goes_on], id="one", **given(say))
        run.answer("call_0_0")
        with pytest.raises(RunParked, match="tools that have other parameters here: add"):
            run.result(60)
    with Runs(f"sqlite:///{tmp_path / 'runs.db'}") as runs:
        run = runs.start("Add.", tools=[begins], id="one", **given(say))
        run.resume()
        assert run.result(60).content == "3"


@POSIX
@pytest.mark.slow
@pytest.mark.row("N8")
def test_a_run_is_cancelled_while_its_worker_is_dead(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    folder = tmp_path / "effects"
    folder.mkdir()
    ended(begun(url, "run", folder, "in-call:4"))
    with Runs(url) as runs:
        run = runs.run("run")
        run.cancel()
        done = runs.start("Do it all.", id="run", **given(turns("no"))).result(60)
    assert done.ending == "cancelled"
    assert [message.role for message in done.messages][:1] == ["assistant"]
    assert len(lines(folder, "pay")) == 1


@pytest.mark.slow
@pytest.mark.row("N5")
def test_a_database_that_drops_all_connections_stops_no_run(postgres: Postgres, database: Database) -> None:
    ran: list[int] = []

    @tool
    def slowly(number: int) -> str:
        """Take a moment."""
        ran.append(number)
        time.sleep(0.05)
        return f"{number} is done"

    say = turns(*[[("slowly", {"number": turn})] for turn in range(10)], "all is done")
    with Runs(database.url, lease=5.0) as runs:
        started = [runs.start("Go.", tools=[slowly], id=f"run-{n}", **given(say)) for n in range(5)]
        for _ in range(4):
            time.sleep(0.4)
            postgres.run(ENDING.format(database.name))
        ends = [run.result(120) for run in started]
    assert [end.content for end in ends] == ["all is done"] * 5
    assert max(Counter(ran).values()) <= 5


@POSIX
@pytest.mark.slow
@pytest.mark.row("N5")
def test_a_database_that_is_away_when_a_step_ends_parks_no_run(postgres: Postgres, database: Database) -> None:
    ran: list[int] = []
    away = threading.Event()

    @tool
    def slowly(number: int) -> str:
        """Take the database away."""
        ran.append(number)
        postgres.stop()
        away.set()
        return f"{number} is done"

    say = turns([("slowly", {"number": 1})], [("add", {"one": 1, "other": 2})], "all is done")
    with Runs(database.url, lease=5.0) as runs:
        run = runs.start("Go.", tools=[slowly, add], id="run", **given(say))
        assert away.wait(60)
        time.sleep(2.0)
        postgres.go_on()
        done = run.result(120)
        row = runs.core.register.row("run")
    results = [part.content for message in done.messages for part in message.parts if isinstance(part, ToolResult)]
    assert (done.content, results, ran) == ("all is done", ["1 is done", "3"], [1])
    assert row is not None
    assert row.tries == 0


@POSIX
@pytest.mark.slow
def test_a_worker_that_is_told_to_stop_hands_its_runs_on(tmp_path: Path, made_runs: Path) -> None:
    number = 4
    shutil.copy(made_runs, tmp_path / "runs.db")
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    workers: list[subprocess.Popen[str]] = []
    with contextmanager(serving)() as model, Runs(url, lease=60.0) as runs:
        jobs = [started(runs, n, model.url) for n in range(number)]
        try:
            workers.append(worker(url, tmp_path))
            await_a_call(tmp_path)
            workers[0].send_signal(signal.SIGTERM)
            assert workers[0].wait(60) == 0
            workers.append(worker(url, tmp_path))
            ends = [run.result(60) for run in jobs]
        finally:
            for one in workers:
                one.kill()
                one.communicate()
    assert [end.content for end in ends] == ["all parts are done"] * number
    assert set(Counter((tmp_path / "done").read_text().split()).values()) == {1}
    assert len((tmp_path / "done").read_text().split()) == PARTS * number


@pytest.mark.row("N9")
def test_what_was_by_chance_is_recorded_and_given_again(tmp_path: Path, made_runs: Path) -> None:
    @tool
    def draw() -> str:
        """Draw a lot."""
        return f"{uuid.uuid4()} at {time.time()}"

    shutil.copy(made_runs, tmp_path / "runs.db")
    with Runs(f"sqlite:///{tmp_path / 'runs.db'}") as runs:
        run = runs.start("Draw.", tools=[draw], **given(turns([("draw", {})], "drawn")))
        done = run.result(60)
        again = run.fork(2).result(60)
    assert again.messages[1] == done.messages[1]
