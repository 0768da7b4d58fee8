"""The content blocks of a Messages conversation: text, media, thinking, and the calls of server tools."""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import UNSET

from toolwire.encoding.ledger import CacheMarks, Ledger, Wire, made_by, spelling_of, take
from toolwire.encoding.parts import as_text, data_of, drop_foreign_sources, image_media_type, read_data, unpack_data_url
from toolwire.types import Citation, Document, Image, Opaque, Part, ServerToolCall, ServerToolResult, Text, Thinking
from toolwire.types.spelling.anthropic import MessagesMediumSpelling, MessagesTextSpelling
from toolwire.wire.names import WORD_CHARS, Grammar

DIALECT = "anthropic"
# The patterns of names and ids are those in errors of Anthropic's server (2026-07). Cache marks: anthropic 2.11.0,
# CacheControlEphemeralParam (2026-11).
WIRE = Wire(
    DIALECT,
    names=Grammar(WORD_CHARS, 128),
    ids=Grammar(WORD_CHARS, 256, distinct=True),
    cache=CacheMarks("cache_control", "type", "ephemeral", ("5m", "1h"), most=4),
    cut_reasons=("length", "context_window", "incomplete", "content_filter", "refusal", "malformed_tool_call", "pause"),
    thinks_between_tools=True,
)
_UNMARKED_BLOCKS = frozenset({"thinking", "redacted_thinking"})


