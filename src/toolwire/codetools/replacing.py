"""Put a file in place of another in one step: who reads, or comes after a crash, finds one of the two.

Rules of this file:
- The new file is written whole and brought to the disk before it gets its name; then its folder is.
- It lies in the folder it is for, and has no name until then where the system can do that. A name that a
  killed process left behind is taken away by the next change in that folder.
- Mode, owner, group and attributes stay, as far as the system permits; set-user-ID and the like do not.
- What is there is replaced only if it is still what was read; what is not there is never written over.
- After it, the file is read again: what is said to be written is there.
"""

import contextlib
import errno
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from operator import attrgetter

from toolwire.codetools.files import STALE, OpenFile, read_all
from toolwire.codetools.locks import identity
from toolwire.codetools.paths import READ, FileSpot, PathRefused, translate_errors

_TEMPORARY = re.compile(r"\.toolwire-([0-9]+)-[0-9a-f]{16}\.tmp")
_OLD = 3600.0
_NO_UNNAMED = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.ENOSYS})
_NO_LINKS = frozenset({errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOENT, errno.EXDEV})
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FROM_CONTENT = ("security.capability", "security.ima", "security.evm")
_ACCESS_LIST = "system.posix_acl_access"
_UNCONFIRMED = "it is written, but the disk did not confirm it: read it again"
_OVERTAKEN = "something else changed it at once: read it again"
_MAX_SWEPT = 10_000
_swept: set[tuple[int, int]] = set()
_as_it_was = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_mode", "st_uid", "st_gid")
_can = {"unnamed": hasattr(os, "O_TMPFILE")}


class _NoName(Exception):
    """A file without a name cannot be given one here."""


def replace(spot: FileSpot, data: bytes, old: OpenFile | None) -> int:
    """Put a file with this content at a spot; gives it, open to read."""
    with translate_errors(spot.requested):
        try:
            _put(spot, data, old)
        except _NoName:
            _can["unnamed"] = False
            _put(spot, data, old)
    confirm(spot)
    return reread(spot, data)


def _put(spot: FileSpot, data: bytes, old: OpenFile | None) -> None:
    folder, name = spot.folder, spot.name
    fd, temporary = _begin(folder, 0o644 if old is None else 0o600)
    try:
        fill(fd, data, old)
        check_still(spot, old)
        if temporary is None:
            temporary = _named(fd, folder, name if old is None else _temporary_name())
        if temporary != name:
            _move(folder, temporary, name, old)
        temporary = None
    finally:
        os.close(fd)
        if temporary is not None:
            remove(folder, temporary)


def confirm(spot: FileSpot) -> None:
    """Bring a folder, and so the names in it, to the disk."""
    try:
        sync(spot.folder)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.EBADF):
            raise PathRefused("io_error", spot.requested, _UNCONFIRMED) from None


def reread(spot: FileSpot, data: bytes) -> int:
    """Read what was put there, and give it, open."""
    fd = -1
    try:
        fd = os.open(spot.name, READ | os.O_NOFOLLOW, dir_fd=spot.folder)
        same = read_all(fd, len(data) + 1) == data
    except OSError as problem:
        if fd >= 0:
            os.close(fd)
        if problem.errno in (errno.ENOENT, errno.ELOOP):
            raise PathRefused("stale", spot.requested, _OVERTAKEN) from None
        raise PathRefused("io_error", spot.requested, _UNCONFIRMED) from None
    if not same:
        os.close(fd)
        raise PathRefused("stale", spot.requested, _OVERTAKEN)
    return fd


def _begin(folder: int, mode: int) -> tuple[int, str | None]:
    """Open a new file: without a name where the system can do that."""
    if _can["unnamed"]:
        try:
            return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode, dir_fd=folder), None
        except OSError as problem:
            if problem.errno not in _NO_UNNAMED:
                raise
    name = _temporary_name()
    return create(folder, name, mode), name


def _temporary_name() -> str:
    return f".toolwire-{os.getpid()}-{os.urandom(8).hex()}.tmp"


def create(folder: int, name: str, mode: int) -> int:
    """Open a new file by a name that nobody has."""
    return os.open(name, _NEW, mode, dir_fd=folder)


