"""The parts of an Ollama message: one string of text, and thinking, images and calls under keys of their own.

Rules of this file:
- The wire has the order thinking, text, images, calls. Any other order is a loss.
- An image is plain base64. Its media type is inferred from the first bytes of the data.
"""

from typing import Any

from msgspec import Struct

from toolwire.encoding.ledger import Ledger, Wire, made_by, spelling_of
from toolwire.encoding.parts import as_text, data_of, lose_document_text, read_data, split_data_url, unpack_data_url
from toolwire.types import Document, Image, Part, Refusal, Text, Thinking
from toolwire.types.spelling.ollama import OllamaImageSpelling

DIALECT = "ollama"
WIRE = Wire(DIALECT, cut_reasons=("length", "context_window", "incomplete"))
# The first bytes of image files, in base64 (RFC 4648). WebP is a RIFF format, as WAV is. Its own name follows a length
# of four bytes.
_MEDIA_TYPE_OF_PREFIX = {"/9j/": "image/jpeg", "iVBORw0KGgo": "image/png", "R0lGOD": "image/gif"}
_RIFF_PREFIX, _WEBP_MARK = "UklGR", "XRUJQ"
_THINKING_RANK, _TEXT_RANK, _IMAGE_RANK, CALL_RANK = range(4)


class MessageBuilder(Struct):
    """The encoded parts of one message, by the keys of the wire.

    `highest_rank` is the highest rank of a part so far. The ranks are the order of the wire's keys.
    """

    thinking: list[str] = []
    texts: list[str] = []
    images: list[str] = []
    calls: list[Any] = []
    highest_rank: int = _THINKING_RANK

    def note_order(self, rank: int, ledger: Ledger) -> None:
        """Note that a part of `rank` follows. Its order is a loss if the wire has it before an earlier part."""
        if rank < self.highest_rank:
            ledger.lose("", "order", f"{DIALECT} has all parts of one type together", "moved")
        else:
            self.highest_rank = rank

    def write_to(self, body: dict[str, Any], ledger: Ledger, separator: str) -> None:
        """Set the keys of `body`. Several texts are joined by `separator`.

        `content` is left out only for a message of this wire without text.
        """
        texts = [text for text in self.texts if text]
        if self.texts or not ledger.is_native:
            body["content"] = separator.join(texts)
        if self.thinking:
            body["thinking"] = "\n".join(self.thinking)
        if self.images:
            body["images"] = self.images
        if self.calls:
            body["tool_calls"] = self.calls
        if len(texts) > 1 or len(self.thinking) > 1:
            ledger.lose("content", "parts", f"{DIALECT} has one string for them: they are joined", "merged")


def take_images(unparsed: dict[str, Any]) -> list[Part]:
    """Remove the images from the unparsed keys of a message, and decode them."""
    images = unparsed.get("images")
    if type(images) is not list or not images or not all(type(image) is str for image in images):
        return []
    del unparsed["images"]
    return [_decode_image(image) for image in images]


def _decode_image(raw: str) -> Image:
    media_type, _ = split_data_url(raw)
    url, data, raw_data = read_data(raw)
    if media_type is None and data is not None:
        media_type = _media_type_of(data)
    return Image(url, data, media_type, opaque=WIRE.mark({}, OllamaImageSpelling(data=raw_data)))


def _encode_image(part: Image, ledger: Ledger) -> str | None:
    """Encode an image. This wire accepts only data, so that a URL or a file id is a loss."""
    raw, part = spelling_of(part.opaque, OllamaImageSpelling).data, unpack_data_url(part, WIRE)
    data = data_of(part, WIRE, raw)
    ledger.lose_fields(part, "media_source", *(("url",) if data is None or data != part.url else ()), "file_id")
    ledger.lose_fields(part, "image_detail", "detail")
    if data is None:
        ledger.lose("", "image", f"{DIALECT} accepts images only as data")
        return None
    if data != raw and part.media_type is not None and part.media_type != _media_type_of(part.data or data):
        ledger.lose("media_type", "image_type", f"{DIALECT} infers it from the data")
    return data


def _media_type_of(data: str) -> str | None:
    """Return the media type of base64 `data` by its first bytes, or None if they are of no known image."""
    if data.startswith(_RIFF_PREFIX) and data[11:16] == _WEBP_MARK:
        return "image/webp"
    known = _MEDIA_TYPE_OF_PREFIX.items()
    return next((media_type for prefix, media_type in known if data.startswith(prefix)), None)


def encode_part(part: Any, builder: MessageBuilder, ledger: Ledger, role: str) -> None:
    """Encode one part into `builder`, or report it as a loss. Callers encode calls and results themselves."""
    part_type = type(part)
    if part_type is Text:
        _add_text(part.text, builder, ledger)
        ledger.lose_fields(part, "citation", "citations")
    elif part_type is Thinking and (role == "assistant" or ledger.is_native):
        _add_thinking(part, builder, ledger)
    elif part_type is Image and (role != "assistant" or ledger.is_native):
        if (data := _encode_image(part, ledger)) is not None:
            builder.note_order(_IMAGE_RANK, ledger)
            builder.images.append(data)
    elif part_type is Refusal:
        ledger.lose("", "refusal", f"{DIALECT} has no refusals: text is sent", "approximated")
        _add_text(part.text, builder, ledger)
    elif part_type is Document and (document := as_text(unpack_data_url(part, WIRE))).text is not None:
        lose_document_text(document, ledger)
        _add_text(document.text, builder, ledger)
    else:
        ledger.lose_part(part, f"a message of the {role} in {DIALECT}")
        return
    ledger.finish({}, part)


def _add_text(text: str, builder: MessageBuilder, ledger: Ledger) -> None:
    builder.note_order(_TEXT_RANK, ledger)
    builder.texts.append(text)


def _add_thinking(part: Thinking, builder: MessageBuilder, ledger: Ledger) -> None:
    builder.note_order(_THINKING_RANK, ledger)
    ledger.lose_signature(part, f"{DIALECT} has no field for it")
    ledger.lose_fields(part, "redacted_thinking", "redacted")
    if part.text or made_by(part.opaque, DIALECT):
        builder.thinking.append(part.text)
