"""Any MCP server as a resolver, from sync and async code.

Rules of this file:
- The session lives on an event loop in a thread of its own; a caller's loop is never blocked by a call. The
  listing is plain: it connects at its first use, and in async code `async with` does that before.
- Arguments are not validated here: the server does that, by the schema that it may have changed meanwhile.
- The context of a session is not sent: it stays with the host.
- `close` ends the server's process and the thread; what is not closed is closed when nobody uses it any more,
  and when the program ends.
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
PATIENCE = 15.0  # seconds until a thread that does not end is left behind


class _LineThread:
    """The line to a server, and the daemon thread with the event loop on which it runs.

    It is kept beside the resolver, so that it can be closed when nobody uses the resolver any more.
    """

    def __init__(self, target: Stdio | Http, terms: Terms) -> None:
        self.line: Any = None
        self._target = target
        self._terms = terms
        self._lock = threading.Lock()
        self._closed = False
        self._over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread | None = None

    def begin(self, method: str, *arguments: Any) -> "concurrent.futures.Future[Any]":
        """Begin something on the line, in its thread, which begins with its first use."""
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
        except RuntimeError:  # something ended the loop
            work.close()
            raise

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._over.wait())

    async def _do(self, method: str, *arguments: Any) -> Any:
        if self.line is None:
            from toolwire.mcp.connection import Line  # noqa: PLC0415 - it needs the official package, which takes its time

            self.line = Line(self._target, self._terms)
        return await getattr(self.line, method)(*arguments)

    async def _end(self) -> None:
        try:
            await self._do("close")
        finally:
            self._over.set()

    def close(self) -> None:
        """End the connection and the thread; nothing is raised, and a thread that hangs is left behind."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            with contextlib.suppress(RuntimeError):
                self._submit(self._end())
            if threading.current_thread() is not thread:
                thread.join(PATIENCE)


class McpResolver(Resolver):
    """The tools of an MCP server; made by `stdio` and `http`."""

    def __init__(self, target: Stdio | Http, terms: Terms | None = None) -> None:
        need_official("to use the tools of MCP servers")
        self.target = target
        self._thread = _LineThread(target, terms or Terms())
        self._finalizer = weakref.finalize(self, self._thread.close)

    def __repr__(self) -> str:
        return f"McpResolver({self.target!r})"

    def connect(self) -> Self:
        """Connect, and list the tools, if that was not done; raises ServerUnavailable."""
        _wait(self._thread.begin("connected"))
        return self

    async def aconnect(self) -> Self:
        """Connect without blocking the event loop."""
        await asyncio.wrap_future(self._thread.begin("connected"))
        return self

    def refresh(self) -> None:
        """List the tools anew; servers that tell of changes need no such call."""
        _wait(self._thread.begin("refresh"))

    def close(self) -> None:
        """End the session, the server's process and the thread; it cannot be used again."""
        self._finalizer.detach()
        self._thread.close()

    async def aclose(self) -> None:
        """Close without blocking the event loop."""
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
        """List the tools, as the server last listed them; the first time, that connects."""
        if self._tools() is None:
            self.connect()
        return list(self._tools() or ())

    def _tools(self) -> tuple[Tool, ...] | None:
        line = self._thread.line
        return None if line is None else line.tools

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
        begun = self._thread.begin("call", call)
        return asyncio.wrap_future(begun) if is_loop_running() else _wait(begun)

    async def _acall(self, call: ToolCall) -> ToolResult:
        return await asyncio.wrap_future(self._thread.begin("call", call))


def _wait(begun: "concurrent.futures.Future[T]") -> T:
    """Wait for what was begun; who stops waiting stops it."""
    try:
        return begun.result()
    except BaseException:
        begun.cancel()
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
    """Use an MCP server that is started as a process; `terms` are those of `Terms`.

    Of this program's environment it gets what the official client gives any server (path, home and user), and
    `env`.
    """
    if isinstance(args, str):
        raise InvalidField("args", "must be a list of strings, not a string", path="mcp.stdio")
    folder = None if cwd is None else os.fspath(cwd)
    return McpResolver(Stdio(command, tuple(map(str, args)), dict(env or {}), folder), Terms(**terms))


def http(url: str, *, headers: Mapping[str, str] | None = None, **terms: Any) -> McpResolver:
    """Use an MCP server that is reached by streamable HTTP; `terms` are those of `Terms`."""
    if not url.startswith(("http://", "https://")):
        raise InvalidField("url", "must begin with http:// or https://", path="mcp.http")
    return McpResolver(Http(url, dict(headers or {})), Terms(**terms))
