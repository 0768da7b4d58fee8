"""Files at a path: resolving the path, reading the content, and detecting changes since the last read.

Rules of this file:
- A path that ends like a folder is not a path of a file.
- A file that was read or written here is recognized by its content. A large file that was written here, or not
  changed recently, is recognized by its inode, size and times, so that reading a part of it does not read all of it.
- Only files are written: never a link, and never a file that its mode makes read-only.
"""

import contextlib
import difflib
import errno
import os
import stat
import time
import unicodedata
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from toolwire.codetools.definitions import FILE_BYTES
from toolwire.codetools.paths import (
    READ,
    FileSpot,
    PathRefused,
    ProjectPath,
    Workspace,
    closing_fd,
    real_parts,
    translate_errors,
)
from toolwire.codetools.spelling import escape_name

CHUNK = 256 * 1024
KNOWN_BY_CONTENT = 256 * 1024
LATELY = 2_000_000_000  # nanoseconds: the coarsest clock of a file system in use (FAT)
_REMEMBERED = 10_000
_NAMES = 10_000
BOM = b"\xef\xbb\xbf"
_LINK = "it is a symbolic link, and files are not written through links: give the path of its target"
STALE = "it changed since it was last read here: read it again, then change it"


class _Seen(Struct, frozen=True):
    """The recorded state of a file: its inode, size and times, and a hash of its content if that was taken."""

    signature: tuple[int, ...]
    content: int | None


class Desk:
    """The shared state of one set of code tools: the workspace, the options, and the files that were read so far.

    `seen` maps each file to its state when a tool last read or wrote it.
    """

    def __init__(self, workspace: Workspace, options: dict[str, Any]) -> None:
        self.workspace = workspace
        self.options = options
        self.seen: dict[Any, _Seen] = {}


class OpenFile(Struct, frozen=True):
    """An existing file, open for reading: its location, and the key under which its state is recorded."""

    spot: FileSpot
    fd: int
    status: os.stat_result
    key: Any


class ChangedFile(Struct, frozen=True):
    """A file that a tool has changed: its place, and its content before and after.

    `before` is None if the file is new, or if it was too large to be read.
    """

    location: ProjectPath
    before: bytes | None
    after: bytes
    is_new: bool = False


def resolve_file(workspace: Workspace, requested: Any, *, writes: bool = False) -> ProjectPath:
    """Return the location of a file's path; raise `PathRefused` if it is a folder's."""
    location = workspace.resolve(requested, writes=writes)
    if not location.parts:
        raise PathRefused("not_regular_file", requested, "it is the project folder: give the path of a file")
    if requested.rsplit("/", 1)[-1] in ("", "."):
        raise PathRefused("not_regular_file", requested, "it ends like a folder's path: give the path of a file")
    return location


@contextlib.contextmanager
def open_existing(workspace: Workspace, spot: FileSpot) -> Iterator[OpenFile | None]:
    """Open an existing file that is to be changed; yield None if there is none."""
    with translate_errors(spot.requested):
        try:
            fd = os.open(spot.name, READ | os.O_NOFOLLOW, dir_fd=spot.folder)
        except FileNotFoundError:
            fd = None
        except OSError as problem:
            if problem.errno == errno.ELOOP:
                raise PathRefused("link", spot.requested, _LINK) from None
            raise
    if fd is None:
        yield None
        return
    with closing_fd(fd):
        workspace.check_file(fd, spot.location)
        yield OpenFile(spot, fd, os.fstat(fd), file_key(fd, spot.location))


def check_writable(file: OpenFile) -> None:
    """Raise `PathRefused` if the file is not writable: replacing it would circumvent that."""
    spot, mode = file.spot, stat.S_IMODE(file.status.st_mode)
    if not mode & 0o222:
        raise PathRefused("read_only", spot.requested, f"its mode ({mode:04o}) makes it read-only: it was not changed")
    effective = os.access in os.supports_effective_ids
    if not os.access(spot.name, os.W_OK, dir_fd=spot.folder, effective_ids=effective):
        raise PathRefused("no_permission", spot.requested, "permission denied: it may not be written")


def read_for_change(file: OpenFile) -> bytes:
    """Read all of a file that is to be changed."""
    size = os.fstat(file.fd).st_size
    if size > FILE_BYTES:
        limit = f"it has {format_size(size)}, and the tools change no file of more than {format_size(FILE_BYTES)}"
        raise PathRefused("too_large", file.spot.requested, f"{limit}: use a shell command")
    with translate_errors(file.spot.requested):
        return read_all(file.fd, FILE_BYTES)


