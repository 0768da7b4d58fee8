"""The content blocks of Responses: the input that the model reads, and the output that it writes.

Rules of this file:
- Input blocks (`input_*`) are in messages and results. Output blocks (`output_text`, `refusal`) are in items of the
  model.
- An image without `detail` and one with the detail "auto" mean the same. An image of another wire gets "auto", because
  OpenAI requires the key.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.ledger import CacheMarks, Ledger, Wire, made_by, spelling_of, take
from toolwire.encoding.parts import (
    cite_url,
    data_of,
    data_url,
    drop_foreign_sources,
    lose_document_text,
    read_file_data,
    read_image_url,
    unpack_data_url,
    write_file_data,
)
from toolwire.types import Citation, Document, Image, Opaque, Part, Refusal, Text
from toolwire.types.spelling.openai_responses import ResponsesMediumSpelling, ResponsesOutputSpelling
from toolwire.wire.names import WORD_CHARS, Grammar

DIALECT = "openai-responses"
# Names, marks: openai 3.52.0, FunctionToolParam and ResponseInputTextParam (2026-11-20). Ids: server errors.
WIRE = Wire(
    DIALECT,
    names=Grammar(WORD_CHARS, 128),
    ids=Grammar("!-~", 64, distinct=True),
    cache=CacheMarks(
        "prompt_cache_breakpoint",
        "mode",
        "explicit",
        ("30m", "12h"),
        opt_in=True,
        blocks=frozenset({"input_text", "input_image", "input_file"}),
    ),
    cut_reasons=("length", "context_window", "incomplete", "content_filter", "refusal", "error", "pause"),
    knows_effort_alone=True,
    takes_top_logprobs_alone=True,  # `include` requests log probabilities
)
_ITEM_PREFIX = "item."
PLAIN_TEXT_KEY_COUNT = 2
# openai 3.52.0, ResponseInputImageParam.detail (2026-11-20).
_DETAILS = frozenset({"auto", "low", "high", "original"})
PDF = "application/pdf"
# https://developers.openai.com/api/docs/guides/file-inputs (2026-02-24)
_UNSUPPORTED_MEDIA = ("audio/", "video/")


def decode_inputs(blocks: list[Any]) -> list[Part]:
    """Read a list of input blocks."""
    return [WIRE.decode(block, _INPUTS) for block in blocks]


def _encode_text(part: Text, ledger: Ledger) -> dict[str, Any]:
    """Write a text of the input."""
    body = {"type": "input_text", "text": part.text}
    if part.citations:
        ledger.lose("citations", "citation", f"{DIALECT} has citations only in output of the model")
    return ledger.finish(body, part)


def _decode_image(unparsed: dict[str, Any]) -> Part | None:
    """Read an image, which has a URL or an id."""
    url, file_id = take(unparsed, "image_url", str), take(unparsed, "file_id", str)
    detail = take(unparsed, "detail", str)
    if url is None and file_id is None:
        return None
    constants: dict[str, Any] = {}
    if detail == "auto":
        constants, detail = {"detail": detail}, None
    fields, raw_data = read_image_url(url)
    cache, spelling = WIRE.take_cache(unparsed), ResponsesMediumSpelling(constants=constants, data=raw_data)
    return Image(file_id=file_id, detail=detail, cache=cache, opaque=WIRE.mark(unparsed, spelling), **fields)


def _encode_image(part: Image, ledger: Ledger) -> dict[str, Any] | None:
    """Write an image. Return None and report a loss if it has no source that OpenAI can read."""
    body: dict[str, Any] = {"type": "input_image"}
    part = drop_foreign_sources(part, ledger)
    data = data_of(part, WIRE, spelling_of(part.opaque, ResponsesMediumSpelling).data)
    if data is not None:
        body["image_url"] = data_url(data, part.media_type, "image/png")
        if part.url != data:
            ledger.lose_fields(part, "media_source", "url")
    elif part.url is not None:
        body["image_url"] = part.url
    if part.file_id is not None:
        body["file_id"] = part.file_id
    if len(body) == 1:
        ledger.lose("", "image", "an image needs data, a URL or a file id")
        return None
    _lose_media_type(part, data, ledger)
    is_native = made_by(part.opaque, DIALECT)
    if part.detail is not None and (is_native or part.detail in _DETAILS):
        body["detail"] = part.detail
    elif not is_native:
        body["detail"] = "auto"
        if part.detail is not None:
            ledger.lose("detail", "image_detail", f"{DIALECT} has no detail {part.detail}", "approximated")
    return ledger.finish(body, part)


def _decode_file(unparsed: dict[str, Any]) -> Part | None:
    """Read a file, which has data, a URL or an id."""
    file_data, file_url = take(unparsed, "file_data", str), take(unparsed, "file_url", str)
    file_id, name = take(unparsed, "file_id", str), take(unparsed, "filename", str)
    if file_data is None and file_url is None and file_id is None:
        return None
    fields, is_bare, raw_data = read_file_data(file_data, file_url)
    cache, spelling = WIRE.take_cache(unparsed), ResponsesMediumSpelling(data=raw_data, is_bare=is_bare)
    return Document(file_id=file_id, name=name, cache=cache, opaque=WIRE.mark(unparsed, spelling), **fields)


def _encode_file(part: Document, ledger: Ledger) -> dict[str, Any] | None:
    """Write a file. A file of plain text is written as a text block."""
    part, spelling = (
        drop_foreign_sources(unpack_data_url(part, WIRE), ledger),
        spelling_of(part.opaque, ResponsesMediumSpelling),
    )
    if part.text is not None:
        lose_document_text(part, ledger)
        return ledger.finish({"type": "input_text", "text": part.text}, part)
    if (part.media_type or "").startswith(_UNSUPPORTED_MEDIA) and not made_by(part.opaque, DIALECT):
        ledger.lose("", "document", f"{DIALECT} does not accept files of the type {part.media_type}")
        return None
    body: dict[str, Any] = {"type": "input_file"}
    if (data := data_of(part, WIRE, spelling.data)) is not None:
        body["file_data"] = write_file_data(part, data, is_bare=spelling.is_bare)
    if part.url is not None and part.url != data:
        body["file_url"] = part.url
    if part.file_id is not None:
        body["file_id"] = part.file_id
    if len(body) == 1:
        ledger.lose("", "document", "a document needs data, text, a URL or a file id")
        return None
    _lose_media_type(part, data, ledger)
    if part.name is not None:
        body["filename"] = part.name
    elif "file_data" in body and not made_by(part.opaque, DIALECT):
        body["filename"] = "document.pdf" if part.media_type in (None, PDF) else "document"
        ledger.lose("name", "document_name", f"{DIALECT} requires a name for data", "defaulted")
    return ledger.finish(body, part)


def _lose_media_type(part: Image | Document, data: str | None, ledger: Ledger) -> None:
    """Report the media type of an image or a file as a loss, unless it is written as data."""
    if part.media_type is not None and data is None:
        ledger.lose("media_type", "media_type", f"{DIALECT} has a media type only for data")


def _decode_output_text(unparsed: dict[str, Any]) -> Part | None:
    """Read a text of the model."""
    text = None if item_keys_of(unparsed) else take(unparsed, "text", str)
    if text is None:
        return None
    citations = _take_citations(unparsed)
    spelling = None if citations is None else ResponsesOutputSpelling(constants={"annotations": []})
    return Text(text, citations, opaque=WIRE.mark(unparsed, spelling))


def encode_output_text(part: Text, ledger: Ledger) -> dict[str, Any]:
    """Write a text of the model."""
    body: dict[str, Any] = {"type": "output_text", "text": part.text}
    if part.citations:
        annotations = [encode_citation(citation, ledger) for citation in part.citations]
        body["annotations"] = [annotation for annotation in annotations if annotation is not None]
    elif not made_by(part.opaque, DIALECT):
        body["annotations"] = []
    return finish_output(body, part, ledger)


def _decode_refusal(unparsed: dict[str, Any]) -> Part | None:
    text = None if item_keys_of(unparsed) else take(unparsed, "refusal", str)
    return None if text is None else Refusal(text, opaque=WIRE.mark(unparsed))


def encode_refusal(part: Refusal, ledger: Ledger) -> dict[str, Any]:
    """Write a refusal of the model."""
    return finish_output({"type": "refusal", "refusal": part.text}, part, ledger)


_Decoders = dict[str, Callable[[dict[str, Any]], Part | None]]
_INPUTS: _Decoders = {"input_text": WIRE.decode_text, "input_image": _decode_image, "input_file": _decode_file}
_OUTPUTS: _Decoders = {"output_text": _decode_output_text, "refusal": _decode_refusal}


def encode_input_part(part: Part, blocks: list[Any], ledger: Ledger, container: str) -> None:
    """Append an input part to `blocks`, or report it as a loss. `container` names the message or result around it."""
    match part:
        case Text():
            blocks.append(_encode_text(part, ledger))
        case Image():
            _append_written(_encode_image(part, ledger), blocks)
        case Document():
            _append_written(_encode_file(part, ledger), blocks)
        case Opaque() if part.dialect == DIALECT:
            blocks.append(part.value)
        case _:
            ledger.lose_part(part, f"{container} of {DIALECT}")


def _append_written(block: dict[str, Any] | None, blocks: list[Any]) -> None:
    """Append a block, unless its part was lost."""
    if block is not None:
        blocks.append(block)


def is_plain_text(block: Any) -> bool:
    """Return True if `block` is a text of the input without any other key."""
    return type(block) is dict and len(block) == PLAIN_TEXT_KEY_COUNT and block.get("type") == "input_text"


def finish_output(body: dict[str, Any], part: Any, ledger: Ledger) -> dict[str, Any]:
    """Add the unparsed keys of `part` to `body`, except for those of the message item around it."""
    lose_cache(part, ledger)
    if part.opaque is not None:
        ledger.replay(body, part.opaque)
        for key in [key for key in body if key.startswith(_ITEM_PREFIX)]:
            del body[key]
    return body


def _to_item_keys(unparsed: dict[str, Any]) -> dict[str, Any]:
    """Return the unparsed keys of a message item with a prefix, to be stored among those of its first part."""
    return {_ITEM_PREFIX + key: unparsed[key] for key in unparsed}


def item_keys_of(unparsed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the unparsed keys of a message item, which are stored among the `unparsed` keys of its first part."""
    return {key[len(_ITEM_PREFIX) :]: unparsed[key] for key in unparsed if key.startswith(_ITEM_PREFIX)}


