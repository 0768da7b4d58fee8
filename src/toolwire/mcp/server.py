"""Any resolver as an MCP server: over standard input and output, by streamable HTTP, or for a host to mount.

Rules of this file:
- A call runs as anywhere else: recipes, limits and errors are those of `execution`. What is not listed cannot
  be called, and one whose arguments came under another name does not run without them.
- The tools are listed anew for each request. One that the protocol does not take as it is says less there, so
  that it does not cost the others.
- While it serves over standard output, nothing else writes there: what tools print goes to standard error.
  Standard input is read in a thread that can be left behind, so that an interrupt ends the program. A request
  that cannot be read is answered with an error.
- There is no authentication: a host that needs it mounts `server_of` behind its own.
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

from toolwire.encoding.calls import misplaced
from toolwire.errors import InvalidField, InvalidSchema, UnknownTool
from toolwire.mcp.content import TEXT, bare, beside, encode_result, encode_tool, without_opaque
from toolwire.mcp.targets import MAX_MESSAGE, HttpLimits, need_official, own_version
from toolwire.resolvers import AnyResolver
from toolwire.resolvers.execution import Limits, aexecute
from toolwire.resolvers.protocol import resolver_of, tools_of
from toolwire.resolvers.session import prepare
from toolwire.schema.validator import Validator
from toolwire.types import Text, Tool, ToolCall, ToolResult

logger: logging.Logger = logging.getLogger("toolwire.mcp")
_FRESH = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
Transport = Literal["stdio", "http"]
_AHEAD = 64


class _Served:
    """A resolver as its clients see it; the tools are listed anew for each request."""

    def __init__(self, resolver: Any, names: Collection[str] | None, context: Any, limits: Limits) -> None:
        if isinstance(names, str):
            raise InvalidField("names", "must be a list of names, not a string", path="mcp.serve")
        self.resolver = resolver_of(resolver, "mcp.serve")
        self.names = None if names is None else frozenset(names)
        self.context = context
        self.limits = limits

    def prepare(self) -> tuple[list[Tool], Any]:
        names = self.names
        if names is None:
            names = frozenset(tool.name for tool in tools_of(self.resolver))
        return prepare(self.resolver, names, self.context)

    async def prepared(self) -> tuple[list[Tool], Any]:
        """List the tools, and give what resolves their calls; a resolver may take its time."""
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
        return {"tools": listed, **_FRESH}

    async def call_tool(self, request: Any, params: Any) -> dict[str, Any]:
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - the extra may be absent
        from mcp_types import INVALID_PARAMS  # noqa: PLC0415 - the extra may be absent

        tools, session = await self.prepared()
        tool = next((tool for tool in tools if tool.name == params.name), None)
        if tool is None:
            raise MCPError(INVALID_PARAMS, str(UnknownTool(params.name, [tool.name for tool in tools])))
        call = _call_of(tool, params.arguments or {}, str(request.request_id))
        if not params.arguments and (problem := misplaced(params.model_extra)):
            call = replace(call, error=problem)
        [result] = await aexecute([call], session, tools=tools, limits=self.limits)
        schema = beside(tool, "outputSchema")
        result = result if schema is None or result.is_error else _as_promised(result, schema)
        return body_of(result, request.protocol_version, structured=schema is not None)


def _as_promised(result: ToolResult, schema: Any) -> ToolResult:
    """Give a result that fits the output schema of its tool, or an error: clients throw away what does not fit."""
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
    told = [Text(f"The result does not fit the tool's output schema: {'; '.join(problems)}")] if problems else []
    parts = [Text(result.content)] if isinstance(result.content, str) else result.content
    return replace(result, content=[*parts, *told], is_error=True) if told else result


def _call_of(tool: Tool, arguments: dict[str, Any], call_id: str) -> ToolCall:
    text = arguments.get(TEXT)
    if tool.custom and isinstance(text, str):
        return ToolCall(call_id, tool.name, raw=text, custom=True)
    return ToolCall(call_id, tool.name, arguments)


def body_of(result: ToolResult, protocol: str, *, structured: bool = False) -> dict[str, Any]:
    """Write a result as a protocol takes it; if need be, without what another server had said beside it."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS  # noqa: PLC0415 - the extra may be absent

    body = encode_result(result, structured=structured)
    if protocol not in MODERN_PROTOCOL_VERSIONS and not isinstance(body.get("structuredContent", {}), dict):
        del body["structuredContent"]
    return body if _fits("tools/call", "content", body, protocol) else encode_result(without_opaque(result))


