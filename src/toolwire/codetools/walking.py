"""Walking through a folder: by descriptors, in the order of paths, bounded, and never through a link.

Rules of this file:
- Each folder is opened by the descriptor of the one above it and its name; a link is an entry, and no way.
- The way is a list and not a recursion; no more than `MAX_PARTS` folders are open at once. Where a walk goes deeper,
  the upper ones are closed and come back as `..` of the one below, if that is the same folder still.
- Entries come in the order in which their whole paths sort. Where a limit ends the walk, it says which.
- `.git` is left out, and what `.gitignore` names unless it is wanted; what cannot be read is counted.
"""

import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Any

from msgspec import Struct

from toolwire.codetools.definitions import SEARCH_SECONDS
from toolwire.codetools.ignoring import Level, is_ignored, level_of
from toolwire.codetools.locks import identity
from toolwire.codetools.paths import FOLDER, MAX_PARTS, MAX_PATH

MAX_ENTRIES = 2_000_000
FOLDER_ENTRIES = 250_000
TICKS = 256
# What a path from the folder of the walk can have at most, with the `./` that ripgrep puts before it and a NUL.
_LONGEST = MAX_PATH - 3
_ONWARD = FOLDER | os.O_NOFOLLOW


class _FolderEntry(Struct, frozen=True):
    """What a folder has: its path from where the walk began, its kind, and the descriptor of its folder."""

    path: str
    name: str
    kind: str
    folder: int


class _Frame(Struct):
    fd: int
    path: str
    entries: Iterator[tuple[str, str, str]]
    identity: tuple[int, int] = (0, 0)


def kind_of_entry(entry: "os.DirEntry[str]") -> str:
    """Say what an entry is, and of a link that it is one."""
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


class FolderWalk:
    """One walk. `cut` says what ended it early; `unreadable`, `ignored` and `deep` count what is missing."""

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
        """Give the entries, each before what is in it."""
        frames: list[_Frame] = []
        try:
            self._push(frames, os.dup(self._fd), "")
            while frames and not self.cut:
                frame = frames[-1]
                found = next(frame.entries, None)
                if found is None:
                    self._pop(frames)
                    continue
                _, name, kind = found
                path = frame.path + name
                if self._is_left_out(path, name, kind):
                    continue
                yield _FolderEntry(path, name, kind, frame.fd)
                if kind == "folder" and self._enters(path, name):
                    self._enter(frames, name, path)
        finally:
            for frame in frames:
                if frame.fd >= 0:
                    os.close(frame.fd)

    def _is_left_out(self, path: str, name: str, kind: str) -> bool:
        self._seen += 1
        if self._seen % TICKS == 0:
            self._look_around()
        if name == ".git":
            return True
        if self._levels is not None and is_ignored(self._levels, self._prefix + path, is_folder=kind == "folder"):
            self.ignored += 1
            return True
        return False

    def _look_around(self) -> None:
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
            fd = os.open(name, _ONWARD, dir_fd=frames[-1].fd)
        except OSError:
            self.unreadable += 1
            return
        self._push(frames, fd, f"{path}/")
        if len(frames) > MAX_PARTS:
            above = frames[-1 - MAX_PARTS]
            above.identity = identity(above.fd)
            os.close(above.fd)
            above.fd = -1

    def _push(self, frames: list[_Frame], fd: int, path: str) -> None:
        """Read a folder; the descriptor is closed with the frame."""
        frame = _Frame(fd, path, iter(()))
        frames.append(frame)
        try:
            with os.scandir(fd) as scan:
                found = [_sortable(entry) for entry, _ in zip(scan, range(FOLDER_ENTRIES + 1), strict=False)]
        except OSError:
            self.unreadable += 1
            found = []
        self.clipped |= len(found) > FOLDER_ENTRIES
        if self._levels is not None:
            names = [name for _, name, _ in found]
            self._levels.append(level_of(fd, len(self._prefix) + len(path), names))
        frame.entries = iter(sorted(found[:FOLDER_ENTRIES]))

    def _pop(self, frames: list[_Frame]) -> None:
        below = frames.pop()
        try:
            if frames and frames[-1].fd < 0:
                self._come_back(frames[-1], below)
        finally:
            if below.fd >= 0:
                os.close(below.fd)
        if self._levels is not None:
            self._levels.pop()

    def _come_back(self, frame: _Frame, below: _Frame) -> None:
        """Open a folder again that was closed on the way down; where it is another one by now, its rest is left out."""
        with suppress(OSError):
            frame.fd = os.open("..", FOLDER, dir_fd=below.fd)
            if identity(frame.fd) == frame.identity:
                return
            os.close(frame.fd)
        frame.fd, frame.entries = -1, iter(())
        self.unreadable += 1


def _sortable(entry: "os.DirEntry[str]") -> tuple[str, str, str]:
    """Give what sorts as the whole paths do: a folder's name goes on with `/`."""
    kind = kind_of_entry(entry)
    return entry.name + "/" if kind == "folder" else entry.name, entry.name, kind


def notices(walk: Any) -> list[str]:
    """Say what a walk left out."""
    found = []
    if walk.cut == "time":
        found.append(f"[Stopped after {SEARCH_SECONDS} s: this is not all. Look in a smaller folder, by path.]")
    if walk.cut == "entries" or walk.clipped:
        found.append("[Too many files to look at all of them: this is not all. Look in a smaller folder.]")
    if walk.unreadable:
        found.append(f"[Files or folders that could not be read: {walk.unreadable}.]")
    if walk.deep:
        found.append(f"[Folders that are too deep to look into: {walk.deep}.]")
    return found
