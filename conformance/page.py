"""`docs/conformance.md` and the short table of the README, from `results.json`."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from conformance.environments import ROOT
from conformance.outcomes import Counts, Failures, Report, Suite

RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "conformance.md"
README = ROOT / "README.md"
_SHORT = re.compile(r"(?s)(<!-- made by `make conformance` -->\n).*?(<!-- end -->)")
_OWNERS = {
    "toolwire": "toolwire",
    "choice": "toolwire, by choice",
    "suite": "the suite",
    "client": "the client",
    "vendor": "the vendor's API",
    "unknown": "unknown",
}
_HEAD = """# Conformance

The results of suites that others wrote; their judges decide. `make conformance` runs all suites and writes this page.
`make conformance ARGS="bfcl langchain"` runs the suites that are named. `make conformance ARGS=--short` is a short run
for continuous integration, and writes nothing.

- No suite asks a real model. `toolwire serve` runs in front of the [simulated model](simulated-model.md), which rejects
  the requests that vendors reject. An *upstream* is the wire of this model. CanIToolCall, BFCL and the
  JSON-Schema-Test-Suite judge the library instead of the gateway.
- Each suite has an environment of its own, pinned by hash in `requirements/` and `conformance/ai_sdk/`. A suite that
  cannot be installed is skipped, with the reason.
- Each failure has an owner and a reason, from `conformance/owners.toml`. The command fails if a failure has none.

"""


def read_results() -> list[Report]:
    """Read the last report of each suite."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=list[Report]) if RESULTS.exists() else []


def merge(old: Sequence[Report], new: Sequence[Report], suites: Sequence[Suite]) -> list[Report]:
    """Return the newest report of each suite, in the order of `suites`."""
    reports = {report.suite: report for report in [*old, *new]}
    return [reports[suite.name] for suite in suites if suite.name in reports]


def write(reports: Sequence[Report], suites: Sequence[Suite]) -> None:
    """Write the results, the page and the table of the README."""
    data = msgspec.json.format(msgspec.json.encode(reports), indent=1)
    RESULTS.write_bytes(data + b"\n")
    PAGE.write_text(page(reports, suites), "utf-8")
    README.write_text(readme(README.read_text("utf-8"), reports, suites), "utf-8")


def page(reports: Sequence[Report], suites: Sequence[Suite]) -> str:
    """Return the text of the page."""
    titles = {suite.name: suite for suite in suites}
    sections = [_section(report, titles[report.suite]) for report in reports]
    return _HEAD + _table(reports, suites) + "\n" + "\n".join(sections)


def readme(text: str, reports: Sequence[Report], suites: Sequence[Suite]) -> str:
    """Return the README with the table of today."""
    return _SHORT.sub(lambda marks: f"{marks[1]}{_short_table(reports, suites)}{marks[2]}", text)


def _short_table(reports: Sequence[Report], suites: Sequence[Suite]) -> str:
    """Return a table with a column for each suite, which takes few lines."""
    titles = {suite.name: suite.title for suite in suites}
    columns = [
        (
            f"{titles[report.suite]} {report.version.partition(',')[0]}",
            f"{report.total.passed:,} of {report.total.passed + report.total.failed:,}",
            str(report.failed_of("toolwire", "unknown")),
            report.date,
        )
        for report in reports
    ]
    heads = ("", "passed", "to be mended here", "date")
    lines = [f"| {' | '.join(cells)} |" for cells in zip(heads, *columns, strict=True)]
    lines.insert(1, "|---" * (len(columns) + 1) + "|")
    return "\n".join(lines) + "\n"


def _table(reports: Sequence[Report], suites: Sequence[Suite]) -> str:
    titles = {suite.name: suite for suite in suites}
    lines = ["| suite | version | date | passed | failed | to be mended here |", "|---|---|---|---|---|---|"]
    for report in reports:
        suite, total = titles[report.suite], report.total
        ours = report.failed_of("toolwire", "unknown")
        cells = (f"{suite.title}: {suite.about}", report.version, report.date, f"{total.passed:,}", total.failed, ours)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _section(report: Report, suite: Suite) -> str:
    lines = [
        f"## {suite.title}",
        "",
        f"{suite.about[0].upper()}{suite.about[1:]}; version {report.version}, {report.date}.",
        "",
    ]
    lines += _by_subject(report.counts, suite.subjects)
    if report.failures:
        lines += ["", "| owner | failures | reason | cases |", "|---|---|---|---|"]
        lines += [_failure_line(failures) for failures in report.failures]
    return "\n".join(lines) + "\n"


def _by_subject(counts: dict[str, Counts], subjects: str) -> list[str]:
    """Return a table of the subjects: a matrix if each names two things, else a line for each."""
    if all(" -> " in subject for subject in counts):
        return _matrix(counts, subjects)
    lines = [f"| {subjects} | passed | failed | skipped |", "|---|---|---|---|"]
    return lines + [f"| {name} | {each.passed} | {each.failed} | {each.skipped} |" for name, each in counts.items()]


def _matrix(counts: dict[str, Counts], subjects: str) -> list[str]:
    pairs = {tuple(subject.split(" -> ")): each for subject, each in counts.items()}
    rows, columns = (list(dict.fromkeys(pair[index] for pair in pairs)) for index in (0, 1))
    lines = [f"| {' | '.join([subjects, *columns])} |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        cells = [pairs.get((row, column), Counts()) for column in columns]
        lines.append(f"| {' | '.join([row, *map(_share, cells)])} |")
    return lines


def _share(counts: Counts) -> str:
    skipped = f", {counts.skipped} skipped" if counts.skipped else ""
    return f"{counts.passed} of {counts.passed + counts.failed}{skipped}"


def _failure_line(failures: Failures) -> str:
    others = f"; {failures.others} others" if failures.others else ""
    cases = "; ".join(_plain(name) for name in failures.cases) + others
    return f"| {_OWNERS[failures.owner]} | {failures.count} | {_plain(failures.reason)} | {cases} |"


def _plain(text: str) -> str:
    """Return a text for a cell of a table, without markup."""
    return re.sub(r"([\\|<*`\[])", r"\\\1", " ".join(text.split()))
