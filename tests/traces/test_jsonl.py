"""Traces as lines of JSON: exported with their chain, verified as lines, and put into an empty store."""

import io
import json
from pathlib import Path

import pytest

from tests.traces.making import made, record
from toolwire import traces
from toolwire.errors import InvalidBody, StoreFailed
from toolwire.traces.store import Store


def exported(store: Store) -> list[str]:
    file = io.StringIO()
    assert traces.export(store, file) == store.count()
    return file.getvalue().splitlines(keepends=True)


@pytest.fixture
def lines(store: Store) -> list[str]:
    """Give the lines of a store."""
    record(store, 6)
    store.record(made(arguments={"a": [b"\xff", float("nan"), "\ud800\x00\u2028\x85", 2**70]}, result="é\r\n"))
    store.flush()
    return exported(store)


def test_lines_verify_as_the_store_does(store: Store, lines: list[str]) -> None:
    found = traces.verify(traces.rows_of(lines), store.anchor())
    assert found == store.verify(store.anchor())
    assert (found.rows, found.ok) == (7, True)
    assert set(json.loads(lines[0])) >= {"position", "sequence", "previous", "hash", "ledger", "arguments"}


def test_a_line_that_was_changed_is_found(lines: list[str]) -> None:
    changed = [line.replace("Tokyo", "Kyoto") if number == 3 else line for number, line in enumerate(lines)]
    found = traces.verify(traces.rows_of(changed))
    assert [(problem.position, problem.kind) for problem in found.problems] == [(4, "changed")]


def test_an_import_keeps_the_chain(store: Store, lines: list[str], tmp_path: Path) -> None:
    with traces.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        assert traces.import_(other, lines, store.anchor()).rows == 7
        assert exported(other) == lines
        assert other.verify(store.anchor()).ok
        record(other, 3)
        assert other.verify(store.anchor()).ok
        assert other.count() == 10


def test_an_import_goes_into_an_empty_store_only(store: Store, lines: list[str]) -> None:
    with pytest.raises(StoreFailed, match="only into an empty store"):
        traces.import_(store, lines)
    assert store.count() == 7


@pytest.mark.parametrize("broken", ["changed", "without the first", "one missing", "in another order"])
def test_a_broken_chain_is_not_imported(lines: list[str], tmp_path: Path, broken: str) -> None:
    ways = {
        "changed": [lines[0].replace("Tokyo", "Kyoto"), *lines[1:]],
        "without the first": lines[1:],
        "one missing": lines[:3] + lines[4:],
        "in another order": [lines[1], lines[0], *lines[2:]],
    }
    with traces.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        with pytest.raises(StoreFailed, match="not a whole chain: "):
            traces.import_(other, ways[broken])
        assert other.count() == 0
        assert traces.import_(other, lines).ok


def test_an_import_without_the_tail_is_found_by_the_anchor(store: Store, lines: list[str], tmp_path: Path) -> None:
    with traces.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        with pytest.raises(StoreFailed, match="truncated"):
            traces.import_(other, lines[:-1], store.anchor())
        assert other.count() == 0


@pytest.mark.parametrize("line", ["", "{", "[]", "5", "[" * 100_000, '{"a": "\ud800"'])
def test_what_is_no_line_is_said(line: str) -> None:
    with pytest.raises(InvalidBody, match="line 2"):
        list(traces.rows_of(["{}", line]))


def test_a_part_is_exported_by_filters(store: Store, lines: list[str]) -> None:
    file = io.StringIO()
    assert traces.export(store, file, conversation="talk 0") == 2
    assert file.getvalue().splitlines(keepends=True) == [lines[0], lines[3]]
