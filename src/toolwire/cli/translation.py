"""`toolwire translate`, `toolwire dialects`, `toolwire models`.

Rules of this file:
- Standard output is the body alone; the path that a request is sent to, and the losses, go to standard error. `--json`
  gives all three as one object.
- What is of another wire than the one that is named is refused: little of it would be understood.
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
from toolwire.dialects import ALIASES, NAMES
from toolwire.errors import InvalidBody, LossyTranslation
from toolwire.providers import PROVIDERS, UnknownProvider, named
from toolwire.translation.recognition import check_wire
from toolwire.translation.translate import refuse
from toolwire.types import Loss, Severity
from toolwire.wire.bodies import read_body

_KINDS = ("request", "response", "stream", "error")
PIECE = 65536
_SEVERITIES = get_args(Severity)
# What the first bytes of a stream have somewhere: a line of server-sent events, or the beginning of JSON.
_STREAM = re.compile(rb"(?:^|[\r\n])\s*(?:\xef\xbb\xbf)?(?:(?:data|event|id|retry)?:|\{|\[\s*(?:[{\]]|$))")
_LINE_END = re.compile(rb"[\r\n]")
# The first data of server-sent events, or the first of JSON lines.
_FRAME = re.compile(rb"(?m)^(?:data: ?)?(\{.*\})\s*$")


def add(commands: Any) -> None:
    """Add the commands of this file."""
    names = [*NAMES, *ALIASES]
    command = commands.add_parser("translate", help="translate a body from one dialect to another")
    command.add_argument("--from", dest="source", required=True, choices=names, help="the dialect of the input")
    command.add_argument("--to", dest="target", required=True, choices=names, help="the dialect to write")
    command.add_argument("--kind", choices=_KINDS, default="request", help="what the input is (default: request)")
    command.add_argument("--path", default="", help="the URL path of a request (that of gemini names the model)")
    command.add_argument("--status", type=int, help="the HTTP status of an error")
    command.add_argument("--model", help="the model to ask, instead of the one in the body")
    command.add_argument(
        "--strict", action="store_true", help="write nothing and exit with 1 if a semantic loss is found"
    )
    told = command.add_mutually_exclusive_group()
    told.add_argument("--json", action="store_true", help="print path, body and losses as one JSON object")
    told.add_argument("--json-losses", action="store_true", help="losses to stderr as one JSON object a line")
    command.add_argument(
        "--all-losses", action="store_true", help="report formal losses too: echoes, envelopes, bookkeeping"
    )
    command.add_argument("file", nargs="?", default="-", help="the file of the body (default: standard input)")
    command.set_defaults(run=_translate)
    command = commands.add_parser("dialects", help="list the dialects")
    command.set_defaults(run=_dialects)
    command = commands.add_parser("models", help="list the models of the catalogue with their prices")
    command.add_argument("--provider")
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
    data = data.removeprefix(codecs.BOM_UTF8)  # what editors and shells of Windows write first
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
                refuse(encoded.losses)
    path = getattr(encoded, "path", "")
    whole = {"path": path, "body": encoded.body, "losses": encoded.losses}
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(whole) if options.json else encoded.json) + b"\n")
    sys.stdout.buffer.flush()
    if options.json:
        return 0
    if path and not options.json_losses:
        print(f"path: {path}", file=sys.stderr)
    _tell(encoded.losses, options)
    return 0


def _translate_stream(options: argparse.Namespace) -> int:
    """Translate a stream while it is read; one that must lose nothing is written when that is known."""
    stream, held = translate.stream(options.source, options.target), []
    with ExitStack() as open_:
        source: Any = sys.stdin.buffer
        if options.file != "-":
            source = open_.enter_context(Path(options.file).open("rb"))
        piece = _checked_beginning(source, options.source)
        while piece:
            held.append(_send(stream.feed(piece), now=not options.strict))
            piece = source.read1(PIECE)
    held.append(_send(stream.close(), now=not options.strict))
    if options.strict:
        refuse(stream.losses)
        _send(b"".join(held), now=True)
    _tell(stream.losses, options)
    return 0


def _checked_beginning(source: Any, name: str) -> bytes:
    """Give the first bytes of a stream, if they are those of one, and of this wire."""
    beginning: bytes = source.read1(PIECE)
    while len(beginning) < PIECE and not _LINE_END.search(beginning) and (more := source.read1(PIECE)):
        beginning += more
    if not _STREAM.search(beginning):
        raise InvalidBody("is empty" if not beginning.strip() else "this is not a stream", path="body")
    if beginning.lstrip()[:1] in (b"{", b"[") and name != "ollama":
        beginning += source.read()
        body = _read(beginning)
        if type(body) is dict and "error" not in body:
            raise InvalidBody("this is one JSON object, not a stream; is it a --kind response?", path="body")
    elif (frame := _FRAME.search(beginning)) is not None and type(body := _read(frame[1])) is dict:
        check_wire(body, "stream", name)
    return beginning


def _read(data: bytes) -> Any:
    try:
        return read_body(data)
    except InvalidBody:
        return None


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
    """List models, the newest first, as they are written after --model."""
    wanted = None if options.provider is None else named(options.provider)
    if options.provider is not None and wanted is None:
        raise UnknownProvider(options.provider)
    found = sorted(catalogue.models(options.provider), key=_age, reverse=True)
    rows = [(_name(model, options.provider), *_figures(model), model.as_of) for model in found]
    head = ("MODEL", "CONTEXT", "IN", "OUT", "AS OF")
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    for name, *figures, date in (head, *rows):
        columns = "  ".join(f"{figure:>{width}}" for figure, width in zip(figures, widths[1:-1], strict=True))
        print(f"{name:<{widths[0]}}  {columns}  {date}".rstrip())
    print("CONTEXT in tokens; IN and OUT in USD a million tokens; - is not known", file=sys.stderr)
    return 0


def _age(model: catalogue.Model) -> str:
    """Give what sorts by time: a source's date, or its year where it says no more."""
    return model.as_of if model.as_of[:1].isdigit() else model.as_of[-4:]


def _name(model: catalogue.Model, provider: str | None) -> str:
    served = [one for one in model.providers if one in PROVIDERS]
    return f"{provider or served[0]}/{model.name}" if provider or served else model.name


def _figures(model: catalogue.Model) -> tuple[str, str, str]:
    window = "-" if model.context_window is None else f"{model.context_window:,}"
    price = model.price
    return (window, "-", "-") if price is None else (window, f"{price.input:g}", f"{price.output:g}")
