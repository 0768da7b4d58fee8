"""Calls and results of Chat Completions.

Rules of this file:
- The text of arguments is written byte for byte as it was read, as long as it still has the meaning of the arguments.
- A call without an id gets an id that is generated from its position. It is never written to this wire.
"""

from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from toolwire.dialects.openai_chat.parts import DIALECT, WIRE, decode_parts, encode_part, simplify_content
from toolwire.dialects.openai_chat.tools import without_custom
from toolwire.encoding.calls import (
    arguments_as_object,
    mark_error,
    put_below,
    read_error,
    spell_value,
    take_arguments,
    take_free_text,
    take_value,
)
from toolwire.encoding.ledger import Ledger, made_by, spelling_of, take, unparsed_of
from toolwire.encoding.linking import link_results
from toolwire.encoding.parts import without_mark
from toolwire.types import Message, Opaque, Part, Text, ToolCall, ToolResult
from toolwire.types.spelling.openai_chat import ChatCallSpelling, ChatResultSpelling
from toolwire.wire.arguments import argument_text, cut_off_text, format_arguments
from toolwire.wire.names import generate_call_id, is_generated_id

# Gemini's compatible API sends "" (recorded), Mistral "null" (https://github.com/zed-industries/zed/pull/53605).
NO_IDS = frozenset({"", "null"})


class DecodedMessages(Struct):
    """The messages of a request that were read so far, and the names of their calls.

    `deprecated_results` are the indexes of the results of the deprecated function role, which have no call id.
    """

    messages: list[Message] = []
    deprecated_results: list[int] = []
    _names: dict[str | None, str] = {}
    _named_count: int = 0

    def name_of(self, call_id: str | None) -> str | None:
        """Return the name of the latest call that has this id."""
        for message in self.messages[self._named_count :]:
            self._names.update((part.id, part.name) for part in message.parts if type(part) is ToolCall)
        self._named_count = len(self.messages)
        return self._names.get(call_id)


def decode_call(entry: Any, id_seed: int = 0, index: int = 0) -> Part:
    """Read one call of a function (JSON arguments) or of a custom tool (free text). Any other entry stays unparsed.

    If the call has no id, one is generated from `id_seed`, a number of the turn, and `index`, its index in the turn.
    """
    key = _call_key_of(entry)
    if key is None:
        return Opaque(DIALECT, entry, spelling=ChatCallSpelling())
    unparsed, inner = entry.copy(), entry[key].copy()
    del unparsed[key]
    has_type = unparsed.get("type") == key
    if has_type:
        del unparsed["type"]
    (call_id, id_is_escaped), (name, name_is_escaped) = _take_id(unparsed, "id"), WIRE.restore_name(inner.pop("name"))
    is_custom = key == "custom"
    (arguments, raw, error), has_arguments = take_free_text(inner) if is_custom else take_arguments(inner, unparsed)
    if inner:
        unparsed[key] = inner
    spelling = ChatCallSpelling(
        is_escaped=id_is_escaped or name_is_escaped,
        has_no_id=call_id is None,
        has_no_type=not has_type,
        has_no_arguments=not has_arguments,
    )
    call_id, opaque = generate_call_id(id_seed, index) if call_id is None else call_id, WIRE.mark(unparsed, spelling)
    return ToolCall(call_id, name, arguments, index, True, raw, error, is_custom, opaque=opaque)


def _call_key_of(entry: Any) -> str | None:
    """Return the key under which an entry describes its call, or None if the entry is no call."""
    if type(entry) is not dict:
        return None
    if type(inner := entry.get("function")) is dict and type(inner.get("name")) is str:
        return "function"
    inner = entry.get("custom") if entry.get("type") == "custom" else None
    is_custom = type(inner) is dict and type(inner.get("name")) is str and type(inner.get("input")) is str
    return "custom" if is_custom else None


def _take_id(unparsed: dict[str, Any], key: str) -> tuple[str | None, bool]:
    """Remove an id from `unparsed`. Return it without its escape, and True if it had one. A text in `NO_IDS` stays."""
    written = unparsed.get(key)
    if type(written) is not str or written in NO_IDS:
        return None, False
    del unparsed[key]
    return WIRE.restore_id(written)


def decode_deprecated_call(unparsed: dict[str, Any], id_seed: int) -> ToolCall | None:
    """Remove the deprecated `function_call` from the `unparsed` keys of an answer, and decode the call."""
    inner = unparsed["function_call"].copy()
    name, raw = take(inner, "name", str), take(inner, "arguments", str)
    if not name or raw is None:
        return None
    del unparsed["function_call"]
    opaque = WIRE.mark(inner, ChatCallSpelling(is_deprecated_function=True))
    return ToolCall.parse(generate_call_id(id_seed, 0), name, raw, opaque=opaque)


