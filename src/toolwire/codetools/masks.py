"""What is kept from commands: found before each of them, covered while it runs.

Rules of this file:
- All of each root is looked at before each command, to the last folder: nothing is remembered from the look before,
  so that it does not matter what the last command moved, or where to.
- What a folder with a protected name holds is looked at too: a secret may have been moved into it.
- A folder that cannot be looked into is covered whole: one that may not be read, or whose path is too long to mount.
- A hard link of a secret file is covered as the file is.
- Of a link with a covered name, the thing that it leads to is covered, where that is inside of the roots.
- A covered file stays where it is: the folders above it are neither moved nor removed.
- A socket on which somebody listens is covered where commands have no network: no namespace keeps them from it.
- A limit that is met keeps the command from running. Nothing is left uncovered in silence.
"""

import contextlib
import errno
import os
import socket
import stat
import time
from collections.abc import Iterator

from msgspec import Struct

from toolwire.codetools.paths import MAX_PATH, OWN_FILES, Root, Workspace, open_root_folder
from toolwire.codetools.spelling import escape_name
from toolwire.errors import ToolError

# Measured with bubblewrap 0.8: 300 mounts take 0.06 s, 1,000 take 0.9 s, 3,000 take 8 s and are the most it takes.
MOST_MASKS = 1_000
MOST_ENTRIES = 2_000_000
LOOK_SECONDS = 30.0
LOOKS = 5
# What bubblewrap and /proc put before a path, and one more name, have to fit as well.
_LONGEST_FOLDER = MAX_PATH - 400
_VANISHED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_DENIED = frozenset({errno.EACCES, errno.EPERM})


class Mask(Struct, frozen=True):
    """Something that is kept from commands: its path on the host, and what it was when it was found.

    One that is `open` is a folder that commands write into, and neither move nor remove. A `socket` is kept from
    commands without a network only.
    """

    path: str
    secret: bool
    folder: bool
    identity: tuple[int, int]
    open: bool = False
    socket: bool = False

    def arguments(self) -> Iterator[str]:
        """Give the words that make bubblewrap cover it."""
        if self.open:
            yield from ("--bind", self.path, self.path)
        elif not self.secret:
            yield from ("--ro-bind-try", self.path, self.path)
        elif self.folder:
            yield from ("--perms", "0000", "--tmpfs", self.path, "--remount-ro", self.path)
        else:
            yield from ("--ro-bind", "/dev/null", self.path)

    def holds(self, before: str) -> bool:
        """Whether it is in force, seen through the root folder of a process."""
        try:
            found = os.lstat(before + self.path)
            read_only = os.statvfs(before + self.path).f_flag & os.ST_RDONLY
        except OSError:
            return os.path.basename(self.path).startswith(OWN_FILES.rstrip("*"))
        same = (found.st_dev, found.st_ino) == self.identity
        return not same if self.secret else same and (self.open or bool(read_only))


def real_path(root: Root) -> str:
    """Say where a root is now."""
    if os.fstat(root.fd).st_nlink == 0:
        raise ToolError("the project folder is not there any more: no command can run in it")
    return os.readlink(f"/proc/self/fd/{root.fd}")


def masks_of(workspace: Workspace) -> list[Mask]:
    """Find what is kept from commands, those above first."""
    for _ in range(LOOKS):
        with contextlib.suppress(_Moved):
            return _Look(workspace).masks()
    raise _not_run("files that it must not see were moved during the search", "try again when nothing else is at work")


class _Moved(Exception):
    """Something went away while it was looked at: it may be in a folder that was looked at before."""


