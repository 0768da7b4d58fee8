"""Any resolver as an MCP server: over standard input and output, by streamable HTTP, or mounted by a host.

Rules of this file:
- Calls run as everywhere else, with the recipes, limits and errors of `execution`. Only listed tools can be called, and
  a call whose arguments came under another name does not run without them.
- The tools are listed again for each request. A tool that the protocol does not accept is listed with less, so that the
  others stay usable.
- While the server uses standard output, nothing else is written to it: prints of tools go to standard error. Standard
  input is read in a thread that can be abandoned, so that an interrupt ends the program. A request that cannot be
  parsed is answered with an error.
- There is no authentication. A host that needs it mounts `server_of` behind its own.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from typing import Any, Literal

from msgspec.structs import replace

from toolwire.encoding.calls import find_misplaced_arguments
from toolwire.errors import InvalidField, InvalidSchema, UnknownTool
from toolwire.mcp.content import TEXT, encode_result, encode_tool, metadata_value, minimal_tool, without_opaque
from toolwire.mcp.targets import MAX_MESSAGE, HttpLimits, need_official, own_version
from toolwire.resolvers import AnyResolver
from toolwire.resolvers.execution import Limits, aexecute
from toolwire.resolvers.protocol import tools_of
from toolwire.resolvers.reading import Tools, runnable_of
from toolwire.resolvers.session import prepare
from toolwire.schema.validator import Validator
from toolwire.types import Text, Tool, ToolCall, ToolResult

logger: logging.Logger = logging.getLogger("toolwire.mcp")
_LISTING_FIELDS = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
Transport = Literal["stdio", "http"]
_QUEUE_SIZE = 64


class _ResolverHandlers:
    """The request handlers of a resolver; the tools are listed again for each request."""

    def __init__(self, resolver: Any, names: Collection[str] | None, context: Any, limits: Limits) -> None:
        if isinstance(names, str):
            raise InvalidField("names", "must be a list of names, not a string", path="mcp.serve")
        self.resolver = runnable_of(resolver, "mcp.serve")
        self.names = None if names is None else frozenset(names)
        self.context = context
        self.limits = limits

    def prepare(self) -> tuple[list[Tool], Any]:
        names = self.names
        if names is None:
            names = frozenset(tool.name for tool in tools_of(self.resolver))
        return prepare(self.resolver, names, self.context)

    async def prepared(self) -> tuple[list[Tool], Any]:
        """Return the tools and the session that resolves their calls.

        It runs in a thread, because a resolver may block.
        """
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - the extra may be absent
        from mcp_types import INTERNAL_ERROR  # noqa: PLC0415 - the extra may be absent

        try:
            return await asyncio.to_thread(self.prepare)
        except Exception as problem:
            logger.exception("the tools could not be listed")
            raise MCPError(INTERNAL_ERROR, "the tools could not be listed") from problem

    async def list_tools(self, request: Any, _params: Any) -> dict[str, Any]:
        tools, _ = await self.prepared()
        listed = _fitting([encode_tool(tool) for tool in tools], request.protocol_version)
        return {"tools": listed, **_LISTING_FIELDS}

    async def call_tool(self, request: Any, params: Any) -> dict[str, Any]:
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - the extra may be absent
        from mcp_types import INVALID_PARAMS  # noqa: PLC0415 - the extra may be absent

        tools, session = await self.prepared()
        tool = next((tool for tool in tools if tool.name == params.name), None)
        if tool is None:
            raise MCPError(INVALID_PARAMS, str(UnknownTool(params.name, [tool.name for tool in tools])))
        call = _call_of(tool, params.arguments or {}, str(request.request_id))
        if not params.arguments and (problem := find_misplaced_arguments(params.model_extra)):
            call = replace(call, error=problem)
        [result] = await aexecute([call], session, tools=tools, limits=self.limits)
        schema = metadata_value(tool, "outputSchema")
        result = result if schema is None or result.is_error else _check_output(result, schema)
        return body_of(result, request.protocol_version, structured=schema is not None)


def _check_output(result: ToolResult, schema: Any) -> ToolResult:
    """Return `result` if it fits the output schema of its tool, otherwise an error.

    Clients drop results that do not fit.
    """
    body = encode_result(result, structured=True)
    value = body.get("structuredContent")
    try:
        if "structuredContent" not in body:
            problems = ["it holds no JSON"]
        elif isinstance(value, dict) or schema.get("type") == "object":
            problems = Validator(schema).problems(value)
        else:
            return result
    except (InvalidSchema, AttributeError):
        return result
    notes = [Text(f"The result does not fit the tool's output schema: {'; '.join(problems)}")] if problems else []
    parts = [Text(result.content)] if isinstance(result.content, str) else result.content
    return replace(result, content=[*parts, *notes], is_error=True) if notes else result


def _call_of(tool: Tool, arguments: dict[str, Any], call_id: str) -> ToolCall:
    text = arguments.get(TEXT)
    if tool.custom and isinstance(text, str):
        return ToolCall(call_id, tool.name, raw=text, custom=True)
    return ToolCall(call_id, tool.name, arguments)


def body_of(result: ToolResult, protocol: str, *, structured: bool = False) -> dict[str, Any]:
    """Return the body of a result for a protocol version, if necessary without another server's opaque fields."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS  # noqa: PLC0415 - the extra may be absent

    body = encode_result(result, structured=structured)
    if protocol not in MODERN_PROTOCOL_VERSIONS and not isinstance(body.get("structuredContent", {}), dict):
        del body["structuredContent"]
    return body if _fits("tools/call", "content", body, protocol) else encode_result(without_opaque(result))


