"""Calls and results of a generateContent conversation.

Rules of this file:
- An id is optional. A call without one gets `gemini_N`, which is never sent; a given one is sent as it is.
- A result without an id answers the next waiting call of its name, else the next waiting call.
- A result is an object. `{"output": text}` and `{"error": text}` stand for text; any other object is its own
  compact JSON text. Both ways this is a bijection. `{"result": value}`, which Google's own clients make, is read
  as the value, and so is a value that is no object; they are written again only as they were read.
- A result is sent under the name that its call was sent with: the server refuses another one.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects.gemini.parts import DIALECT, WIRE, Conversation, decode_part, encode_media, finish, nest
from toolwire.encoding.calls import put_below, read_arguments, say_object
from toolwire.encoding.ledger import form_of, made_by, take
from toolwire.types import Audio, Document, Image, Opaque, Part, Text, ToolCall, ToolResult
from toolwire.wire.arguments import format_arguments, parse_arguments
from toolwire.wire.names import fingerprint, number_of, was_made

_NO_NAME = "unknown_tool"
# Ids made in one response are numbered below this, so that those of the next do not meet them.
_CALLS_OF_A_RESPONSE = 1000


class MadeIds(Struct, eq=False):
    """The ids that are made for calls without one while contents are read; `index` is that of the next call."""

    contents: Iterable[Any]
    body: dict[str, Any] | None = None
    made: int = 0
    index: int = 0
    _taken: set[str] | None = None

    def make_id(self) -> str:
        """Make an id for a call that came without one: its number in the conversation, or in the response."""
        if self._taken is None:
            self._taken = set(_given_ids(self.contents))
            if (body := self.body) is not None:
                named = body.get("responseId") or body.get("response_id") or fingerprint(body)
                self.made = number_of(named) * _CALLS_OF_A_RESPONSE
        made = ""
        while not made or made in self._taken:
            self.made += 1
            made = f"gemini_{self.made}"
        return made


def _given_ids(contents: Iterable[Any]) -> Iterator[str]:
    for content in contents:
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else [parts]:
            call = (part.get("functionCall") or part.get("function_call")) if isinstance(part, dict) else None
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                yield call["id"]


def decode_call(value: Any, rest: dict[str, Any], form: dict[str, Any], ids: MadeIds) -> Part | None:
    """Read a `functionCall`."""
    if type(value) is not dict or type(value.get("name")) is not str:
        return None
    left = value.copy()
    name = WIRE.read_name(left.pop("name"), form)
    call_id = take(left, "id", str) if left.get("id") else None
    arguments, raw, error = take(left, "args", dict), None, None
    if arguments is None:
        arguments, raw, error = read_arguments(left.get("args"), left, rest)
        form["no_args"] = arguments
    if call_id is None:
        form["no_id"] = True
    made = ids.make_id() if call_id is None else call_id
    if left:
        rest["functionCall"] = left
    complete = left.get("willContinue", left.get("will_continue")) is not True
    ids.index += 1
    return ToolCall(made, name, arguments, ids.index - 1, complete, raw, error, opaque=WIRE.own(rest, form))


def came_whole(call: ToolCall) -> bool:
    """Whether a call of this wire stands in its body as it came; the pieces of a stream have no place there."""
    said = call.opaque.value.get("functionCall") if call.opaque is not None else None
    return not call.raw or (type(said) is dict and "args" in said)


def encode_call(call: ToolCall, ledger: Conversation) -> dict[str, Any]:
    """Write a `functionCall`."""
    form = form_of(call.opaque, DIALECT)
    mine = made_by(call.opaque, DIALECT)
    verbatim = mine and "escaped" not in form
    name = call.name if verbatim else ledger.names.write(call.name)
    inner: dict[str, Any] = {"name": name}
    call_id = ledger.ids.call(call.id, own=verbatim)
    if call.id is not None and (not was_made(call.id) or (mine and "no_id" not in form)):
        inner["id"] = call_id
        ledger.sent.add(call_id)
    ledger.named[call.id].append(name)
    if call.custom or call.plain_arguments != form.get("no_args"):
        inner["args"] = say_object(call, ledger)
    inner = nest("functionCall", inner, call)
    if not call.complete and not (mine and inner.get("willContinue", inner.get("will_continue"))):
        ledger.lose_cut()
    return finish({"functionCall": inner}, call, ledger)


def decode_result(value: Any, rest: dict[str, Any], form: dict[str, Any]) -> Part | None:
    """Read a `functionResponse`."""
    if type(value) is not dict:
        return None
    left = value.copy()
    name = take(left, "name", str)
    name = None if name is None else WIRE.read_name(name, form)
    call_id = take(left, "id", str) if left.get("id") else None
    if call_id is None:
        form["id"] = [None, None]
    content: str | list[Part] = []
    response, is_error = left.get("response"), False
    if response is not None:
        del left["response"]
        content, is_error = read_response(response)
        if not _is_said(response) or "result" in response:
            form["response"] = response
    media = take(left, "parts", list) if left.get("parts") else None
    if media is not None:
        words: list[Part] = [Text(content, opaque=WIRE.plain)] if type(content) is str and content else []
        content = [*words, *(_decode_media(body) for body in media)]
        if response is None:
            form["no_response"] = True
    if left:
        rest["functionResponse"] = left
    return ToolResult(call_id, name, content, is_error, opaque=WIRE.own(rest, form))


def link_result(result: ToolResult, call: ToolCall) -> ToolResult:
    """Link a result to the call which it answers; the id that it came with, or without, is kept."""
    opaque = result.opaque or WIRE.plain
    form = {**(opaque.form or {}), "id": [result.tool_call_id, call.id]}
    return replace(result, tool_call_id=call.id, opaque=WIRE.own(opaque.value, form))


def _decode_media(body: Any) -> Part:
    part = decode_part(body)
    return part if isinstance(part, Image | Document | Audio) else Opaque(DIALECT, body)


def _is_said(response: Any) -> bool:
    if type(response) is not dict or len(response) != 1:
        return False
    return "result" in response or type(response.get("output", response.get("error"))) is str


def read_response(response: Any) -> tuple[str, bool]:
    """Read the object of a result, or the value in its place, as text, and whether it is an error."""
    if not _is_said(response):
        return response if type(response) is str else format_arguments(response), False
    [(key, said)] = response.items()
    return said if type(said) is str else format_arguments(said), key == "error"


def write_response(text: str, *, is_error: bool) -> dict[str, Any]:
    """Write text as the object of a result: what `read_response` reads back to exactly this."""
    if is_error:
        return {"error": text}
    if text.startswith("{"):
        response, error = parse_arguments(text)
        if error is None and format_arguments(response) == text and not _is_said(response):
            return response
    return {"output": text}


def encode_result(part: ToolResult, ledger: Conversation) -> dict[str, Any]:
    """Write a `functionResponse`."""
    form = form_of(part.opaque, DIALECT)
    mine = made_by(part.opaque, DIALECT)
    inner: dict[str, Any] = {}
    told = _told_id(part, ledger, mine=mine)
    if told is not None:
        inner["id"] = told
    name = _name_of_result(part, ledger, verbatim=mine and "escaped" not in form)
    if name is not None:
        inner["name"] = name
    text, media = (part.content, []) if type(part.content) is str else _encode_content(part.content, ledger)
    if part.content or not mine or type(part.content) is str:
        spelled = form.get("response")
        if spelled is not None and (text, part.is_error) == read_response(spelled):
            inner["response"] = spelled
        elif text or "no_response" not in form:
            inner["response"] = write_response(text, is_error=part.is_error)
    if media:
        inner["parts"] = media
    return finish({"functionResponse": nest("functionResponse", inner, part)}, part, ledger)


def _told_id(part: ToolResult, ledger: Conversation, *, mine: bool) -> str | None:
    """Give the id to send: as it was told, else the one that the call was sent with."""
    call_id = ledger.ids.result(part.tool_call_id, own=mine)
    if mine:
        told, linked = form_of(part.opaque, DIALECT).get("id", (call_id, part.tool_call_id))
        if linked == part.tool_call_id:
            return told  # type: ignore[no-any-return]
    if call_id in ledger.sent or (mine and not was_made(call_id)):
        return call_id
    if not was_made(part.tool_call_id):
        ledger.lose("tool_call_id", "orphan_result", "no call of this id was sent; it is linked by name")
    return None


def _name_of_result(part: ToolResult, ledger: Conversation, *, verbatim: bool) -> str | None:
    names = ledger.named.get(part.tool_call_id)
    called = names.popleft() if names else None
    if verbatim:
        return part.name
    own = None if part.name is None else ledger.names.write(part.name)
    if called is not None and own not in (None, called):
        ledger.lose("name", "result_name", f"{DIALECT} wants the name of the call", "renamed")
    if own is called is None:
        ledger.lose("name", "result_name", f"{DIALECT} requires the name of the tool", "defaulted")
    return called or own or _NO_NAME


def _encode_content(parts: Iterable[Any], ledger: Conversation) -> tuple[str, list[Any]]:
    """Write the words of a result, and its media where the model takes them there."""
    texts: list[str] = []
    media: list[Any] = []
    spoken = 0
    for part in ledger.inside(parts):
        match part:
            case Text():
                texts.append(part.text)
                spoken += 1
                finish({}, part, ledger)
                ledger.lose_fields(part, "citation", "citations")
                if media:
                    ledger.lose("", "order", f"{DIALECT} says the words of a result first", "moved")
            case Image() | Document() | Audio():
                _place_media(part, texts, media, ledger)
            case Opaque() if part.dialect == DIALECT:
                media.append(part.value)
            case _:
                ledger.lose("", "tool_result", f"a result of {DIALECT} cannot hold this part")
    if spoken > 1:
        ledger.lose("content", "tool_result_texts", "several texts become one", "merged")
    return "\n".join(texts), media


def _place_media(part: Image | Document | Audio, texts: list[str], media: list[Any], ledger: Conversation) -> None:
    body = encode_media(part, ledger)
    if body is None:
        return
    if "text" in body:
        texts.append(body["text"])
    elif ledger.media_in_results or made_by(part.opaque, DIALECT):
        media.append(body)
    else:
        texts.append(put_below(body, part, ledger.below, ledger, "this model's results"))
