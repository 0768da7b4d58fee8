"""`toolwire traces`: read the record of tool calls, and verify that it is unchanged.

Rules of this file:
- Only `import` writes, into an empty store. A missing store is not created by the other commands.
- Control characters of a model or a tool are escaped before a line is printed; `--json` prints whole rows.
- `verify` exits with 1 if anything was changed; otherwise it prints the anchor that proves all rows.
"""

import argparse
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from toolwire import traces
from toolwire.cli.commands import SUMMARIES
from toolwire.cli.parsing import duration
from toolwire.cli.state_paths import TRACES, default_store
from toolwire.errors import InvalidField, UserError
from toolwire.waiting.results import safe

KEY = "TOOLWIRE_TRACES_KEY"
_SHOWN = 60
_POSITION = re.compile(r"[0-9]{1,18}")
_FILTERS = {
    "tenant": "of this tenant",
    "conversation": "of this conversation",
    "tool": "of this tool",
    "ending": f"with this ending: {', '.join(traces.ENDINGS)}",
}


def add(commands: Any) -> None:
    """Add the command `traces` with its subcommands."""
    command = commands.add_parser("traces", help=SUMMARIES["traces"])
    actions = command.add_subparsers(required=True, metavar="WHAT")
    for name, (run, help_text, filtered) in _COMMANDS.items():
        action = actions.add_parser(name, help=help_text)
        action.add_argument("--url", help=f"the store (default: ${TRACES}, else yours: `run --traces`)")
        action.add_argument("--namespace", help="the schema, or the beginning of the table's name")
        if filtered:
            _add_filters(action)
        for flag, settings in _ARGUMENTS.get(name, {}).items():
            action.add_argument(flag, **settings)
        action.set_defaults(run=run)


def _add_filters(command: argparse.ArgumentParser) -> None:
    for name, words in _FILTERS.items():
        command.add_argument(f"--{name}", help=words)
    command.add_argument(
        "--type", "--result-type", dest="type", choices=["ok", "error"], help="with this kind of result"
    )
    for name, words in (("since", "from then on"), ("until", "before then")):
        command.add_argument(
            f"--{name}", type=instant, help=f"{words}: 2026-11-21T12:00, or 90m, 2h, 7d for a time ago"
        )


def instant(text: str) -> datetime:
    """Return the time of `text`, which is a time or how long ago it was; without a zone it is UTC."""
    try:
        if (ago := duration(text)) is not None:
            return datetime.now(UTC) - timedelta(seconds=ago)
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: pass 2026-11-21T12:00, or 90m, 2h, 7d for a time ago"
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _filters(options: argparse.Namespace) -> Any:
    values = {name: getattr(options, name) for name in (*_FILTERS, "since", "until")}
    return {name: value for name, value in (values | {"result_type": options.type}).items() if value is not None}


def _open(options: argparse.Namespace, *, create: bool = False) -> Any:
    url = options.url or default_store(make=create)
    return traces.open(url, namespace=options.namespace, key=os.environ.get(KEY) or None, create=create)


def _list_(options: argparse.Namespace) -> int:
    with _open(options) as store:
        page = store.traces(after=options.after, limit=options.limit, newest=options.newest, **_filters(options))
        for one in page.rows:
            print(_json(one) if options.json else _line(one))
        if page.next is not None and not options.json:
            print(f"[there are more: --after {page.next}]")
    return 0


def _line(trace: traces.Trace) -> str:
    arguments = " ".join(f"{name}={value!r}" for name, value in trace.arguments.items())
    columns = (
        f"{trace.position:>7}",
        f"{trace.started_at:%Y-%m-%d %H:%M:%S}",
        f"{trace.tenant_id or '-'}/{trace.conversation_id or '-'}",
        f"{trace.ending or trace.result_type:<12}",
        f"{trace.duration_ms:>9.1f} ms",
        trace.tool_name,
        arguments if len(arguments) <= _SHOWN else f"{arguments[:_SHOWN]}...",
    )
    return "  ".join(" ".join(safe(column).split("\n")) if column.strip() else column for column in columns)


