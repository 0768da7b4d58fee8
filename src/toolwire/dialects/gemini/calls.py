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

from msgspec import UNSET, Struct
from msgspec.structs import replace

from toolwire.dialects.gemini.parts import DIALECT, WIRE, Conversation, decode_part, encode_media, write_keys
from toolwire.encoding.calls import arguments_as_object, put_below, read_arguments
from toolwire.encoding.ledger import made_by, spelling_of, take, unparsed_of
from toolwire.types import Audio, Document, Image, Opaque, Part, Text, ToolCall, ToolResult
from toolwire.types.spelling.gemini import GeminiCallSpelling, GeminiPartSpelling, GeminiResultSpelling
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


def decode_call(value: Any, unparsed: dict[str, Any], part: GeminiPartSpelling, ids: MadeIds) -> Part | None:
    """Read a `functionCall`. `part` is the spelling of the part around it."""
    if type(value) is not dict or type(value.get("name")) is not str:
        return None
    inner = value.copy()
    name, is_escaped = WIRE.restore_name(inner.pop("name"))
    call_id = take(inner, "id", str) if inner.get("id") else None
    arguments, raw, error = take(inner, "args", dict), None, None
    has_no_args = arguments is None
    if arguments is None:
        arguments, raw, error = read_arguments(inner.get("args"), inner, unparsed)
    if inner:
        unparsed["functionCall"] = inner
    complete = inner.get("willContinue", inner.get("will_continue")) is not True
    spelling = GeminiCallSpelling(**_spelled(part, is_escaped), has_no_id=call_id is None, has_no_args=has_no_args)
    index, call_id, opaque = ids.index, call_id or ids.make_id(), WIRE.mark(unparsed, spelling)
    ids.index += 1
    return ToolCall(call_id, name, arguments, index, complete, raw, error, opaque=opaque)


def _spelled(part: GeminiPartSpelling, is_escaped: bool) -> dict[str, Any]:
    """Return the fields that the spellings of calls and of results share."""
    return {"constants": part.constants, "snake_keys": part.snake_keys, "is_escaped": is_escaped}


def came_whole(call: ToolCall) -> bool:
    """Return True if the arguments of `call` can be written as they were sent. The pieces of a stream can not."""
    return not call.raw or "args" in unparsed_of(call.opaque, DIALECT, "functionCall")


def encode_call(call: ToolCall, ledger: Conversation) -> dict[str, Any]:
    """Write a `functionCall`."""
    spelling = spelling_of(call.opaque, GeminiCallSpelling)
    is_own = made_by(call.opaque, DIALECT)
    is_native = is_own and not spelling.is_escaped
    name = call.name if is_native else ledger.names.write(call.name)
    inner: dict[str, Any] = {"name": name}
    call_id = ledger.ids.call(call.id, own=is_native)
    if call.id is not None and (not was_made(call.id) or (is_own and not spelling.has_no_id)):
        inner["id"] = call_id
        ledger.sent.add(call_id)
    ledger.named[call.id].append(name)
    unparsed = unparsed_of(call.opaque, DIALECT, "functionCall")
    if call.custom or not (spelling.has_no_args and call.plain_arguments == read_arguments(unparsed.get("args"))[0]):
        inner["args"] = arguments_as_object(call, ledger)
    inner = unparsed | inner
    if not call.complete and not (is_own and inner.get("willContinue", inner.get("will_continue"))):
        ledger.lose_cut()
    return write_keys(ledger.finish({"functionCall": inner}, call), spelling.snake_keys)


