r"""One command as a process: started, watched, and stopped together with every process it started.

Rules of this file:
- A leader process stands between this process and the command: the first process of a sandbox, or the overseer. When
  the leader has ended, no process of the command is left. So this module waits for the leader, and not for a pipe.
- The leader writes `\n` when it is ready, and waits for `go`. Meanwhile its limits are set and its mounts are
  checked.
- To stop a command, all processes below the leader get SIGTERM and a moment of grace. Then the leader of a sandbox is
  killed. The processes below an overseer are killed from here, because a command without a sandbox can stop its
  overseer.
- The system limits each process: its memory and the size of a file, and in a sandbox the number of tasks, but not for
  root. All processes together are limited by polling: too many processes, or too much memory, end the command. Disk
  space, the number of files and processor time are limited by the timeout only.
- Output is read while it arrives, and bounded. Every descriptor and process is gone when `run` returns.
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
_KILL_SECONDS = 15.0
_FIRST_CHECK, _TICK, _LAST_CHECK = 0.02, 0.05, 0.2
_READS = 64
CANCELLED, TIMEOUT = "cancelled", "timeout"
MOST_PROCESSES = 500
MOST_TASKS = 2000
FILE_SIZE = 4 * 1024**3
_PAGE = os.sysconf("SC_PAGE_SIZE")
MEMORY = os.sysconf("SC_PHYS_PAGES") * _PAGE // 2
_OOM_SCORE = "800"
LIMITS = {resource.RLIMIT_CORE: 0, resource.RLIMIT_DATA: MEMORY, resource.RLIMIT_FSIZE: FILE_SIZE}
_OnOutput = Callable[[bytes], object]
_CHILD = re.compile(rb'"child-pid": *(\d+)')


class NotStarted(Exception):
    """A command that could not be started; the text is the message of the system or the sandbox."""


class Launch(Struct, frozen=True):
    """How a command is started.

    `lent` are descriptors that it inherits. In a sandbox `info` is a pipe on which bubblewrap reports the leader's
    pid, and `verify` returns True if the leader has the right folders mounted.
    """

    argv: list[str]
    environment: dict[str, str]
    cwd: str = "/"
    lent: tuple[int, ...] = ()
    info: tuple[int, int] | None = None
    verify: Callable[[int], bool] = lambda _leader: True


class Ended(Struct, frozen=True):
    """How a command ended.

    `stopped` is the reason it was stopped for, or "". `gone` is False if a process of it could not be ended.
    """

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
        """Stop the command."""
        os.eventfd_write(self.fd, 1)

    def close(self) -> None:
        """Close the descriptor when no command uses it any more; it may be called twice."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def run(launch: Launch, timeout: float, stop: CommandStop | None = None, on_output: _OnOutput | None = None) -> Ended:
    """Run a command to its end, at most `timeout` seconds; pass its output to `on_output` while it arrives.

    Raise `NotStarted` if it cannot be started.
    """
    sweep_orphans(os.getpid())
    with contextlib.ExitStack() as resources:
        try:
            command = _Command(launch, stop, resources)
            stopped = command.begin()
            if not stopped:
                command.on_output = on_output
                stopped = command.watch(timeout)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise NotStarted(getattr(error, "strerror", None) or str(error)) from None
        return command.finish(stopped)


