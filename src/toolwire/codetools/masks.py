"""What of a project folder a command in the sandbox does not see, or cannot change.

Rules of this file:
- Secrets that are there are covered; what is protected is read-only. Both are looked for as deep as `DEEP`
  folders, and among so many entries, the upper ones first: what lies deeper is not covered.
- A protected name that is not there yet, at the top, is taken by an empty folder while commands run, so that
  none of them can make it. The folder is taken away by the last of them, or by the next one after a crash.
"""

import contextlib
import fcntl
import os
import stat
import time
from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from toolwire.codetools.paths import OWN, Root, Workspace, folder_of
from toolwire.codetools.spelling import folded
from toolwire.errors import ToolError

DEEP = 4
ENTRIES = 10_000
PATIENCE = 2.0
PLACEHOLDER = 0o1500


class Mask(Struct, frozen=True):
    """Something that is kept from commands: its path on the host, and what it was when it was found."""

    path: str
    secret: bool
    folder: bool
    identity: tuple[int, int]

    def holds(self, before: str) -> bool:
        """Whether it is in force, seen through the root folder of a process."""
        try:
            found = os.lstat(before + self.path)
            read_only = os.statvfs(before + self.path).f_flag & os.ST_RDONLY
        except OSError:
            return os.path.basename(self.path).startswith(OWN.rstrip("*"))
        same = (found.st_dev, found.st_ino) == self.identity
        return not same if self.secret else same and bool(read_only)


def real_path(root: Root) -> str:
    """Say where a root is now."""
    if os.fstat(root.fd).st_nlink == 0:
        raise ToolError("the project folder is not there any more: no command can run in it")
    return os.readlink(f"/proc/self/fd/{root.fd}")


def masks_of(workspace: Workspace) -> tuple[list[Mask], bool]:
    """Find what is kept from commands, and say whether everything was looked at."""
    found, left = [], ENTRIES
    for root in workspace.roots:
        todo: deque[tuple[str, ...]] = deque([()])
        while todo and left > 0:
            parts = todo.popleft()
            entries = _entries(root, parts, left)
            left -= len(entries)
            for name, is_folder, identity in entries:
                inner = (*parts, name)
                secret = workspace.is_secret((name,))
                if secret or workspace.protected.fullmatch(folded(name)):
                    path = "/".join((real_path(root).rstrip("/"), *inner))
                    found.append(Mask(path, secret, is_folder, identity))
                elif is_folder and len(inner) < DEEP:
                    todo.append(inner)
    return found, left > 0


def _entries(root: Root, parts: tuple[str, ...], most: int) -> list[tuple[str, bool, tuple[int, int]]]:
    """List what is in a folder and is no link."""
    listed: list[tuple[str, bool, tuple[int, int]]] = []
    with contextlib.suppress(OSError), folder_of(root, parts) as fd, os.scandir(fd) as entries:
        device = os.fstat(fd).st_dev
        for entry in entries:
            if not entry.is_symlink():
                listed.append((entry.name, entry.is_dir(), (device, entry.inode())))
            if len(listed) >= most:
                break
    return listed


@contextlib.contextmanager
def placeholders(workspace: Workspace) -> Iterator[None]:
    """Take the protected names that are free, while this lasts."""
    names = [name for name in workspace.protected_names if "*" not in name and "/" not in name]
    with contextlib.ExitStack() as taken:
        for root in workspace.roots:
            taken.enter_context(_taken(root, names))
        yield


@contextlib.contextmanager
def _taken(root: Root, names: list[str]) -> Iterator[None]:
    if all(_stays(root, name) for name in names):
        yield
        return
    with folder_of(root, ()) as fd:
        _lock(fd)
        for name in names:
            with contextlib.suppress(OSError):
                os.mkdir(name, PLACEHOLDER, dir_fd=fd)
        try:
            yield
        finally:
            _let_go(fd, root, names)


def _stays(root: Root, name: str) -> bool:
    """Whether a name is there, and not as a placeholder."""
    try:
        mode = os.stat(name, dir_fd=root.fd, follow_symlinks=False).st_mode
    except OSError:
        return False
    return not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX)


def _lock(fd: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                raise ToolError("the project folder is locked by another program; try again") from None
            time.sleep(0.01)


def _let_go(fd: int, root: Root, names: list[str]) -> None:
    """Remove the placeholders, if no other command needs them; only what is empty can be removed."""
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for name in names:
            if not _stays(root, name):
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=fd)
