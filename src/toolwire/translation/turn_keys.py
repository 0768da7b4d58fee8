"""The memory keys of a conversation's turns, and the turns that are stored because the client's wire cannot carry them.

A turn is one answer of the model. The client sends it back in the next request, but without the signatures and other
data for which its wire has no place.

Rules of this file:
- The key of a turn is the id of its first call. If it has no call, or if the client's wire has no ids, the key is
  made of the turn's content and of the message before it.
- A stored turn is restored only for the provider that made it. The ids of its calls stay those of the client.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire.translation.tool_restoration import ToolRestorer
from toolwire.types import Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from toolwire.types.readable import readable
from toolwire.wire.names import fingerprint, is_generated_id

_write = msgspec.json.Encoder().encode


@readable
class StoredTurn(Struct, frozen=True):
    """A turn as its provider wrote it. `maker` is the name of the provider."""

    maker: str
    parts: list[Part]


read_stored_turn: Callable[[bytes], StoredTurn] = msgspec.json.Decoder(StoredTurn).decode


def join_turns(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages in which each turn of the model is one message. Some wires split a turn into several."""
    turns: list[Message] = []
    for is_model, group in groupby(messages, lambda message: message.role == "assistant"):
        run = list(group)
        turns += [_merge(run)] if is_model and len(run) > 1 else run
    return messages if len(turns) == len(messages) else turns


def _merge(run: Sequence[Message]) -> Message:
    """Return one message with the parts of several. Empty texts of the later messages are left out."""
    first, *others = run
    more = [part for message in others for part in message.parts if not isinstance(part, Text) or part.text]
    return replace(first, content=[*first.parts, *more])


def turn_keys(
    messages: Sequence[Message], start: int = 0, key_material: bytes = b"", *, by_call_id: bool
) -> Iterator[tuple[int, str]]:
    """Yield the index and the key of each turn of the model in `messages`.

    The first message has the index `start`. `key_material` is that of the message before it.
    """
    before: Message | None = None
    for index, message in enumerate(messages, start):
        if message.role == "assistant":
            yield index, turn_key(key_material if before is None else before, index, message, by_call_id=by_call_id)
        before = message


def turn_key(before: Message | bytes, index: int, message: Message, *, by_call_id: bool) -> str:
    """Return the key of a turn. It is made only of values that the client will send again.

    `before` is the message before the turn, or its key material, and `index` is the index of the turn. `by_call_id` is
    true if the client's wire repeats the ids of calls.
    """
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    first = calls[0].id if calls and by_call_id else None
    if first and not is_generated_id(first):  # a generated id is the same in conversations that begin alike
        return f"call:{first}"
    earlier = before if isinstance(before, bytes) else key_material(before)
    pieces = [piece for piece in (earlier, key_material(message)) if piece]
    return f"turn:{hashlib.sha256(b'[%d,%b]' % (index, b','.join(pieces))).hexdigest()}"


def key_material(message: Message) -> bytes:
    """Return the part of a turn's key that depends on `message`: its role, its text, its calls and their results."""
    text = "" if message.role == "tool" else message.text  # the parts have the results
    material = [message.role, text, *filter(None, map(_part_key_material, message.parts))]
    try:
        return _write(material)
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError):  # a dict may have values that are not JSON
        return _write(fingerprint(material))


def _part_key_material(part: Part) -> Any:
    match part:
        case ToolCall():
            return _call_key_material(part)
        case ToolResult(tool_call_id=call_id) if not is_generated_id(call_id):
            return call_id  # not the text: clients shorten old results
        case ToolResult(content=str(text)):
            return text
        case ToolResult(content=parts):
            return "".join(part.text for part in parts if isinstance(part, Text))
    return None


def client_parts(parts: list[Part], restorer: ToolRestorer | None) -> list[Part]:
    """Return the parts of a turn as its client received them."""
    return (
        parts
        if restorer is None
        else [restorer.restore_call(part) if isinstance(part, ToolCall) else part for part in parts]
    )


def has_provider_data(part: Part) -> bool:
    """Return True if a part has data that its provider needs again, and that no other provider understands."""
    match part:
        case Thinking():
            return True
        case ToolCall(opaque=Opaque(value=value)):
            return bool(value)
    return False


def restore_turn(message: Message, stored: StoredTurn, provider_name: str, restorer: ToolRestorer | None) -> Message:
    """Return a turn as its provider wrote it, with the client's ids.

    It is restored only if this provider made it. If the client has changed the turn, only the calls that it repeats are
    restored.
    """
    if stored.maker != provider_name:
        return message
    received, sent = message.parts, client_parts(stored.parts, restorer)
    if _comparable(received) != _comparable(sent):
        return replace(message, content=list(_with_provider_calls(received, sent, stored.parts)))
    ids = iter([part.id for part in received if isinstance(part, ToolCall)])
    parts = [replace(part, id=next(ids)) if isinstance(part, ToolCall) else part for part in stored.parts]
    if any(isinstance(part, ToolResult) for part in parts):  # of a search that toolwire has answered
        parts = _with_client_links(parts, stored.parts)
    return replace(message, content=parts)


def _with_client_links(parts: Sequence[Part], stored: Sequence[Part]) -> list[Part]:
    """Return parts whose results are linked to the client's ids of their calls."""
    pairs = zip(stored, parts, strict=True)
    ids = {old.id: new.id for old, new in pairs if isinstance(old, ToolCall) and isinstance(new, ToolCall)}
    return [
        replace(part, tool_call_id=ids.get(part.tool_call_id)) if isinstance(part, ToolResult) else part
        for part in parts
    ]


def _comparable(parts: Iterable[Part]) -> Any:
    """Return the content of a turn for comparison. A client may join its texts, and change the white space."""
    text = "".join(part.text for part in parts if isinstance(part, Text))
    return "".join(text.split()), [_call_key_material(part) for part in parts if isinstance(part, ToolCall)]


def _call_key_material(call: ToolCall) -> list[Any]:
    """Return the name and the arguments of a call for comparison.

    A client may add nulls for arguments that the model left out (Codex, openai 3.52.0).
    """
    arguments = {key: value for key, value in call.plain_arguments.items() if value not in (None, {})}
    return [call.name, call.raw if call.custom else arguments]


def _with_provider_calls(parts: Iterable[Part], sent: Iterable[Part], stored: Iterable[Part]) -> Iterator[Part]:
    """Yield the parts of a turn that the client has changed. A call that it repeats is replaced by the stored one."""
    pairs = [(call, original) for call, original in zip(sent, stored, strict=True) if isinstance(call, ToolCall)]
    for part in parts:
        match part:
            case ToolCall():
                same: Any = next(
                    (one for call, one in pairs if _call_key_material(call) == _call_key_material(part)), None
                )
                yield part if same is None else replace(same, id=part.id)
            case _:
                yield part
