"""Calls and results of Chat Completions.

Rules of this file:
- Argument text goes out byte for byte as it came in, for as long as it still means the arguments.
- A call without an id gets one made from its place, which is never sent back here.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects.openai_chat.parts import DIALECT, WIRE, decode_parts, encode_part, shortest
from toolwire.dialects.openai_chat.tools import without_custom
from toolwire.encoding.calls import (
    mark_error,
    put_below,
    read_error,
    say_object,
    spell_words,
    take_arguments,
    take_value,
)
from toolwire.encoding.ledger import Ledger, form_of, left_of, made_by, take
from toolwire.encoding.linking import link_results
from toolwire.types import Message, Opaque, Part, Text, ToolCall, ToolResult
from toolwire.wire.arguments import argument_text, format_arguments, half_text
from toolwire.wire.names import made_id, was_made

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
        return Opaque(DIALECT, entry, {"key": "tool_calls"})
    rest, left = entry.copy(), entry[key].copy()
    del rest[key]
    form: dict[str, Any] = {}
    if rest.get("type") == key:
        del rest["type"]
    else:
        form["untyped"] = True
    call_id, name = _take_id(rest, "id", form), WIRE.read_name(left.pop("name"), form)
    if call_id is None:
        form["no_id"], call_id = True, made_id(place, index)
    custom = key == "custom"
    arguments, raw, error = ({}, left.pop("input"), None) if custom else take_arguments(left, form, rest)
    if left:
        rest[key] = left
    return ToolCall(call_id, name, arguments, index, True, raw, error, custom, opaque=WIRE.own(rest, form))


def _key_of(entry: Any) -> str | None:
    """Return the key under which an entry describes its call, or None if the entry is no call."""
    if type(entry) is not dict:
        return None
    if type(inner := entry.get("function")) is dict and type(inner.get("name")) is str:
        return "function"
    inner = entry.get("custom") if entry.get("type") == "custom" else None
    named = type(inner) is dict and type(inner.get("name")) is str and type(inner.get("input")) is str
    return "custom" if named else None


def _take_id(rest: dict[str, Any], key: str, form: dict[str, Any]) -> str | None:
    """Take an id out of what is left; a text that is none stays."""
    given = rest.get(key)
    if type(given) is not str or given in NO_IDS:
        return None
    del rest[key]
    return WIRE.read_id(given, form)


def decode_legacy_call(rest: dict[str, Any], place: int) -> ToolCall | None:
    """Take the one call of the deprecated `function_call` out of what is left of an answer."""
    left = rest["function_call"].copy()
    name, raw = take(left, "name", str), take(left, "arguments", str)
    if not name or raw is None:
        return None
    del rest["function_call"]
    return ToolCall.parse(made_id(place, 0), name, raw, opaque=Opaque(DIALECT, left, {"key": "function_call"}))


def encode_call(call: ToolCall, body: dict[str, Any], ledger: Ledger) -> None:
    """Add one call to an answer."""
    form = form_of(call.opaque, DIALECT)
    if form.get("key") == "function_call":
        _encode_legacy_call(call, body, ledger)
    elif call.custom and not call.complete and ledger.of == "response" and not made_by(call.opaque, DIALECT):
        ledger.lose_call(call)  # nothing here says of free text that it was cut off
    else:
        body.setdefault("tool_calls", []).append(_encode_entry(call, form, ledger))


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


def _encode_entry(call: ToolCall, form: Mapping[str, Any], ledger: Ledger) -> dict[str, Any]:
    mine = made_by(call.opaque, DIALECT)
    verbatim = mine and "escaped" not in form
    key = "custom" if call.custom and ledger.quirks.custom_tools else "function"
    inner: dict[str, Any] = {"name": call.name if verbatim else ledger.names.write(call.name)}
    if key == "custom":
        inner["input"] = call.raw or ""
    elif call.custom:
        given = say_object(call, ledger)
        inner["arguments"] = given if ledger.quirks.arguments_object else format_arguments(given)
    elif (mine and call.raw is None) or ledger.quirks.arguments_object:
        if call.plain_arguments or "no_arguments" not in form:
            inner["arguments"] = call.plain_arguments
        if call.raw is not None and call.error is not None:
            _lose_text(call, ledger)
    else:
        inner["arguments"] = _argument_text(call, ledger)
        if not call.complete and not mine and ledger.of == "response":
            inner["arguments"] = half_text(inner["arguments"], marked=True)
    entry: dict[str, Any] = {}
    call_id = ledger.ids.call(call.id, own=verbatim)
    if not ("no_id" in form and was_made(call.id)):
        entry["id"] = call_id
    if "untyped" not in form:
        entry["type"] = key
    entry[key] = left_of(call.opaque, DIALECT, key) | inner
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
    told = as_told(call)
    ledger.lose_opaque(told.opaque)
    legacy = {"name": call.name, "arguments": argument_text(told, DIALECT)}
    body["function_call"] = ledger.replay(legacy, call.opaque)


def lose_second(ledger: Ledger) -> None:
    """Lose a call beside the one that the deprecated form holds."""
    ledger.lose("", "tool_call", "an answer to the deprecated `functions` holds one call")


def as_told(call: ToolCall) -> ToolCall:
    """Give a call as its model's wire told it, of one that was made for a client of the deprecated form."""
    form = form_of(call.opaque, DIALECT)
    return replace(call, opaque=form["made"]) if "made" in form else call


