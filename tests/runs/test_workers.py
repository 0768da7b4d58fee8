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

import pytest

from tests.runs.jobs import PARTS, serving, started
from tests.runs.killing import ROOT, begun, check, ended
from tests.runs.scripted import given, turns
from tests.runs.victim import lines
from tests.traces.postgres import Database, Postgres
from toolwire import Done, Runs, tool
from toolwire.errors import RunParked
from toolwire.runs.core import MOST
from toolwire.runs.owners import is_dead, new_owner

ENDING = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'"
POSIX = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed as POSIX does it")


@tool
def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


@pytest.mark.row("N10")
def test_a_hundred_starts_of_one_id_are_one_run(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    started = given(turns([("add", {"one": 1, "other": 2})], "3"))
    ends: list[Done] = []
    with Runs(url) as runs:

        def start() -> None:
            ends.append(runs.start("Add.", tools=[add], id="one", **started).result(30))

        threads = [threading.Thread(target=start) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(ends) == 100
    assert len(started["options"]["transport"].asked) == 2


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


@POSIX
@pytest.mark.slow
@pytest.mark.row("N2")
def test_a_dead_workers_runs_are_taken_over(runs_url: str, tmp_path: Path) -> None:
    number = 6
    workers: list[subprocess.Popen[str]] = []
    with contextmanager(serving)() as base_url, Runs(runs_url, lease=2.0) as runs:
        jobs = [started(runs, n, base_url) for n in range(number)]
        try:
            workers.append(worker(runs_url, tmp_path))
            late = time.monotonic() + 60
            while not (tmp_path / "done").exists():
                assert time.monotonic() < late
                time.sleep(0.01)
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
    for _ in range(MOST + 1):
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
@pytest.mark.row("N4")
def test_a_run_whose_tools_are_gone_says_which(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    folder = tmp_path / "effects"
    folder.mkdir()
    ended(begun(url, "run", folder, "after-call-record:2"))
    with Runs(url) as runs:
        run = runs.start("Do it all.", id="run", tools=[add], **given(turns("no")))
        with pytest.raises(RunParked, match="tools that are gone here: look, note, pay, send, careless"):
            run.result(60)


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
def test_a_worker_that_is_told_to_stop_hands_its_runs_on(tmp_path: Path, made_runs: Path) -> None:
    number = 4
    shutil.copy(made_runs, tmp_path / "runs.db")
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    workers: list[subprocess.Popen[str]] = []
    with contextmanager(serving)() as base_url, Runs(url, lease=60.0) as runs:
        jobs = [started(runs, n, base_url) for n in range(number)]
        try:
            workers.append(worker(url, tmp_path))
            late = time.monotonic() + 60
            while not (tmp_path / "done").exists():
                assert time.monotonic() < late
                time.sleep(0.01)
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
