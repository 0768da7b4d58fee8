"""Messages of Ollama: one canonical message for each message of the wire.

Rules of this file:
- Words in several parts are joined by a line break; those of an answer are one text that had been cut.
- A result that stands within a user's message becomes a message of its own, before the words.
- The server reads a role in any case; how it was spelled is kept.
"""

from typing import Any

from msgspec.structs import replace

from toolwire.dialects.ollama.calls import (
    decode_calls,
    decode_result,
    encode_call,
    encode_result,
    link_result,
)
from toolwire.dialects.ollama.parts import CALL, DIALECT, WIRE, MessageSoFar, encode_part, take_images
from toolwire.encoding.ledger import Ledger, is_unparsed, made_by, spelling_of, take_entries
from toolwire.encoding.linking import link_results
from toolwire.encoding.quirks import Quirks
from toolwire.types import ROLES, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from toolwire.types.spelling.ollama import OllamaCallSpelling, OllamaMessageSpelling


def decode_messages(bodies: list[Any], first: int = 0) -> list[Message]:
    """Read the messages of a request, the `first` of this number; link results without ids to the calls before."""
    messages = [_decode_message(body, place) for place, body in enumerate(bodies, first)]
    unlinked = any(message.role == "tool" and message.tool_call_id is None for message in messages)
    return _linked(messages) if unlinked else messages


def _linked(messages: list[Message]) -> list[Message]:
    """Give each result without an id that of the call which it answers."""
    linked = list(messages)
    for (place, _), (_, call) in link_results(messages, by_order=True).items():
        if messages[place].tool_call_id is None:
            linked[place] = link_result(messages[place], call)
    return linked


def _decode_message(body: Any, place: int) -> Message:
    """Read one message; one that is not understood is kept whole."""
    raw_role = body.get("role") if type(body) is dict else None
    role = raw_role.lower() if type(raw_role) is str else None
    if role == "tool":
        return decode_result(body)
    if role not in ROLES:
        return WIRE.unparsed_message(body)
    unparsed = body.copy()
    del unparsed["role"]
    return _decode_content(role, unparsed, OllamaMessageSpelling(role=None if role == raw_role else raw_role), place)


def decode_answer(body: dict[str, Any], place: int = 0) -> Message:
    """Read the message of a response."""
    unparsed = body.copy()
    role = unparsed.get("role")
    if type(role) is not str or role.lower() != "assistant":
        spelling = OllamaMessageSpelling(has_no_role="role" not in body)
        return _decode_content("assistant", unparsed, spelling, place)
    del unparsed["role"]
    spelling = OllamaMessageSpelling(role=None if role == "assistant" else role)
    return _decode_content("assistant", unparsed, spelling, place)


def _decode_content(role: Any, unparsed: dict[str, Any], spelling: OllamaMessageSpelling, place: int) -> Message:
    parts: list[Part] = []
    empty = {}
    for key, kind in (("thinking", Thinking), ("content", Text)):
        text = unparsed.get(key)
        if type(text) is str:
            del unparsed[key]
            if text:
                parts.append(kind(text=text, opaque=WIRE.plain))
            else:
                empty[key] = text
    parts += take_images(unparsed)
    if calls := take_entries(unparsed, "tool_calls"):
        parts += decode_calls(calls, place)
    content: str | list[Part] = parts
    if len(parts) == 1 and type(parts[0]) is Text:
        content = parts[0].text
    elif not parts and "content" in empty:
        content = empty.pop("content")
    if empty:
        spelling = replace(spelling, constants=empty)
    return Message(role, content, None, None, WIRE.mark(unparsed, spelling))


def encode_messages(messages: Any, ledger: Ledger, first: int = 0) -> list[dict[str, Any]]:
    """Write the messages of a request, the `first` of this number."""
    bodies: list[dict[str, Any]] = []
    names: dict[str | None, str] = {}
    for place, message in enumerate(messages, first):
        ledger.is_native = made_by(message.opaque, DIALECT)
        ledger.path = ("messages", place)
        encode_message(message, ledger, bodies, names)
    return bodies


