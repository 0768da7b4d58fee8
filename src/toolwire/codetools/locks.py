"""One change at a time of the files of a folder: in this process, and between processes where the system can.

Rules of this file:
- What is locked is the open folder, by its device and inode, so that no spelling of a path gets around it.
- Several folders are locked in one order; nobody waits for ever.
- A lock of the system says more: nobody alive is writing there, so what lies around is left over.
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
_locks: WeakValueDictionary[tuple[int, int], threading.Lock] = WeakValueDictionary()  # those that somebody waits for


@contextlib.contextmanager
def locked(folders: Iterable[int], requested: str, wait: float = WAIT) -> Iterator[bool]:
    """Lock open folders; gives whether other processes are locked out as well."""
    named = {identity(folder): folder for folder in folders}
    until = time.monotonic() + wait
    with contextlib.ExitStack() as held:
        among_all = [held.enter_context(_one(key, named[key], requested, until)) for key in sorted(named)]
        yield all(among_all)


def identity(fd: int) -> tuple[int, int]:
    """Say which file or folder is open."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def _one(key: tuple[int, int], folder: int, requested: str, until: float) -> Iterator[bool]:
    with _within_process(key, requested, until):
        shared = _lock_out(folder, requested, until)
        try:
            yield shared
        finally:
            if shared:
                fcntl.flock(folder, fcntl.LOCK_UN)


@contextlib.contextmanager
def _within_process(key: tuple[int, int], requested: str, until: float) -> Iterator[None]:
    with _guard:
        lock = _locks.setdefault(key, threading.Lock())
    if not lock.acquire(timeout=max(0.0, until - time.monotonic())):
        raise _busy(requested)
    try:
        yield
    finally:
        lock.release()


def _lock_out(folder: int, requested: str, until: float) -> bool:
    """Lock other processes out; False where the file system has no locks."""
    pause = 0.001
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise _busy(requested) from None
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        except OSError as problem:
            if problem.errno in UNLOCKABLE:
                return False
            raise
        else:
            return True


def _busy(requested: str) -> PathRefused:
    return PathRefused("busy", requested, "another change of files in its folder does not end; try again later")
