"""Files that commands must not see or change: found before each command, and covered by mounts while it runs.

Rules of this file:
- Every folder of each root is searched before each command. Nothing is remembered from an earlier search, so it does
  not matter which files the last command moved, or where to.
- A folder with a protected name is searched too, because a secret may have been moved into it.
- A folder that cannot be searched is covered whole: it may be unreadable, or its path may be too long to mount.
- A hard link of a secret file is covered like the file.
- If a link has a covered name, its target is covered, provided that it is inside of the roots.
- A covered file stays where it is: the folders above it can be neither moved nor removed.
- A listening socket is covered if commands have no network, because no network namespace isolates Unix sockets of the
  file system.
- If a limit is exceeded, the command does not run. No file stays uncovered silently.
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
MAX_MASKS = 1_000
MAX_ENTRIES = 2_000_000
SEARCH_SECONDS = 30.0
ATTEMPTS = 5
# The prefix that bubblewrap and /proc put before a path, and one more name, have to fit as well.
_LONGEST_FOLDER = MAX_PATH - 400
_VANISHED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_DENIED = frozenset({errno.EACCES, errno.EPERM})


class Mask(Struct, frozen=True):
    """A file or folder that is covered: its path on the host, and its identity when it was found.

    An `open` mask is a folder that commands write into, and can neither move nor remove. A `socket` is covered only
    for commands without a network.
    """

    path: str
    secret: bool
    folder: bool
    identity: tuple[int, int]
    open: bool = False
    socket: bool = False

    def arguments(self, cover: str = "/dev/null") -> Iterator[str]:
        """Yield the arguments that make bubblewrap cover it. A secret file is replaced by the file `cover`."""
        if self.open:
            yield from ("--bind", self.path, self.path)
        elif not self.secret:
            yield from ("--ro-bind-try", self.path, self.path)
        elif self.folder:
            yield from ("--perms", "0000", "--tmpfs", self.path, "--remount-ro", self.path)
        else:
            yield from ("--ro-bind", cover, self.path)

    def is_in_force(self, root_path: str) -> bool:
        """Return True if the mask is in force, seen through the root folder of a process."""
        try:
            status = os.lstat(root_path + self.path)
            read_only = os.statvfs(root_path + self.path).f_flag & os.ST_RDONLY
        except OSError:
            return os.path.basename(self.path).startswith(OWN_FILES.rstrip("*"))
        is_same_file = (status.st_dev, status.st_ino) == self.identity
        return not is_same_file if self.secret else is_same_file and (self.open or bool(read_only))


def real_path(root: Root) -> str:
    """Return the present path of a root."""
    if os.fstat(root.fd).st_nlink == 0:
        raise ToolError("the project folder does not exist any more: no command can run in it")
    return os.readlink(f"/proc/self/fd/{root.fd}")


def masks_of(workspace: Workspace) -> list[Mask]:
    """Return the masks of a workspace, outer folders first."""
    for _ in range(ATTEMPTS):
        with contextlib.suppress(_Moved):
            return _MaskSearch(workspace).masks()
    raise _refuse_command(
        "files that it must not see were moved during the search", "try again when no other program changes the folder"
    )


class _Moved(Exception):
    """A file disappeared during the search: it may now be in a folder that was searched before."""


class _MaskSearch:
    """One search through all the roots."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._tops = {real_path(root).rstrip("/"): root for root in workspace.roots}
        self._masks: dict[str, Mask] = {}
        self._searched: list[tuple[str, tuple[str, ...]]] = []
        self._shared: set[tuple[int, int]] = set()
        self._entries = 0
        self._deadline = time.monotonic() + SEARCH_SECONDS

    def masks(self) -> list[Mask]:
        for top in self._tops:
            folders: list[tuple[tuple[str, ...], bool]] = [((), False)]
            while folders:
                folders += self._search_folder(top, *folders.pop())
        for path in map(os.path.realpath, self._workspace.covered):
            if os.path.lexists(path):
                self._cover_inside(path, secret=True)
                self._pin_folders_above(path)
        if self._shared:
            self._cover_other_names()
        masks = [mask for mask in self._masks.values() if not self._is_hidden(mask)]
        if len(masks) > MAX_MASKS:
            example = escape_name(os.path.relpath(masks[-1].path, next(iter(self._tops)) or "/"))
            raise _refuse_command(
                f"{len(masks):,} files and folders would have to be covered, {example} among them; "
                f"the limit is {MAX_MASKS:,}",
                "remove those that are not needed, or work in a folder further down",
            )
        return sorted(masks, key=lambda mask: len(mask.path))

    def _search_folder(self, top: str, parts: tuple[str, ...], protected: bool) -> list[tuple[tuple[str, ...], bool]]:
        """Cover the restricted entries of a folder; return the folders in it that must be searched."""
        path = "/".join((top, *parts))
        if len(os.fsencode(path)) > _LONGEST_FOLDER:
            self._cover(path, secret=True)
            return []
        try:
            names, folders, _, special = _read(self._tops[top], parts)
        except OSError as problem:
            if problem.errno in _VANISHED:
                raise _Moved from None
            if problem.errno not in _DENIED:
                raise
            self._cover(path, secret=True)
            return []
        self._count(len(names))
        self._searched.append((top, parts))
        secret, protected_names = self._workspace.restricted_among(names)
        for name in secret:
            self._cover(f"{path}/{name}", secret=True)
        for name in protected_names if not protected else ():
            self._cover(f"{path}/{name}", secret=False)
        for name in set(special).difference(secret):
            if _has_listener(f"{path}/{name}"):
                self._cover(f"{path}/{name}", secret=True, is_socket=True)
        return [((*parts, name), protected or name in protected_names) for name in folders if name not in secret]

    def _count(self, entries: int) -> None:
        self._entries += entries
        if self._entries > MAX_ENTRIES or time.monotonic() > self._deadline:
            raise _refuse_command(
                f"the project is too large to search for secret files: "
                f"the limit is {MAX_ENTRIES:,} entries and {SEARCH_SECONDS:g} s",
                "work in a folder further down",
            )

    def _cover(self, path: str, *, secret: bool, is_socket: bool = False) -> None:
        """Cover a path; if it cannot be reached, cover its parent folder."""
        try:
            status = os.lstat(path)
        except PermissionError:
            parent = os.path.dirname(path)
            if parent in self._tops or path in self._tops:
                raise _refuse_command("the project folder cannot be read", "check its mode") from None
            return self._cover(parent, secret=True)
        except OSError as problem:
            if problem.errno in _VANISHED:
                raise _Moved from None
            raise
        if stat.S_ISLNK(status.st_mode):
            return self._cover_inside(os.path.realpath(path), secret=secret)
        if path in self._tops:
            raise _refuse_command("the project folder cannot be read", "check its mode")
        if secret and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            self._shared.add((status.st_dev, status.st_ino))
        if secret or path not in self._masks:
            is_folder = stat.S_ISDIR(status.st_mode)
            self._masks[path] = Mask(path, secret, is_folder, (status.st_dev, status.st_ino), socket=is_socket)
        return None

    def _cover_other_names(self) -> None:
        """Cover the hard links of secret files."""
        shared_inodes = {number for _, number in self._shared}
        for top, parts in self._searched:
            try:
                names, _, inodes, _ = _read(self._tops[top], parts)
            except OSError:
                raise _Moved from None
            for path in [
                "/".join((top, *parts, names[index])) for index, number in enumerate(inodes) if number in shared_inodes
            ]:
                with contextlib.suppress(OSError):
                    status = os.lstat(path)
                    if (status.st_dev, status.st_ino) in self._shared:
                        self._cover(path, secret=True)

    def _cover_inside(self, path: str, *, secret: bool) -> None:
        """Cover `path` if it exists, is inside of a root, and contains no root."""
        is_inside = any(path.startswith(f"{top}/") for top in self._tops)
        contains_root = any(f"{top}/".startswith(f"{path}/") for top in self._tops)
        if is_inside and not contains_root and os.path.exists(path):
            self._cover(path, secret=secret)

    def _pin_folders_above(self, path: str) -> None:
        """Keep the folders between a root and `path` from being renamed: a mask would move together with them."""
        top = next((top for top in self._tops if path.startswith(f"{top}/")), path)
        folder = top
        for name in path[len(top) + 1 :].split("/")[:-1]:
            folder = f"{folder}/{name}"
            mask = self._masks.get(folder)
            if mask is not None and not mask.open:
                return
            status = os.stat(folder)
            self._masks[folder] = Mask(folder, False, True, (status.st_dev, status.st_ino), open=True)

    def _is_hidden(self, mask: Mask) -> bool:
        """Return True if a mask is inside of a folder that is covered whole."""
        folder = mask.path
        while folder := folder.rpartition("/")[0]:
            if (outer := self._masks.get(folder)) is not None and outer.secret:
                return True
        return False


def _read(root: Root, parts: tuple[str, ...]) -> tuple[list[str], list[str], list[int], list[str]]:
    """List a folder: all names, those of folders, all inode numbers, and the names of special files."""
    names, folders, inodes, special = list[str](), list[str](), list[int](), list[str]()
    with open_root_folder(root, parts, os.O_NOFOLLOW) as fd, os.scandir(fd) as scan:
        for entry in scan:
            names.append(entry.name)
            inodes.append(entry.inode())
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                special.append(entry.name)
    return names, folders, inodes, special


def _has_listener(path: str) -> bool:
    """Return True if a process listens on the socket at `path`.

    The probe is a datagram socket. The kernel finds the socket before it compares the types, so a process that
    listens for stream connections does not notice the probe.
    """
    try:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                probe.connect(f"/proc/self/fd/{fd}")  # a path may be too long for an address
                return True
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _refuse_command(reason: str, remedy: str) -> ToolError:
    return ToolError(f"no command is run: {reason}; {remedy}")
