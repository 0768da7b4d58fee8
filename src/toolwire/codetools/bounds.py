"""What bounds a command and all that it begins: limits of the system, and a look at it now and then.

Rules of this file:
- The system bounds one process: its memory, the size of a file; in a sandbox the number of tasks too, but not
  for root. All of them together are bounded by looking: too many, or too much memory, ends the command.
- The disk as a whole, the number of files and the use of the processor are bounded by the timeout only.
"""

import contextlib
import itertools
import os
import resource
from collections.abc import Iterator

MOST_PROCESSES = 500
MOST_TASKS = 2000
FILE_SIZE = 4 * 1024**3
PAGE = os.sysconf("SC_PAGE_SIZE")
MEMORY = os.sysconf("SC_PHYS_PAGES") * PAGE // 2
SOONEST_KILLED = "800"
LIMITS = {resource.RLIMIT_CORE: 0, resource.RLIMIT_DATA: MEMORY, resource.RLIMIT_FSIZE: FILE_SIZE}


def bound(leader: int, *, alone: bool) -> None:
    """Set the limits of a process that leads a command; one that is alone in its namespace gets one more."""
    limits = LIMITS | ({resource.RLIMIT_NPROC: MOST_TASKS} if alone else {})
    for name, most in limits.items():
        hard = resource.prlimit(leader, name)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(leader, name, (value, value))
    with contextlib.suppress(OSError), open(f"/proc/{leader}/oom_score_adj", "w", encoding="ascii") as file:
        file.write(SOONEST_KILLED)


def children_of(pid: int) -> list[int]:
    """List the processes that one began and that are there."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file,
            ):
                found += map(int, file.read().split())
    return found


def below(top: int) -> Iterator[int]:
    """Find every process that one began, and that those began."""
    todo = [top]
    while todo:
        found = children_of(todo.pop())
        yield from found
        todo += found


def crowd() -> int:
    """Count the processes of the whole machine, roughly and at no cost."""
    return os.stat("/proc").st_nlink


def too_much(leader: int) -> str:
    """Say what a command has too much of."""
    found = list(itertools.islice(below(leader), MOST_PROCESSES + 1))
    if len(found) > MOST_PROCESSES:
        return "processes"
    return "memory" if sum(map(_memory_of, found)) > MEMORY else ""


def _memory_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            _, resident, shared, *_ = file.read().split()
    except (OSError, ValueError):
        return 0
    return max(0, int(resident) - int(shared)) * PAGE
