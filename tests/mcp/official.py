"""A server on the official low-level class: pages of two tools, media, errors, and a listing that grows."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

OBJECT: dict[str, Any] = {"type": "object"}
ADD: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer", "default": None}, "b": {"$ref": "#/$defs/B"}},
    "required": ["a"],
    "$defs": {"B": {"enum": [1, None, "x"]}},
    "x-own": [1],
}
TOOLS: list[types.Tool] = [
    types.Tool(
        name="add",
        title="Add!",
        description="Add numbers.",
        input_schema=ADD,
        output_schema={"type": "object", "required": ["sum"]},
        annotations=types.ToolAnnotations(read_only_hint=True, title="Adding"),
        icons=[types.Icon(src="https://e.org/i.png")],
        _meta={"own": {"k": None}},
    ),
    *(
        types.Tool(name=name, input_schema=OBJECT)
        for name in ("content", "fail", "refuse", "count", "grow", "print", "a/b c.ü")
    ),
]
CONTENT: list[Any] = [
    {"type": "text", "text": "words", "annotations": {"audience": ["user"], "priority": 0.5}},
    {"type": "image", "data": "aW1n", "mimeType": "image/png"},
    {"type": "audio", "data": "c25k", "mimeType": "audio/wav", "_meta": {"k": 1}},
    {
        "type": "resource",
        "resource": {"uri": "file:///a/b%20c.txt", "text": "inside", "mimeType": "text/plain"},
    },
    {"type": "resource", "resource": {"uri": "x://y/z.pdf", "blob": "cGRm", "mimeType": "application/pdf"}},
    {"type": "resource", "resource": {"uri": "x://y/z.png", "blob": "cG5n", "mimeType": "image/png"}},
    {"type": "resource_link", "uri": "https://e.org/x", "name": "x", "description": "a link"},
]


DONE = {"resultType": "complete"}
ANSWERS: dict[str, Any] = {
    "content": {**DONE, "content": CONTENT},
    "fail": {**DONE, "content": [{"type": "text", "text": "no luck"}], "isError": True},
    "refuse": types.ErrorData(code=-32050, message="refused"),
}


def add(given: dict[str, Any]) -> Any:
    total = given["a"] + given.get("b", 0)
    words = [{"type": "text", "text": str(total)}]
    return {**DONE, "content": words, "structuredContent": {"sum": total}}


def make(effects: Path | None = None) -> Server[Any]:
    """Make the server; `effects` is the file where calls of `count` leave a line."""
    tools, bus = list(TOOLS), InMemorySubscriptionBus()

    async def list_tools(_request: Any, params: Any) -> types.ListToolsResult:
        start = int(params.cursor) if params is not None and params.cursor else 0
        rest = str(start + 2) if start + 2 < len(tools) else None
        return types.ListToolsResult(tools=tools[start : start + 2], next_cursor=rest)

    async def call_tool(_request: Any, params: types.CallToolRequestParams) -> Any:
        given = params.arguments or {}
        if params.name in ANSWERS:
            return ANSWERS[params.name]
        if params.name == "add":
            return add(given)
        if params.name == "count" and effects is not None:
            with effects.open("a") as file:
                file.write(f"{given}\n")
            await asyncio.sleep(given.get("wait", 0))
        if params.name == "print":
            print("noise", flush=True)  # noqa: T201 - it must not reach the client
        if params.name == "grow":
            tools.append(types.Tool(name="grown", input_schema=OBJECT))
            await bus.publish(ToolsListChanged())
        return {**DONE, "content": [{"type": "text", "text": f"{params.name} {given}"}]}

    heard = ListenHandler(bus)
    return Server("official", on_list_tools=list_tools, on_call_tool=call_tool, on_subscriptions_listen=heard)


async def main() -> None:
    server = make(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
