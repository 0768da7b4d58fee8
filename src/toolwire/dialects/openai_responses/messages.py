"""The items of a conversation, and the messages that they make.

Rules of this file:
- What the model says in a row is one message of the assistant: words, reasoning, calls, the server's tools.
  The first part of a message item carries what the item says beside its content, to be written again.
- What a client sends and nobody understands is a message of its own, kept whole.
- In a request, words of the assistant that come from elsewhere stand in items without an id, a text each. In
  a response they share an item, and every item gets an id made from the response and its place.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from toolwire.dialects.openai_responses.calls import (
    CALLS,
    OWN_CALLS,
    OWN_RESULTS,
    RESULTS,
    Items,
    decode_call,
    decode_own_call,
    decode_own_result,
    decode_reasoning,
    decode_result,
    follows_reasoning,
    id_of,
    is_call,
    write_call,
    write_reasoning,
    write_result,
)
from toolwire.dialects.openai_responses.parts import (
    DIALECT,
    WIRE,
    decode_inputs,
    decode_message_item,
    encode_input,
    encode_output_text,
    encode_refusal,
    finish_output,
    from_item,
    is_plain_text,
    take_constants,
)
from toolwire.dialects.openai_responses.tools import (
    ToolLayoutReader,
    decode_server_item,
    encode_server_item,
    is_clients,
)
from toolwire.encoding.ledger import (
    Ledger,
    is_unparsed,
    made_by,
    shared_spelling_of,
    spelling_of,
    take,
    take_entries,
)
from toolwire.encoding.quirks import Quirks
from toolwire.types import (
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
from toolwire.types.spelling import MessageSpelling
from toolwire.types.spelling.openai_responses import QualifiedName, ResponsesCallSpelling, ResponsesOutputSpelling

_SPEAKERS = ("user", "system", "developer")
# openai 3.52.0, ResponseInputItemParam: items that a client adds (2026-11-20).
_CLIENT_ITEMS = frozenset(
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
ASSISTANT = f"an assistant message of {DIALECT}"


def decode_messages(items: list[Any], declared: ToolLayoutReader, first: int = 0) -> list[Message]:
    """Read the items of a request; tools that they declare go where those of the request are."""
    messages: list[Message] = []
    turn: list[Any] = []
    for item in items:
        kind = item.get("type", "message") if type(item) is dict else None
        result = None
        if kind == "message":
            said = item.get("role") == "assistant"
        elif kind in RESULTS:
            said, result = False, decode_result(item)
        else:
            result = _decode_own_item(item, kind, declared)
            said = result is None and type(kind) is str and kind not in _CLIENT_ITEMS
        if said:
            turn.append(item)
            continue
        if turn:
            messages.append(_decode_turn(turn, first + len(messages)))
            turn = []
        if result is not None:
            messages.append(Message("tool", [result], result.name, result.tool_call_id, WIRE.plain))
        elif kind != "additional_tools" or not declared.read_item(item, first + len(messages)):
            messages.append(_decode_given(item, kind))
    if turn:
        messages.append(_decode_turn(turn, first + len(messages)))
    return [_rename(message, declared.renamed) for message in messages] if declared.renamed else messages


def _decode_own_item(item: Any, kind: Any, declared: ToolLayoutReader) -> ToolResult | None:
    """Read a result of a tool of this wire's own, and note which shells the server runs."""
    if kind == "shell_call" and type(call_id := item.get("call_id")) is str and not is_clients("shell", item):
        declared.hosted_shells.add(call_id)
    return decode_own_result(item, declared) if type(kind) is str and kind in OWN_RESULTS else None


def _rename(message: Message, renamed: Mapping[tuple[str, str], str]) -> Message:
    """Name each call for its tool, where that could not be named for where it stands."""
    if message.role != "assistant" or type(message.content) is str:
        return message
    return replace(message, content=[_rename_call(part, renamed) for part in message.parts])


def _rename_call(part: Part, renamed: Mapping[tuple[str, str], str]) -> Part:
    if type(part) is not ToolCall:
        return part
    opaque, spelling = part.opaque, spelling_of(part.opaque, ResponsesCallSpelling)
    called = spelling.qualified_name or QualifiedName(None, part.name, part.name)
    flat = renamed.get((called.namespace or "", called.name))
    if flat is None or opaque is None:
        return part
    spelling = replace(spelling, qualified_name=replace(called, flat=flat))
    return replace(part, name=flat, opaque=replace(opaque, spelling=spelling))


def _decode_given(item: Any, kind: Any) -> Message:
    """Read an item that is no result: words, or what is kept whole."""
    if kind == "message" and (role := item.get("role")) in _SPEAKERS:
        return _decode_words(item, role)
    return WIRE.unparsed_message(item)


def _decode_words(item: dict[str, Any], role: Any) -> Message:
    unparsed = item.copy()
    del unparsed["role"]
    spelling = MessageSpelling(constants=take_constants(unparsed))
    content = take(unparsed, "content", str)
    if content is None:
        content = decode_inputs(take_entries(unparsed, "content"))
    return Message(role, content, None, None, WIRE.mark(unparsed, spelling))


