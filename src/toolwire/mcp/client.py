"""Any MCP server as a resolver, for sync and async code.

Rules of this file:
- The session runs on an event loop in its own thread, so that a call never blocks the caller's loop. `available_tools`
  is sync: its first use connects. In async code, `async with` connects before that.
- Arguments are not validated here. The server validates them, by a schema that may have changed since the listing.
- The context of a session is not sent to the server.
- `close` ends the server's process and the thread. Without it, both end when the resolver is no longer used, or when
  the program ends.
"""

import asyncio
import concurrent.futures
import contextlib
import json
import os
import threading
import weakref
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar

from toolwire.errors import InvalidField, ServerUnavailable, UnknownTool
from toolwire.mcp.targets import Http, Stdio, Terms, need_official
from toolwire.resolvers.protocol import Resolver
from toolwire.types import Tool, ToolCall, ToolResult
from toolwire.waiting.results import FAILED, failure, invalid, safe
from toolwire.waiting.steps import Ask, Work, is_loop_running

T = TypeVar("T")
_JOIN_SECONDS = 15.0  # how long `close` waits for the thread


class _ServerThread:
    """The connection to a server, and the daemon thread with the event loop that it runs on.

    It is separate from the resolver, so that it can be closed when the resolver is garbage.
    """

    def __init__(self, target: Stdio | Http, terms: Terms) -> None:
        self.connection: Any = None
        self._target = target
        self._terms = terms
        self._lock = threading.Lock()
        self._closed = False
        self._ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread | None = None

    def begin(self, method: str, *arguments: Any) -> "concurrent.futures.Future[Any]":
        """Start `method` of the connection in its thread and return the future. The first use starts the thread."""
        with self._lock:
            if self._closed:
                raise ServerUnavailable(f"{self._target.label} was closed")
            if self._thread is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, name="toolwire-mcp", daemon=True)
                self._thread.start()
            return self._submit(self._do(method, *arguments))

    def _submit(self, work: Coroutine[Any, Any, Any]) -> "concurrent.futures.Future[Any]":
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop was ended elsewhere
            work.close()
            raise

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._ended.wait())

    async def _do(self, method: str, *arguments: Any) -> Any:
        if self.connection is None:
            from toolwire.mcp.connection import ServerConnection  # noqa: PLC0415 - it imports the official package, which is slow

            self.connection = ServerConnection(self._target, self._terms)
        return await getattr(self.connection, method)(*arguments)

    async def _end(self) -> None:
        try:
            await self._do("close")
        finally:
            self._ended.set()

    def close(self) -> None:
        """End the connection and the thread. No exception is raised, and a thread that does not end is abandoned."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            with contextlib.suppress(RuntimeError):
                self._submit(self._end())
            if threading.current_thread() is not thread:
                thread.join(_JOIN_SECONDS)


class McpResolver(Resolver):
    """The tools of an MCP server. `stdio` and `http` create one."""

    def __init__(self, target: Stdio | Http, terms: Terms | None = None) -> None:
        need_official("to use the tools of MCP servers")
        self.target = target
        self._thread = _ServerThread(target, terms or Terms())
        self._finalizer = weakref.finalize(self, self._thread.close)

    def __repr__(self) -> str:
        return f"McpResolver({self.target!r})"

    def connect(self) -> Self:
        """Connect and list the tools if that was not done yet. Raise ServerUnavailable if it fails."""
        _wait(self._thread.begin("connected"))
        return self

    async def aconnect(self) -> Self:
        """Do what `connect` does, without blocking the event loop."""
        await asyncio.wrap_future(self._thread.begin("connected"))
        return self

    def refresh(self) -> None:
        """List the tools again. This is not needed for servers that announce changes."""
        _wait(self._thread.begin("refresh"))

    def close(self) -> None:
        """End the session, the server's process and the thread. The resolver cannot be used again."""
        self._finalizer.detach()
        self._thread.close()

    async def aclose(self) -> None:
        """Do what `close` does, without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        try:
            return self.connect()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *problem: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        try:
            return await self.aconnect()
        except BaseException:
            await self.aclose()
            raise

    async def __aexit__(self, *problem: object) -> None:
        await self.aclose()

    def available_tools(self) -> list[Tool]:
        """Return the tools of the server's last listing. The first call connects."""
        if self._tools() is None:
            self.connect()
        return list(self._tools() or ())

    def _tools(self) -> tuple[Tool, ...] | None:
        connection = self._thread.connection
        return None if connection is None else connection.tools

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        """Run a call on the server, as steps."""
        del context
        tools = self._tools()
        if tools is not None and all(tool.name != call.name for tool in tools):
            raise UnknownTool(call.name, [safe(tool.name) for tool in tools])
        problems = _problems(call)
        if problems:
            return invalid(call, problems)
        try:
            return (yield Ask(self._call, (call,), {}, self._acall))  # type: ignore[no-any-return]
        except (ServerUnavailable, RuntimeError, concurrent.futures.CancelledError) as problem:
            return failure(call, f"{FAILED}{problem or 'it was closed during the call'}")

    def _call(self, call: ToolCall) -> ToolResult | Awaitable[ToolResult]:
        future = self._thread.begin("call", call)
        return asyncio.wrap_future(future) if is_loop_running() else _wait(future)

    async def _acall(self, call: ToolCall) -> ToolResult:
        return await asyncio.wrap_future(self._thread.begin("call", call))


def _wait(future: "concurrent.futures.Future[T]") -> T:
    """Return the result of `future`. An interrupted wait cancels it."""
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _problems(call: ToolCall) -> list[str]:
    if not call.runs:
        return [call.error or "they were cut off"]
    if call.custom:
        return ["the tool takes a JSON object"]
    try:
        json.dumps([call.name, call.plain_arguments], ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        return [f"they are not JSON: {problem}"]
    return []


def stdio(
    command: str,
    args: Sequence[str] = (),
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    **terms: Any,
) -> McpResolver:
    """Return a resolver for an MCP server that is started as a process: `command` with `args`, in the folder `cwd`.

    The process inherits the variables that the official client passes to any server (path, home and user), and `env`.
    `terms` are the fields of `Terms`. Raise InvalidField if `args` is a string.
    """
    if isinstance(args, str):
        raise InvalidField("args", "must be a list of strings, not a string", path="mcp.stdio")
    folder = None if cwd is None else os.fspath(cwd)
    return McpResolver(Stdio(command, tuple(map(str, args)), dict(env or {}), folder), Terms(**terms))


def http(url: str, *, headers: Mapping[str, str] | None = None, **terms: Any) -> McpResolver:
    """Return a resolver for the MCP server at `url`, over streamable HTTP. `terms` are the fields of `Terms`.

    `headers` are sent with each request. Raise InvalidField if `url` is not an HTTP URL.
    """
    if not url.startswith(("http://", "https://")):
        raise InvalidField("url", "must begin with http:// or https://", path="mcp.http")
    return McpResolver(Http(url, dict(headers or {})), Terms(**terms))
