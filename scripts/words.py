"""Count the words that a reader has to read twice, by kind, and print the ten files of src and docs that have most.

`make lint` prints this report and never fails because of it. The script itself exits with 1 if a file has more than 25
findings, and with 0 otherwise. `python scripts/words.py PATH ...` prints each finding of these files and folders.

It reads docstrings, comments and the names of variables and parameters in Python, and the prose of Markdown pages. A
finding is a place to look. Not every finding is wrong, and a sentence without findings can still be unclear.
"""

import argparse
import ast
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
READ = ("src", "docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
# Records keep the words of their day, and `make docs` copies this page from docstrings.
SKIPPED = ("docs/decisions/", "docs/public-names.md", "docs/names/")
LIMIT, WORST = 25, 10

VERBS = "Give Say Tell Hear Have Lead Mind Let Bring Take Hold Stand"
SUBJECTS = "What Who Whom Whose Whoever Whatever Whichever One|that One|who Those|that Those|who All|that Nothing|that"
PHRASES = (
    "tell tells told telling say says said saying hear hears heard lead leads led "
    "go|on goes|on going|on went|on gone|on hand|on hands|on handed|on let|go|of lets|go|of letting|go|of "
    "stand|for stands|for stand|in stands|in stand|at stands|at stand|on stands|on stand|beside stands|beside "
    "begin|anew begins|anew begun|anew is|away are|away otherwise|than is|none are|none is|minded kept|apart"
)
NAMES = frozenset("said given told heard found place kind made left rest whole own mine".split())
PUBLIC_PARAMETERS = frozenset({"given"})  # `read(text, given=...)` of the text formats


def _any(words: str) -> str:
    return "(?:" + "|".join(word.replace("|", r"\s+") for word in words.split()) + r")\b"


class Rule(NamedTuple):
    """A kind of finding in prose: the pattern that finds it, and what to write instead."""

    kind: str
    instead: str
    pattern: re.Pattern[str]
    only_docstrings: bool = False


RULES = (
    Rule("verb", "begin a docstring with Return, Raise, Yield, Parse ...", re.compile(r"\A" + _any(VERBS)), True),
    Rule(
        "subject",
        "begin a sentence with the noun: the gateway, the client, the decoder",
        re.compile(r"(?:\A|[.:;!]\s+|\n\s*[-*]\s+)(" + _any(SUBJECTS) + r")(?![^.:;!?]*\?)"),
    ),
    Rule("phrase", "write the verb of the field: report, run, continue, release", re.compile(r"\b" + _any(PHRASES))),
)
NAME_RULE = ("name", "name a variable for what it holds: request, text, index, unparsed")


class Finding(NamedTuple):
    """One place to look at."""

    line: int
    kind: str
    words: str


def find_in_prose(text: str, line: int, *, docstring: bool = False) -> Iterator[Finding]:
    """Yield the findings of `text`, which starts at `line`. Code in backticks is not read."""
    prose = re.sub(r"`[^`\n]*`", lambda code: "_" * len(code.group()), text)
    for rule in RULES:
        if docstring or not rule.only_docstrings:
            for match in rule.pattern.finditer(prose):
                yield Finding(line + prose.count("\n", 0, match.end()), rule.kind, match.group(match.lastindex or 0))


def find_in_page(text: str) -> Iterator[Finding]:
    """Yield the findings of a Markdown page, outside of its code blocks."""
    return find_in_prose(re.sub(r"(?s)```.*?```", lambda block: "\n" * block.group().count("\n"), text), 1)


def find_in_module(text: str) -> Iterator[Finding]:
    """Yield the findings of a Python module: its docstrings, comments and names."""
    tree = ast.parse(text)
    yield from _find_in_docstrings(tree)
    yield from _find_in_names(tree, is_short=False)
    for number, line in enumerate(text.splitlines(), start=1):
        if comment := re.search(r"(?:^\s*|  )# (.*)", line):
            yield from find_in_prose(comment.group(1), number)


def _find_in_docstrings(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield from find_in_prose(docstring, node.body[0].lineno, docstring=True)


def _find_in_names(node: ast.AST, *, is_short: bool) -> Iterator[Finding]:
    """Yield variables and parameters. A function of two lines may use any name; fields of a class are not read."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.arg(arg=name, lineno=line) if name in NAMES - PUBLIC_PARAMETERS and not is_short:
                yield Finding(line, "name", name)
            case ast.Name(id=name, ctx=ast.Store(), lineno=line) if name in NAMES and not is_short:
                yield Finding(line, "name", name)
            case ast.AnnAssign() if isinstance(node, ast.ClassDef):
                continue
        within = _is_short(child) if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else is_short
        yield from _find_in_names(child, is_short=within)


def _is_short(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return not body or (body[-1].end_lineno or 0) - body[0].lineno < 2


def find_all(paths: list[Path]) -> dict[Path, list[Finding]]:
    """Return the findings of every Python file and Markdown page in `paths`, by file."""
    folders = [sorted(path.rglob("*")) if path.is_dir() else [path] for path in paths]
    findings: dict[Path, list[Finding]] = {}
    for path in (path for folder in folders for path in folder if path.suffix in {".py", ".md"}):
        find = find_in_module if path.suffix == ".py" else find_in_page
        if not path.resolve().as_posix().removeprefix(f"{REPOSITORY.as_posix()}/").startswith(SKIPPED):
            findings[path] = sorted(find(path.read_text("utf-8")))
    return findings


def report(findings: dict[Path, list[Finding]]) -> Iterator[str]:
    """Write the counts by kind, and the files with most findings."""
    counts = Counter(finding.kind for each in findings.values() for finding in each)
    yield f"{sum(counts.values())} words to look at in {len(findings)} files"
    for kind, instead in (*(rule[:2] for rule in RULES), NAME_RULE):
        yield f"{counts[kind]:6} {kind:8} {instead}"
    for path, each in sorted(findings.items(), key=lambda item: -len(item[1]))[:WORST]:
        kinds = Counter(finding.kind for finding in each)
        yield f"{len(each):6} {path}  {', '.join(f'{kind} {kinds[kind]}' for kind in sorted(kinds))}"


def main(arguments: list[str] | None = None) -> int:
    """Print the report, or each finding of the paths in `arguments`. Return 1 if a file is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="print each finding of these")
    paths = parser.parse_args(arguments).paths
    findings = find_all(paths or [REPOSITORY / name for name in READ])
    findings = {_shown(path): each for path, each in findings.items()}
    if paths:
        print("\n".join(f"{path}:{f.line}: {f.kind}: {f.words}" for path, each in findings.items() for f in each))
    print("\n".join(report(findings)))
    return int(any(len(each) > LIMIT for each in findings.values()))


def _shown(path: Path) -> Path:
    return path.relative_to(REPOSITORY) if path.is_relative_to(REPOSITORY) else path


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `words.py ... | head` ends without an error
    sys.exit(main())
