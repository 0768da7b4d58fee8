"""A server as a child process: messages are lines of JSON on its standard input and output.

Rules of this file:
- A line has a size limit, and is read in linear time. A longer one ends the connection.
- Lines that are not messages are logged and dropped, because servers print. The end of standard error is stored for the
  error message.
- The child ends with the connection: its input is closed, then its process group gets SIGTERM, then SIGKILL. On Linux,
  processes that left the group are found by a mark in their environment, unless they removed it.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import AsyncIterator
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from toolwire.mcp.lines import read_message, repair_messages
from toolwire.mcp.targets import Stdio
from toolwire.waiting.process_marks import MARK, SERVER, new_mark, sweep

logger: logging.Logger = logging.getLogger("toolwire.mcp")
GRACE = 2.0
_KILL_SIGNAL = getattr(signal, "SIGKILL", signal.SIGTERM)
_STDERR_CHARACTERS = 4000
_MESSAGE_PIPES = (0, 1)
_Incoming = MemoryObjectSendStream[SessionMessage | Exception]
_Outgoing = MemoryObjectReceiveStream[SessionMessage]


class _Protocol(SubprocessStreamProtocol):
    """Records when the process ended, even if others still hold its pipes, and when it closed its output."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.ended = asyncio.Event()
        self.gone = False

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        super().pipe_connection_lost(fd, exc)
        self.gone = self.gone or fd in _MESSAGE_PIPES

    def process_exited(self) -> None:
        super().process_exited()
        self.gone = True
        self.ended.set()


class Child:
    """A server's process, and how it ended."""

    def __init__(self, target: Stdio, limit: int) -> None:
        self.target = target
        self.limit = limit
        self.stderr_end: str = ""
        self.reason: str = ""
        self.grace: float = GRACE
        self._mark: str = new_mark() if sys.platform == "linux" else ""
        self._transport: Any = None
        self._protocol: _Protocol

    @property
    def gone(self) -> bool:
        """True if it is known that the process will not answer any more."""
        return self._transport is not None and self._protocol.gone

    @property
    def end_reason(self) -> str:
        """The reason for the end of the process, as far as it is known."""
        code = None if self._transport is None else self._transport.get_returncode()
        facts = [self.reason] if self.reason else []
        if code is not None:
            facts.append(f"killed by {_signal_name(-code)}" if code < 0 else f"exit code {code}")
        last = self.stderr_end.strip().splitlines()[-3:]
        return ", ".join(facts) + (f"; its last output: {' | '.join(last)}" if last else "")

    @contextlib.asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Start the process and yield the message streams from it and to it."""
        loop, target = asyncio.get_running_loop(), self.target
        self._transport, self._protocol = await loop.subprocess_exec(
            lambda: _Protocol(self.limit, loop),
            target.command,
            *target.args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=get_default_environment() | self._marks | target.env,
            cwd=target.cwd,
            start_new_session=True,
        )
        process: Any = asyncio.subprocess.Process(self._transport, self._protocol, loop)
        to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, to_them = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, process.stdout, to_us)
            tasks.start_soon(self._write, process.stdin, to_them, to_us)
            tasks.start_soon(self._read_stderr, process.stderr)
            tasks.start_soon(self._watch, to_us)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    for stream in (incoming, outgoing):
                        stream.close()
                    await self._stop(process)
                    for stream in (to_us, to_them):
                        stream.close()
                tasks.cancel_scope.cancel()

    @property
    def _marks(self) -> dict[str, str]:
        """The child's mark, and the mark of the command that this program is part of."""
        outer = {MARK: os.environ[MARK]} if MARK in os.environ else {}
        return {**outer, SERVER: self._mark} if self._mark else outer

    async def _read(self, stdout: asyncio.StreamReader, to_us: _Incoming) -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with to_us:
                try:
                    while line := await stdout.readline():
                        for message in _messages_of(line):
                            await to_us.send(message)
                except ValueError:
                    self.reason = f"it sent a message of more than {self.limit} bytes"
                    self.grace = 0.0

    async def _write(self, stdin: asyncio.StreamWriter, to_them: _Outgoing, to_us: _Incoming) -> None:
        try:
            async with to_them:
                async for message in to_them:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    stdin.write(text.encode() + b"\n")
                    await stdin.drain()
        except OSError:
            to_us.close()

    async def _read_stderr(self, stderr: asyncio.StreamReader) -> None:
        while chunk := await stderr.read(65536):
            text = chunk.decode("utf-8", "replace")
            self.stderr_end = (self.stderr_end + text)[-_STDERR_CHARACTERS:]
            logger.debug("%s: %s", self.target.label, self.target.safe_text(text.rstrip()))

    async def _watch(self, to_us: _Incoming) -> None:
        """End the connection shortly after the process, even if others hold its pipes open."""
        await self._protocol.ended.wait()
        await anyio.sleep(GRACE / 4)
        to_us.close()

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is not None:
            process.stdin.close()
        for number, patience in ((None, self.grace), (signal.SIGTERM, GRACE), (_KILL_SIGNAL, GRACE)):
            if number is not None:
                _send_to_group(process, number)
            with anyio.move_on_after(patience):
                await self._protocol.ended.wait()
                break
        else:
            logger.warning("%s cannot be ended: process %d still runs", self.target.label, process.pid)
        if self._transport.get_returncode() is not None and sys.platform != "win32":
            _send_to_group(process, _KILL_SIGNAL)
        if self._mark and not await anyio.to_thread.run_sync(sweep, self._mark, SERVER):
            logger.warning("%s left processes that cannot be ended", self.target.label)
        self._transport.close()


def _send_to_group(process: asyncio.subprocess.Process, number: int) -> None:
    """Send a signal to the process and all that it started: its process group has its id."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _messages_of(line: bytes) -> list[SessionMessage]:
    try:
        return [read_message(line)] if line.strip() else []
    except ValueError:
        return [read_message(text) for text in repair_messages(line)]
