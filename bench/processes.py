"""Processes that a benchmark measures: how they are started, on which processor they run, and what they use."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path

MEASURED, OTHERS = 1, 0  # the processor of the measured process, and that of clients and providers


class NotReady(Exception):
    """A program exited or did not answer in time; the text says which, and what it last wrote."""


class Program:
    """A program that runs: when it is ready, and what it and its children use."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        """Start it in `folder`, where the file `errors` gets what it writes to standard error."""
        self._errors = folder / "errors"
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                command, cwd=folder, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=errors
            )
        self._started = time.perf_counter()

    def wait_ready(self, port: int, path: str = "", seconds: float = 20) -> float:
        """Wait until it listens, or answers GET `path` with 200. Return the seconds since its start."""
        while (waited := time.perf_counter() - self._started) < seconds:
            if _answers(port, path):
                return time.perf_counter() - self._started
            if self._process.poll() is not None:
                raise NotReady(f"it exited with {self._process.returncode}: {self._last_words()}")
            time.sleep(0.005)
        raise NotReady(f"it was not ready after {waited:.0f} s: {self._last_words()}")

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used so far."""
        return _cpu_seconds(self._process.pid)

    def megabytes(self) -> float:
        """Return its resident memory."""
        return _megabytes(self._process.pid)

    def stop(self) -> None:
        """End it, and wait for its end."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)

    def _last_words(self) -> str:
        lines = self._errors.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it wrote nothing"


@contextlib.contextmanager
def running(command: list[str], folder: Path, **environment: str) -> Iterator[Program]:
    """Run a program while the context lasts."""
    program = Program(command, folder, environment)
    try:
        yield program
    finally:
        program.stop()


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def pinned(processor: int) -> list[str]:
    """Return the start of a command line that pins a program to `processor`; empty where that is impossible."""
    possible = (os.cpu_count() or 1) > 1 and shutil.which("taskset")
    return ["taskset", "-c", str(processor)] if possible else []


def conditions() -> str:
    """Describe where the programs run, and how busy the machine is with other work."""
    place = f"the gateway on processor {MEASURED}, clients and providers on processor {OTHERS}"
    if not pinned(MEASURED):
        place = "NOTHING IS PINNED: this machine has one processor, or no taskset"
    busy = os.getloadavg()[0]
    return f"{time.strftime('%Y-%m-%d %H:%M')}, load {busy:.1f} on {os.cpu_count()} processors; {place}"


def busy_seconds(processor: int) -> float:
    """Return the time that a processor has worked since the machine started, for all programs together."""
    [line] = [line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{processor} ")]
    user, nice, system, _, _, *interrupts = map(int, line.split()[1:9])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def _answers(port: int, path: str) -> bool:
    if not path:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.suppress(OSError, HTTPException), contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status == 200
    return False


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds + sum(map(_cpu_seconds, _children(pid)))


def _megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6 + sum(map(_megabytes, _children(pid)))


def _children(pid: int) -> list[int]:
    """Return the children of all its threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]
