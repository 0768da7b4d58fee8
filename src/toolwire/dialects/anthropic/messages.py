"""Turns of a Messages conversation.

Rules of this file:
- A turn that was read here is written as that turn. Turns from elsewhere are grouped: all results of an
  assistant's turn and the user's words after them stand in one user's turn, the results first.
- Nothing moves across a turn of the assistant, and no earlier turn changes when later ones are added: prompt
  caches and thinking signatures are bound to what came before.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects.anthropic.calls import came_whole, decode_call, decode_result, encode_call, encode_result
from toolwire.dialects.anthropic.parts import (
    DIALECT,
    NEWEST,
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

_EMPTY = "(empty)"
_THOUGHTS = ("thinking", "redacted_thinking")


def decode_messages(bodies: list[Any], first: int = 0) -> list[Message]:
    """Read the turns of a request, the `first` of this number."""
    return [_decode_message(body, place) for place, body in enumerate(bodies, first)]


def _decode_message(body: Any, place: int = 0) -> Message:
    """Read one turn; one that is not understood is kept whole."""
    role: Any = body.get("role") if type(body) is dict else None
    if role not in ("user", "assistant", "system"):
        return WIRE.unparsed_message(body)
    unparsed = body.copy()
    del unparsed["role"]
    text = take(unparsed, "content", str)
    if text is not None:
        return Message(role, text, None, None, WIRE.mark(unparsed))
    parts = decode_blocks(take_entries(unparsed, "content"), place)
    if role == "user" and parts and type(parts[0]) is ToolResult and set(map(type, parts)) == {ToolResult}:
        role = "tool"
    return Message(role, parts, None, None, WIRE.mark(unparsed))


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


class _MessagesSoFar(Struct):
    """The turns of `messages` written so far; `open` is the user's turn that foreign words may still join."""

    messages: Any
    bodies: list[dict[str, Any]] = []
    open: list[dict[str, Any]] | None = None

    def take_system(self, place: int) -> bool:
        """Whether a system turn may stand here: after a user's turn, at the end or before an assistant's."""
        last = self.bodies[-1] if self.bodies else None
        if type(last) is not dict or last.get("role") != "user":
            return False
        return place + 1 == len(self.messages) or self.messages[place + 1].role == "assistant"

    def add(self, role: str, blocks: list[dict[str, Any]]) -> None:
        """Add a turn from elsewhere."""
        alone = len(blocks) == 1 and len(blocks[0]) == 2 and "text" in blocks[0]
        self.bodies.append({"role": role, "content": blocks[0]["text"] if alone else blocks})
        self.open = None

    def join(self, blocks: list[dict[str, Any]]) -> None:
        """Add blocks to the user's open turn, opening one if there is none."""
        if not blocks:
            return
        if self.open is None:
            self.open = []
            self.bodies.append({"role": "user", "content": self.open})
        self.open += blocks


def encode_messages(messages: Any, ledger: Ledger, first: int = 0) -> list[dict[str, Any]]:
    """Write the turns of a request from `first` on; what stands before it is the system prompt's."""
    turns = _MessagesSoFar(messages)
    for place in range(first, len(messages)):
        message = messages[place]
        opaque = message.opaque
        ledger.path = ("messages", place)
        if opaque is None or opaque.dialect != DIALECT:
            ledger.is_native = False
            _encode_foreign(message, place, ledger, turns)
        else:
            ledger.is_native = True
            turns.bodies.append(_encode_own(message, ledger))
            turns.open = None
    return turns.bodies


def runs_unthought(bodies: list[Any]) -> bool:
    """Whether the results at the end answer calls of a turn that does not begin with its thinking."""
    kinds: dict[str, list[Any]] = {"user": [], "assistant": []}  # the last block first
    end = len(bodies)
    for role, found in kinds.items():
        while end and type(last := bodies[end - 1]) is dict and last.get("role") == role:
            blocks = last.get("content")
            listed = blocks if type(blocks) is list else ["text"]
            found += [block.get("type") if type(block) is dict else block for block in reversed(listed)]
            end -= 1
    called = "tool_result" in kinds["user"] and "tool_use" in kinds["assistant"]
    return called and kinds["assistant"][-1] not in _THOUGHTS


def _encode_own(message: Message, ledger: Ledger) -> dict[str, Any]:
    content, opaque = message.content, message.opaque
    if is_unparsed(message, DIALECT):
        return content[0].value  # type: ignore[union-attr,index,no-any-return]
    role = "user" if message.role == "tool" else message.role
    if type(content) is str:
        body: dict[str, Any] = {"role": role, "content": content}
    else:
        blocks = encode_blocks(content, ledger, role)
        if content and not blocks:
            blocks = [{"type": "text", "text": _EMPTY}]
        body = {"role": role, "content": blocks} if blocks else {"role": role}
    if message.name is not None and message.role != "tool":
        ledger.lose("name", "name", f"{DIALECT} has no names of participants")
    return ledger.replay(body, opaque)


def _encode_foreign(message: Message, place: int, ledger: Ledger, turns: _MessagesSoFar) -> None:
    content, role = message.content, message.role
    ledger.lose_opaque(message.opaque)
    if message.tool_call_id is not None or message.name is not None:
        _lose_around(message, ledger)
    if type(content) is str:
        worded = content and not content.isspace()
        if worded and (role == "assistant" or (role == "user" and turns.open is None)):
            turns.open = None
            turns.bodies.append({"role": role, "content": content})
            return
        content = [Text(content)]
    if role == "tool":
        turns.join(encode_blocks(content, ledger, "user"))
    elif role == "assistant":
        turns.open = None
        blocks = encode_blocks(content, ledger, "assistant")
        if blocks:
            turns.add("assistant", blocks)
    elif role == "user":
        _encode_user(encode_blocks(content, ledger, "user"), ledger, turns)
    else:
        _encode_late_system(message, place, ledger, turns)


