"""`toolwire translate`, `toolwire dialects`, `toolwire models`.

Rules of this file:
- Standard output is the translated body. The path of a request and the losses go to standard error. `--json` prints all
  three as one object.
- A body of another wire than `--from` is rejected, because little of it would be understood.
"""

import argparse
import codecs
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

import msgspec

from toolwire import catalogue, translate
from toolwire.cli.commands import SUMMARIES
from toolwire.cli.parsing import base_url
from toolwire.dialects import ALIASES, NAMES
from toolwire.errors import InvalidBody, LossyTranslation
from toolwire.providers import PROVIDERS, Provider, UnknownProvider, named
from toolwire.translation.recognition import check_wire
from toolwire.translation.translate import raise_if_lossy
from toolwire.types import Loss, Severity
from toolwire.waiting.results import safe
from toolwire.wire.bodies import read_body

_KINDS = ("request", "response", "stream", "error")
_KINDS_WITH = {"path": ("request",), "model": ("request",), "status": ("error",), "json": _KINDS[:2] + _KINDS[3:]}
"""The kinds of input that an option of `translate` applies to; an option without a row applies to all of them."""
PIECE = 65536
_SEVERITIES = get_args(Severity)
# The first bytes of a stream contain a line of server-sent events, or the beginning of JSON.
_STREAM = re.compile(rb"(?:^|[\r\n])\s*(?:\xef\xbb\xbf)?(?:(?:data|event|id|retry)?:|\{|\[\s*(?:[{\]]|$))")
_LINE_END = re.compile(rb"[\r\n]")
# The first data line of server-sent events, or the first JSON line.
_FRAME = re.compile(rb"(?m)^(?:data: ?)?(\{.*\})\s*$")


def add(commands: Any) -> None:
    """Add the commands `translate`, `dialects` and `models`."""
    names = [*NAMES, *ALIASES]
    command = commands.add_parser("translate", help=SUMMARIES["translate"])
    command.add_argument("--from", dest="source", required=True, choices=names, help="the dialect of the input")
    command.add_argument("--to", dest="target", required=True, choices=names, help="the dialect to write")
    command.add_argument("--kind", choices=_KINDS, default="request", help="what the input is (default: request)")
    command.add_argument("--path", default="", help="the URL path of a request (that of gemini names the model)")
    command.add_argument("--status", type=int, help="the HTTP status of an error")
    command.add_argument("--model", help="the model to ask, instead of the one in the body")
    command.add_argument(
        "--strict", action="store_true", help="write nothing and exit with 1 if a semantic loss is found"
    )
    losses_format = command.add_mutually_exclusive_group()
    losses_format.add_argument("--json", action="store_true", help="print path, body and losses as one JSON object")
    losses_format.add_argument("--json-losses", action="store_true", help="losses to stderr as one JSON object a line")
    command.add_argument(
        "--all-losses", action="store_true", help="report formal losses too: echoes, envelopes, bookkeeping"
    )
    command.add_argument("file", nargs="?", default="-", help="the file of the body (default: standard input)")
    command.set_defaults(run=_translate)
    command = commands.add_parser("dialects", help=SUMMARIES["dialects"])
    command.set_defaults(run=_dialects)
    command = commands.add_parser("models", help=SUMMARIES["models"])
    command.add_argument("--provider", help="only the models of this provider")
    command.add_argument("--live", action="store_true", help="ask the provider, or all that have a key, for the list")
    command.add_argument("--base-url", type=base_url, metavar="URL", help="with --live, the provider's address")
    command.set_defaults(run=_models)


def _translate(options: argparse.Namespace) -> int:
    for name, kinds in _KINDS_WITH.items():
        if getattr(options, name) != options.parser.get_default(name) and options.kind not in kinds:
            options.parser.error(f"--{name} applies to --kind {' or '.join(kinds)}, not to --kind {options.kind}")
    try:
        return _translate_stream(options) if options.kind == "stream" else _translate_body(options)
    except LossyTranslation as refusal:
        _print_losses(refusal.losses, options)
        print("toolwire: nothing was written, because --strict allows no semantic loss", file=sys.stderr)
        return 1


def _translate_body(options: argparse.Namespace) -> int:
    data = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
    data = data.removeprefix(codecs.BOM_UTF8)  # written by editors and shells on Windows
    pair = options.source, options.target
    match options.kind:
        case "request":
            check_wire(read_body(data), "request", options.source)
            encoded: Any = translate.request(data, *pair, options.path, model=options.model, strict=options.strict)
        case "response":
            check_wire(read_body(data), "response", options.source)
            encoded = translate.response(data, *pair, strict=options.strict)
        case _:
            encoded = translate.error(options.status, data, *pair)
            if options.strict:
                raise_if_lossy(encoded.losses)
    path = getattr(encoded, "path", "")
    result = {"path": path, "body": encoded.body, "losses": encoded.losses}
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(result) if options.json else encoded.json) + b"\n")
    sys.stdout.buffer.flush()
    if options.json:
        return 0
    if path and not options.json_losses:
        print(f"path: {path}", file=sys.stderr)
    _print_losses(encoded.losses, options)
    return 0


