"""Replace a file in one step: a reader sees either the old or the new content, even after a crash.

Rules of this file:
- The new file is written completely and synced before it gets its name. Then its folder is synced.
- It is created in the folder of the old file. If the system can do that, it has no name until it is complete. The
  next change in the folder removes temporary files that a killed process left.
- Mode, owner, group and attributes are preserved, as far as the system permits; set-user-ID and the like are not.
- A file is replaced only if it is still the one that was read. A new file never overwrites an existing one.
- After that the file is read again, so that a reported write is on the disk.
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
_OLD_SECONDS = 3600.0
_NO_UNNAMED = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.ENOSYS})
_NO_LINKS = frozenset({errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOENT, errno.EXDEV})
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FROM_CONTENT = ("security.capability", "security.ima", "security.evm")
_ACCESS_LIST = "system.posix_acl_access"
_UNCONFIRMED = "it was written, but the disk did not confirm it: read it again"
_CHANGED_MEANWHILE = "another program changed it immediately: read it again"
_MAX_SWEPT = 10_000
_swept: set[tuple[int, int]] = set()
_file_state = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_mode", "st_uid", "st_gid")
_capabilities = {"unnamed": hasattr(os, "O_TMPFILE")}


class _NoName(Exception):
    """An unnamed file cannot be given a name on this system."""


def replace(spot: FileSpot, data: bytes, old: OpenFile | None) -> int:
    """Replace the file at `spot`, or create it; return the new file, open for reading."""
    with translate_errors(spot.requested):
        try:
            _write_new(spot, data, old)
        except _NoName:
            _capabilities["unnamed"] = False
            _write_new(spot, data, old)
    confirm(spot)
    return reread(spot, data)


def _write_new(spot: FileSpot, data: bytes, old: OpenFile | None) -> None:
    folder, name = spot.folder, spot.name
    fd, temporary = _create_temporary(folder, 0o644 if old is None else 0o600)
    try:
        fill(fd, data, old)
        check_not_replaced(spot, old)
        if temporary is None:
            temporary = _link_name(fd, folder, name if old is None else _temporary_name())
        if temporary != name:
            _move(folder, temporary, name, old)
        temporary = None
    finally:
        os.close(fd)
        if temporary is not None:
            remove(folder, temporary)


def confirm(spot: FileSpot) -> None:
    """Sync a folder, and so the names in it."""
    try:
        sync(spot.folder)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.EBADF):
            raise PathRefused("io_error", spot.requested, _UNCONFIRMED) from None


def reread(spot: FileSpot, data: bytes) -> int:
    """Return the file at `spot`, open for reading; raise `PathRefused` if its content is not `data`."""
    fd = -1
    try:
        fd = os.open(spot.name, READ | os.O_NOFOLLOW, dir_fd=spot.folder)
        is_unchanged = read_all(fd, len(data) + 1) == data
    except OSError as problem:
        if fd >= 0:
            os.close(fd)
        if problem.errno in (errno.ENOENT, errno.ELOOP):
            raise PathRefused("stale", spot.requested, _CHANGED_MEANWHILE) from None
        raise PathRefused("io_error", spot.requested, _UNCONFIRMED) from None
    if not is_unchanged:
        os.close(fd)
        raise PathRefused("stale", spot.requested, _CHANGED_MEANWHILE)
    return fd


def _create_temporary(folder: int, mode: int) -> tuple[int, str | None]:
    """Create a new file, without a name if the system can do that."""
    if _capabilities["unnamed"]:
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
    """Create a new file under an unused name."""
    return os.open(name, _NEW, mode, dir_fd=folder)


def fill(fd: int, data: bytes, old: OpenFile | None) -> None:
    """Write and sync a new file, with the mode, owner and attributes of the old one.

    Its time is set with nanoseconds. A later writer leaves a time of the system's coarse clock, so the two differ.
    """
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[os.write(fd, unwritten) :]
    if old is not None:
        _copy_metadata(fd, old)
    now = time.time_ns()
    os.utime(fd, ns=(now, now))
    sync(fd)


def _link_name(fd: int, folder: int, name: str) -> str:
    """Link an unnamed file under a name that is not in use."""
    try:
        os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder)
    except OSError as problem:
        if problem.errno in _NO_LINKS:
            raise _NoName from None
        raise
    return name


def _move(folder: int, temporary: str, name: str, old: OpenFile | None) -> None:
    """Rename a temporary file to its final name.

    If there was no old file, do not overwrite an existing one; this needs a file system with links.
    """
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


def check_not_replaced(spot: FileSpot, old: OpenFile | None) -> None:
    """Raise `PathRefused` if the file at `spot` is no longer the one that was read."""
    try:
        current = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    except FileNotFoundError:
        if old is None:
            return
    else:
        if old is not None and _file_state(old.status) == _file_state(current):
            return
    raise PathRefused("stale", spot.requested, STALE)


def _copy_metadata(fd: int, old: OpenFile) -> None:
    """Copy the mode, owner, group and attributes of another file."""
    status, present = old.status, os.fstat(fd)
    mode = stat.S_IMODE(status.st_mode) & 0o777
    kept_group = True
    if (status.st_uid, status.st_gid) != (present.st_uid, present.st_gid):
        kept_group = _chown(fd, status)
    os.fchmod(fd, mode if kept_group else _mode_for_another_group(mode))
    if sys.platform == "linux" and not _copy_attributes(fd, old.fd):
        os.fchmod(fd, _mode_for_another_group(mode))


def _chown(fd: int, status: os.stat_result) -> bool:
    """Set a file's owner and group, or only its group; return False if the group cannot be set."""
    for owner in (status.st_uid, -1):
        with contextlib.suppress(OSError):
            os.fchown(fd, owner, status.st_gid)
            return True
    return False


