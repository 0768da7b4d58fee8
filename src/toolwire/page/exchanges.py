"""The view Exchange: the four bodies of an exchange in two columns, with each loss at its place on both sides."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from markupsafe import Markup
from msgspec import Struct

from toolwire.dialects import dialect
from toolwire.errors import ToolwireError
from toolwire.page.context import bar_of, sections_of
from toolwire.page.json_view import Ghost, Mark, Path, show_json
from toolwire.page.marks import Marked, place_losses, side_of
from toolwire.page.shown import File, Missing, PageRequest, Shown
from toolwire.page.sources import Sources
from toolwire.page.streams import EventTable, events_of
from toolwire.page.traffic import row_values, saving
from toolwire.records.record import CANONICAL, SIDES, Body, Record

_TITLES = {
    "client_request": "Client's request",
    "provider_request": "Provider's request",
    "client_answer": "Client's answer",
    "provider_answer": "Provider's answer",
}
_ORDER = ("client_request", "provider_request", "client_answer", "provider_answer")
_RAW = 200_000
_CURL = 100_000
_TURNS = 200
WAYS = ("body", "raw", "canonical")
_SECRET_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "set-cookie"})


class _BodyView(Struct, kw_only=True):
    """One of the four bodies, ready to be shown: as JSON with marks, as a table of events, or as text."""

    name: str
    title: str
    about: str
    size: int
    cut: bool
    html: Markup | None = None
    events: EventTable | None = None
    text: str | None = None
    file: str = ""


def find_record(sources: Sources, name: str) -> Record:
    """Return a record. Raise `Missing` if there is none."""
    record: Record | None = None if sources.records is None else sources.records.read(name)
    if record is None:
        raise Missing(f"there is no record of {name!r}: it may have expired")
    return record


def show_exchange(sources: Sources, request: PageRequest) -> Shown:
    """Return one exchange."""
    record = find_record(sources, request.args[0])
    way = request.query.get("show", "body")
    data, extra = exchange_values(sources, record, way if way in WAYS else "body")
    if request.query.get("format") == "json":
        data["record"] = record.to_json()
    return Shown("exchange.html", data["title"], data, extra)


def exchange_values(sources: Sources, record: Record, way: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the data of an exchange, and what its template needs."""
    line = record.summary()
    requests = _place(record, "client_request", "provider_request", record.request_losses)
    answers = _place(record, "provider_answer", "client_answer", record.answer_losses)
    marks: dict[str, tuple[Mapping[Path, Sequence[Mark]], Sequence[Ghost], str]] = {
        "client_request": (requests.source, (), "s"),
        "provider_request": (requests.target, requests.ghosts, "t"),
        "provider_answer": (answers.source, (), "u"),
        "client_answer": (answers.target, answers.ghosts, "v"),
    }
    bodies = [_view_of(record, name, way, marks[name]) for name in _ORDER if record.bodies[name].size]
    turn, turns = _turn_of(sources, record)
    sections = sections_of(record.provider_request.json, record.provider_wire)
    data = {
        "title": f"{record.model or 'no model'} → {_answered(record)}",
        "turn": turn,
        "turns": turns,
    }
    extra = {
        "record": record,
        "line": line,
        "more": row_values(line),
        "bodies": bodies,
        "elsewhere": {"requests": requests, "answers": answers},
        "way": way,
        "ways": WAYS,
        "url": f"/page/exchanges/{quote(record.id, safe='')}",
        "curl": _curl(record),
        "bar": bar_of(sections, record.usage) if sections else None,
        "saved": saving(record.provider, record.provider_model, line),
        "answered": _answered(record),
    }
    return data, extra


def _answered(record: Record) -> str:
    name = record.provider_model
    return name if not record.provider or name.startswith(f"{record.provider}/") else f"{record.provider}/{name}"


def _turn_of(sources: Sources, record: Record) -> tuple[int | None, int | None]:
    """Return which turn of its conversation an exchange is, and how many there are."""
    if sources.records is None or not record.conversation:
        return None, None
    rows = sources.records.list(conversation=record.conversation, limit=_TURNS).rows
    ids = [row.id for row in reversed(rows)]
    return (ids.index(record.id) + 1, len(ids)) if record.id in ids else (None, None)


def wire_of(record: Record, name: str) -> str:
    """Return the wire of a body. It is empty for the canonical values that a client of this library records."""
    wire = record.wire if name.startswith("client") else record.provider_wire
    return "" if wire == CANONICAL else wire


def _value_of(record: Record, name: str) -> Any:
    """Return the parsed body. Of a canonical value, only the fields that are set, the context's beside the others."""
    value = record.bodies[name].json
    if wire_of(record, name) or type(value) is not dict:
        return value
    context = value.pop("context", None)
    return _without_nothing({**value, **context} if type(context) is dict else value)


