"""Walk through a folder: by descriptors, in the order of paths, bounded, and never through a link.

Rules of this file:
- Each folder is opened through the descriptor of its parent. A link is reported as an entry and not followed.
- The walk uses a list instead of recursion. At most `MAX_PARTS` folders are open at once. In a deeper walk the upper
  folders are closed. They are opened again as `..` of the folder below, if that is still the same folder.
- Entries come in the order of their whole paths. If a limit ends the walk, `cut` names it.
- `.git` is left out. So are ignored files, unless the caller wants them. Unreadable folders are counted.
"""

import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Any

from msgspec import Struct

from toolwire.codetools.definitions import SEARCH_SECONDS
from toolwire.codetools.ignoring import Level, is_ignored, read_level
from toolwire.codetools.locks import identity
from toolwire.codetools.paths import FOLDER, MAX_PARTS, MAX_PATH

MAX_ENTRIES = 2_000_000
FOLDER_ENTRIES = 250_000
TICKS = 256
# The longest path from the start of the walk: ripgrep puts `./` before it, and the system a NUL after it.
_LONGEST = MAX_PATH - 3
_OPEN_CHILD = FOLDER | os.O_NOFOLLOW


class _FolderEntry(Struct, frozen=True):
    """An entry of a folder: its path from the start of the walk, its name and type, and the open folder it is in."""

    path: str
    name: str
    file_type: str
    folder: int


class _Frame(Struct):
    fd: int
    path: str
    entries: Iterator[tuple[str, str, str]]
    identity: tuple[int, int] = (0, 0)


def type_of_entry(entry: "os.DirEntry[str]") -> str:
    """Return "link", "folder", "file" or "other"."""
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


class FolderWalk:
    """One walk through a folder.

    `cut` names the limit that ended it early. `unreadable`, `ignored` and `deep` count the entries that are missing.
    """

    def __init__(
        self,
        fd: int,
        *,
        above: list[Level] | None = None,
        prefix: str = "",
        enters: Callable[[str, str], bool] = lambda _path, _name: True,
        stopped: Callable[[], bool] = lambda: False,
        seconds: float = SEARCH_SECONDS,
        deepest: float = MAX_PARTS,
    ) -> None:
        self._fd = fd
        self._deepest = deepest
        self._levels = above
        self._prefix = prefix
        self._enters = enters
        self._stopped = stopped
        self._deadline = time.monotonic() + seconds
        self._seen = 0
        self.cut: str = ""
        self.clipped: bool = False
        self.unreadable: int = 0
        self.ignored: int = 0
        self.deep: int = 0

    def entries(self) -> Generator[_FolderEntry, None, None]:
        """Yield the entries, each folder before its contents."""
        frames: list[_Frame] = []
        try:
            self._push(frames, os.dup(self._fd), "")
            while frames and not self.cut:
                frame = frames[-1]
                item = next(frame.entries, None)
                if item is None:
                    self._pop(frames)
                    continue
                _, name, file_type = item
                path = frame.path + name
                if self._is_excluded(path, name, file_type):
                    continue
                yield _FolderEntry(path, name, file_type, frame.fd)
                if file_type == "folder" and self._enters(path, name):
                    self._enter(frames, name, path)
        finally:
            for frame in frames:
                if frame.fd >= 0:
                    os.close(frame.fd)

    def _is_excluded(self, path: str, name: str, file_type: str) -> bool:
        self._seen += 1
        if self._seen % TICKS == 0:
            self._check_limits()
        if name == ".git":
            return True
        if self._levels is not None and is_ignored(self._levels, self._prefix + path, is_folder=file_type == "folder"):
            self.ignored += 1
            return True
        return False

    def _check_limits(self) -> None:
        if self._stopped() or time.monotonic() > self._deadline:
            self.cut = "time"
        elif self._seen > MAX_ENTRIES:
            self.cut = "entries"

    def _enter(self, frames: list[_Frame], name: str, path: str) -> None:
        if len(frames) >= self._deepest:
            self.deep += 1
            return
        if len(os.fsencode(path)) >= _LONGEST:
            self.unreadable += 1
            return
        try:
            fd = os.open(name, _OPEN_CHILD, dir_fd=frames[-1].fd)
        except OSError:
            self.unreadable += 1
            return
        self._push(frames, fd, f"{path}/")
        if len(frames) > MAX_PARTS:
            upper = frames[-1 - MAX_PARTS]
            upper.identity = identity(upper.fd)
            os.close(upper.fd)
            upper.fd = -1

    def _push(self, frames: list[_Frame], fd: int, path: str) -> None:
        """Read a folder; its descriptor is closed with its frame."""
        frame = _Frame(fd, path, iter(()))
        frames.append(frame)
        try:
            with os.scandir(fd) as scan:
                entries = [_sort_key(entry) for entry, _ in zip(scan, range(FOLDER_ENTRIES + 1), strict=False)]
        except OSError:
            self.unreadable += 1
            entries = []
        self.clipped |= len(entries) > FOLDER_ENTRIES
        if self._levels is not None:
            names = [name for _, name, _ in entries]
            self._levels.append(read_level(fd, len(self._prefix) + len(path), names))
        frame.entries = iter(sorted(entries[:FOLDER_ENTRIES]))

    def _pop(self, frames: list[_Frame]) -> None:
        child = frames.pop()
        try:
            if frames and frames[-1].fd < 0:
                self._reopen(frames[-1], child)
        finally:
            if child.fd >= 0:
                os.close(child.fd)
        if self._levels is not None:
            self._levels.pop()

    def _reopen(self, frame: _Frame, child: _Frame) -> None:
        """Open a folder again that was closed on the way down.

        If it is another folder by now, the rest of its entries is left out.
        """
        with suppress(OSError):
            frame.fd = os.open("..", FOLDER, dir_fd=child.fd)
            if identity(frame.fd) == frame.identity:
                return
            os.close(frame.fd)
        frame.fd, frame.entries = -1, iter(())
        self.unreadable += 1


def _sort_key(entry: "os.DirEntry[str]") -> tuple[str, str, str]:
    """Return a sort key that orders entries like their whole paths: a folder's name ends in `/`."""
    file_type = type_of_entry(entry)
    return entry.name + "/" if file_type == "folder" else entry.name, entry.name, file_type


def walk_notices(walk: Any) -> list[str]:
    """Return notices of what a walk left out."""
    notes = []
    if walk.cut == "time":
        notes.append(f"[Stopped after {SEARCH_SECONDS} s: this is not all. Look in a smaller folder, by path.]")
    if walk.cut == "entries" or walk.clipped:
        notes.append("[Too many files to look at all of them: this is not all. Look in a smaller folder.]")
    if walk.unreadable:
        notes.append(f"[Files or folders that could not be read: {walk.unreadable}.]")
    if walk.deep:
        notes.append(f"[Folders that are too deep to look into: {walk.deep}.]")
    return notes
