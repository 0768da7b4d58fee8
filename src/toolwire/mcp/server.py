"""Any resolver as an MCP server, whatever carries its messages.

Rules of this file:
- A call runs as anywhere else: recipes, limits and errors are those of `execution`. What is not listed cannot
  be called.
- The tools are listed anew for each request. One that the protocol does not take as it is says less there, so
  that it does not cost the others.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Any

from toolwire.errors import InvalidField, UnknownTool
from toolwire.mcp.client import need_official
from toolwire.mcp.content import encode_result, without_opaque
from toolwire.mcp.listing import TEXT, bare, beside, encode_tool
from toolwire.mcp.targets import own_version
from toolwire.resolvers.execution import Limits, aexecute
from toolwire.resolvers.protocol import check_resolver, tools_of
from toolwire.resolvers.session import prepare
from toolwire.types import Tool, ToolCall, ToolResult

logger = logging.getLogger("toolwire.mcp")
FRESH = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}


class _Served:
    """A resolver as its clients see it; the tools are listed anew for each request."""

    def __init__(self, resolver: Any, names: Collection[str] | None, context: Any, limits: Limits) -> None:
        if isinstance(names, str):
            raise InvalidField("names", "must be a list of names, not a string", path="mcp.serve")
        self.resolver = check_resolver(resolver, "mcp.serve")
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
        """Answer `tools/list`."""
        tools, _ = await self.prepared()
        listed = _fitting([encode_tool(tool) for tool in tools], request.protocol_version)
        return {"tools": listed, **FRESH}

    async def call_tool(self, request: Any, params: Any) -> dict[str, Any]:
        """Answer `tools/call`."""
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - the extra may be absent
        from mcp_types import INVALID_PARAMS  # noqa: PLC0415 - the extra may be absent

        tools, session = await self.prepared()
        tool = next((tool for tool in tools if tool.name == params.name), None)
        if tool is None:
            raise MCPError(INVALID_PARAMS, str(UnknownTool(params.name, [tool.name for tool in tools])))
        call = _call_of(tool, params.arguments or {}, str(request.request_id))
        [result] = await aexecute([call], session, tools=tools, limits=self.limits)
        structured = beside(tool, "outputSchema") is not None
        return body_of(result, request.protocol_version, structured=structured)


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
    if _fits("tools/list", "tools", {"tools": listed, **FRESH}, protocol):
        return listed
    fitting = []
    for tool in listed:
        fits = _fits("tools/list", "tools", {"tools": [tool], **FRESH}, protocol)
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
    resolver: Any,
    *,
    name: str = "toolwire",
    version: str | None = None,
    instructions: str | None = None,
    names: Collection[str] | None = None,
    context: Any = None,
    limits: Limits | None = None,
) -> Any:
    """Give the official low-level server (`mcp.server.lowlevel.Server`) of a resolver, for a host to mount.

    `names` are the tools that are served, all unless said; `context` is what every call gets.
    """
    need_official("to serve tools over MCP")
    from mcp.server.lowlevel import Server  # noqa: PLC0415 - the extra may be absent
    from mcp_types import CallToolRequestParams, PaginatedRequestParams  # noqa: PLC0415 - the extra may be absent

    served = _Served(resolver, names, context, limits or Limits())
    server: Any = Server(name, version=version or own_version(), instructions=instructions)
    server.add_request_handler("tools/list", PaginatedRequestParams, served.list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, served.call_tool)
    return server
