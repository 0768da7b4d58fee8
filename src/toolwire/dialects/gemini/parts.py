"""Decode and encode the parts of a generateContent conversation, and the two spellings of its keys.

Rules of this file:
- Google's servers accept every key in camelCase and in snake_case. The decoder converts the keys to camelCase and
  stores the keys that were in snake_case in the spelling (`snake_keys`, or `inner_snake_keys` for the object in a
  part). The encoder writes these keys in snake_case again.
- A part has one key with its content, and other keys beside it. The part stores those that are not understood.
- A signature is an opaque text. It is never parsed, moved to another part or joined with another signature.
"""

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.families import family_of
from toolwire.encoding.ledger import Ledger, Wire, kind_of_part, made_by, spelling_of, take, unparsed_of
from toolwire.encoding.parts import (
    GOOGLE_URLS,
    as_text,
    data_of,
    image_media_type,
    lose_document_text,
    read_data,
    unpack_data_url,
)
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.encoding.severities import Body
from toolwire.types import Audio, Document, Image, Opaque, Part, ServerToolCall, ServerToolResult, Text, Thinking
from toolwire.types.spelling.gemini import GeminiPartSpelling
from toolwire.wire.names import Grammar

DIALECT = "gemini"
# google-genai 3.4.0, types.FunctionDeclaration.name (2026-11-20).
GRAMMAR = Grammar("A-Za-z0-9_.:-", 128, first="A-Za-z_")
_OWN_CUT_REASONS = ("malformed_tool_call", "pause", "error", "unknown")
WIRE = Wire(
    DIALECT,
    names=GRAMMAR,
    cut_reasons=("length", "context_window", "incomplete", "content_filter", "refusal", *_OWN_CUT_REASONS),
)
SIGNATURE = "thoughtSignature"

# google-genai 3.4.0, types.Part (2026-11-20).
_PART_KEYS = frozenset(
    {"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode"}
    | {"codeExecutionResult", "toolCall", "toolResponse"}
)
_KEYS = (
    *("systemInstruction", "generationConfig", "toolConfig", "serviceTier", "functionDeclarations"),
    *("parametersJsonSchema", "functionCallingConfig", "allowedFunctionNames", "topP", "topK"),
    *("candidateCount", "maxOutputTokens", "stopSequences", "presencePenalty", "frequencyPenalty"),
    *("responseLogprobs", "responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities"),
    *("thinkingConfig", "includeThoughts", "thinkingBudget", "thinkingLevel", SIGNATURE, "mimeType"),
    *("fileUri", "displayName", "toolType", "finishReason", "modelVersion", "responseId", "usageMetadata"),
    *("promptFeedback", "promptTokenCount", "toolUsePromptTokenCount", "cachedContentTokenCount"),
    *("candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount", *(_PART_KEYS - {"text"})),
    *("partialArgs", "willContinue", "jsonPath", "stringValue", "numberValue", "boolValue", "nullValue"),
)


def to_snake_case(key: str) -> str:
    """Return `key` in snake_case."""
    return re.sub(r"([A-Z])", lambda match: f"_{match[0].lower()}", key)


CAMEL = {to_snake_case(key): key for key in _KEYS}
_SNAKE = {camel: snake for snake, camel in CAMEL.items()}
SNAKE_KEYS = frozenset(CAMEL)


class Conversation(Ledger):
    """The ledger of one encoding, with the facts about calls and about the model that results depend on.

    - `media_in_results`: the model accepts media in results.
    - `media_after_results`: the encoded media that are sent after the last result of the turn instead.
    - `skips_signatures`: the model rejects unsigned calls, so the calls of other wires get a placeholder.
    - `sent_ids`: the ids of the calls that were sent with one.
    - `call_names`: the names that calls were sent with, by call id. If several calls have the same id, each result
      gets the next name.
    """

    __slots__ = ("call_names", "media_after_results", "media_in_results", "sent_ids", "skips_signatures")

    def __init__(
        self,
        quirks: Quirks = PLAIN,
        model: str | None = None,
        settings: dict[str, Any] | None = None,
        of: Body = "request",
    ) -> None:
        super().__init__(WIRE, quirks, settings, of)
        family = family_of(model)
        self.media_in_results: bool = family.media_in_results is not False
        self.skips_signatures: bool = bool(model) and family.signed_calls is not False and self.quirks.skip_signature
        self.media_after_results: list[dict[str, Any]] = []
        self.sent_ids: set[str] = set()
        self.call_names: defaultdict[str | None, deque[str]] = defaultdict(deque)


def read_keys(body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a copy of `body` with its known keys in camelCase, and the keys that were in snake_case."""
    if SNAKE_KEYS.isdisjoint(body):
        return body.copy(), []
    snake_keys = [key for key in body if key in SNAKE_KEYS and CAMEL[key] not in body]
    return {CAMEL[key] if key in snake_keys else key: value for key, value in body.items()}, snake_keys


def write_keys(body: dict[str, Any], snake_keys: Iterable[str]) -> dict[str, Any]:
    """Rename the keys `snake_keys` of `body` to their snake_case, as they were received. Return `body`."""
    for key in snake_keys:
        if CAMEL[key] in body:
            body[key] = body.pop(CAMEL[key])
    return body


def spelled_key(body: dict[str, Any], key: str) -> str:
    """Return `key` in the case that `body` has it in, or in camelCase if `body` does not have it."""
    return key if key in body or _SNAKE[key] not in body else _SNAKE[key]


def decode_part(body: Any) -> Part:
    """Decode one part. A part that is not understood becomes an opaque part."""
    if type(body) is not dict:
        return Opaque(DIALECT, body)
    split_body = split_part(body)
    part = None if split_body is None else decode_part_of_key(*split_body)
    return Opaque(DIALECT, body) if part is None else part


def split_part(body: dict[str, Any]) -> tuple[str, Any, dict[str, Any], GeminiPartSpelling] | None:
    """Return the content key of a part, its value, the unparsed keys beside it and its spelling.

    Return None if the part does not have exactly one content key.
    """
    unparsed, snake_keys = read_keys(body)
    part_keys = [key for key in unparsed if key in _PART_KEYS and unparsed[key] is not None]
    if len(part_keys) != 1:
        return None
    constants = {"thought": unparsed.pop("thought")} if unparsed.get("thought") is False else {}
    spelling = GeminiPartSpelling(constants=constants, snake_keys=tuple(snake_keys))
    return part_keys[0], unparsed.pop(part_keys[0]), unparsed, spelling


def decode_part_of_key(key: str, value: Any, unparsed: dict[str, Any], spelling: GeminiPartSpelling) -> Part | None:
    """Decode a part with the content `key`. Return None if it is not understood."""
    is_thought = unparsed.get("thought") is True
    if key == "text" and type(value) is str:
        if not is_thought:
            return Text(value, opaque=WIRE.mark(unparsed, spelling))
        del unparsed["thought"]
        return Thinking(value, take(unparsed, SIGNATURE, str), opaque=WIRE.mark(unparsed, spelling))
    decode = _DECODERS.get(key)
    return None if is_thought or decode is None or type(value) is not dict else decode(value, unparsed, spelling)


def encode_text(part: Text, ledger: Ledger) -> dict[str, Any]:
    """Encode a text."""
    if part.citations and not all(made_by(citation.opaque, DIALECT) for citation in part.citations):
        ledger.lose("citations", "citation", f"{DIALECT} has citations on the answer, not on a text")
    return _finish({"text": part.text}, part, ledger)


def encode_thinking(part: Thinking, ledger: Ledger) -> dict[str, Any] | None:
    """Encode a thought. Another provider's thought is sent without its signature. Return None if it cannot be sent."""
    is_foreign = part.opaque is not None and not made_by(part.opaque, DIALECT)
    if part.redacted:
        ledger.lose("", "redacted_thinking", "only the provider that hid this thinking can read it")
        return None
    body: dict[str, Any] = {"text": part.text, "thought": True}
    if part.signature is not None and is_foreign:
        ledger.lose_signature(part, f"only {part.opaque.dialect} can check this signature")  # type: ignore[union-attr]
    elif part.signature is not None:
        body[SIGNATURE] = part.signature
    if not made_by(part.opaque, DIALECT):
        if not part.text and SIGNATURE not in body:
            ledger.lose("", "thinking", "thinking without text is not sent", severity="minor")
            return None
        ledger.lose("text", "thinking", "the thinking is sent as an unsigned thought", "approximated")
    return _finish(body, part, ledger)


_DEFAULT_MEDIA_TYPES: dict[type, str] = {Image: "image/png", Audio: "audio/wav", Document: "application/pdf"}
# https://ai.google.dev/gemini-api/docs/file-prompting-strategies (2026-11-20): the media types that models accept.
_MEDIA_TYPE_BY_SUFFIX = {
    **{suffix: f"image/{suffix}" for suffix in ("png", "jpeg", "webp", "gif", "heic", "heif")},
    **{suffix: f"audio/{suffix}" for suffix in ("wav", "ogg", "flac", "aac", "aiff")},
    **{suffix: f"video/{suffix}" for suffix in ("mp4", "webm", "mpeg")},
    "jpg": "image/jpeg",
    "mp3": "audio/mpeg",
    "mov": "video/quicktime",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "html": "text/html",
    "csv": "text/csv",
    "md": "text/markdown",
}
_SOURCES = ("data", "url", "text")
_FEW_URLS = "Gemini's servers fetch few URLs outside of Google's storage: send the data to be sure"


def _media_class(media_type: str | None) -> type:
    family = (media_type or "").partition("/")[0].lower()
    return Image if family == "image" else Audio if family == "audio" else Document


def _decode_media(
    key: str, source: str, value: dict[str, Any], unparsed: dict[str, Any], spelling: GeminiPartSpelling
) -> Part | None:
    inner, snake_keys = read_keys(value)
    raw, media_type = take(inner, source, str), take(inner, "mimeType", str)
    if raw is None:
        return None
    part_class = _media_class(media_type)
    url, data, raw_data = read_data(raw) if source == "data" else (raw, None, None)
    fields: dict[str, Any] = {"url": url, "data": data, "media_type": media_type}
    if part_class is Document:
        fields["name"] = take(inner, "displayName", str)
    if inner:
        unparsed[key] = inner
    spelling = replace(spelling, inner_snake_keys=tuple(snake_keys), data=raw_data)
    return part_class(opaque=WIRE.mark(unparsed, spelling), **fields)  # type: ignore[no-any-return]


def encode_media(part: Image | Document | Audio, ledger: Ledger) -> dict[str, Any] | None:
    """Encode an image, a document or audio as data or as a URL. Return None if the part has neither."""
    is_native, part = made_by(part.opaque, DIALECT), unpack_data_url(part, WIRE)
    if type(part) is Document and not is_native and not (part.media_type or "").startswith("text/"):
        part = as_text(part)
    source = _choose_source(part, ledger)
    if source is None:
        ledger.lose("", "media", "media need data or a URL")
        return None
    if source == "text":
        lose_document_text(part, ledger)  # type: ignore[arg-type]
        return _finish({"text": part.text}, part, ledger)  # type: ignore[union-attr]
    if (data := data_of(part, WIRE, spelling_of(part.opaque, GeminiPartSpelling).data)) is not None:
        key, inner = "inlineData", {"data": data}
    else:
        url: str = part.url  # type: ignore[assignment]
        key, inner = "fileData", {"fileUri": url}
        if not is_native and not url.startswith(GOOGLE_URLS):
            ledger.lose("url", "media_url", _FEW_URLS, "approximated")
    media_type = part.media_type if is_native or part.media_type else _guess_media_type(part)
    if media_type is not None:
        inner["mimeType"] = media_type if is_native or type(part) is not Image else image_media_type(media_type)
    if type(part) is Document and part.name is not None:
        inner["displayName"] = part.name
    return _finish({key: _finish_inner(key, inner, part)}, part, ledger)


def _choose_source(part: Image | Document | Audio, ledger: Ledger) -> str | None:
    """Return the field of `part` to encode its content from, and record the loss of all other fields."""
    present = [field for field in _SOURCES if getattr(part, field, None) is not None]
    source = present.pop(0) if present else None
    for field in (*present, "file_id"):
        if getattr(part, field, None) is not None:
            ledger.lose(field, "media_source", f"{DIALECT} accepts media as data or as the URL of a file")
    for field in ("detail", "transcript"):
        if getattr(part, field, None) is not None:
            ledger.lose(field, f"media_{field}", f"{DIALECT} has no field for it")
    return source


def _guess_media_type(part: Image | Document | Audio) -> str:
    """Return the media type of a part that has none, from the suffix of its URL, or else a default."""
    suffix = (part.url or "").partition("?")[0].rpartition(".")[2].lower() if part.data is None else ""
    media_type = _MEDIA_TYPE_BY_SUFFIX.get(suffix)
    return (
        media_type
        if media_type is not None and _media_class(media_type) is type(part)
        else _DEFAULT_MEDIA_TYPES[type(part)]
    )


_ServerPart = type[ServerToolCall] | type[ServerToolResult]


def _decode_code(
    key: str, part_class: _ServerPart, value: dict[str, Any], unparsed: dict[str, Any], spelling: GeminiPartSpelling
) -> Part:
    """Decode code that the server executed, or its result. The whole object is the content."""
    content = value.copy()
    return part_class(take(content, "id", str), key, content, opaque=WIRE.mark(unparsed, replace(spelling, key=key)))


def _decode_server_tool(
    key: str,
    part_class: _ServerPart,
    content_key: str,
    value: dict[str, Any],
    unparsed: dict[str, Any],
    spelling: GeminiPartSpelling,
) -> Part:
    inner, snake_keys = read_keys(value)
    call_id, name, content = take(inner, "id", str), take(inner, "toolType", str), take(inner, content_key, dict)
    if inner:
        unparsed[key] = inner
    spelling = replace(spelling, key=key, inner_snake_keys=tuple(snake_keys))
    return part_class(call_id, key if name is None else name, content, opaque=WIRE.mark(unparsed, spelling))


def encode_server_part(part: ServerToolCall | ServerToolResult, ledger: Ledger) -> dict[str, Any] | None:
    """Encode a call of a server tool, or its result. Return None if it cannot be sent."""
    key = spelling_of(part.opaque, GeminiPartSpelling).key
    if key is None:
        ledger.lose("", kind_of_part(part), "another provider ran this tool")
        return None
    if isinstance(part, ServerToolCall):
        call_id, content_key, content = part.id, "args", part.arguments
    else:
        call_id, content_key, content = part.tool_call_id, "response", part.content
    inner: dict[str, Any] = {} if call_id is None else {"id": call_id}
    if key in {"toolCall", "toolResponse"}:
        if part.name != key:
            inner["toolType"] = part.name
        if content is not None:
            inner[content_key] = content
    elif isinstance(content, dict) and part.name == key:
        inner |= content
    else:
        ledger.lose("", "server_tool", f"{DIALECT} accepts `{key}` only for its own tool, and only with an object")
        return None
    return _finish({key: _finish_inner(key, inner, part)}, part, ledger)


_DECODERS: dict[str, Callable[[dict[str, Any], dict[str, Any], GeminiPartSpelling], Part | None]] = {
    "inlineData": partial(_decode_media, "inlineData", "data"),
    "fileData": partial(_decode_media, "fileData", "fileUri"),
    "executableCode": partial(_decode_code, "executableCode", ServerToolCall),
    "codeExecutionResult": partial(_decode_code, "codeExecutionResult", ServerToolResult),
    "toolCall": partial(_decode_server_tool, "toolCall", ServerToolCall, "args"),
    "toolResponse": partial(_decode_server_tool, "toolResponse", ServerToolResult, "response"),
}


def _finish_inner(key: str, inner: dict[str, Any], part: Any) -> dict[str, Any]:
    """Add the unparsed keys to `inner`, the object in a part of this wire, and restore the case of its keys."""
    opaque = part.opaque
    if not made_by(opaque, DIALECT):
        return inner
    return write_keys(
        unparsed_of(opaque, DIALECT, key) | inner, spelling_of(opaque, GeminiPartSpelling).inner_snake_keys
    )


def _finish(body: dict[str, Any], part: Any, ledger: Ledger) -> dict[str, Any]:
    """Add the unparsed keys to the encoded `body` of a part of this wire, and restore the case of its keys."""
    return write_keys(ledger.finish(body, part), spelling_of(part.opaque, GeminiPartSpelling).snake_keys)
