"""Calls and results of Ollama.

Rules of this file:
- Arguments are an object. The JSON text that some servers send is decoded too, and returns to this wire as it came.
- Ollama before 0.12.10 has no ids (https://github.com/ollama/ollama/pull/12956). An id from a wire is sent, and an id
  that toolwire generated is not.
- A result without an id answers the next open call of its tool, or else the next open call.
"""

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from toolwire.dialects.ollama.parts import DIALECT, WIRE, MessageBuilder, encode_part, take_images
from toolwire.encoding.calls import (
    arguments_as_object,
    mark_error,
    read_arguments,
    read_error,
    spell_value,
    take_arguments,
    take_value,
)
from toolwire.encoding.ledger import Ledger, made_by, spelling_of, take, unparsed_of
from toolwire.types import Message, Opaque, Part, Text, ToolCall, ToolResult
from toolwire.types.spelling.ollama import OllamaCallSpelling, OllamaResultSpelling
from toolwire.wire.arguments import argument_text, format_arguments
from toolwire.wire.names import generate_call_id, is_generated_id

_NAME, _OTHER_NAME = "tool_name", "name"


def decode_calls(entries: list[Any], message_number: int, first: int = 0) -> list[Part]:
    """Decode the calls of an answer. The first of `entries` is the call number `first` of the answer.

    An entry that is no call becomes an opaque part. If a call has no id, one is generated from `message_number` and the
    number of the call.
    """
    return [_decode_call(entry, message_number, index) for index, entry in enumerate(entries, first)]


def _decode_call(entry: Any, message_number: int, call_index: int) -> Part:
    inner = entry.get("function") if type(entry) is dict else None
    if type(inner) is not dict or type(inner.get("name")) is not str:
        return Opaque(DIALECT, entry, spelling=OllamaCallSpelling())
    unparsed, inner = entry.copy(), inner.copy()
    del unparsed["function"]
    name, raw_index = inner.pop("name"), take(inner, "index", int)
    constants = {"type": unparsed.pop("type")} if unparsed.get("type") == "function" else {}
    call_id = _take_id(unparsed, "id")
    (arguments, raw, error), has_arguments = take_arguments(inner, unparsed)
    if inner.get("arguments") is not None:  # neither text nor an object, so that they stay
        arguments, raw, error = read_arguments(inner["arguments"])
    if inner:
        unparsed["function"] = inner
    spelling = OllamaCallSpelling(constants, call_id is None, not has_arguments, raw_index)
    call_id, opaque = call_id or generate_call_id(message_number, call_index), WIRE.mark(unparsed, spelling)
    return ToolCall(call_id, name, arguments, call_index, True, raw, error, opaque=opaque)


def _take_id(unparsed: dict[str, Any], key: str) -> str | None:
    """Remove an id from the unparsed keys, and return it. An empty id stays."""
    return take(unparsed, key, str) if unparsed.get(key) else None


def encode_call(call: ToolCall, position: int, ledger: Ledger) -> dict[str, Any]:
    """Encode one call. `position` is its index among the calls of its message."""
    spelling, is_native = spelling_of(call.opaque, OllamaCallSpelling), made_by(call.opaque, DIALECT)
    inner: dict[str, Any] = {"name": call.name}
    if spelling.index is not None:
        inner["index"] = spelling.index if call.index == position else call.index
    if call.plain_arguments or not spelling.has_no_arguments:
        is_text = call.raw is not None and is_native and not call.custom
        inner["arguments"] = argument_text(call) if is_text else arguments_as_object(call, ledger)
    entry: dict[str, Any] = {"function": unparsed_of(call.opaque, DIALECT, "function") | inner}
    # Readers drop a call whose id came before.
    is_repeated = ledger.of == "response" and not is_native and call.id in ledger.ids.used
    call_id = ledger.ids.call(call.id, is_native=is_native)
    had_id = is_native and call.id is not None and not spelling.has_no_id
    if had_id or not (is_generated_id(call.id) or is_repeated):
        entry["id"] = call_id
    if not call.complete:
        ledger.lose_cut()
    return ledger.finish(entry, call)


def decode_result(body: dict[str, Any]) -> Message:
    """Decode a tool message: the result of one call."""
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
    """Remove the content from the unparsed keys. Return its text or parts, and whether they are an error.

    `value` is the content if it is neither text nor parts, else `UNSET`.
    """
    raw, images = take(unparsed, "content", str), take_images(unparsed)
    if raw is None and value is UNSET:
        return images, False
    text, is_error = read_error(raw) if raw is not None else (format_arguments(value), False)
    return [Text(text=text, opaque=WIRE.plain), *images] if images else text, is_error


def link_result(message: Message, call: ToolCall) -> Message:
    """Return the message of a result without an id, linked to the call that it answers.

    The id does not return to this wire.
    """
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
    """Encode one result as a message. `names` has the tool of each call by its id."""
    if type(part) is not ToolResult:
        ledger.lose("", "tool_result", f"a tool message of {DIALECT} contains nothing but one result")
        return None
    is_native = ledger.is_native and message.role == "tool"
    spelling = spelling_of(message.opaque if is_native else None, OllamaResultSpelling)
    body: dict[str, Any] = {"role": spelling.role}
    name = part.name if part.name is not None or is_native else names.get(part.tool_call_id)
    if name is not None:
        body[spelling.name_key] = name
    call_id = ledger.ids.result(part.tool_call_id, is_native=is_native)
    if part.tool_call_id != spelling.linked_id if is_native else not is_generated_id(part.tool_call_id):
        body["tool_call_id"] = call_id
    if type(part.content) is str:
        text = mark_error(part.content, is_error=part.is_error)
        body["content"] = spell_value(text, spelling.content)
    else:
        _encode_content(part, body, ledger)
    return ledger.finish(body, part)


def _encode_content(part: ToolResult, body: dict[str, Any], ledger: Ledger) -> None:
    """Encode the parts of a result into `body`. An error is marked in its text, because this wire has no flag."""
    builder = MessageBuilder()
    path, part_index = ledger.path, ledger.part_index
    for inner in ledger.each_inner_part(part.content):
        encode_part(inner, builder, ledger, "tool")
    ledger.path, ledger.part_index = path if part_index is None else (*path, "content", part_index), None
    builder.write_to(body, ledger, "\n")
    ledger.path, ledger.part_index = path, part_index
    if "content" in body or part.is_error:
        body["content"] = mark_error(body.get("content", ""), is_error=part.is_error)
