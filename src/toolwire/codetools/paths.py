"""Paths of the code tools: this file alone keeps them inside their folders.

Rules of this file:
- A path is relative to `cwd`, and confined to it and to the extra roots. Each root is opened once. No file is opened
  by an absolute path, so no program can swap a folder between the check and the use.
- If the kernel has `openat2`, it confines paths (RESOLVE_BENEATH). Elsewhere each component is opened through the
  descriptor of its parent. Both follow relative links that stay inside, and refuse absolute links and those of
  `/proc`.
- `..` is resolved before a path is opened: `a/../b` is `b`.
- No file is written through a link: a link is refused, dangling or not. The caller writes to the link's target.
- Only regular files are read or written; opening one never blocks.
- Messages show the path that the caller passed, never where it is on the host.
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

from toolwire.codetools.spelling import (
    ESCAPED,
    compile_names,
    compile_quick_test,
    escape_name,
    fold_name,
    unescape_name,
)
from toolwire.errors import InvalidField, ToolError

MAX_PATH = 4096
MAX_PARTS = 256
_MAX_LINKS = 40
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_HANDLE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
PROTECTED = (".git",)
OWN_FILES = ".toolwire-*"
SECRET = (".env", ".env.*")
EXAMPLES = frozenset({".env.example", ".env.sample", ".env.template"})
_SECRETS = "it may contain secrets: the tools neither read nor write it"
_SPECIAL = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISLNK: "a symbolic link",
}


class PathRefused(ToolError):
    """A path that cannot be used; `code` is the reason in one word."""

    def __init__(self, code: str, path: str, reason: str) -> None:
        super().__init__(f"{escape_name(path)}: {reason}")
        self.code = code


REASONS: dict[int, tuple[str, str]] = {
    errno.ENOENT: ("not_found", "there is no such file or folder"),
    errno.ENOTDIR: ("not_a_folder", "a part of the path is not a folder"),
    errno.EISDIR: ("not_regular_file", "it is a folder"),
    errno.EACCES: ("no_permission", "permission denied"),
    errno.EPERM: ("no_permission", "permission denied"),
    errno.EROFS: ("no_permission", "the file system is read-only"),
    errno.ELOOP: ("link_loop", "it is a symbolic link, or its symbolic links form a loop"),
    errno.ENAMETOOLONG: ("invalid_path", "a name in it is too long"),
    errno.EXDEV: ("outside_root", "it leads out of the project folder"),
    errno.EEXIST: ("stale", "another program created it meanwhile: read it first"),
    errno.ENXIO: ("not_regular_file", "it is not a regular file"),
    errno.ENOSPC: ("no_space", "no space is left on the disk"),
    errno.EDQUOT: ("no_space", "the disk quota is used up"),
    errno.EFBIG: ("no_space", "the file would be too large"),
}


def _refusal_of_error(error: OSError, path: str) -> PathRefused:
    """Return the `PathRefused` for a system error, without the host's own paths."""
    code, reason = REASONS.get(error.errno or 0, ("io_error", os.strerror(error.errno or errno.EIO)))
    return PathRefused(code, path, reason)


