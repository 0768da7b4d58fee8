"""How MCP spells results and content blocks."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import WireSpelling


class McpResultSpelling(WireSpelling, frozen=True, tag="mcp.result", gc=False):
    """How the result of `tools/call` was spelled.

    - `structured_content`: its `structuredContent`, if a text repeats it, as servers should do
      (https://modelcontextprotocol.io/specification/2025-06-18/server/tools#structured-content).
    """

    structured_content: Any | UnsetType = UNSET


class McpPartSpelling(WireSpelling, frozen=True, tag="mcp.part", gc=False):
    """How a content block was spelled.

    - `uri`: the URI of a resource (https://modelcontextprotocol.io/specification/2025-06-18/server/resources).
    - `link`: the `resource_link` block that became this text.
    """

    uri: str | None = None
    link: dict[str, Any] | None = None