def _json(one: Any) -> str:
    import msgspec  # noqa: PLC0415 - where rows are given whole

    return msgspec.json.encode(one).decode()


def show(options: argparse.Namespace) -> int:
    """Print all fields of one call."""
    with _open(options) as store:
        trace = store.get(options.id)
        if trace is None and _POSITION.fullmatch(options.id):
            rows = store.traces(after=max(0, int(options.id) - 1), limit=1).rows
            trace = next((row for row in rows if row.position == int(options.id)), None)
    if trace is None:
        raise InvalidField("id", f"belongs to no trace: {options.id!r}", path="traces")
    if options.json:
        print(_json(trace))
        return 0
    for name in trace.__struct_fields__:
        value = getattr(trace, name)
        if value not in (None, (), ""):
            words = str(value) if isinstance(value, str | float | int | datetime) else _json(value)
            print(f"{name:16}  {safe(words)}")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Print whether every row is unchanged. Return 1 if one is not."""
    anchor = options.anchor
    if anchor is not None and ":" not in anchor:
        if not Path(anchor).is_file():
            raise UserError(
                f"{anchor!r} is neither an anchor, such as 12:4f5e, nor a file that holds one", path="--anchor"
            )
        anchor = Path(anchor).read_text(encoding="utf-8").strip()
    with _open(options) as store:
        report = store.verify(anchor)
    for problem in report.problems:
        print(safe(str(problem)))
    if report.count:
        print(f"{report.rows} rows, {report.count} problems: the record was changed", file=sys.stderr)
        return 1
    print(f"{report.rows} rows, nothing was changed")
    if report.anchor is not None:
        print(f"anchor  {report.anchor}")
    return 0


def export(options: argparse.Namespace) -> int:
    """Write rows as lines of JSON."""
    with _open(options) as store:
        if options.file is None:
            traces.export(store, sys.stdout, **_filters(options))
            return 0
        with Path(options.file).open("x", encoding="utf-8") as file:
            number = traces.export(store, file, **_filters(options))
    print(f"{number} rows", file=sys.stderr)
    return 0


def import_(options: argparse.Namespace) -> int:
    """Import an exported chain into an empty store."""
    with Path(options.file).open("rb") as file, _open(options, create=True) as store:
        report = traces.import_(store, file, options.anchor)
    print(f"{report.rows} rows", file=sys.stderr)
    return 0


def stats(options: argparse.Namespace) -> int:
    """Print the number of calls and their duration, by tool and ending."""
    with _open(options) as store:
        rows = store.stats(**_filters(options))
    for one in rows:
        if options.json:
            print(_json(one))
        else:
            times = f"{one.mean_ms:>9.1f} ms mean  {one.longest_ms:>9.1f} ms longest"
            print(f"{one.calls:>9}  {one.ending:<12}  {times}  {safe(one.tool_name)}")
    return 0


JSON = {"--json": {"action": "store_true", "help": "whole rows, one to a line"}}
_ANCHOR = {"--anchor": {"help": "the anchor that was stored elsewhere, or the file that holds it"}}
_COMMANDS: dict[str, tuple[Any, str, bool]] = {
    "list": (_list_, "calls, one to a line", True),
    "show": (show, "every field of one call", False),
    "verify": (verify, "verify that every row is unchanged", False),
    "export": (export, "rows as lines of JSON, hashes and all", True),
    "import": (import_, "import an exported chain into an empty store", False),
    "stats": (stats, "how many calls, how they ended, how long they took", True),
}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "list": {
        "--after": {"type": int, "help": "only rows after this position"},
        "--limit": {"type": int, "default": 100, "help": "how many (default: 100)"},
        "--newest": {"action": "store_true", "help": "the newest first"},
        **JSON,
    },
    "show": {"id": {"help": "the id of a trace, or its position"}, **JSON},
    "verify": _ANCHOR,
    "export": {"file": {"nargs": "?", "help": "a new file (default: standard output)"}},
    "import": {"file": {"help": "the exported file"}, **_ANCHOR},
    "stats": JSON,
}