def read_all(fd: int, limit: int) -> bytes:
    """Return the first `limit` bytes of a file."""
    blocks: list[bytes] = []
    size, block_size = 0, os.fstat(fd).st_size + 1
    while (count := min(limit - size, block_size)) > 0:
        block = os.pread(fd, count, size)
        blocks.append(block)
        size += len(block)
        if len(block) < count:
            break
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def check_text(data: bytes, location: ProjectPath) -> None:
    """Raise `PathRefused` unless `data` is UTF-8 text: changing other data as text would damage it."""
    reason = "the tools change only UTF-8 text"
    if b"\0" in data:
        raise PathRefused("binary", location.requested, f"it is binary or not UTF-8 (it has NUL bytes); {reason}")
    try:
        data.isascii() or data.decode()
    except UnicodeDecodeError as problem:
        where = f"it is not UTF-8 (byte {problem.start} is {data[problem.start]:#04x})"
        raise PathRefused("not_utf8", location.requested, f"{where}; {reason}") from None


def encode_text(text: str, what: str, location: ProjectPath, limit: int) -> bytes:
    """Return `text` in UTF-8; `what` names it in errors. Raise `PathRefused` if it is too large or not encodable."""
    try:
        data = text.encode()
    except UnicodeEncodeError as problem:
        reason = f"{what} has half of a surrogate pair at character {problem.start}, which no file can contain"
        raise PathRefused("not_encodable", location.requested, reason) from None
    if len(data) > limit:
        reason = f"{what} has {format_size(len(data))}; at most {format_size(limit)} are written at once"
        raise PathRefused("too_large", location.requested, reason)
    return data


def file_key(fd: int, location: ProjectPath) -> tuple[str, ...]:
    """Return a key for an open file: its real path, whatever links led to it."""
    return (location.root.path, *real_parts(fd, location))


def record_seen(seen: dict[Any, _Seen], key: Any, fd: int, written: bytes | None = None) -> None:
    """Record the present state of a file; `written` is its content, if this process wrote it.

    Files changed less than `LATELY` ago are hashed, because another change may leave the same time.
    """
    status = os.fstat(fd)
    seen.pop(key, None)
    if status.st_size > FILE_BYTES:
        return
    is_recent = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < LATELY
    by_content = (is_recent and written is None) or status.st_size <= KNOWN_BY_CONTENT
    seen[key] = _Seen(_signature(status), _content_hash(fd, written) if by_content else None)
    while len(seen) > _REMEMBERED:
        with contextlib.suppress(KeyError, StopIteration, RuntimeError):
            del seen[next(iter(seen))]


def check_unchanged(seen: dict[Any, _Seen], file: OpenFile, data: bytes | None = None) -> None:
    """Raise `PathRefused` if a file changed since it was read or written here."""
    if not is_unchanged(seen, file, data):
        raise PathRefused("stale", file.spot.requested, STALE)


def is_unchanged(seen: dict[Any, _Seen], file: OpenFile, data: bytes | None = None) -> bool:
    """Return True if a file is as it was last read or written here, or if it never was."""
    recorded = seen.get(file.key)
    if recorded is None:
        return True
    if recorded.content is None:
        return recorded.signature == _signature(file.status)
    return recorded.signature[2] == file.status.st_size and recorded.content == _content_hash(file.fd, data)


def _signature(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _content_hash(fd: int, data: bytes | None) -> int:
    """Return a hash of a file's content, keyed for this process, in little memory."""
    content_hash, start = 0, 0
    while True:
        part = os.pread(fd, CHUNK, start) if data is None else memoryview(data)[start : start + CHUNK]
        if not part:
            return content_hash
        content_hash = hash((content_hash, part))
        start += len(part)


def format_size(size: int) -> str:
    """Format a number of bytes: "12 bytes", "1.5 KB"."""
    for unit, least in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= least:
            return f"{size / least:.1f} {unit}".replace(".0 ", " ")
    return f"{size} byte{'' if size == 1 else 's'}"


def missing_file_error(workspace: Workspace, location: ProjectPath) -> PathRefused:
    """Return the error for a missing file; it names files with a similar name in its folder."""
    reason = "there is no such file"
    with contextlib.suppress(PathRefused, OSError), workspace.open_parent(location) as spot:
        names = [name for name in _similar_names(spot.name, spot.folder) if not workspace.is_secret((name,))]
        if names:
            reason += f"; there is {' and '.join(escape_name(name) for name in names)} in its folder"
    return PathRefused("not_found", location.requested, reason)


def _similar_names(name: str, folder: int) -> list[str]:
    names: dict[str, str] = {}
    with os.scandir(folder) as entries:
        for _, entry in zip(range(_NAMES), entries, strict=False):
            names[entry.name] = unicodedata.normalize("NFKC", entry.name).casefold()
    wanted = unicodedata.normalize("NFKC", name).casefold()
    alike = [candidate for candidate, normalized in names.items() if normalized == wanted]
    return alike[:3] or difflib.get_close_matches(name, names, 3, 0.75)
