"""The parts of a Chat Completions message."""

from collections.abc import Callable, Sequence
from typing import Any

from toolwire.encoding.ledger import CacheMarks, Ledger, Wire, made_by, spelling_of, take, unparsed_of
from toolwire.encoding.parts import (
    as_text,
    cite_url,
    data_of,
    data_url,
    drop_foreign_sources,
    lose_document_text,
    read_data,
    read_file_data,
    read_image_url,
    unpack_data_url,
    write_file_data,
)
from toolwire.streams.merging import collect_texts, join_texts
from toolwire.types import Audio, Citation, Document, Image, Opaque, Part, Refusal, Text, Thinking
from toolwire.types.spelling.openai_chat import ChatMediumSpelling, ChatRefusalSpelling, ChatThinkingSpelling
from toolwire.wire.names import WORD_CHARS, Grammar

DIALECT = "openai-chat"
WIRE = Wire(
    DIALECT,
    names=Grammar(WORD_CHARS, 64),
    ids=Grammar("!-~", 40),
    cache=CacheMarks(
        "prompt_cache_breakpoint",
        "mode",
        "explicit",
        ("30m", "12h"),
        opt_in=True,
        blocks=frozenset({"text", "image_url", "input_audio", "file"}),
    ),
    cut_reasons=("length", "context_window", "incomplete", "content_filter", "refusal"),
    knows_effort_alone=True,
)
PDF = "application/pdf"  # the only type of file data that OpenAI reads (trpc-agent-go#1816, 2026-05-18)
_DETAIL_TEXT_KEYS = frozenset({"text", "summary"})
AUDIO_TEXT_KEYS = frozenset({"data", "transcript"})
# openai 3.52.0, ChatCompletionContentPartInputAudioParam (2026-11-20).
_AUDIO_FORMATS = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_FORMATS_OF_AUDIO = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def decode_parts(blocks: list[Any]) -> list[Part]:
    """Read the content of a message that is a list of blocks."""
    decode = WIRE.decode
    return [decode(block, _DECODERS) for block in blocks]


def decode_part(block: Any) -> Part:
    """Read one block of a content. A block that is not understood stays unparsed."""
    return WIRE.decode(block, _DECODERS)  # type: ignore[no-any-return]


def simplify_content(blocks: list[Any], ledger: Ledger, separator: str = "\n") -> Any:
    """Return a content as one string if it is a single text of another wire, and else as its blocks.

    If the server accepts no list (`joined_texts` of the quirks), all texts are joined with `separator`.
    """
    if not ledger.quirks.joined_texts:
        is_single_text = not ledger.is_native and len(blocks) == 1 and len(blocks[0]) == 2 and "text" in blocks[0]
        return blocks[0]["text"] if is_single_text else blocks
    texts = [block["text"] for block in blocks if type(block) is dict and type(block.get("text")) is str]
    if len(texts) < len(blocks):
        return blocks
    if len(texts) > 1:
        ledger.lose("content", "parts", "this server accepts only one string", "merged", "minor")
    for index, block in enumerate(blocks):
        for key in block.keys() - {"type", "text"}:
            ledger.lose(f"content[{index}].{key}", "opaque", "this server accepts only one string")
    return separator.join(text for text in texts if text)


def _encode_user_text(part: Text, ledger: Ledger) -> dict[str, Any]:
    """Encode a text in a message that the model did not write. Its citations are a loss."""
    if part.citations:
        ledger.lose("citations", "citation", f"{DIALECT} has citations only in answers")
    return encode_text(part, ledger)


def encode_text(part: Text, ledger: Ledger) -> dict[str, Any]:
    """Write a text part."""
    return ledger.finish({"type": "text", "text": part.text}, part)


def _decode_refusal(unparsed: dict[str, Any]) -> Part | None:
    text = take(unparsed, "refusal", str)
    return None if text is None else Refusal(text, opaque=WIRE.mark(unparsed, ChatRefusalSpelling(is_block=True)))


def encode_refusal(part: Refusal, ledger: Ledger) -> dict[str, Any]:
    """Write a refusal part."""
    return ledger.finish({"type": "refusal", "refusal": part.text}, part)


def _decode_image(unparsed: dict[str, Any]) -> Part | None:
    """Read an image. Mistral also accepts the URL itself as `image_url` (recorded)."""
    source = unparsed.pop("image_url", None)
    is_flat = type(source) is str
    if is_flat:
        source = {"url": source}
    if type(source) is not dict or type(source.get("url")) is not str:
        return None
    inner = dict(source)
    fields, raw_data = read_image_url(inner.pop("url"))
    detail = take(inner, "detail", str)
    if inner:
        unparsed["image_url"] = inner
    cache, spelling = WIRE.take_cache(unparsed), ChatMediumSpelling(data=raw_data, is_flat=is_flat)
    return Image(detail=detail, cache=cache, opaque=WIRE.mark(unparsed, spelling), **fields)


