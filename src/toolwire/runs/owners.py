"""The owner of a run: a process on a machine, and whether it is dead.

Rules of this file:
- Only a process on the same boot of the same machine, in the same PID namespace, can tell that an owner is dead. For
  any other owner, its lease decides.
- An owner is identified by its process id and its start time, because process ids are reused.
"""

import os
import socket
import uuid
from pathlib import Path

_PROC = Path("/proc")


def _machine() -> str:
    """Return an id of this machine's current boot and of its PID namespace."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _start_time(pid: int) -> str | None:
    """Return the start time of a process.

    It is None if the process does not exist or is a zombie, and empty if the system does not tell it.
    """
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except OSError:
        if _PROC.joinpath("self").exists():
            return None
    try:
        os.kill(pid, 0)
    except OSError:
        return None
    return ""


def new_owner() -> str:
    """Return a new owner id for this process."""
    pid = os.getpid()
    return f"{_machine()}|{pid}|{_start_time(pid) or ''}|{uuid.uuid4().hex[:12]}"


def is_dead(owner: str) -> bool:
    """Return True if `owner` is certainly dead, False if it is alive or this process cannot know."""
    machine, _, fields = owner.partition("|")
    pid, _, fields = fields.partition("|")
    started = fields.partition("|")[0]
    return machine == _machine() and pid.isdigit() and _start_time(int(pid)) != started
