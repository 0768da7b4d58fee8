"""What the model says in a row: one message of the assistant, made of several items.

Rules of this file:
- Words, reasoning, calls and the server's tools are parts of the one message, in the order of their items.
  The first part of a message item carries what the item says beside its content, to be written again.
- In a request, words of the assistant that come from elsewhere stand in items without an id, a text each. In
  a response they share an item, and every item gets an id made from the response and its place.
"""

from collections.abc import Callable, Mapping
from typing import Any

from toolwire.dialects.openai_responses.calls import (
    CALLS,
    RESULTS,
    Items,
    decode_call,
    decode_reasoning,
    decode_result,
    encode_result,
    id_of,
    stands_after_reasoning,
    write_call,
    write_reasoning,
)
from toolwire.dialects.openai_responses.parts import (
    DIALECT,
    EASY,
    MESSAGE,
    PLAIN_MESSAGE,
    WIRE,
    decode_message_item,
    encode_output_text,
    encode_refusal,
    finish_output,
    from_item,
    lose_part,
)
from toolwire.dialects.openai_responses.tools import decode_server_item, encode_server_item
from toolwire.ledger import Ledger, form_of, made_by
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

ASSISTANT = "an assistant message"


def decode_turn(items: list[Any], place: int) -> Message:
    """Read what the model says in a row within a request; a lone item of a string is one string."""
    if len(items) == 1 and len(item := items[0]) == PLAIN_MESSAGE and item.get("type") == "message":
        content = item.get("content")
        if type(content) is str:
            return Message("assistant", content, None, None, MESSAGE)
    parts = _decode_items(items, place)
    part = parts[0]
    if len(parts) == 1 and type(part) is Text and "easy" in (form := form_of(part.opaque, DIALECT)):
        if part.opaque is EASY:
            return Message("assistant", part.text, None, None, MESSAGE)
        rest = from_item(part.opaque.value)  # type: ignore[union-attr]
        form = {"said": form["item"]} if form["item"] else {}
        return Message("assistant", part.text, None, None, WIRE.own(rest, form))
    return Message("assistant", parts, None, None, WIRE.plain)


def decode_answer(items: list[Any], place: int) -> Message:
    """Read the output of a response as the one message that it is."""
    return Message("assistant", _decode_items(items, place), None, None, WIRE.plain)


def _decode_items(items: list[Any], place: int) -> list[Part]:
    """Read items as parts; `place` keeps the made ids of two turns apart."""
    parts: list[Part] = []
    calls = 0
    reasoning: str | None = None
    for item in items:
        kind = item.get("type", "message") if type(item) is dict else None
        if kind in CALLS:
            parts.append(decode_call(item, place, calls, reasoning))
            calls += 1
        elif kind == "message":
            parts += decode_message_item(item, reasoning)
        elif kind == "reasoning":
            thinking = decode_reasoning(item)
            parts.append(thinking)
            reasoning = id_of(thinking)
        elif kind in RESULTS:
            parts.append(decode_result(item))
        else:
            parts.append(decode_server_item(item) if type(kind) is str else Opaque(DIALECT, item))
    return parts


def encode_answer(message: Message, items: Items) -> None:
    """Write an assistant's message, in a request or in a response."""
    ledger, content = items.ledger, message.content
    parts: Any = content if type(content) is list else message.parts
    alone = len(parts) == 1
    items.open = None
    items.kept.clear()
    for place, part in enumerate(parts):
        ledger.part = place
        kind = type(part)
        if kind is ToolCall:
            write_call(part, items)
        elif kind is Text and not alone and not part.text and not made_by(part.opaque, DIALECT):
            continue
        elif kind in WRITERS:
            WRITERS[kind](part, items)
        else:
            lose_part(part, ledger, ASSISTANT)
    ledger.part = None
    items.open = None


def _write_words(part: Text | Refusal, items: Items) -> None:
    ledger = items.ledger
    form = form_of(part.opaque, DIALECT)
    if "item" in form and stands_after_reasoning(form, items):
        item = {"role": "assistant", **form["item"], **from_item(part.opaque.value)}  # type: ignore[union-attr]
        items.add(item)
        if type(part) is Text and "easy" in form:
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
    form = form_of(part, DIALECT)
    if part.dialect != DIALECT:
        lose_part(part, items.ledger, ASSISTANT)
    elif "item" in form:
        item = {"role": "assistant", **form["item"], **form["rest"]}
        items.add(item)
        item["content"] = items.open = [part.value]
    elif "block" not in form:
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
        items.add(encode_result(part, items.ledger, custom=part.tool_call_id in items.custom))
    else:
        lose_part(part, items.ledger, ASSISTANT)


WRITERS: Mapping[type, Callable[[Any, Items], None]] = {
    Text: _write_words,
    Refusal: _write_words,
    Thinking: write_reasoning,
    ServerToolCall: _write_server_item,
    ServerToolResult: _write_server_item,
    ToolResult: _write_result,
    Opaque: _write_opaque,
}
