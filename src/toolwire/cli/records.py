"""`toolwire record`: read and export the records of exchanges, and `toolwire replay`: send one to another model.

Rules of this file:
- Nothing is created: without records, the error says where they were looked for.
- Control characters of a model or a client are escaped before a line is printed. `--body` and `--json` print them.
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from toolwire import records
from toolwire.cli.commands import SUMMARIES
from toolwire.cli.parsing import count, require_extra
from toolwire.cli.replaying import replay
from toolwire.cli.state_paths import default_records, with_records_file
from toolwire.cli.traces import instant
from toolwire.errors import InvalidField, UserError
from toolwire.records import SIDES, Record, Summary
from toolwire.waiting.results import safe

if TYPE_CHECKING:
    from toolwire.records.store import RecordStore

_SHOWN = 2000  # characters of a body that `show` prints
_FILTERS = {
    "model": "that the client asked for",
    "provider": "that answered",
    "key": "of the key with this id",
    "session": "of this session of a client program",
    "conversation": "of this conversation",
    "wire": "that the client spoke",
    "status": "that the client received",
}


def add(commands: Any) -> None:
    """Add the commands `record` and `replay`."""
    command = commands.add_parser("record", help=SUMMARIES["record"])
    actions = command.add_subparsers(required=True, metavar="WHAT")
    listing = actions.add_parser("list", help="records, the newest first, one to a line")
    add_source(listing)
    _add_filters(listing)
    listing.add_argument("--limit", type=count, default=50, help="how many (default: 50)")
    listing.add_argument("--before", type=int, metavar="POSITION", help="only records before this position")
    listing.add_argument("--json", action="store_true", help="each line as JSON")
    listing.set_defaults(run=_list)
    showing = actions.add_parser("show", help="one record: its bodies, losses, usage and times")
    add_source(showing)
    showing.add_argument("id", metavar="ID", help="the id that the client received as x-toolwire-request")
    showing.add_argument("--body", choices=[_option_of(side) for side in SIDES], help="print this body alone, whole")
    showing.add_argument("--json", action="store_true", help="the whole record as JSON")
    showing.set_defaults(run=_show)
    exporting = actions.add_parser("export", help="records as lines of JSON, or as HAR")
    add_source(exporting)
    _add_filters(exporting)
    exporting.add_argument("ids", metavar="ID", nargs="*", help="these records alone (default: all)")
    form = exporting.add_mutually_exclusive_group(required=True)
    form.add_argument("--jsonl", action="store_true", help="a record in each line, as JSON")
    form.add_argument("--har", action="store_true", help="HAR 1.2, which browsers open")
    exporting.add_argument("-o", "--output", metavar="FILE", help="a new file (default: standard output)")
    exporting.set_defaults(run=_export)
    replaying = commands.add_parser("replay", help=SUMMARIES["replay"])
    add_source(replaying)
    replaying.add_argument("id", metavar="ID", help="the id of the record")
    replaying.add_argument("--to", metavar="MODEL", required=True, help="PROVIDER/MODEL, or a route of the settings")
    replaying.add_argument("--json", action="store_true", help="both answers and their differences as JSON")
    replaying.set_defaults(run=_replay)


def _option_of(side: str) -> str:
    return side.replace("_", "-")


def add_source(command: argparse.ArgumentParser) -> None:
    """Add the options that name a database of records."""
    source = command.add_mutually_exclusive_group()
    source.add_argument("--config", metavar="FILE", help="the gateway's file of settings, which names the database")
    source.add_argument("--database", metavar="URL", help="sqlite:///FILE or postgresql://... (default: your own)")


def _add_filters(command: argparse.ArgumentParser) -> None:
    for name, words in _FILTERS.items():
        command.add_argument(f"--{name}", help=f"the {name} {words}", type=int if name == "status" else str)
    command.add_argument("--lossy", action="store_true", default=None, help="only those with semantic or minor losses")
    for name, words in (("since", "from then on"), ("until", "before then")):
        command.add_argument(
            f"--{name}", type=instant, help=f"{words}: 2026-11-27T12:00, or 90m, 2h, 7d for a time ago"
        )


def _filters(options: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(options, name) for name in (*_FILTERS, "lossy", "since", "until")}


def _open_store(options: argparse.Namespace) -> "RecordStore":
    """Open the records that the options name. Nothing in them is deleted."""
    with require_extra("serve", "to read records", "SQLAlchemy"):
        from toolwire.records.store import open as open_records  # noqa: PLC0415 - an extra
    return open_records(database_url(options), bytes=None, expires=None, create=False)


def database_url(options: argparse.Namespace) -> str:
    """Return the address of the database that the options name."""
    if options.database:
        return str(options.database)
    if not options.config:
        return default_records(make=False)
    from toolwire.gateway import starting  # noqa: PLC0415 - an extra

    return starting.records_url(with_records_file(starting.settings_from(options.config)), options.config)


def _list(options: argparse.Namespace) -> int:
    with _open_store(options) as store:
        page = store.list(before=options.before, limit=options.limit, **_filters(options))
    if page.rows and not options.json:
        print(_HEAD)
    for line in page.rows:
        print(msgspec.json.encode(line).decode() if options.json else _line(line))
    if page.next is not None and not options.json:
        print(f"[there are more: --before {page.next}]")
    return 0


_HEAD = (
    "      #  time (UTC)           id                           status    seconds  tokens in>out       cost  losses  "
    "key         asked > answered"
)


def _line(line: Summary) -> str:
    tokens = f"{_number(line.input_tokens)}>{_number(line.output_tokens)}"
    losses = f"{line.semantic}/{line.minor}" if line.semantic or line.minor else ""
    columns = (
        f"{line.position:>7}",
        _time(line.time),
        f"{line.id:<27}",
        f"{line.status:>6}",
        f"{line.seconds:>9.2f}",
        f"{tokens:>13}",
        f"{line.cost:>9.5f}",
        f"{losses:>6}",
        f"{line.key_name or line.key or '-':<10}",
        f"{line.model or '-'} > {line.provider}/{line.provider_model}" if line.provider else line.model or line.path,
    )
    return "  ".join(_one_line(column) for column in columns)


def _one_line(text: str) -> str:
    return " ".join(safe(text).split("\n")) if text.strip() else text


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _find(store: "RecordStore", identity: str) -> Record:
    """Return the record with an id. Raise `InvalidField` if there is none."""
    record = store.read(identity)
    if record is None:
        raise InvalidField("id", f"belongs to no record: {identity!r}", path="record")
    return record


def _show(options: argparse.Namespace) -> int:
    with _open_store(options) as store:
        record = _find(store, options.id)
    if options.body:
        body = record.bodies[options.body.replace("-", "_")]
        sys.stdout.flush()
        buffer = getattr(sys.stdout, "buffer", None)
        _ = buffer.write(body.data) if buffer is not None else sys.stdout.write(body.text)
        return 0
    if options.json:
        print(json.dumps(record.to_json(), ensure_ascii=False))
        return 0
    for line in _description(record):
        print(line)
    return 0


def _description(record: Record) -> Iterator[str]:
    """Yield the lines that describe a record."""
    usage = record.usage
    facts = {
        "id": record.id,
        "time": f"{_time(record.time)} UTC",
        "key": f"{record.key_name} ({record.key})" if record.key else "",
        "session": record.session,
        "conversation": record.conversation,
        "request": f"{record.wire}  {record.path}{'  (WebSocket)' if record.websocket else ''}",
        "model": record.model,
        "provider": f"{record.provider}/{record.provider_model}  {record.provider_wire}  {record.url}",
        "status": f"{record.status}  {record.ending}",
        "seconds": f"{record.seconds:.3f}, first byte after {_seconds(record.first_byte)}",
        "tokens": "" if usage is None else _usage(record),
        "cost": f"{record.cost:.6f} USD",
    }
    for name, value in facts.items():
        if value.strip(" /"):
            yield f"{name:14}{_one_line(value)}"
    for earlier in record.earlier:
        reason = earlier.error or earlier.status
        yield f"{'before':14}{_one_line(f'{earlier.provider}/{earlier.provider_model}: {reason}')}"
    for name, losses in (("request", record.request_losses), ("answer", record.answer_losses)):
        for loss in losses:
            yield f"{f'{name} loss':14}{loss.severity:9} {_one_line(str(loss))}"
    for path in _token_details(record):
        yield f"{'details':14}{path}"
    for side, body in record.bodies.items():
        if body.data:
            cut = ", cut" if body.cut else ""
            yield f"\n{side.replace('_', ' ')}: {body.size} bytes{cut}, {_one_line(body.content_type)}"
            if body.frames:
                yield from (f"  {seconds:8.3f} s  {_one_line(text)}" for seconds, text in _shown_events(body))
            else:
                yield _shown(_pretty(body))


def _shown_events(body: records.Body) -> Iterator[tuple[float, str]]:
    left = _SHOWN
    for seconds, data in body.events():
        text = data.decode(errors="replace").strip().replace("\n", "  ")
        if left <= 0:
            yield seconds, "... (--body prints all of it)"
            return
        yield seconds, text
        left -= len(text)


def _pretty(body: records.Body) -> str:
    try:
        return msgspec.json.format(body.data, indent=2).decode()
    except (msgspec.DecodeError, UnicodeError):
        return body.text


def _shown(text: str) -> str:
    more = "" if len(text) <= _SHOWN else "\n... (--body prints all of it)"
    return safe(text[:_SHOWN]) + more


def _usage(record: Record) -> str:
    usage = record.usage
    if usage is None:
        return ""
    cached = f", {usage.cache_read_tokens} read from the cache" if usage.cache_read_tokens else ""
    written = f", {usage.cache_write_tokens} written to it" if usage.cache_write_tokens else ""
    estimated = " (estimated)" if record.estimated else ""
    return f"{_number(usage.input_tokens)} in{cached}{written}, {_number(usage.output_tokens)} out{estimated}"


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.3f}"


def _token_details(record: Record) -> list[str]:
    """Return the members of the provider's answer that hold token ids and their probabilities."""
    texts = record.provider_answer.data or record.client_answer.data
    names = ("logprobs", "top_logprobs", "logprobsResult", "token_ids", "prompt_token_ids", "prompt_logprobs")
    return [f"the answer has {name}" for name in names if _has_value(texts, name.encode())]