def _decode_turn(items: list[Any], place: int) -> Message:
    """Read what the model says in a row within a request; a lone item of a string is one string."""
    item = items[0]
    if len(items) == 1 and item.get("type", "message") == "message" and type(item.get("content")) is str:
        return _decode_words(item, "assistant")
    return Message("assistant", _decode_items(items, place, sent=True), None, None, WIRE.plain)


def decode_answer(items: list[Any], place: int) -> Message:
    """Read the output of a response as the one message that it is."""
    return Message("assistant", _decode_items(items, place), None, None, WIRE.plain)


def _decode_items(items: list[Any], place: int, *, sent: bool = False) -> list[Part]:
    """Read items as parts; `place` keeps the made ids of two turns apart.

    Calls of tools of this wire's own are the client's where it has sent them; in an answer nobody has declared them.
    """
    parts: list[Part] = []
    calls = 0
    reasoning: str | None = None
    for item in items:
        kind = item.get("type", "message") if type(item) is dict else None
        if is_call(item, kind):
            call: Part | None = decode_call(item, place, calls, reasoning)
        else:
            own = sent and type(kind) is str and kind in OWN_CALLS
            call = decode_own_call(item, place, calls, reasoning) if own else None
        if call is not None:
            parts.append(call)
            calls += 1
        elif kind == "reasoning":
            parts.append(thinking := decode_reasoning(item))
            reasoning = id_of(thinking)
        else:
            parts += decode_item(item, kind, reasoning)
    return parts


def decode_item(item: Any, kind: Any, reasoning: str | None) -> list[Part]:
    """Read an item that is neither a call nor reasoning."""
    if kind == "message":
        return decode_message_item(item, reasoning)
    if kind in RESULTS:
        return [decode_result(item)]
    return [decode_server_item(item) if type(kind) is str else Opaque(DIALECT, item)]


def encode_messages(messages: Any, items: Items, first: int = 0, last: int | None = None) -> list[Any]:
    """Write the messages of a request from `first` to before `last`, as the items that this wire needs for them."""
    for place in range(first, len(messages) if last is None else min(last, len(messages))):
        items.ledger.path = ("messages", place)
        encode_message(messages[place], items)
    items.ledger.path = ()
    return items.bodies


def encode_message(message: Message, items: Items) -> None:
    """Write one message."""
    ledger, content, opaque, role = items.ledger, message.content, message.opaque, message.role
    ledger.is_native = opaque is not None and opaque.dialect == DIALECT
    if (opaque is not None and opaque.value) or message.name is not None or message.tool_call_id is not None:
        _lose_around(message, ledger)
    before = len(items.bodies)
    if type(content) is str:
        _add_words(message, content, items)
    elif role == "assistant":
        encode_answer(message, items)
    elif role == "tool":
        _encode_results(message, items)
    elif is_unparsed(message, DIALECT):
        items.add(content[0].value)  # type: ignore[union-attr,index]
    else:
        _encode_words(message, items)
    if len(items.bodies) == before:
        ledger.lose("", "message", f"nothing of it can be said in {DIALECT}")


def _lose_around(message: Message, ledger: Ledger) -> None:
    """Lose what a message says beside its content and what no item can say."""
    ledger.lose_opaque(message.opaque)
    if message.role == "tool" and message.parts:
        ledger.lose_around_result(message)
        return
    for field in ("tool_call_id", "name"):
        if getattr(message, field) is not None:
            ledger.lose(field, field, f"a {message.role} message of {DIALECT} has no place for it")


def _add_words(message: Message, content: Any, items: Items) -> None:
    role, opaque, ledger = message.role, message.opaque, items.ledger
    is_typed = not ledger.is_native or "type" in shared_spelling_of(opaque, DIALECT, MessageSpelling).constants
    body: dict[str, Any] = {"type": "message"} if is_typed else {}
    body["role"] = ledger.supported_role(role)
    if content is not None:
        body["content"] = content
    if ledger.is_native:
        ledger.replay(body, opaque)
    items.add(body)


def _encode_results(message: Message, items: Items) -> None:
    ledger = items.ledger
    for place, part in enumerate(message.parts):
        ledger.part_index = place
        if type(part) is ToolResult:
            write_result(part, items)
        else:
            ledger.lose_part(part, f"a tool message of {DIALECT}")
    ledger.part_index = None


def _encode_words(message: Message, items: Items) -> None:
    """Write a message of parts; a result between them is an item of its own."""
    ledger, parts = items.ledger, message.parts
    blocks: list[Any] = []
    written = False
    for part in ledger.each_part(parts):
        if type(part) is ToolResult:
            if blocks:
                _add_words(message, _shortest(blocks, ledger), items)
            blocks, written = [], True
            write_result(part, items)
        else:
            encode_input(part, blocks, ledger, f"a {message.role} message")
    if blocks:
        _add_words(message, _shortest(blocks, ledger), items)
    elif ledger.is_native and not written:
        _add_words(message, None, items)
    elif not parts:
        _add_words(message, "", items)


