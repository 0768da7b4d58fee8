"""Calls and results of a Messages conversation.

Rule: arguments are an object here; text that is none cannot be said and is a loss. None at all, and the text that
some servers give, are read too, and written back as they came.
"""

from collections.abc import Mapping
from typing import Any

from toolwire.dialects.anthropic.parts import DIALECT, WIRE, decode_parts, encode_document, encode_image, encode_text
from toolwire.encoding.calls import Arguments, read_arguments, say_object, spell_words, take_value
from toolwire.encoding.ledger import Ledger, form_of, made_by, take
from toolwire.types import Document, Image, Opaque, Part, Text, ToolCall, ToolResult
from toolwire.wire.arguments import parse_arguments
from toolwire.wire.names import made_id


def decode_call(block: dict[str, Any], place: int, index: int) -> Part:
    """Read a `tool_use` block."""
    name = block.get("name")
    if type(name) is not str:
        return Opaque(DIALECT, block)
    rest = block.copy()
    form: dict[str, Any] = {}
    del rest["type"], rest["name"]
    arguments, raw, error = _take_input(rest, form)
    call_id = _take_id(rest, "id", form) or made_id(place, index)
    name, cache = WIRE.read_name(name, form), WIRE.take_cache(rest)
    return ToolCall(call_id, name, arguments, index, True, raw, error, cache=cache, opaque=WIRE.own(rest, form))


def _take_id(rest: dict[str, Any], key: str, form: dict[str, Any]) -> str | None:
    """Take an id out of what is left; an empty one stays."""
    given = rest.get(key)
    if type(given) is not str or not given:
        form["no_id"] = True
        return None
    del rest[key]
    return WIRE.read_id(given, form)


def _take_input(rest: dict[str, Any], form: dict[str, Any]) -> Arguments:
    """Take the input out of what is left of a call; how one came that is no object is kept."""
    if type(rest.get("input")) is dict:
        return rest.pop("input"), None, None
    said = form["said"] = {"input": rest.pop("input")} if "input" in rest else {}
    return read_arguments(said.get("input"), rest)


def _is_as_said(call: ToolCall, form: Mapping[str, Any]) -> bool:
    """Whether an input that came as no object still means the same."""
    return "said" in form and call.plain_arguments == (parse_arguments(call.raw)[0] if call.raw else {})


def came_whole(call: ToolCall) -> bool:
    """Whether a call of this wire stands in its body as it came; the broken text of a stream has no place there."""
    return not call.raw or "said" in form_of(call.opaque, DIALECT)


def encode_call(call: ToolCall, ledger: Ledger) -> dict[str, Any]:
    """Write a `tool_use` block."""
    form = form_of(call.opaque, DIALECT)
    verbatim = made_by(call.opaque, DIALECT) and "escaped" not in form
    body = {
        "type": "tool_use",
        "id": ledger.ids.call(call.id, own=verbatim),
        "name": call.name if verbatim else ledger.names.write(call.name),
        "input": call.plain_arguments,
    }
    if not verbatim and (call.custom or call.error is not None or not call.complete):
        body["input"] = say_object(call, ledger)
        if not call.complete:
            ledger.lose_cut()
    elif call.error is not None and not came_whole(call):
        body["input"] = say_object(call, ledger)
    elif verbatim:
        if "no_id" in form:
            del body["id"]
        if _is_as_said(call, form):
            del body["input"]
    return ledger.finish(body, call)


def decode_result(block: dict[str, Any]) -> ToolResult:
    """Read a `tool_result` block; one that names no call answers the next that waits."""
    rest = block.copy()
    form: dict[str, Any] = {}
    del rest["type"]
    call_id = _take_id(rest, "tool_use_id", form)
    content: str | list[Part] = []
    given = rest.get("content")
    if type(given) is str:
        content = rest.pop("content")
    elif (value := take_value(rest, "content", form)) is not None:
        content = value
    elif type(given) is list and given:
        content = decode_parts(rest.pop("content"))
    is_error = take(rest, "is_error", bool)
    if is_error is False:
        form["said"] = {"is_error": False}
    return ToolResult(call_id, None, content, bool(is_error), cache=WIRE.take_cache(rest), opaque=WIRE.own(rest, form))


def encode_result(part: ToolResult, ledger: Ledger) -> dict[str, Any]:
    """Write a `tool_result` block."""
    content, form = part.content, form_of(part.opaque, DIALECT)
    mine = made_by(part.opaque, DIALECT)
    verbatim = mine and "escaped" not in form
    body: dict[str, Any] = {"type": "tool_result", "tool_use_id": ledger.ids.result(part.tool_call_id, own=verbatim)}
    if type(content) is str:
        if content or verbatim:
            body["content"] = spell_words(content, form)
    elif content:
        body["content"] = _encode_content(content, ledger, worded=part.is_error and not mine)
    if part.is_error:
        body["is_error"] = True
    if verbatim and part.tool_call_id is None and "no_id" in form:
        del body["tool_use_id"]
    return ledger.finish(body, part)


def _encode_content(parts: Any, ledger: Ledger, *, worded: bool) -> list[dict[str, Any]]:
    """Write what a result holds; an error has to be `worded` ("all content must be type `text`", 2026-11-20)."""
    blocks: list[Any] = []
    for part in ledger.inside(parts):
        match part:
            case Text():
                block: dict[str, Any] | None = encode_text(part, ledger)
            case Image() | Document() if worded:
                ledger.lose("", "tool_result", f"an error of {DIALECT} holds words alone")
                continue
            case Image():
                block = encode_image(part, ledger)
            case Document():
                block = encode_document(part, ledger)
            case Opaque() if part.dialect == DIALECT:
                block = part.value
            case _:
                ledger.lose("", "tool_result", f"a result of {DIALECT} cannot hold this part")
                continue
        if ledger.said(block, part) and (type(part) is not Text or part.text or made_by(part.opaque, DIALECT)):
            blocks.append(block)
    return blocks