class _Look:
    """One look at all that the roots hold."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._tops = {real_path(root).rstrip("/"): root for root in workspace.roots}
        self._masks: dict[str, Mask] = {}
        self._seen: list[tuple[str, tuple[str, ...]]] = []
        self._shared: set[tuple[int, int]] = set()
        self._entries = 0
        self._deadline = time.monotonic() + LOOK_SECONDS

    def masks(self) -> list[Mask]:
        for top in self._tops:
            folders: list[tuple[tuple[str, ...], bool]] = [((), False)]
            while folders:
                folders += self._look_into(top, *folders.pop())
        for path in map(os.path.realpath, self._workspace.covered):
            if os.path.lexists(path):
                self._cover_inside(path, secret=True)
                self._hold_above(path)
        if self._shared:
            self._cover_other_names()
        masks = [mask for mask in self._masks.values() if not self._is_hidden(mask)]
        if len(masks) > MOST_MASKS:
            example = escape_name(os.path.relpath(masks[-1].path, next(iter(self._tops)) or "/"))
            raise _not_run(
                f"{len(masks):,} files and folders would have to be kept from it, {example} among them, "
                f"and {MOST_MASKS:,} are the most",
                "take away those that are not needed, or work in a folder further down",
            )
        return sorted(masks, key=lambda mask: len(mask.path))

    def _look_into(self, top: str, parts: tuple[str, ...], protected: bool) -> list[tuple[tuple[str, ...], bool]]:
        """Cover what is to be covered in a folder; give the folders in it that are to be looked into."""
        path = "/".join((top, *parts))
        if len(os.fsencode(path)) > _LONGEST_FOLDER:
            self._cover(path, secret=True)
            return []
        try:
            names, folders, _, others = _read(self._tops[top], parts)
        except OSError as problem:
            if problem.errno in _VANISHED:
                raise _Moved from None
            if problem.errno not in _DENIED:
                raise
            self._cover(path, secret=True)
            return []
        self._count(len(names))
        self._seen.append((top, parts))
        secret, kept = self._workspace.restricted_among(names)
        for name in secret:
            self._cover(f"{path}/{name}", secret=True)
        for name in kept if not protected else ():
            self._cover(f"{path}/{name}", secret=False)
        for name in set(others).difference(secret):
            if _is_heard(f"{path}/{name}"):
                self._cover(f"{path}/{name}", secret=True, is_socket=True)
        return [((*parts, name), protected or name in kept) for name in folders if name not in secret]

    def _count(self, entries: int) -> None:
        self._entries += entries
        if self._entries > MOST_ENTRIES or time.monotonic() > self._deadline:
            raise _not_run(
                f"the project has too much in it to find what must be kept from it: "
                f"at most {MOST_ENTRIES:,} entries are looked at, for {LOOK_SECONDS:g} s",
                "work in a folder further down",
            )

    def _cover(self, path: str, *, secret: bool, is_socket: bool = False) -> None:
        """Cover a path; where it cannot be reached, the folder that holds it."""
        try:
            status = os.lstat(path)
        except PermissionError:
            above = os.path.dirname(path)
            if above in self._tops or path in self._tops:
                raise _not_run("the project folder cannot be looked into", "see to its mode") from None
            return self._cover(above, secret=True)
        except OSError as problem:
            if problem.errno in _VANISHED:
                raise _Moved from None
            raise
        if stat.S_ISLNK(status.st_mode):
            return self._cover_inside(os.path.realpath(path), secret=secret)
        if path in self._tops:
            raise _not_run("the project folder cannot be looked into", "see to its mode")
        if secret and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            self._shared.add((status.st_dev, status.st_ino))
        if secret or path not in self._masks:
            is_folder = stat.S_ISDIR(status.st_mode)
            self._masks[path] = Mask(path, secret, is_folder, (status.st_dev, status.st_ino), socket=is_socket)
        return None

    def _cover_other_names(self) -> None:
        """Cover the hard links of secret files: a link is the file, under another name."""
        numbers = {number for _, number in self._shared}
        for top, parts in self._seen:
            try:
                names, _, found, _ = _read(self._tops[top], parts)
            except OSError:
                raise _Moved from None
            for path in ["/".join((top, *parts, names[at])) for at, number in enumerate(found) if number in numbers]:
                with contextlib.suppress(OSError):
                    status = os.lstat(path)
                    if (status.st_dev, status.st_ino) in self._shared:
                        self._cover(path, secret=True)

    def _cover_inside(self, path: str, *, secret: bool) -> None:
        """Cover what is in the roots, and holds none of them."""
        inside = any(path.startswith(f"{top}/") for top in self._tops)
        around = any(f"{top}/".startswith(f"{path}/") for top in self._tops)
        if inside and not around and os.path.exists(path):
            self._cover(path, secret=secret)

    def _hold_above(self, path: str) -> None:
        """Keep the folders that a file is in where they are: what covers it would be moved with them."""
        top = next((top for top in self._tops if path.startswith(f"{top}/")), path)
        above = top
        for name in path[len(top) + 1 :].split("/")[:-1]:
            above = f"{above}/{name}"
            mask = self._masks.get(above)
            if mask is not None and not mask.open:
                return
            status = os.stat(above)
            self._masks[above] = Mask(above, False, True, (status.st_dev, status.st_ino), open=True)

    def _is_hidden(self, mask: Mask) -> bool:
        """Whether it is in a folder that is covered whole."""
        above = mask.path
        while above := above.rpartition("/")[0]:
            if (over := self._masks.get(above)) is not None and over.secret:
                return True
        return False


def _read(root: Root, parts: tuple[str, ...]) -> tuple[list[str], list[str], list[int], list[str]]:
    """List a folder: all names in it, those of folders, the inode number of each, and what is no file and no link."""
    names, folders, numbers, others = list[str](), list[str](), list[int](), list[str]()
    with open_root_folder(root, parts, os.O_NOFOLLOW) as fd, os.scandir(fd) as scan:
        for entry in scan:
            names.append(entry.name)
            numbers.append(entry.inode())
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                others.append(entry.name)
    return names, folders, numbers, others


def _is_heard(path: str) -> bool:
    """Return True if a path is a socket on which somebody listens.

    The kernel finds the socket before it compares the kinds: who listens for connections notices no datagram socket.
    """
    try:
        held = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            if stat.S_ISSOCK(os.fstat(held).st_mode):
                probe.connect(f"/proc/self/fd/{held}")  # a path may be too long for an address
                return True
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
    finally:
        os.close(held)
    return False


def _not_run(why: str, advice: str) -> ToolError:
    return ToolError(f"no command is run: {why}; {advice}")
