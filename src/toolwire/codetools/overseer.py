r"""Runs one command without a sandbox, and ends it together with every process it started; a program of its own.

Rules of this file:
- It needs only the standard library, and little of that, because it starts with each command.
- Every process that a command starts stays below this process: orphans become children of this process, not of init.
- When the command ends, or when the parent process ends or closes stdin, all remaining processes are killed and
  reaped.
- It writes `\n` to stdout when it is ready, and starts the command when it reads `go`. It exits with the command's
  exit code.
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
    """Run a command; return its exit code, or 128 plus the number of the signal that ended it."""
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
    """Wait until the command ends or stdin is closed, and reap other children meanwhile."""
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
    """Kill and reap until no process is left: the children of a killed process become children of this one."""
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
    """Yield the pid of every process below `top`."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rsplit(b")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    pending = [top]
    while pending:
        started = children.get(pending.pop(), [])
        yield from started
        pending += started


if __name__ == "__main__":
    sys.stdout = None  # stdout belongs to the command
    sys.exit(main(sys.argv[1:]))
