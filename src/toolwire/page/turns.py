"""A conversation as turns: texts, thinking apart, and each call beside its result."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from markupsafe import Markup
from msgspec import Struct

from toolwire.page.json_view import show_json
from toolwire.types import (
    Audio,
    Document,
    Image,
    Message,
    Opaque,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from toolwire.waiting.results import write_json

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MediaUrl = Callable[[int, int], str]


class Piece(Struct, kw_only=True):
    """A part of a turn. `kind` is text, thinking, call, result, image or other."""

    kind: str
    title: str = ""
    text: str = ""
    body: Markup | None = None
    result: "Piece | None" = None
    failed: bool = False
    src: str = ""
    arguments: Any = None
    diff: list[tuple[str, str]] = []

    def plain(self) -> dict[str, Any]:
        """Return the piece as a value for JSON."""
        values = {
            "kind": self.kind,
            "title": self.title,
            "text": self.text,
            "failed": self.failed or None,
            "arguments": self.arguments,
        }
        result = None if self.result is None else self.result.plain()
        return {name: value for name, value in (values | {"result": result}).items() if value not in (None, "")}


class ShownTurn(Struct):
    """A message, or what one side said at a time. `is_new` is true if the turn before did not have it."""

    number: int
    role: str
    pieces: list[Piece]
    is_new: bool = False

    def plain(self) -> dict[str, Any]:
        """Return the turn as a value for JSON."""
        return {"number": self.number, "role": self.role, "pieces": [piece.plain() for piece in self.pieces]}


def turns_of(messages: Sequence[Message], media: _MediaUrl = lambda _message, _part: "") -> list[ShownTurn]:
    """Return the turns of a conversation. A result stands beside its call, and not again where it was sent."""
    calls: dict[str, Piece] = {}
    turns: list[ShownTurn] = []
    for index, message in enumerate(messages):
        pieces = list(_pieces_of(message, index, calls, media))
        if pieces:
            turns.append(ShownTurn(index + 1, message.role, pieces))
    return turns


def _pieces_of(message: Message, index: int, calls: dict[str, Piece], media: _MediaUrl) -> Iterator[Piece]:
    for position, part in enumerate(message.parts):
        piece = _piece_of(part, media(index, position))
        if isinstance(part, ToolCall) and part.id is not None:
            calls[part.id] = piece
        if isinstance(part, ToolResult) and part.tool_call_id in calls:
            call = calls.pop(part.tool_call_id)
            call.result, call.failed = piece, piece.failed
        else:
            yield piece


def _piece_of(part: Any, src: str) -> Piece:
    match part:
        case Text():
            return Piece(kind="text", text=part.text)
        case Thinking():
            hidden = "redacted or encrypted" if not part.text else ""
            return Piece(kind="thinking", title="thinking", text=part.text or hidden)
        case ToolCall():
            return _call(part)
        case ToolResult():
            return Piece(kind="result", title=part.name or "result", text=_text_of(part.content), failed=part.is_error)
        case Image():
            return _image(part, src)
        case Document() | Audio():
            return Piece(kind="other", title=type(part).__name__.lower(), text=_describe(part))
        case Refusal():
            return Piece(kind="text", title="refusal", text=part.text)
        case ServerToolCall():
            return Piece(kind="call", title=f"{part.name} (run by the provider)", body=show_json(part.arguments))
        case ServerToolResult() | Opaque():
            return Piece(kind="other", title=type(part).__name__, text=_json(part))
    return Piece(kind="other", title=type(part).__name__, text=_json(part))


def _call(call: ToolCall) -> Piece:
    if call.error is not None or not call.complete:
        reason = call.error or "the call was cut off"
        return Piece(kind="call", title=call.name, text=f"{reason}: {call.raw or ''}", failed=True)
    return Piece(kind="call", title=call.name, body=show_json(call.arguments), arguments=call.arguments)


def _image(image: Image, src: str) -> Piece:
    length = len(image.data or "") * 3 // 4
    words = f"{image.media_type or 'image'}, {length:,} bytes" if image.data else image.url or image.file_id or "image"
    return Piece(kind="image", title="image", text=words, src=src if image.data and image.media_type in IMAGES else "")


def _describe(part: Any) -> str:
    data = getattr(part, "data", None)
    name = getattr(part, "name", None) or getattr(part, "url", None) or ""
    return f"{name} {f'{len(data) * 3 // 4:,} bytes' if data else ''}".strip()


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [part.text if isinstance(part, Text) else f"[{type(part).__name__.lower()}]" for part in content]
    return "\n".join(texts)


def _json(value: Any) -> str:
    try:
        return write_json(msgspec.to_builtins(value))
    except (TypeError, ValueError, RecursionError):
        return repr(value)