def mark_blocks(body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Mark up to four blocks of `body` for the cache. Return the marked body and the paths of the marks.

    They are the last tool and the ends of the system prompt, of the last turn, and of the user's turn before it. Texts
    become blocks, so that a turn has the same bytes once its mark has moved on.
    """
    body, paths = body.copy(), list[str]()
    turns = body.get("messages", [])
    asking = [index for index, turn in enumerate(turns[:-1]) if turn.get("role") == "user"]
    marked_turns = {*asking[-1:], len(turns) - 1}
    if tools := body.get("tools"):
        body["tools"] = _mark_last(tools, "tools", paths)
    if system := body.get("system"):
        body["system"] = _mark_last(_as_blocks(system), "system", paths)
    turns = [{**turn, "content": _as_blocks(turn.get("content"))} for turn in turns]
    for index in sorted(marked_turns) if turns else ():
        path = f"messages[{index}].content"
        turns[index]["content"] = _mark_last(turns[index]["content"], path, paths)
    if turns:
        body["messages"] = turns
    return body, paths


def _as_blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if type(content) is str else content


def _mark_last(blocks: list[Any], path: str, paths: list[str]) -> list[Any]:
    """Return `blocks` with a mark at the last one that can have one. Append the path of the mark to `paths`."""
    for index in range(len(blocks or ()) - 1, -1, -1):
        block = blocks[index]
        if type(block) is dict and block.get("type") not in _UNMARKED_BLOCKS and block.get("text") != "":
            paths.append(f"{path}[{index}].cache_control")
            return [*blocks[:index], {**block, "cache_control": {"type": "ephemeral"}}, *blocks[index + 1 :]]
    return blocks


# https://platform.claude.com/docs/en/api/versioning (2026-11-20).
NEWEST = "2026-10-21"
# The block after which another model continues, because the model before it refused (anthropic 2.11.0,
# BetaFallbackBlock, 2026-11-20).
FALLBACK = "fallback"
_QUOTE_FIELD = "cited_text"
_Medium = TypeVar("_Medium", Image, Document)


def decode_parts(blocks: list[Any]) -> list[Part]:
    """Decode a list of blocks."""
    return [decode_part(block) for block in blocks]


def decode_part(block: Any) -> Part:
    """Decode one block. A block that is not understood becomes an opaque part."""
    part = WIRE.decode(block, _DECODERS)
    if type(part) is Opaque and type(block) is dict and str(block.get("type")).endswith("_tool_result"):
        return _decode_server_result(block) or part
    return part  # type: ignore[no-any-return]


def _decode_text(unparsed: dict[str, Any]) -> Part | None:
    text, cache = take(unparsed, "text", str), WIRE.take_cache(unparsed)
    return None if text is None else Text(text, _take_citations(unparsed), cache=cache, opaque=WIRE.mark(unparsed))


def _decode_reference(unparsed: dict[str, Any]) -> Part | None:
    """Decode the name of a tool that the tool search found. On other wires it is text, next to the tool's declaration.

    https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
    """
    name, cache = take(unparsed, "tool_name", str), WIRE.take_cache(unparsed)
    opaque = WIRE.mark(unparsed, MessagesTextSpelling(is_tool_reference=True))
    return None if name is None else Text(name, cache=cache, opaque=opaque)


UNCITED = {"type": "text", "text": "", "citations": None}
"""A text block of an answer without citations. The schema requires the key (@anthropic-ai/sdk 1.14.0, `TextBlock`)."""


def encode_text(part: Text, ledger: Ledger) -> dict[str, Any]:
    """Encode a text block, or a `tool_reference` block if the text came from one."""
    body: dict[str, Any] = {"type": "text", "text": part.text}
    if spelling_of(part.opaque, MessagesTextSpelling).is_tool_reference:
        body = {"type": "tool_reference", "tool_name": part.text}
    if part.citations:
        citations = [encode_citation(citation, ledger) for citation in part.citations]
        if bodies := [citation for citation in citations if citation is not None]:
            body["citations"] = bodies
    return ledger.finish(body, part)


def _take_citations(unparsed: dict[str, Any]) -> list[Citation] | None:
    """Remove the citations from the unparsed keys of a text, and decode them. A list of anything else stays."""
    bodies = unparsed.get("citations")
    if type(bodies) is not list or not bodies or not all(type(body) is dict for body in bodies):
        return None
    del unparsed["citations"]
    return [decode_citation(body) for body in bodies]


def decode_citation(body: dict[str, Any]) -> Citation:
    """Decode one citation of a text."""
    unparsed = body.copy()
    url, title, quote = take(unparsed, "url", str), take(unparsed, "title", str), take(unparsed, _QUOTE_FIELD, str)
    return Citation(url, title, quote, opaque=WIRE.mark(unparsed))


def encode_citation(citation: Citation, ledger: Ledger) -> dict[str, Any] | None:
    """Encode a citation. One from another wire is a loss, because it cites no document of this request."""
    if not made_by(citation.opaque, DIALECT):
        ledger.lose("citations", "citation", f"{DIALECT} accepts only citations of documents in its request")
        return None
    fields = {"url": citation.url, "title": citation.title, _QUOTE_FIELD: citation.quote}
    body = {key: value for key, value in fields.items() if value is not None}
    if citation.start is not None or citation.end is not None:
        ledger.lose("citations", "citation", f"{DIALECT} counts the positions of citations in its own units")
    return ledger.replay(body, citation.opaque)


def _decode_image(unparsed: dict[str, Any]) -> Part | None:
    fields = _take_source(unparsed)
    return None if fields is None or "text" in fields else _build_medium(Image, unparsed, fields)


def _take_source(unparsed: dict[str, Any]) -> dict[str, Any] | None:
    """Remove the source from the unparsed keys of a medium. Return its fields, or None if it is not understood."""
    source: Any = unparsed.pop("source", None)
    match source:
        case {"type": "base64", "media_type": str(media_type), "data": str(data)} if len(source) == 3:
            return {"data": data, "media_type": media_type}
        case {"type": "text", "media_type": "text/plain", "data": str(text)} if len(source) == 3:
            return {"text": text}
        case {"type": "content", "content": content} if (
            len(source) == 2 and (joined := _join_text_blocks(content)) is not None
        ):
            return {"text": joined, "content": content}
        case {"type": "url", "url": str(url)} if len(source) == 2:
            return {"url": url}
        case {"type": "file", "file_id": str(file_id)} if len(source) == 2:
            return {"file_id": file_id}
    return None


def _join_text_blocks(blocks: Any) -> str | None:
    """Return the joined text of `blocks`, or None if a block is no text or has other fields."""
    if type(blocks) is not list or not blocks:
        return blocks if type(blocks) is str else None
    if not all(type(block) is dict and block.keys() == {"type", "text"} for block in blocks):
        return None
    texts = [block["text"] for block in blocks]
    return "\n".join(texts) if set(map(type, texts)) == {str} else None


def _build_medium(medium_type: type[_Medium], unparsed: dict[str, Any], fields: dict[str, Any]) -> _Medium:
    """Build an image or a document from the fields that `_take_source` returned."""
    raw_data: str | None = None
    content = fields.pop("content", UNSET)
    if "data" in fields:
        url, fields["data"], raw_data = read_data(fields["data"])
        fields |= {} if url is None else {"url": url}
    spelling = MessagesMediumSpelling(data=raw_data, content=content)
    return medium_type(cache=WIRE.take_cache(unparsed), opaque=WIRE.mark(unparsed, spelling), **fields)


# anthropic 2.11.0, Base64ImageSourceParam.media_type (2026-11-20).
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def encode_image(part: Image, ledger: Ledger) -> dict[str, Any] | None:
    """Encode an image block, unless it is lost."""
    is_native = made_by(part.opaque, DIALECT)
    part = drop_foreign_sources(unpack_data_url(part, WIRE), ledger)
    source = _encode_source(part, "image/png")
    if source is None:
        ledger.lose("", "image", "an image needs data, a URL or a file id")
        return None
    if "media_type" in source and not is_native:
        source["media_type"] = image_media_type(source["media_type"]) or "image/png"
        if source["media_type"] not in _IMAGE_TYPES:
            ledger.lose("", "image", f"{DIALECT} reads JPEG, PNG, GIF and WebP, not {part.media_type}")
            return None
    ledger.lose_fields(part, "image_detail", "detail")
    _lose_sources(part, source, ledger)
    return ledger.finish({"type": "image", "source": source}, part)


_SOURCE_FIELDS = {"base64": "data", "url": "url", "file": "file_id", "text": "text", "content": "text"}


def _lose_sources(part: Image | Document, source: dict[str, Any], ledger: Ledger) -> None:
    """Report the sources of a medium that are not encoded, because a block has one source."""
    if part.data is not None or source["type"] != "base64":  # otherwise the URL was sent as data
        ledger.lose_sources(part, _SOURCE_FIELDS[source["type"]])


def _encode_source(part: Image | Document, default_type: str) -> dict[str, Any] | None:
    """Encode the source of a medium, or return None if it has none. `default_type` is for data without a media type."""
    if (data := data_of(part, WIRE, spelling_of(part.opaque, MessagesMediumSpelling).data)) is not None:
        media_type = default_type if part.media_type is None else part.media_type
        return {"type": "base64", "media_type": media_type, "data": data}
    if part.url is not None:
        return {"type": "url", "url": part.url}
    if part.file_id is not None:
        return {"type": "file", "file_id": part.file_id}
    return None


def _decode_document(unparsed: dict[str, Any]) -> Part | None:
    fields = _take_source(unparsed)
    return (
        None if fields is None else _build_medium(Document, unparsed, {**fields, "name": take(unparsed, "title", str)})
    )


def _decode_search_result(unparsed: dict[str, Any]) -> Part | None:
    blocks: Any = unparsed.pop("content", None)
    if type(blocks) is not list or (text := _join_text_blocks(blocks)) is None:
        return None
    name, cache = take(unparsed, "title", str), WIRE.take_cache(unparsed)
    spelling = MessagesMediumSpelling(is_search_result=True, content=blocks)
    return Document(text=text, name=name, cache=cache, opaque=WIRE.mark(unparsed, spelling))


def _encode_search_result(part: Document, blocks: Any, ledger: Ledger) -> dict[str, Any]:
    content = blocks if _join_text_blocks(blocks) == part.text else [{"type": "text", "text": part.text or ""}]
    body: dict[str, Any] = {"type": "search_result", "content": content}
    if part.name is not None:
        body["title"] = part.name
    ledger.lose_sources(part, "text")
    return ledger.finish(body, part)


# anthropic 2.11.0, Base64PDFSourceParam, URLPDFSourceParam (2026-11-20).
_PDF_SOURCES = ("base64", "url")
_PDF_TYPES = (None, "application/pdf")
_NO_SOURCE_LOSS = "a document needs data, text, a URL or a file id"


def encode_document(part: Document, ledger: Ledger) -> dict[str, Any] | None:
    """Encode a document block, or a `search_result` block if the document came from one."""
    is_native, spelling = made_by(part.opaque, DIALECT), spelling_of(part.opaque, MessagesMediumSpelling)
    if spelling.is_search_result:
        return _encode_search_result(part, spelling.content, ledger)
    part = part if is_native else as_text(drop_foreign_sources(unpack_data_url(part, WIRE), ledger))
    if part.text is not None:
        source: dict[str, Any] | None = {"type": "text", "media_type": "text/plain", "data": part.text}
        if spelling.content is not UNSET and _join_text_blocks(spelling.content) == part.text:
            source = {"type": "content", "content": spelling.content}
    else:
        source = _encode_source(part, "application/pdf")
    is_no_pdf = source is not None and source["type"] in _PDF_SOURCES and part.media_type not in _PDF_TYPES
    if source is None or (is_no_pdf and not is_native):
        detail = f"{DIALECT} reads PDF and plain text, not {part.media_type}" if is_no_pdf else _NO_SOURCE_LOSS
        ledger.lose("", "document", detail)
        return None
    _lose_sources(part, source, ledger)
    body: dict[str, Any] = {"type": "document", "source": source}
    if part.name is not None:
        body["title"] = part.name
    return ledger.finish(body, part)


def _decode_thinking(unparsed: dict[str, Any]) -> Part | None:
    text, signature = take(unparsed, "thinking", str), take(unparsed, "signature", str)
    return None if text is None else Thinking(text, signature, opaque=WIRE.mark(unparsed))


def _decode_redacted(unparsed: dict[str, Any]) -> Part | None:
    data = take(unparsed, "data", str)
    return None if data is None else Thinking("", data, redacted=True, opaque=WIRE.mark(unparsed))


def encode_thinking(part: Thinking, ledger: Ledger) -> dict[str, Any] | None:
    """Encode thinking that this wire signed. Other thinking is a loss, because Anthropic's server rejects it."""
    is_native = made_by(part.opaque, DIALECT)
    if part.opaque is not None and not is_native:
        ledger.lose("", "thinking", f"{DIALECT} rejects thinking of {part.opaque.dialect}")
        return None
    if part.redacted:
        return ledger.finish({"type": "redacted_thinking", "data": part.signature}, part)
    if part.signature is None and not is_native:
        ledger.lose("", "thinking", f"{DIALECT} rejects thinking without a signature")
        return None
    body: dict[str, Any] = {"type": "thinking", "thinking": part.text}
    if part.signature is not None:
        body["signature"] = part.signature
    return ledger.finish(body, part)


def _decode_server_call(unparsed: dict[str, Any]) -> Part | None:
    call_id, name, arguments = take(unparsed, "id", str), take(unparsed, "name", str), take(unparsed, "input", dict)
    if name is None:
        return None
    return ServerToolCall(call_id, name, arguments, cache=WIRE.take_cache(unparsed), opaque=WIRE.mark(unparsed))


def encode_server_call(part: ServerToolCall, ledger: Ledger) -> dict[str, Any] | None:
    """Encode a call of a server tool. A call that another provider ran is a loss."""
    if not made_by(part.opaque, DIALECT):
        ledger.lose("", "server_tool_call", "another provider ran this tool")
        return None
    fields = {"id": part.id, "name": part.name, "input": part.arguments}
    body = {"type": "server_tool_use", **{key: value for key, value in fields.items() if value is not None}}
    return ledger.finish(body, part)


def _decode_server_result(block: dict[str, Any]) -> Part | None:
    unparsed = block.copy()
    result_type = unparsed.pop("type")
    call_id = take(unparsed, "tool_use_id", str)
    if call_id is None or "content" not in unparsed:
        return None
    content = unparsed.pop("content")
    return ServerToolResult(call_id, result_type, content, cache=WIRE.take_cache(unparsed), opaque=WIRE.mark(unparsed))


def encode_server_result(part: ServerToolResult, ledger: Ledger) -> dict[str, Any] | None:
    """Encode the result of a server tool. A result from another provider is a loss."""
    if not made_by(part.opaque, DIALECT):
        ledger.lose("", "server_tool_result", "another provider ran this tool")
        return None
    return ledger.finish({"type": part.name, "tool_use_id": part.tool_call_id, "content": part.content}, part)


_DECODERS: dict[str, Callable[[dict[str, Any]], Part | None]] = {
    "text": _decode_text,
    "tool_reference": _decode_reference,
    "image": _decode_image,
    "document": _decode_document,
    "search_result": _decode_search_result,
    "thinking": _decode_thinking,
    "redacted_thinking": _decode_redacted,
    "server_tool_use": _decode_server_call,
}
