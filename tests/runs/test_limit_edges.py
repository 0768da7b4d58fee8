"""The limits of a provider at their edges: the clock of the database belongs to the test."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from toolwire.runs.limits import ProviderLimits
from toolwire.runs.register import ASKED, RUNS, Register

LEASE = 1_000.0


class Asking:
    """The limits of a database, asked at the times that the test names."""

    def __init__(self, path: Path) -> None:
        self.now = 0.0
        self.register = Register(sa.create_engine(f"sqlite:///{path}"))
        self.register.now = sa.bindparam("clock", callable_=lambda: self.now, type_=sa.Double)
        self.limits = ProviderLimits(self.register)
        self.numbers: list[int] = []

    def run(self, name: str, expires: float = LEASE) -> None:
        """Insert a run that its worker holds until `expires`."""
        row = {"id": name, "spec": "", "state": "running", "owner": "me", "created": 0, "token": 1, "expires": expires}
        with self.register.db.begin() as connection:
            connection.execute(self.register.insert(RUNS, row))

    def take(self, now: float, provider: str = "openai", run: str = "run") -> bool:
        """Ask for a place, and return True if there is one."""
        self.now = now
        number = self.limits.acquire(run, 1, provider)
        self.numbers += [number] if number else []
        return number is not None

    def leave(self) -> None:
        """Return the oldest place."""
        self.limits.release(self.numbers.pop(0))

    def count(self) -> int:
        """Count the rows of questions."""
        with self.register.db.connect() as connection:
            return int(connection.execute(sa.select(sa.func.count()).select_from(ASKED)).scalar_one())


@pytest.fixture
def asking(tmp_path: Path, made_runs: Path) -> Iterator[Asking]:
    shutil.copy(made_runs, tmp_path / "runs.db")
    made = Asking(tmp_path / "runs.db")
    made.run("run")
    yield made
    made.register.db.dispose()


# Questions in a minute, and the moments of questions that are answered at once: + has a place, - has to wait.
MINUTES = [
    (1, "0+ 0- 59.9- 60+ 60- 119.9- 120+"),
    (2, "0+ 0+ 0- 59.9- 60+ 60+ 60-"),
    (2, "0+ 30+ 59.9- 60+ 60- 89.9- 90+ 90- 119.9- 120+"),
    (3, "0+ 1+ 2+ 3- 59.9- 60+ 60- 60.9- 61+ 61- 62+ 62-"),
    (4, "0+ 0+ 0+ 0+ 0- 1- 59.9- 60+ 60+ 60+ 60+ 60-"),
]


@pytest.mark.parametrize(("most", "moments"), MINUTES)
def test_no_minute_has_more_questions_than_the_limit(asking: Asking, most: int, moments: str) -> None:
    asking.limits.set("openai", None, most)
    for moment in moments.split():
        found = asking.take(float(moment[:-1]))
        assert found is (moment[-1] == "+"), moment
        if found:
            asking.leave()


# Questions at once, and what is asked (+ has a place, - has to wait) and answered (.).
@pytest.mark.parametrize(("most", "steps"), [(1, "+--.+-"), (2, "++--.+-..++-"), (3, "+++-.+-"), (4, "+++.++-")])
def test_no_more_questions_are_open_than_the_limit(asking: Asking, most: int, steps: str) -> None:
    asking.limits.set("openai", most, None)
    for at, step in enumerate(steps):
        if step == ".":
            asking.leave()
        else:
            assert asking.take(0.0) is (step == "+"), at


def test_both_limits_hold(asking: Asking) -> None:
    asking.limits.set("openai", 2, 3)
    assert [asking.take(0.0) for _ in range(3)] == [True, True, False]
    asking.leave()
    assert [asking.take(1.0) for _ in range(2)] == [True, False]
    asking.leave()
    assert [asking.take(59.9), asking.take(60.0), asking.take(60.0)] == [False, True, False]


# A worker that has died holds its run until the lease ends: at 30 here.
@pytest.mark.parametrize(("now", "found"), [(0.0, False), (29.9, False), (30.0, True), (30.1, True)])
def test_an_open_question_counts_until_the_lease_of_its_run_ends(asking: Asking, now: float, found: bool) -> None:
    asking.run("dead", expires=30.0)
    asking.limits.set("openai", 1, None)
    assert asking.take(0.0, run="dead")
    assert asking.take(now) is found


def test_an_open_question_is_counted_after_a_minute_and_no_row_stays_that_counts_for_nothing(asking: Asking) -> None:
    asking.limits.set("openai", 2, 9)
    assert asking.take(0.0)
    assert asking.take(0.0)
    assert not asking.take(61.0)
    asking.leave()
    assert asking.take(62.0)
    assert asking.count() == 2


def test_a_question_to_one_provider_forgets_none_to_another(asking: Asking) -> None:
    asking.limits.set("openai", None, 1)
    asking.limits.set("anthropic", None, 9)
    assert asking.take(0.0)
    asking.leave()
    for _ in range(3):
        assert asking.take(1.0, "anthropic")
        asking.leave()
    assert [asking.take(2.0), asking.take(59.9), asking.take(60.0)] == [False, False, True]
