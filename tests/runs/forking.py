"""Victims that are forked from a process which has imported what they need: they begin at once, and die like others.

`python -m tests.runs.forking` answers lines of JSON: how to begin a victim, with its number; the number of one that
was begun, with its code once it has ended.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Victim:
    """A process that leads a run."""

    def __init__(self, url: str, name: str, folder: Path, around: dict[str, str]) -> None:
        said = folder / f"said-{time.monotonic_ns()}"
        self._outputs = said.with_suffix(".out"), said.with_suffix(".err")
        for path in self._outputs:  # it may be killed before it opens them
            path.touch()
        self.pid: int = _asked({"url": url, "name": name, "folder": str(folder), "said": str(said), **around})
        self._code: int | None = None

    def poll(self) -> int | None:
        """Give its code if it has ended: below nothing where a signal did it."""
        if self._code is None:
            self._code = _asked({"pid": self.pid})
        return self._code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def ended(self) -> tuple[int, str, str]:
        """Wait for its end; give its code, what it said, and what it complained of."""
        late = time.monotonic() + 120
        while (code := self.poll()) is None:
            if time.monotonic() > late:
                self.send_signal(signal.SIGKILL)
            time.sleep(0.005)
        said, complained = self._outputs
        return code, said.read_text(), complained.read_text()


def environment(**around: str) -> dict[str, str]:
    """Give the environment of a program of the tests."""
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **around}


@cache
def _server() -> "subprocess.Popen[str]":
    command, pipe = [sys.executable, "-m", __name__], subprocess.PIPE
    server = subprocess.Popen(command, cwd=ROOT, env=environment(), text=True, stdin=pipe, stdout=pipe)
    atexit.register(server.communicate)
    return server


def _asked(question: dict[str, Any]) -> Any:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(question) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def _begin(url: str, name: str, folder: str, said: str, **around: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for number, path in enumerate((os.devnull, f"{said}.out", f"{said}.err")):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), number)
        os.environ.update(around)
        from tests.runs import victim

        victim.main(url, name, folder)
        code = 0
    except BaseException:  # noqa: BLE001 - as the interpreter does it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _ended(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _serve() -> None:
    """Answer until nobody asks any more; who still runs then is ended."""
    import dbos  # noqa: F401 - that it is imported once is what this is for

    import tests.runs.victim  # noqa: F401 - likewise

    running: set[int] = set()
    for line in sys.stdin:
        question = json.loads(line)
        if "pid" in question:
            answer = _ended(question["pid"])
            running -= set() if answer is None else {question["pid"]}
        else:
            answer = _begin(**question)
            running.add(answer)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in running:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _serve()
