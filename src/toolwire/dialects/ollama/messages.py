"""Messages of Ollama: one canonical message for each message of the wire.

Rules of this file:
- Several texts of a message are joined by a line break. Those of an assistant's message are joined without one,
  because they are pieces of one text.
- A result within a user's message becomes a message of its own, before the text.
- The server reads a role in any case, such as `User`. The spelling is kept.
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
from toolwire.dialects.ollama.parts import CALL_RANK, DIALECT, WIRE, MessageBuilder, encode_part, take_images
from toolwire.encoding.ledger import Ledger, is_unparsed, made_by, spelling_of, take_entries
from toolwire.encoding.linking import link_results
from toolwire.encoding.quirks import Quirks
from toolwire.types import ROLES, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from toolwire.types.spelling.ollama import OllamaCallSpelling, OllamaMessageSpelling


def decode_messages(bodies: list[Any], first: int = 0) -> list[Message]:
    """Decode messages of a request. The first of `bodies` has the index `first` in the conversation.

    A result without an id is linked to the call that it answers.
    """
    messages = [_decode_message(body, index) for index, body in enumerate(bodies, first)]
    has_unlinked = any(message.role == "tool" and message.tool_call_id is None for message in messages)
    return _link_results(messages) if has_unlinked else messages


def _link_results(messages: list[Message]) -> list[Message]:
    """Return `messages` with the id of its call in each result that has none."""
    linked = list(messages)
    for (index, _), (_, call) in link_results(messages, by_order=True).items():
        if messages[index].tool_call_id is None:
            linked[index] = link_result(messages[index], call)
    return linked


def _decode_message(body: Any, index: int) -> Message:
    """Decode one message. A message that is not understood becomes an opaque part."""
    raw_role = body.get("role") if type(body) is dict else None
    role = raw_role.lower() if type(raw_role) is str else None
    if role == "tool":
        return decode_result(body)
    if role not in ROLES:
        return WIRE.unparsed_message(body)
    unparsed = body.copy()
    del unparsed["role"]
    return _decode_content(role, unparsed, OllamaMessageSpelling(role=None if role == raw_role else raw_role), index)


def decode_answer(body: dict[str, Any], message_number: int = 0) -> Message:
    """Decode the message of a response. `message_number` makes the ids of its calls unique."""
    unparsed = body.copy()
    role = unparsed.get("role")
    if type(role) is not str or role.lower() != "assistant":
        spelling = OllamaMessageSpelling(has_no_role="role" not in body)
        return _decode_content("assistant", unparsed, spelling, message_number)
    del unparsed["role"]
    spelling = OllamaMessageSpelling(role=None if role == "assistant" else role)
    return _decode_content("assistant", unparsed, spelling, message_number)


def _decode_content(
    role: Any, unparsed: dict[str, Any], spelling: OllamaMessageSpelling, message_number: int
) -> Message:
    parts: list[Part] = []
    empty = {}
    for key, part_type in (("thinking", Thinking), ("content", Text)):
        text = unparsed.get(key)
        if type(text) is str:
            del unparsed[key]
            if text:
                parts.append(part_type(text=text, opaque=WIRE.plain))
            else:
                empty[key] = text
    parts += take_images(unparsed)
    if calls := take_entries(unparsed, "tool_calls"):
        parts += decode_calls(calls, message_number)
    content: str | list[Part] = parts
    if len(parts) == 1 and type(parts[0]) is Text:
        content = parts[0].text
    elif not parts and "content" in empty:
        content = empty.pop("content")
    if empty:
        spelling = replace(spelling, constants=empty)
    return Message(role, content, None, None, WIRE.mark(unparsed, spelling))


def encode_messages(messages: Any, ledger: Ledger, first: int = 0) -> list[dict[str, Any]]:
    """Encode messages of a request. The first of `messages` has the index `first` in the conversation."""
    bodies: list[dict[str, Any]] = []
    names: dict[str | None, str] = {}
    for index, message in enumerate(messages, first):
        ledger.is_native = made_by(message.opaque, DIALECT)
        ledger.path = ("messages", index)
        encode_message(message, ledger, bodies, names)
    return bodies


def encode_message(message: Message, ledger: Ledger, bodies: list[Any], names: dict[str | None, str]) -> None:
    """Encode one message, and append it to `bodies`. Each result in it becomes a message of its own.

    `names` has the tool of each call by its id, and is extended by the calls of `message`.
    """
    content, role = message.content, message.role
    if is_unparsed(message, DIALECT):
        bodies.append(content[0].value)  # type: ignore[union-attr,index]
    elif role == "tool":
        _encode_results(message, ledger, bodies, names)
    elif type(content) is str:
        bodies.append(_finish_message({**_encode_role(message, ledger), "content": content}, message, ledger))
    else:
        builder = _build_message(message, ledger, bodies, names)
        if ledger.is_native or role == "assistant" or not content or builder.texts or builder.images:
            bodies.append(_encode_built(builder, message, ledger))
        else:
            _finish_message({}, message, ledger)


def encode_answer(message: Message, ledger: Ledger) -> dict[str, Any]:
    """Encode the message of a response."""
    return _encode_built(_build_message(message, ledger, None, {}), message, ledger)


def _build_message(
    message: Message, ledger: Ledger, bodies: list[Any] | None, names: dict[str | None, str]
) -> MessageBuilder:
    """Encode the parts of a message.

    The results among them are appended to `bodies`. If that is None, the message is an answer, in which a call that
    must not run is a loss.
    """
    builder = MessageBuilder()
    has_calls = message.role == "assistant" or ledger.is_native
    for index, part in enumerate(message.parts):
        ledger.part_index = index
        if type(part) is ToolCall and has_calls:
            if bodies is None and not (part.runs or made_by(part.opaque, DIALECT)):
                ledger.lose_call(part)
                continue
            builder.note_order(CALL_RANK, ledger)
            builder.calls.append(encode_call(part, len(builder.calls), ledger))
            names[part.id] = part.name
        elif type(part) is ToolResult and bodies is not None:
            bodies.append(encode_result(part, message, ledger, names))
        elif type(part) is Opaque and type(part.spelling) is OllamaCallSpelling:
            builder.calls.append(part.value)
        else:
            encode_part(part, builder, ledger, message.role)
    ledger.part_index = None
    return builder


def _encode_built(builder: MessageBuilder, message: Message, ledger: Ledger) -> dict[str, Any]:
    body = _encode_role(message, ledger)
    builder.write_to(body, ledger, "" if message.role == "assistant" else "\n")
    return _finish_message(body, message, ledger)


def _encode_role(message: Message, ledger: Ledger) -> dict[str, Any]:
    """Return the role of a message as a body. A role of this wire keeps its spelling."""
    role: str = message.role
    if ledger.is_native:
        spelling = spelling_of(message.opaque, OllamaMessageSpelling)
        if spelling.has_no_role or "role" in message.opaque.value:  # type: ignore[union-attr]
            return {}
        return {"role": spelling.role if spelling.role is not None and spelling.role.lower() == role else role}
    if role == "developer":
        ledger.lose("role", "developer", f"{DIALECT} has no role developer: system is sent", "approximated")
        role = "system"
    return {"role": role}


def _finish_message(body: dict[str, Any], message: Message, ledger: Ledger) -> dict[str, Any]:
    """Return `body` with the unparsed keys of the message, and report the fields that this wire does not have."""
    ledger.lose_participant(message)
    return ledger.replay(body, message.opaque)


def _encode_results(message: Message, ledger: Ledger, bodies: list[Any], names: dict[str | None, str]) -> None:
    for index, part in enumerate(message.parts):
        ledger.part_index = index
        body = encode_result(part, message, ledger, names)
        if body is not None:
            bodies.append(ledger.replay(body, message.opaque) if ledger.is_native else body)
    ledger.part_index = None
    if not ledger.is_native:
        ledger.lose_opaque(message.opaque)
    ledger.lose_around_result(message)


def decode_later(bodies: list[Any], index: int, _generated_count: int) -> list[Message] | None:
    """Decode later messages of a conversation without the earlier ones. The first has the index `index`."""
    return decode_messages(bodies, index)


def encode_later(messages: list[Message], index: int, _model: str | None, quirks: Quirks) -> tuple[list[Any], Ledger]:
    """Encode later messages of a conversation without the earlier ones. The first has the index `index`.

    Return the messages, and the ledger of their losses and ids.
    """
    ledger = Ledger(WIRE, quirks)
    return encode_messages(messages, ledger, index), ledger
