"""What a message of Ollama is made of: words in one string; thinking, pictures and calls under own keys.

Rules of this file:
- The wire's order is thinking, words, pictures, calls; any other order is lost by name.
- A picture is bare base64: its media type is read from how the data begins.
"""

from typing import Any

from msgspec import Struct

from toolwire.encoding.ledger import Ledger, Wire, made_by, spelling_of
from toolwire.encoding.parts import as_text, data_of, lose_document_text, read_data, split_data_url, unpack_data_url
from toolwire.encoding.traits import WireTraits
from toolwire.types import Document, Image, Part, Refusal, Text, Thinking
from toolwire.types.spelling.ollama import OllamaImageSpelling

DIALECT = "ollama"
WIRE = Wire(DIALECT, cut_reasons=("length", "context_window", "incomplete"))
TRAITS = WireTraits(
    history_key="messages",
    has_response_times=True,
    has_durations=True,
    streams_by_default=True,
    stream_type="application/x-ndjson",
    ends_frames_with_blank_line=False,
    result_link="",
    describes_keywords=True,
    continues_turns=True,  # its maintainers in https://github.com/ollama/ollama/issues/6778
    settings_by_history=frozenset({"tool_choice"}),
    losses_after_history=frozenset({"opaque", "output_with_tools"}),
)
# How the files of these kinds begin, in base64 (RFC 4648). WebP is one kind of RIFF (as WAV is): its own name comes
# after a count of four bytes.
_BEGINNINGS = {"/9j/": "image/jpeg", "iVBORw0KGgo": "image/png", "R0lGOD": "image/gif"}
_RIFF, _WEBP = "UklGR", "XRUJQ"
_THOUGHT, _WORD, _PICTURE, CALL = range(4)


class MessageSoFar(Struct):
    """What a message says so far, by the keys of the wire; `latest` is what was said last."""

    thoughts: list[str] = []
    words: list[str] = []
    pictures: list[str] = []
    calls: list[Any] = []
    latest: int = _THOUGHT

    def order(self, rank: int, ledger: Ledger) -> None:
        """Note that this kind is said now, and lose the order where the wire says it earlier."""
        if rank < self.latest:
            ledger.lose("", "order", f"{DIALECT} says all of one kind together", "moved")
        else:
            self.latest = rank

    def write(self, body: dict[str, Any], ledger: Ledger, glue: str) -> None:
        """Put what was said under the keys of the wire; a message from elsewhere always has words."""
        words = [word for word in self.words if word]
        if self.words or not ledger.is_native:
            body["content"] = glue.join(words)
        if self.thoughts:
            body["thinking"] = "\n".join(self.thoughts)
        if self.pictures:
            body["images"] = self.pictures
        if self.calls:
            body["tool_calls"] = self.calls
        if len(words) > 1 or len(self.thoughts) > 1:
            ledger.lose("content", "parts", f"{DIALECT} has one string for them", "merged")


def take_images(unparsed: dict[str, Any]) -> list[Part]:
    """Take the images out of the unparsed keys of a message."""
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
    """Write an image; this wire takes only its data."""
    raw, part = spelling_of(part.opaque, OllamaImageSpelling).data, unpack_data_url(part, WIRE)
    data = data_of(part, WIRE, raw)
    ledger.lose_fields(part, "media_source", *(("url",) if data is None or data != part.url else ()), "file_id")
    ledger.lose_fields(part, "image_detail", "detail")
    if data is None:
        ledger.lose("", "image", f"{DIALECT} takes images only as data")
        return None
    if data != raw and part.media_type is not None and part.media_type != _media_type_of(part.data or data):
        ledger.lose("media_type", "image_type", f"{DIALECT} reads it from the data")
    return data


def _media_type_of(data: str) -> str | None:
    """Tell what base64 data is from how it begins."""
    if data.startswith(_RIFF) and data[11:16] == _WEBP:
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS.items() if data.startswith(beginning)), None)


def encode_part(part: Any, said: MessageSoFar, ledger: Ledger, role: str) -> None:
    """Say one part of a message, or lose it by name; calls and results are the matter of their callers."""
    kind = type(part)
    if kind is Text:
        _say(part.text, said, ledger)
        ledger.lose_fields(part, "citation", "citations")
    elif kind is Thinking and (role == "assistant" or ledger.is_native):
        _say_thinking(part, said, ledger)
    elif kind is Image and (role != "assistant" or ledger.is_native):
        if (data := _encode_image(part, ledger)) is not None:
            said.order(_PICTURE, ledger)
            said.pictures.append(data)
    elif kind is Refusal:
        ledger.lose("", "refusal", f"{DIALECT} has no refusal; said as text", "approximated")
        _say(part.text, said, ledger)
    elif kind is Document and (told := as_text(unpack_data_url(part, WIRE))).text is not None:
        lose_document_text(told, ledger)
        _say(told.text, said, ledger)
    else:
        ledger.lose_part(part, f"a message of the {role} in {DIALECT}")
        return
    ledger.finish({}, part)


def _say(text: str, said: MessageSoFar, ledger: Ledger) -> None:
    said.order(_WORD, ledger)
    said.words.append(text)


def _say_thinking(part: Thinking, said: MessageSoFar, ledger: Ledger) -> None:
    said.order(_THOUGHT, ledger)
    ledger.lose_signature(part, f"{DIALECT} has no place for it")
    ledger.lose_fields(part, "redacted_thinking", "redacted")
    if part.text or made_by(part.opaque, DIALECT):
        said.thoughts.append(part.text)