def encode_message(message: Message, ledger: Ledger, bodies: list[Any], names: dict[str | None, str]) -> None:
    """Write one message, as the messages that this wire needs for it."""
    content, role = message.content, message.role
    if is_unparsed(message, DIALECT):
        bodies.append(content[0].value)  # type: ignore[union-attr,index]
    elif role == "tool":
        _encode_results(message, ledger, bodies, names)
    elif type(content) is str:
        bodies.append(_close({**_begin(message, ledger), "content": content}, message, ledger))
    else:
        said = _say(message, ledger, bodies, names)
        if ledger.is_native or role == "assistant" or not content or said.words or said.pictures:
            bodies.append(_write(said, message, ledger))
        else:
            _close({}, message, ledger)


def encode_answer(message: Message, ledger: Ledger) -> dict[str, Any]:
    """Write the message of a response."""
    return _write(_say(message, ledger, None, {}), message, ledger)


def _say(message: Message, ledger: Ledger, bodies: list[Any] | None, names: dict[str | None, str]) -> MessageSoFar:
    said = MessageSoFar()
    calls = message.role == "assistant" or ledger.is_native
    for place, part in enumerate(message.parts):
        ledger.part_index = place
        if type(part) is ToolCall and calls:
            if bodies is None and not (part.runs or made_by(part.opaque, DIALECT)):
                ledger.lose_call(part)
                continue
            said.order(CALL, ledger)
            said.calls.append(encode_call(part, len(said.calls), ledger))
            names[part.id] = part.name
        elif type(part) is ToolResult and bodies is not None:
            bodies.append(encode_result(part, message, ledger, names))
        elif type(part) is Opaque and type(part.spelling) is OllamaCallSpelling:
            said.calls.append(part.value)
        else:
            encode_part(part, said, ledger, message.role)
    ledger.part_index = None
    return said


def _write(said: MessageSoFar, message: Message, ledger: Ledger) -> dict[str, Any]:
    body = _begin(message, ledger)
    said.write(body, ledger, "" if message.role == "assistant" else "\n")
    return _close(body, message, ledger)


def _begin(message: Message, ledger: Ledger) -> dict[str, Any]:
    """Write the role of a message, as it was spelled as long as it is the same."""
    role: str = message.role
    if ledger.is_native:
        spelling = spelling_of(message.opaque, OllamaMessageSpelling)
        if spelling.has_no_role or "role" in message.opaque.value:  # type: ignore[union-attr]
            return {}
        return {"role": spelling.role if spelling.role is not None and spelling.role.lower() == role else role}
    if role == "developer":
        ledger.lose("role", "developer", f"{DIALECT} knows only the system", "approximated")
        role = "system"
    return {"role": role}


def _close(body: dict[str, Any], message: Message, ledger: Ledger) -> dict[str, Any]:
    ledger.lose_participant(message)
    return ledger.replay(body, message.opaque)


def _encode_results(message: Message, ledger: Ledger, bodies: list[Any], names: dict[str | None, str]) -> None:
    for place, part in enumerate(message.parts):
        ledger.part_index = place
        body = encode_result(part, message, ledger, names)
        if body is not None:
            bodies.append(ledger.replay(body, message.opaque) if ledger.is_native else body)
    ledger.part_index = None
    if not ledger.is_native:
        ledger.lose_opaque(message.opaque)
    ledger.lose_around_result(message)


def decode_later(bodies: list[Any], place: int, _made: int) -> list[Message] | None:
    """Read messages that stand at a place of their conversation, and need nothing of what stands before."""
    return decode_messages(bodies, place)


def encode_later(messages: list[Message], place: int, _model: str | None, quirks: Quirks) -> tuple[list[Any], Ledger]:
    """Write messages that stand at a place of their conversation, and need nothing of what stands before."""
    ledger = Ledger(WIRE, quirks)
    return encode_messages(messages, ledger, place), ledger
