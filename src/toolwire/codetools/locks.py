"""One change of a folder's files at a time: within this process, and between processes where the file system can.

Rules of this file:
- The open folder is locked, by its device and inode, so that no spelling of a path circumvents the lock.
- Several folders are locked in one order, so that no two changes wait for each other. Every wait has a timeout.
- Only a lock of the file system excludes other processes. Then no process is writing in the folder, so temporary
  files in it are leftovers.
"""

import contextlib
import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterable, Iterator
from weakref import WeakValueDictionary

from toolwire.codetools.paths import PathRefused

WAIT = 30.0
UNLOCKABLE = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL, errno.ENOSYS})
_guard = threading.Lock()
_locks: WeakValueDictionary[tuple[int, int], threading.Lock] = WeakValueDictionary()  # the locks in use


@contextlib.contextmanager
def locked(folders: Iterable[int], requested: str, wait: float = WAIT) -> Iterator[bool]:
    """Lock open folders; yield True if other processes are locked out too.

    Raise `PathRefused` if another change does not end within `wait` seconds.
    """
    by_identity = {identity(folder): folder for folder in folders}
    deadline = time.monotonic() + wait
    with contextlib.ExitStack() as resources:
        are_exclusive = [
            resources.enter_context(_lock_folder(key, by_identity[key], requested, deadline))
            for key in sorted(by_identity)
        ]
        yield all(are_exclusive)


def identity(fd: int) -> tuple[int, int]:
    """Return the device and the inode of an open file or folder."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def _lock_folder(key: tuple[int, int], folder: int, requested: str, deadline: float) -> Iterator[bool]:
    with _within_process(key, requested, deadline):
        is_exclusive = _lock_file_system(folder, requested, deadline)
        try:
            yield is_exclusive
        finally:
            if is_exclusive:
                fcntl.flock(folder, fcntl.LOCK_UN)


@contextlib.contextmanager
def _within_process(key: tuple[int, int], requested: str, deadline: float) -> Iterator[None]:
    """Hold the lock of the folder `key` against other threads of this process.

    Raise an error that names `requested`, the path in the call, if the lock is not free before the `deadline`.
    """
    with _guard:
        lock = _locks.setdefault(key, threading.Lock())
    if not lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise _busy_error(requested)
    try:
        yield
    finally:
        lock.release()


def _lock_file_system(folder: int, requested: str, deadline: float) -> bool:
    """Lock other processes out; return False if the file system has no locks."""
    pause = 0.001
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise _busy_error(requested) from None
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        except OSError as problem:
            if problem.errno in UNLOCKABLE:
                return False
            raise
        else:
            return True


def _busy_error(requested: str) -> PathRefused:
    return PathRefused("busy", requested, "another change in its folder is still running: try again later")
