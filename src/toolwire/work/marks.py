"""Marks by which what a command or a server began is known again, when whoever led it is gone.

Rules of this file:
- A mark stands in the environment of what a program began: which program that was, and which of its children it is.
- What bears the mark of a program that has ended is killed before the next command begins. It is looked for
  once in each program: as long as one lives, it ends what it began itself.
- A program is its number, when it began, and the namespace in which that number counts.
- A process that is only just being executed shows no environment yet: it is looked at again.
"""

import contextlib
import functools
import os
import re
import secrets
import signal
import time
from collections.abc import Callable, Iterator

MARK = "TOOLWIRE_COMMAND"
SERVER = "TOOLWIRE_SERVER"
_ROUNDS = 100
# PF_KTHREAD in the flags of /proc/PID/stat (proc_pid_stat(5), and include/linux/sched.h of Linux 6.1).
_OF_THE_KERNEL = 0x00200000
_FORM = re.compile(MARK.encode() + rb"=(\d+)\.(\d+)\.(\d+)\.[0-9a-f]+\0")


def new_mark() -> str:
    """Make the mark of a command."""
    return f"{_namespace()}.{os.getpid()}.{_begun(os.getpid())}.{secrets.token_hex(8)}"


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _stat_of(pid: int) -> list[bytes] | None:
    """Read what `stat` says of a process after its state; None if it is not there, or has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, *fields = file.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError, ValueError):
        return None
    return None if state in b"ZX" else fields


def _begun(pid: int) -> int:
    """Say when a process began; 0 if it is not there."""
    stat = _stat_of(pid)
    return 0 if stat is None else int(stat[18])


def sweep(mark: str, name: str = MARK) -> bool:
    """Kill what bears a mark under a name; whether none is left."""
    wanted = f"{name}={mark}\0".encode()
    return _kill(lambda variables: wanted in variables)


@functools.cache
def sweep_orphans(program: int) -> bool:
    """Kill what programs that have ended left behind, once in each program; whether none is left."""
    del program
    return _kill(_is_orphaned)


def _is_orphaned(variables: bytes) -> bool:
    found = _FORM.search(variables)
    if found is None:
        return False
    namespace, pid, begun = map(int, found.groups())
    return namespace == _namespace() and _begun(pid) != begun


def _kill(is_meant: Callable[[bytes], bool]) -> bool:
    meant: list[int] = []
    for _ in range(_ROUNDS):
        environments = dict(_environments())
        meant = [pid for pid, variables in environments.items() if is_meant(variables)]
        silent = [pid for pid, variables in environments.items() if not variables]
        if not meant and not any(map(_is_beginning, silent)):
            return True
        for pid in meant:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return not meant


def _environments() -> Iterator[tuple[int, bytes]]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            yield int(name), file.read()


def _is_beginning(pid: int) -> bool:
    """Say whether a process that showed no variables was in the middle of its `exec`, and has to be looked at again."""
    if _read(pid, "cmdline"):
        return bool(_read(pid, "environ"))
    stat = _stat_of(pid)
    return stat is not None and not int(stat[5]) & _OF_THE_KERNEL


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(1)
    except OSError:
        return b""
