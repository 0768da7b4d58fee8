r"""One command as a process: started, watched, and ended with all that it began.

Rules of this file:
- A leader stands between this process and the command: the first process of a sandbox, or the overseer. When
  the leader has ended, nothing of the command is left; so the leader is waited for, and not a pipe.
- The leader says `\n` when it is ready, and waits for `go`; in between its limits and its view are seen to.
- To stop: SIGTERM to all below the leader, a moment of grace, then the leader of a sandbox is killed. What is below
  an overseer is killed from here, since a command without a sandbox can stop its overseer.
- The system bounds one process: its memory, the size of a file; in a sandbox the number of tasks too, but not
  for root. All of them together are bounded by looking: too many, or too much memory, ends the command. The disk
  as a whole, the number of files and the use of the processor are bounded by the timeout only.
- Output is read as it comes, and bounded; every descriptor and process is gone when `run` comes back.
"""

import contextlib
import itertools
import os
import re
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import IO

from msgspec import Struct

from toolwire.codetools.output import CHUNK, Captured
from toolwire.waiting.process_marks import MARK, sweep, sweep_orphans

START = 15.0
GRACE = 0.5
_LAST = 15.0
_SOONEST, _TICK, _LATEST = 0.02, 0.05, 0.2
_READS = 64
CANCELLED, TIMEOUT = "cancelled", "timeout"
MOST_PROCESSES = 500
MOST_TASKS = 2000
FILE_SIZE = 4 * 1024**3
_PAGE = os.sysconf("SC_PAGE_SIZE")
MEMORY = os.sysconf("SC_PHYS_PAGES") * _PAGE // 2
_SOONEST_KILLED = "800"
LIMITS = {resource.RLIMIT_CORE: 0, resource.RLIMIT_DATA: MEMORY, resource.RLIMIT_FSIZE: FILE_SIZE}
_Hear = Callable[[bytes], object]
_CHILD = re.compile(rb'"child-pid": *(\d+)')


class NotStarted(Exception):
    """A command was not begun; the text says what the system, or the sandbox, said."""


class Launch(Struct, frozen=True):
    """How a command is started.

    `lent` are descriptors that it gets. In a sandbox `info` is a pipe on which it says which process leads,
    and `verify` says whether that one has before it what it should.
    """

    argv: list[str]
    environment: dict[str, str]
    cwd: str = "/"
    lent: tuple[int, ...] = ()
    info: tuple[int, int] | None = None
    verify: Callable[[int], bool] = lambda _leader: True


class Ended(Struct, frozen=True):
    """How a command ended: its exit code, why it was stopped if it was, and whether all of it is gone."""

    code: int
    stdout: Captured
    stderr: Captured
    stopped: str = ""
    gone: bool = True