def _place(record: Record, source: str, target: str, losses: Sequence[Any]) -> Marked:
    """Return the marks of one direction. Messages are looked up only if a loss is about one."""
    is_request = source == "client_request"
    wires = (wire_of(record, source), wire_of(record, target)) if is_request else ("", "")
    paths = (record.path, _path_of(record.url))
    deep = any(loss.path.startswith("messages") for loss in losses)
    left, right = (
        side_of(_value_of(record, name), wire, path, with_parts=deep)
        for name, wire, path in zip((source, target), wires, paths, strict=True)
    )
    return place_losses(losses, left, right)


def _path_of(url: str) -> str:
    """Return the path of a URL, which names Gemini's model."""
    return "/" + url.partition("://")[2].partition("/")[2]


def _view_of(record: Record, name: str, way: str, marks: tuple[Any, Any, str]) -> _BodyView:
    body = record.bodies[name]
    wire = wire_of(record, name)
    view = _BodyView(
        name=name,
        title=_TITLES[name],
        about=_about(record, name, wire),
        size=body.size,
        cut=body.cut,
        file=f"/page/exchanges/{quote(record.id, safe='')}/{name}",
    )
    if way == "raw":
        view.text = body.text[:_RAW]
        view.cut = view.cut or len(body.text) > _RAW
    elif way == "canonical":
        view.html = _canonical(body, name, wire, record)
    elif body.frames and wire:
        view.events = events_of(body.data, wire, _times_of(body))
    elif (value := _value_of(record, name)) is not None:
        view.html = show_json(value, marks[0], marks[1], side=marks[2])
    else:
        view.text = body.text[:_RAW]
    return view


def _times_of(body: Body) -> list[tuple[int, float]]:
    times, end = [], 0
    for frame in body.frames:
        end += frame.size
        times.append((end, frame.seconds))
    return times


def _about(record: Record, name: str, wire: str) -> str:
    if name == "client_request":
        return f"POST {record.path.partition('?')[0]}" if record.path else "canonical"
    if name == "provider_request":
        return f"POST {_path_of(record.url).partition('?')[0]}"
    status = record.status if name == "client_answer" else record.provider_status
    return f"{status or 'no status'} · {wire or 'canonical'}"


def _canonical(body: Body, name: str, wire: str, record: Record) -> Markup:
    """Return the canonical value of a body, or why there is none."""
    try:
        if not wire:
            value: Any = _value_of(record, name)
        elif name.endswith("request"):
            path = record.path if name == "client_request" else _path_of(record.url)
            value = dialect(wire).decode_request(body.json, path)
        elif body.frames:
            decoder = dialect(wire).decode_stream()
            value = [*decoder.feed(body.data), *decoder.close()]
        else:
            value = dialect(wire).decode_response(body.json)
        return show_json(_without_nothing(msgspec.to_builtins(value, str_keys=True)))
    except (ToolwireError, TypeError, ValueError, AttributeError) as problem:
        return Markup('<div class="ln">{}</div>').format(f"no canonical value: {problem}")


def _without_nothing(value: Any) -> Any:
    """Return a canonical value without the fields that are not set."""
    if type(value) is dict:
        return {key: _without_nothing(one) for key, one in value.items() if one not in (None, [], {})}
    return [_without_nothing(one) for one in value] if type(value) is list else value


def _curl(record: Record) -> str:
    """Return the command that sends the client's request again. A key is read from a variable."""
    body = record.client_request
    headers = {name: value for name, value in body.headers.items() if name.lower() not in _SECRET_HEADERS}
    headers.setdefault("content-type", "application/json")
    words = ["curl", "-sS", f'"$TOOLWIRE_URL"{shlex.quote(record.path)}', "-H", '"Authorization: Bearer $TOOLWIRE_KEY"']
    for name, value in headers.items():
        if name.lower() in ("content-type", "accept", "anthropic-version", "anthropic-beta", "openai-beta"):
            words += ["\\\n  -H", shlex.quote(f"{name}: {value}")]
    data = shlex.quote(body.text) if len(body.data) <= _CURL and not body.cut else "@request.json"
    return " ".join([*words, "\\\n  --data-binary", data])


def send_body(sources: Sources, request: PageRequest) -> File:
    """Return one of the four bodies as a file of text."""
    record = find_record(sources, request.args[0])
    if request.args[1] not in SIDES:
        raise Missing(f"an exchange has no {request.args[1][:40]!r}")
    return File(record.bodies[request.args[1]].data, "text/plain; charset=utf-8")
