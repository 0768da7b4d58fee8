"""The register: whose runs are over, and what a process that ended counts against them."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from toolwire import Runs
from toolwire.runs.register import RUNS, Register

WITHIN = 1.0


@pytest.fixture
def runs(tmp_path: Path, made_runs: Path) -> Iterator[Runs]:
    shutil.copy(made_runs, tmp_path / "runs.db")
    with Runs(f"sqlite:///{tmp_path / 'runs.db'}") as made:
        yield made


def put(register: Register, name: str, left: float | None, **more: Any) -> None:
    """Put down a run whose lease lasts so long."""
    row = {"id": name, "spec": "{}", "queue": "jobs", "state": "running", "token": 1, "created": 0.0, **more}
    with register.db.begin() as connection:
        connection.execute(sa.insert(RUNS).values(expires=None if left is None else register.now + left, **row))


def knowing_all(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have the engine know all runs; give the list of those that it has led again."""
    resumed: list[str] = []

    def resume(names: Iterable[str], _queue: str) -> list[str]:
        resumed.extend(names)
        return []

    monkeypatch.setattr(runs.core.engine, "resume", resume)
    return resumed


# the leases of an owner's runs -> those that are over, as soon as one is
LEASES = [
    ((-1.0,), [0]),
    ((-1.0, -2.0), [0, 1]),
    ((-1.0, 0.5), [0, 1]),  # begun shortly before its owner ended
    ((-1.0, 20.0), [0]),  # its owner renews what it leads
    ((0.5, 20.0), []),
]


@pytest.mark.parametrize(("leases", "over"), LEASES)
def test_who_let_all_leases_go_is_gone_from_all_that_it_led(
    runs: Runs, leases: tuple[float, ...], over: list[int]
) -> None:
    register = runs.core.register
    for number, left in enumerate(leases):
        put(register, f"run-{number}", left, owner="elsewhere|1|1|a")
    put(register, "of another", 20.0, owner="elsewhere|2|1|b")
    put(register, "waits", None, owner=None, state="waiting")
    found, _ = register.expired(["jobs"], [], WITHIN)
    assert sorted(row.id for row in found) == [f"run-{number}" for number in over]
    assert register.expired(["others"], [], WITHIN)[0] == []
    assert len(register.expired([], ["run-0"], WITHIN)[0]) == (0 in over)


def test_it_is_looked_again_when_the_next_lease_is_over(runs: Runs) -> None:
    register = runs.core.register
    assert register.expired(["jobs"], [], WITHIN) == ([], WITHIN)
    put(register, "run", 0.4, owner="elsewhere|1|1|a")
    put(register, "other", 20.0, owner="elsewhere|2|1|b")
    assert 0 < register.expired(["jobs"], [], WITHIN)[1] <= 0.4


@pytest.mark.parametrize(("beside", "tries"), [(0, 2), (1, 1), (3, 1)])
def test_a_process_that_ended_counts_by_half_against_one_of_many(
    runs: Runs, beside: int, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, resumed = runs.core, knowing_all(runs, monkeypatch)
    for number in range(beside + 1):
        put(core.register, f"run-{number}", -1.0, owner="elsewhere|1|1|a")
    put(core.register, "handed on", -1.0, owner=None, state="queued")
    core._take_over(core.register.expired(["jobs"], [], WITHIN)[0])
    rows = {row.id: (row.state, row.token, row.owner, row.tries) for row in core.register.rows()}
    assert rows.pop("handed on") == ("queued", 2, None, 0)
    assert list(rows.values()) == [("queued", 2, None, tries)] * (beside + 1)
    assert len(resumed) == beside + 2


def test_runs_whose_process_ended_again_and_again_are_given_out_apart(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, resumed = runs.core, knowing_all(runs, monkeypatch)
    for number in range(4):
        put(core.register, f"run-{number}", -1.0, owner="elsewhere|1|1|a", tries=3)
    core._take_over(core.register.expired(["jobs"], [], WITHIN)[0])
    rows = core.register.rows()
    assert [(row.state, row.owner, row.tries) for row in rows] == [("queued", None, 4)] * 4
    assert resumed == []
    waits = [row.expires - row.now for row in rows]
    assert all(-1.0 < wait <= core.lease for wait in waits)
    assert len(set(waits)) == 4