def _fitting(listed: list[dict[str, Any]], protocol: str) -> list[dict[str, Any]]:
    """Return a listing that the protocol accepts. A tool that it does not accept is listed without its schema."""
    if _fits("tools/list", "tools", {"tools": listed, **_LISTING_FIELDS}, protocol):
        return listed
    fitting = []
    for tool in listed:
        fits = _fits("tools/list", "tools", {"tools": [tool], **_LISTING_FIELDS}, protocol)
        if not fits:
            logger.warning("the tool %r is listed without its schema, which MCP does not accept", tool["name"])
        fitting.append(tool if fits else minimal_tool(tool))
    return fitting


def _fits(method: str, field: str, body: dict[str, Any], protocol: str) -> bool:
    """Return True if the protocol accepts a body. A body that it takes for another kind loses its `field`."""
    from mcp_types.methods import serialize_server_result  # noqa: PLC0415 - the extra may be absent
    from pydantic import ValidationError  # noqa: PLC0415 - the extra may be absent

    try:
        return field in serialize_server_result(method, protocol, body)
    except ValidationError:
        return False


def server_of(
    resolver: AnyResolver | Tools,
    *,
    name: str = "toolwire",
    version: str | None = None,
    instructions: str | None = None,
    names: Collection[str] | None = None,
    context: object = None,
    limits: Limits | None = None,
) -> Any:
    """Return the official low-level server (`mcp.server.lowlevel.Server`) of `resolver`, for a host to mount.

    `name`, `version` and `instructions` describe the server to its clients. `names` are the tools to serve, by default
    all. `context` is passed to every call, and `limits` are those of `execute`. Raise MissingExtra without the
    extra `mcp`.
    """
    need_official("to serve tools over MCP")
    from mcp.server.lowlevel import Server  # noqa: PLC0415 - the extra may be absent
    from mcp_types import CallToolRequestParams, PaginatedRequestParams  # noqa: PLC0415 - the extra may be absent

    class Params(CallToolRequestParams, extra="allow"):
        """The parameters of a call with unknown fields, one of which may hold the arguments."""

    handlers = _ResolverHandlers(resolver, names, context, limits or Limits())
    server: Any = Server(name, version=version or own_version(), instructions=instructions)
    server.add_request_handler("tools/list", PaginatedRequestParams, handlers.list_tools)
    server.add_request_handler("tools/call", Params, handlers.call_tool)
    return server


def serve(resolver: AnyResolver | Tools, **options: Any) -> None:
    """Serve `resolver` until the client disconnects or the user interrupts it.

    `resolver` may also be the tools that `generate` accepts. The `options` are those of `aserve`.
    """

    async def main() -> None:
        if options.get("transport") == "http":
            # Optional: Windows has no such handler, and neither has a loop outside of the main thread.
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                stop = asyncio.current_task().cancel  # type: ignore[union-attr]
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        await aserve(resolver, **options)

    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(main())