class CommandStop:
    """Stops a command from another thread."""

    def __init__(self) -> None:
        self.fd: int = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def set(self) -> None:
        """Stop it."""
        os.eventfd_write(self.fd, 1)

    def close(self) -> None:
        """Close it, when nothing runs any more; nothing happens if it is closed."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def run(launch: Launch, timeout: float, stop: CommandStop | None = None, hear: _Hear | None = None) -> Ended:
    """Run a command to its end, or for so many seconds; `hear` is given what it writes, as it comes."""
    sweep_orphans(os.getpid())
    with contextlib.ExitStack() as opened:
        try:
            command = _Command(launch, stop, opened)
            stopped = command.begin()
            if not stopped:
                command.hear = hear
                stopped = command.watch(timeout)
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            raise NotStarted(getattr(problem, "strerror", None) or str(problem)) from None
        return command.last_words(stopped)


class _Command:
    """A command that runs. It is waited for in one thread, which started it: it dies with that thread."""

    def __init__(self, launch: Launch, stop: CommandStop | None, opened: contextlib.ExitStack) -> None:
        self.launch = launch
        self.stdout, self.stderr = Captured(), Captured()
        self.told = False
        self.hear: _Hear | None = None
        self.poll = select.poll()
        self.process, self.held = _start(launch), set[int]()
        opened.callback(self._leave_nothing)
        self.ended = self._hold(os.pidfd_open(self.process.pid))
        self.leader, self.leader_fd = self.process.pid, self.ended
        self.stop_fd = -1 if stop is None else stop.fd
        self.streams = {
            pipe_of(self.process.stdout).fileno(): self.stdout,
            pipe_of(self.process.stderr).fileno(): self.stderr,
        }
        for fd in self.streams:
            os.set_blocking(fd, False)
        for fd in (*self.streams, self.ended, *([self.stop_fd] if stop is not None else [])):
            self.poll.register(fd, select.POLLIN)

    def begin(self) -> str:
        """Wait until the leader is ready, and tell it to go."""
        deadline = time.monotonic() + START
        while self.stdout.total == 0:
            if self._turn(deadline):
                said = bytes(self.stderr.head).decode("utf-8", "replace").strip()
                raise NotStarted(said or "it ended at once")
            if self.told:
                return self._call_off()
            if time.monotonic() >= deadline:
                self._call_off()
                raise NotStarted(f"it was not ready after {START:g} s")
        self.stdout.forget()
        self._find_leader()
        _bound(self.leader, alone=self.launch.info is not None)
        if not self.launch.verify(self.leader):
            self._call_off()
            raise NotStarted("the project folder, or what is protected in it, was replaced just now")
        with contextlib.suppress(BrokenPipeError):
            os.write(pipe_of(self.process.stdin).fileno(), b"go\n")
        return ""

    def _call_off(self) -> str:
        """Let the leader end before it began anything."""
        self._hang_up()
        self._until(time.monotonic() + _LAST)
        return CANCELLED

    def _find_leader(self) -> None:
        if self.launch.info is None:
            return
        told = os.read(self.launch.info[0], 4096)
        found = _CHILD.search(told)
        if found is None:
            raise NotStarted("the sandbox did not say which process leads it")
        self.leader = int(found[1])
        self.leader_fd = self._hold(os.pidfd_open(self.leader))
        if self.leader not in _children_of(self.process.pid):
            raise NotStarted("the sandbox ended at once")

    def watch(self, timeout: float) -> str:
        """Wait until the command ends, or has to; say why it had to."""
        deadline = time.monotonic() + timeout
        pause, before = _SOONEST, _crowd()
        look = time.monotonic() + pause
        while not self._turn(min(deadline, look, time.monotonic() + _TICK)):
            stopped = ""
            if self.told:
                stopped = CANCELLED
            elif time.monotonic() >= deadline:
                stopped = TIMEOUT
            elif time.monotonic() >= look or _crowd() - before > MOST_PROCESSES // 2:
                stopped, pause = too_much(self.leader), min(_LATEST, 2 * pause)
                look = time.monotonic() + pause
            if stopped:
                self._end(gently=stopped in (CANCELLED, TIMEOUT))
                return stopped
        return ""

    def _end(self, *, gently: bool) -> None:
        """Ask all to end, then end them."""
        if gently:
            for pid in list(_below(self.leader)):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGTERM)
            if self._until(time.monotonic() + GRACE):
                return
        if self.launch.info is None:
            self._hang_up()
            self._kill_below(time.monotonic() + _LAST)
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.leader_fd, signal.SIGKILL)
        self._until(time.monotonic() + _LAST)

    def _kill_below(self, deadline: float) -> None:
        """Kill all below the overseer, and let it go on: a command can have stopped it."""
        while time.monotonic() < deadline:
            for pid in list(_below(self.leader)):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.leader_fd, signal.SIGCONT)
            if self._until(time.monotonic() + _SOONEST):
                return

    def last_words(self, stopped: str) -> Ended:
        """Read what is left in the pipes, and say how it ended."""
        for fd in list(self.streams):
            for _ in range(_READS):
                if not self._read(fd):
                    break
        code = self.process.poll()
        gone = code is not None
        if code is not None and code < 0:
            gone = sweep(self.launch.environment[MARK])
        return Ended(-1 if code is None else code, self.stdout, self.stderr, stopped, gone)

    def _turn(self, until: float) -> bool:
        """Read what comes until some time; whether the command has ended."""
        for fd, _ in self.poll.poll(max(0.0, until - time.monotonic()) * 1000 + 1):
            if fd == self.ended:
                self.process.wait()
                return True
            if fd == self.stop_fd:
                self.told = True
                self.poll.unregister(fd)
            else:
                self._read(fd)
        return False

    def _until(self, deadline: float) -> bool:
        while time.monotonic() < deadline:
            if self._turn(deadline):
                return True
        return False

    def _read(self, fd: int) -> bool:
        """Take what is in a pipe now; whether there was any."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        if data:
            self.streams[fd].add(data)
            if self.hear is not None:
                with contextlib.suppress(Exception):  # who listens does not stop a command
                    self.hear(data)
        else:
            del self.streams[fd]
            self.poll.unregister(fd)
        return bool(data)

    def _hang_up(self) -> None:
        pipe_of(self.process.stdin).close()

    def _hold(self, fd: int) -> int:
        self.held.add(fd)
        return fd

    def _leave_nothing(self) -> None:
        """End what runs, whatever happened, and close what is open."""
        if self.process.poll() is None:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                self._end(gently=False)
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe_of(stream).close()
        self.process.wait()
        for fd in self.held:
            os.close(fd)


def _start(launch: Launch) -> subprocess.Popen[bytes]:
    pipe, info = subprocess.PIPE, launch.info
    try:
        return subprocess.Popen(  # noqa: S603 - to run what is asked for is what it is for
            launch.argv,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
            cwd=launch.cwd,
            env=launch.environment,
            pass_fds=(*launch.lent, *(info[1:] if info else ())),
            start_new_session=True,
        )
    finally:
        if info:
            os.close(info[1])


def pipe_of(stream: IO[bytes] | None) -> IO[bytes]:
    """Give a pipe that was asked for, so it is there."""
    if stream is None:
        raise ValueError("it is no pipe")
    return stream


def _bound(leader: int, *, alone: bool) -> None:
    """Set the limits of a process that leads a command; one that is alone in its namespace gets one more."""
    limits = LIMITS | ({resource.RLIMIT_NPROC: MOST_TASKS} if alone else {})
    for name, most in limits.items():
        hard = resource.prlimit(leader, name)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(leader, name, (value, value))
    with contextlib.suppress(OSError), open(f"/proc/{leader}/oom_score_adj", "w", encoding="ascii") as file:
        file.write(_SOONEST_KILLED)


def _children_of(pid: int) -> list[int]:
    """List the processes that one began and that are there."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


def _below(top: int) -> Iterator[int]:
    """Find every process that one began, and that those began."""
    todo = [top]
    while todo:
        found = _children_of(todo.pop())
        yield from found
        todo += found


def _crowd() -> int:
    """Count the processes of the whole machine, roughly and at no cost."""
    return os.stat("/proc").st_nlink


def too_much(leader: int) -> str:
    """Say what a command has too much of."""
    found = list(itertools.islice(_below(leader), MOST_PROCESSES + 1))
    if len(found) > MOST_PROCESSES:
        return "processes"
    return "memory" if sum(map(_memory_of, found)) > MEMORY else ""


def _memory_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            _, resident, shared, *_ = file.read().split()
    except (OSError, ValueError):
        return 0
    return max(0, int(resident) - int(shared)) * _PAGE