def _fitting(listed: list[dict[str, Any]], protocol: str) -> list[dict[str, Any]]:
    """Give a listing that the protocol takes; a tool that it does not take is listed with less."""
    if _fits("tools/list", "tools", {"tools": listed, **_FRESH}, protocol):
        return listed
    fitting = []
    for tool in listed:
        fits = _fits("tools/list", "tools", {"tools": [tool], **_FRESH}, protocol)
        if not fits:
            logger.warning("the tool %r is listed without its schema, which MCP does not take", tool["name"])
        fitting.append(tool if fits else bare(tool))
    return fitting


def _fits(method: str, field: str, body: dict[str, Any], protocol: str) -> bool:
    """Whether a protocol takes a body; one that it takes for something else loses its field."""
    from mcp_types.methods import serialize_server_result  # noqa: PLC0415 - the extra may be absent
    from pydantic import ValidationError  # noqa: PLC0415 - the extra may be absent

    try:
        return field in serialize_server_result(method, protocol, body)
    except ValidationError:
        return False


def server_of(
    resolver: AnyResolver,
    *,
    name: str = "toolwire",
    version: str | None = None,
    instructions: str | None = None,
    names: Collection[str] | None = None,
    context: object = None,
    limits: Limits | None = None,
) -> Any:
    """Give the official low-level server (`mcp.server.lowlevel.Server`) of a resolver, for a host to mount.

    `names` are the tools that are served, all unless said; `context` is what every call gets.
    """
    need_official("to serve tools over MCP")
    from mcp.server.lowlevel import Server  # noqa: PLC0415 - the extra may be absent
    from mcp_types import CallToolRequestParams, PaginatedRequestParams  # noqa: PLC0415 - the extra may be absent

    class Params(CallToolRequestParams, extra="allow"):
        """With what a client says beside, among which its arguments may be."""

    served = _Served(resolver, names, context, limits or Limits())
    server: Any = Server(name, version=version or own_version(), instructions=instructions)
    server.add_request_handler("tools/list", PaginatedRequestParams, served.list_tools)
    server.add_request_handler("tools/call", Params, served.call_tool)
    return server


def serve(resolver: AnyResolver, **options: Any) -> None:
    """Serve a resolver until the client, or the user, ends it; see `aserve`."""

    async def main() -> None:
        if options.get("transport") == "http":
            # Windows has no such handler, and neither has a loop outside of the main thread: it is a nicety.
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                stop = asyncio.current_task().cancel  # type: ignore[union-attr]
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        await aserve(resolver, **options)

    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(main())


async def aserve(
    resolver: AnyResolver,
    *,
    transport: Transport = "stdio",
    host: str = "127.0.0.1",
    port: int = 8000,
    hosts: Collection[str] | None = None,
    ready: Callable[[str], None] | None = None,
    http_limits: HttpLimits | None = None,
    **options: Any,
) -> None:
    """Serve a resolver over stdio, or at `http://HOST:PORT/mcp`; all other options are for `server_of`.

    Port 0 is any that is free; `ready` is told the URL. Beyond this machine, `hosts` are the names by which
    clients reach it: `HOST:PORT`, or `HOST:*`. `http_limits` bounds what clients can hold.
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

    nothing: Any = _no_lines()  # the official reader leaves a line that is no message without an answer
    with _own_input() as descriptor:
        lines = _Lines(descriptor)
        to_server, incoming = anyio.create_memory_object_stream[Any](0)
        async with stdio_server(stdin=nothing) as (unread, outgoing), anyio.create_task_group() as tasks:
            unread.close()
            tasks.start_soon(_hand_over, lines, to_server, outgoing)
            with contextlib.redirect_stdout(sys.stderr):
                await server.run(incoming, outgoing, server.create_initialization_options())
            tasks.cancel_scope.cancel()
            sys.stdout.flush()


async def _no_lines() -> AsyncIterator[bytes]:
    nothing: tuple[bytes, ...] = ()
    for line in nothing:
        yield line


async def _hand_over(lines: "_Lines", to_server: Any, outgoing: Any) -> None:
    """Give the server the messages of lines; what is none is answered with an error."""
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
def _own_input() -> Iterator[int]:
    """Keep standard input for the protocol: what tools and their children read there is empty."""
    kept = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    try:
        yield kept
    finally:
        os.dup2(kept, 0)


class _Lines:
    """The lines of a descriptor; nobody has to wait for the thread that reads them."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(_AHEAD)
        threading.Thread(target=self._read, name="toolwire-mcp-input", daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(RuntimeError):
            for line in _lines_of(self._descriptor):
                self._put(line)
            self._put(None)

    def _put(self, line: bytes | None) -> None:
        """Hand a line over; RuntimeError if nobody listens any more."""
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
    """Give lines until the end, or until one is too long."""
    pieces: list[bytes] = []
    while sum(map(len, pieces)) <= MAX_MESSAGE and (chunk := os.read(descriptor, 65536)):
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        for other in others:
            yield b"".join(pieces)
            pieces = [other]