def _mode_for_another_group(mode: int) -> int:
    """Return `mode` with the rights of others for the group, because it was set for another group."""
    return mode & 0o707 | (mode & 0o007) << 3


def _copy_attributes(fd: int, old: int) -> bool:
    """Copy the extended attributes; return False if an access control list was lost."""
    try:
        old_names, new_names = os.listxattr(old), os.listxattr(fd)
    except OSError:
        return True
    is_complete = True
    for name in old_names:
        if name not in _FROM_CONTENT:
            try:
                os.setxattr(fd, name, os.getxattr(old, name))
            except OSError:
                is_complete = is_complete and name != _ACCESS_LIST
    if _ACCESS_LIST in new_names and _ACCESS_LIST not in old_names:
        with contextlib.suppress(OSError):
            os.removexattr(fd, _ACCESS_LIST)
    return is_complete


def sync(fd: int) -> None:
    """Sync a file or folder to the disk."""
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415 - on macOS fsync stops at the disk's cache

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def remove(folder: int, name: str) -> None:
    """Remove a name; if that fails, it stays until the folder is swept."""
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)


def sweep(folder: int, *, is_alone: bool) -> None:
    """Remove temporary files that killed processes left in a locked folder, once per folder and process.

    If `is_alone`, no other process is writing there. Otherwise only old files of processes that are gone are removed.
    """
    key = identity(folder)
    if key in _swept:
        return
    if len(_swept) >= _MAX_SWEPT:
        _swept.clear()
    _swept.add(key)
    for name in _find_leftovers(folder, is_alone=is_alone):
        remove(folder, name)


def _find_leftovers(folder: int, *, is_alone: bool) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _TEMPORARY.fullmatch(entry.name)
            if match and (is_alone or _is_leftover(int(match[1]), entry.name, folder)):
                yield entry.name


def _is_leftover(process_id: int, name: str, folder: int) -> bool:
    with contextlib.suppress(OSError):
        if time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < _OLD_SECONDS:
            return False
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False
