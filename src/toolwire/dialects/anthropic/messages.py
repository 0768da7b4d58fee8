"""Turns of a Messages conversation.

Rules of this file:
- A turn of this wire is encoded as that turn. Messages from other wires are grouped: the results of an assistant's
  turn and the user's text after them become one user's turn, the results first.
- Nothing moves across a turn of the assistant, and later turns never change an earlier one: prompt caches and thinking
  signatures depend on all that precedes them.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects.anthropic.calls import (
    came_whole,
    decode_call,
    decode_result,
    encode_answer_call,
    encode_call,
    encode_result,
)
from toolwire.dialects.anthropic.parts import (
    DIALECT,
    NEWEST,
    UNCITED,
    WIRE,
    decode_part,
    encode_document,
    encode_image,
    encode_server_call,
    encode_server_result,
    encode_text,
    encode_thinking,
)
from toolwire.encoding.ledger import Ledger, is_unparsed, made_by, take, take_entries
from toolwire.encoding.quirks import Quirks
from toolwire.encoding.repair import wrap_reminder
from toolwire.types import (
    Audio,
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

_EMPTY_TEXT = "(empty)"
_THINKING_TYPES = ("thinking", "redacted_thinking")


def decode_messages(bodies: list[Any], first: int = 0) -> list[Message]:
    """Decode turns of a request. The first of `bodies` has the index `first` in the conversation."""
    return [_decode_message(body, index) for index, body in enumerate(bodies, first)]


def _decode_message(body: Any, index: int = 0) -> Message:
    """Decode one turn. A turn that is not understood becomes an opaque part."""
    role: Any = body.get("role") if type(body) is dict else None
    if role not in ("user", "assistant", "system"):
        return WIRE.unparsed_message(body)
    unparsed = body.copy()
    del unparsed["role"]
    text = take(unparsed, "content", str)
    if text is not None:
        return Message(role, text, None, None, WIRE.mark(unparsed))
    parts = decode_blocks(take_entries(unparsed, "content"), index)
    if role == "user" and parts and type(parts[0]) is ToolResult and set(map(type, parts)) == {ToolResult}:
        role = "tool"
    return Message(role, parts, None, None, WIRE.mark(unparsed))


def decode_blocks(blocks: list[Any], message_number: int) -> list[Part]:
    """Decode the blocks of a turn. `message_number` makes the ids of calls without one unique."""
    parts: list[Part] = []
    call_count = 0
    for block in blocks:
        block_type = block.get("type") if type(block) is dict else None
        if block_type == "tool_use":
            parts.append(decode_call(block, message_number, call_count))
            call_count += 1
        elif block_type == "tool_result":
            parts.append(decode_result(block))
        else:
            parts.append(decode_part(block))
    return parts


class _TurnBuilder(Struct):
    """The turns that have been encoded of `messages`.

    `open_blocks` are the blocks of the user's turn that later messages from other wires may still extend, or None.
    """

    messages: Any
    bodies: list[dict[str, Any]] = []
    open_blocks: list[dict[str, Any]] | None = None

    def can_add_system(self, index: int) -> bool:
        """Return True if the message `index` may be a system turn.

        The turn before it must be the user's. It must be the last turn, or precede one of the assistant.
        """
        last = self.bodies[-1] if self.bodies else None
        if type(last) is not dict or last.get("role") != "user":
            return False
        return index + 1 == len(self.messages) or self.messages[index + 1].role == "assistant"

    def add(self, role: str, blocks: list[dict[str, Any]]) -> None:
        """Add a turn from another wire. A single text block becomes a string."""
        is_text = len(blocks) == 1 and len(blocks[0]) == 2 and "text" in blocks[0]
        self.bodies.append({"role": role, "content": blocks[0]["text"] if is_text else blocks})
        self.open_blocks = None

    def join(self, blocks: list[dict[str, Any]]) -> None:
        """Add blocks to the user's open turn, or to a new one if none is open."""
        if not blocks:
            return
        if self.open_blocks is None:
            self.open_blocks = []
            self.bodies.append({"role": "user", "content": self.open_blocks})
        self.open_blocks += blocks


def encode_messages(messages: Any, ledger: Ledger, first: int = 0) -> list[dict[str, Any]]:
    """Encode the turns of a request from the index `first` on. The messages before it belong to the system prompt."""
    builder = _TurnBuilder(messages)
    for index in range(first, len(messages)):
        message = messages[index]
        opaque = message.opaque
        ledger.path = ("messages", index)
        if opaque is None or opaque.dialect != DIALECT:
            ledger.is_native = False
            _encode_foreign(message, index, ledger, builder)
        else:
            ledger.is_native = True
            builder.bodies.append(_encode_native(message, ledger))
            builder.open_blocks = None
    return builder.bodies


