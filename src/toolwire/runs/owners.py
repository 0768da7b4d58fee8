"""Who owns a run: a process of a machine, and whether it is dead.

Rules of this file:
- Only who shares the machine since its start, and the processes that can be seen, can say that a process is dead.
  Of any other, its lease says it.
- A process is told by its number and by when it began: numbers are used again.
"""

import os
import socket
import uuid
from pathlib import Path

_PROC = Path("/proc")


def _machine() -> str:
    """Name this machine since its start, and the space of its process numbers."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _begun(pid: int) -> str | None:
    """Say when a process began; nothing if it is not there, or has ended and waits for its parent."""
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
    """Name this process as an owner."""
    pid = os.getpid()
    return f"{_machine()}|{pid}|{_begun(pid) or ''}|{uuid.uuid4().hex[:12]}"


def is_dead(owner: str) -> bool:
    """Whether an owner is surely dead; False where nobody here can know."""
    machine, _, rest = owner.partition("|")
    pid, _, rest = rest.partition("|")
    begun = rest.partition("|")[0]
    return machine == _machine() and pid.isdigit() and _begun(int(pid)) != begun