def _translate_stream(options: argparse.Namespace) -> int:
    """Translate a stream while it is read. With `--strict` it is written at the end, if it lost nothing."""
    stream, pieces = translate.stream(options.source, options.target), []
    with ExitStack() as stack:
        source: Any = sys.stdin.buffer
        if options.file != "-":
            source = stack.enter_context(Path(options.file).open("rb"))
        piece = _checked_beginning(source, options.source)
        while piece:
            pieces.append(_send(stream.feed(piece), now=not options.strict))
            piece = source.read1(PIECE)
    pieces.append(_send(stream.close(), now=not options.strict))
    if options.strict:
        raise_if_lossy(stream.losses)
        _send(b"".join(pieces), now=True)
    _print_losses(stream.losses, options)
    return 0


def _checked_beginning(source: Any, name: str) -> bytes:
    """Return the first bytes of a stream. Raise InvalidBody if they are not a stream of the wire `name`."""
    beginning: bytes = source.read1(PIECE)
    while len(beginning) < PIECE and not _LINE_END.search(beginning) and (more := source.read1(PIECE)):
        beginning += more
    if not _STREAM.search(beginning):
        raise InvalidBody("is empty" if not beginning.strip() else "this is not a stream", path="body")
    if beginning.lstrip()[:1] in (b"{", b"["):
        line = _parse_or_none(_LINE_END.split(beginning.strip(), 1)[0])
        if name != "ollama" or line is None:
            beginning += source.read()
            body = _parse_or_none(beginning)
            if type(body) is dict and "error" not in body:
                raise InvalidBody("this is one JSON object, not a stream; is it a --kind response?", path="body")
            line = body[0] if type(body) is list and body else line
        if type(line) is dict:
            check_wire(line, "stream", name)
    elif (frame := _FRAME.search(beginning)) is not None and type(body := _parse_or_none(frame[1])) is dict:
        check_wire(body, "stream", name)
    return beginning


def _parse_or_none(data: bytes) -> Any:
    try:
        return read_body(data)
    except InvalidBody:
        return None


def _send(data: bytes, *, now: bool) -> bytes:
    if now and data:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    return b"" if now else data


def _print_losses(losses: Sequence[Loss], options: argparse.Namespace) -> None:
    """Print the losses, semantic ones first. JSON includes the formal losses, with their severity."""
    as_json = options.json_losses
    severities = _SEVERITIES if as_json or options.all_losses else _SEVERITIES[:-1]
    for severity in severities:
        for loss in losses:
            if loss.severity == severity:
                print(msgspec.json.encode(loss).decode() if as_json else f"  {loss}", file=sys.stderr)


def _dialects(_options: argparse.Namespace) -> int:
    short = {name: alias for alias, name in ALIASES.items()}
    for name in NAMES:
        print(f"{name} (or {short[name]})" if name in short else name)
    return 0


def _models(options: argparse.Namespace) -> int:
    """Print the models, newest first, in the form that --model accepts."""
    preset = None if options.provider is None else named(options.provider)
    if options.provider is not None and preset is None:
        raise UnknownProvider(options.provider)
    if options.live:
        return _live_models(options, preset)
    if options.base_url is not None:
        options.parser.error("--base-url applies to --live")
    models = sorted(catalogue.models(options.provider), key=_age, reverse=True)
    rows = [(_name(model, options.provider), *_window_and_prices(model), model.as_of) for model in models]
    _print_table(rows)
    return 0


def _live_models(options: argparse.Namespace, preset: Provider | None) -> int:
    """Print the models that providers list themselves, with what the catalogue knows of them."""
    from toolwire.cli.live_models import provider_at, reachable_models  # noqa: PLC0415 - other commands send nothing
    from toolwire.cli.screen import Screen  # noqa: PLC0415 - the same

    if options.base_url is not None and preset is None:
        options.parser.error("--base-url needs --provider, for the wire and the key")
    rows = []
    notes, failed = Screen(sys.stderr), False
    for name, models in reachable_models(None if preset is None else provider_at(preset, options.base_url), notes):
        if isinstance(models, str):
            failed = True
            notes.line(f"toolwire: {name}: {models.removeprefix(f'{name}: ')}", "error")
            continue
        for model in sorted(models):
            known = catalogue.model(model)
            known_cells = ("-", "-", "-") if known is None else _window_and_prices(known)
            rows.append((f"{name}/{safe(model)}", *known_cells, "" if known is None else known.as_of))
    if rows:
        _print_table(rows)
    elif not failed:
        notes.line("no provider has a key, and no local server answers: toolwire auth set PROVIDER", "words")
    return 0 if rows else 1


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    header = ("MODEL", "CONTEXT", "IN", "OUT", "AS OF")
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]
    for name, *values, date in (header, *rows):
        columns = "  ".join(f"{value:>{width}}" for value, width in zip(values, widths[1:-1], strict=True))
        print(f"{name:<{widths[0]}}  {columns}  {date}".rstrip())
    print("CONTEXT in tokens; IN and OUT in USD a million tokens; - is not known", file=sys.stderr)


def _age(model: catalogue.Model) -> str:
    """Return a value that sorts by date: the date of the source, or only its year."""
    return model.as_of if model.as_of[:1].isdigit() else model.as_of[-4:]


def _name(model: catalogue.Model, provider: str | None) -> str:
    served = [one for one in model.providers if one in PROVIDERS]
    return f"{provider or served[0]}/{model.name}" if provider or served else model.name


def _window_and_prices(model: catalogue.Model) -> tuple[str, str, str]:
    """Return the context window and the prices of input and output tokens, as cells of the table of models."""
    window = "-" if model.context_window is None else f"{model.context_window:,}"
    price = model.price
    return (window, "-", "-") if price is None else (window, f"{price.input:g}", f"{price.output:g}")
