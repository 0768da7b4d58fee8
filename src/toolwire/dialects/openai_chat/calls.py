"""Calls and results of Chat Completions.

Rules of this file:
- Argument text goes out byte for byte as it came in, for as long as it still means the arguments.
- A call without an id gets one made from its place, which is never sent back here.
"""

from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from toolwire.dialects.openai_chat.parts import DIALECT, WIRE, decode_parts, encode_part, shortest
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
from toolwire.types import Message, Opaque, Part, Text, ToolCall, ToolResult
from toolwire.types.spelling.openai_chat import ChatCallSpelling, ChatResultSpelling
from toolwire.wire.arguments import argument_text, format_arguments, half_text
from toolwire.wire.names import made_id, was_made

# Gemini's compatible API sends "" (recorded), Mistral "null" (https://github.com/zed-industries/zed/pull/53605).
NO_IDS = frozenset({"", "null"})


class CallsSoFar(Struct):
    """The messages read so far, and the names of their calls; `legacy` are the places of results without ids."""

    messages: list[Message] = []
    legacy: list[int] = []
    _names: dict[str | None, str] = {}
    _read: int = 0

    def name_of(self, call_id: str | None) -> str | None:
        """Give the name of the latest call of this id."""
        for message in self.messages[self._read :]:
            self._names.update((part.id, part.name) for part in message.parts if type(part) is ToolCall)
        self._read = len(self.messages)
        return self._names.get(call_id)


def decode_call(entry: Any, place: int = 0, index: int = 0) -> Part:
    """Read one call, of a function (JSON) or of a custom tool (free text); an entry that is none is kept whole."""
    key = _key_of(entry)
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
    call_id, opaque = made_id(place, index) if call_id is None else call_id, WIRE.mark(unparsed, spelling)
    return ToolCall(call_id, name, arguments, index, True, raw, error, is_custom, opaque=opaque)


def _key_of(entry: Any) -> str | None:
    """Return the key under which an entry describes its call, or None if the entry is no call."""
    if type(entry) is not dict:
        return None
    if type(inner := entry.get("function")) is dict and type(inner.get("name")) is str:
        return "function"
    inner = entry.get("custom") if entry.get("type") == "custom" else None
    named = type(inner) is dict and type(inner.get("name")) is str and type(inner.get("input")) is str
    return "custom" if named else None


def _take_id(unparsed: dict[str, Any], key: str) -> tuple[str | None, bool]:
    """Take an id out of the unparsed keys, without its escape, and tell whether it had one. A text of none stays."""
    written = unparsed.get(key)
    if type(written) is not str or written in NO_IDS:
        return None, False
    del unparsed[key]
    return WIRE.restore_id(written)


def decode_legacy_call(unparsed: dict[str, Any], place: int) -> ToolCall | None:
    """Take the one call of the deprecated `function_call` out of the unparsed keys of an answer."""
    inner = unparsed["function_call"].copy()
    name, raw = take(inner, "name", str), take(inner, "arguments", str)
    if not name or raw is None:
        return None
    del unparsed["function_call"]
    opaque = WIRE.mark(inner, ChatCallSpelling(is_deprecated_function=True))
    return ToolCall.parse(made_id(place, 0), name, raw, opaque=opaque)


def encode_call(call: ToolCall, body: dict[str, Any], ledger: Ledger) -> None:
    """Add one call to an answer."""
    spelling = spelling_of(call.opaque, ChatCallSpelling)
    if spelling.is_deprecated_function:
        _encode_legacy_call(call, body, ledger)
    elif call.custom and not call.complete and ledger.of == "response" and not made_by(call.opaque, DIALECT):
        ledger.lose_call(call)  # nothing here says of free text that it was cut off
    else:
        body.setdefault("tool_calls", []).append(_encode_entry(call, spelling, ledger))


def _argument_text(call: ToolCall, ledger: Ledger) -> str:
    """Write the arguments; where the server reads them, text that is no object is none."""
    text = argument_text(call, DIALECT)
    if not ledger.quirks.arguments_json or (call.error is None and text.strip()):
        return text
    if call.error is not None:
        _lose_text(call, ledger)
    return "{}"


def _lose_text(call: ToolCall, ledger: Ledger) -> None:
    ledger.lose("raw", "bad_arguments", f"{call.error}; this server takes only an object")


def _encode_entry(call: ToolCall, spelling: ChatCallSpelling, ledger: Ledger) -> dict[str, Any]:
    is_own = made_by(call.opaque, DIALECT)
    is_native = is_own and not spelling.is_escaped
    key = "custom" if call.custom and ledger.quirks.custom_tools else "function"
    inner: dict[str, Any] = {"name": call.name if is_native else ledger.names.write(call.name)}
    if key == "custom":
        inner["input"] = call.raw or ""
    elif call.custom:
        given = arguments_as_object(call, ledger)
        inner["arguments"] = given if ledger.quirks.arguments_object else format_arguments(given)
    elif (is_own and call.raw is None) or ledger.quirks.arguments_object:
        if call.plain_arguments or not spelling.has_no_arguments:
            inner["arguments"] = call.plain_arguments
        if call.raw is not None and call.error is not None:
            _lose_text(call, ledger)
    else:
        inner["arguments"] = _argument_text(call, ledger)
        if not call.complete and not is_own and ledger.of == "response":
            inner["arguments"] = half_text(inner["arguments"], marked=True)
    entry: dict[str, Any] = {}
    call_id = ledger.ids.call(call.id, own=is_native)
    if not (spelling.has_no_id and was_made(call.id)):
        entry["id"] = call_id
    if not spelling.has_no_type:
        entry["type"] = key
    entry[key] = unparsed_of(call.opaque, DIALECT, key) | inner
    if not call.complete:
        ledger.lose_cut()
    entry = ledger.finish(entry, call)
    return without_custom(entry, ledger) if call.custom and key == "function" else entry


