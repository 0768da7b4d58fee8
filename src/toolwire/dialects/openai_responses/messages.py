"""The items of a conversation, and the messages that they make.

Rules of this file:
- Everything that the model says in a row is one message of the assistant; a result is a message of the tool.
- What a client sends and nobody understands is a message of its own, kept whole.
"""

from typing import Any

from toolwire.dialects.openai_responses.answers import (
    MESSAGE,
    PLAIN_MESSAGE,
    Items,
    Turn,
    encode_answer,
    take_said,
)
from toolwire.dialects.openai_responses.calls import RESULTS, decode_result, encode_result
from toolwire.dialects.openai_responses.parts import (
    DIALECT,
    WIRE,
    decode_inputs,
    encode_input,
    is_plain_text,
    lose_part,
)
from toolwire.ledger import Ledger, form_of, made_by
from toolwire.types import Message, Opaque, ToolResult

SPEAKERS = frozenset({"user", "system", "developer"})
CLIENT_ITEMS = frozenset(
    {
        "additional_tools",
        "apply_patch_call_output",
        "compaction_trigger",
        "computer_call_output",
        "configuration_update",
        "item_reference",
        "local_shell_call_output",
        "mcp_approval_response",
    }
)
WHOLE = Opaque(DIALECT, {}, {"whole": True})


def decode_messages(items: list[Any]) -> list[Message]:
    """Read the items of a request."""
    messages: list[Message] = []
    turn: Turn | None = None
    for item in items:
        side = _side(item)
        if side == "assistant":
            if turn is None:
                turn = Turn(len(messages))
            turn.read(item)
            continue
        if turn is not None:
            messages.append(turn.message())
            turn = None
        if side == "tool":
            messages.append(Message("tool", [decode_result(item)], opaque=WIRE.plain))
        elif side == "words":
            messages.append(_decode_words(item))
        else:
            messages.append(Message("user", [Opaque(DIALECT, item)], opaque=WHOLE))
    if turn is not None:
        messages.append(turn.message())
    return messages


def _side(item: Any) -> str:
    """Tell on whose side of the conversation an item stands."""
    if type(item) is not dict:
        return "unknown"
    kind = item.get("type", "message")
    if kind == "message":
        role = item.get("role")
        if role == "assistant":
            return "assistant"
        return "words" if type(role) is str and role in SPEAKERS else "unknown"
    if type(kind) is not str or kind in CLIENT_ITEMS:
        return "unknown"
    return "tool" if kind in RESULTS else "assistant"


def _decode_words(item: dict[str, Any]) -> Message:
    role, content = item["role"], item.get("content")
    if type(content) is str and len(item) <= PLAIN_MESSAGE:
        if "type" not in item and len(item) < PLAIN_MESSAGE:
            return Message(role, content, None, None, WIRE.plain)
        if "type" in item:
            return Message(role, content, None, None, MESSAGE)
    rest = item.copy()
    del rest["role"]
    said = take_said(rest)
    form = {"said": said} if said else None
    if type(content) is str:
        del rest["content"]
        return Message(role, content, None, None, WIRE.own(rest, form))
    if type(content) is list and content:
        del rest["content"]
        return Message(role, decode_inputs(content), None, None, WIRE.own(rest, form))
    return Message(role, [], None, None, WIRE.own(rest, form))


def encode_messages(messages: Any, items: Items, first: int = 0) -> list[Any]:
    """Write the messages of a request from `first` on, as the items that this wire needs for them."""
    ledger = items.ledger
    for place in range(first, len(messages)):
        message = messages[place]
        ledger.at = ("messages", place)
        encode_message(message, items)
    ledger.at = ()
    return items.bodies


def encode_message(message: Message, items: Items) -> None:
    """Write one message."""
    ledger, content, role = items.ledger, message.content, message.role
    ledger.own = made_by(message.opaque, DIALECT)
    opaque = message.opaque
    if (opaque is not None and opaque.value) or message.name is not None or message.tool_call_id is not None:
        _lose_around(message, ledger)
    if type(content) is str:
        _add_words(message, content, items)
    elif role == "assistant":
        encode_answer(message, items)
    elif role == "tool":
        _encode_results(message, items)
    elif "whole" in form_of(message.opaque, DIALECT) and type(content[0]) is Opaque:  # type: ignore[index]
        items.add(content[0].value)  # type: ignore[index]
    else:
        _encode_words(message, items)


def _lose_around(message: Message, ledger: Ledger) -> None:
    """Lose what a message says beside its content and what no item can say."""
    ledger.lose_opaque(message.opaque)
    results = message.parts if message.role == "tool" else []
    for field in ("tool_call_id", "name"):
        given = getattr(message, field)
        if given is None or len(results) > 1:
            continue
        if not results:
            ledger.lose(field, field, f"a {message.role} message of {DIALECT} has no place for it")
        elif given != getattr(results[0], field, None):
            ledger.lose(field, "tool_result", "the result in the message says otherwise")


def _add_words(message: Message, content: Any, items: Items) -> None:
    role, opaque, ledger = message.role, message.opaque, items.ledger
    if ledger.own and opaque is not MESSAGE:
        body: dict[str, Any] = {"role": role}
    else:
        plain = role == "developer" and not ledger.own and not ledger.quirks.developer_role
        body = {"type": "message", "role": "system" if plain else role}
    if content is not None:
        body["content"] = content
    if ledger.own and opaque is not WIRE.plain and opaque is not MESSAGE:
        ledger.replay(body, opaque)
    items.add(body)


def _encode_results(message: Message, items: Items) -> None:
    ledger = items.ledger
    for place, part in enumerate(message.parts):
        ledger.part = place
        if type(part) is ToolResult:
            items.add(encode_result(part, ledger, custom=part.tool_call_id in items.custom))
        else:
            lose_part(part, ledger, "a tool message")
    ledger.part = None


def _encode_words(message: Message, items: Items) -> None:
    """Write a message of parts; a result between them is an item of its own."""
    ledger, parts = items.ledger, message.parts
    blocks: list[Any] = []
    written = False
    for place, part in enumerate(parts):
        ledger.part = place
        if type(part) is ToolResult:
            if blocks:
                _add_words(message, _shortest(blocks, ledger), items)
            blocks, written = [], True
            items.add(encode_result(part, ledger, custom=part.tool_call_id in items.custom))
        else:
            encode_input(part, blocks, ledger, f"a {message.role} message")
    ledger.part = None
    if blocks:
        _add_words(message, _shortest(blocks, ledger), items)
    elif ledger.own and not written:
        _add_words(message, None, items)
    elif not parts:
        _add_words(message, "", items)


def _shortest(blocks: list[Any], ledger: Ledger) -> Any:
    return blocks[0]["text"] if not ledger.own and len(blocks) == 1 and is_plain_text(blocks[0]) else blocks
