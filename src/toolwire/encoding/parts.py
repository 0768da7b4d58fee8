"""Encode and decode the parts of a message that are the same in several dialects: data URLs, images, files, citations.

Rules of this file:
- Data is standard Base64 in the canonical model and at each server. Some clients write the alphabet for URLs, or break
  lines: the decoder makes it standard.
- Some clients send a URL where a wire has Base64. The decoder reads it as a URL, so that no other wire gets it as data.
- Both are written to their own wire as the client sent them.
"""

import re
from base64 import b64decode, b64encode
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from msgspec.structs import replace

from toolwire.encoding.ledger import Ledger, Wire, made_by
from toolwire.types import Audio, Citation, Document, Image, Part

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,15}://")
# URLs that Gemini's servers open (https://ai.google.dev/gemini-api/docs/files and .../video-understanding, 2026-11-20).
GOOGLE_URLS = (
    *("gs://", "https://generativelanguage.googleapis.com/", "https://youtu.be/"),
    *("https://youtube.com/", "https://www.youtube.com/", "https://m.youtube.com/"),
)
_STANDARD = str.maketrans("-_", "+/", " \t\r\n")
_TEXT = re.compile(r"text/.*|application/(json|xml|yaml|toml|sql|javascript|x-sh|x-yaml|.*\+(json|xml))")
_TEXT_NAMES = (".txt", ".md", ".csv", ".tsv", ".json", ".xml", ".yaml", ".yml", ".toml", ".html", ".log")
_CHARSET = re.compile(r"charset=\"?([\w.:-]+)")


def split_data_url(url: str | None) -> tuple[str | None, str | None]:
    """Return the media type and the data of a Base64 data URL. The data is not changed. Else return (None, None)."""
    if url is None or not url.startswith("data:"):
        return None, None
    media_type, separator, data = url[5:].partition(";base64,")
    return (media_type, data) if separator and "," not in media_type else (None, None)


def image_media_type(media_type: str) -> str:
    """Return the registered media type of an image. Many clients write `image/jpg`, which servers reject (2026-01)."""
    registered = media_type.partition(";")[0].strip().lower()
    return "image/jpeg" if registered == "image/jpg" else registered


def _split_any_data_url(url: str) -> tuple[str | None, str | None]:
    """Return the media type and the Base64 data of any data URL of RFC 2397, such as one with percent-encoding."""
    head, comma, data = url[5:].partition(",")
    if url[:5].lower() != "data:" or not comma:
        return None, None
    media_type, is_base64, _ = head.lower().partition(";base64")
    return media_type or "text/plain", data if is_base64 else b64encode(unquote_to_bytes(data)).decode()


_Part = TypeVar("_Part", bound=Part)


def without_mark(part: _Part, ledger: Ledger) -> _Part:
    """Return a part of an answer or a result from elsewhere without its cache mark, and report the mark as a loss.

    Clients move such a mark from turn to turn, and a text changes its form with a mark.
    """
    if getattr(part, "cache", None) is None or made_by(part.opaque, ledger.dialect):  # type: ignore[union-attr]
        return part
    ledger.lose("cache", "cache_mark", f"{ledger.dialect} has cache marks only on content of the user")
    return replace(part, cache=None)


_Medium = TypeVar("_Medium", bound=Image | Document | Audio)


def unpack_data_url(part: _Medium, wire: Wire) -> _Medium:
    """Return `part` with the data of its data URL. A medium of this wire, or with another URL, is not changed."""
    if (
        part.url is None
        or part.data is not None
        or part.url[:5].lower() != "data:"
        or made_by(part.opaque, wire.dialect)
    ):
        return part
    media_type, data = _split_any_data_url(part.url)
    return part if data is None else replace(part, url=None, data=data, media_type=media_type)


def drop_foreign_sources(part: _Medium, ledger: Ledger) -> _Medium:
    """Return a medium from elsewhere without the sources that this wire's servers cannot open, and report their loss.

    These are files in the store of another vendor, URLs that only Google opens, and videos, which only Gemini accepts
    (2026-11-20).
    """
    opaque = part.opaque
    if opaque is not None and vendor(opaque.dialect) == vendor(ledger.dialect):
        return part
    lost = []
    if opaque is not None and isinstance(part, Image | Document) and part.file_id is not None:
        lost = [("file_id", f"only {opaque.dialect} can read this stored file: send its data instead")]
    if part.url is not None and part.url.startswith(GOOGLE_URLS):
        lost.append(("url", "only Google can open this URL: send the data instead"))
    elif (part.media_type or "").startswith("video/"):
        sources = [field for field in ("url", "data") if getattr(part, field) is not None]
        lost += [(field, f"{ledger.dialect} does not accept videos") for field in sources]
    for field, why in lost:
        ledger.lose(field, _concept(part), why)
    return replace(part, **{field: None for field, _ in lost}) if lost else part


