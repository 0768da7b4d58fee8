"""Marks that identify the processes of commands and servers, also after the program that started them has died.

Rules of this file:
- A mark is an environment variable of each started process. It names the program that started the process.
- Before a program runs its first command, it kills all processes whose mark names a program that has ended. It does
  this once: while the program lives, it stops its own processes itself.
- A mark identifies a program by its process id, its start time and its PID namespace.
- A process in the middle of `exec` has an empty environment. It is looked at again.
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
_KERNEL_THREAD = 0x00200000
_MARK_PATTERN = re.compile(MARK.encode() + rb"=(\d+)\.(\d+)\.(\d+)\.[0-9a-f]+\0")


def new_mark() -> str:
    """Return a new mark for a command of this program."""
    return f"{_namespace()}.{os.getpid()}.{_start_time(os.getpid())}.{secrets.token_hex(8)}"


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _stat_fields(pid: int) -> list[bytes] | None:
    """Return the fields of `/proc/PID/stat` after the state, or None if the process does not exist or has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, *fields = file.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError, ValueError):
        return None
    return None if state in b"ZX" else fields


def _start_time(pid: int) -> int:
    """Return the start time of a process, or 0 if it does not exist."""
    stat = _stat_fields(pid)
    return 0 if stat is None else int(stat[18])


def sweep(mark: str, name: str = MARK) -> bool:
    """Kill all processes whose environment variable `name` is `mark`. Return True if none is left."""
    wanted = f"{name}={mark}\0".encode()
    return _kill(lambda variables: wanted in variables)


@functools.cache
def sweep_orphans(program: int) -> bool:
    """Kill all processes that programs left behind when they ended. Return True if none is left.

    The cache on `program`, the id of this process, makes this happen once in each program, also after a fork.
    """
    del program
    return _kill(_is_orphaned)


def _is_orphaned(variables: bytes) -> bool:
    match = _MARK_PATTERN.search(variables)
    if match is None:
        return False
    namespace, pid, started = map(int, match.groups())
    return namespace == _namespace() and _start_time(pid) != started


def _kill(is_target: Callable[[bytes], bool]) -> bool:
    targets: list[int] = []
    for _ in range(_ROUNDS):
        environments = dict(_environments())
        targets = [pid for pid, variables in environments.items() if is_target(variables)]
        unreadable = [pid for pid, variables in environments.items() if not variables]
        if not targets and not any(map(_is_in_exec, unreadable)):
            return True
        for pid in targets:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return not targets


def _environments() -> Iterator[tuple[int, bytes]]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            yield int(name), file.read()


def _is_in_exec(pid: int) -> bool:
    """Return True if a process without variables may be in the middle of `exec`, so that it must be looked at again."""
    if _read(pid, "cmdline"):
        return bool(_read(pid, "environ"))
    stat = _stat_fields(pid)
    return stat is not None and not int(stat[5]) & _KERNEL_THREAD


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(1)
    except OSError:
        return b""