class _Command:
    """A running command. The thread that started it waits for it: if that thread ends, the command dies."""

    def __init__(self, launch: Launch, stop: CommandStop | None, resources: contextlib.ExitStack) -> None:
        self.launch = launch
        self.stdout, self.stderr = Captured(), Captured()
        self.is_cancelled = False
        self.on_output: _OnOutput | None = None
        self.poll = select.poll()
        self.process, self.descriptors = _start(launch), set[int]()
        resources.callback(self._clean_up)
        self.ended = self._keep_open(os.pidfd_open(self.process.pid))
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
        """Wait until the leader is ready, and let it start the command."""
        deadline = time.monotonic() + START
        while self.stdout.total == 0:
            if self._read_until(deadline):
                message = bytes(self.stderr.head).decode("utf-8", "replace").strip()
                raise NotStarted(message or "it ended immediately")
            if self.is_cancelled:
                return self._abort()
            if time.monotonic() >= deadline:
                self._abort()
                raise NotStarted(f"it was not ready after {START:g} s")
        self.stdout.discard()
        self._find_leader()
        _set_limits(self.leader, in_sandbox=self.launch.info is not None)
        if not self.launch.verify(self.leader):
            self._abort()
            raise NotStarted("the project folder, or a protected file in it, was replaced meanwhile")
        with contextlib.suppress(BrokenPipeError):
            os.write(pipe_of(self.process.stdin).fileno(), b"go\n")
        return ""

    def _abort(self) -> str:
        """Close the leader's input before the command has started, and wait until the leader ends."""
        self._close_input()
        self._wait_until(time.monotonic() + _KILL_SECONDS)
        return CANCELLED

    def _find_leader(self) -> None:
        if self.launch.info is None:
            return
        report = os.read(self.launch.info[0], 4096)
        match = _CHILD.search(report)
        if match is None:
            raise NotStarted("the sandbox did not report the process id of its first process")
        self.leader = int(match[1])
        self.leader_fd = self._keep_open(os.pidfd_open(self.leader))
        if self.leader not in _children_of(self.process.pid):
            raise NotStarted("the sandbox ended immediately")

    def watch(self, timeout: float) -> str:
        """Wait until the command ends or has to be stopped; return the reason it was stopped for."""
        deadline = time.monotonic() + timeout
        pause, initial_count = _FIRST_CHECK, _count_processes()
        next_check = time.monotonic() + pause
        while not self._read_until(min(deadline, next_check, time.monotonic() + _TICK)):
            reason = ""
            if self.is_cancelled:
                reason = CANCELLED
            elif time.monotonic() >= deadline:
                reason = TIMEOUT
            elif time.monotonic() >= next_check or _count_processes() - initial_count > MOST_PROCESSES // 2:
                reason, pause = exceeded_limit(self.leader), min(_LAST_CHECK, 2 * pause)
                next_check = time.monotonic() + pause
            if reason:
                self._end(gently=reason in (CANCELLED, TIMEOUT))
                return reason
        return ""

    def _end(self, *, gently: bool) -> None:
        """Stop every process of the command; with `gently`, ask them to end first."""
        if gently:
            for pid in list(_below(self.leader)):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGTERM)
            if self._wait_until(time.monotonic() + GRACE):
                return
        if self.launch.info is None:
            self._close_input()
            self._kill_below(time.monotonic() + _KILL_SECONDS)
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.leader_fd, signal.SIGKILL)
        self._wait_until(time.monotonic() + _KILL_SECONDS)

    def _kill_below(self, deadline: float) -> None:
        """Kill every process below the overseer, and continue the overseer, in case the command stopped it."""
        while time.monotonic() < deadline:
            for pid in list(_below(self.leader)):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.leader_fd, signal.SIGCONT)
            if self._wait_until(time.monotonic() + _FIRST_CHECK):
                return

    def finish(self, reason: str) -> Ended:
        """Read the rest of the output, and return how the command ended."""
        for fd in list(self.streams):
            for _ in range(_READS):
                if not self._read(fd):
                    break
        code = self.process.poll()
        is_gone = code is not None
        if code is not None and code < 0:
            is_gone = sweep(self.launch.environment[MARK])
        return Ended(-1 if code is None else code, self.stdout, self.stderr, reason, is_gone)

    def _read_until(self, deadline: float) -> bool:
        """Read output until `deadline`; return True if the command has ended."""
        for fd, _ in self.poll.poll(max(0.0, deadline - time.monotonic()) * 1000 + 1):
            if fd == self.ended:
                self.process.wait()
                return True
            if fd == self.stop_fd:
                self.is_cancelled = True
                self.poll.unregister(fd)
            else:
                self._read(fd)
        return False

    def _wait_until(self, deadline: float) -> bool:
        while time.monotonic() < deadline:
            if self._read_until(deadline):
                return True
        return False

    def _read(self, fd: int) -> bool:
        """Read one block of a pipe; return True if there was any."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        if data:
            self.streams[fd].add(data)
            if self.on_output is not None:
                with contextlib.suppress(Exception):  # an error in the application's callback must not stop the command
                    self.on_output(data)
        else:
            del self.streams[fd]
            self.poll.unregister(fd)
        return bool(data)

    def _close_input(self) -> None:
        pipe_of(self.process.stdin).close()

    def _keep_open(self, fd: int) -> int:
        self.descriptors.add(fd)
        return fd

    def _clean_up(self) -> None:
        """Stop the command if it still runs, and close every descriptor."""
        if self.process.poll() is None:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                self._end(gently=False)
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe_of(stream).close()
        self.process.wait()
        for fd in self.descriptors:
            os.close(fd)


def _start(launch: Launch) -> subprocess.Popen[bytes]:
    pipe, info_pipe = subprocess.PIPE, launch.info
    try:
        return subprocess.Popen(  # noqa: S603 - this module exists to run commands
            launch.argv,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
            cwd=launch.cwd,
            env=launch.environment,
            pass_fds=(*launch.lent, *(info_pipe[1:] if info_pipe else ())),
            start_new_session=True,
        )
    finally:
        if info_pipe:
            os.close(info_pipe[1])


def pipe_of(stream: IO[bytes] | None) -> IO[bytes]:
    """Return a pipe that was requested, so that it is not None."""
    if stream is None:
        raise ValueError("there is no pipe")
    return stream


def _set_limits(leader: int, *, in_sandbox: bool) -> None:
    """Set the resource limits of a leader process; in a sandbox the number of tasks too."""
    limits = LIMITS | ({resource.RLIMIT_NPROC: MOST_TASKS} if in_sandbox else {})
    for name, limit in limits.items():
        hard = resource.prlimit(leader, name)[1]
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.prlimit(leader, name, (value, value))
    with contextlib.suppress(OSError), open(f"/proc/{leader}/oom_score_adj", "w", encoding="ascii") as file:
        file.write(_OOM_SCORE)


def _children_of(pid: int) -> list[int]:
    """Return the pids of a process's living children."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                children += map(int, file.read().split())
    return children


def _below(top: int) -> Iterator[int]:
    """Yield the pid of every process below `top`."""
    todo = [top]
    while todo:
        children = _children_of(todo.pop())
        yield from children
        todo += children


def _count_processes() -> int:
    """Return about how many processes the machine runs, from one cheap system call."""
    return os.stat("/proc").st_nlink


def exceeded_limit(leader: int) -> str:
    """Return "processes" or "memory" if the processes below `leader` exceed this limit of a command, else ""."""
    processes = list(itertools.islice(_below(leader), MOST_PROCESSES + 1))
    if len(processes) > MOST_PROCESSES:
        return "processes"
    return "memory" if sum(map(_memory_of, processes)) > MEMORY else ""


def _memory_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            _, resident, shared, *_ = file.read().split()
    except (OSError, ValueError):
        return 0
    return max(0, int(resident) - int(shared)) * _PAGE
