"""The connection to an MCP server, with reconnects; everything runs on one event loop.

Rules of this file:
- A connection is opened when it is needed, and again after it ended. A call that was interrupted by the end fails and
  is not repeated, because it may have had effects. A call that the server says it did not start is repeated once.
- A server that ends repeatedly without an answer is restarted at growing intervals. In between, calls fail at once, and
  the error states the next attempt.
- This package parses tools and results itself, from the raw answer. The official session would reject a whole listing
  because of one invalid schema, and a whole result because of one invalid block.
- A server of an older protocol may exit when it receives the newer handshake. It is then restarted with the older one.
- The listing is kept current: servers announce changes, each in the way of its protocol version.
- A server's error text could contain terminal control characters, or a secret that it was given. Both are removed
  before it is shown.
- Requests of the server to its client (sampling, elicitation, roots) are answered with "not supported".
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    Implementation,
    PaginatedRequestParams,
    Result,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace
from pydantic import ValidationError

from toolwire.errors import ServerUnavailable, UnknownTool
from toolwire.mcp.content import decode_result, decode_tool
from toolwire.mcp.handshake import initialize, shake_hands
from toolwire.mcp.process import Child
from toolwire.mcp.targets import Http, Stdio, Terms, own_version
from toolwire.mcp.web import http_streams
from toolwire.types import Tool, ToolCall, ToolResult
from toolwire.waiting.results import FAILED, failure, safe

logger: logging.Logger = logging.getLogger("toolwire.mcp")
_ANSWER = "toolwire/answer"
_MAX_PAGES = 1000
_MAX_TOOLS = 10_000
_END_SECONDS = 0.2
_LIST_AGAIN = 0.1
_LISTEN_AGAIN = 1.0
_LISTEN_AGAIN_AT_MOST = 60.0
_REFUSALS = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS})
PAUSES = (0.0, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
_CLOSE_SECONDS = 2.0
_LOOP_TURNS = 3  # turns of the event loop in which it notices an end that has already happened
_SESSION_TERMINATED = "Session terminated"
_UNKNOWN_TOOL = "unknown tool"


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """A dispatcher that gives the official session a valid placeholder for an answer about tools.

    The raw answer is in the placeholder's `_meta`.
    """

    def __init__(self, read: Any, write: Any, ended: Callable[[], None]) -> None:
        super().__init__(read, write)
        self._ended = ended

    async def run(self, *arguments: Any, **keywords: Any) -> None:
        try:
            await super().run(*arguments, **keywords)
        finally:
            self._ended()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: Any = None, **rest: Any
    ) -> dict[str, Any]:
        answer = await super().send_raw_request(method, params, opts, **rest)
        if method == "tools/call":
            stand_in = {"content": [], "isError": True, "resultType": "complete"}
        elif method == "tools/list":
            stand_in = _readable_listing(answer, PROTOCOL_VERSION_META_KEY in ((params or {}).get("_meta") or {}))
        else:
            return answer
        return {**stand_in, "_meta": {_ANSWER: answer}}


def _answer_of(result: Result) -> dict[str, Any]:
    answer: dict[str, Any] = (result.meta or {})[_ANSWER]
    return answer


def _readable_listing(answer: dict[str, Any], modern: bool) -> dict[str, Any]:
    """Return a placeholder listing with the tools that the session needs for its headers, as far as they are valid."""
    tools = answer.get("tools")
    known = [tool for tool in tools if _is_regular(tool)] if modern and isinstance(tools, list) else []
    return {
        "tools": [{"name": tool["name"], "inputSchema": tool["inputSchema"]} for tool in known],
        **({"nextCursor": answer["nextCursor"]} if isinstance(answer.get("nextCursor"), str) else {}),
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }


def _is_regular(tool: Any) -> bool:
    match tool:
        case {"name": str(), "inputSchema": {"type": "object", **schema}}:
            return isinstance(schema.get("$schema", ""), str)
    return False


class _Connection:
    """One connection. `on_listing` receives each new listing. It is created, used and closed on one loop."""

    def __init__(
        self, target: Stdio | Http, terms: Terms, on_listing: Callable[[tuple[Tool, ...]], None], older: bool = False
    ) -> None:
        self._older = older
        self.died_of_discovery = False
        self._target = target
        self._terms = terms
        self._on_listing = on_listing
        self._child = Child(target, terms.max_message) if isinstance(target, Stdio) else None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._changed = asyncio.Event()
        self._problem = ""
        self._calls = 0
        self._is_leaving = False
        self._session: ClientSession
        self._task: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        ended = self._is_leaving or self._ended.is_set() or (self._child and self._child.gone)
        return self._ready.done() and not ended

    @property
    def ended(self) -> bool:
        return self._task is not None and self._task.done()

    async def open(self) -> None:
        self._task = asyncio.create_task(self._live())
        await self._ready

    async def close(self) -> None:
        """End the connection and wait until its task and process have ended."""
        self._ended.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    def leave(self) -> None:
        """Accept no more calls, and end when the running ones have ended."""
        self._is_leaving = True
        if not self._calls:
            self._ended.set()

    async def end_reason(self) -> str | None:
        """Return how the connection ended, or None if it did not.

        Wait a moment, because the end may not be known yet.
        """
        with anyio.move_on_after(_END_SECONDS):
            await self._ended.wait()
        if self.alive or self._task is None:
            return None
        await asyncio.wait([self._task], timeout=1)
        return self._target.safe_text(
            "; ".join(filter(None, (self._child.end_reason if self._child else "", self._problem)))
        )

    async def _live(self) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                streams = self._child.streams() if self._child else http_streams(self._http, self._terms)
                dispatcher = _Dispatcher(*await stack.enter_async_context(streams), self._ended.set)
                self._session = await stack.enter_async_context(
                    ClientSession(
                        dispatcher=dispatcher,
                        client_info=Implementation(name="toolwire", version=own_version()),
                        message_handler=self._on_message,
                    )
                )
                try:
                    await self._serve()
                finally:
                    if self._child and not self._ready.done():
                        self._child.grace = 0.0
        except Exception as problem:  # noqa: BLE001 - any error is reported to the callers that wait
            self._problem = _error_text(problem, self._terms)
        finally:
            self._ended.set()
            if not self._ready.done():
                reason = "; ".join(filter(None, (self._problem, self._child.end_reason if self._child else "")))
                label = self._target.label
                self._ready.set_exception(
                    ServerUnavailable(f"{label} cannot be used: {self._target.safe_text(reason) or 'it ended at once'}")
                )

    @property
    def _http(self) -> Http:
        assert isinstance(self._target, Http)  # noqa: S101 - the only other kind of target
        return self._target

    async def _serve(self) -> None:
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                await self._ended.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            with anyio.fail_after(self._terms.connect_timeout):
                await self._shake_hands()
                self._on_listing(await self.list_tools())
            self._ready.set_result(None)
            tasks.start_soon(self._follow_changes)
            tasks.start_soon(self._listen)

    async def _shake_hands(self) -> None:
        """Agree on a protocol. A server of an older one may exit when it receives the newer handshake."""
        if self._older:
            await initialize(self._session)
            return
        try:
            await shake_hands(self._session, self._has_died, self._terms.connect_timeout)
        except BaseException:  # the end of the process cancels this as well
            self.died_of_discovery = self._has_died()
            raise

    def _has_died(self) -> bool:
        return self._child is not None and self._child.gone

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the tools of all pages."""
        tools: list[Tool] = []
        cursor, cursors = None, set[str]()
        while len(cursors) < _MAX_PAGES and len(tools) < _MAX_TOOLS:
            page = await self._session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
            answer = _answer_of(page)
            tools += self._read_page(answer, {tool.name for tool in page.tools})
            cursor = answer.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return self._first_of_each_name(tools)
            if cursor in cursors:
                break
            cursors.add(cursor)
        logger.warning("%s lists tools without end: the first %d are used", self._target.label, len(tools))
        return self._first_of_each_name(tools[:_MAX_TOOLS])

    def _first_of_each_name(self, tools: list[Tool]) -> tuple[Tool, ...]:
        """Drop each tool whose name is a duplicate: it could not be called."""
        first: dict[str, Tool] = {}
        for tool in tools:
            if first.setdefault(tool.name, tool) is not tool:
                logger.warning("%s lists %r more than once: the first is used", self._target.label, tool.name)
        return tuple(first.values())

    def _read_page(self, answer: dict[str, Any], accepted: set[str]) -> list[Tool]:
        """Return the tools of a page, without those that the session dropped by the protocol's rules."""
        tools = answer.get("tools")
        tools_of_page = []
        for on_listing in tools if isinstance(tools, list) else ():
            tool = decode_tool(on_listing)
            if tool is None:
                logger.warning("%s lists a tool without a name: it is skipped", self._target.label)
            elif tool.name in accepted or not (self._is_modern and _is_regular(on_listing)):
                tools_of_page.append(tool)
        return tools_of_page

    @property
    def _is_modern(self) -> bool:
        return self._session.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and return the raw answer. Raise MCPError if there is none."""
        self._calls += 1
        try:
            return _answer_of(await self._session.call_tool(name, arguments, allow_input_required=True))
        finally:
            self._calls -= 1
            if self._is_leaving:
                self.leave()

    async def refresh(self) -> None:
        with anyio.fail_after(self._terms.connect_timeout):
            self._on_listing(await self.list_tools())

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed.set()

    async def _follow_changes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.refresh()
            except (MCPError, ValidationError, TimeoutError, RuntimeError) as problem:
                logger.warning(
                    "%s could not list its new tools: %s", self._target.label, self._target.safe_text(str(problem))
                )
            await anyio.sleep(_LIST_AGAIN)

    async def _listen(self) -> None:
        """Subscribe to changes of the tools, if the protocol version needs a subscription."""
        capabilities = self._session.server_capabilities
        tools = None if capabilities is None else capabilities.tools
        pause = _LISTEN_AGAIN
        while self._is_modern and tools is not None and tools.list_changed:
            try:
                async with listen(self._session, tools_list_changed=True) as changes:
                    pause = _LISTEN_AGAIN
                    self._changed.set()
                    async for _ in changes:
                        self._changed.set()
            except MCPError as problem:
                if problem.code in _REFUSALS:
                    return
            except (SubscriptionLost, TimeoutError):
                logger.debug("%s lost a subscription", self._target.label)
            await anyio.sleep(pause)
            pause = min(2 * pause, _LISTEN_AGAIN_AT_MOST)


def _is_session_lost(problem: MCPError) -> bool:
    return problem.code == INVALID_REQUEST and problem.message == _SESSION_TERMINATED


def _error_text(problem: BaseException, terms: Terms) -> str:
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    if isinstance(problem, TimeoutError):
        return f"it did not answer within {terms.connect_timeout:g} s"
    return str(problem) or type(problem).__name__


class ServerConnection:
    """The state of a server: its tools, its connection if there is one, and its consecutive failures."""

    def __init__(self, target: Stdio | Http, terms: Terms) -> None:
        self.tools: tuple[Tool, ...] | None = None
        self._target = target
        self._terms = terms
        self._connection: _Connection | None = None
        self._ending: list[_Connection] = []
        self._opening: asyncio.Task[_Connection] | None = None
        self._older = False
        self._starts = 0
        self._not_before = 0.0
        self._closed = False
        self._calls: set[asyncio.Task[Any] | None] = set()

    async def connected(self) -> _Connection:
        """Return a live connection. Concurrent callers wait for the same one."""
        for _ in range(_LOOP_TURNS):
            await asyncio.sleep(0)
        if self._connection is not None and self._connection.alive:
            return self._connection
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._opening)

    async def _open(self) -> _Connection:
        if self._closed:
            raise ServerUnavailable(f"{self._target.label} was closed")
        now = asyncio.get_running_loop().time()
        if now < self._not_before:
            raise ServerUnavailable(
                f"{self._target.label} failed {self._starts} times in a row: the next attempt is"
                f" in {self._not_before - now:.1f} s at the earliest"
            )
        self._starts += 1
        self._not_before = now + PAUSES[min(self._starts, len(PAUSES) - 1)]
        self._ending = [one for one in (*self._ending, self._connection) if one and not one.ended]
        self._connection = _Connection(self._target, self._terms, self._store_tools, self._older)
        try:
            await self._connection.open()
        except ServerUnavailable:
            if not self._connection.died_of_discovery or self._closed:
                raise
            self._connection = _Connection(self._target, self._terms, self._store_tools, older=True)
            await self._connection.open()
            self._older = True
        return self._connection

    def _store_tools(self, tools: tuple[Tool, ...]) -> None:
        added = {"parallel": True} if self._terms.parallel else {}
        self.tools = tuple(replace(tool, metadata=tool.metadata | added) for tool in tools) if added else tools

    async def refresh(self) -> None:
        """List the tools again. Raise ServerUnavailable if that fails."""
        connection = await self.connected()
        try:
            await connection.refresh()
        except TimeoutError:
            detail = "it took too long"
        except MCPError as problem:
            if _is_session_lost(problem):
                connection.leave()
                await self.connected()
                return
            detail = self._target.safe_text(str(problem))
        else:
            return
        raise ServerUnavailable(f"{self._target.label} could not list its tools: {detail}")

    async def close(self) -> None:
        """End the connection, or the attempt to open one, for good."""
        self._closed = True
        for connection in (*self._ending, self._connection):
            if connection is not None:
                await connection.close()
        tasks = [task for task in (self._opening, *self._calls) if task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)

    async def call(self, call: ToolCall) -> ToolResult:
        """Run a call on the server and return its result. Raise UnknownTool if the server has no such tool."""
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
            raise UnknownTool(call.name, map(safe, self._names()))
        try:
            async with asyncio.timeout(self._terms.timeout):
                return decode_result(await self._ask(connection, call), call)
        except TimeoutError:
            return failure(call, f"{FAILED}it took longer than {self._terms.timeout:g} s")
        except MCPError as problem:
            return await self._failed(problem, connection, call)
        except Exception as problem:
            logger.exception("a call of %s failed", self._target.label)
            return failure(call, f"{FAILED}{self._target.safe_text(str(problem)) or type(problem).__name__}")

    async def _ask(self, connection: _Connection, call: ToolCall) -> dict[str, Any]:
        try:
            answer = await connection.call(call.name, call.plain_arguments)
        except MCPError as problem:
            if _is_session_lost(problem) and isinstance(self._target, Http):
                connection.leave()
            elif problem.code == HEADER_MISMATCH:
                await connection.refresh()
            else:
                raise
            answer = await (await self.connected()).call(call.name, call.plain_arguments)
        self._starts, self._not_before = 0, 0.0
        return answer

    async def _failed(self, problem: MCPError, connection: _Connection, call: ToolCall) -> ToolResult:
        reason = await connection.end_reason() if problem.code == CONNECTION_CLOSED else None
        if reason is not None:
            ended = f"{self._target.label} ended during the call, which may have had effects"
            return failure(call, f"{FAILED}{ended}{f' ({reason})' if reason else ''}")
        self._starts, self._not_before = 0, 0.0
        if problem.code == INVALID_PARAMS and problem.message.lower().startswith(_UNKNOWN_TOOL):
            raise UnknownTool(call.name, [safe(name) for name in self._names() if name != call.name])
        return failure(call, f"{FAILED}{self._target.safe_text(problem.message)}")

    def _names(self) -> list[str]:
        return [tool.name for tool in self.tools or ()]