def decode_result(value: Any, unparsed: dict[str, Any], part: GeminiPartSpelling) -> Part | None:
    """Read a `functionResponse`. `part` is the spelling of the part around it."""
    if type(value) is not dict:
        return None
    inner = value.copy()
    name, is_escaped = take(inner, "name", str), False
    if name is not None:
        name, is_escaped = WIRE.restore_name(name)
    call_id = take(inner, "id", str) if inner.get("id") else None
    content: str | list[Part] = []
    response, is_error = inner.get("response"), False
    if response is not None:
        del inner["response"]
        content, is_error = read_response(response)
    media = take(inner, "parts", list) if inner.get("parts") else None
    if media is not None:
        words: list[Part] = [Text(content, opaque=WIRE.plain)] if type(content) is str and content else []
        content = [*words, *(_decode_media(body) for body in media)]
    if inner:
        unparsed["functionResponse"] = inner
    spelling = GeminiResultSpelling(
        **_spelled(part, is_escaped),
        id=None if call_id is None else UNSET,
        has_no_response=media is not None and response is None,
        response=UNSET if response is None or _is_usual(response) else response,
    )
    return ToolResult(call_id, name, content, is_error, opaque=WIRE.mark(unparsed, spelling))


def link_result(result: ToolResult, call: ToolCall) -> ToolResult:
    """Link a result to the call which it answers; the id that it came with, or without, is kept."""
    opaque = result.opaque or WIRE.plain
    spelling = spelling_of(opaque, GeminiResultSpelling)
    spelling = replace(spelling, id=result.tool_call_id, linked_id=call.id)
    return replace(result, tool_call_id=call.id, opaque=WIRE.mark(opaque.value, spelling))


def _decode_media(body: Any) -> Part:
    part = decode_part(body)
    return part if isinstance(part, Image | Document | Audio) else Opaque(DIALECT, body)


def _is_usual(response: Any) -> bool:
    """Return True if `write_response` writes such a response for text."""
    return _is_said(response) and "result" not in response


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
    spelling, is_own = spelling_of(part.opaque, GeminiResultSpelling), made_by(part.opaque, DIALECT)
    inner: dict[str, Any] = {}
    call_id = _id_of_result(part, ledger, spelling, is_own=is_own)
    if call_id is not None:
        inner["id"] = call_id
    name = _name_of_result(part, ledger, is_native=is_own and not spelling.is_escaped)
    if name is not None:
        inner["name"] = name
    text, media = (part.content, []) if type(part.content) is str else _encode_content(part.content, ledger)
    if part.content or not is_own or type(part.content) is str:
        response = spelling.response
        if response is not UNSET and (text, part.is_error) == read_response(response):
            inner["response"] = response
        elif text or not spelling.has_no_response:
            inner["response"] = write_response(text, is_error=part.is_error)
    if media:
        inner["parts"] = media
    inner = unparsed_of(part.opaque, DIALECT, "functionResponse") | inner
    return write_keys(ledger.finish({"functionResponse": inner}, part), spelling.snake_keys)


def _id_of_result(
    part: ToolResult, ledger: Conversation, spelling: GeminiResultSpelling, *, is_own: bool
) -> str | None:
    """Return the id to send: the one that the result came with, else the one that its call was sent with."""
    call_id = ledger.ids.result(part.tool_call_id, own=is_own)
    if is_own:
        if spelling.id is UNSET:
            return call_id
        if spelling.linked_id == part.tool_call_id:
            return spelling.id
    if call_id in ledger.sent or (is_own and not was_made(call_id)):
        return call_id
    if not was_made(part.tool_call_id):
        ledger.lose("tool_call_id", "orphan_result", "no call of this id was sent; it is linked by name")
    return None


def _name_of_result(part: ToolResult, ledger: Conversation, *, is_native: bool) -> str | None:
    names = ledger.named.get(part.tool_call_id)
    called = names.popleft() if names else None
    if is_native:
        return part.name
    name = None if part.name is None else ledger.names.write(part.name)
    if called is not None and name not in (None, called):
        ledger.lose("name", "result_name", f"{DIALECT} wants the name of the call", "renamed")
    if name is called is None:
        ledger.lose("name", "result_name", f"{DIALECT} requires the name of the tool", "defaulted")
    return called or name or _NO_NAME


def _encode_content(parts: Iterable[Any], ledger: Conversation) -> tuple[str, list[Any]]:
    """Write the words of a result, and its media where the model takes them there."""
    texts: list[str] = []
    media: list[Any] = []
    spoken = 0
    for part in ledger.each_inner_part(parts):
        match part:
            case Text():
                texts.append(part.text)
                spoken += 1
                ledger.finish({}, part)
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