def encode_call(call: ToolCall, body: dict[str, Any], ledger: Ledger) -> None:
    """Write one call into the `body` of an answer."""
    spelling = spelling_of(call.opaque, ChatCallSpelling)
    if spelling.is_deprecated_function:
        _encode_deprecated_call(call, body, ledger)
    elif call.custom and not call.complete and ledger.of == "response" and not made_by(call.opaque, DIALECT):
        ledger.lose_call(call)  # Chat Completions has no mark for free text that was cut off
    else:
        body.setdefault("tool_calls", []).append(_encode_entry(call, spelling, ledger))


def _argument_text(call: ToolCall, ledger: Ledger) -> str:
    """Return the text of the arguments. If the server parses it (`arguments_json`), any text but an object is "{}"."""
    text = argument_text(call, DIALECT)
    if not ledger.quirks.arguments_json or (call.error is None and text.strip()):
        return text
    if call.error is not None:
        _lose_argument_text(call, ledger)
    return "{}"


def _lose_argument_text(call: ToolCall, ledger: Ledger) -> None:
    ledger.lose("raw", "bad_arguments", f"{call.error}; this server accepts only an object")


def _encode_entry(call: ToolCall, spelling: ChatCallSpelling, ledger: Ledger) -> dict[str, Any]:
    """Write one entry of `tool_calls`."""
    is_native = made_by(call.opaque, DIALECT)
    is_verbatim = is_native and not spelling.is_escaped
    key = "custom" if call.custom and ledger.quirks.custom_tools else "function"
    inner: dict[str, Any] = {"name": call.name if is_verbatim else ledger.names.write(call.name)}
    if key == "custom":
        inner["input"] = call.raw or ""
    elif call.custom:
        arguments = arguments_as_object(call, ledger)
        inner["arguments"] = arguments if ledger.quirks.arguments_object else format_arguments(arguments)
    elif (is_native and call.raw is None) or ledger.quirks.arguments_object:
        if call.plain_arguments or not spelling.has_no_arguments:
            inner["arguments"] = call.plain_arguments
        if call.raw is not None and call.error is not None:
            _lose_argument_text(call, ledger)
    else:
        inner["arguments"] = _argument_text(call, ledger)
        if not call.complete and not is_native and ledger.of == "response":
            inner["arguments"] = cut_off_text(inner["arguments"], marked=True)
    entry: dict[str, Any] = {}
    call_id = ledger.ids.call(call.id, is_native=is_verbatim)
    if not (spelling.has_no_id and is_generated_id(call.id)):
        entry["id"] = call_id
    if not spelling.has_no_type:
        entry["type"] = key
    entry[key] = unparsed_of(call.opaque, DIALECT, key) | inner
    if not call.complete:
        ledger.lose_cut()
    entry = ledger.finish(entry, call)
    return without_custom(entry, ledger) if call.custom and key == "function" else entry


def _encode_deprecated_call(call: ToolCall, body: dict[str, Any], ledger: Ledger) -> None:
    """Write the deprecated `function_call`, which is one call. Report any other call as a loss."""
    if "function_call" in body:
        lose_second_call(ledger)
        return
    if not call.complete:
        ledger.lose_cut()
    body["function_call"] = ledger.replay({"name": call.name, "arguments": argument_text(call, DIALECT)}, call.opaque)


def lose_second_call(ledger: Ledger) -> None:
    """Report a second call as a loss in the deprecated form, which has only one."""
    ledger.lose("", "tool_call", "an answer to the deprecated `functions` has only one call")


def decode_result(body: dict[str, Any], decoded: DecodedMessages) -> Message:
    """Read a tool message, which is one result. A name that repeats the name of its call is stored as a spelling."""
    unparsed = body.copy()
    del unparsed["role"]
    call_id, is_escaped = _take_id(unparsed, "tool_call_id")
    name = unparsed["name"] if type(unparsed.get("name")) is str else None
    has_name = name is not None and decoded.name_of(call_id) == name
    if has_name:
        del unparsed["name"]
    value = take_value(unparsed, "content")
    content, is_error = _take_content(unparsed, value)
    spelling = ChatResultSpelling(is_escaped=is_escaped, has_name=has_name, content=value)
    return Message("tool", [ToolResult(call_id, name, content, is_error)], name, call_id, WIRE.mark(unparsed, spelling))


def _take_content(unparsed: dict[str, Any], value: Any) -> tuple[str | list[Part], bool]:
    """Remove the content from `unparsed`. Return its text or its parts, and True if they are an error.

    `value` is the content if it is neither a text nor a list of parts.
    """
    if value is not UNSET:
        return format_arguments(value), False
    content = unparsed.get("content")
    if type(content) is str:
        return read_error(unparsed.pop("content"))
    if type(content) is not list or not content:
        return [], False
    parts, is_error = decode_parts(unparsed.pop("content")), False
    if type(first := parts[0]) is Text:
        text, is_error = read_error(first.text)
        parts[0] = replace(first, text=text)
    return parts, is_error