def fill(fd: int, data: bytes, old: OpenFile | None) -> None:
    """Write a new file, give it what belongs to the old one, and bring it to the disk.

    Its time is set to the nanosecond; who writes to it later leaves one of the coarse ticks of the system.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    if old is not None:
        _dress(fd, old)
    now = time.time_ns()
    os.utime(fd, ns=(now, now))
    sync(fd)


def _named(fd: int, folder: int, name: str) -> str:
    """Give a file without a name one that nobody has."""
    try:
        os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder)
    except OSError as problem:
        if problem.errno in _NO_LINKS:
            raise _NoName from None
        raise
    return name


def _move(folder: int, temporary: str, name: str, old: OpenFile | None) -> None:
    """Give a file its name; one that is not there is never written over, where there are links."""
    if old is None:
        try:
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except OSError as problem:
            if problem.errno not in _NO_LINKS:
                raise
        else:
            remove(folder, temporary)
            return
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def check_still(spot: FileSpot, old: OpenFile | None) -> None:
    """Refuse if what is at a name is no longer what was read."""
    try:
        now = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    except FileNotFoundError:
        if old is None:
            return
    else:
        if old is not None and _as_it_was(old.status) == _as_it_was(now):
            return
    raise PathRefused("stale", spot.requested, STALE)


def _dress(fd: int, old: OpenFile) -> None:
    """Give a file the mode, owner, group and attributes of another."""
    status, own = old.status, os.fstat(fd)
    mode = stat.S_IMODE(status.st_mode) & 0o777
    kept = True
    if (status.st_uid, status.st_gid) != (own.st_uid, own.st_gid):
        kept = _chown(fd, status)
    os.fchmod(fd, mode if kept else _for_another_group(mode))
    if sys.platform == "linux" and not _copy_attributes(fd, old.fd):
        os.fchmod(fd, _for_another_group(mode))


def _chown(fd: int, status: os.stat_result) -> bool:
    """Give a file its owner and group, or its group; False if its group cannot be kept."""
    for owner in (status.st_uid, -1):
        with contextlib.suppress(OSError):
            os.fchown(fd, owner, status.st_gid)
            return True
    return False


def _for_another_group(mode: int) -> int:
    """Let the group do what all others may do, where it is not the group that the mode was for."""
    return mode & 0o707 | (mode & 0o007) << 3


def _copy_attributes(fd: int, old: int) -> bool:
    """Copy attributes; False if a list of who may do what was lost."""
    try:
        wanted, own = os.listxattr(old), os.listxattr(fd)
    except OSError:
        return True
    kept = True
    for name in wanted:
        if name not in _FROM_CONTENT:
            try:
                os.setxattr(fd, name, os.getxattr(old, name))
            except OSError:
                kept = kept and name != _ACCESS_LIST
    if _ACCESS_LIST in own and _ACCESS_LIST not in wanted:
        with contextlib.suppress(OSError):
            os.removexattr(fd, _ACCESS_LIST)
    return kept


def sync(fd: int) -> None:
    """Bring a file or folder to the disk."""
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415 - only there does fsync stop at the cache of the disk

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def remove(folder: int, name: str) -> None:
    """Take a name away; where that cannot be, it stays until the folder is swept."""
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)


def sweep(folder: int, *, alone: bool) -> None:
    """Take away what killed processes left in a folder that is locked; once for each folder and process.

    `alone` says that no other process is writing there; else what is old, and of nobody alive, is left over.
    """
    key = identity(folder)
    if key in _swept:
        return
    if len(_swept) >= _MAX_SWEPT:
        _swept.clear()
    _swept.add(key)
    for name in _left(folder, alone=alone):
        remove(folder, name)


def _left(folder: int, *, alone: bool) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _TEMPORARY.fullmatch(entry.name)
            if found and (alone or _is_left_over(int(found[1]), entry.name, folder)):
                yield entry.name


def _is_left_over(process: int, name: str, folder: int) -> bool:
    with contextlib.suppress(OSError):
        if time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < _OLD:
            return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False
