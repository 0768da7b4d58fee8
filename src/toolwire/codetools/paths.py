"""Paths of the code tools: all that keeps them inside their folders is in this file.

Rules of this file:
- A path is relative to `cwd`, and confined to it and to the extra roots. Each root is opened once; nothing is
  opened by a path from the top, so that nobody can swap a folder between the check and the use.
- The kernel confines where it can (`openat2` with RESOLVE_BENEATH); elsewhere each component is opened by its
  own descriptor. Both follow relative links that stay inside, and refuse absolute ones and those of `/proc`.
- `..` is taken away before anything is opened: `a/../b` is `b`.
- What is written is never a link: a link is refused, dangling or not, and its target is what to write.
- Only regular files are read or written; opening one never waits.
- Messages say the path that was given, never where it is on the host.
"""

import contextlib
import ctypes
import errno
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from msgspec import Struct

from toolwire.codetools.spelling import ESCAPED, among, any_of, folded, meant, shown
from toolwire.errors import InvalidField, ToolError

MAX_PATH = 4096
MAX_PARTS = 256
_MAX_LINKS = 40
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_HANDLE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
PROTECTED = (".git",)
OWN = ".toolwire-*"
SECRET = (".env", ".env.*")
_EXAMPLES = frozenset({".env.example", ".env.sample", ".env.template"})
_SECRETS = "it may hold secrets, and is neither read nor written here"
_SPECIAL = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISLNK: "a symbolic link",
}


class PathRefused(ToolError):
    """A path that cannot be used; `code` says why in one word."""

    def __init__(self, code: str, given: str, reason: str) -> None:
        super().__init__(f"{shown(given)}: {reason}")
        self.code = code


REASONS: dict[int, tuple[str, str]] = {
    errno.ENOENT: ("not_found", "there is no such file or folder"),
    errno.ENOTDIR: ("not_a_folder", "a part of the path is not a folder"),
    errno.EISDIR: ("not_regular_file", "it is a folder"),
    errno.EACCES: ("no_permission", "permission denied"),
    errno.EPERM: ("no_permission", "permission denied"),
    errno.EROFS: ("no_permission", "the file system is read-only"),
    errno.ELOOP: ("link_loop", "its symbolic links go around in a circle, or it is one itself"),
    errno.ENAMETOOLONG: ("invalid_path", "a name in it is too long"),
    errno.EXDEV: ("outside_root", "it leads out of the project folder"),
    errno.EEXIST: ("stale", "something is there by now: read it first"),
    errno.ENXIO: ("not_regular_file", "it is not a regular file"),
    errno.ENOSPC: ("no_space", "no space is left on the disk"),
    errno.EDQUOT: ("no_space", "the disk quota is used up"),
    errno.EFBIG: ("no_space", "the file would be too large"),
}


def refusal(problem: OSError, given: str) -> PathRefused:
    """Say what the system said of a path, without the host's own paths."""
    code, reason = REASONS.get(problem.errno or 0, ("io_error", os.strerror(problem.errno or errno.EIO)))
    return PathRefused(code, given, reason)


@contextlib.contextmanager
def saying(given: str) -> Iterator[None]:
    """Turn what the system says of a path into a refusal."""
    try:
        yield
    except OSError as problem:
        raise refusal(problem, given) from None


class ProjectPath(Struct, frozen=True):
    """Where a path leads: from a root, by these names. `given` is what was asked for."""

    root: "Root"
    parts: tuple[str, ...]
    given: str

    @property
    def path(self) -> str:
        """The path from the root."""
        return "/".join(self.parts) or "."

    def inside(self, path: str) -> "ProjectPath":
        """Give the place of what is in this folder."""
        return ProjectPath(self.root, (*self.parts, *path.split("/")), f"{self.given.rstrip('/')}/{path}")


class FileSpot(Struct, frozen=True):
    """Where a file is, or would be: its open folder, its name in it, and the place that was asked for."""

    place: ProjectPath
    folder: int
    name: str

    @property
    def given(self) -> str:
        """The path that was asked for."""
        return self.place.given


