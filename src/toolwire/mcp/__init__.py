"""MCP in both directions: any resolver as a server, and any server as a resolver. Needs the extra `mcp`."""

from toolwire.mcp.client import McpResolver, http, stdio
from toolwire.mcp.server import aserve, serve, server_of
from toolwire.mcp.targets import Http, HttpLimits, Stdio, Terms

__all__ = ["Http", "HttpLimits", "McpResolver", "Stdio", "Terms", "aserve", "http", "serve", "server_of", "stdio"]
