"""Read a file: lines of text, or an image.

Rules of this file:
- Text is returned unchanged, so that the model can pass a piece of it to edit_file. Only line breaks are always LF. A
  notice reports CRLF in the file and a byte order mark.
- Notices are the last lines, in brackets. They report what was left out, and how to read it.
- Little is read of a large file: its lines are counted if that is cheap, and else estimated.
- A file that is not text is refused with its type and size. Text that is not UTF-8 is shown as Latin-1, with a notice
  that edit_file cannot change it. UTF-16 and UTF-32 are read if they begin with a byte order mark.
"""

import base64
import codecs
import os
from typing import Any, NoReturn

from toolwire.codetools.definitions import FILE_BYTES, IMAGE_BYTES, READ_BYTES, READ_LINES
from toolwire.codetools.files import BOM, file_key, format_size, missing_file_error, read_all, record_seen, resolve_file
from toolwire.codetools.lines import BeyondEnd, LineWindow, Read, window
from toolwire.codetools.paths import PathRefused, ProjectPath, translate_errors
from toolwire.types import Image

HEAD = 8192
_COUNTED = 512 * 1024
SEARCHED = 256 * 1024 * 1024
_MOST = 1 << 62
_IMAGES = (
    ("image/png", 0, b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", 0, b"\xff\xd8\xff"),
    ("image/gif", 0, b"GIF87a"),
    ("image/gif", 0, b"GIF89a"),
    ("image/webp", 8, b"WEBP"),
)
_WIDE = (
    ("UTF-32", codecs.BOM_UTF32_LE),
    ("UTF-32", codecs.BOM_UTF32_BE),
    ("UTF-16", codecs.BOM_UTF16_LE),
    ("UTF-16", codecs.BOM_UTF16_BE),
)
_FILE_TYPES = (
    ("a PDF document", 0, b"%PDF-"),
    ("a ZIP archive", 0, b"PK\x03\x04"),
    ("a gzip archive", 0, b"\x1f\x8b"),
    ("a bzip2 archive", 0, b"BZh"),
    ("an xz archive", 0, b"\xfd7zXZ\0"),
    ("a Zstandard archive", 0, b"\x28\xb5\x2f\xfd"),
    ("a 7z archive", 0, b"7z\xbc\xaf\x27\x1c"),
    ("a tar archive", 257, b"ustar"),
    ("a program (ELF)", 0, b"\x7fELF"),
    ("a program (Mach-O)", 0, b"\xcf\xfa\xed\xfe"),
    ("a program (PE)", 0, b"MZ"),
    ("a WebAssembly module", 0, b"\0asm"),
    ("a Java class", 0, b"\xca\xfe\xba\xbe"),
    ("an SQLite database", 0, b"SQLite format 3\0"),
    ("a TIFF image", 0, b"II*\0"),
    ("a TIFF image", 0, b"MM\0*"),
    ("an icon", 0, b"\0\0\x01\0"),
    ("audio (Ogg)", 0, b"OggS"),
    ("audio (FLAC)", 0, b"fLaC"),
    ("audio (MP3)", 0, b"ID3"),
    ("audio or video (RIFF)", 0, b"RIFF"),
    ("video (MP4)", 4, b"ftyp"),
)


def read_file(desk: Any, *, path: str, offset: float = 1, limit: float = READ_LINES) -> str | Image:
    """Read lines of a file, or an image."""
    location = resolve_file(desk.workspace, path)
    if offset < 1 or limit < 1:
        raise PathRefused("invalid", path, "offset and limit must be at least 1")
    try:
        with desk.workspace.open_file(location) as fd, translate_errors(path):
            return _read(desk, location, fd, int(min(offset, _MOST)), int(min(limit, READ_LINES)))
    except PathRefused as refused:
        raise (missing_file_error(desk.workspace, location) if refused.code == "not_found" else refused) from None


def _read(desk: Any, location: ProjectPath, fd: int, offset: int, limit: int) -> str | Image:
    status = os.fstat(fd)
    head = os.pread(fd, HEAD, 0)
    image = _match_signature(_IMAGES, head)
    if image is not None and (image != "image/webp" or head.startswith(b"RIFF")):
        return _read_image(location, fd, status.st_size, image)
    wide = next((name for name, mark in _WIDE if head.startswith(mark)), None)
    if wide is not None:
        return _render_wide(location, fd, status.st_size, wide, offset, limit)
    if b"\0" in head or _match_signature(_FILE_TYPES[:1], head):
        _refuse_binary(location, status.st_size, head)
    record_seen(desk.seen, file_key(fd, location), fd)
    return _render_lines(location, lambda count, start: os.pread(fd, count, start), status.st_size, offset, limit, [])


def _match_signature(table: tuple[tuple[str, int, bytes], ...], head: bytes) -> str | None:
    return next((label for label, at, mark in table if head.startswith(mark, at)), None)


def _refuse_binary(location: ProjectPath, size: int, head: bytes) -> NoReturn:
    file_type = _match_signature(_FILE_TYPES, head) or "binary (it has NUL bytes)"
    reason = f"it is {file_type} of {format_size(size)}, not text: use a shell command that reads such files"
    raise PathRefused("binary", location.requested, reason)


def _read_image(location: ProjectPath, fd: int, size: int, media_type: str) -> Image:
    if size > IMAGE_BYTES:
        reason = (
            f"it is an image of {format_size(size)}, and at most {format_size(IMAGE_BYTES)} are given: make it smaller"
        )
        raise PathRefused("too_large", location.requested, reason)
    return Image(data=base64.b64encode(read_all(fd, IMAGE_BYTES)).decode(), media_type=media_type)


def _render_wide(location: ProjectPath, fd: int, size: int, charset: str, offset: int, limit: int) -> str:
    """Return the lines of UTF-16 or UTF-32 text, which is read whole."""
    if size > FILE_BYTES:
        reason = f"it is {charset} text of {format_size(size)}, and at most {format_size(FILE_BYTES)} of it are read"
        raise PathRefused("too_large", location.requested, reason)
    try:
        data = read_all(fd, FILE_BYTES).decode(charset).encode()
    except UnicodeError:
        _refuse_binary(location, size, b"")
    notice = f"[The file is {charset}, shown as UTF-8. edit_file cannot change it.]"
    return _render_lines(location, lambda count, start: data[start : start + count], len(data), offset, limit, [notice])


def _render_lines(location: ProjectPath, read: Read, size: int, offset: int, limit: int, notices: list[str]) -> str:
    try:
        lines = window(read, size, offset, limit, READ_BYTES, count_limit=_COUNTED, search_limit=SEARCHED)
    except BeyondEnd as problem:
        if problem.total == 0 and offset == 1:
            return "[The file is empty.]"
        raise PathRefused("beyond_end", location.requested, _describe_end(problem.total, offset)) from None
    if b"\0" in lines.data:
        _refuse_binary(location, size, b"")
    text, notes = _decode_lines(lines)
    if not text.endswith("\n") and (notes or notices or lines.more):
        text += "\n"
    return text + "\n".join([*notes, *notices, *_continuation_notices(lines, size)])


def _describe_end(total: int | None, offset: int) -> str:
    if total is None:
        return f"line {offset} is not in its first {format_size(SEARCHED)}: use a shell command (sed, tail)"
    lines = "1 line" if total == 1 else f"{total} lines"
    return f"it has {lines}, and offset {offset} is beyond its end"


def _decode_lines(lines: LineWindow) -> tuple[str, list[str]]:
    """Return the decoded text, and notices of what the model does not see of it."""
    data, notes = lines.data, []
    if lines.start == 0 and data.startswith(BOM):
        data = data[len(BOM) :]
        notes.append("[The file begins with a byte order mark, which is not shown; edits keep it.]")
    if b"\r" in data and b"\r\n" in data:
        share = "All" if data.count(b"\n") == data.count(b"\r\n") else "Some"
        notes.append(f"[{share} lines end in CRLF in the file, which is shown as LF; edits keep it.]")
        data = data.replace(b"\r\n", b"\n")
    try:
        return data.decode(), notes
    except UnicodeDecodeError:
        notes.append("[The file is not UTF-8; it is shown as Latin-1. edit_file cannot change it.]")
        return data.decode("latin-1"), notes


def _continuation_notices(lines: LineWindow, size: int) -> list[str]:
    if not lines.more:
        return []
    if lines.cut:
        cut_line = f"Line {lines.first} is longer than {format_size(READ_BYTES)}: only its beginning is shown."
        size_note = f"The file has {format_size(size)}."
        next_line = f" Use offset={lines.first + 1} for the next line." if lines.last < lines.total else ""
        return [f"[{cut_line} {size_note}{next_line} A shell command (cut, head -c) shows more of it.]"]
    total = f"{lines.total}" if lines.exact else f"about {lines.total} ({format_size(size)})"
    return [f"[Showing lines {lines.first}-{lines.last} of {total}. Use offset={lines.last + 1} to continue.]"]
