"""The line to one MCP server: connects when it is needed, and again when it ended; runs on one event loop.

Rules of this file:
- A call that was under way when the connection ended is an error, and is never repeated: it may have had
  effects. One that the server says it did not begin is repeated once.
- A server that ends again and again without an answer is started ever more rarely; in between, calls fail at
  once, and say when it is tried again.
"""

import asyncio
import logging
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST
from msgspec.structs import replace

from toolwire.errors import ServerUnavailable, UnknownTool
from toolwire.mcp.connection import Connection
from toolwire.mcp.content import decode_result
from toolwire.mcp.targets import Http, Stdio, Terms
from toolwire.types import Tool, ToolCall, ToolResult
from toolwire.work.results import FAILED, failure

logger = logging.getLogger("toolwire.mcp")
PAUSES = (0.0, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
PARTING = 2.0
TURNS = 3  # of the event loop, in which it notices an end that has happened already
FORGOTTEN = "Session terminated"
UNKNOWN = "unknown tool"


class Line:
    """What is known of a server: its tools, its connection if there is one, its failures in a row."""

    def __init__(self, target: Stdio | Http, terms: Terms) -> None:
        self.tools: tuple[Tool, ...] | None = None
        self._target = target
        self._terms = terms
        self._connection: Connection | None = None
        self._ending: list[Connection] = []
        self._opening: asyncio.Task[Connection] | None = None
        self._starts = 0
        self._not_before = 0.0
        self._closed = False
        self._calls: set[asyncio.Task[Any] | None] = set()

    async def connected(self) -> Connection:
        """Give a connection that lives; all who want one wait for the same."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if self._connection is not None and self._connection.alive:
            return self._connection
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._opening)

    async def _open(self) -> Connection:
        if self._closed:
            raise ServerUnavailable(f"{self._target.label} was closed")
        now = asyncio.get_running_loop().time()
        if now < self._not_before:
            raise ServerUnavailable(
                f"{self._target.label} failed {self._starts} times in a row: it is tried again"
                f" in {self._not_before - now:.1f} s at the earliest"
            )
        self._starts += 1
        self._not_before = now + PAUSES[min(self._starts, len(PAUSES) - 1)]
        self._ending = [one for one in (*self._ending, self._connection) if one and not one.ended]
        self._connection = Connection(self._target, self._terms, self._take)
        await self._connection.open()
        return self._connection

    def _take(self, tools: tuple[Tool, ...]) -> None:
        said = {"parallel": True} if self._terms.parallel else {}
        self.tools = tuple(replace(tool, metadata=tool.metadata | said) for tool in tools) if said else tools

    async def refresh(self) -> None:
        """List the tools anew."""
        connection = await self.connected()
        try:
            await connection.refresh()
        except (MCPError, TimeoutError) as problem:
            words = str(problem) or "it took too long"
            raise ServerUnavailable(f"{self._target.label} could not list its tools: {words}") from problem

    async def close(self) -> None:
        """End the connection, or the attempt to get one, for good."""
        self._closed = True
        for connection in (*self._ending, self._connection):
            if connection is not None:
                await connection.close()
        left = [task for task in (self._opening, *self._calls) if task is not None]
        if left:
            await asyncio.wait(left, timeout=PARTING)

    async def call(self, call: ToolCall) -> ToolResult:
        """Run a call on the server, and give its result; UnknownTool if it has no such tool."""
        task = asyncio.current_task()
        self._calls.add(task)
        try:
            return await self._call(call)
        finally:
            self._calls.discard(task)

    async def _call(self, call: ToolCall) -> ToolResult:
        try:
            connection = await self.connected()
        except ServerUnavailable as problem:
            return failure(call, f"{FAILED}{problem}")
        if call.name not in self._names():
            raise UnknownTool(call.name, self._names())
        try:
            async with asyncio.timeout(self._terms.timeout):
                return decode_result(await self._ask(connection, call), call)
        except TimeoutError:
            return failure(call, f"{FAILED}it took longer than {self._terms.timeout:g} s")
        except MCPError as problem:
            return await self._failed(problem, connection, call)
        except Exception as problem:
            logger.exception("a call of %s failed", self._target.label)
            return failure(call, f"{FAILED}{problem or type(problem).__name__}")

    async def _ask(self, connection: Connection, call: ToolCall) -> dict[str, Any]:
        try:
            answer = await connection.call(call.name, call.arguments)
        except MCPError as problem:
            if problem.code == INVALID_REQUEST and problem.message == FORGOTTEN and self._has_sessions:
                await connection.close()
            elif problem.code == HEADER_MISMATCH:
                await connection.refresh()
            else:
                raise
            answer = await (await self.connected()).call(call.name, call.arguments)
        self._starts, self._not_before = 0, 0.0
        return answer

    async def _failed(self, problem: MCPError, connection: Connection, call: ToolCall) -> ToolResult:
        fate = await connection.fate() if problem.code == CONNECTION_CLOSED else None
        if fate is not None:
            ended = f"{self._target.label} ended during the call, which may have had effects"
            return failure(call, f"{FAILED}{ended}{f' ({fate})' if fate else ''}")
        self._starts, self._not_before = 0, 0.0
        if problem.code == INVALID_PARAMS and problem.message.lower().startswith(UNKNOWN):
            raise UnknownTool(call.name, [name for name in self._names() if name != call.name])
        return failure(call, f"{FAILED}{problem.message}")

    @property
    def _has_sessions(self) -> bool:
        return isinstance(self._target, Http)

    def _names(self) -> list[str]:
        return [tool.name for tool in self.tools or ()]
