"""`toolwire translate`, `toolwire dialects`, `toolwire models`."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

import msgspec

from toolwire import catalogue, translate
from toolwire.dialects import ALIASES, NAMES
from toolwire.errors import LossyTranslation
from toolwire.translation.translate import refuse
from toolwire.types import Loss, Severity
from toolwire.wire.bodies import read_body

_KINDS = ("request", "response", "stream", "error")
PIECE = 65536
_SEVERITIES = get_args(Severity)


def add(commands: Any) -> None:
    """Add the commands of this file."""
    names = [*NAMES, *ALIASES]
    command = commands.add_parser("translate", help="translate a body from one dialect to another")
    command.add_argument("--from", dest="source", required=True, choices=names, help="the dialect of the input")
    command.add_argument("--to", dest="target", required=True, choices=names, help="the dialect to write")
    command.add_argument("--kind", choices=_KINDS, default="request", help="what the input is (default: request)")
    command.add_argument("--path", default="", help="the URL path of a request, where it says something (gemini)")
    command.add_argument("--status", type=int, default=None, help="the HTTP status of an error")
    command.add_argument("--strict", action="store_true", help="write nothing and exit with 1 if meaning would be lost")
    command.add_argument("--json-losses", action="store_true", help="losses to stderr as one JSON object a line")
    command.add_argument(
        "--all-losses", action="store_true", help="tell formal losses too: echoes, envelopes, bookkeeping"
    )
    command.add_argument("file", nargs="?", default="-", help="the body; standard input where none is given")
    command.set_defaults(run=_translate)
    command = commands.add_parser("dialects", help="list the dialects")
    command.set_defaults(run=_dialects)
    command = commands.add_parser("models", help="list the models of the catalogue with their prices")
    command.add_argument("--provider", default=None)
    command.set_defaults(run=_models)


def _translate(options: argparse.Namespace) -> int:
    try:
        return _translate_stream(options) if options.kind == "stream" else _translate_body(options)
    except LossyTranslation as refusal:
        _tell(refusal.losses, options)
        print("toolwire: nothing was written, because --strict allows no loss of meaning", file=sys.stderr)
        return 1


def _translate_body(options: argparse.Namespace) -> int:
    data = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
    pair = options.source, options.target
    match options.kind:
        case "request":
            encoded: Any = translate.request(data, *pair, options.path, strict=options.strict)
        case "response":
            encoded = translate.response(data, *pair, strict=options.strict)
        case _:
            encoded = translate.error(options.status, read_body(data), *pair)
            if options.strict:
                refuse(encoded.losses)
    sys.stdout.buffer.write(msgspec.json.format(encoded.json) + b"\n")
    sys.stdout.buffer.flush()
    _tell(encoded.losses, options)
    return 0


def _translate_stream(options: argparse.Namespace) -> int:
    """Translate a stream while it is read; one that must lose nothing is written when that is known."""
    stream, held = translate.stream(options.source, options.target), []
    with ExitStack() as open_:
        source: Any = sys.stdin.buffer
        if options.file != "-":
            source = open_.enter_context(Path(options.file).open("rb"))
        while piece := source.read1(PIECE):
            held.append(_send(stream.feed(piece), now=not options.strict))
    held.append(_send(stream.close(), now=not options.strict))
    if options.strict:
        refuse(stream.losses)
        _send(b"".join(held), now=True)
    _tell(stream.losses, options)
    return 0


def _send(data: bytes, *, now: bool) -> bytes:
    if now and data:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    return b"" if now else data


def _tell(losses: Sequence[Loss], options: argparse.Namespace) -> None:
    """Tell losses, those of meaning first; a reader of JSON gets all of them and sees which are formal."""
    as_json = options.json_losses
    shown = _SEVERITIES if as_json or options.all_losses else _SEVERITIES[:-1]
    for severity in shown:
        for loss in losses:
            if loss.severity == severity:
                print(msgspec.json.encode(loss).decode() if as_json else f"  {loss}", file=sys.stderr)


def _dialects(_options: argparse.Namespace) -> int:
    short = {name: alias for alias, name in ALIASES.items()}
    for name in NAMES:
        print(f"{name} (or {short[name]})" if name in short else name)
    return 0


def _models(options: argparse.Namespace) -> int:
    for model in catalogue.models(options.provider):
        price = model.price
        money = "" if price is None else f"{price.input}/{price.output} {price.currency} a million tokens in/out"
        print(f"{model.name}  {money}  ({model.as_of})")
    return 0
