"""The turns of a conversation by what its client repeats of them, and what is kept of one that its wire cannot carry.

Rules of this file:
- A turn is known by the ids of its calls, or by its words where the client's wire has no ids.
- What was kept goes back to the provider that made it, and to no other; the client's ids stay.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire.translation.declared import Returning
from toolwire.types import Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from toolwire.types.readable import readable
from toolwire.wire.names import fingerprint, is_generated_id

_write = msgspec.json.Encoder().encode


@readable
class KeptTurn(Struct, frozen=True):
    """A turn as its provider told it."""

    maker: str
    parts: list[Part]


read_kept: Callable[[bytes], KeptTurn] = msgspec.json.Decoder(KeptTurn).decode


def joined(messages: Sequence[Message]) -> Sequence[Message]:
    """Give messages whose turns are whole: what the model said in a row is one message."""
    turns: list[Message] = []
    for speaks, group in groupby(messages, lambda message: message.role == "assistant"):
        run = list(group)
        turns += [_as_one(run)] if speaks and len(run) > 1 else run
    return messages if len(turns) == len(messages) else turns


def _as_one(run: Sequence[Message]) -> Message:
    """Return one message with the parts of several; what is empty in the later ones is left out."""
    first, *others = run
    more = [part for message in others for part in message.parts if not isinstance(part, Text) or part.text]
    return replace(first, content=[*first.parts, *more])


def turn_keys(
    messages: Sequence[Message], start: int = 0, gist: bytes = b"", *, by_call_id: bool
) -> Iterator[tuple[int, str]]:
    """Yield the index and the key of each turn of the model in `messages`.

    The first message has the index `start`, and follows a message whose gist is `gist`.
    """
    before: Message | None = None
    for index, message in enumerate(messages, start):
        if message.role == "assistant":
            yield index, turn_key(gist if before is None else before, index, message, by_call_id=by_call_id)
        before = message


def turn_key(before: Message | bytes, index: int, message: Message, *, by_call_id: bool) -> str:
    """Return the key of a turn, made of what its client will send again.

    `by_call_id` says whether the client's wire repeats the ids of calls.
    """
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    first = calls[0].id if calls and by_call_id else None
    if first and not is_generated_id(first):  # an id that was made is the same in conversations that begin alike
        return f"call:{first}"
    earlier = before if isinstance(before, bytes) else gist_of(before)
    said = [piece for piece in (earlier, gist_of(message)) if piece]
    return f"turn:{hashlib.sha256(b'[%d,%b]' % (index, b','.join(said))).hexdigest()}"


def gist_of(message: Message) -> bytes:
    """Write what the key of a turn is made of: who speaks, the words, what is called, and what is answered."""
    gist = [message.role, message.text, *filter(None, map(_gist, message.parts))]
    try:
        return _write(gist)
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError):  # a body that is given as a value may be any
        return _write(fingerprint(gist))


def _gist(part: Part) -> Any:
    match part:
        case ToolCall():
            return _asks(part)
        case ToolResult(tool_call_id=name) if not is_generated_id(name):
            return name  # in another conversation it is another one, and clients cut the words of old results
        case ToolResult(content=str(words)):
            return words
        case ToolResult(content=parts):
            return "".join(part.text for part in parts if isinstance(part, Text))
    return None


def as_told(parts: list[Part], back: Returning | None) -> list[Part]:
    """Give the parts of a turn as its client was told them."""
    return parts if back is None else [back.call(part) if isinstance(part, ToolCall) else part for part in parts]


def is_bound(part: Part) -> bool:
    """Whether a part holds what only its provider understands, and needs again."""
    match part:
        case Thinking():
            return True
        case ToolCall(opaque=Opaque(value=value)):
            return bool(value)
    return False


def restored(message: Message, kept: KeptTurn, maker: str, back: Returning | None) -> Message:
    """Give a turn as its provider told it, if it made it and the client repeats it; ids are the client's."""
    if kept.maker != maker:
        return message
    said, known = message.parts, as_told(kept.parts, back)
    if _meaning(said) != _meaning(known):
        return replace(message, content=list(_marked(said, known, kept.parts)))
    calls = iter([part for part in said if isinstance(part, ToolCall)])
    parts = [replace(part, id=next(calls).id) if isinstance(part, ToolCall) else part for part in kept.parts]
    return replace(message, content=parts)


def _meaning(parts: Iterable[Part]) -> Any:
    """Give what a turn says: a client may repeat its texts as one, and with other white space."""
    words = "".join(part.text for part in parts if isinstance(part, Text))
    return "".join(words.split()), [_asks(part) for part in parts if isinstance(part, ToolCall)]


def _asks(call: ToolCall) -> list[Any]:
    """Give what a call says: a client may repeat it with nulls for what it does not (Codex, openai 3.52.0)."""
    said = {key: value for key, value in call.plain_arguments.items() if value not in (None, {})}
    return [call.name, call.raw if call.custom else said]


def _marked(parts: Iterable[Part], known: Iterable[Part], kept: Iterable[Part]) -> Iterator[Part]:
    """Give the parts of a turn that the client has changed: the same calls carry what their provider said of them."""
    pairs = [(one, other) for one, other in zip(known, kept, strict=True) if isinstance(one, ToolCall)]
    for part in parts:
        match part:
            case ToolCall():
                same: Any = next((other for one, other in pairs if _asks(one) == _asks(part)), None)
                yield part if same is None else replace(same, id=part.id)
            case _:
                yield part
