"""Print what the project was asked for, row by row, with the tests that hold each row.

`make rows` prints all of them; `make rows ARGS="R002"` those of one list; `make rows ARGS="--open"` those that no test
holds as they are written. `tests/rows.toml` has the rows and the reasons.
"""

import argparse
import ast
import signal
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
TESTS = REPOSITORY / "tests"
MARK = "pytest.mark.row"


@cache
def lists() -> dict[str, Any]:
    """Read how many rows each list has, and the reasons of those that are open."""
    return tomllib.loads((TESTS / "rows.toml").read_text())


def spelt(prefix: str, count: int) -> list[str]:
    """Spell the rows of a list: `R000-01`, `I-01`, `E13`, `4.1.3`."""
    return [f"{prefix}{number:02d}" if prefix.endswith("-") else f"{prefix}{number}" for number in range(1, count + 1)]


def rows_of(kind: str) -> list[str]:
    """Spell the rows of every list of a kind: `rows`, or `cases`."""
    return [row for prefix, count in lists()[kind].items() for row in spelt(prefix, count)]


@cache
def tree_of(source: str) -> ast.Module:
    """Read a file of tests once."""
    return ast.parse(source)


def rows_in(node: ast.AST) -> list[str]:
    """Find the rows of every `pytest.mark.row(...)` below a node."""
    calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
    marks = (one for one in calls if getattr(one.func, "attr", "") == "row" and ast.unparse(one.func) == MARK)
    return [ast.literal_eval(row) for mark in marks for row in mark.args]


def marked(source: str) -> Iterator[tuple[str, str]]:
    """Pair the tests of a file with their rows.

    A mark stands on a test, on its class, in the module's `pytestmark`, or at a case of a table that the test names.
    """
    if MARK not in source:
        return
    tree = tree_of(source)
    tables = {
        name.id: rows_in(one)
        for one in tree.body
        if isinstance(one, (ast.Assign, ast.AnnAssign))
        for name in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if isinstance(name, ast.Name)
    }
    yield from _tests_in(tree.body, tables, "", tables.get("pytestmark", []))


def _tests_in(
    body: list[ast.stmt], tables: dict[str, list[str]], path: str, above: list[str]
) -> Iterator[tuple[str, str]]:
    for one in body:
        if isinstance(one, ast.ClassDef) and one.name.startswith("Test"):
            below = above + [row for mark in one.decorator_list for row in rows_in(mark)]
            yield from _tests_in(one.body, tables, f"{path}{one.name}::", below)
        elif isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and one.name.startswith("test_"):
            inside = [part for mark in one.decorator_list for part in ast.walk(mark)]
            named = [row for part in inside if isinstance(part, ast.Name) for row in tables.get(part.id, [])]
            own = [row for mark in one.decorator_list for row in rows_in(mark)]
            for row in dict.fromkeys(above + own + named):
                yield row, path + one.name


@cache
def held() -> dict[str, list[str]]:
    """Say which tests hold which row."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for row, test in marked(path.read_text()):
            found.setdefault(row, []).append(f"{path.relative_to(REPOSITORY)}::{test}")
    return found


def state(row: str) -> str:
    """Say how a row is held: `held`, or why its tests assert less than it says, or why there is none."""
    less, none = lists()["less"].get(row), lists()["none"].get(row)
    if less or none:
        return f"asserts less: {less}" if less else f"no test: {none}"
    return "held" if row in held() else "no test"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prefix", nargs="?", default="", help="only rows that begin so: R002, I-, E13")
    parser.add_argument("--open", action="store_true", help="only rows that no test holds as they are written")
    asked = parser.parse_args()
    rows = [row for row in [*rows_of("rows"), *rows_of("cases")] if row.startswith(asked.prefix)]
    for row in rows:
        if not (asked.open and state(row) == "held"):
            print(f"{row:<9} {state(row)}", *held().get(row, []), sep="\n          ")
    print(f"{len(rows)} rows, of which {sum(state(row) == 'held' for row in rows)} are held as they are written")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends without a word where its reader does, as `head` does
    main()