def _encode_image(part: Image, ledger: Ledger) -> dict[str, Any] | None:
    """Write an image. An image that is only stored at another provider is reported as a loss."""
    part, spelling = drop_foreign_sources(part, ledger), spelling_of(part.opaque, ChatMediumSpelling)
    data = data_of(part, WIRE, spelling.data)
    url = data_url(data, part.media_type, "image/png") if data is not None else part.url
    if url is None:
        ledger.lose("file_id", "image", f"{DIALECT} has no images by file id")
        return None
    ledger.lose_sources(part, "url" if part.data is None else "data")
    if spelling.is_flat and part.detail is None:
        return ledger.finish({"type": "image_url", "image_url": url}, part)
    inner = {"url": url} if part.detail is None else {"url": url, "detail": part.detail}
    return _nest("image_url", inner, part, ledger)


def _decode_audio(unparsed: dict[str, Any]) -> Part | None:
    """Read audio of the user."""
    inner = unparsed.pop("input_audio", None)
    if type(inner) is not dict or type(inner.get("data")) is not str:
        return None
    inner_unparsed = inner.copy()
    audio_format, (url, data, raw_data) = inner_unparsed.get("format"), read_data(inner_unparsed.pop("data"))
    media_type = _AUDIO_FORMATS.get(audio_format) if type(audio_format) is str else None
    if media_type is not None:
        del inner_unparsed["format"]
    if inner_unparsed:
        unparsed["input_audio"] = inner_unparsed
    cache, spelling = WIRE.take_cache(unparsed), ChatMediumSpelling(data=raw_data)
    return Audio(data, media_type, url, cache=cache, opaque=WIRE.mark(unparsed, spelling))


def _encode_audio(part: Audio, ledger: Ledger) -> dict[str, Any] | None:
    """Write audio of the user."""
    data = data_of(part, WIRE, spelling_of(part.opaque, ChatMediumSpelling).data)
    if data is None:
        ledger.lose("", "audio", f"{DIALECT} accepts audio only as data")
        return None
    ledger.lose_sources(part, "url" if part.data is None else "data")
    inner = {"data": data}
    audio_format = _FORMATS_OF_AUDIO.get(part.media_type or "")
    if audio_format is not None:
        inner["format"] = audio_format
    elif not made_by(part.opaque, DIALECT):
        inner["format"] = (part.media_type or "audio/wav").rpartition("/")[2]
    ledger.lose_fields(part, "audio", "transcript")
    return _nest("input_audio", inner, part, ledger)


def _decode_file(unparsed: dict[str, Any]) -> Part | None:
    """Read a file, which has data or an id."""
    inner = unparsed.pop("file", None)
    if type(inner) is not dict:
        return None
    inner_unparsed = inner.copy()
    file_data, file_id, name = (
        take(inner_unparsed, "file_data", str),
        take(inner_unparsed, "file_id", str),
        take(inner_unparsed, "filename", str),
    )
    if file_data is None and file_id is None:
        return None
    if inner_unparsed:
        unparsed["file"] = inner_unparsed
    fields, is_bare, raw_data = read_file_data(file_data, None)
    cache, spelling = WIRE.take_cache(unparsed), ChatMediumSpelling(data=raw_data, is_bare=is_bare)
    return Document(file_id=file_id, name=name, cache=cache, opaque=WIRE.mark(unparsed, spelling), **fields)


def _encode_file(part: Document, ledger: Ledger) -> dict[str, Any] | None:
    """Write a file. Plain text is written as a text. A URL, and data that is no PDF, are reported as losses."""
    is_native, spelling = made_by(part.opaque, DIALECT), spelling_of(part.opaque, ChatMediumSpelling)
    part = part if is_native else as_text(drop_foreign_sources(unpack_data_url(part, WIRE), ledger))
    if part.data is not None and part.media_type not in (None, PDF) and not is_native:
        ledger.lose("", "document", f"{DIALECT} accepts files of the type PDF, and not {part.media_type}")
        return None
    if part.text is not None:
        lose_document_text(part, ledger)
        return ledger.finish({"type": "text", "text": part.text}, part)
    inner: dict[str, Any] = {}
    if (data := data_of(part, WIRE, spelling.data)) is not None:
        inner["file_data"] = write_file_data(part, data, is_bare=spelling.is_bare)
    if part.file_id is not None:
        inner["file_id"] = part.file_id
    if not inner:
        ledger.lose("", "document", f"{DIALECT} accepts files as data or by id, and not by URL")
        return None
    if part.url is not None and part.url != data:
        ledger.lose("url", "media_source", f"{DIALECT} accepts files as data or by id")
    if part.name is not None:
        inner["filename"] = part.name
    elif "file_data" in inner and not is_native:
        inner["filename"] = "document.pdf"
        ledger.lose("name", "document_name", f"{DIALECT} requires a name for data", "defaulted")
    return _nest("file", inner, part, ledger)


def _decode_thinking(unparsed: dict[str, Any]) -> Part | None:
    """Read a block of thinking in the content, which Mistral sends."""
    chunks = unparsed.pop("thinking", None)
    if type(chunks) is not list or not all(type(chunk) is dict and set(chunk) == {"type", "text"} for chunk in chunks):
        return None
    texts = [chunk["text"] for chunk in chunks if chunk["type"] == "text" and type(chunk["text"]) is str]
    if len(texts) != len(chunks):
        return None
    spelling = ChatThinkingSpelling(key="content", texts=tuple(texts))
    return Thinking("".join(texts), opaque=WIRE.mark(unparsed, spelling))