def decode_deprecated_result(body: dict[str, Any], decoded: DecodedMessages) -> Message:
    """Read a message of the deprecated function role, which has the name of the tool and no call id."""
    unparsed = body.copy()
    del unparsed["role"]
    decoded.deprecated_results.append(len(decoded.messages))
    name, value = take(unparsed, "name", str), take_value(unparsed, "content")
    content, is_error = _take_content(unparsed, value) if type(unparsed.get("content")) is not list else ([], False)
    opaque = WIRE.mark(unparsed, ChatResultSpelling(is_deprecated_function=True, content=value))
    return Message("tool", [ToolResult(None, name, content, is_error)], name, None, opaque)


def link_deprecated_results(decoded: DecodedMessages) -> None:
    """Set the call id of each result of the deprecated function role to that of the call that it answers."""
    links = link_results(decoded.messages)
    for index in decoded.deprecated_results:
        if (link := links.get((index, 0))) is not None:
            message, call_id = decoded.messages[index], link[1].id
            content = [replace(part, tool_call_id=call_id) for part in message.parts]
            decoded.messages[index] = replace(message, content=content, tool_call_id=call_id)


def encode_result(part: Part, message: Message, ledger: Ledger, bodies: list[Any], user_blocks: list[Any]) -> None:
    """Append the message of one result to `bodies`. Parts that are no text are appended to `user_blocks`.

    Those are the blocks of a user message that follows the results.
    """
    if type(part) is not ToolResult:
        if type(part) is Opaque and part.dialect == DIALECT:
            return
        ledger.lose("", "tool_result", f"a tool message of {DIALECT} has only one result")
        return
    spelling = spelling_of(message.opaque, ChatResultSpelling)
    body: dict[str, Any] = {"role": "function" if spelling.is_deprecated_function else "tool"}
    call_id = ledger.ids.result(part.tool_call_id, is_native=ledger.is_native and not spelling.is_escaped)
    if call_id is not None and not spelling.is_deprecated_function:
        body["tool_call_id"] = call_id
    unparsed = message.opaque.value if ledger.is_native and message.opaque else {}
    if part.name is not None and (spelling.is_deprecated_function or spelling.has_name or "name" in unparsed):
        body["name"] = part.name
    body |= _result_content(part, spelling, ledger, user_blocks)
    if message.role == "tool":
        _finish_result(body, part, message, ledger)
    bodies.append(ledger.finish(body, part))


def _finish_result(body: dict[str, Any], part: ToolResult, message: Message, ledger: Ledger) -> None:
    """Add the unparsed keys of a tool message, and report its fields as losses that differ from those of its result."""
    for field in ("tool_call_id", "name"):
        value = getattr(message, field)
        if value is not None and value != getattr(part, field):
            ledger.part_index = None
            ledger.lose(field, "tool_result", "the result in the message has another value")
    ledger.replay(body, message.opaque)


def _result_content(
    part: ToolResult, spelling: ChatResultSpelling, ledger: Ledger, user_blocks: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the key `content` of a tool message, if it has one."""
    content = part.content
    if isinstance(content, str):
        return {"content": spell_value(mark_error(content, is_error=part.is_error), spelling.content)}
    if not content and ledger.is_native:
        return {}
    blocks: list[Any] = []
    for inner in ledger.each_inner_part(content):
        block = encode_part(without_mark(inner, ledger), ledger, "user")
        if ledger.was_written(block, inner):
            if not _is_accepted(inner, ledger):
                block = {"type": "text", "text": put_below(block, inner, user_blocks, ledger, f"{DIALECT} results")}
            blocks.append(block)
    _mark_error(blocks, part, content)
    return {"content": simplify_content(blocks, ledger) if blocks else ""}


def _is_accepted(part: Part, ledger: Ledger) -> bool:
    """Return True if a tool message may contain `part`: a text, or a part that this wire sent in one."""
    return type(part) is Text or (
        ledger.is_native and made_by(part if isinstance(part, Opaque) else part.opaque, DIALECT)
    )


def _mark_error(blocks: list[Any], part: ToolResult, content: list[Part]) -> None:
    """Mark the first text of an error, and escape any other first text. `decode_result` reads both."""
    if content and type(content[0]) is Text and blocks:
        blocks[0] = {**blocks[0], "text": mark_error(content[0].text, is_error=part.is_error)}
    elif part.is_error:
        blocks.insert(0, {"type": "text", "text": mark_error("", is_error=True)})
