"""The line to an MCP server, and the connections that it has one after the other; all on one event loop.

Rules of this file:
- A line connects when it is needed, and again when its connection ended. A call that was under way when it ended
  is an error, and is never repeated: it may have had effects. One that the server says it did not begin is
  repeated once.
- A server that ends again and again without an answer is started ever more rarely; in between, calls fail at
  once, and say when it is tried again.
- What the server says of tools and results is read by this package, from the answer as it came: the official
  session refuses a whole listing for one odd schema, and a whole result for one odd block.
- A server of an older protocol may end when it is asked the newer way: it is started again, and asked the older way.
- The listing is kept up to date: the server tells when it changed, in the way of its protocol's era.
- What a server says of its failures could steer a terminal, or repeat a secret that it was given: it is written so
  that it does neither.
- A server that asks its client for something (sampling, elicitation, roots) is told that nobody gives it.
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
_MOMENT = 0.2
_LIST_AGAIN = 0.1
_LISTEN_AGAIN = 1.0
_LISTEN_AGAIN_AT_MOST = 60.0
_REFUSALS = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS})
PAUSES = (0.0, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
_PARTING = 2.0
_TURNS = 3  # of the event loop, in which it notices an end that has happened already
_FORGOTTEN = "Session terminated"
_UNKNOWN = "unknown tool"


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """Hands the session what it takes without fault in the place of an answer about tools, which goes along."""

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
    """Give the session the schemas that it makes headers from, as far as it takes them."""
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
    """A connection; `listed` is told each new listing. It is made, used and closed on one loop."""

    def __init__(
        self, target: Stdio | Http, terms: Terms, listed: Callable[[tuple[Tool, ...]], None], older: bool = False
    ) -> None:
        self._older = older
        self.died_of_discovery = False
        self._target = target
        self._terms = terms
        self._listed = listed
        self._child = Child(target, terms.max_message) if isinstance(target, Stdio) else None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._changed = asyncio.Event()
        self._problem = ""
        self._calls = 0
        self._left = False
        self._session: ClientSession
        self._task: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        ended = self._left or self._over.is_set() or (self._child and self._child.gone)
        return self._ready.done() and not ended

    @property
    def ended(self) -> bool:
        return self._task is not None and self._task.done()

    async def open(self) -> None:
        self._task = asyncio.create_task(self._live())
        await self._ready

    async def close(self) -> None:
        """End the connection, and wait until all that belongs to it has ended."""
        self._over.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    def leave(self) -> None:
        """Take no more calls, and end when those that are under way have ended."""
        self._left = True
        if not self._calls:
            self._over.set()

    async def fate(self) -> str | None:
        """Say how it ended, None if it did not; a moment is waited for what is not known yet."""
        with anyio.move_on_after(_MOMENT):
            await self._over.wait()
        if self.alive or self._task is None:
            return None
        await asyncio.wait([self._task], timeout=1)
        return self._target.told("; ".join(filter(None, (self._child.fate if self._child else "", self._problem))))

    async def _live(self) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                streams = self._child.streams() if self._child else http_streams(self._http, self._terms)
                dispatcher = _Dispatcher(*await stack.enter_async_context(streams), self._over.set)
                self._session = await stack.enter_async_context(
                    ClientSession(
                        dispatcher=dispatcher,
                        client_info=Implementation(name="toolwire", version=own_version()),
                        message_handler=self._hear,
                    )
                )
                try:
                    await self._serve()
                finally:
                    if self._child and not self._ready.done():
                        self._child.grace = 0.0
        except Exception as problem:  # noqa: BLE001 - whatever ends a connection is told to those who wait for it
            self._problem = _words_of(problem, self._terms)
        finally:
            self._over.set()
            if not self._ready.done():
                reason = "; ".join(filter(None, (self._problem, self._child.fate if self._child else "")))
                label = self._target.label
                self._ready.set_exception(
                    ServerUnavailable(f"{label} cannot be used: {self._target.told(reason) or 'it ended at once'}")
                )

    @property
    def _http(self) -> Http:
        assert isinstance(self._target, Http)  # noqa: S101 - there are two kinds of targets
        return self._target

    async def _serve(self) -> None:
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                await self._over.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            with anyio.fail_after(self._terms.connect_timeout):
                await self._shake_hands()
                self._listed(await self.list_tools())
            self._ready.set_result(None)
            tasks.start_soon(self._keep_listing)
            tasks.start_soon(self._listen)

    async def _shake_hands(self) -> None:
        """Agree on a protocol; a server of an older one may end when it is asked the newer way."""
        if self._older:
            await initialize(self._session)
            return
        try:
            await shake_hands(self._session, self._has_died, self._terms.connect_timeout)
        except BaseException:  # the end of the process also cancels this
            self.died_of_discovery = self._has_died()
            raise

    def _has_died(self) -> bool:
        return self._child is not None and self._child.gone

    async def list_tools(self) -> tuple[Tool, ...]:
        """List the tools, of all pages."""
        tools: list[Tool] = []
        cursor, seen = None, set[str]()
        while len(seen) < _MAX_PAGES and len(tools) < _MAX_TOOLS:
            page = await self._session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
            answer = _answer_of(page)
            tools += self._read_page(answer, {tool.name for tool in page.tools})
            cursor = answer.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return self._first_of_each_name(tools)
            if cursor in seen:
                break
            seen.add(cursor)
        logger.warning("%s lists tools without end: %d are taken", self._target.label, len(tools))
        return self._first_of_each_name(tools[:_MAX_TOOLS])

    def _first_of_each_name(self, tools: list[Tool]) -> tuple[Tool, ...]:
        """Leave out what nobody could call: a second tool of a name."""
        first: dict[str, Tool] = {}
        for tool in tools:
            if first.setdefault(tool.name, tool) is not tool:
                logger.warning("%s lists %r more than once: the first is taken", self._target.label, tool.name)
        return tuple(first.values())

    def _read_page(self, answer: dict[str, Any], taken: set[str]) -> list[Tool]:
        """Read the tools of a page; those that the session dropped by the protocol's rules are dropped."""
        tools = answer.get("tools")
        kept = []
        for listed in tools if isinstance(tools, list) else ():
            tool = decode_tool(listed)
            if tool is None:
                logger.warning("%s lists a tool without a name, which is left out", self._target.label)
            elif tool.name in taken or not (self._is_modern and _is_regular(listed)):
                kept.append(tool)
        return kept

    @property
    def _is_modern(self) -> bool:
        return self._session.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool, and give the answer as it came; MCPError if there is none."""
        self._calls += 1
        try:
            return _answer_of(await self._session.call_tool(name, arguments, allow_input_required=True))
        finally:
            self._calls -= 1
            if self._left:
                self.leave()

    async def refresh(self) -> None:
        with anyio.fail_after(self._terms.connect_timeout):
            self._listed(await self.list_tools())

    async def _hear(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed.set()

    async def _keep_listing(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.refresh()
            except (MCPError, ValidationError, TimeoutError, RuntimeError) as problem:
                logger.warning(
                    "%s could not list its new tools: %s", self._target.label, self._target.told(str(problem))
                )
            await anyio.sleep(_LIST_AGAIN)

    async def _listen(self) -> None:
        """Ask to be told when the tools change, where the protocol wants that."""
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


def _is_forgotten(problem: MCPError) -> bool:
    return problem.code == INVALID_REQUEST and problem.message == _FORGOTTEN


def _words_of(problem: BaseException, terms: Terms) -> str:
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    if isinstance(problem, TimeoutError):
        return f"it did not answer within {terms.connect_timeout:g} s"
    return str(problem) or type(problem).__name__


class Line:
    """What is known of a server: its tools, its connection if there is one, its failures in a row."""

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
        """Give a connection that lives; all who want one wait for the same."""
        for _ in range(_TURNS):
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
                f"{self._target.label} failed {self._starts} times in a row: it is tried again"
                f" in {self._not_before - now:.1f} s at the earliest"
            )
        self._starts += 1
        self._not_before = now + PAUSES[min(self._starts, len(PAUSES) - 1)]
        self._ending = [one for one in (*self._ending, self._connection) if one and not one.ended]
        self._connection = _Connection(self._target, self._terms, self._take, self._older)
        try:
            await self._connection.open()
        except ServerUnavailable:
            if not self._connection.died_of_discovery or self._closed:
                raise
            self._connection = _Connection(self._target, self._terms, self._take, older=True)
            await self._connection.open()
            self._older = True
        return self._connection

    def _take(self, tools: tuple[Tool, ...]) -> None:
        added = {"parallel": True} if self._terms.parallel else {}
        self.tools = tuple(replace(tool, metadata=tool.metadata | added) for tool in tools) if added else tools

    async def refresh(self) -> None:
        """List the tools anew."""
        connection = await self.connected()
        try:
            await connection.refresh()
        except TimeoutError:
            words = "it took too long"
        except MCPError as problem:
            if _is_forgotten(problem):
                connection.leave()
                await self.connected()
                return
            words = self._target.told(str(problem))
        else:
            return
        raise ServerUnavailable(f"{self._target.label} could not list its tools: {words}")

    async def close(self) -> None:
        """End the connection, or the attempt to get one, for good."""
        self._closed = True
        for connection in (*self._ending, self._connection):
            if connection is not None:
                await connection.close()
        left = [task for task in (self._opening, *self._calls) if task is not None]
        if left:
            await asyncio.wait(left, timeout=_PARTING)

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
            return failure(call, f"{FAILED}{self._target.told(str(problem)) or type(problem).__name__}")

    async def _ask(self, connection: _Connection, call: ToolCall) -> dict[str, Any]:
        try:
            answer = await connection.call(call.name, call.plain_arguments)
        except MCPError as problem:
            if _is_forgotten(problem) and isinstance(self._target, Http):
                connection.leave()
            elif problem.code == HEADER_MISMATCH:
                await connection.refresh()
            else:
                raise
            answer = await (await self.connected()).call(call.name, call.plain_arguments)
        self._starts, self._not_before = 0, 0.0
        return answer

    async def _failed(self, problem: MCPError, connection: _Connection, call: ToolCall) -> ToolResult:
        fate = await connection.fate() if problem.code == CONNECTION_CLOSED else None
        if fate is not None:
            ended = f"{self._target.label} ended during the call, which may have had effects"
            return failure(call, f"{FAILED}{ended}{f' ({fate})' if fate else ''}")
        self._starts, self._not_before = 0, 0.0
        if problem.code == INVALID_PARAMS and problem.message.lower().startswith(_UNKNOWN):
            raise UnknownTool(call.name, [safe(name) for name in self._names() if name != call.name])
        return failure(call, f"{FAILED}{self._target.told(problem.message)}")

    def _names(self) -> list[str]:
        return [tool.name for tool in self.tools or ()]