def _encode_user(blocks: list[dict[str, Any]], ledger: Ledger, turns: _MessagesSoFar) -> None:
    """Put a user's words where they belong: after results that stand open, results before words."""
    results = [block for block in blocks if block["type"] == "tool_result"]
    if not blocks:
        ledger.lose("content", "empty", f"{DIALECT} refuses an empty turn", "approximated")
        blocks = [{"type": "text", "text": _EMPTY}]
    if results:
        blocks = [*results, *(block for block in blocks if block["type"] != "tool_result")]
    if results or turns.open is not None:
        turns.join(blocks)
    else:
        turns.add("user", blocks)
    if len(blocks) > len(results):
        turns.open = None


def _lose_around(message: Message, ledger: Ledger) -> None:
    content: Any = message.content
    part = content[0] if message.role == "tool" and content else None
    if type(part) is not ToolResult or len(content) > 1:
        ledger.lose_participant(message)
    else:
        ledger.lose_around_result(message)


def _encode_late_system(message: Message, place: int, ledger: Ledger, turns: _MessagesSoFar) -> None:
    """Write a system message that stands after the conversation began, where it stands."""
    blocks = encode_blocks(message.parts, ledger, "system")
    if blocks and ledger.quirks.mid_system and turns.take_system(place):
        turns.add("system", blocks)
        return
    ledger.lose("role", f"{message.role}_late", "said in the user's turn where it stands", "approximated")
    turns.join([{**block, "text": wrap_reminder(block["text"])} if "text" in block else block for block in blocks])


def encode_blocks(parts: Any, ledger: Ledger, role: str) -> list[Any]:
    """Write the parts of a turn; a part that its role cannot hold is lost by name."""
    table = _OWN_TABLES.get(role, ENCODERS) if ledger.is_native else TABLES[role]
    if ledger.is_native and ledger.quirks.api_version is not None and ledger.quirks.api_version >= NEWEST:
        table = _NEWEST_TABLES[role]
    blocks = []
    for place, part in enumerate(parts):
        ledger.part_index = place
        block = table[type(part)](part, ledger)
        if block is not None or ledger.was_written(block, part):
            blocks.append(block)
    ledger.part_index = None
    return blocks


def _encode_words(part: Text, ledger: Ledger) -> dict[str, Any] | None:
    """Write a text from elsewhere; one without a word is left out, because this wire refuses it."""
    if part.text and not part.text.isspace():
        return encode_text(part, ledger)
    if part.text:
        ledger.lose("text", "blank", f"{DIALECT} refuses a text of spaces alone")
    return None


def _encode_user_words(part: Text, ledger: Ledger) -> dict[str, Any] | None:
    if part.citations and (ledger.quirks.api_version or NEWEST) >= NEWEST:
        ledger.lose("citations", "citation", f"{DIALECT} {NEWEST} takes none in a text of the user")
        part = replace(part, citations=None)
    return encode_text(part, ledger) if ledger.is_native else _encode_words(part, ledger)


def _encode_refusal(part: Refusal, ledger: Ledger) -> dict[str, Any] | None:
    ledger.lose("", "refusal", f"{DIALECT} has no refusal in a turn; said as text", "approximated")
    return _encode_words(Text(part.text, cache=part.cache, opaque=part.opaque), ledger)


def _encode_answered_call(part: ToolCall, ledger: Ledger) -> dict[str, Any] | None:
    """Write a call that a client may run at once; one that cannot be run has no form here that says so."""
    if part.runs or (made_by(part.opaque, DIALECT) and came_whole(part)):
        return encode_call(part, ledger)
    ledger.lose_call(part)
    return None


def _encode_opaque(part: Opaque, ledger: Ledger) -> Any:
    if part.dialect == DIALECT:
        return part.value
    ledger.lose("", "opaque", f"only {part.dialect} understands this part")
    return None


def _lose_part(part: Any, ledger: Ledger) -> None:
    ledger.lose("", str(type(part).__struct_config__.tag), f"a turn of this role in {DIALECT} cannot hold it")


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
TABLES: dict[str, dict[type, Callable[[Any, Ledger], Any]]] = {
    "user": {**ENCODERS, Text: _encode_user_words, Thinking: _lose_part, ToolCall: _lose_part},
    "assistant": {**ENCODERS, Text: _encode_words, ToolResult: _lose_part, Image: _lose_part, Document: _lose_part},
    "system": {**dict.fromkeys(ENCODERS, _lose_part), Text: _encode_words, Opaque: _encode_opaque},
}
TABLES["answer"] = {**TABLES["assistant"], ToolCall: _encode_answered_call}
_OWN_TABLES = {"answer": {**ENCODERS, ToolCall: _encode_answered_call}}
# What was read here and is to be written for the newest version, which takes less than the one before.
_NEWEST_TABLES: dict[str, dict[type, Callable[[Any, Ledger], Any]]] = {
    "user": {**ENCODERS, Text: _encode_user_words},
    "assistant": {**ENCODERS, Document: _lose_part},
    "answer": {**_OWN_TABLES["answer"], Document: _lose_part},
    "system": ENCODERS,
}


def decode_later(bodies: list[Any], place: int, _made: int) -> list[Message] | None:
    """Read messages that stand at a place of their conversation, and need nothing of what stands before."""
    return decode_messages(bodies, place)


def encode_later(messages: list[Message], place: int, _model: str | None, quirks: Quirks) -> tuple[list[Any], Ledger]:
    """Write messages that stand at a place of their conversation, and need nothing of what stands before."""
    ledger = Ledger(WIRE, quirks)
    return encode_messages([None] * place + messages, ledger, place), ledger
