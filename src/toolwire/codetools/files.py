"""What stands at a path: the place of a file, what is in it, and whether it changed since it was given.

Rules of this file:
- A path that ends as a folder does is no path of a file.
- A file that was read or written here is known by its content. A large one that was written here, or not
  changed lately, is known by its inode, size and times: to read a part of it does not cost all of it.
- What is written is a file, never a link, and never one that its mode makes read-only.
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
from toolwire.codetools.paths import READ, FileSpot, PathRefused, ProjectPath, Workspace, held, real_parts, saying
from toolwire.codetools.spelling import shown

CHUNK = 256 * 1024
KNOWN_BY_CONTENT = 256 * 1024
LATELY = 2_000_000_000  # nanoseconds: the coarsest clock of a file system that is in use
_REMEMBERED = 10_000
_NAMES = 10_000
BOM = b"\xef\xbb\xbf"
_LINK = "it is a symbolic link, which is not written through: give the path that it leads to"
STALE = "it changed since it was last read here: read it again, then change it"


class _Seen(Struct, frozen=True):
    """What a file was: by inode, size and times, and by its content where that is known."""

    signature: tuple[int, ...]
    content: int | None


class Desk:
    """What the tools of one resolver share: the workspace, the options, and what was read so far.

    `seen` says what the content of each file was when a tool gave or wrote it last, by its place.
    """

    def __init__(self, workspace: Workspace, options: dict[str, Any]) -> None:
        self.workspace = workspace
        self.options = options
        self.seen: dict[Any, _Seen] = {}


class Standing(Struct, frozen=True):
    """A file that is there, open: where it is, and what it is known by."""

    spot: FileSpot
    fd: int
    status: os.stat_result
    key: Any


def file_place(workspace: Workspace, given: Any, *, writes: bool = False) -> ProjectPath:
    """Say where the path of a file leads."""
    place = workspace.place(given, writes=writes)
    if not place.parts:
        raise PathRefused("not_regular_file", given, "it is the project folder; give the path of a file")
    if given.rsplit("/", 1)[-1] in ("", "."):
        raise PathRefused("not_regular_file", given, "it ends as a folder does; give the path of a file")
    return place


@contextlib.contextmanager
def standing(workspace: Workspace, spot: FileSpot) -> Iterator[Standing | None]:
    """Open the file that is to be changed; None if there is none."""
    with saying(spot.given):
        try:
            fd = os.open(spot.name, READ | os.O_NOFOLLOW, dir_fd=spot.folder)
        except FileNotFoundError:
            fd = None
        except OSError as problem:
            if problem.errno == errno.ELOOP:
                raise PathRefused("link", spot.given, _LINK) from None
            raise
    if fd is None:
        yield None
        return
    with held(fd):
        workspace.check_file(fd, spot.place)
        yield Standing(spot, fd, os.fstat(fd), key_of(fd, spot.place))


def check_writable(found: Standing) -> None:
    """Refuse a file that may not be written: putting another in its place would get around that."""
    spot, mode = found.spot, stat.S_IMODE(found.status.st_mode)
    if not mode & 0o222:
        raise PathRefused("read_only", spot.given, f"its mode ({mode:04o}) makes it read-only: it stays as it is")
    effective = os.access in os.supports_effective_ids
    if not os.access(spot.name, os.W_OK, dir_fd=spot.folder, effective_ids=effective):
        raise PathRefused("no_permission", spot.given, "permission denied: it may not be written")


def content_of(found: Standing) -> bytes:
    """Read all of a file that is to be changed."""
    size = os.fstat(found.fd).st_size
    if size > FILE_BYTES:
        limit = f"it has {sized(size)}, and files of more than {sized(FILE_BYTES)} are not changed here"
        raise PathRefused("too_large", found.spot.given, f"{limit}: use a command of the shell")
    with saying(found.spot.given):
        return read_all(found.fd, FILE_BYTES)


def read_all(fd: int, limit: int) -> bytes:
    """Read a file from its beginning, at most so many bytes."""
    parts: list[bytes] = []
    size, step = 0, os.fstat(fd).st_size + 1
    while (wanted := min(limit - size, step)) > 0:
        part = os.pread(fd, wanted, size)
        parts.append(part)
        size += len(part)
        if len(part) < wanted:
            break
    return parts[0] if len(parts) == 1 else b"".join(parts)


def check_text(data: bytes, place: ProjectPath) -> None:
    """Refuse what is no UTF-8 text: changing it as text would spoil it."""
    reason = "files of text in UTF-8 are changed here, nothing else"
    if b"\0" in data:
        raise PathRefused("binary", place.given, f"it is binary or no UTF-8 (it has NUL bytes); {reason}")
    try:
        data.isascii() or data.decode()
    except UnicodeDecodeError as problem:
        found = f"it is not UTF-8 (byte {problem.start} is {data[problem.start]:#04x})"
        raise PathRefused("not_utf8", place.given, f"{found}; {reason}") from None


def encoded(text: str, what: str, place: ProjectPath, limit: int) -> bytes:
    """Write text that was given as UTF-8."""
    try:
        data = text.encode()
    except UnicodeEncodeError as problem:
        reason = f"{what} has half of a surrogate pair at character {problem.start}, which no file can hold"
        raise PathRefused("not_encodable", place.given, reason) from None
    if len(data) > limit:
        reason = f"{what} has {sized(len(data))}; at most {sized(limit)} are written at once"
        raise PathRefused("too_large", place.given, reason)
    return data


def key_of(fd: int, place: ProjectPath) -> tuple[str, ...]:
    """Name a file by the folders that lead to it, whatever links its path went through."""
    return (place.root.path, *real_parts(fd, place))


def remember(seen: dict[Any, _Seen], key: Any, fd: int, written: bytes | None = None) -> None:
    """Note what a file is now; `written` is its content, if it was written here and has a time of its own."""
    status = os.fstat(fd)
    seen.pop(key, None)
    if status.st_size > FILE_BYTES:
        return
    lately = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < LATELY
    by_content = (lately and written is None) or status.st_size <= KNOWN_BY_CONTENT
    seen[key] = _Seen(_signature(status), _content(fd, written) if by_content else None)
    while len(seen) > _REMEMBERED:
        with contextlib.suppress(KeyError, StopIteration, RuntimeError):
            del seen[next(iter(seen))]


def check_unchanged(seen: dict[Any, _Seen], found: Standing, data: bytes | None = None) -> None:
    """Refuse a file that changed since it was read or written here; one that never was may be changed."""
    if not is_unchanged(seen, found, data):
        raise PathRefused("stale", found.spot.given, STALE)


def is_unchanged(seen: dict[Any, _Seen], found: Standing, data: bytes | None = None) -> bool:
    """Whether a file is what was read or written here last, or never was."""
    last = seen.get(found.key)
    if last is None:
        return True
    if last.content is None:
        return last.signature == _signature(found.status)
    return last.signature[2] == found.status.st_size and last.content == _content(found.fd, data)


def _signature(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _content(fd: int, data: bytes | None) -> int:
    """Give a keyed hash of a file's content, for this process only, in little memory."""
    made, start = 0, 0
    while True:
        part = os.pread(fd, CHUNK, start) if data is None else memoryview(data)[start : start + CHUNK]
        if not part:
            return made
        made = hash((made, part))
        start += len(part)


def sized(size: int) -> str:
    """Write a number of bytes."""
    for unit, least in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= least:
            return f"{size / least:.1f} {unit}".replace(".0 ", " ")
    return f"{size} byte{'' if size == 1 else 's'}"


def missing(workspace: Workspace, place: ProjectPath) -> PathRefused:
    """Say that a file is not there, and what there is of nearly the same name."""
    reason = "there is no such file"
    with contextlib.suppress(PathRefused, OSError), workspace.open_parent(place) as spot:
        near = [one for one in _near(spot.name, spot.folder) if not workspace.is_secret((one,))]
        if near:
            reason += f"; there is {' and '.join(shown(one) for one in near)} in its folder"
    return PathRefused("not_found", place.given, reason)


def _near(name: str, folder: int) -> list[str]:
    names: dict[str, str] = {}
    with os.scandir(folder) as entries:
        for _, entry in zip(range(_NAMES), entries, strict=False):
            names[entry.name] = unicodedata.normalize("NFKC", entry.name).casefold()
    wanted = unicodedata.normalize("NFKC", name).casefold()
    alike = [one for one, plain in names.items() if plain == wanted]
    return alike[:3] or difflib.get_close_matches(name, names, 3, 0.75)
