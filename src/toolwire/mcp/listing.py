"""Tools as an MCP listing spells them: both directions side by side.

Rules of this file:
- A schema is passed on as it is; one that is not of an object is made one, since MCP takes no other.
- What an MCP listing says beside name, description and schema is kept in `metadata` under MCP's own names.
  Nothing else is taken from there: how calls are run is for the one who runs them to say.
- A tool that the server describes wrongly stays a tool, as far as it can be read.
"""

from collections.abc import Mapping
from typing import Any

from toolwire.types import Tool

BESIDE = ("title", "annotations", "outputSchema", "icons", "execution", "_meta")
SPELLINGS = {"outputSchema": ("outputSchema", "output_schema")}
TEXT = "input"
TAKES_TEXT = {"type": "object", "properties": {TEXT: {"type": "string"}}, "required": [TEXT]}


def decode_tool(given: Any) -> Tool | None:
    """Read one tool of a listing; None if it has no name."""
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        return None
    description, schema = given.get("description"), given.get("inputSchema")
    return Tool(
        given["name"],
        description if isinstance(description, str) else None,
        schema if isinstance(schema, dict) else None,
        {key: given[key] for key in BESIDE if given.get(key) is not None},
    )


def encode_tool(tool: Tool) -> dict[str, Any]:
    """Write one tool of a listing."""
    listed: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        listed["description"] = tool.description
    listed["inputSchema"] = schema_of(tool)
    return listed | {key: said for key in BESIDE if (said := beside(tool, key)) is not None}


def beside(tool: Tool, key: str) -> Any:
    """Give what the metadata of a tool says under one of MCP's names."""
    found = (tool.metadata.get(spelling) for spelling in SPELLINGS.get(key, (key,)))
    return next((said for said in found if said is not None), None)


def schema_of(tool: Tool) -> dict[str, Any]:
    """Give the schema of a tool's arguments; the text of a custom tool is an argument here."""
    if tool.custom:
        return TAKES_TEXT
    schema = tool.parameters or {}
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


def bare(listed: dict[str, Any]) -> dict[str, Any]:
    """Say only what cannot be wrong of a tool that MCP would not take as it is."""
    return {key: listed[key] for key in ("name", "description") if key in listed} | {"inputSchema": {"type": "object"}}
