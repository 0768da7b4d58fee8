"""`make conformance`: run the suites, print what they found, and write the page."""

import argparse
import datetime as dt
import sys
import time
from collections.abc import Sequence

from conformance import page
from conformance.outcomes import Report, Suite, Unavailable, count
from conformance.owners import explain, read_rows, row_of, stale
from conformance.suites import SHORT, SUITES

_MOST_DETAILS = 20  # of failures without an owner


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suites that are named, or all of them. Return 1 if a failure has no owner."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="SUITE", help=", ".join(suite.name for suite in SUITES))
    parser.add_argument("--short", action="store_true", help="a part of the suites and of their cases; writes nothing")
    options = parser.parse_args(arguments)
    names = options.names or (SHORT if options.short else [suite.name for suite in SUITES])
    if unknown := set(names) - {suite.name for suite in SUITES}:
        parser.error(f"there is no suite {', '.join(sorted(unknown))}")
    finished = [_run(suite, short=options.short) for suite in SUITES if suite.name in names]
    reports = [report for report in finished if report is not None]
    if not options.short:
        page.write(page.merge(page.read_results(), reports, SUITES), SUITES)
    return int(any(report.failed_of("unknown") for report in reports))


def _run(suite: Suite, *, short: bool) -> Report | None:
    """Run a suite, and print what it found; None if it cannot run here."""
    start, today = time.monotonic(), dt.datetime.now(dt.UTC).date()
    try:
        version, outcomes = suite.run(short)
    except Unavailable as reason:
        print(f"{suite.name}: skipped: {reason}", flush=True)
        return None
    rows = read_rows()
    report = Report(suite.name, version, today.isoformat(), count(outcomes), explain(suite.name, outcomes, rows))
    total = report.total
    print(
        f"{suite.name} {version}: {total.passed} passed, {total.failed} failed, {total.skipped} skipped"
        f" in {time.monotonic() - start:.0f} s",
        flush=True,
    )
    for failures in report.failures:
        print(f"  {failures.count} of {failures.owner}: {failures.reason}")
    unknown = [each for each in outcomes if each.status == "failed" and row_of(suite.name, each, rows) is None]
    for outcome in unknown[:_MOST_DETAILS]:
        print(f"    {outcome.subject}: {outcome.case}: {outcome.detail[:400]}")
    for row in [] if short else stale(suite.name, outcomes, rows):
        print(f"  a row of owners.toml explains no failure: {row.reason}")
    return report


if __name__ == "__main__":
    sys.exit(main())