def _shortest(blocks: list[Any], ledger: Ledger) -> Any:
    return blocks[0]["text"] if not ledger.is_native and len(blocks) == 1 and is_plain_text(blocks[0]) else blocks


def encode_answer(message: Message, items: Items) -> None:
    """Write an assistant's message, in a request or in a response."""
    ledger, content = items.ledger, message.content
    parts: Any = content if type(content) is list else message.parts
    alone = len(parts) == 1
    items.open = None
    items.kept.clear()
    for place, part in enumerate(parts):
        ledger.part_index = place
        kind = type(part)
        if kind is ToolCall:
            write_call(part, items)
        elif kind is Text and not alone and not part.text and not made_by(part.opaque, DIALECT):
            continue
        elif kind in WRITERS:
            WRITERS[kind](part, items)
        else:
            ledger.lose_part(part, ASSISTANT)
    ledger.part_index = None
    items.open = None


def _write_words(part: Text | Refusal, items: Items) -> None:
    ledger, spelling = items.ledger, spelling_of(part.opaque, ResponsesOutputSpelling)
    if spelling.item is not None and follows_reasoning(spelling.reasoning_id, items):
        item = {"role": "assistant", **spelling.item, **from_item(part.opaque.value)}  # type: ignore[union-attr]
        items.add(item)
        if type(part) is Text and spelling.has_text_content:
            item["content"] = part.text
            if part.citations:
                ledger.lose("citations", "citation", "the item has only a string")
            _lose_beside(part, ledger)
            return
        item["content"] = items.open = [_encode_block(part, ledger)]
    elif items.open is not None and (items.response is not None or made_by(part.opaque, DIALECT)):
        items.open.append(_encode_block(part, ledger))
    else:
        _write_foreign_words(part, items)


def _encode_block(part: Text | Refusal, ledger: Ledger) -> dict[str, Any]:
    return encode_output_text(part, ledger) if type(part) is Text else encode_refusal(part, ledger)  # type: ignore[arg-type]


def _lose_beside(part: Text, ledger: Ledger) -> None:
    """Lose what stands beside a text where only a string is said."""
    left = finish_output({}, part, ledger)
    for key, value in left.items():
        if value:
            ledger.lose(f"opaque.{key}", key, "the item has only a string")


def _write_foreign_words(part: Text | Refusal, items: Items) -> None:
    """Write words that no item of this wire held, or that lost their item."""
    ledger = items.ledger
    rest = from_item(part.opaque.value) if made_by(part.opaque, DIALECT) else {}  # type: ignore[union-attr]
    item = {"type": "message", "role": "assistant", **rest}
    if items.response is None and type(part) is Text and not part.citations:
        _lose_beside(part, ledger)
        items.add({**item, "content": part.text})
        return
    block = _encode_block(part, ledger)
    if items.response is None and type(part) is Text and not block["annotations"]:
        items.add({**item, "content": part.text})
        return
    item |= {"id": items.made_id("msg", part.text), "status": "completed", "content": [block]}
    items.add(item)
    if items.response is not None:
        items.open = item["content"]


def _write_opaque(part: Opaque, items: Items) -> None:
    spelling = spelling_of(part, ResponsesOutputSpelling)
    if part.dialect != DIALECT:
        items.ledger.lose_part(part, ASSISTANT)
    elif spelling.item is not None:
        item = {"role": "assistant", **spelling.item}
        items.add(item)
        item["content"] = items.open = [part.value]
    elif not spelling.is_block:
        items.add(part.value)
    elif items.open is not None:
        items.open.append(part.value)
    else:
        items.ledger.lose("", "opaque", "the item that held this block is not there")


def _write_server_item(part: ServerToolCall | ServerToolResult, items: Items) -> None:
    body = encode_server_item(part, items.ledger)
    if body is not None:
        items.add(body)


def _write_result(part: ToolResult, items: Items) -> None:
    if items.response is None or made_by(part.opaque, DIALECT):
        write_result(part, items)
    else:
        items.ledger.lose_part(part, ASSISTANT)


WRITERS: Mapping[type, Callable[[Any, Items], None]] = {
    Text: _write_words,
    Refusal: _write_words,
    Thinking: write_reasoning,
    ServerToolCall: _write_server_item,
    ServerToolResult: _write_server_item,
    ToolResult: _write_result,
    Opaque: _write_opaque,
}


_LATER = frozenset({"message", "reasoning", *CALLS, *RESULTS})


def decode_later(items: list[Any], place: int, _made: int) -> list[Message] | None:
    """Read items that stand at a place of their conversation, and need nothing of what stands before."""
    for item in items:
        kind = item.get("type", "message") if type(item) is dict else None
        if type(kind) is not str or kind not in _LATER:
            return None
    return decode_messages(items, ToolLayoutReader([]), place)


def encode_later(messages: list[Message], place: int, _model: str | None, quirks: Quirks) -> tuple[list[Any], Ledger]:
    """Write messages that stand at a place of their conversation, and need nothing of what stands before."""
    ledger = Ledger(WIRE, quirks)
    return encode_messages([None] * place + messages, Items(ledger), place), ledger
