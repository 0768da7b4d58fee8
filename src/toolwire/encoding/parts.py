"""What dialects read and write alike of the parts of a message: data URLs, images, files and citations.

Rules of this file:
- Data is standard Base64 in the model, and at each server; some clients write the alphabet for URLs, or break lines.
- Where a wire has Base64, some clients put a URL. It is a URL, and is never sent as data elsewhere.
- Both are written again on their own wire as they came.
"""

import re
from base64 import b64decode, b64encode
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from msgspec.structs import replace

from toolwire.encoding.ledger import Ledger, Wire, made_by
from toolwire.types import Audio, Citation, Document, Image

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,15}://")
# https://ai.google.dev/gemini-api/docs/files and .../video-understanding (2026-11-20).
GOOGLE_URLS = (
    *("gs://", "https://generativelanguage.googleapis.com/", "https://youtu.be/"),
    *("https://youtube.com/", "https://www.youtube.com/", "https://m.youtube.com/"),
)
_STANDARD = str.maketrans("-_", "+/", " \t\r\n")
_TEXT = re.compile(r"text/.*|application/(json|xml|yaml|toml|sql|javascript|x-sh|x-yaml|.*\+(json|xml))")
_TEXT_NAMES = (".txt", ".md", ".csv", ".tsv", ".json", ".xml", ".yaml", ".yml", ".toml", ".html", ".log")
_CHARSET = re.compile(r"charset=\"?([\w.:-]+)")


def split_data_url(url: str | None) -> tuple[str | None, str | None]:
    """Split a base64 data URL into media type and data, without touching the data; anything else gives (None, None)."""
    if url is None or not url.startswith("data:"):
        return None, None
    head, mark, data = url[5:].partition(";base64,")
    return (head, data) if mark and "," not in head else (None, None)


def image_media_type(media_type: str) -> str:
    """Name the kind of an image as its register does; many write `image/jpg` (2026-01, servers refuse it)."""
    kind = media_type.partition(";")[0].strip().lower()
    return "image/jpeg" if kind == "image/jpg" else kind


def _split_any_data_url(url: str) -> tuple[str | None, str | None]:
    """Split a data URL as RFC 2397 allows it: in any case of letters, its data in Base64 or written with escapes."""
    head, comma, data = url[5:].partition(",")
    if url[:5].lower() != "data:" or not comma:
        return None, None
    kind, mark, _ = head.lower().partition(";base64")
    return kind or "text/plain", data if mark else b64encode(unquote_to_bytes(data)).decode()


_Medium = TypeVar("_Medium", bound=Image | Document | Audio)


def unpack_data_url(part: _Medium, wire: Wire) -> _Medium:
    """Give a medium from elsewhere whose URL holds its data with that data."""
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
    """Give a medium without what only another vendor can open: what its owner's key opens, Google's addresses, a video.

    No wire but Gemini's takes a video (2026-11-20).
    """
    opaque = part.opaque
    if opaque is not None and vendor(opaque.dialect) == vendor(ledger.dialect):
        return part
    left = []
    if opaque is not None and isinstance(part, Image | Document) and part.file_id is not None:
        left = [("file_id", f"it lies in the store of {opaque.dialect}")]
    if part.url is not None and part.url.startswith(GOOGLE_URLS):
        left.append(("url", "only Google opens this address"))
    elif (part.media_type or "").startswith("video/"):
        given = ("url", "data")
        left += [(field, f"{ledger.dialect} takes no video") for field in given if getattr(part, field) is not None]
    for field, why in left:
        ledger.lose(field, _concept(part), why)
    return replace(part, **{field: None for field, _ in left}) if left else part


def vendor(dialect: str) -> str:
    """Name whose wire a dialect is: those of OpenAI have one store of files."""
    return dialect.partition("-")[0]


def _concept(part: Any) -> str:
    return type(part).__name__.lower()


def data_url(data: str, media_type: str | None, default: str) -> str:
    """Join media type and data to a data URL."""
    return f"data:{default if media_type is None else media_type};base64,{data}"


def read_data(raw: str) -> tuple[str | None, str | None, str | None]:
    """Return the URL or the data that `raw` is, and `raw` itself if it is no standard Base64."""
    if _URL.match(raw):
        return raw, None, raw
    data = _standard(_split_any_data_url(raw)[1] or raw)
    return None, data, None if data is raw else raw


def _standard(data: str) -> str:
    """Write Base64 in the standard alphabet, on one line."""
    if not any(letter in data for letter in "-_\n\r \t"):
        return data
    data = data.translate(_STANDARD)
    return data + "=" * (-len(data) % 4)


def data_of(part: Image | Document | Audio, wire: Wire, raw: str | None) -> str | None:
    """Return what to write as the data of a medium: `raw` as long as it means the same, else standard Base64."""
    if raw is not None and read_data(raw)[:2] == (part.url, part.data):
        return raw
    return part.data if part.data is None or made_by(part.opaque, wire.dialect) else _standard(part.data)


def as_text(part: Document) -> Document:
    """Give a file whose data is text as that text; any other as it is."""
    kind, _, parameters = (part.media_type or "").lower().partition(";")
    if not kind and (part.name or "").lower().endswith(_TEXT_NAMES):
        kind = "text/plain"
    if part.text is not None or part.data is None or _TEXT.fullmatch(kind) is None:
        return part
    charset = _CHARSET.search(parameters)
    try:
        text = b64decode(_standard(part.data)).decode(charset[1] if charset else "utf-8")
    except (ValueError, LookupError):
        return part
    return replace(part, text=text, data=None, media_type=None if kind == "text/plain" else kind)


def read_image_url(raw: str | None) -> tuple[dict[str, Any], str | None]:
    """Return the fields of an image at this URL, which may hold its data, and the data if it is no standard Base64."""
    media_type, inner = split_data_url(raw)
    if inner is None:
        return {"url": raw}, None
    url, data, raw_data = read_data(inner)
    return {"url": url, "data": data, "media_type": media_type}, raw_data


def read_file_data(raw: str | None, url: str | None) -> tuple[dict[str, Any], bool, str | None]:
    """Return the fields of a file with this data and this URL, and how its data was spelled.

    Most clients send a data URL, some send bare Base64: return True for these. At last return the data if it is no
    standard Base64.
    """
    media_type, inner = split_data_url(raw)
    is_bare, raw_data = raw is not None and inner is None, None
    data = raw if inner is None else inner
    if data is not None and url is None:
        media_type = _split_any_data_url(data)[0] if is_bare else media_type
        url, data, raw_data = read_data(data)
    return {"url": url, "data": data, "media_type": media_type}, is_bare, raw_data


def write_file_data(part: Document, data: str, *, is_bare: bool) -> str:
    """Return the data of a file as it is written: bare, or as a data URL."""
    return data if is_bare else data_url(data, part.media_type, "application/pdf")


def lose_document_text(part: Document, ledger: Ledger) -> None:
    """Say that the text of a file stands among the words of its turn."""
    ledger.lose("text", "document_text", "said as words of the turn", "approximated")
    ledger.lose_fields(part, "document", "name")
    ledger.lose_sources(part, "text")


def cite_url(citation: Citation, ledger: Ledger) -> dict[str, Any] | None:
    """Write a citation from elsewhere for OpenAI's two wires; only a URL can be cited."""
    if citation.url is None:
        ledger.lose("citations", "citation", f"{ledger.dialect} cites only URLs")
        return None
    return {
        "url": citation.url,
        "title": citation.title or "",
        "start_index": citation.start or 0,
        "end_index": citation.end or 0,
    }
