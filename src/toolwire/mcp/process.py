"""A server as a child process: messages are lines of JSON on its standard input and output.

Rules of this file:
- A line has a limit, and is read in time that grows with its length; one that is longer ends the connection.
- What is no message is left out and logged: servers print. The end of what it says on standard error is kept.
- The child ends with the connection: its input is closed, then its process group is asked, then killed; on Linux
  also what left the group, but for what took the child's mark out of its environment.
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

from toolwire.mcp.lines import mended, read_message
from toolwire.mcp.targets import Stdio
from toolwire.waiting.process_marks import MARK, SERVER, new_mark, sweep

logger: logging.Logger = logging.getLogger("toolwire.mcp")
GRACE = 2.0
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
_WORDS_KEPT = 4000
_OF_MESSAGES = (0, 1)
_Incoming = MemoryObjectSendStream[SessionMessage | Exception]
_Outgoing = MemoryObjectReceiveStream[SessionMessage]


class _Protocol(SubprocessStreamProtocol):
    """Tells when the process has ended, whoever still holds its pipes, and when it closed its output."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.ended = asyncio.Event()
        self.gone = False

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        super().pipe_connection_lost(fd, exc)
        self.gone = self.gone or fd in _OF_MESSAGES

    def process_exited(self) -> None:
        super().process_exited()
        self.gone = True
        self.ended.set()


class Child:
    """A server's process, and what is known of its end."""

    def __init__(self, target: Stdio, limit: int) -> None:
        self.target = target
        self.limit = limit
        self.words: str = ""
        self.reason: str = ""
        self.grace: float = GRACE
        self._mark: str = new_mark() if sys.platform == "linux" else ""
        self._transport: Any = None
        self._protocol: _Protocol

    @property
    def gone(self) -> bool:
        """Whether it can be known by now that it answers no more."""
        return self._transport is not None and self._protocol.gone

    @property
    def fate(self) -> str:
        """Say how it ended, as far as that is known."""
        code = None if self._transport is None else self._transport.get_returncode()
        facts = [self.reason] if self.reason else []
        if code is not None:
            facts.append(f"killed by {_signal_name(-code)}" if code < 0 else f"exit code {code}")
        last = self.words.strip().splitlines()[-3:]
        return ", ".join(facts) + (f"; it said: {' | '.join(last)}" if last else "")

    @contextlib.asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Start the process, and give the streams of messages from it and to it."""
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
            tasks.start_soon(self._overhear, process.stderr)
            tasks.start_soon(self._watch, to_us)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    for stream in (incoming, outgoing):
                        stream.close()
                    await self._stop(process)
                    for own in (to_us, to_them):
                        own.close()
                tasks.cancel_scope.cancel()

    @property
    def _marks(self) -> dict[str, str]:
        """The child's mark, and that of the command that this program is a part of."""
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

    async def _overhear(self, stderr: asyncio.StreamReader) -> None:
        while chunk := await stderr.read(65536):
            text = chunk.decode("utf-8", "replace")
            self.words = (self.words + text)[-_WORDS_KEPT:]
            logger.debug("%s: %s", self.target.label, self.target.told(text.rstrip()))

    async def _watch(self, to_us: _Incoming) -> None:
        """End the connection a moment after the process, though others may hold its pipes open."""
        await self._protocol.ended.wait()
        await anyio.sleep(GRACE / 4)
        to_us.close()

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is not None:
            process.stdin.close()
        for number, patience in ((None, self.grace), (signal.SIGTERM, GRACE), (_KILL, GRACE)):
            if number is not None:
                _send_to_group(process, number)
            with anyio.move_on_after(patience):
                await self._protocol.ended.wait()
                break
        else:
            logger.warning("%s cannot be ended: process %d", self.target.label, process.pid)
        if self._transport.get_returncode() is not None and sys.platform != "win32":
            _send_to_group(process, _KILL)
        if self._mark and not await anyio.to_thread.run_sync(sweep, self._mark, SERVER):
            logger.warning("%s left processes that cannot be ended", self.target.label)
        self._transport.close()


def _send_to_group(process: asyncio.subprocess.Process, number: int) -> None:
    """Send a signal to the process and to all that it started: its group has its number."""
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
        return [read_message(text) for text in mended(line)]
