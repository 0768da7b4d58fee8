"""Calls and results of Ollama.

Rules of this file:
- Arguments are an object here; the text that some servers give is read too, and written back as it came.
- Ids came late to this wire: one that was given goes along, one that was made here is never sent.
- A result without an id answers the next waiting call of its name, else the next waiting call.
"""

from typing import Any

from msgspec.structs import replace

from toolwire.dialects.ollama.parts import DIALECT, WIRE, MessageSoFar, encode_part, take_images
from toolwire.encoding.calls import (
    mark_error,
    read_arguments,
    read_error,
    say_object,
    spell_words,
    take_arguments,
    take_value,
)
from toolwire.encoding.ledger import Ledger, form_of, left_of, made_by, take
from toolwire.types import Message, Opaque, Part, Text, ToolCall, ToolResult
from toolwire.wire.arguments import argument_text
from toolwire.wire.names import made_id, was_made

_NAME, _OTHER_NAME = "tool_name", "name"


def decode_calls(entries: list[Any], place: int, first: int = 0) -> list[Part]:
    """Read the calls of an answer; an entry that is none is kept whole among them."""
    return [_decode_call(entry, place, index) for index, entry in enumerate(entries, first)]


def _decode_call(entry: Any, place: int, index: int) -> Part:
    inner = entry.get("function") if type(entry) is dict else None
    if type(inner) is not dict or type(inner.get("name")) is not str:
        return Opaque(DIALECT, entry, {"key": "tool_calls"})
    rest, left = entry.copy(), inner.copy()
    form: dict[str, Any] = {}
    del rest["function"]
    name = left.pop("name")
    if rest.get("type") == "function":
        form["said"] = {"type": rest.pop("type")}
    if type(left.get("index")) is int:
        form["index"] = left.pop("index")
    call_id = _take_id(rest, "id", form) or made_id(place, index)
    arguments, raw, error = take_arguments(left, form, rest)
    if left.get("arguments") is not None:  # it is neither text nor an object, and stays
        arguments, raw, error = read_arguments(left["arguments"])
    if left:
        rest["function"] = left
    return ToolCall(call_id, name, arguments, index, True, raw, error, opaque=WIRE.own(rest, form))


def _take_id(rest: dict[str, Any], key: str, form: dict[str, Any]) -> str | None:
    given = rest.get(key)
    if type(given) is not str or not given:
        return None
    del rest[key]
    if was_made(given):
        form["given"] = True
    return given


def encode_call(call: ToolCall, position: int, ledger: Ledger) -> dict[str, Any]:
    """Write one call."""
    form = form_of(call.opaque, DIALECT)
    mine = made_by(call.opaque, DIALECT)
    inner: dict[str, Any] = {"name": call.name}
    if "index" in form:
        inner["index"] = form["index"] if call.index == position else call.index
    if call.plain_arguments or "no_arguments" not in form:
        textual = call.raw is not None and mine and not call.custom
        inner["arguments"] = argument_text(call) if textual else say_object(call, ledger)
    entry: dict[str, Any] = {"function": left_of(call.opaque, DIALECT, "function") | inner}
    again = ledger.of == "response" and not mine and call.id in ledger.ids.taken  # readers drop one that came before
    written = ledger.ids.call(call.id, own=mine)
    if call.id is not None and ("given" in form or not was_made(call.id)) and not again:
        entry["id"] = written
    if not call.complete:
        ledger.lose_cut()
    return ledger.finish(entry, call)


def decode_result(body: dict[str, Any]) -> Message:
    """Read a tool message: the result of one call."""
    rest = body.copy()
    spelled = rest.pop("role")
    form: dict[str, Any] = {} if spelled == "tool" else {"role": spelled}
    name, call_id = take(rest, _NAME, str), _take_id(rest, "tool_call_id", form)
    if name is None and (name := take(rest, _OTHER_NAME, str)) is not None:
        form["name"] = _OTHER_NAME
    content, is_error = _take_content(rest, form)
    result = ToolResult(call_id, name, content, is_error)
    return Message("tool", [result], name, call_id, WIRE.own(rest, form))


def _take_content(rest: dict[str, Any], form: dict[str, Any]) -> tuple[str | list[Part], bool]:
    value, text, images = take_value(rest, "content", form), take(rest, "content", str), take_images(rest)
    if text is None and value is None:
        return images, False
    words, is_error = read_error(text) if text is not None else (value or "", False)
    return [Text(text=words, opaque=WIRE.plain), *images] if images else words, is_error


def link_result(message: Message, call: ToolCall) -> Message:
    """Link a result that came without an id to the call which it answers; the id is not sent back."""
    [result] = message.parts
    opaque = message.opaque or WIRE.plain
    return replace(
        message,
        content=[replace(result, tool_call_id=call.id)],
        tool_call_id=call.id,
        opaque=WIRE.own(opaque.value, {**(opaque.form or {}), "linked": call.id}),
    )


def encode_result(part: Part, message: Message, ledger: Ledger, names: dict[str | None, str]) -> dict[str, Any] | None:
    """Write one result as a message; `names` says which tool each call called."""
    if type(part) is not ToolResult:
        ledger.lose("", "tool_result", f"a tool message of {DIALECT} holds one result")
        return None
    mine = ledger.own and message.role == "tool"
    form = form_of(message.opaque, DIALECT) if mine else {}
    body: dict[str, Any] = {"role": form.get("role", "tool")}
    name = part.name if part.name is not None or mine else names.get(part.tool_call_id)
    if name is not None:
        body[form.get("name", _NAME)] = name
    call_id = ledger.ids.result(part.tool_call_id, own=mine)
    if (
        part.tool_call_id is not None
        and part.tool_call_id != form.get("linked")
        and ("given" in form or not was_made(part.tool_call_id))
    ):
        body["tool_call_id"] = call_id
    if type(part.content) is str:
        words = mark_error(part.content, is_error=part.is_error)
        body["content"] = spell_words(words, form)
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