def _has_value(data: bytes, name: bytes) -> bool:
    """Return True if a member `name` is there, and is not null."""
    compact = data.replace(b'": ', b'":')
    return compact.count(b'"%s":' % name) > compact.count(b'"%s":null' % name)


def _export(options: argparse.Namespace) -> int:
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(_open_store(options))
        chosen = (_find(store, identity) for identity in options.ids)
        found = chosen if options.ids else store.iterate(**_filters(options))
        output = sys.stdout if options.output is None else stack.enter_context(_new_file(options.output))
        number = _write_har(found, output) if options.har else _write_lines(found, output)
    if options.output is not None:
        print(f"{number} records", file=sys.stderr)
    return 0


def _new_file(name: str) -> TextIO:
    try:
        return Path(name).open("x", encoding="utf-8")
    except FileExistsError:
        raise UserError(f"{name} is there already: name a new file", path="-o") from None


def _write_lines(found: Iterator[Record], output: TextIO) -> int:
    number = 0
    for record in found:
        output.write(json.dumps(record.to_json(), ensure_ascii=False) + "\n")
        number += 1
    return number


def _write_har(found: Iterator[Record], output: TextIO) -> int:
    from toolwire import __version__  # noqa: PLC0415 - of this export alone
    from toolwire.records.har import har_of  # noqa: PLC0415 - likewise

    number = 0

    def counted() -> Iterator[Record]:
        nonlocal number
        for record in found:
            number += 1
            yield record

    json.dump(har_of(counted(), __version__), output, ensure_ascii=False)
    output.write("\n")
    return number


def _replay(options: argparse.Namespace) -> int:
    with _open_store(options) as store:
        record = _find(store, options.id)
    return replay(record, options.to, options.config, as_json=options.json)