def lose_cache(part: Any, ledger: Ledger) -> None:
    """Report the cache mark of a part as a loss, because this wire has marks only on input."""
    if part.cache is not None:
        ledger.lose("cache", "cache_mark", f"{DIALECT} has cache marks only on input")


def _take_citations(unparsed: dict[str, Any]) -> list[Citation] | None:
    """Remove the annotations of a text from `unparsed`, and decode them, if all are objects with a type."""
    annotations = unparsed.get("annotations")
    if (
        type(annotations) is not list
        or not annotations
        or not all(is_annotation(annotation) for annotation in annotations)
    ):
        return None
    del unparsed["annotations"]
    return [decode_citation(annotation) for annotation in annotations]


def is_annotation(annotation: Any) -> bool:
    """Return True if `annotation` is an object that has a type."""
    return type(annotation) is dict and type(annotation.get("type")) is str


def decode_citation(annotation: dict[str, Any]) -> Citation:
    """Read an annotation."""
    unparsed = annotation.copy()
    title_key = "filename"
    if unparsed["type"] == "url_citation":
        title_key = "title"
        del unparsed["type"]
    url, title = take(unparsed, "url", str), take(unparsed, title_key, str)
    start, end = take(unparsed, "start_index", int), take(unparsed, "end_index", int)
    return Citation(url, title, None, start, end, WIRE.mark(unparsed))


