"""`toolwire usage`: what was requested and what it cost, by key, model, team, user, provider, wire or day.

Rule: the numbers come from the gateway's database. A gateway writes a request there within a second of its answer.
"""

import argparse
import contextlib
import csv
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from toolwire.cli.commands import SUMMARIES
from toolwire.cli.parsing import require_extra
from toolwire.cli.screen import count_columns
from toolwire.waiting.results import safe


def add(commands: Any) -> None:
    """Add the command `usage`."""
    command = commands.add_parser("usage", help=SUMMARIES["usage"])
    command.add_argument("--config", metavar="FILE", required=True, help="the gateway's file of settings")
    command.add_argument(
        "--by",
        metavar="A,B",
        default="key,model",
        help="key, model, team, user, provider, wire, day (default: key,model)",
    )
    times = "7d, 12h, 2026-11, 2026-11-27 or 2026-11-27T12:00, in UTC"
    command.add_argument("--since", metavar="TIME", default="", help=f"the beginning: {times}")
    command.add_argument("--until", metavar="TIME", default="", help="the end; a day or a month is included")
    for name in ("key", "team", "user", "provider", "model", "wire"):
        text = "only this key, by name or id" if name == "key" else f"only this {name}"
        command.add_argument(f"--{name}", metavar=name.upper(), action="append", help=f"{text}; may be repeated")
    forms = command.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print a list of JSON objects")
    forms.add_argument("--csv", action="store_true", help="print CSV")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the usage of a gateway."""
    with require_extra("serve", "to read usage"):
        from toolwire.gateway import starting  # noqa: PLC0415 - an extra
        from toolwire.gateway.usage_queries import (  # noqa: PLC0415 - likewise
            FILTERS,
            SUMS,
            check_rows_remain,
            query_of,
        )
    from toolwire.config import seconds_of  # noqa: PLC0415 - of this command alone

    now = time.time()
    chosen = {name: getattr(options, name) or [] for name in FILTERS}
    query = query_of(options.by, options.since, options.until, chosen, now)
    settings = starting.settings_from(options.config)
    check_rows_remain(query, now - seconds_of(settings.usage.keep), settings.usage.keep)
    with contextlib.closing(starting.usage_tables_of(settings, options.config)) as tables:
        rows = tables.sums(query)
    if options.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif options.csv:
        written = csv.DictWriter(sys.stdout, [*query.by, *SUMS], lineterminator="\n")
        written.writeheader()
        written.writerows({**row, "cost": f"{row['cost']:.9f}"} for row in rows)
    else:
        _print_table(rows, query.by, SUMS)
    return 0


def _print_table(rows: Sequence[dict[str, Any]], by: Sequence[str], sums: Sequence[str]) -> None:
    """Print a table for people, with the totals in its last line."""
    totals = {name: sum(row[name] for row in rows) for name in sums}
    lines = [[*by, *(name.replace("_", " ") for name in sums)]]
    lines += [[safe(row[name]) or "-" for name in by] + [_number(name, row[name]) for name in sums] for row in rows]
    lines.append(["total", *[""] * (len(by) - 1), *(_number(name, totals[name]) for name in sums)])
    widths = [max(count_columns(line[index]) for line in lines) for index in range(len(lines[0]))]
    for line in lines:
        padded = [
            f"{text}{_blanks(text, width)}" if index < len(by) else f"{_blanks(text, width)}{text}"
            for index, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(padded).rstrip())


def _blanks(text: str, width: int) -> str:
    return " " * (width - count_columns(text))


def _number(name: str, number: float) -> str:
    return f"${number:,.6f}" if name == "cost" else f"{number:,}"