def _encode_legacy_call(call: ToolCall, body: dict[str, Any], ledger: Ledger) -> None:
    """Write the one call of the deprecated `function_call`."""
    if "function_call" in body:
        lose_second(ledger)
        return
    if not call.complete:
        ledger.lose_cut()
    body["function_call"] = ledger.replay({"name": call.name, "arguments": argument_text(call, DIALECT)}, call.opaque)


def lose_second(ledger: Ledger) -> None:
    """Lose a call beside the one that the deprecated form holds."""
    ledger.lose("", "tool_call", "an answer to the deprecated `functions` holds one call")


def decode_result(body: dict[str, Any], asked: CallsSoFar) -> Message:
    """Read a tool message: its one result. A name that repeats the call's is a spelling."""
    unparsed = body.copy()
    del unparsed["role"]
    call_id, is_escaped = _take_id(unparsed, "tool_call_id")
    name = unparsed["name"] if type(unparsed.get("name")) is str else None
    has_name = name is not None and asked.name_of(call_id) == name
    if has_name:
        del unparsed["name"]
    value = take_value(unparsed, "content")
    words, is_error = _take_content(unparsed, value)
    spelling = ChatResultSpelling(is_escaped=is_escaped, has_name=has_name, content=value)
    return Message("tool", [ToolResult(call_id, name, words, is_error)], name, call_id, WIRE.mark(unparsed, spelling))


def _take_content(unparsed: dict[str, Any], value: Any) -> tuple[str | list[Part], bool]:
    """Take the content out of the unparsed keys: return words or parts, and whether they are an error."""
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


def decode_legacy_result(body: dict[str, Any], asked: CallsSoFar) -> Message:
    """Read a message of the deprecated function role, which names the tool and no call."""
    unparsed = body.copy()
    del unparsed["role"]
    asked.legacy.append(len(asked.messages))
    name, value = take(unparsed, "name", str), take_value(unparsed, "content")
    words, is_error = _take_content(unparsed, value) if type(unparsed.get("content")) is not list else ([], False)
    opaque = WIRE.mark(unparsed, ChatResultSpelling(is_deprecated_function=True, content=value))
    return Message("tool", [ToolResult(None, name, words, is_error)], name, None, opaque)


def link_legacy_results(asked: CallsSoFar) -> None:
    """Link the results of the deprecated function role to the calls which they answer."""
    links = link_results(asked.messages)
    for place in asked.legacy:
        if (link := links.get((place, 0))) is not None:
            message, call_id = asked.messages[place], link[1].id
            content = [replace(part, tool_call_id=call_id) for part in message.parts]
            asked.messages[place] = replace(message, content=content, tool_call_id=call_id)


def encode_result(part: Part, message: Message, ledger: Ledger, bodies: list[Any], below: list[Any]) -> None:
    """Write one result as a message; what is no text goes below."""
    if type(part) is not ToolResult:
        if type(part) is Opaque and part.dialect == DIALECT:
            return
        ledger.lose("", "tool_result", f"a tool message of {DIALECT} holds one result")
        return
    spelling = spelling_of(message.opaque, ChatResultSpelling)
    body: dict[str, Any] = {"role": "function" if spelling.is_deprecated_function else "tool"}
    call_id = ledger.ids.result(part.tool_call_id, own=ledger.is_native and not spelling.is_escaped)
    if call_id is not None and not spelling.is_deprecated_function:
        body["tool_call_id"] = call_id
    unparsed = message.opaque.value if ledger.is_native and message.opaque else {}
    if part.name is not None and (spelling.is_deprecated_function or spelling.has_name or "name" in unparsed):
        body["name"] = part.name
    body |= _result_content(part, spelling, ledger, below)
    if message.role == "tool":
        _close_result(body, part, message, ledger)
    bodies.append(ledger.finish(body, part))


def _close_result(body: dict[str, Any], part: ToolResult, message: Message, ledger: Ledger) -> None:
    for field in ("tool_call_id", "name"):
        value = getattr(message, field)
        if value is not None and value != getattr(part, field):
            ledger.part_index = None
            ledger.lose(field, "tool_result", "the result in the message says otherwise")
    ledger.replay(body, message.opaque)


def _result_content(
    part: ToolResult, spelling: ChatResultSpelling, ledger: Ledger, below: list[dict[str, Any]]
) -> dict[str, Any]:
    content = part.content
    if isinstance(content, str):
        return {"content": spell_value(mark_error(content, is_error=part.is_error), spelling.content)}
    if not content and ledger.is_native:
        return {}
    blocks: list[Any] = []
    for inner in ledger.each_inner_part(content):
        block = encode_part(inner, ledger, "user")
        if ledger.was_written(block, inner):
            if not _may_stand(inner, ledger):
                block = {"type": "text", "text": put_below(block, inner, below, ledger, f"{DIALECT} results")}
            blocks.append(block)
    _mark_first(blocks, part, content)
    return {"content": shortest(blocks, ledger) if blocks else ""}


def _may_stand(part: Part, ledger: Ledger) -> bool:
    return type(part) is Text or (
        ledger.is_native and made_by(part if isinstance(part, Opaque) else part.opaque, DIALECT)
    )


def _mark_first(blocks: list[Any], part: ToolResult, content: list[Part]) -> None:
    """Say in the first text whether the result is an error; `decode_result` reads it back."""
    if content and type(content[0]) is Text and blocks:
        blocks[0] = {**blocks[0], "text": mark_error(content[0].text, is_error=part.is_error)}
    elif part.is_error:
        blocks.insert(0, {"type": "text", "text": mark_error("", is_error=True)})
