"""The items of a conversation, and the messages that they make.

Rules of this file:
- What the model says in a row is one message of the assistant; each result is a message of its own.
- What a client sends and nobody understands is a message of its own too, kept whole.
"""

from itertools import islice
from typing import Any

from toolwire.dialects.openai_responses.answers import decode_turn, encode_answer
from toolwire.dialects.openai_responses.calls import CALLS, RESULTS, Items, decode_result, encode_result
from toolwire.dialects.openai_responses.parts import (
    DIALECT,
    MESSAGE,
    PLAIN_MESSAGE,
    WIRE,
    decode_inputs,
    encode_input,
    is_plain_text,
    lose_part,
    take_said,
)
from toolwire.ledger import Ledger, form_of
from toolwire.types import Message, Opaque, ToolResult

SPEAKERS = ("user", "system", "developer")
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
SHORT_MESSAGE = 2
WHOLE = Opaque(DIALECT, {}, {"whole": True})


def decode_messages(items: list[Any]) -> list[Message]:
    """Read the items of a request."""
    messages: list[Message] = []
    turn: list[Any] = []
    for item in items:
        kind = item.get("type", "message") if type(item) is dict else None
        if kind == "message":
            said = item.get("role") == "assistant"
        elif kind in CALLS:
            said = True
        elif kind in RESULTS:
            said = False
        else:
            said = type(kind) is str and kind not in CLIENT_ITEMS
        if said:
            turn.append(item)
            continue
        if turn:
            messages.append(decode_turn(turn, len(messages)))
            turn = []
        if kind in RESULTS:
            result = decode_result(item)
            messages.append(Message("tool", [result], result.name, result.tool_call_id, WIRE.plain))
        else:
            messages.append(_decode_given(item, kind))
    if turn:
        messages.append(decode_turn(turn, len(messages)))
    return messages


def _decode_given(item: Any, kind: Any) -> Message:
    """Read an item that is no result: words, or what is kept whole."""
    if kind == "message" and (role := item.get("role")) in SPEAKERS:
        if len(item) == PLAIN_MESSAGE and type(content := item.get("content")) is str and "type" in item:
            return Message(role, content, None, None, MESSAGE)
        return _decode_words(item, role)
    return Message("user", [Opaque(DIALECT, item)], opaque=WHOLE)


def _decode_words(item: dict[str, Any], role: Any) -> Message:
    content = item.get("content")
    if type(content) is str and len(item) == SHORT_MESSAGE:
        return Message(role, content, None, None, WIRE.plain)
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
    ledger, bodies = items.ledger, items.bodies
    for place, message in islice(enumerate(messages), first, None):
        content, opaque, role = message.content, message.opaque, message.role
        bare = opaque is None or (not opaque.value and opaque.dialect != DIALECT)
        if type(content) is str and message.name is None and message.tool_call_id is None:
            if opaque is MESSAGE or (bare and role != "developer"):
                bodies.append({"type": "message", "role": role, "content": content})
                continue
            if opaque is WIRE.plain:
                bodies.append({"role": role, "content": content})
                continue
        ledger.at = ("messages", place)
        if role == "tool" and (bare or opaque is WIRE.plain) and _encode_lone_result(message, items):
            continue
        encode_message(message, items)
    ledger.at = ()
    return bodies


def _encode_lone_result(message: Message, items: Items) -> bool:
    """Write a message that holds one result and says nothing beside it, if it is one."""
    content: Any = message.content
    part = content[0] if len(content) == 1 else None
    if type(part) is not ToolResult:
        return False
    call_id, name = message.tool_call_id, message.name
    if (call_id is not None and call_id != part.tool_call_id) or (name is not None and name != part.name):
        return False
    ledger = items.ledger
    ledger.own, ledger.part = message.opaque is WIRE.plain, 0
    items.bodies.append(encode_result(part, ledger, custom=part.tool_call_id in items.custom))
    ledger.part = None
    return True


def encode_message(message: Message, items: Items) -> None:
    """Write one message."""
    ledger, content, opaque, role = items.ledger, message.content, message.opaque, message.role
    ledger.own = opaque is not None and opaque.dialect == DIALECT
    if (opaque is not None and opaque.value) or message.name is not None or message.tool_call_id is not None:
        _lose_around(message, ledger)
    before = len(items.bodies)
    if type(content) is str:
        _add_words(message, content, items)
    elif role == "assistant":
        encode_answer(message, items)
    elif role == "tool":
        _encode_results(message, items)
    elif content and "whole" in form_of(opaque, DIALECT) and type(content[0]) is Opaque:  # type: ignore[index]
        items.add(content[0].value)  # type: ignore[index]
    else:
        _encode_words(message, items)
    if len(items.bodies) == before:
        ledger.lose("", "message", f"nothing of it can be said in {DIALECT}")


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