async def aserve(
    resolver: AnyResolver | Tools,
    *,
    transport: Transport = "stdio",
    host: str = "127.0.0.1",
    port: int = 8000,
    hosts: Collection[str] | None = None,
    ready: Callable[[str], None] | None = None,
    http_limits: HttpLimits | None = None,
    **options: Any,
) -> None:
    """Serve `resolver` over stdio, or at `http://HOST:PORT/mcp`. The other `options` are those of `server_of`.

    `port` 0 is any free port; `ready` is called with the URL. To serve other machines, `hosts` lists the names by which
    clients reach the server: `HOST:PORT`, or `HOST:*`. `http_limits` bounds what clients can occupy. Raise InvalidField
    for an unknown `transport`.
    """
    server = server_of(resolver, **options)
    match transport:
        case "stdio":
            await _serve_stdio(server)
        case "http":
            from toolwire.mcp.listening import serve_http  # noqa: PLC0415 - the extra may be absent

            await serve_http(server, (host, port), hosts, ready, http_limits or HttpLimits())
        case _:
            raise InvalidField("transport", f"must be 'stdio' or 'http', not {transport!r}", path="mcp.serve")


async def _serve_stdio(server: Any) -> None:
    import anyio  # noqa: PLC0415 - the extra may be absent
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 - the extra may be absent

    nothing: Any = _no_lines()  # the official reader does not answer a line that is not a message
    with _reserve_input() as descriptor:
        lines = _InputLines(descriptor)
        to_server, incoming = anyio.create_memory_object_stream[Any](0)
        async with stdio_server(stdin=nothing) as (unread, outgoing), anyio.create_task_group() as tasks:
            unread.close()
            tasks.start_soon(_forward_lines, lines, to_server, outgoing)
            with contextlib.redirect_stdout(sys.stderr):
                await server.run(incoming, outgoing, server.create_initialization_options())
            tasks.cancel_scope.cancel()
            sys.stdout.flush()


async def _no_lines() -> AsyncIterator[bytes]:
    nothing: tuple[bytes, ...] = ()
    for line in nothing:
        yield line


async def _forward_lines(lines: "_InputLines", to_server: Any, outgoing: Any) -> None:
    """Send the messages of the lines to the server. A line that is not a message is answered with an error."""
    import anyio  # noqa: PLC0415 - the extra may be absent

    from toolwire.mcp.lines import read_requests  # noqa: PLC0415 - the extra may be absent

    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with to_server:
            async for line in lines:
                for message, refusal in read_requests(line):
                    if message is not None:
                        await to_server.send(message)
                    elif refusal is not None:
                        logger.warning("a client wrote a line of %d bytes that is not a message", len(line))
                        await outgoing.send(refusal)


@contextlib.contextmanager
def _reserve_input() -> Iterator[int]:
    """Reserve standard input for the protocol: tools and their children read an empty one."""
    original = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    try:
        yield original
    finally:
        os.dup2(original, 0)


class _InputLines:
    """The lines of a descriptor, read in a daemon thread that nothing has to wait for."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUE_SIZE)
        threading.Thread(target=self._read, name="toolwire-mcp-input", daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(RuntimeError):
            for line in _lines_of(self._descriptor):
                self._put(line)
            self._put(None)

    def _put(self, line: bytes | None) -> None:
        """Put a line into the queue. Raise RuntimeError if the loop has ended."""
        work = self._queue.put(line)
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except (RuntimeError, concurrent.futures.CancelledError) as problem:
            work.close()
            raise RuntimeError from problem

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (line := await self._queue.get()) is not None:
            yield line


def _lines_of(descriptor: int) -> Iterator[bytes]:
    """Yield lines until the end, or until a line is too long."""
    pieces: list[bytes] = []
    while sum(map(len, pieces)) <= MAX_MESSAGE and (chunk := os.read(descriptor, 65536)):
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        for other in others:
            yield b"".join(pieces)
            pieces = [other]
