"""The owner and the reason of each failure, from the table `owners.toml`.

Rules of this file:
- The first row that fits a failure explains it. A row names a suite, and patterns for the subject, the cases and the
  detail; a pattern that is left out fits everything.
- A failure without a row has the owner "unknown", and `make conformance` fails.
- A row that fits no failure of a whole run is reported, so that it can be deleted.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from conformance.outcomes import Failures, Outcome, Owner

_TABLE = Path(__file__).with_name("owners.toml")
_MOST_NAMES, _MOST_SUBJECTS = 20, 3
UNEXPLAINED = "not explained yet"


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Failures with one reason. `subject` and `cases` are patterns of a shell, `detail` is a regular expression."""

    suite: str
    owner: Owner
    reason: str
    subject: str = "*"
    cases: tuple[str, ...] = ("*",)
    detail: str = ""

    def fits(self, suite: str, outcome: Outcome) -> bool:
        """Return True if this row explains `outcome` of `suite`."""
        return (
            self.suite == suite
            and fnmatchcase(outcome.subject, self.subject)
            and any(fnmatchcase(outcome.case, case) for case in self.cases)
            and re.search(self.detail, outcome.detail) is not None
        )


def read_rows(path: Path = _TABLE) -> list[Row]:
    """Read the table."""
    return msgspec.convert(tomllib.loads(path.read_text("utf-8"))["row"], list[Row])


def row_of(suite: str, outcome: Outcome, rows: Sequence[Row]) -> Row | None:
    """Return the first row that explains an outcome, or None."""
    return next((row for row in rows if row.fits(suite, outcome)), None)


def explain(suite: str, outcomes: Iterable[Outcome], rows: Sequence[Row]) -> tuple[Failures, ...]:
    """Group the outcomes that failed by the rows that explain them, in the order of the table."""
    by_row: dict[Row | None, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.status == "failed":
            by_row.setdefault(row_of(suite, outcome, rows), []).append(outcome)
    explained = [_failures(row.owner, row.reason, by_row[row]) for row in rows if row in by_row]
    unknown = [_failures("unknown", UNEXPLAINED, by_row[None])] if None in by_row else []
    return tuple(explained + unknown)


def stale(suite: str, outcomes: Iterable[Outcome], rows: Sequence[Row]) -> list[Row]:
    """Return the rows of `suite` that explain no failure of a whole run."""
    used = {row_of(suite, outcome, rows) for outcome in outcomes if outcome.status == "failed"}
    return [row for row in rows if row.suite == suite and row not in used]


def _failures(owner: Owner, reason: str, outcomes: Sequence[Outcome]) -> Failures:
    subjects: dict[str, list[str]] = {}
    for outcome in outcomes:
        subjects.setdefault(outcome.case, []).append(outcome.subject)
    names = tuple(_name(case, tried) for case, tried in subjects.items())
    return Failures(owner, reason, len(outcomes), names[:_MOST_NAMES], max(len(names) - _MOST_NAMES, 0))


def _name(case: str, subjects: Sequence[str]) -> str:
    """Return the name of a case, and what it was tried with unless its name begins with that."""
    if all(case.startswith(subject) for subject in subjects):
        return case
    tried = f"{len(subjects)} times" if len(subjects) > _MOST_SUBJECTS else ", ".join(subjects)
    return f"{case} ({tried})"
