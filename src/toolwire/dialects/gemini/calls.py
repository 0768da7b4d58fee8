"""Decode and encode the calls and results of a generateContent conversation.

Rules of this file:
- An id is optional. A call without an id gets `gemini_N`, which is never sent. Any other id is sent unchanged.
- A result without an id answers the next open call of the same name, else the next open call.
- A result is an object. `{"output": text}` and `{"error": text}` are decoded as their text. Any other object is decoded
  as its compact JSON text. Encoding reverses this exactly.
- An object in which a client only wraps a value (`_wrapper_of`) is decoded as the value. So is a value that is no
  object. They are encoded in this form only if they were received in it. An object with another key is a result itself.
- A result is sent with the name that its call was sent with, because the server rejects any other name.
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
from toolwire.wire.names import fingerprint, is_generated_id, number_of

_UNKNOWN_TOOL = "unknown_tool"
# The ids of one response have numbers below this, so that they do not collide with those of the next response.
_IDS_PER_RESPONSE = 1000


class IdGenerator(Struct, eq=False):
    """Generates the ids of calls that have none, while contents are decoded.

    - `contents`: the contents to decode. A generated id is never one that they already contain.
    - `body`: the response that has the contents. Its id determines the number of the first generated id.
    - `count`: the number of the last generated id.
    - `call_index`: the index of the next call in its message.
    """

    contents: Iterable[Any]
    body: dict[str, Any] | None = None
    count: int = 0
    call_index: int = 0
    _used_ids: set[str] | None = None

    def make_id(self) -> str:
        """Return a new id for a call that has none: `gemini_` and its number in the conversation or response."""
        if self._used_ids is None:
            self._used_ids = set(_iter_call_ids(self.contents))
            if (body := self.body) is not None:
                response_id = body.get("responseId") or body.get("response_id") or fingerprint(body)
                self.count = number_of(response_id) * _IDS_PER_RESPONSE
        call_id = ""
        while not call_id or call_id in self._used_ids:
            self.count += 1
            call_id = f"gemini_{self.count}"
        return call_id


def _iter_call_ids(contents: Iterable[Any]) -> Iterator[str]:
    for content in contents:
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else [parts]:
            call = (part.get("functionCall") or part.get("function_call")) if isinstance(part, dict) else None
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                yield call["id"]


def decode_call(value: Any, unparsed: dict[str, Any], part: GeminiPartSpelling, ids: IdGenerator) -> Part | None:
    """Decode a `functionCall`. `part` is the spelling of the part that contains it. Return None if it has no name."""
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
    spelling = GeminiCallSpelling(
        **_shared_spelling(part, is_escaped), has_no_id=call_id is None, has_no_args=has_no_args
    )
    index, call_id, opaque = ids.call_index, call_id or ids.make_id(), WIRE.mark(unparsed, spelling)
    ids.call_index += 1
    return ToolCall(call_id, name, arguments, index, complete, raw, error, opaque=opaque)


def _shared_spelling(part: GeminiPartSpelling, is_escaped: bool) -> dict[str, Any]:
    """Return the fields that the spellings of calls and results share."""
    return {"constants": part.constants, "snake_keys": part.snake_keys, "is_escaped": is_escaped}


def can_replay_arguments(call: ToolCall) -> bool:
    """Return True if the arguments of `call` can be encoded as they were received. The pieces of a stream cannot."""
    return not call.raw or "args" in unparsed_of(call.opaque, DIALECT, "functionCall")


def encode_call(call: ToolCall, ledger: Conversation) -> dict[str, Any]:
    """Encode `call` as a part with a `functionCall`."""
    spelling = spelling_of(call.opaque, GeminiCallSpelling)
    is_native = made_by(call.opaque, DIALECT)
    keeps_name = is_native and not spelling.is_escaped
    name = call.name if keeps_name else ledger.names.write(call.name)
    inner: dict[str, Any] = {"name": name}
    call_id = ledger.ids.call(call.id, is_native=keeps_name)
    if call.id is not None and (not is_generated_id(call.id) or (is_native and not spelling.has_no_id)):
        inner["id"] = call_id
        ledger.sent_ids.add(call_id)
    ledger.call_names[call.id].append(name)
    unparsed = unparsed_of(call.opaque, DIALECT, "functionCall")
    if call.custom or not (spelling.has_no_args and call.plain_arguments == read_arguments(unparsed.get("args"))[0]):
        inner["args"] = arguments_as_object(call, ledger)
    inner = unparsed | inner
    if not call.complete and not (is_native and inner.get("willContinue", inner.get("will_continue"))):
        ledger.lose_cut()
    return write_keys(ledger.finish({"functionCall": inner}, call), spelling.snake_keys)


def decode_result(value: Any, unparsed: dict[str, Any], part: GeminiPartSpelling) -> Part | None:
    """Decode a `functionResponse`. `part` is the spelling of the part that contains it."""
    if type(value) is not dict:
        return None
    inner = value.copy()
    inner_name, is_escaped = take(inner, "name", str), False
    name = inner_name
    if name is not None:
        name, is_escaped = WIRE.restore_name(name)
    call_id = take(inner, "id", str) if inner.get("id") else None
    content: str | list[Part] = []
    response, is_error = inner.get("response"), False
    if response is not None:
        del inner["response"]
        content, is_error = read_response(response, inner_name)
    media = take(inner, "parts", list) if inner.get("parts") else None
    if media is not None:
        text_parts: list[Part] = [Text(content, opaque=WIRE.plain)] if type(content) is str and content else []
        content = [*text_parts, *(_decode_result_media(body) for body in media)]
    if inner:
        unparsed["functionResponse"] = inner
    spelling = GeminiResultSpelling(
        **_shared_spelling(part, is_escaped),
        id=None if call_id is None else UNSET,
        has_no_response=media is not None and response is None,
        response=UNSET if response is None or _is_usual(response, inner_name) else response,
    )
    return ToolResult(call_id, name, content, is_error, opaque=WIRE.mark(unparsed, spelling))


def link_result(result: ToolResult, call: ToolCall) -> ToolResult:
    """Return `result` with the id of `call`, which it answers. Its spelling stores the id that it was received with."""
    opaque = result.opaque or WIRE.plain
    spelling = spelling_of(opaque, GeminiResultSpelling)
    spelling = replace(spelling, id=result.tool_call_id, linked_id=call.id)
    return replace(result, tool_call_id=call.id, opaque=WIRE.mark(opaque.value, spelling))


def _decode_result_media(body: Any) -> Part:
    part = decode_part(body)
    return part if isinstance(part, Image | Document | Audio) else Opaque(DIALECT, body)


# The keys under which clients wrap a result of any value: `result` those of Google (google-genai, google-adk),
# `return_value` pydantic-ai, `content` litellm and semantic-kernel (seen 2026-11-27).
_WRAPPERS = frozenset({"result", "return_value", "content"})
# The keys of a text, as Google names them (https://ai.google.dev/api/caching#FunctionResponse). Strands' `GeminiModel`
# writes a list of texts under `output`.
_TEXT_WRAPPERS = frozenset({"output", "error"})
_TEXT_KEYS = frozenset({"type", "text"})


def _is_usual(response: Any, name: str | None) -> bool:
    """Return True if `response` only wraps a text, and is exactly the object that is written for this text."""
    if _wrapper_of(response, name) not in _TEXT_WRAPPERS:
        return False
    text, is_error = read_response(response, name)
    return bool(response == write_response(text, is_error=is_error, name=name))


def _wrapper_of(response: Any, name: str | None) -> str | None:
    """Return the key under which `response` only wraps a value, or None. `name` is that of the tool.

    The AI SDK sends the name of the tool beside the content (https://github.com/vercel/ai, `@ai-sdk/google`).
    """
    if type(response) is not dict:
        return None
    if len(response) == 1:
        [(key, value)] = response.items()
        is_text = key in _TEXT_WRAPPERS and (type(value) is str or (key == "output" and _is_text_list(value)))
        return key if key in _WRAPPERS or is_text else None
    is_named = len(response) == 2 and "content" in response and name is not None and response.get("name") == name
    return "content" if is_named else None


def read_response(response: Any, name: str | None = None) -> tuple[str, bool]:
    """Return a result's `response` as text, and whether it is an error. `name` is that of the tool.

    `response` may be a value that is no object.
    """
    key = _wrapper_of(response, name)
    value = response if key is None else response[key]
    if key is not None and _is_text_list(value):
        value = "\n".join(part["text"] for part in value)
    return value if type(value) is str else format_arguments(value), key == "error"


def _is_text_list(value: Any) -> bool:
    return type(value) is list and bool(value) and all(map(_is_text_part, value))


def _is_text_part(value: Any) -> bool:
    """Return True if `value` is a part with text alone, as the clients of Gemini and of MCP write it."""
    if type(value) is not dict or type(value.get("text")) is not str or value.get("type", "text") != "text":
        return False
    return all(key in _TEXT_KEYS or other is None for key, other in value.items())


def write_response(text: str, *, is_error: bool, name: str | None = None) -> dict[str, Any]:
    """Return the `response` object of a result, from which `read_response` returns exactly `text` and `is_error`."""
    if is_error:
        return {"error": text}
    if text.startswith("{"):
        response, error = parse_arguments(text)
        if error is None and format_arguments(response) == text and _wrapper_of(response, name) is None:
            return response
    return {"output": text}


def encode_result(part: ToolResult, ledger: Conversation) -> dict[str, Any]:
    """Encode a result as a part with a `functionResponse`."""
    spelling, is_native = spelling_of(part.opaque, GeminiResultSpelling), made_by(part.opaque, DIALECT)
    inner: dict[str, Any] = {}
    call_id = _result_id(part, ledger, spelling, is_native=is_native)
    if call_id is not None:
        inner["id"] = call_id
    name = _result_name(part, ledger, keeps_name=is_native and not spelling.is_escaped)
    if name is not None:
        inner["name"] = name
    text, media = (part.content, []) if type(part.content) is str else _encode_result_content(part.content, ledger)
    if part.content or not is_native or type(part.content) is str:
        response = spelling.response
        if response is not UNSET and (text, part.is_error) == read_response(response, name):
            inner["response"] = response
        elif text or not spelling.has_no_response:
            inner["response"] = write_response(text, is_error=part.is_error, name=name)
    if media:
        inner["parts"] = media
    inner = unparsed_of(part.opaque, DIALECT, "functionResponse") | inner
    return write_keys(ledger.finish({"functionResponse": inner}, part), spelling.snake_keys)


def _result_id(
    part: ToolResult, ledger: Conversation, spelling: GeminiResultSpelling, *, is_native: bool
) -> str | None:
    """Return the id to send: the id that the result was received with, else the id that its call was sent with.

    `is_native` is True if the result was received from this wire.
    """
    call_id = ledger.ids.result(part.tool_call_id, is_native=is_native)
    if is_native:
        if spelling.id is UNSET:
            return call_id
        if spelling.linked_id == part.tool_call_id:
            return spelling.id
    if call_id in ledger.sent_ids or (is_native and not is_generated_id(call_id)):
        return call_id
    if not is_generated_id(part.tool_call_id):
        ledger.lose("tool_call_id", "orphan_result", "no call with this id was sent, so the name links the result")
    return None


def _result_name(part: ToolResult, ledger: Conversation, *, keeps_name: bool) -> str | None:
    """Return the name to send: the result's own if `keeps_name`, else the name that its call was sent with."""
    call_names = ledger.call_names.get(part.tool_call_id)
    call_name = call_names.popleft() if call_names else None
    if keeps_name:
        return part.name
    name = None if part.name is None else ledger.names.write(part.name)
    if call_name is not None and name not in (None, call_name):
        ledger.lose("name", "result_name", f"{DIALECT} accepts a result only under its call's name", "renamed")
    if name is call_name is None:
        ledger.lose("name", "result_name", f"{DIALECT} requires the name of the tool", "defaulted")
    return call_name or name or _UNKNOWN_TOOL


def _encode_result_content(parts: Iterable[Any], ledger: Conversation) -> tuple[str, list[Any]]:
    """Encode the content of a result as one text, and its media if the model accepts media in results."""
    texts: list[str] = []
    media: list[Any] = []
    text_count = 0
    for part in ledger.each_inner_part(parts):
        match part:
            case Text():
                texts.append(part.text)
                text_count += 1
                ledger.finish({}, part)
                ledger.lose_fields(part, "citation", "citations")
                if media:
                    ledger.lose("", "order", f"{DIALECT} has the text of a result before its media", "moved")
            case Image() | Document() | Audio():
                _encode_result_media(part, texts, media, ledger)
            case Opaque() if part.dialect == DIALECT:
                media.append(part.value)
            case _:
                ledger.lose("", "tool_result", f"a result of {DIALECT} cannot hold this part")
    if text_count > 1:
        ledger.lose("content", "tool_result_texts", "several texts are joined into one", "merged")
    return "\n".join(texts), media


def _encode_result_media(
    part: Image | Document | Audio, texts: list[str], media: list[Any], ledger: Conversation
) -> None:
    body = encode_media(part, ledger)
    if body is None:
        return
    if "text" in body:
        texts.append(body["text"])
    elif ledger.media_in_results or made_by(part.opaque, DIALECT):
        media.append(body)
    else:
        texts.append(put_below(body, part, ledger.media_after_results, ledger, "this model's results"))
