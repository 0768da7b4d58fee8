"""What a program left behind when it was killed is ended by the next one."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from toolwire.waiting import process_marks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands run on Linux only")


@pytest.fixture
def ended() -> Iterator[int]:
    """Give the number of a program that has ended, and whose number is not given again meanwhile."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        process.kill()
        while process_marks._start_time(process.pid):
            time.sleep(0.001)
        yield process.pid


PATIENCE = 10.0


def sleeper(mark: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["/bin/sleep", "100"], env={"A": "1", process_marks.MARK: mark, "Z": "1"})


@pytest.mark.parametrize(
    ("mark", "goes"),
    [
        ("{here}.{ended}.7.ab", True),
        ("{here}.{own}.7.ab", True),
        ("{here}.{own}.{begun}.ab", False),
        ("1.{ended}.7.ab", False),
        ("nonsense", False),
        ("{here}.{ended}.7.", False),
    ],
    ids=[
        "its program ended",
        "its number was given again",
        "it lives",
        "of another namespace",
        "no mark",
        "cut",
    ],
)
@pytest.mark.row("C24")
def test_orphans(ended: int, mark: str, goes: bool) -> None:
    own = os.getpid()
    with sleeper(
        mark.format(here=process_marks._namespace(), ended=ended, own=own, begun=process_marks._start_time(own))
    ) as process:
        try:
            assert process_marks.sweep_orphans(-ended)
            # Whoever else sweeps at the same time may have been the one that ended it.
            assert (process.wait(PATIENCE) == -9) if goes else (process.poll() is None)
        finally:
            process.kill()
            process_marks.sweep_orphans.cache_clear()


def test_a_mark_is_its_own() -> None:
    one, other = process_marks.new_mark(), process_marks.new_mark()
    with sleeper(one) as process, sleeper(other) as another:
        time.sleep(0.05)
        assert process_marks.sweep(one)
        assert another.poll() is None
        another.kill()
        assert process.wait() == -9


def test_a_process_that_is_being_executed_is_not_overlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.listdir
    # Numbers are given anew from the lowest on: the newest process may be the first that is looked at.
    monkeypatch.setattr(os, "listdir", lambda path: reversed(listed(path)))
    for _ in range(20):
        mark = process_marks.new_mark()
        with sleeper(mark) as process:
            try:
                assert process_marks.sweep(mark)
                assert process.wait(PATIENCE) == -9
            finally:
                process.kill()
