"""`bash`: one command in the project folder.

Rules of this file:
- A command that failed or was stopped is an error with all its output and the way it ended.
- stdout comes first, then stderr under a heading of its own: the order of both together is not known.
- If the awaiting task is cancelled, the command and every process it started are ended before the cancellation is
  raised.
"""

import asyncio
import contextlib
import re
import signal
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from toolwire.codetools.definitions import COMMAND_BYTES, COMMAND_SECONDS, MAX_COMMAND_SECONDS
from toolwire.codetools.output import CUT, render_both
from toolwire.codetools.processes import CANCELLED, TIMEOUT, CommandStop, Ended, NotStarted, run
from toolwire.codetools.sandbox import NONE, level_of, open_launch, sandbox_error
from toolwire.errors import ToolError
from toolwire.waiting.threads import in_thread

_STOPPED = {
    TIMEOUT: "stopped after {seconds:g} s, because it had not ended: give a longer timeout, or do it in parts",
    CANCELLED: "stopped, because it was cancelled",
    "processes": "stopped, because it started too many processes",
    "memory": "stopped, because it used too much memory",
}
_HINTS = (
    (r"Read-only file system", "in the sandbox only the project folder and /tmp can be written, and not .git"),
    (
        r"(?i)could not resolve|name resolution|network is unreachable|name or service not known",
        "the sandbox has no network",
    ),
)
# One `&`, but not `&&`, `>&` or `&>`: the shell goes on while the command before it runs.
_BACKGROUND = re.compile(r"(?<![&><|\\])&(?![&>])")
_ENDED = "processes that this command started in the background ended with it"
# A line of git status, or of git diff, about one file.
_GIT_CHANGE = re.compile(r"(?m)^(?:[ MADRCUT]{2} |\s*modified:\s+|Binary files a/|diff --git a/)(\S+)")
_COVERED = "the sandbox covers {path}, because it may contain secrets: git may report it as changed although it is not"
_CODE_OF_A_SIGNAL = 128


class _Command(Awaitable[str]):
    """A command that starts when it is awaited."""

    def __init__(self, desk: Any, command: str, timeout: float) -> None:
        self.desk, self.command, self.timeout = desk, command, timeout

    def __await__(self) -> Generator[Any, None, str]:
        return self._run_cancellable().__await__()

    async def _run_cancellable(self) -> str:
        stop = CommandStop()
        work = asyncio.ensure_future(in_thread(lambda: self._run(stop)))
        try:
            return _render_result(await asyncio.shield(work), self.timeout, self.hints(), self.notes)
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
            with open_launch(self.desk.workspace, self.desk.options, self.command) as launch:
                return run(launch, self.timeout, stop, self.desk.options.get("on_output"))
        except NotStarted as error:
            if level_of(self.desk.options) == NONE:
                raise ToolError(f"the command could not be started: {error}") from None
            raise sandbox_error(str(error)) from None
        except OSError as error:
            raise ToolError(f"the command could not be started: {error.strerror}") from None

    def hints(self) -> tuple[tuple[str, str], ...]:
        """Return patterns of output that the sandbox may be the cause of, each with an explanation."""
        options = self.desk.options
        if options.get("sandbox") == NONE:
            return ()
        return _HINTS[:1] if options.get("network") is True else _HINTS

    def notes(self, output: str) -> list[str]:
        """Return what a reader of `output` has to know: a covered file in it, and processes that ended."""
        notes = [_ENDED] if _BACKGROUND.search(self.command) else []
        if self.desk.options.get("sandbox") == NONE:
            return notes
        changed = [match[1] for match in _GIT_CHANGE.finditer(output)]
        covered = [path for path in changed if self.desk.workspace.is_secret(path.split("/"))]
        return notes + [_COVERED.format(path=path) for path in covered[:1]]


def bash(desk: Any, command: str, timeout: float | None = None) -> Awaitable[str]:
    """Run a command, and return its output."""
    if "\0" in command:
        raise ToolError("the command has a NUL character, which no command can have: leave it out")
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise ToolError("the command has half of a surrogate pair, which is not a character") from None
    if size > COMMAND_BYTES:
        raise ToolError(
            f"the command has {size} bytes; the limit is {COMMAND_BYTES}: write a script with write_file, and run it"
        )
    if not command.strip():
        raise ToolError("the command is empty")
    return _Command(desk, command, min(COMMAND_SECONDS if timeout is None else timeout, MAX_COMMAND_SECONDS))


def _render_result(
    result: Ended,
    seconds: float,
    hints: tuple[tuple[str, str], ...] = (),
    notes: Callable[[str], list[str]] = lambda output: [],  # noqa: ARG005 - there are none
) -> str:
    """Return a command's output; raise `ToolError` with it if the command did not succeed."""
    stdout, stderr, is_cut = render_both(result.stdout, result.stderr)
    blocks = [stdout.rstrip("\n")] if stdout.strip() else []
    if stderr.strip():
        blocks += ["[stderr]", stderr.rstrip("\n")]
    blocks = blocks or ["(no output)"]
    if is_cut:
        blocks.append(f"[{CUT}]")
    output = stdout + stderr
    blocks += [f"[{note}]" for note in notes(output)]
    if result.code == 0 and not result.stopped and result.gone:
        return "\n".join(blocks)
    blocks += [f"[{words}]" for sign, words in hints if re.search(sign, output)]
    blocks.append(f"[{_describe_end(result, seconds)}]")
    if not result.gone:
        blocks.append("[some of the processes that it started could not be stopped]")
    raise ToolError("\n".join(blocks))


def _describe_end(ended: Ended, seconds: float) -> str:
    if ended.stopped:
        return _STOPPED[ended.stopped].format(seconds=seconds)
    code = ended.code if ended.code >= 0 else _CODE_OF_A_SIGNAL - ended.code
    name = ""
    with contextlib.suppress(ValueError):
        name = f": {signal.Signals(code - _CODE_OF_A_SIGNAL).name}" if code > _CODE_OF_A_SIGNAL else ""
    return f"exit code {code}{name}"
