"""Print the rooms of the package, the rows of their layers, and the lines of each, code and words apart.

`make rooms` prints today's; `make rooms ARGS="--at REVISION"` those of an earlier commit.
"""

import argparse
import ast
import io
import re
import signal
import subprocess
import tarfile
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = "src/toolwire/"
FILE_LINES, FUNCTION_LINES = 450, 40
# A stream decoder and encoder are called the same in every dialect, so that who knows one knows all.
ALIKE = {"Decoder", "Encoder"}
SKIPPED = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


class Lines(NamedTuple):
    """How many lines of a kind there are."""

    files: int = 0
    all: int = 0
    code: int = 0
    words: int = 0

    def plus(self, other: "Lines") -> "Lines":
        """Add two counts."""
        return Lines(*(one + two for one, two in zip(self, other, strict=True)))


def files_now() -> dict[str, str]:
    """Read the package as it lies here, and the settings of the project."""
    paths = [REPOSITORY / "pyproject.toml", *(REPOSITORY / PACKAGE).rglob("*.py")]
    return {path.relative_to(REPOSITORY).as_posix(): path.read_text("utf-8") for path in sorted(paths)}


def files_at(revision: str) -> dict[str, str]:
    """Read the same of a commit."""
    command = ["git", "archive", revision, "pyproject.toml", PACKAGE]
    packed = subprocess.check_output(command, cwd=REPOSITORY)  # noqa: S603 - it is ours
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        members = [each for each in archive if each.name == "pyproject.toml" or each.name.endswith(".py")]
        return {each.name: _text(archive, each) for each in members}


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = archive.extractfile(member)
    return file.read().decode() if file else ""


def lines_of(text: str) -> Lines:
    """Count lines: words are docstrings and comments, code is every other line that is not blank."""
    words, code = _docstrings(text), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            words.add(token.start[0])
        elif token.type not in SKIPPED:
            code.update(range(token.start[0], token.end[0] + 1))
    words -= code - _docstrings(text)
    return Lines(1, text.count("\n"), len(code - words), len(words))


def _docstrings(text: str) -> set[int]:
    held = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, held) and ast.get_docstring(node)]
    return {line for node in found for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}


def rows_of(project: str) -> list[list[str]]:
    """Read the rows of the layer table of a `pyproject.toml`, from top to bottom, each with its rooms."""
    contracts = tomllib.loads(project)["tool"]["importlinter"]["contracts"]
    rows = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    return [[room.strip() for room in row.split("|")] for row in rows]


def sources(files: dict[str, str]) -> dict[str, str]:
    """Give the modules of the package, by their path within it."""
    return {name.removeprefix(PACKAGE): text for name, text in files.items() if name.startswith(PACKAGE)}


def folders_of(modules: dict[str, str]) -> set[str]:
    """Give every folder of the package, at any depth."""
    return {str(above) for name in modules for above in Path(name).parents} - {"."}


def shared_class_names(modules: dict[str, str]) -> dict[str, list[str]]:
    """Find the public names of classes that stand in more than one file."""
    homes = defaultdict[str, list[str]](list)
    for path, text in modules.items():
        for name in re.findall(r"(?m)^class ([^_\W]\w*)", text):
            homes[name].append(path)
    return {name: paths for name, paths in homes.items() if len(paths) > 1 and name not in ALIKE}


def long_ones(modules: dict[str, str]) -> Iterator[str]:
    """Name files and functions that are long: a place to look, and no more."""
    for path, text in modules.items():
        if (lines := text.count("\n")) > FILE_LINES:
            yield f"{path} has {lines} lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
                if lines > FUNCTION_LINES:
                    yield f"{path}:{node.lineno} {node.name} has {lines} lines"


def report(files: dict[str, str]) -> Iterator[str]:
    """Write all of it."""
    modules, rows = sources(files), rows_of(files["pyproject.toml"])
    root = [name for name in modules if "/" not in name]
    yield f"{len(root)} files and {len({n.split('/')[0] for n in modules if '/' in n})} folders in the root"
    yield f"{len(folders_of(modules))} folders in all, {len(rows)} rows of layers"
    yield from (f"  {number:2} {' | '.join(row)}" for number, row in enumerate(rows, start=1))
    counts = defaultdict[str, Lines](Lines)
    for name, text in modules.items():
        room = name.split("/")[0] if "/" in name else "(root)"
        counts[room] = counts[room].plus(lines_of(text))
    yield f"\n{'room':16}{'files':>7}{'lines':>8}{'code':>8}{'words':>8}"
    for room, count in sorted(counts.items(), key=lambda item: -item[1].all):
        yield _row(room, count)
    yield _row("all", Lines(*map(sum, zip(*counts.values(), strict=True))))
    shared = shared_class_names(modules)
    yield f"\n{len(shared)} public class names stand in more than one file (Decoder and Encoder apart)"
    yield from (f"  {name}: {', '.join(paths)}" for name, paths in sorted(shared.items()))
    yield f"\nLong files (over {FILE_LINES} lines) and functions (over {FUNCTION_LINES}), to look at:"
    yield from (f"  {line}" for line in long_ones(modules))
    sizes = Counter("<60" if text.count("\n") < 60 else "60-450" for text in modules.values())
    yield f"  {sizes['<60']} files of {len(modules)} have fewer than 60 lines"


def _row(room: str, count: Lines) -> str:
    return f"{room:16}{count.files:>7}{count.all:>8}{count.code:>8}{count.words:>8}"


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends without a word where its reader does, as `head` does
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--at", metavar="REVISION", help="an earlier commit instead of what lies here")
    at = options.parse_args().at
    print("\n".join(report(files_at(at) if at else files_now())))
