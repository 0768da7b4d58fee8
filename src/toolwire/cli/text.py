"""`toolwire text formats`, `toolwire text detect`, `toolwire text check`: calls in a model's own text.

Rule: what is found goes to standard output, one line each; `check` and `detect` end with 1 where something is wrong, or
where not exactly one format fits.
"""

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec


def add(commands: Any) -> None:
    """Add the commands of this file."""
    parser = commands.add_parser("text", help="formats of calls in a model's own text")
    inner = parser.add_subparsers(required=True, metavar="COMMAND")
    command = inner.add_parser("formats", help="list the formats, and where their rules were read")
    command.set_defaults(run=_formats)
    command = inner.add_parser("detect", help="say which format fits a model, a chat template, or a text")
    command.add_argument("--model", default=None, help="a model's name")
    command.add_argument("--template", default=None, help="a file: a chat template, or a tokenizer_config.json")
    command.add_argument("--tools", default=None, help="a JSON file of the tools that were offered with a text")
    command.add_argument("file", nargs="?", default="-", help="a text of the model; standard input where none is given")
    command.set_defaults(run=_detect)
    command = inner.add_parser("check", help="judge the reading of a format by the published cases")
    command.add_argument("--format", dest="name", required=True, help="a format's name, a TOML file of one, or `all`")
    command.add_argument("--cases", default=None, help="the format whose cases are read, where FORMAT is a file")
    command.set_defaults(run=_check)


def _formats(_options: argparse.Namespace) -> int:
    from toolwire.text.rows import rows  # noqa: PLC0415 - other commands need no formats

    for row in rows().values():
        also = f" ({', '.join(row.aliases)})" if row.aliases else ""
        print(f"{row.name}{also}  {row.shape}  {row.source}, {row.as_of}")
    return 0


def _detect(options: argparse.Namespace) -> int:
    from toolwire.text import detect  # noqa: PLC0415

    tools = None if options.tools is None else msgspec.json.decode(Path(options.tools).read_bytes())
    if options.model is not None:
        guess = detect(model=options.model)
    elif options.template is not None:
        guess = detect(template=Path(options.template).read_text("utf-8"))
    else:
        text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text("utf-8")
        guess = detect(text, tools=tools)
    for name in guess.names:
        print(name)
    return 0 if guess.format is not None else 1


def _check(options: argparse.Namespace) -> int:
    from toolwire.text import checking, names  # noqa: PLC0415

    given: Any = options.name
    if given.endswith(".toml"):
        given = tomllib.loads(Path(given).read_text("utf-8"))
    wrong = total = 0
    for each in names() if given == "all" else [given]:
        cases = checking.cases_of(options.cases or each)
        found = list(checking.check(options.cases or each, checking.ours(each)))
        for difference in found:
            print(difference)
        wrong, total = wrong + len({difference.case.text for difference in found}), total + len(cases)
    print(f"{total} cases, {wrong} read otherwise", file=sys.stderr)
    return 1 if wrong or not total else 0
