"""What dialects read and write alike of the parts of a message: data URLs, images, files and citations."""

from typing import Any

from toolwire.encoding.ledger import Ledger, Wire, form_of
from toolwire.types import Citation, Document, Image


def split_data_url(url: str | None) -> tuple[str | None, str | None]:
    """Split a base64 data URL into media type and data, without touching the data; anything else gives (None, None)."""
    if url is None or not url.startswith("data:"):
        return None, None
    head, mark, data = url[5:].partition(";base64,")
    return (head, data) if mark and ";" not in head and "," not in head else (None, None)


def data_url(data: str, media_type: str | None, default: str) -> str:
    """Join media type and data to a data URL."""
    return f"data:{default if media_type is None else media_type};base64,{data}"


def make_image(
    wire: Wire,
    rest: dict[str, Any],
    form: dict[str, Any] | None,
    url: str | None,
    file_id: str | None = None,
    detail: str | None = None,
) -> Image:
    """Make an image of a URL, which may hold its data, or of a file's id."""
    cache = wire.take_cache(rest)
    media_type, data = split_data_url(url)
    opaque = wire.own(rest, form)
    return Image(url if data is None else None, data, media_type, file_id, detail, cache=cache, opaque=opaque)


def make_document(
    wire: Wire, rest: dict[str, Any], data: str | None, url: str | None, file_id: str | None, name: str | None
) -> Document:
    """Make a file of its data, which most send as a data URL and some bare, of a URL or of its id."""
    cache = wire.take_cache(rest)
    media_type, unwrapped = split_data_url(data)
    opaque = wire.own(rest, {"bare": True} if data is not None and unwrapped is None else None)
    data = data if unwrapped is None else unwrapped
    return Document(url, data, media_type, file_id, None, name, cache=cache, opaque=opaque)


def write_document_data(part: Document, wire: Wire) -> str:
    """Write the data of a file as it came: bare, or as a data URL."""
    data = part.data or ""
    return data if "bare" in form_of(part.opaque, wire.dialect) else data_url(data, part.media_type, "application/pdf")


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
