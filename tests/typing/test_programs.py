"""Programs of users under two type checkers: right ones pass without a word, wrong ones fail where they say.

A wrong line ends with `# error: CODE OF MYPY, RULE OF PYRIGHT`; nothing else in its file may be reported.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
# What the programs of tests/programs do is shown there; here they are checked.
# Beside them are the trials of client programs.
TRIALS = {"conftest", "trial", "test_clients", "test_programs"}
SHORT = [path for path in sorted((HERE.parent / "programs").glob("*.py")) if path.stem not in TRIALS]
RIGHT, WRONG = (sorted((HERE / folder).glob("*.py")) for folder in ("right", "wrong"))
BIN = Path(sys.executable).parent
_EXPECTED = re.compile(r"  # error: ([\w-]+), (\w+)$")
_MYPY = re.compile(r"(?m)^(.+?):(\d+): error: .*\[([\w-]+)\]$")
Found = dict[tuple[str, int], set[str]]


def found_by(command: list[str | Path], name: str, installed: Path | str | None) -> str:
    """Run a checker, and give what it prints; where it is not installed, the test is skipped."""
    if installed is None:
        pytest.skip(f"{name} is not installed: `make .venv/.check` installs it")
    environment = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": str(REPOSITORY / "src"),
        "VIRTUAL_ENV": str(BIN.parent),
    }
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False).stdout


def found_by_mypy(paths: Iterable[Path]) -> Found:
    output = found_by(
        [BIN / "mypy", "--strict", "--no-error-summary", "--hide-error-context", *paths],
        "mypy",
        shutil.which("mypy", path=BIN),
    )
    found: Found = defaultdict(set)
    for path, line, code in _MYPY.findall(output):
        found[Path(path).name, int(line)].add(code)
    return found


def basedpyright(*arguments: str | Path) -> dict[str, Any]:
    installed = shutil.which("basedpyright", path=BIN) or shutil.which("basedpyright")
    command = [str(installed), "--outputjson", *arguments]
    report: dict[str, Any] = json.loads(found_by(list(command), "basedpyright", installed))
    return report


def found_by_pyright(programs: list[Path], configuration: Path) -> Found:
    settings = {
        "typeCheckingMode": "strict",
        "include": [str(path) for path in programs],
        "extraPaths": [str(REPOSITORY / "src")],
        "pythonVersion": "3.11",
    }
    configuration.write_text(json.dumps(settings))
    report = basedpyright("--project", configuration, "--pythonpath", sys.executable)
    assert report["summary"]["filesAnalyzed"] >= len(programs)
    found: Found = defaultdict(set)
    for one in report["generalDiagnostics"]:
        found[Path(one["file"]).name, one["range"]["start"]["line"] + 1].add(one["rule"])
    return found


def expected(group: int) -> dict[tuple[str, int], str]:
    lines = {(path.name, at): line for path in WRONG for at, line in enumerate(path.read_text().splitlines(), 1)}
    return {place: wanted[group] for place, line in lines.items() if (wanted := _EXPECTED.search(line))}


def against(found: Found, group: int) -> list[str]:
    """Name each error that was expected and not found, and each that was found and not expected."""
    wanted = expected(group)
    missing = [
        f"{place}: no {code}, but {found.get(place)}"
        for place, code in wanted.items()
        if code not in found.get(place, ())
    ]
    return missing + [f"{place}: {sorted(codes)}" for place, codes in found.items() if place not in wanted]


def test_there_are_enough_programs_and_each_wrong_one_says_where() -> None:
    assert min(len(RIGHT) + len(SHORT), len(WRONG)) >= 25
    assert {name for name, _ in expected(1)} == {path.name for path in WRONG}
    assert [
        path.name for path in RIGHT + SHORT if "# type:" in path.read_text() or "pyright:" in path.read_text()
    ] == []


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_a_right_program_can_be_imported(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(f"program_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.slow
def test_right_programs_pass_mypy() -> None:
    assert found_by_mypy(RIGHT + SHORT) == {}


@pytest.mark.slow
def test_wrong_programs_fail_in_mypy_where_they_say() -> None:
    assert against(found_by_mypy(WRONG), 1) == []


@pytest.mark.slow
def test_right_programs_pass_pyright(tmp_path: Path) -> None:
    assert found_by_pyright(RIGHT + SHORT, tmp_path / "right.json") == {}


@pytest.mark.slow
def test_wrong_programs_fail_in_pyright_where_they_say(tmp_path: Path) -> None:
    assert against(found_by_pyright(WRONG, tmp_path / "wrong.json"), 2) == []


@pytest.mark.slow
def test_nearly_all_types_of_the_package_are_known() -> None:
    symbols = basedpyright("--ignoreexternal", "--verifytypes", "toolwire")["typeCompleteness"]
    assert symbols["completenessScore"] >= 0.97
    unknown = [
        one["name"]
        for one in symbols["symbols"]
        if one["isExported"] and one["name"].count(".") == 1 and (not one["isTypeKnown"] or one["isTypeAmbiguous"])
    ]
    assert unknown == [], "what `toolwire` offers is known to every checker"
