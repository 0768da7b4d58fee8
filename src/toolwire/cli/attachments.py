"""Files, URLs and standard input as parts of a question.

Rules of this file:
- The type of a file is read from its first bytes, and not from its name. A file that is text is sent as text.
- A URL is sent as a URL, and the provider fetches it. Its type is that of its path.
- An attachment that the model's wire cannot carry is an error before anything is sent, because the answer would be
  about something that the model has not seen.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolwire.errors import UserError
from toolwire.providers import Provider
from toolwire.types import Audio, Context, Document, Image, Message, Part, Request, Text

_LONGEST = 64 * 1024 * 1024
_PDF = "application/pdf"
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", _PDF),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_ENDINGS = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": _PDF,
}


def attachment(name: str, standard_input: bytes) -> Part:
    """Return the part for the file or URL `name`, or for `-`, which is standard input."""
    if name.startswith(("http://", "https://")):
        return _of_url(name)
    if name == "-":
        if not standard_input:
            raise UserError("standard input is empty", path="-a -")
        return _of_data(standard_input, "standard input")
    path = Path(name)
    if path.is_file() and path.stat().st_size > _LONGEST:
        raise UserError(f"{name} has {path.stat().st_size:,} bytes; the most are {_LONGEST:,}", path="-a")
    return _of_data(path.read_bytes(), name)


def _of_url(url: str) -> Part:
    media_type = _ENDINGS.get(Path(urlsplit(url).path).suffix.lower())
    if media_type is None:
        endings = ", ".join(_ENDINGS)
        raise UserError(
            f"the type of {url} is not known: its path must end with one of {endings}; "
            f"for anything else: curl -sL {url} | toolwire ask -a - ...",
            path="-a",
        )
    return Document(url=url, media_type=_PDF) if media_type == _PDF else Image(url=url, media_type=media_type)


def _of_data(data: bytes, name: str) -> Part:
    media_type = _type_of(data)
    if media_type is None:
        return Text(f"{name}:\n\n{_text_of(data, name)}")
    encoded = base64.b64encode(data).decode()
    if media_type == _PDF:
        return Document(data=encoded, media_type=_PDF, name=Path(name).name)
    if media_type.startswith("audio/"):
        return Audio(encoded, media_type)
    return Image(data=encoded, media_type=media_type)


def _type_of(data: bytes) -> str | None:
    """Return the type that the first bytes show; None if they show none."""
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12])
    return next((media_type for beginning, media_type in _BEGINNINGS if data.startswith(beginning)), None)


def _text_of(data: bytes, name: str) -> str:
    text = None
    if b"\0" not in data:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = None
    if text is None:
        kinds = "an image (png, jpeg, gif, webp), a PDF, sound (wav, mp3, ogg, flac) or UTF-8 text"
        raise UserError(f"{name} must be {kinds}", path="-a")
    return text


def message_with(text: str, attached: Sequence[Part]) -> Message:
    """Return the message of a user: the media of `attached`, the `text`, and the texts of `attached`."""
    if not attached:
        return Message("user", text)
    media: list[Part] = [part for part in attached if not isinstance(part, Text)]
    texts = [part for part in attached if isinstance(part, Text)]
    return Message("user", [*media, *([Text(text)] if text else []), *texts])


def check_attachments(provider: Provider, model: str | None, parts: Sequence[Part], names: Sequence[str]) -> None:
    """Raise UserError if the wire of `provider` cannot carry one of `parts`. `names` are those of the parts."""
    question: Any = Message("user", list(parts))
    request = Request(model=model or "", context=Context(messages=[question]))
    for loss in provider.speaks().encode_request(request).losses:
        for index, name in enumerate(names):
            if loss.severity == "semantic" and f"{loss.path}.".startswith(f"messages[0].content[{index}]."):
                raise UserError(f"{provider.name} cannot receive {name}: {loss.detail}", path="-a")
