"""How MCP spells results."""

from toolwire.types.spelling.base import WireSpelling


class McpResultSpelling(WireSpelling, frozen=True, tag="mcp.result", gc=False):
    """How a result of `tools/call` was spelled. A `structuredContent` that its text repeats is a constant.

    Servers repeat it for clients that read only text
    (https://modelcontextprotocol.io/specification/2025-06-18/server/tools#structured-content).
    """