def encode_thinking(part: Thinking, texts: Sequence[str], ledger: Ledger) -> dict[str, Any]:
    """Write a block of thinking. It has the same texts as before as long as the whole text is the same."""
    pieces = texts if "".join(texts) == part.text else [part.text]
    chunks = [{"type": "text", "text": text} for text in pieces]
    return ledger.finish({"type": "thinking", "thinking": chunks}, part)


_DECODERS: dict[str, Callable[[dict[str, Any]], Part | None]] = {
    "text": WIRE.decode_text,
    "refusal": _decode_refusal,
    "image_url": _decode_image,
    "input_audio": _decode_audio,
    "file": _decode_file,
    "thinking": _decode_thinking,
}


def encode_part(part: Part, ledger: Ledger, role: str) -> dict[str, Any] | None:
    """Write a part of a content. Return None and report a loss if a message of `role` cannot have it."""
    if type(part) is Opaque and part.dialect == DIALECT:
        return part.value  # type: ignore[no-any-return]
    encode = _ENCODERS.get(type(part)) if role == "user" or ledger.is_native else _TEXT_ONLY.get(type(part))
    if encode is None:
        ledger.lose_part(part, f"a {role} message of {DIALECT}")
        return None
    return encode(part, ledger)


_TEXT_ONLY: dict[type, Callable[[Any, Ledger], dict[str, Any] | None]] = {Text: _encode_user_text}
_ENCODERS: dict[type, Callable[[Any, Ledger], dict[str, Any] | None]] = {
    **_TEXT_ONLY,
    Refusal: encode_refusal,
    Image: _encode_image,
    Document: _encode_file,
    Audio: _encode_audio,
}


def _nest(key: str, inner: dict[str, Any], part: Any, ledger: Ledger) -> dict[str, Any]:
    """Write a block with an object in it, and the unparsed keys of both."""
    return ledger.finish({"type": key, key: unparsed_of(part.opaque, DIALECT, key) | inner}, part)


def decode_citation(annotation: Any) -> Citation | None:
    """Read one annotation of an answer. Return None if it is no citation of a URL."""
    match annotation:
        case {"type": "url_citation", "url_citation": dict(inner)}:
            inner_unparsed = inner.copy()
            url, title = take(inner_unparsed, "url", str), take(inner_unparsed, "title", str)
            start, end = take(inner_unparsed, "start_index", int), take(inner_unparsed, "end_index", int)
            unparsed = {key: value for key, value in annotation.items() if key not in {"type", "url_citation"}}
            opaque = WIRE.mark(unparsed | ({"url_citation": inner_unparsed} if inner_unparsed else {}))
            return Citation(url, title, None, start, end, opaque)
    return None


def encode_citation(citation: Citation, ledger: Ledger) -> dict[str, Any] | None:
    """Write one annotation of an answer. Return None for a citation of another wire that has no URL."""
    if made_by(citation.opaque, DIALECT):
        positions = {"start_index": citation.start, "end_index": citation.end}
        fields = {"url": citation.url, "title": citation.title, **positions}
        written = {key: value for key, value in fields.items() if value is not None}
        inner = unparsed_of(citation.opaque, DIALECT, "url_citation") | written
    elif (url_fields := cite_url(citation, ledger)) is not None:
        inner = url_fields
    else:
        return None
    ledger.lose_fields(citation, "citation", "quote")
    return ledger.replay({"type": "url_citation", "url_citation": inner}, citation.opaque)


class Details:
    """The `reasoning_details` of an answer as they arrive. Successive pieces of one type and index are joined."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[Any] = []

    def add(self, pieces: list[Any]) -> None:
        """Add pieces. Pieces that have different ids are not joined."""
        for piece in pieces:
            last = self._entries[-1] if self._entries else None
            if type(piece) is not dict:
                self._entries.append(piece)
                continue
            if type(last) is not dict or not _continues(last, piece):
                last = {}
                self._entries.append(last)
            collect_texts(last, piece, _DETAIL_TEXT_KEYS)

    def take(self) -> list[Any]:
        """Return the details so far, with joined texts, and remove them."""
        entries, self._entries = self._entries, []
        return [join_texts(entry, _DETAIL_TEXT_KEYS) if type(entry) is dict else entry for entry in entries]


def _continues(last: dict[str, Any], piece: dict[str, Any]) -> bool:
    """Return True if `piece` belongs to the same detail as `last`."""
    is_same_kind = all(last.get(key) == piece.get(key) for key in ("type", "index"))
    return is_same_kind and (piece.get("id") in (None, last.get("id")) or "id" not in last)


def details_text(details: list[Any]) -> str:
    """Return the texts of `reasoning_details`, joined."""
    texts = [detail.get("text") for detail in details if type(detail) is dict]
    return "".join(text for text in texts if type(text) is str)