def decode_result(body: dict[str, Any], asked: CallsSoFar) -> Message:
    """Read a tool message: its one result. A name that repeats the call's is a spelling."""
    rest = body.copy()
    del rest["role"]
    form: dict[str, Any] = {}
    call_id = _take_id(rest, "tool_call_id", form)
    name = rest.get("name")
    name = name if type(name) is str else None
    if name is not None and asked.name_of(call_id) == name:
        form["named"] = rest.pop("name")
    content = rest.get("content")
    is_error = False
    words: str | list[Part] = []
    if type(content) is str:
        del rest["content"]
        words, is_error = read_error(content)
    elif (value := take_value(rest, "content", form)) is not None:
        words = value
    elif type(content) is list and content:
        del rest["content"]
        words = decode_parts(content)
        if type(first := words[0]) is Text:
            text, is_error = read_error(first.text)
            words[0] = replace(first, text=text)
    result = ToolResult(call_id, name, words, is_error)
    return Message("tool", [result], name, call_id, WIRE.own(rest, form))


def decode_legacy_result(body: dict[str, Any], asked: CallsSoFar) -> Message:
    """Read a message of the deprecated function role, which names the tool and no call."""
    rest = body.copy()
    del rest["role"]
    form: dict[str, Any] = {"role": "function"}
    name, value, content = take(rest, "name", str), take_value(rest, "content", form), take(rest, "content", str)
    asked.legacy.append(len(asked.messages))
    words: str | list[Part] = [] if value is None else value
    is_error = False
    if content is not None:
        words, is_error = read_error(content)
    return Message("tool", [ToolResult(None, name, words, is_error)], name, None, Opaque(DIALECT, rest, form))


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
    form = form_of(message.opaque, DIALECT)
    body: dict[str, Any] = {"role": form.get("role", "tool")}
    legacy = body["role"] == "function"
    call_id = ledger.ids.result(part.tool_call_id, own=ledger.own and "escaped" not in form)
    if call_id is not None and not legacy:
        body["tool_call_id"] = call_id
    left = message.opaque.value if ledger.own and message.opaque else {}
    if part.name is not None and (legacy or "named" in form or "name" in left):
        body["name"] = part.name
    body |= _result_content(part, form, ledger, below)
    if message.role == "tool":
        _close_result(body, part, message, ledger)
    bodies.append(ledger.finish(body, part))


def _close_result(body: dict[str, Any], part: ToolResult, message: Message, ledger: Ledger) -> None:
    for field in ("tool_call_id", "name"):
        value = getattr(message, field)
        if value is not None and value != getattr(part, field):
            ledger.part = None
            ledger.lose(field, "tool_result", "the result in the message says otherwise")
    ledger.replay(body, message.opaque)


def _result_content(
    part: ToolResult, form: Mapping[str, Any], ledger: Ledger, below: list[dict[str, Any]]
) -> dict[str, Any]:
    content = part.content
    if isinstance(content, str):
        return {"content": spell_words(mark_error(content, is_error=part.is_error), form)}
    if not content and ledger.own:
        return {}
    blocks: list[Any] = []
    for inner in ledger.inside(content):
        block = encode_part(inner, ledger, "user")
        if ledger.said(block, inner):
            if not _may_stand(inner, ledger):
                block = {"type": "text", "text": put_below(block, inner, below, ledger, f"{DIALECT} results")}
            blocks.append(block)
    _mark_first(blocks, part, content)
    return {"content": shortest(blocks, ledger) if blocks else ""}


def _may_stand(part: Part, ledger: Ledger) -> bool:
    return type(part) is Text or (ledger.own and made_by(part if isinstance(part, Opaque) else part.opaque, DIALECT))


def _mark_first(blocks: list[Any], part: ToolResult, content: list[Part]) -> None:
    """Say in the first text whether the result is an error; `decode_result` reads it back."""
    if content and type(content[0]) is Text and blocks:
        blocks[0] = {**blocks[0], "text": mark_error(content[0].text, is_error=part.is_error)}
    elif part.is_error:
        blocks.insert(0, {"type": "text", "text": mark_error("", is_error=True)})