def answers_unthought_calls(bodies: list[Any]) -> bool:
    """Return True if the last turns are results of calls, and the turn of these calls does not begin with thinking."""
    block_types: dict[str, list[Any]] = {"user": [], "assistant": []}  # the last block first
    end = len(bodies)
    for role, types in block_types.items():
        while end and type(last := bodies[end - 1]) is dict and last.get("role") == role:
            content = last.get("content")
            blocks = content if type(content) is list else ["text"]
            types += [block.get("type") if type(block) is dict else block for block in reversed(blocks)]
            end -= 1
    has_results = "tool_result" in block_types["user"] and "tool_use" in block_types["assistant"]
    return has_results and block_types["assistant"][-1] not in _THINKING_TYPES


def _encode_native(message: Message, ledger: Ledger) -> dict[str, Any]:
    """Encode a turn of this wire."""
    content, opaque = message.content, message.opaque
    if is_unparsed(message, DIALECT):
        return content[0].value  # type: ignore[union-attr,index,no-any-return]
    role = "user" if message.role == "tool" else message.role
    if type(content) is str:
        body: dict[str, Any] = {"role": role, "content": content}
    else:
        blocks = encode_blocks(content, ledger, role)
        if content and not blocks:
            blocks = [{"type": "text", "text": _EMPTY_TEXT}]
        body = {"role": role, "content": blocks} if blocks else {"role": role}
    if message.name is not None and message.role != "tool":
        ledger.lose("name", "name", f"{DIALECT} has no names of participants")
    return ledger.replay(body, opaque)


def _encode_foreign(message: Message, index: int, ledger: Ledger, builder: _TurnBuilder) -> None:
    """Encode a message from another wire, as a turn or as a part of the user's open turn."""
    content, role = message.content, message.role
    ledger.lose_opaque(message.opaque)
    if message.tool_call_id is not None or message.name is not None:
        _lose_message_fields(message, ledger)
    if type(content) is str:
        has_text = content and not content.isspace()
        if has_text and (role == "assistant" or (role == "user" and builder.open_blocks is None)):
            builder.open_blocks = None
            builder.bodies.append({"role": role, "content": content})
            return
        content = [Text(content)]
    if role == "tool":
        builder.join(encode_blocks(content, ledger, "user"))
    elif role == "assistant":
        builder.open_blocks = None
        blocks = encode_blocks(content, ledger, "assistant")
        if blocks:
            builder.add("assistant", blocks)
    elif role == "user":
        _encode_user(encode_blocks(content, ledger, "user"), ledger, builder)
    else:
        _encode_mid_system(message, index, ledger, builder)


def _encode_user(blocks: list[dict[str, Any]], ledger: Ledger, builder: _TurnBuilder) -> None:
    """Add the blocks of a user's message: to the open turn if there is one, and results before text."""
    results = [block for block in blocks if block["type"] == "tool_result"]
    if not blocks:
        ledger.lose("content", "empty", f"{DIALECT} rejects an empty turn: {_EMPTY_TEXT} is sent", "approximated")
        blocks = [{"type": "text", "text": _EMPTY_TEXT}]
    if results:
        blocks = [*results, *(block for block in blocks if block["type"] != "tool_result")]
    if results or builder.open_blocks is not None:
        builder.join(blocks)
    else:
        builder.add("user", blocks)
    if len(blocks) > len(results):
        builder.open_blocks = None


def _lose_message_fields(message: Message, ledger: Ledger) -> None:
    """Report the `name` and the `tool_call_id` of a message, unless its only result has the same."""
    content: Any = message.content
    part = content[0] if message.role == "tool" and content else None
    if type(part) is not ToolResult or len(content) > 1:
        ledger.lose_participant(message)
    else:
        ledger.lose_around_result(message)


def _encode_mid_system(message: Message, index: int, ledger: Ledger, builder: _TurnBuilder) -> None:
    """Encode a system message within the conversation, at its position.

    It becomes a system turn if the server accepts one there, else a reminder in a user's turn.
    """
    blocks = encode_blocks(message.parts, ledger, "system")
    if blocks and ledger.quirks.mid_system and builder.can_add_system(index):
        builder.add("system", blocks)
        return
    ledger.lose(
        "role",
        f"{message.role}_late",
        f"{DIALECT} cannot have it here: a reminder in the user's turn is sent",
        "approximated",
    )
    builder.join([{**block, "text": wrap_reminder(block["text"])} if "text" in block else block for block in blocks])


def encode_blocks(parts: Any, ledger: Ledger, role: str) -> list[Any]:
    """Encode the parts of a turn. A part that a turn of this `role` cannot contain is a loss.

    The role `answer` is that of a response.
    """
    encoders = _NATIVE_ENCODERS.get(role, ENCODERS) if ledger.is_native else ENCODERS_BY_ROLE[role]
    if ledger.is_native and ledger.quirks.api_version is not None and ledger.quirks.api_version >= NEWEST:
        encoders = _NEWEST_ENCODERS[role]
    blocks = []
    for index, part in enumerate(parts):
        ledger.part_index = index
        block = encoders[type(part)](part, ledger)
        if block is not None or ledger.was_written(block, part):
            blocks.append(block)
    ledger.part_index = None
    return blocks


