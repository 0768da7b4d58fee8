"""`bash`: one command in the project folder.

Rules of this file:
- A command that did not end well is an error that has all its output, and says how it ended.
- stdout comes first, then stderr under its own heading; how the two were mixed is not known.
- Whoever waits can be cancelled: the command is then ended with all it began, before anyone hears of it.
"""

import asyncio
import contextlib
import re
import signal
from collections.abc import Awaitable, Generator
from typing import Any

from toolwire.codetools.definitions import COMMAND_BYTES, COMMAND_SECONDS, MAX_COMMAND_SECONDS
from toolwire.codetools.output import CUT, share
from toolwire.codetools.processes import CANCELLED, TIMEOUT, CommandStop, Ended, NotStarted, run
from toolwire.codetools.sandbox import NONE, launching, level_of, refusal
from toolwire.errors import ToolError
from toolwire.waiting.threads import in_thread

_STOPPED = {
    TIMEOUT: "stopped after {seconds:g} s, as it had not ended: give a longer timeout, or do it in parts",
    CANCELLED: "stopped, because it was cancelled",
    "processes": "stopped, because it had too many processes",
    "memory": "stopped, because it used too much memory",
}
_SIGNS = (
    (r"Read-only file system", "in the sandbox only the project folder and /tmp can be written, and not .git"),
    (
        r"(?i)could not resolve|name resolution|network is unreachable|name or service not known",
        "the sandbox has no network",
    ),
)
_CODE_OF_A_SIGNAL = 128


class _Command(Awaitable[str]):
    """A command that begins when it is awaited."""

    def __init__(self, desk: Any, command: str, timeout: float) -> None:
        self.desk, self.command, self.timeout = desk, command, timeout

    def __await__(self) -> Generator[Any, None, str]:
        return self._done().__await__()

    async def _done(self) -> str:
        stop = CommandStop()
        work = asyncio.ensure_future(in_thread(lambda: self._run(stop)))
        try:
            return said(await asyncio.shield(work), self.timeout, self.hints())
        except asyncio.CancelledError:
            stop.set()
            while not work.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait({work})
            if not work.cancelled():
                work.exception()
            raise
        except GeneratorExit:
            stop.set()
            raise
        finally:
            if work.done():
                stop.close()

    def _run(self, stop: CommandStop) -> Ended:
        try:
            with launching(self.desk.workspace, self.desk.options, self.command) as launch:
                return run(launch, self.timeout, stop, self.desk.options.get("on_output"))
        except NotStarted as problem:
            if level_of(self.desk.options) == NONE:
                raise ToolError(f"the command could not be started: {problem}") from None
            raise refusal(str(problem)) from None
        except OSError as problem:
            raise ToolError(f"the command could not be started: {problem.strerror}") from None

    def hints(self) -> tuple[tuple[str, str], ...]:
        """Give what an output may mean in the sandbox."""
        options = self.desk.options
        if options.get("sandbox") == NONE:
            return ()
        return _SIGNS[:1] if options.get("network") is True else _SIGNS


def bash(desk: Any, command: str, timeout: float | None = None) -> Awaitable[str]:
    """Run a command, and give what it wrote."""
    if "\0" in command:
        raise ToolError("the command has a NUL character, which no command can have: leave it out")
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise ToolError("the command has half of a surrogate pair, which is not a character") from None
    if size > COMMAND_BYTES:
        raise ToolError(
            f"the command has {size} bytes, and {COMMAND_BYTES} are the most: "
            "write a script with write_file, and run that"
        )
    if not command.strip():
        raise ToolError("the command is empty")
    return _Command(desk, command, min(COMMAND_SECONDS if timeout is None else timeout, MAX_COMMAND_SECONDS))


def said(ended: Ended, seconds: float, signs: tuple[tuple[str, str], ...] = ()) -> str:
    """Write what a command wrote and how it ended; raise it if it did not end well."""
    stdout, stderr, cut = share(ended.stdout, ended.stderr)
    parts = [stdout.rstrip("\n")] if stdout.strip() else []
    if stderr.strip():
        parts += ["[stderr]", stderr.rstrip("\n")]
    parts = parts or ["(no output)"]
    if cut:
        parts.append(f"[{CUT}]")
    if ended.code == 0 and not ended.stopped and ended.gone:
        return "\n".join(parts)
    both = stdout + stderr
    parts += [f"[{words}]" for sign, words in signs if re.search(sign, both)]
    parts.append(f"[{_end_of(ended, seconds)}]")
    if not ended.gone:
        parts.append("[some of the processes that it began could not be stopped]")
    raise ToolError("\n".join(parts))


def _end_of(ended: Ended, seconds: float) -> str:
    if ended.stopped:
        return _STOPPED[ended.stopped].format(seconds=seconds)
    code = ended.code if ended.code >= 0 else _CODE_OF_A_SIGNAL - ended.code
    name = ""
    with contextlib.suppress(ValueError):
        name = f": {signal.Signals(code - _CODE_OF_A_SIGNAL).name}" if code > _CODE_OF_A_SIGNAL else ""
    return f"exit code {code}{name}"