def encode_citation(citation: Citation, ledger: Ledger) -> dict[str, Any] | None:
    """Write a citation as an annotation. Return None for one of another wire that has no URL."""
    body: dict[str, Any] = {"start_index": citation.start, "end_index": citation.end, "url": citation.url}
    if citation.quote is not None:
        ledger.lose("citations", "citation", f"{DIALECT} has no quotes in its annotations")
    if citation.opaque is not None and citation.opaque.dialect == DIALECT:
        if "type" in citation.opaque.value:
            body["filename"] = citation.title
        else:
            body |= {"title": citation.title, "type": "url_citation"}
        return ledger.replay({key: body[key] for key in body if body[key] is not None}, citation.opaque)
    url_fields = cite_url(citation, ledger)
    return None if url_fields is None else ledger.replay({"type": "url_citation", **url_fields}, citation.opaque)


def take_item_constants(unparsed: dict[str, Any]) -> dict[str, Any]:
    """Remove and return the keys of an item that other wires ignore: its id, and the status "completed"."""
    constants = {"id": unparsed.pop("id")} if type(unparsed.get("id")) is str else {}
    if unparsed.get("status") == "completed":
        constants["status"] = unparsed.pop("status")
    return constants


def take_message_constants(unparsed: dict[str, Any]) -> dict[str, Any]:
    """Remove and return the keys of a message item that other wires ignore: its id, status and type."""
    constants = take_item_constants(unparsed)
    if "type" in unparsed:
        constants["type"] = unparsed.pop("type")
    return constants


def decode_message_item(item: dict[str, Any], reasoning_id: str | None) -> list[Part]:
    """Read a message item of the model. Its first part stores the other keys of the item."""
    content: Any = item.get("content")
    has_text_content = type(content) is str
    if item.get("role") != "assistant" or not (has_text_content or (type(content) is list and content)):
        return [Opaque(DIALECT, item)]
    unparsed = item.copy()
    del unparsed["role"], unparsed["content"]
    spelling = ResponsesOutputSpelling(
        item=take_message_constants(unparsed), has_text_content=has_text_content, reasoning_id=reasoning_id
    )
    if has_text_content:
        return [Text(content, opaque=WIRE.mark(_to_item_keys(unparsed), spelling))]
    first, *others = (WIRE.decode(block, _OUTPUTS) for block in content)
    return [_attach_item_keys(first, unparsed, spelling), *(_mark_block(part) for part in others)]


def _attach_item_keys(part: Any, unparsed: dict[str, Any], spelling: ResponsesOutputSpelling) -> Part:
    """Return the first part of an item with the unparsed keys and the spelling of the item."""
    if type(part) is Opaque:
        item = {**(spelling.item or {}), **unparsed}
        return Opaque(DIALECT, part.value, spelling=replace(spelling, item=item))
    constants = spelling_of(part.opaque, ResponsesOutputSpelling).constants
    opaque = WIRE.mark({**part.opaque.value, **_to_item_keys(unparsed)}, replace(spelling, constants=constants))
    return replace(part, opaque=opaque)  # type: ignore[no-any-return]


def _mark_block(part: Part) -> Part:
    """Return a later part of an item. An opaque part is marked as a block, not as an item."""
    if type(part) is not Opaque:
        return part
    return Opaque(DIALECT, part.value, spelling=ResponsesOutputSpelling(is_block=True))