def _encode_foreign_text(part: Text, ledger: Ledger) -> dict[str, Any] | None:
    """Encode a text from another wire, or drop it if it is blank: Anthropic's server rejects a blank text."""
    if part.text and not part.text.isspace():
        return encode_text(part, ledger)
    if part.text:
        ledger.lose("text", "blank", f"{DIALECT} rejects a text without visible characters")
    return None


def _encode_answer_text(part: Text, ledger: Ledger) -> dict[str, Any] | None:
    """Encode a text of an answer from another wire. It has all keys of the schema."""
    block = _encode_foreign_text(part, ledger)
    return None if block is None else {**UNCITED, **block}


def _encode_user_text(part: Text, ledger: Ledger) -> dict[str, Any] | None:
    if part.citations and (ledger.quirks.api_version or NEWEST) >= NEWEST:
        ledger.lose("citations", "citation", f"{DIALECT} {NEWEST} accepts no citations in a text of the user")
        part = replace(part, citations=None)
    return encode_text(part, ledger) if ledger.is_native else _encode_foreign_text(part, ledger)


def _encode_refusal(part: Refusal, ledger: Ledger) -> dict[str, Any] | None:
    return _encode_foreign_text(_text_of_refusal(part, ledger), ledger)


def _encode_answer_refusal(part: Refusal, ledger: Ledger) -> dict[str, Any] | None:
    return _encode_answer_text(_text_of_refusal(part, ledger), ledger)


def _text_of_refusal(part: Refusal, ledger: Ledger) -> Text:
    ledger.lose("", "refusal", f"{DIALECT} has no refusals: text is sent", "approximated")
    return Text(part.text, cache=part.cache, opaque=part.opaque)


def _encode_response_call(part: ToolCall, ledger: Ledger) -> dict[str, Any] | None:
    """Encode a call of a response, or drop it if it must not run: a client would run it."""
    if part.runs or (made_by(part.opaque, DIALECT) and came_whole(part)):
        return encode_answer_call(part, ledger)
    ledger.lose_call(part)
    return None


def _encode_opaque(part: Opaque, ledger: Ledger) -> Any:
    if part.dialect == DIALECT:
        return part.value
    ledger.lose("", "opaque", f"only {part.dialect} understands this part")
    return None


def _lose_part(part: Any, ledger: Ledger) -> None:
    ledger.lose("", str(type(part).__struct_config__.tag), f"a turn of this role in {DIALECT} cannot contain it")


ENCODERS: dict[type, Callable[[Any, Ledger], Any]] = {
    Text: encode_text,
    Refusal: _encode_refusal,
    Image: encode_image,
    Document: encode_document,
    Audio: _lose_part,
    Thinking: encode_thinking,
    ToolCall: encode_call,
    ToolResult: encode_result,
    ServerToolCall: encode_server_call,
    ServerToolResult: encode_server_result,
    Opaque: _encode_opaque,
}
ENCODERS_BY_ROLE: dict[str, dict[type, Callable[[Any, Ledger], Any]]] = {
    "user": {**ENCODERS, Text: _encode_user_text, Thinking: _lose_part, ToolCall: _lose_part},
    "assistant": {
        **ENCODERS,
        Text: _encode_foreign_text,
        ToolResult: _lose_part,
        Image: _lose_part,
        Document: _lose_part,
    },
    "system": {**dict.fromkeys(ENCODERS, _lose_part), Text: _encode_foreign_text, Opaque: _encode_opaque},
}
ENCODERS_BY_ROLE["answer"] = {
    **ENCODERS_BY_ROLE["assistant"],
    Text: _encode_answer_text,
    Refusal: _encode_answer_refusal,
    ToolCall: _encode_response_call,
}
_NATIVE_ENCODERS = {"answer": {**ENCODERS, ToolCall: _encode_response_call}}
# For values of this wire that are sent to the newest version of the API, which accepts less than the version before.
_NEWEST_ENCODERS: dict[str, dict[type, Callable[[Any, Ledger], Any]]] = {
    "user": {**ENCODERS, Text: _encode_user_text},
    "assistant": {**ENCODERS, Document: _lose_part},
    "answer": {**_NATIVE_ENCODERS["answer"], Document: _lose_part},
    "system": ENCODERS,
}


def decode_later(bodies: list[Any], index: int, _generated_count: int) -> list[Message] | None:
    """Decode later turns of a conversation without the earlier ones. The first has the index `index`."""
    return decode_messages(bodies, index)


def encode_later(messages: list[Message], index: int, _model: str | None, quirks: Quirks) -> tuple[list[Any], Ledger]:
    """Encode later messages of a conversation without the earlier ones. The first has the index `index`.

    Return the turns, and the ledger of their losses and ids.
    """
    ledger = Ledger(WIRE, quirks)
    return encode_messages([None] * index + messages, ledger, index), ledger
