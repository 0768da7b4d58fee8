"""Turns of a Messages conversation.

Rules of this file:
- A turn that was read here is written as that turn. Turns from elsewhere are grouped: all results of an assistant's
  turn and the user's words after them stand in one user's turn, the results first.
- Nothing moves across a turn of the assistant, and no earlier turn changes when later ones are added: prompt caches
  and thinking signatures are bound to what came before.
"""

from typing import Any

from toolwire.dialects.anthropic.calls import decode_call, decode_result, encode_call, encode_result
from toolwire.dialects.anthropic.parts import (
    DIALECT,
    WIRE,
    decode_part,
    encode_document,
    encode_image,
    encode_server_call,
    encode_server_result,
    encode_text,
    encode_thinking,
)
from toolwire.ledger import Ledger, form_of, made_by
from toolwire.standins import remind
from toolwire.types import (
    Document,
    Image,
    Message,
    Opaque,
    Part,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

EMPTY = "(empty)"


def decode_messages(bodies: list[Any]) -> list[Message]:
    """Read the turns of a request."""
    return [decode_message(body, place) for place, body in enumerate(bodies)]


def decode_message(body: Any, place: int = 0) -> Message:
    """Read one turn; one that is not understood is kept whole."""
    role = body.get("role") if type(body) is dict else None
    if role not in ("user", "assistant", "system"):
        return Message("user", [Opaque(DIALECT, body)], opaque=Opaque(DIALECT, {}, {"whole": True}))
    content = body.get("content")
    if len(body) == 2 and type(content) is str:
        return Message(role, content, None, None, WIRE.plain)
    rest = body.copy()
    del rest["role"]
    if type(content) is str:
        del rest["content"]
        return Message(role, content, opaque=WIRE.own(rest))
    if type(content) is not list or not content:
        return Message(role, [], opaque=WIRE.own(rest))
    del rest["content"]
    parts = decode_blocks(content, place)
    results = [part for part in parts if type(part) is ToolResult]
    if role == "user" and len(results) == len(parts):
        return Message("tool", parts, opaque=WIRE.own(rest))
    return Message(role, parts, opaque=WIRE.own(rest))


def decode_blocks(blocks: list[Any], place: int) -> list[Part]:
    """Read the blocks of a turn, its calls numbered."""
    parts: list[Part] = []
    calls = 0
    for block in blocks:
        kind = block.get("type") if type(block) is dict else None
        if kind == "tool_use":
            parts.append(decode_call(block, place, calls))
            calls += 1
        elif kind == "tool_result":
            parts.append(decode_result(block))
        else:
            parts.append(decode_part(block))
    return parts


class Turns:
    """The turns written so far; `open` is the user's turn that foreign words may still join."""

    __slots__ = ("bodies", "open")

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.open: list[dict[str, Any]] | None = None

    def add(self, role: str, blocks: list[dict[str, Any]]) -> None:
        """Add a turn from elsewhere."""
        alone = len(blocks) == 1 and len(blocks[0]) == 2 and "text" in blocks[0]
        self.bodies.append({"role": role, "content": blocks[0]["text"] if alone else blocks})
        self.open = None

    def join(self, blocks: list[dict[str, Any]]) -> None:
        """Add blocks to the user's open turn, opening one if there is none."""
        if self.open is None:
            self.open = []
            self.bodies.append({"role": "user", "content": self.open})
        self.open += blocks


def encode_messages(messages: Any, ledger: Ledger, first: int = 0) -> list[dict[str, Any]]:
    """Write the turns of a request from `first` on; what stands before it is the system prompt's."""
    turns = Turns()
    for place in range(first, len(messages)):
        message = messages[place]
        ledger.at = ("messages", place)
        ledger.own = made_by(message.opaque, DIALECT)
        if ledger.own:
            turns.bodies.append(_encode_own(message, ledger))
            turns.open = None
        else:
            _encode_foreign(message, ledger, turns)
    return turns.bodies


def _encode_own(message: Message, ledger: Ledger) -> dict[str, Any]:
    content, opaque = message.content, message.opaque
    if "whole" in form_of(opaque, DIALECT):
        return content[0].value  # type: ignore[union-attr,index,no-any-return]
    role = "user" if message.role == "tool" else message.role
    if type(content) is str:
        body: dict[str, Any] = {"role": role, "content": content}
    else:
        blocks = encode_blocks(content, ledger, role)
        body = {"role": role, "content": blocks} if blocks else {"role": role}
    if message.name is not None and message.role != "tool":
        ledger.lose("name", "name", f"{DIALECT} has no names of participants")
    return body if opaque is WIRE.plain else ledger.replay(body, opaque)


def _encode_foreign(message: Message, ledger: Ledger, turns: Turns) -> None:
    content, role = message.content, message.role
    opaque = message.opaque
    if (opaque is not None and opaque.value) or message.name is not None or message.tool_call_id is not None:
        _lose_around(message, ledger)
    if role in ("system", "developer"):
        _encode_late_system(message, ledger, turns)
    elif type(content) is str and content and turns.open is None:
        turns.bodies.append({"role": role, "content": content})
    elif role == "assistant":
        blocks = _without_empty(encode_blocks(message.parts, ledger, "assistant"))
        if blocks:
            turns.add("assistant", blocks)
        turns.open = None
    else:
        _encode_user(message, encode_blocks(message.parts, ledger, "user"), ledger, turns)


def _without_empty(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [block for block in blocks if block.get("text") != "" or block["type"] != "text"]


def _encode_user(message: Message, blocks: list[dict[str, Any]], ledger: Ledger, turns: Turns) -> None:
    """Put a user's words or a tool's results where they belong: results open a turn that words may still join."""
    if message.role == "tool":
        turns.join(blocks)
        return
    words = _without_empty(blocks)
    results = [block for block in words if block["type"] == "tool_result"]
    if not words:
        ledger.lose("content", "empty", f"{DIALECT} refuses an empty turn", "approximated", "minor")
        words = [{"type": "text", "text": EMPTY}]
    if results:
        words = [*results, *(block for block in words if block["type"] != "tool_result")]
    if results or turns.open is not None:
        turns.join(words)
    else:
        turns.add("user", words)
    if len(words) > len(results):
        turns.open = None


def _lose_around(message: Message, ledger: Ledger) -> None:
    if message.opaque is not None:
        ledger.lose_opaque(message.opaque)
    if message.role == "tool":
        part = message.parts[0] if message.parts else None
        for field in ("tool_call_id", "name"):
            if len(message.parts) == 1 and getattr(message, field) not in (None, getattr(part, field, None)):
                ledger.lose(field, "tool_result", "the result in the message says otherwise")
        return
    if message.name is not None:
        ledger.lose("name", "name", f"{DIALECT} has no names of participants")
    if message.tool_call_id is not None:
        ledger.lose("tool_call_id", "tool_result", f"a {message.role} message answers no call")


def _encode_late_system(message: Message, ledger: Ledger, turns: Turns) -> None:
    """Write a system message that stands after the conversation began, where it stands."""
    last = turns.bodies[-1]["role"] if turns.bodies else None
    if ledger.quirks.mid_system and last == "user":
        turns.add("system", encode_blocks(message.parts, ledger, "system"))
        return
    ledger.lose("role", f"{message.role}_late", "said in the user's turn where it stands", "approximated")
    blocks = encode_blocks(message.parts, ledger, "system")
    turns.join([{**block, "text": remind(block["text"])} if "text" in block else block for block in blocks])


def encode_blocks(parts: Any, ledger: Ledger, role: str) -> list[dict[str, Any]]:
    """Write the parts of a turn."""
    blocks = []
    for place, part in enumerate(parts):
        ledger.part = place
        block = encode_part(part, ledger, role)
        if block is not None:
            blocks.append(block)
    ledger.part = None
    return blocks


def encode_part(part: Part, ledger: Ledger, role: str) -> Any:
    """Write one part, or lose it by name."""
    match part:
        case Text():
            return encode_text(part, ledger)
        case ToolCall() if role == "assistant" or ledger.own:
            return encode_call(part, ledger)
        case ToolResult() if role == "user" or ledger.own:
            return encode_result(part, ledger)
        case Thinking() if role == "assistant" or ledger.own:
            return encode_thinking(part, ledger)
        case Image() if role == "user" or ledger.own:
            return encode_image(part, ledger)
        case Document() if role == "user" or ledger.own:
            return encode_document(part, ledger)
        case ServerToolCall():
            return encode_server_call(part, ledger)
        case ServerToolResult():
            return encode_server_result(part, ledger)
        case Refusal():
            ledger.lose("", "refusal", f"{DIALECT} has no refusal in a turn; said as text", "approximated")
            return encode_text(Text(part.text, cache=part.cache, opaque=part.opaque), ledger)
        case Opaque() if part.dialect == DIALECT:
            return part.value
        case Opaque():
            ledger.lose_opaque(part)
            ledger.lose("", "opaque", f"only {part.dialect} understands this part")
        case _:
            ledger.lose(
                "", str(type(part).__struct_config__.tag), f"a turn of the {role} in {DIALECT} cannot hold it"
            )
    return None
