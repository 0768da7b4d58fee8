"""Calls and results of Ollama.

Rules of this file:
- Arguments are an object here; the text that some servers give is read too, and written back as it came.
- Ids came late to this wire: one that was given goes along, one that was made here is never sent.
- A result without an id answers the next waiting call of its name, else the next waiting call.
"""

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from toolwire.dialects.ollama.parts import DIALECT, WIRE, MessageSoFar, encode_part, take_images
from toolwire.encoding.calls import (
    mark_error,
    read_arguments,
    read_error,
    say_object,
    spell_value,
    take_arguments,
    take_value,
)
from toolwire.encoding.ledger import Ledger, left_of, made_by, spelling_of, take
from toolwire.types import Message, Opaque, Part, Text, ToolCall, ToolResult
from toolwire.types.spelling.ollama import OllamaCallSpelling, OllamaResultSpelling
from toolwire.wire.arguments import argument_text, format_arguments
from toolwire.wire.names import generate_call_id, is_generated_id

_NAME, _OTHER_NAME = "tool_name", "name"


def decode_calls(entries: list[Any], place: int, first: int = 0) -> list[Part]:
    """Read the calls of an answer; an entry that is none is kept whole among them."""
    return [_decode_call(entry, place, index) for index, entry in enumerate(entries, first)]


def _decode_call(entry: Any, place: int, index: int) -> Part:
    inner = entry.get("function") if type(entry) is dict else None
    if type(inner) is not dict or type(inner.get("name")) is not str:
        return Opaque(DIALECT, entry, spelling=OllamaCallSpelling())
    unparsed, inner = entry.copy(), inner.copy()
    del unparsed["function"]
    name, number = inner.pop("name"), take(inner, "index", int)
    constants = {"type": unparsed.pop("type")} if unparsed.get("type") == "function" else {}
    call_id = _take_id(unparsed, "id")
    (arguments, raw, error), has_arguments = take_arguments(inner, unparsed)
    if inner.get("arguments") is not None:  # it is neither text nor an object, and stays
        arguments, raw, error = read_arguments(inner["arguments"])
    if inner:
        unparsed["function"] = inner
    spelling = OllamaCallSpelling(constants, call_id is None, not has_arguments, number)
    call_id, opaque = call_id or generate_call_id(place, index), WIRE.mark(unparsed, spelling)
    return ToolCall(call_id, name, arguments, index, True, raw, error, opaque=opaque)


def _take_id(unparsed: dict[str, Any], key: str) -> str | None:
    """Take an id out of the unparsed keys. An empty id stays."""
    return take(unparsed, key, str) if unparsed.get(key) else None


def encode_call(call: ToolCall, position: int, ledger: Ledger) -> dict[str, Any]:
    """Write one call."""
    spelling, is_native = spelling_of(call.opaque, OllamaCallSpelling), made_by(call.opaque, DIALECT)
    inner: dict[str, Any] = {"name": call.name}
    if spelling.index is not None:
        inner["index"] = spelling.index if call.index == position else call.index
    if call.plain_arguments or not spelling.has_no_arguments:
        is_text = call.raw is not None and is_native and not call.custom
        inner["arguments"] = argument_text(call) if is_text else say_object(call, ledger)
    entry: dict[str, Any] = {"function": left_of(call.opaque, DIALECT, "function") | inner}
    # Readers drop a call whose id came before.
    repeated = ledger.of == "response" and not is_native and call.id in ledger.ids.used
    written = ledger.ids.call(call.id, is_native=is_native)
    had_id = is_native and call.id is not None and not spelling.has_no_id
    if had_id or not (is_generated_id(call.id) or repeated):
        entry["id"] = written
    if not call.complete:
        ledger.lose_cut()
    return ledger.finish(entry, call)


def decode_result(body: dict[str, Any]) -> Message:
    """Read a tool message: the result of one call."""
    unparsed = body.copy()
    role, name, name_key = unparsed.pop("role"), take(unparsed, _NAME, str), _NAME
    if name is None and (name := take(unparsed, _OTHER_NAME, str)) is not None:
        name_key = _OTHER_NAME
    call_id, value = _take_id(unparsed, "tool_call_id"), take_value(unparsed, "content")
    content, is_error = _take_content(unparsed, value)
    result = ToolResult(call_id, name, content, is_error)
    spelling = OllamaResultSpelling(role=role, name_key=name_key, content=value)
    return Message("tool", [result], name, call_id, WIRE.mark(unparsed, spelling))


def _take_content(unparsed: dict[str, Any], value: Any) -> tuple[str | list[Part], bool]:
    """Take the content out of the unparsed keys: return words or parts, and whether they are an error."""
    text, images = take(unparsed, "content", str), take_images(unparsed)
    if text is None and value is UNSET:
        return images, False
    words, is_error = read_error(text) if text is not None else (format_arguments(value), False)
    return [Text(text=words, opaque=WIRE.plain), *images] if images else words, is_error


def link_result(message: Message, call: ToolCall) -> Message:
    """Link a result that came without an id to the call which it answers; the id is not sent back."""
    [result] = message.parts
    opaque = message.opaque or WIRE.plain
    spelling = replace(spelling_of(opaque, OllamaResultSpelling), linked_id=call.id)
    return replace(
        message,
        content=[replace(result, tool_call_id=call.id)],
        tool_call_id=call.id,
        opaque=WIRE.mark(opaque.value, spelling),
    )


def encode_result(part: Part, message: Message, ledger: Ledger, names: dict[str | None, str]) -> dict[str, Any] | None:
    """Write one result as a message; `names` says which tool each call called."""
    if type(part) is not ToolResult:
        ledger.lose("", "tool_result", f"a tool message of {DIALECT} holds one result")
        return None
    is_native = ledger.own and message.role == "tool"
    spelling = spelling_of(message.opaque if is_native else None, OllamaResultSpelling)
    body: dict[str, Any] = {"role": spelling.role}
    name = part.name if part.name is not None or is_native else names.get(part.tool_call_id)
    if name is not None:
        body[spelling.name_key] = name
    written = ledger.ids.result(part.tool_call_id, is_native=is_native)
    if part.tool_call_id != spelling.linked_id if is_native else not is_generated_id(part.tool_call_id):
        body["tool_call_id"] = written
    if type(part.content) is str:
        words = mark_error(part.content, is_error=part.is_error)
        body["content"] = spell_value(words, spelling.content)
    else:
        _encode_content(part, body, ledger)
    return ledger.finish(body, part)


def _encode_content(part: ToolResult, body: dict[str, Any], ledger: Ledger) -> None:
    said = MessageSoFar()
    at, place = ledger.at, ledger.part
    for inner in ledger.inside(part.content):
        encode_part(inner, said, ledger, "tool")
    ledger.at, ledger.part = at if place is None else (*at, "content", place), None
    said.write(body, ledger, "\n")
    ledger.at, ledger.part = at, place
    if "content" in body or part.is_error:
        body["content"] = mark_error(body.get("content", ""), is_error=part.is_error)
