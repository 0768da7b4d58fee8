"""`toolwire text formats`, `toolwire text detect`, `toolwire text check`: tool calls in a model's text.

Rule: results go to standard output, one a line. `check` exits with 1 if a case is parsed wrongly, `detect` if not
exactly one format fits. Unreadable input exits with 2.
"""

import argparse
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from toolwire.cli.commands import SUMMARIES
from toolwire.cli.screen import is_terminal
from toolwire.errors import UserError


def add(commands: Any) -> None:
    """Add the command `text` with its subcommands."""
    parser = commands.add_parser("text", help=SUMMARIES["text"])
    inner = parser.add_subparsers(required=True, metavar="COMMAND")
    command = inner.add_parser("formats", help="list the formats and their sources")
    command.set_defaults(run=_formats)
    command = inner.add_parser("detect", help="find the format of a model, a chat template, or a text")
    source = command.add_mutually_exclusive_group()
    source.add_argument("--model", help="a model's name")
    source.add_argument("--template", help="a file: a chat template, or a tokenizer_config.json")
    command.add_argument("--tools", help="a JSON file of the tools that were offered with a text")
    source.add_argument("file", nargs="?", default="-", help="a text of the model (default: standard input)")
    command.set_defaults(run=_detect)
    command = inner.add_parser("check", help="test a format against the published cases")
    command.add_argument("--format", dest="name", required=True, help="a format's name, a TOML file of one, or `all`")
    command.add_argument("--cases", help="the format whose cases are used, if FORMAT is a file")
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
        message = f"{len(guess.names)} formats fit equally well" if guess else "no format fits"
        print(f"toolwire: {message}", file=sys.stderr)
    return 0 if guess.format is not None else 1


def _check(options: argparse.Namespace) -> int:
    from toolwire import text  # noqa: PLC0415
    from toolwire.text import checking  # noqa: PLC0415

    format_name: Any = options.name
    if format_name.endswith(".toml"):
        format_name = _parsed(format_name, tomllib.loads)
    wrong = total = 0
    for each in text.names() if format_name == "all" else [format_name]:
        name, cases = text.format(each).name, checking.cases_of(options.cases or each)
        if not cases:
            raise UserError(
                f"there are no cases of {name!r}: pass --cases with the format whose cases it should parse",
                path="--cases",
            )
        differences = list(checking.check(options.cases or each, checking.own_parser(each)))
        for difference in differences:
            print(f"{name}: {difference}, in {difference.case.text!r}")
        wrong, total = wrong + len({difference.case.text for difference in differences}), total + len(cases)
    print(f"{total} cases, {wrong} parsed differently", file=sys.stderr)
    return 1 if wrong else 0


def _parsed(file: str, parse: Callable[[str], Any]) -> Any:
    text = _read(file)
    try:
        return parse(text)
    except (ValueError, RecursionError) as problem:
        raise UserError(f"cannot be read: {problem}", path=file) from None


def _read(file: str) -> str:
    """Return the text of a file, or of standard input for `-`."""
    path = "standard input" if file == "-" else file
    try:
        return (_read_standard_input() if file == "-" else Path(file).read_bytes()).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UserError(f"is not UTF-8: {problem.reason} at byte {problem.start}", path=path) from None


def _read_standard_input() -> bytes:
    if is_terminal(sys.stdin):
        print("toolwire: paste a model's text, and end it with Ctrl-D on a line of its own", file=sys.stderr)
    return sys.stdin.buffer.read()
