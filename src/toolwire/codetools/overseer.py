r"""Runs one command without a sandbox, and ends with all that it began; a program of its own.

Rules of this file:
- It needs nothing but the standard library, and little of that: it starts with each command.
- What a command begins stays below this process, wherever it tries to go: orphans come to it, not to init.
- When the command ends, or whoever started this ends or closes the line, the rest is killed and reaped.
- It says `\n` on stdout when it is ready, and begins when it is told `go`. It ends as the command ended.
"""

import ctypes
import os
import select
import sys
import time
from collections.abc import Iterator

_SUBREAPER = 36
_KILL = 9
_RESTORED = (13, 25)
PATIENCE = 4.0


def main(argv: list[str]) -> int:
    """Run a command, and give how it ended: its exit code, or 128 and the number of the signal."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        return 125
    os.write(1, b"\n")
    if os.read(0, 3) != b"go\n":
        return 125
    silence = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    command = os.posix_spawn(argv[0], argv, os.environ, file_actions=[silence], setsid=True, setsigdef=_RESTORED)
    status = wait_for(command)
    _end_all(time.monotonic() + PATIENCE)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def wait_for(command: int) -> int:
    """Wait until the command ends, or the line is closed; reap what else ends meanwhile."""
    ended = os.pidfd_open(command)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(0, select.POLLIN | select.POLLHUP)
    while True:
        closed = 0 in dict(poll.poll(1000))
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == command:
                return status
            if pid == 0:
                break
        if closed:
            os.kill(command, _KILL)
            return _KILL


def _end_all(deadline: float) -> None:
    """Kill and reap until nothing is left: what was below a killed process is then below this one."""
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in below(os.getpid()):
            try:
                os.kill(pid, _KILL)
            except OSError:
                continue
        time.sleep(0.001)


def below(top: int) -> Iterator[int]:
    """Find every process that one began, and that those began."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rsplit(b")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    todo = [top]
    while todo:
        found = children.get(todo.pop(), [])
        yield from found
        todo += found


if __name__ == "__main__":
    sys.stdout = None  # the line out is the command's
    sys.exit(main(sys.argv[1:]))
