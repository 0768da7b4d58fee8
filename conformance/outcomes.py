"""The outcomes of a suite, one for each case, and the report of a run, in which each failure has an owner."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec

Status = Literal["passed", "failed", "skipped"]
Owner = Literal["toolwire", "choice", "suite", "client", "vendor", "unknown"]


class Outcome(NamedTuple):
    """The outcome of one case: `subject` is what was tried, `detail` is the complaint of the judge."""

    subject: str
    case: str
    status: Status
    detail: str = ""


class Counts(msgspec.Struct, frozen=True):
    """How many cases passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


class Failures(msgspec.Struct, frozen=True):
    """Failures with one reason: who owns them, how many there are, the first cases, and how many others there are."""

    owner: Owner
    reason: str
    count: int
    cases: tuple[str, ...]
    others: int = 0


class Report(msgspec.Struct, frozen=True):
    """One run of a suite: the counts of each subject, and the failures by their reasons."""

    suite: str
    version: str
    date: str
    counts: dict[str, Counts]
    failures: tuple[Failures, ...] = ()

    @property
    def total(self) -> Counts:
        """The counts of all subjects together."""
        return sum(self.counts.values(), Counts())

    def failed_of(self, *owners: Owner) -> int:
        """Return how many failures these owners have."""
        return sum(failures.count for failures in self.failures if failures.owner in owners)


class Unavailable(Exception):
    """A suite cannot run here: its packages or its data are absent. The text is the reason."""


class Suite(msgspec.Struct, frozen=True):
    """A suite: its title and its sentence on the page, and what its subjects are.

    `run` receives True for a short run, and returns the version of the suite and its outcomes. It raises Unavailable
    if the suite cannot run.
    """

    name: str
    title: str
    about: str
    subjects: str
    run: Callable[[bool], tuple[str, Sequence[Outcome]]]


def count(outcomes: Sequence[Outcome]) -> dict[str, Counts]:
    """Count outcomes by their subjects, in the order of the first of each."""
    counts: dict[str, Counts] = {}
    for outcome in outcomes:
        counts[outcome.subject] = counts.get(outcome.subject, Counts()) + Counts(**{outcome.status: 1})
    return counts
