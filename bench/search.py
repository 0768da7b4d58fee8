"""Measure what grep costs on a tree of 10,000 files, beside ripgrep alone doing the same search.

A round runs ripgrep alone and the tool one after the other; the ratio quoted is the median over rounds. Alone
means its plain output with line numbers, read to its end. The search without ripgrep is shown beside.
"""

import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolwire import CodeTools, ToolCall
from toolwire.codetools import ripgrep

FILES = 10_000
ROUNDS = 15
TARGET = 1.3
WORDS = (
    *(
        "def",
        "return",
        "import",
        "self",
        "value",
        "class",
        "name",
        "list",
        "of",
        "the",
        "path",
        "open",
        "file",
    ),
    *("data", "while", "for", "in", "if", "else", "print", "user", "count"),
)
PATTERNS = {
    "in 50 files": "needle_here",
    "in no file": "nothing_has_this",
    "in every file": "class",
    "a regular expression": r"\bself\s+\w+\s+value\b",
}


def plant(root: Path) -> None:
    """Make a tree of files that look like code."""
    dice = random.Random(7)  # noqa: S311 - words, not secrets
    for number in range(FILES):
        folder = root / f"p{number % 25}" / f"m{number // 25 % 20}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [" ".join(dice.choices(WORDS, k=dice.randrange(3, 10))) for _ in range(dice.randrange(20, 160))]
        lines += ["the needle_here is found"] if number % 200 == 0 else []
        (folder / f"f{number}.py").write_text("\n".join(lines) + "\n")


def milliseconds(work: Callable[[], Any]) -> float:
    """Give what it costs once."""
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1e3


def called(tools: CodeTools, name: str, **arguments: Any) -> Callable[[], Any]:
    """Give the call of a tool, which has to succeed."""

    def call() -> None:
        result = tools.resolve(ToolCall("1", name, arguments))
        assert not result.is_error, result.content

    return call


def report() -> None:
    """Print the costs and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        plant(Path(folder))
        tools, without = CodeTools(folder), CodeTools(folder, ripgrep=False)
        rg = ripgrep.find_program(None, tools.workspace.roots)
        print(f"\ngrep on a tree of {FILES:,} files; target at most {TARGET} x of ripgrep alone")
        for kind, pattern in PATTERNS.items():
            line = f"  {kind:<22} without ripgrep {_median(called(without, 'grep', pattern=pattern)):7.1f} ms"
            print(line if rg is None else f"{line}   {_compared(rg, folder, tools, pattern)}")
        if rg is None:
            print("  ripgrep is not here: nothing to compare with")
        for name, arguments in {"glob": {"pattern": "**/f1*.py"}, "tree": {}, "list_directory": {}}.items():
            print(f"  {name:<22} {_median(called(tools, name, **arguments)):7.1f} ms")


def _median(work: Callable[[], Any]) -> float:
    work()
    return statistics.median(milliseconds(work) for _ in range(5))


def _compared(rg: str, folder: str, tools: CodeTools, pattern: str) -> str:
    command = [rg, "--no-config", "--line-number", "-e", pattern, "--", "."]
    alone = lambda: subprocess.run(command, cwd=folder, capture_output=True, check=False)  # noqa: E731 - one of two
    ours = called(tools, "grep", pattern=pattern)
    alone(), ours()
    pairs = [(milliseconds(alone), milliseconds(ours)) for _ in range(ROUNDS)]
    floor, cost = (statistics.median(values) for values in zip(*pairs, strict=True))
    ratio = statistics.median(own / other for other, own in pairs)
    return f"ripgrep alone {floor:7.1f} ms   grep {cost:7.1f} ms   ratio {ratio:.2f}"


if __name__ == "__main__":
    report()