class Root:
    """A folder that paths are confined to, open as long as this is."""

    def __init__(self, path: str) -> None:
        self.path: str = os.path.abspath(path)
        try:
            self.fd: int = os.open(self.path, _HANDLE | os.O_DIRECTORY)
        except OSError as problem:
            reason = os.strerror(problem.errno or 0)
            raise InvalidField("cwd", f"must be a folder: {path!r} is not one ({reason})") from None
        self.real: str = os.path.realpath(self.path)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self.fd)

    def within(self, path: str) -> tuple[str, ...] | None:
        """Give the names of an absolute path from here; None if it leads elsewhere."""
        for base in (self.path, self.real):
            if path == base or path.startswith(base.rstrip("/") + "/"):
                return tuple(path[len(base) :].strip("/").split("/")) if path != base else ()
        return None

    def open(self, parts: tuple[str, ...], flags: int, mode: int = 0) -> int:
        """Open what is inside; it never leads outside."""
        if has_openat2():
            return _openat2(self.fd, "/".join(parts) or ".", flags, mode)
        return _walk(self.fd, parts, flags, mode)


class Workspace:
    """The folders of one set of code tools.

    `protected` names what is never written, and `secret` what is neither read nor written, wherever in a path
    they stand; small and capital letters are the same. `covered` are absolute paths of files: where one lies in
    a root, its name is secret too.
    """

    def __init__(
        self,
        cwd: str | os.PathLike[str] = ".",
        roots: Iterable[str | os.PathLike[str]] = (),
        *,
        protected: Iterable[str] = PROTECTED,
        secret: Iterable[str] = SECRET,
        covered: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        self.roots: list[Root] = [Root(os.fspath(path)) for path in (cwd, *roots)]
        self.cwd: Root = self.roots[0]
        self.protected_names: tuple[str, ...] = (*protected, OWN)
        self.protected: re.Pattern[str] = any_of(self.protected_names)
        self._secret_names = tuple(secret)
        self.covered: list[str] = []
        self.cover(covered)

    def cover(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Keep more files secret, by absolute paths."""
        for path in [os.fspath(one) for one in paths]:
            real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            if any(root.within(one) is not None for root in self.roots for one in (path, real)):
                self._secret_names += (os.path.basename(path),)
                self.covered.append(real)
        self.secret: re.Pattern[str] = any_of(self._secret_names)
        self._kept_apart = among((*self.protected_names, *self._secret_names))

    def place(self, given: Any, *, writes: bool = False) -> ProjectPath:
        """Say where a path leads; refuse one that leads out, or to what is kept apart."""
        if not isinstance(given, str) or not given:
            raise PathRefused("invalid_path", str(given), "a path is needed; `.` is the project folder")
        if "\0" in given or len(given) > MAX_PATH:
            reason = f"a path has no NUL and at most {MAX_PATH} characters"
            raise PathRefused("invalid_path", given[:80], reason)
        try:
            os.fsencode(given)
        except UnicodeEncodeError:
            reason = "it has characters that no file name has"
            raise PathRefused("invalid_path", ascii(given), reason) from None
        root, names = self._start(given)
        parts = _normal(names, given)
        place = ProjectPath(root, parts, given)
        self._check(place, writes=writes)
        if ESCAPED.search(given) and not self._is_there(place):
            place = ProjectPath(root, tuple(map(_one_name, parts)), given)
            self._check(place, writes=writes)
        return place

    def _start(self, given: str) -> tuple[Root, tuple[str, ...]]:
        if not given.startswith("/"):
            return self.cwd, tuple(given.split("/"))
        path = os.path.normpath(given)
        path = path[1:] if path.startswith("//") else path
        for root in self.roots:
            if (names := root.within(path)) is not None:
                return root, names
        raise PathRefused("outside_root", given, "it is outside the project folder; give a path relative to it")

    def _is_there(self, place: ProjectPath) -> bool:
        try:
            os.close(place.root.open(place.parts, _HANDLE))
        except OSError:
            return False
        return True

    def _check(self, place: ProjectPath, *, writes: bool) -> None:
        if self.is_secret(place.parts):
            raise PathRefused("secret", place.given, _SECRETS)
        if writes and any(self.protected.fullmatch(folded(name)) for name in place.parts):
            raise PathRefused("protected", place.given, "it is protected: it is not written here")

    def name_of(self, place: ProjectPath) -> str:
        """Give the path to show: from the project folder, or the whole one where it is in another root."""
        return place.path if place.root is self.cwd else f"{place.root.path}/{place.path}"

    def is_secret(self, parts: Iterable[str]) -> bool:
        """Whether a path leads to what is kept secret."""
        return any(self.secret.fullmatch(name) and name not in _EXAMPLES for name in map(folded, parts))

    def covered_among(self, names: list[str]) -> tuple[set[str], set[str]]:
        """Of the names in one folder, give those that are secret, and those that are protected and no secret."""
        together = f"/{'//'.join(names)}/"
        if together.isascii() and self._kept_apart.search(together) is None:
            return set(), set()
        secret = {name for name in names if self.is_secret((name,))}
        return secret, {name for name in names if self.protected.fullmatch(folded(name))} - secret

    @contextlib.contextmanager
    def reading(self, place: ProjectPath) -> Iterator[int]:
        """Open a regular file, to read it here; opening never waits."""
        with saying(place.given):
            fd = place.root.open(place.parts, READ)
        with held(fd):
            self.check_file(fd, place)
            yield fd

    def check_file(self, fd: int, place: ProjectPath) -> None:
        """Refuse what is no regular file that may be read under each of its names."""
        status = os.fstat(fd)
        kind = kind_of(status.st_mode) or ("no file" if _is_of_the_system(status) else None)
        if kind is not None:
            raise PathRefused("not_regular_file", place.given, f"it is {kind}, and only files are read")
        parts = self._check_real(fd, place, writes=False)
        if status.st_nlink > 1 and self._is_secret_too(status, place.root, parts):
            raise PathRefused("secret", place.given, _SECRETS)

    def _check_real(self, fd: int, place: ProjectPath, *, writes: bool) -> tuple[str, ...]:
        """Check the names that links led to as well."""
        parts = real_parts(fd, place)
        if parts != place.parts:
            self._check(ProjectPath(place.root, parts, place.given), writes=writes)
        return parts

    def _is_secret_too(self, status: os.stat_result, root: Root, parts: tuple[str, ...]) -> bool:
        """Whether a file that has several names is one of the secrets beside it, or in its root."""
        for folder in {(), parts[:-1]}:
            with contextlib.suppress(OSError), folder_of(root, folder) as fd, os.scandir(fd) as entries:
                if any(_is_at(entry.name, fd, status) for entry in entries if self.is_secret((entry.name,))):
                    return True
        return False

    @contextlib.contextmanager
    def open_folder(self, place: ProjectPath) -> Iterator[int]:
        """Open a folder, to list it."""
        with saying(place.given):
            fd = place.root.open(place.parts, FOLDER)
        with held(fd):
            self._check_real(fd, place, writes=False)
            yield fd

    @contextlib.contextmanager
    def open_parent(self, place: ProjectPath, *, make: bool = False) -> Iterator[FileSpot]:
        """Open the folder that holds a place.

        Missing folders may be made; where what follows fails, those that are empty still are taken away.
        """
        if not place.parts:
            raise PathRefused("not_regular_file", place.given, "it is the project folder, not a file")
        with contextlib.ExitStack() as made:
            with saying(place.given):
                if make:
                    self._make_folders(place, made)
                fd = place.root.open(place.parts[:-1], FOLDER)
            made.callback(os.close, fd)
            self._check_real(fd, ProjectPath(place.root, place.parts[:-1], place.given), writes=True)
            yield FileSpot(place, fd, place.parts[-1])

    def _make_folders(self, place: ProjectPath, made: contextlib.ExitStack) -> None:
        for count in range(1, len(place.parts)):
            above, name = (ProjectPath(place.root, place.parts[: count - 1], place.given), place.parts[count - 1])
            with folder_of(place.root, above.parts) as fd, contextlib.suppress(FileExistsError):
                self._check_real(fd, above, writes=True)
                os.mkdir(name, 0o755, dir_fd=fd)
                kept = os.dup(fd)
                made.callback(os.close, kept)
                made.push(partial(_take_away, name, kept))

    def status(self, place: ProjectPath) -> os.stat_result:
        """Say what a place is, of a link what the link itself is."""
        if not place.parts:
            with saying(place.given):
                return os.fstat(place.root.fd)
        with self.open_parent(place) as spot, saying(place.given):
            return os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)


def _take_away(name: str, folder: int, failed: type[BaseException] | None, *_: object) -> None:
    if failed is not None:
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=folder)


@contextlib.contextmanager
def held(fd: int) -> Iterator[int]:
    """Close what is open in the end."""
    try:
        yield fd
    finally:
        os.close(fd)


def folder_of(root: Root, parts: tuple[str, ...], flags: int = 0) -> contextlib.AbstractContextManager[int]:
    """Open a folder of a root."""
    return held(root.open(parts, FOLDER | flags))


def kind_of(mode: int) -> str | None:
    """Name what is no regular file."""
    if stat.S_ISREG(mode):
        return None
    return next((name for test, name in _SPECIAL.items() if test(mode)), "no regular file")


def _is_at(name: str, folder: int, status: os.stat_result) -> bool:
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder)
        return (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino)
    return False


def _is_of_the_system(status: os.stat_result) -> bool:
    """Whether a file is one of `/proc` or `/sys`, which a root may hold."""
    for folder in ("/proc", "/sys"):
        with contextlib.suppress(OSError):
            if os.stat(folder).st_dev == status.st_dev:
                return True
    return False


def real_parts(fd: int, place: ProjectPath) -> tuple[str, ...]:
    """Give the names that lead to what was opened; where the system cannot say, links are refused."""
    try:
        top, path = os.readlink(f"/proc/self/fd/{place.root.fd}"), os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        try:
            os.close(_walk(place.root.fd, place.parts, _HANDLE, 0, links=0))
        except OSError as problem:
            raise refusal(problem, place.given) from None
        return place.parts
    inside = path.removesuffix(" (deleted)").removeprefix(top.rstrip("/")).strip("/") if path != top else ""
    return tuple(inside.split("/")) if inside else ()


def _normal(names: Iterable[str], given: str) -> tuple[str, ...]:
    """Take `.` and `..` away."""
    parts: list[str] = []
    for name in names:
        if name == "..":
            if not parts:
                raise PathRefused("outside_root", given, "it leads out of the project folder")
            parts.pop()
        elif name not in ("", "."):
            parts.append(name)
    if len(parts) > MAX_PARTS:
        raise PathRefused("invalid_path", given[:80], f"it has more than {MAX_PARTS} parts")
    return tuple(parts)


def _one_name(name: str) -> str:
    found = meant(name)
    return name if "/" in found or "\0" in found or found in (".", "..", "") else found


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


_OPENAT2 = 437
_AT_FDCWD = -100
_BENEATH_WITHOUT_MAGIC = 0x08 | 0x02
_found: dict[str, Any] = {}


def has_openat2() -> bool:
    """Whether the kernel can confine; it is asked once."""
    if "openat2" not in _found:
        _found["openat2"] = False
        with contextlib.suppress(OSError, AttributeError):
            os.close(_openat2(_AT_FDCWD, ".", _HANDLE, 0))
            _found["openat2"] = sys.platform == "linux"
    return bool(_found["openat2"])


def _openat2(folder: int, path: str, flags: int, mode: int) -> int:
    libc = _found.get("libc") or _found.setdefault("libc", ctypes.CDLL(None, use_errno=True))
    how = _How(flags, mode, _BENEATH_WITHOUT_MAGIC)
    for _ in range(100):
        fd = libc.syscall(_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if fd >= 0:
            return int(fd)
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            break
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def _walk(folder: int, parts: tuple[str, ...], flags: int, mode: int, links: int = _MAX_LINKS) -> int:
    """Open name by name, each by the descriptor of its folder; of links, relative ones that stay inside."""
    todo, trail = list(reversed(parts)) or ["."], [os.dup(folder)]
    try:
        while True:
            name = todo.pop()
            if name == "..":
                if len(trail) < 2:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
                os.close(trail.pop())
            elif (target := _link_of(trail[-1], name)) is not None:
                links -= 1
                if links < 0:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if target.startswith("/"):
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
                todo += ["."] * target.endswith(("/", "/."))
                todo += [part for part in reversed(target.split("/")) if part not in ("", ".")]
            elif todo:
                trail.append(os.open(name, _HANDLE | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=trail[-1]))
            else:
                return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=trail[-1])
            if not todo:
                todo.append(".")
    finally:
        for fd in trail:
            os.close(fd)


def _link_of(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as problem:
        if problem.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise
