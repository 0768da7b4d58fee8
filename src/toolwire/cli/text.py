"""`toolwire text formats`, `toolwire text detect`, `toolwire text check`: calls in a model's own text.

Rule: what is found goes to standard output, one line each; `check` and `detect` end with 1 where something is wrong, or
where not exactly one format fits. What cannot be read ends with 2.
"""

import argparse
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from toolwire.cli.screen import is_terminal
from toolwire.errors import UserError


def add(commands: Any) -> None:
    """Add the commands of this file."""
    parser = commands.add_parser("text", help="formats of calls in a model's own text")
    inner = parser.add_subparsers(required=True, metavar="COMMAND")
    command = inner.add_parser("formats", help="list the formats, and where their rules were read")
    command.set_defaults(run=_formats)
    command = inner.add_parser("detect", help="say which format fits a model, a chat template, or a text")
    given = command.add_mutually_exclusive_group()
    given.add_argument("--model", help="a model's name")
    given.add_argument("--template", help="a file: a chat template, or a tokenizer_config.json")
    command.add_argument("--tools", help="a JSON file of the tools that were offered with a text")
    given.add_argument("file", nargs="?", default="-", help="a text of the model; standard input where none is given")
    command.set_defaults(run=_detect)
    command = inner.add_parser("check", help="judge the reading of a format by the published cases")
    command.add_argument("--format", dest="name", required=True, help="a format's name, a TOML file of one, or `all`")
    command.add_argument("--cases", help="the format whose cases are read, where FORMAT is a file")
    command.set_defaults(run=_check)


def _formats(_options: argparse.Namespace) -> int:
    from toolwire.text.rows import rows  # noqa: PLC0415 - other commands need no formats

    for row in rows().values():
        also = f" ({', '.join(row.aliases)})" if row.aliases else ""
        print(f"{row.name}{also}  {row.shape}  {row.source}, {row.as_of}")
    return 0


def _detect(options: argparse.Namespace) -> int:
    from toolwire.text import detect  # noqa: PLC0415

    tools = None if options.tools is None else _parsed(options.tools, msgspec.json.decode)
    if options.model is not None:
        guess = detect(model=options.model)
    elif options.template is not None:
        guess = detect(template=_read(options.template))
    else:
        guess = detect(_read(options.file), tools=tools)
    for name in guess.names:
        print(name)
    if guess.format is None:
        found = f"{len(guess.names)} formats fit equally well" if guess else "no format fits"
        print(f"toolwire: {found}", file=sys.stderr)
    return 0 if guess.format is not None else 1


def _check(options: argparse.Namespace) -> int:
    from toolwire import text  # noqa: PLC0415
    from toolwire.text import checking  # noqa: PLC0415

    given: Any = options.name
    if given.endswith(".toml"):
        given = _parsed(given, tomllib.loads)
    wrong = total = 0
    for each in text.names() if given == "all" else [given]:
        name, cases = text.format(each).name, checking.cases_of(options.cases or each)
        if not cases:
            raise UserError(f"there are no cases of {name!r}: name a format whose cases it should read", path="--cases")
        found = list(checking.check(options.cases or each, checking.own_parser(each)))
        for difference in found:
            print(f"{name}: {difference}, in {difference.case.text!r}")
        wrong, total = wrong + len({difference.case.text for difference in found}), total + len(cases)
    print(f"{total} cases, {wrong} read otherwise", file=sys.stderr)
    return 1 if wrong else 0


def _parsed(file: str, parse: Callable[[str], Any]) -> Any:
    text = _read(file)
    try:
        return parse(text)
    except (ValueError, RecursionError) as problem:
        raise UserError(f"cannot be read: {problem}", path=file) from None


def _read(file: str) -> str:
    """Read a file, or standard input where it is `-`."""
    path = "standard input" if file == "-" else file
    try:
        return (_given() if file == "-" else Path(file).read_bytes()).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UserError(f"is not UTF-8: {problem.reason} at byte {problem.start}", path=path) from None


def _given() -> bytes:
    if is_terminal(sys.stdin):
        print("toolwire: paste a model's text, and end it with Ctrl-D on a line of its own", file=sys.stderr)
    return sys.stdin.buffer.read()