def vendor(dialect: str) -> str:
    """Return the vendor of a dialect. Both dialects of OpenAI have the same store of files."""
    return dialect.partition("-")[0]


def _concept(part: Any) -> str:
    return type(part).__name__.lower()


def data_url(data: str, media_type: str | None, default: str) -> str:
    """Return a data URL of Base64 `data`."""
    return f"data:{default if media_type is None else media_type};base64,{data}"


def read_data(raw: str) -> tuple[str | None, str | None, str | None]:
    """Return the URL or None, the standard Base64 data or None, and `raw` unless it is that data."""
    if _URL.match(raw):
        return raw, None, raw
    data = _standard(_split_any_data_url(raw)[1] or raw)
    return None, data, None if data is raw else raw


def _standard(data: str) -> str:
    """Return Base64 in the standard alphabet, on one line."""
    if not any(letter in data for letter in "-_\n\r \t"):
        return data
    data = data.translate(_STANDARD)
    return data + "=" * (-len(data) % 4)


def data_of(part: Image | Document | Audio, wire: Wire, raw: str | None) -> str | None:
    """Return the data of a medium as it is written: `raw` if it still means the same, else standard Base64."""
    if raw is not None and read_data(raw)[:2] == (part.url, part.data):
        return raw
    return part.data if part.data is None or made_by(part.opaque, wire.dialect) else _standard(part.data)


def as_text(part: Document) -> Document:
    """Return a file with its text instead of the data, if the data is text. Return any other file unchanged."""
    media_type, _, parameters = (part.media_type or "").lower().partition(";")
    if not media_type and (part.name or "").lower().endswith(_TEXT_NAMES):
        media_type = "text/plain"
    if part.text is not None or part.data is None or _TEXT.fullmatch(media_type) is None:
        return part
    charset = _CHARSET.search(parameters)
    try:
        text = b64decode(_standard(part.data)).decode(charset[1] if charset else "utf-8")
    except (ValueError, LookupError):
        return part
    return replace(part, text=text, data=None, media_type=None if media_type == "text/plain" else media_type)


def read_image_url(raw: str | None) -> tuple[dict[str, Any], str | None]:
    """Return the fields of an image with the URL `raw`, which may be a data URL.

    Also return the data as it was sent, if it is not standard Base64.
    """
    media_type, inner = split_data_url(raw)
    if inner is None:
        return {"url": raw}, None
    url, data, raw_data = read_data(inner)
    return {"url": url, "data": data, "media_type": media_type}, raw_data


def read_file_data(raw: str | None, url: str | None) -> tuple[dict[str, Any], bool, str | None]:
    """Return the fields of a file with the data `raw` or the URL `url`.

    Also return True if `raw` is bare Base64, which some clients send instead of a data URL. As the last value, return
    the data as it was sent, if it is not standard Base64.
    """
    media_type, inner = split_data_url(raw)
    is_bare, raw_data = raw is not None and inner is None, None
    data = raw if inner is None else inner
    if data is not None and url is None:
        media_type = _split_any_data_url(data)[0] if is_bare else media_type
        url, data, raw_data = read_data(data)
    return {"url": url, "data": data, "media_type": media_type}, is_bare, raw_data


def write_file_data(part: Document, data: str, *, is_bare: bool) -> str:
    """Return the data of a file as it is written: bare Base64, or a data URL."""
    return data if is_bare else data_url(data, part.media_type, "application/pdf")


def lose_document_text(part: Document, ledger: Ledger) -> None:
    """Report that the text of a file is sent as text of its message."""
    ledger.lose(
        "text", "document_text", f"{ledger.dialect} gets the text of the file as text of the message", "approximated"
    )
    ledger.lose_fields(part, "document", "name")
    ledger.lose_sources(part, "text")


def cite_url(citation: Citation, ledger: Ledger) -> dict[str, Any] | None:
    """Encode a citation from elsewhere for OpenAI's two wires, which can cite only a URL. Else report its loss."""
    if citation.url is None:
        ledger.lose("citations", "citation", f"{ledger.dialect} cites only URLs")
        return None
    return {
        "url": citation.url,
        "title": citation.title or "",
        "start_index": citation.start or 0,
        "end_index": citation.end or 0,
    }
