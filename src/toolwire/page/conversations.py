"""The view Conversations: what was said in each, turn by turn, from the records of its exchanges."""

import difflib
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from toolwire.dialects import dialect
from toolwire.errors import ToolwireError
from toolwire.page.exchanges import find_record, wire_of
from toolwire.page.shown import File, Missing, PageRequest, Shown
from toolwire.page.sources import Sources
from toolwire.page.turns import IMAGES, ShownTurn, turns_of
from toolwire.records.record import Record
from toolwire.streams.accumulation import accumulate
from toolwire.types import Image, Message, Request, Response, Text

_LIST = 100
_TURNS = 200
_RECENT = 1000
_MOST = 60
_DIFF_LINES = 200


def show_conversations(sources: Sources, _request: PageRequest) -> Shown:
    """Return the conversations, the latest first."""
    newest: dict[str, Any] = {}
    for line in [] if sources.records is None else sources.records.list(limit=_RECENT).rows:
        if line.conversation and len(newest) < _LIST:
            newest.setdefault(line.conversation, line)
    rows = [
        {"id": name, "sums": sums, "newest": line, "url": f"/page/conversations/{quote(name, safe='')}"}
        for name, line in newest.items()
        for sums in sources.records.sums(conversation=name)
    ]
    data = {"conversations": [{name: row[name] for name in ("id", "sums", "newest")} for row in rows]}
    return Shown("conversations.html", "Conversations", data, {"store": sources.records, "rows": rows})


def show_conversation(sources: Sources, request: PageRequest) -> Shown:
    """Return one conversation as turns, with the exchanges that made it."""
    name = request.args[0]
    lines = (
        [] if sources.records is None else list(reversed(sources.records.list(conversation=name, limit=_TURNS).rows))
    )
    if not lines:
        raise Missing(f"there is no conversation {name!r}: its records may have expired")
    newest = find_record(sources, lines[-1].id)
    messages, old, system = _messages_of(sources, lines, newest)
    media = f"/page/exchanges/{quote(newest.id, safe='')}/media"
    turns = turns_of(messages, lambda message, part: f"{media}/{message}/{part}")
    for turn in turns:
        turn.is_new = turn.number > old
        _add_diffs(turn)
    data = {"id": name, "system": system, "turns": [turn.plain() for turn in turns], "exchanges": lines}
    extra = {
        "turns": turns,
        "lines": lines,
        "newest": newest,
        "urls": {line.id: f"/page/exchanges/{quote(line.id, safe='')}" for line in lines},
        "cost": sum(line.cost for line in lines),
    }
    return Shown("conversation.html", newest.model or "Conversation", data, extra)


def _messages_of(sources: Sources, lines: Sequence[Any], newest: Record) -> tuple[list[Message], int, str]:
    """Return the messages of a conversation, how many of them the turn before had, and its system prompt.

    A client that sends only what is new has its messages in many records; the last `_MOST` of them are read.
    """
    request = request_of(newest)
    messages = [] if request is None else list(request.context.messages)
    system = "" if request is None else _system_of(request)
    answers = sum(message.role == "assistant" for message in messages)
    if answers < min(len(lines), _MOST) - 1:
        messages = []
        for line in lines[-_MOST:-1]:
            record = sources.records.read(line.id)
            if record is not None:
                _append(messages, record)
    old = len(messages)
    if answers < min(len(lines), _MOST) - 1 and request is not None:
        messages += request.context.messages
    elif request is not None:
        old = _last_answer(messages)
    answer = answer_of(newest)
    return messages + ([] if answer is None else [answer]), old, system


def _last_answer(messages: Sequence[Message]) -> int:
    """Return how many messages there are up to the model's last answer."""
    return max((index + 1 for index, message in enumerate(messages) if message.role == "assistant"), default=0)


def _append(messages: list[Message], record: Record) -> None:
    request = request_of(record)
    sent = [] if request is None else request.context.messages
    if len(sent) >= len(messages) and sent:
        messages[:] = sent
    else:
        messages += sent
    answer = answer_of(record)
    if answer is not None:
        messages.append(answer)


def _system_of(request: Request) -> str:
    system = request.context.system
    if isinstance(system, str):
        return system
    return "\n".join(part.text for part in system or () if isinstance(part, Text))


def request_of(record: Record) -> Request | None:
    """Return the canonical request of a client, or None if it cannot be read."""
    try:
        if wire_of(record, "client_request"):
            return dialect(record.wire).decode_request(record.client_request.json, record.path)
        return msgspec.json.decode(record.client_request.data, type=Request)
    except (ToolwireError, msgspec.MsgspecError, UnicodeError):
        return None


def answer_of(record: Record) -> Message | None:
    """Return the message that the client received, or None if there is none."""
    body, wire = record.client_answer, wire_of(record, "client_answer")
    if not body.data or not 200 <= record.status < 300:
        return None
    try:
        if not wire:
            return msgspec.json.decode(body.data, type=Response).message
        if body.frames:
            decoder = dialect(wire).decode_stream()
            return accumulate([*decoder.feed(body.data), *decoder.close()]).message
        return dialect(wire).decode_response(body.json).message
    except (ToolwireError, msgspec.MsgspecError, UnicodeError):
        return None


_OLD_AND_NEW = (("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("old", "new"))


def _add_diffs(turn: ShownTurn) -> None:
    """Add to calls that edit a text what they take out and what they put in."""
    for piece in turn.pieces:
        arguments = piece.arguments if type(piece.arguments) is dict else {}
        for old, new in _OLD_AND_NEW:
            if isinstance(arguments.get(old), str) and isinstance(arguments.get(new), str):
                piece.diff = _diff(arguments[old], arguments[new])
                break


def _diff(old: str, new: str) -> list[tuple[str, str]]:
    """Return the lines of a diff, each with its sign: `-`, `+` or a space."""
    lines = difflib.unified_diff(old.splitlines()[:_DIFF_LINES], new.splitlines()[:_DIFF_LINES], n=2, lineterm="")
    return [(line[:1], line[1:]) for line in list(lines)[2:] if not line.startswith("@@")]


def send_media(sources: Sources, request: PageRequest) -> File:
    """Return an image of a request. Only formats that run nothing are sent."""
    record = find_record(sources, request.args[0])
    decoded = request_of(record)
    messages = [] if decoded is None else decoded.context.messages
    index, position = int(request.args[1]), int(request.args[2])
    parts = messages[index].parts if index < len(messages) else []
    part = parts[position] if position < len(parts) else None
    if not isinstance(part, Image) or not part.data or part.media_type not in IMAGES:
        raise Missing("there is no such image")
    try:
        return File(msgspec.convert(part.data, bytes), str(part.media_type))
    except msgspec.ValidationError:
        raise Missing("this image is not Base64") from None
