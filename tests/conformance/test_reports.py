"""Outcomes become counts and explained failures, and these become the page."""

import json
from pathlib import Path

import msgspec
import pytest

from conformance import __main__ as command
from conformance import page
from conformance.outcomes import Counts, Outcome, Report, Suite, Unavailable, count
from conformance.owners import UNEXPLAINED, Row, explain, read_rows, stale
from conformance.suites import SHORT, SUITES

OUTCOMES = [
    Outcome("a -> x", "one", "passed"),
    Outcome("a -> x", "two", "failed", "no field 'id'"),
    Outcome("a -> y", "two", "failed", "no field 'id'"),
    Outcome("a -> y", "three", "skipped", "no key"),
]
ROWS = [
    Row("s", "vendor", "the vendor refuses it", subject="a -> y"),
    Row("s", "toolwire", "a field is absent", cases=("one", "tw*"), detail="no field"),
    Row("s", "client", "never seen", cases=("four",)),
    Row("other", "client", "of another suite"),
]


def test_outcomes_are_counted_by_subject() -> None:
    assert count(OUTCOMES) == {"a -> x": Counts(1, 1, 0), "a -> y": Counts(0, 1, 1)}


def test_the_first_row_that_fits_explains_a_failure() -> None:
    vendor, ours = explain("s", OUTCOMES, ROWS)
    assert (vendor.owner, vendor.count, vendor.cases) == ("vendor", 1, ("two (a -> y)",))
    assert (ours.owner, ours.count, ours.cases) == ("toolwire", 1, ("two (a -> x)",))


def test_a_failure_without_a_row_is_unknown() -> None:
    [failures] = explain("s", OUTCOMES, ROWS[2:])
    assert (failures.owner, failures.reason, failures.count) == ("unknown", UNEXPLAINED, 2)
    assert failures.cases == ("two (a -> x, a -> y)",)


def test_many_failures_of_one_reason_are_counted() -> None:
    often = [Outcome(f"s{number}", "case", "failed") for number in range(4)]
    many = [Outcome("s", f"case {number}", "failed") for number in range(24)]
    [failures] = explain("s", [*often, *many], [])
    assert failures.cases[:2] == ("case (4 times)", "case 0 (s)")
    assert (failures.count, len(failures.cases), failures.others) == (28, 20, 5)
    text = page.page([Report("s", "1", "2026-11-27", {}, (failures,))], [suite()])
    assert text.endswith("case 18 (s); 5 others |\n")


def test_a_row_that_explains_nothing_is_found() -> None:
    assert stale("s", OUTCOMES, ROWS) == [ROWS[2]]


def test_each_row_of_the_table_is_of_a_suite() -> None:
    rows = read_rows()
    assert {row.suite for row in rows} <= {suite.name for suite in SUITES}
    assert all(row.owner != "unknown" and row.reason for row in rows)
    assert set(SHORT) <= {suite.name for suite in SUITES}


def report(name: str = "s") -> Report:
    return Report(name, "1.0, build 7", "2026-11-27", count(OUTCOMES), explain(name, OUTCOMES, ROWS[1:]))


def suite(name: str = "s") -> Suite:
    return Suite(name, "A Suite", "what it judges", "client -> upstream", lambda _: ("1.0", OUTCOMES))


def test_the_page_names_each_failure_with_its_owner() -> None:
    text = page.page([report()], [suite()])
    assert "| A Suite: what it judges | 1.0, build 7 | 2026-11-27 | 1 | 2 | 2 |" in text
    assert "| client -> upstream | x | y |\n|---|---|---|\n| a | 1 of 2 | 0 of 1, 1 skipped |" in text
    assert "| toolwire | 2 | a field is absent | two (a -> x, a -> y) |" in text


def test_subjects_that_are_no_pairs_have_a_line_each() -> None:
    alone = Report("s", "1.0", "2026-11-27", {"required": Counts(3, 1, 0)})
    assert "| required | 3 | 1 | 0 |" in page.page([alone], [suite()])


def test_the_table_of_the_readme_is_replaced() -> None:
    before = "a\n<!-- made by `make conformance` -->\nold\n<!-- end -->\nb\n"
    after = page.readme(before, [report()], [suite()])
    table = "|  | A Suite 1.0 |\n|---|---|\n| passed | 1 of 3 |\n| to be mended here | 2 |\n| date | 2026-11-27 |\n"
    assert after == before.replace("old\n", table)


def test_a_new_report_replaces_that_of_its_suite() -> None:
    new = msgspec.structs.replace(report("b"), version="2.0")
    assert page.merge([report("b"), report("a")], [new], [suite("a"), suite("b"), suite("c")]) == [report("a"), new]


def test_the_page_and_the_readme_have_the_last_results() -> None:
    reports = page.read_results()
    assert [one.suite for one in reports] == [one.name for one in SUITES], "run `make conformance`"
    assert page.PAGE.read_text("utf-8") == page.page(reports, SUITES), "run `make conformance`"
    text = page.README.read_text("utf-8")
    assert text == page.readme(text, reports, SUITES), "run `make conformance`"
    assert all(one.failed_of("unknown") == 0 for one in reports)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the command write into a folder of the test."""
    for name in ("RESULTS", "PAGE", "README"):
        monkeypatch.setattr(page, name, tmp_path / name)
    (tmp_path / "README").write_text("<!-- made by `make conformance` -->\n<!-- end -->\n")
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, suites: list[Suite], *arguments: str) -> int:
    monkeypatch.setattr(command, "SUITES", suites)
    monkeypatch.setattr(command, "SHORT", [one.name for one in suites])
    monkeypatch.setattr(command, "read_rows", lambda: ROWS)
    return command.main(arguments)


def test_the_command_writes_what_it_found(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, [suite()]) == 0
    assert json.loads((files / "RESULTS").read_bytes())[0]["counts"]["a -> x"] == {
        "passed": 1,
        "failed": 1,
        "skipped": 0,
    }
    assert "## A Suite" in (files / "PAGE").read_text()
    assert "| passed | 1 of 3 |" in (files / "README").read_text()
    assert "a row of owners.toml explains no failure: never seen" in capsys.readouterr().out


def test_a_short_run_writes_nothing_and_fails_for_a_failure_without_an_owner(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, [suite("t")], "--short") == 1
    assert not (files / "PAGE").exists()
    assert "a -> x: two: no field 'id'" in capsys.readouterr().out


def test_a_suite_that_cannot_run_is_skipped_with_its_reason(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(_: bool) -> tuple[str, list[Outcome]]:
        raise Unavailable("there is no network")

    assert run(monkeypatch, [Suite("s", "S", "nothing", "x", absent)]) == 0
    assert capsys.readouterr().out == "s: skipped: there is no network\n"
    assert json.loads((files / "RESULTS").read_bytes()) == []


def test_an_unknown_suite_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["nonsense"])
    assert "there is no suite nonsense" in capsys.readouterr().err
