"""Plant bugs one at a time in a copy of the repository, and say which of them the fast tests notice.

`make planted` plants all of `planted.toml`; `make planted ARGS="-k approval"` those with this word in their names.
The tests of a bug's area run first, and the whole fast suite only where they notice nothing.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
TABLE = REPOSITORY / "scripts" / "planted.toml"
PACKAGE = Path("src", "toolwire")
LEFT_OUT = (".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "dist")
PYTEST = ("-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "--timeout", "60")
# Tests that read the text of the code would notice what does no harm.
TEXTUAL = ("--ignore=tests/test_architecture.py", "--ignore=tests/test_planted.py")
ALL_TESTS = ("--maxfail=20", "-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder", *TEXTUAL)


class Bug(NamedTuple):
    """A text of a file of the package, and what stands there instead where the bug is planted."""

    name: str
    file: str
    text: str
    bug: str
    tests: tuple[str, ...]

    def planted_in(self, source: str) -> str:
        """Give the source of the file with the bug."""
        count = source.count(self.text)
        if count != 1:
            raise ValueError(f"{self.name}: its text stands {count} times in {self.file}, not once: {self.text}")
        return source.replace(self.text, self.bug)


def bugs() -> list[Bug]:
    """Read the table."""
    rows = tomllib.loads(TABLE.read_text())
    return [Bug(name, row["file"], row["text"], row["bug"], tuple(row["tests"].split())) for name, row in rows.items()]


class Copy:
    """A copy of the repository, in which tests run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.copytree(REPOSITORY, folder, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        self._environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def noticed(self, bug: Bug) -> tuple[str, ...]:
        """Plant a bug, and give the tests that fail because of it: of its area, else of the whole fast suite."""
        file = self._folder / PACKAGE / bug.file
        source = file.read_text()
        _write(file, bug.planted_in(source))
        failing = self._failing(bug, bug.tests) or self._failing(bug, ALL_TESTS)
        _write(file, source)
        without = self._failing(bug, failing) if failing else ()
        return tuple(test for test in failing if test not in without)

    def _failing(self, bug: Bug, arguments: tuple[str, ...]) -> tuple[str, ...]:
        done = subprocess.run(  # noqa: S603 - the command is our own
            [sys.executable, *PYTEST, *arguments],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = done.stdout.splitlines()
        failed = [line.split(" ", 1)[1] for line in lines if line.startswith(("FAILED ", "ERROR "))]
        failing = tuple(line.partition(" - ")[0] for line in failed)
        if done.returncode and not failing:
            raise RuntimeError(f"{bug.name}: the tests could not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return failing


def _write(file: Path, source: str) -> None:
    """Write a source, and drop what Python compiled of the one before: it may look as old as the new one."""
    file.write_text(source)
    shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)


def main() -> int:
    """Plant the bugs that are meant, and count those that were noticed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-k", metavar="WORD", default="", help="only the bugs with this word in their names")
    word = parser.parse_args().k
    chosen = [bug for bug in bugs() if word in bug.name]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="toolwire-planted-") as folder:
        copy = Copy(Path(folder, "toolwire"))
        for bug in chosen:
            begun = time.monotonic()
            tests = copy.noticed(bug)
            missed += not tests
            print(f"{'caught    ' if tests else 'NOT CAUGHT'} {time.monotonic() - begun:4.0f} s  {bug.name}")
            print(f"                    {tests[0] if tests else bug.file}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} planted bugs are caught")
    return min(missed, 1) if chosen else 2


if __name__ == "__main__":
    sys.exit(main())