@contextlib.contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Raise a system error of the `with` block as the `PathRefused` of `path`."""
    try:
        yield
    except OSError as problem:
        raise _refusal_of_error(problem, path) from None


class ProjectPath(Struct, frozen=True):
    """A resolved path: the root it is in and the names below it.

    `requested` is the path as the caller wrote it.
    """

    root: "Root"
    parts: tuple[str, ...]
    requested: str

    @property
    def path(self) -> str:
        """The path from the root."""
        return "/".join(self.parts) or "."

    def inside(self, path: str) -> "ProjectPath":
        """Return the location of `path` inside this folder."""
        return ProjectPath(self.root, (*self.parts, *path.split("/")), f"{self.requested.rstrip('/')}/{path}")


class FileSpot(Struct, frozen=True):
    """A file that exists or will be created: its location, the open parent folder and the name in it."""

    location: ProjectPath
    folder: int
    name: str

    @property
    def requested(self) -> str:
        """The path as the caller wrote it."""
        return self.location.requested


class Root:
    """A folder that paths are confined to. It stays open as long as this object lives."""

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

    def split_inside(self, path: str) -> tuple[str, ...] | None:
        """Return the names that lead from this root to the absolute `path`, or None if `path` is outside."""
        for base in (self.path, self.real):
            if path == base or path.startswith(base.rstrip("/") + "/"):
                return tuple(path[len(base) :].strip("/").split("/")) if path != base else ()
        return None

    def open(self, parts: tuple[str, ...], flags: int, mode: int = 0) -> int:
        """Open the path of these names, and return its descriptor; it never leaves the root."""
        if has_openat2():
            return _openat2(self.fd, "/".join(parts) or ".", flags, mode)
        return _walk(self.fd, parts, flags, mode)


class Workspace:
    """The folders of one set of code tools.

    `protected` lists names that are never written, and `secret` names that are neither read nor written. They apply
    to every component of a path, and ignore capitals. `covered` lists absolute paths of files: if one is inside a
    root, its name is secret too.
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
        self.protected_names: tuple[str, ...] = (*protected, OWN_FILES)
        self.protected: re.Pattern[str] = compile_names(self.protected_names)
        self.secret_names: tuple[str, ...] = tuple(secret)
        self.covered: list[str] = []
        self.cover(covered)

    def cover(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Make more files secret, by absolute paths."""
        for path in [os.fspath(item) for item in paths]:
            real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            if any(root.split_inside(form) is not None for root in self.roots for form in (path, real)):
                self.secret_names += (os.path.basename(path),)
                self.covered.append(real)
        self.secret: re.Pattern[str] = compile_names(self.secret_names)
        self._restricted = compile_quick_test((*self.protected_names, *self.secret_names))

    def resolve(self, requested: Any, *, writes: bool = False) -> ProjectPath:
        """Return the location that the path `requested` leads to.

        Raise `PathRefused` if it leaves the roots, is secret, or is protected and `writes` is true.
        """
        if not isinstance(requested, str) or not requested:
            raise PathRefused("invalid_path", str(requested), "give a path; `.` is the project folder")
        if "\0" in requested or len(requested) > MAX_PATH:
            reason = f"a path contains no NUL and has at most {MAX_PATH} characters"
            raise PathRefused("invalid_path", requested[:80], reason)
        try:
            os.fsencode(requested)
        except UnicodeEncodeError:
            reason = "it contains characters that no file name can have"
            raise PathRefused("invalid_path", ascii(requested), reason) from None
        root, names = self._start(requested)
        parts = _normalize(names, requested)
        location = ProjectPath(root, parts, requested)
        self._check(location, writes=writes)
        if ESCAPED.search(requested) and not self._is_there(location):
            location = ProjectPath(root, tuple(map(_unescape_part, parts)), requested)
            self._check(location, writes=writes)
        return location

    def _start(self, path: str) -> tuple[Root, tuple[str, ...]]:
        if not path.startswith("/"):
            return self.cwd, tuple(path.split("/"))
        absolute = os.path.normpath(path)
        absolute = absolute[1:] if absolute.startswith("//") else absolute
        for root in self.roots:
            if (names := root.split_inside(absolute)) is not None:
                return root, names
        raise PathRefused("outside_root", path, "it is outside the project folder: give a path relative to that folder")

    def _is_there(self, location: ProjectPath) -> bool:
        try:
            os.close(location.root.open(location.parts, _HANDLE))
        except OSError:
            return False
        return True

    def _check(self, location: ProjectPath, *, writes: bool) -> None:
        if self.is_secret(location.parts):
            raise PathRefused("secret", location.requested, _SECRETS)
        if writes and any(self.protected.fullmatch(fold_name(name)) for name in location.parts):
            raise PathRefused("protected", location.requested, "it is protected: the tools do not write it")

    def display_path(self, location: ProjectPath) -> str:
        """Return the path to show: relative to the project folder, or absolute in another root."""
        return location.path if location.root is self.cwd else f"{location.root.path}/{location.path}"

    def is_secret(self, parts: Iterable[str]) -> bool:
        """Return True if one of the names is secret."""
        return any(self.secret.fullmatch(name) and name not in EXAMPLES for name in map(fold_name, parts))

    def restricted_among(self, names: list[str]) -> tuple[set[str], set[str]]:
        """Return those of `names` that are secret, and those that are protected and not secret."""
        joined = f"/{'//'.join(names)}/"
        if joined.isascii() and self._restricted.search(joined) is None:
            return set(), set()
        secret = {name for name in names if self.is_secret((name,))}
        return secret, {name for name in names if self.protected.fullmatch(fold_name(name))} - secret

    @contextlib.contextmanager
    def open_file(self, location: ProjectPath) -> Iterator[int]:
        """Open a regular file for reading; opening never blocks."""
        with translate_errors(location.requested):
            fd = location.root.open(location.parts, READ)
        with closing_fd(fd):
            self.check_file(fd, location)
            yield fd

    def check_file(self, fd: int, location: ProjectPath) -> None:
        """Raise `PathRefused` unless `fd` is a regular file that is not secret under any of its names."""
        status = os.fstat(fd)
        file_type = special_file_type(status.st_mode) or ("a system file" if _is_kernel_file(status) else None)
        if file_type is not None:
            raise PathRefused("not_regular_file", location.requested, f"it is {file_type}: only regular files are read")
        parts = self._check_real(fd, location, writes=False)
        if status.st_nlink > 1 and self._is_link_to_secret(status, location.root, parts):
            raise PathRefused("secret", location.requested, _SECRETS)

    def _check_real(self, fd: int, location: ProjectPath, *, writes: bool) -> tuple[str, ...]:
        """Check the names that links resolved to, and return them."""
        parts = real_parts(fd, location)
        if parts != location.parts:
            self._check(ProjectPath(location.root, parts, location.requested), writes=writes)
        return parts

    def _is_link_to_secret(self, status: os.stat_result, root: Root, parts: tuple[str, ...]) -> bool:
        """Return True if the file is a hard link of a secret file that is beside it or at the top of its root."""
        for folder in {(), parts[:-1]}:
            with contextlib.suppress(OSError), open_root_folder(root, folder) as fd, os.scandir(fd) as entries:
                if any(_is_same_file(entry.name, fd, status) for entry in entries if self.is_secret((entry.name,))):
                    return True
        return False

    @contextlib.contextmanager
    def open_folder(self, location: ProjectPath) -> Iterator[int]:
        """Open a folder for listing."""
        with translate_errors(location.requested):
            fd = location.root.open(location.parts, FOLDER)
        with closing_fd(fd):
            self._check_real(fd, location, writes=False)
            yield fd

    @contextlib.contextmanager
    def open_parent(self, location: ProjectPath, *, make: bool = False) -> Iterator[FileSpot]:
        """Open the folder that contains `location`.

        With `make`, missing folders are created. If the `with` block fails, the created folders that are still empty
        are removed.
        """
        if not location.parts:
            raise PathRefused(
                "not_regular_file", location.requested, "it is the project folder: give the path of a file"
            )
        with contextlib.ExitStack() as resources:
            with translate_errors(location.requested):
                if make:
                    self._make_folders(location, resources)
                fd = location.root.open(location.parts[:-1], FOLDER)
            resources.callback(os.close, fd)
            self._check_real(fd, ProjectPath(location.root, location.parts[:-1], location.requested), writes=True)
            yield FileSpot(location, fd, location.parts[-1])

    def _make_folders(self, location: ProjectPath, resources: contextlib.ExitStack) -> None:
        for count in range(1, len(location.parts)):
            parent, name = (
                ProjectPath(location.root, location.parts[: count - 1], location.requested),
                location.parts[count - 1],
            )
            with open_root_folder(location.root, parent.parts) as fd, contextlib.suppress(FileExistsError):
                self._check_real(fd, parent, writes=True)
                os.mkdir(name, 0o755, dir_fd=fd)
                parent_fd = os.dup(fd)
                resources.callback(os.close, parent_fd)
                resources.push(partial(_remove_folder, name, parent_fd))

    def status(self, location: ProjectPath) -> os.stat_result:
        """Return the status of `location`; a link is not followed."""
        if not location.parts:
            with translate_errors(location.requested):
                return os.fstat(location.root.fd)
        with self.open_parent(location) as spot, translate_errors(location.requested):
            return os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)


def _remove_folder(name: str, folder: int, exception_type: type[BaseException] | None, *_: object) -> None:
    if exception_type is not None:
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=folder)


@contextlib.contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    """Yield `fd`, and close it at the end."""
    try:
        yield fd
    finally:
        os.close(fd)


def open_root_folder(root: Root, parts: tuple[str, ...], flags: int = 0) -> contextlib.AbstractContextManager[int]:
    """Open a folder of a root."""
    return closing_fd(root.open(parts, FOLDER | flags))


def special_file_type(mode: int) -> str | None:
    """Return what a file is that is not regular, such as "a pipe"; None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    return next((name for test, name in _SPECIAL.items() if test(mode)), "no regular file")


def _is_same_file(name: str, folder: int, status: os.stat_result) -> bool:
    with contextlib.suppress(FileNotFoundError):
        other = os.stat(name, dir_fd=folder)
        return (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino)
    return False


def _is_kernel_file(status: os.stat_result) -> bool:
    """Return True if a file belongs to `/proc` or `/sys`, which a root may contain."""
    for folder in ("/proc", "/sys"):
        with contextlib.suppress(OSError):
            if os.stat(folder).st_dev == status.st_dev:
                return True
    return False


def real_parts(fd: int, location: ProjectPath) -> tuple[str, ...]:
    """Return the names that lead from the root to the open file.

    Without `/proc` they cannot be read; then a path with links is refused.
    """
    try:
        top, path = os.readlink(f"/proc/self/fd/{location.root.fd}"), os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        try:
            os.close(_walk(location.root.fd, location.parts, _HANDLE, 0, links=0))
        except OSError as problem:
            raise _refusal_of_error(problem, location.requested) from None
        return location.parts
    inside = path.removesuffix(" (deleted)").removeprefix(top.rstrip("/")).strip("/") if path != top else ""
    return tuple(inside.split("/")) if inside else ()


def _normalize(names: Iterable[str], path: str) -> tuple[str, ...]:
    """Return `names` without `.` and `..`."""
    parts: list[str] = []
    for name in names:
        if name == "..":
            if not parts:
                raise PathRefused("outside_root", path, "it leads out of the project folder")
            parts.pop()
        elif name not in ("", "."):
            parts.append(name)
    if len(parts) > MAX_PARTS:
        raise PathRefused("invalid_path", path[:80], f"it has more than {MAX_PARTS} parts")
    return tuple(parts)


def _unescape_part(name: str) -> str:
    unescaped = unescape_name(name)
    return name if "/" in unescaped or "\0" in unescaped or unescaped in (".", "..", "") else unescaped


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


_OPENAT2 = 437
_AT_FDCWD = -100
_BENEATH_WITHOUT_MAGIC = 0x08 | 0x02
_kernel: dict[str, Any] = {}


def has_openat2() -> bool:
    """Return True if the kernel can confine paths; it is asked once."""
    if "openat2" not in _kernel:
        _kernel["openat2"] = False
        with contextlib.suppress(OSError, AttributeError):
            os.close(_openat2(_AT_FDCWD, ".", _HANDLE, 0))
            _kernel["openat2"] = sys.platform == "linux"
    return bool(_kernel["openat2"])


def _openat2(folder: int, path: str, flags: int, mode: int) -> int:
    """Open `path` and return the descriptor. Raise `OSError` if it leads out of the open `folder`, or cannot be opened.

    See https://man7.org/linux/man-pages/man2/openat2.2.html (RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS).
    """
    libc = _kernel.get("libc") or _kernel.setdefault("libc", ctypes.CDLL(None, use_errno=True))
    how = _OpenHow(flags, mode, _BENEATH_WITHOUT_MAGIC)
    for _ in range(100):
        fd = libc.syscall(_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if fd >= 0:
            return int(fd)
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            break
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def _walk(folder: int, parts: tuple[str, ...], flags: int, mode: int, links: int = _MAX_LINKS) -> int:
    """Open `parts` one by one, each through the descriptor of its parent; follow relative links that stay inside."""
    todo, trail = list(reversed(parts)) or ["."], [os.dup(folder)]
    try:
        while True:
            name = todo.pop()
            if name == "..":
                if len(trail) < 2:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
                os.close(trail.pop())
            elif (target := _read_link(trail[-1], name)) is not None:
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


def _read_link(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as problem:
        if problem.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise
