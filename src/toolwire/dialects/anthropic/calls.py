"""Calls and results of a Messages conversation.

Rules of this file:
- The input of a call is an object. Arguments that are no object are a loss.
- Missing input, and the JSON text that proxies of Chat Completions forward, are decoded too. They return to this wire
  as they came.
- A call that the model made itself has the `caller` "direct", which means nothing elsewhere. An answer of another wire
  gets it, because the schema of Anthropic requires it there (@anthropic-ai/sdk 1.14.0, `ToolUseBlock`; 2026-11-27).
"""

from typing import Any

from msgspec import UNSET

from toolwire.dialects.anthropic.parts import DIALECT, WIRE, decode_parts, encode_document, encode_image, encode_text
from toolwire.encoding.calls import Arguments, arguments_as_object, holds_value, read_arguments, spell_value
from toolwire.encoding.ledger import Ledger, made_by, spelling_of, take, take_constants
from toolwire.types import Document, Image, Opaque, Part, Text, ToolCall, ToolResult
from toolwire.types.spelling.anthropic import MessagesCallSpelling, MessagesResultSpelling
from toolwire.wire.arguments import format_arguments, parse_arguments
from toolwire.wire.names import generate_call_id


def decode_call(block: dict[str, Any], message_number: int, call_index: int) -> Part:
    """Decode a `tool_use` block to a call, or to an opaque part if it has no name.

    If it has no id, one is generated from `message_number` and `call_index`.
    """
    name = block.get("name")
    if type(name) is not str:
        return Opaque(DIALECT, block)
    unparsed = block.copy()
    del unparsed["type"], unparsed["name"]
    (arguments, raw, error), raw_input = _take_input(unparsed)
    call_id, id_is_escaped = _take_id(unparsed, "id")
    name, name_is_escaped = WIRE.restore_name(name)
    cache = WIRE.take_cache(unparsed)
    spelling = MessagesCallSpelling(
        constants=take_constants(unparsed, _DIRECT),
        is_escaped=id_is_escaped or name_is_escaped,
        has_no_id=call_id is None,
        has_no_input="input" not in block,
        input=raw_input,
    )
    call_id = generate_call_id(message_number, call_index) if call_id is None else call_id
    opaque = WIRE.mark(unparsed, spelling)
    return ToolCall(call_id, name, arguments, call_index, True, raw, error, cache=cache, opaque=opaque)


_DIRECT = {"caller": {"type": "direct"}}


def _take_id(unparsed: dict[str, Any], key: str) -> tuple[str | None, bool]:
    """Remove an id from the unparsed keys. Return it unescaped, and whether it was escaped. An empty id stays."""
    raw = unparsed.get(key)
    if type(raw) is not str or not raw:
        return None, False
    del unparsed[key]
    return WIRE.restore_id(raw)


def _take_input(unparsed: dict[str, Any]) -> tuple[Arguments, Any]:
    """Remove the input from the unparsed keys. Return the arguments that it means, and the input if it is no object."""
    raw_input = unparsed.pop("input", UNSET)
    if type(raw_input) is dict:
        return (raw_input, None, None), UNSET
    return read_arguments(None if raw_input is UNSET else raw_input, unparsed), raw_input


def _is_native(opaque: Opaque | None, spelling: MessagesCallSpelling | MessagesResultSpelling) -> bool:
    """Return True if this wire wrote the ids and names of a value itself."""
    return made_by(opaque, DIALECT) and not spelling.is_escaped


def _keeps_input(call: ToolCall, spelling: MessagesCallSpelling) -> bool:
    """Return True if an input that was missing or no object still means the arguments of `call`."""
    if not spelling.has_no_input and spelling.input is UNSET:
        return False
    return call.plain_arguments == (parse_arguments(call.raw)[0] if call.raw else {})


def came_whole(call: ToolCall) -> bool:
    """Return True if the input of `call` can be encoded as it came. The broken text of a stream cannot."""
    spelling = spelling_of(call.opaque, MessagesCallSpelling)
    return not call.raw or spelling.has_no_input or spelling.input is not UNSET


def encode_call(call: ToolCall, ledger: Ledger) -> dict[str, Any]:
    """Encode `call` as a `tool_use` block."""
    spelling = spelling_of(call.opaque, MessagesCallSpelling)
    is_native = _is_native(call.opaque, spelling)
    body = {
        "type": "tool_use",
        "id": ledger.ids.call(call.id, is_native=is_native),
        "name": call.name if is_native else ledger.names.write(call.name),
        "input": call.plain_arguments,
    }
    if not is_native and (call.custom or call.error is not None or not call.complete):
        body["input"] = arguments_as_object(call, ledger)
        if not call.complete:
            ledger.lose_cut()
    elif call.error is not None and not came_whole(call):
        body["input"] = arguments_as_object(call, ledger)
    elif is_native:
        _spell_call(body, call, spelling)
    return ledger.finish(body, call)


def encode_answer_call(call: ToolCall, ledger: Ledger) -> dict[str, Any]:
    """Encode a `tool_use` block of an answer."""
    body = encode_call(call, ledger)
    return body if made_by(call.opaque, DIALECT) else {**body, "caller": {"type": "direct"}}


def _spell_call(body: dict[str, Any], call: ToolCall, spelling: MessagesCallSpelling) -> None:
    """Change the body of a call of this wire to the spelling in which it came."""
    if spelling.has_no_id:
        del body["id"]
    if _keeps_input(call, spelling):
        del body["input"]
        if spelling.input is not UNSET:
            body["input"] = spelling.input


def decode_result(block: dict[str, Any]) -> ToolResult:
    """Decode a `tool_result` block. A result without an id answers the next call that has no result."""
    unparsed = block.copy()
    del unparsed["type"]
    call_id, is_escaped = _take_id(unparsed, "tool_use_id")
    content, raw_content = _take_content(unparsed)
    is_error = take(unparsed, "is_error", bool)
    spelling = MessagesResultSpelling(
        constants={"is_error": False} if is_error is False else {},
        is_escaped=is_escaped,
        has_no_id=call_id is None,
        content=raw_content,
    )
    cache, opaque = WIRE.take_cache(unparsed), WIRE.mark(unparsed, spelling)
    return ToolResult(call_id, None, content, bool(is_error), cache=cache, opaque=opaque)


def _take_content(unparsed: dict[str, Any]) -> tuple[str | list[Part], Any]:
    """Remove the content from the unparsed keys. Return its text or parts, and the content if it is neither."""
    content: Any = unparsed.get("content")
    if type(content) is str:
        return unparsed.pop("content"), UNSET
    if holds_value(content):
        return format_arguments(content), unparsed.pop("content")
    if type(content) is list and content:
        return decode_parts(unparsed.pop("content")), UNSET
    return [], UNSET


def encode_result(part: ToolResult, ledger: Ledger) -> dict[str, Any]:
    """Encode a `tool_result` block."""
    content, spelling = part.content, spelling_of(part.opaque, MessagesResultSpelling)
    is_native = _is_native(part.opaque, spelling)
    call_id = ledger.ids.result(part.tool_call_id, is_native=is_native)
    body: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    if type(content) is str:
        if content or is_native:
            body["content"] = spell_value(content, spelling.content)
    elif content:
        text_only = part.is_error and not made_by(part.opaque, DIALECT)
        body["content"] = _encode_content(content, ledger, text_only=text_only)
    if part.is_error:
        body["is_error"] = True
    if is_native and part.tool_call_id is None and spelling.has_no_id:
        del body["tool_use_id"]
    return ledger.finish(body, part)


def _encode_content(parts: Any, ledger: Ledger, *, text_only: bool) -> list[dict[str, Any]]:
    """Encode the content of a result.

    Anthropic's server accepts only text in an error ("all content must be type `text`", 2026-11-20).
    """
    blocks: list[Any] = []
    for part in ledger.each_inner_part(parts):
        match part:
            case Text():
                block: dict[str, Any] | None = encode_text(part, ledger)
            case Image() | Document() if text_only:
                ledger.lose("", "tool_result", f"{DIALECT} accepts only text in an error")
                continue
            case Image():
                block = encode_image(part, ledger)
            case Document():
                block = encode_document(part, ledger)
            case Opaque() if part.dialect == DIALECT:
                block = part.value
            case _:
                ledger.lose("", "tool_result", f"a result of {DIALECT} cannot contain this part")
                continue
        if ledger.was_written(block, part) and (type(part) is not Text or part.text or made_by(part.opaque, DIALECT)):
            blocks.append(block)
    return blocks
