"""A resolver with every kind of tool, and the same as a server over stdio."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from toolwire import AgentResolver, Audio, Document, Image, Text, ToolError, mcp, tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer", "default": None}, "b": {"$ref": "#/$defs/B"}},
    "required": ["a"],
    "$defs": {"B": {"enum": [1, None, "x"]}},
    "x-own": [1],
}
BESIDE: dict[str, Any] = {
    "title": "Echo!",
    "annotations": {"readOnlyHint": True, "title": "Echoing"},
    "outputSchema": {"type": "object", "required": ["a"]},
    "icons": [{"src": "https://e.org/i.png"}],
    "_meta": {"own": {"k": None}},
}
MEDIA = [
    Text("words"),
    Image(data="aW1n", media_type="image/png", detail="low"),
    Image(url="https://e.org/x.png"),
    Audio(data="c25k", media_type="audio/wav", transcript="sound"),
    Document(text="inside", media_type="text/plain", name="a b.txt"),
    Document(data="cGRm", media_type="application/pdf"),
    Document(url="https://e.org/x.pdf", media_type="application/pdf", name="x.pdf"),
]


@tool(parameters=SCHEMA, metadata=BESIDE)
def echo(a: int, b: Any = None) -> Any:
    """Echo."""
    return {"a": a, "b": b}


@tool
def media() -> list[Any]:
    """Show things."""
    return MEDIA


@tool
def noise() -> str:
    """Write where only the protocol may."""
    print("noise", flush=True)  # noqa: T201 - it must not reach the client
    print("noise that is still in the buffer when the server ends")  # noqa: T201 - likewise
    os.write(1, b"noise\n")
    subprocess.run(["echo", "noise"], check=True)  # noqa: S607 - as any tool would
    return sys.stdin.read() + "quiet"


@tool
def fail() -> None:
    """Fail."""
    raise ValueError("no luck")


@tool
def refuse() -> None:
    """Fail with own words."""
    raise ToolError("do it otherwise")


@tool(output_limit=10)
def long() -> str:
    """Say much."""
    return "x" * 1000


@tool(timeout=0.1)
def slow() -> None:
    """Take too long."""
    time.sleep(1)


@tool
async def nap(path: str) -> None:
    """Sleep, and say in a file how that went."""
    note = Path(path).write_text
    note("asleep")
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        note("stopped")
        raise


@tool(custom=True)
def free(text: str) -> str:
    """Take text."""
    return f"got {text}"


@tool
def whose(context: Any = None) -> Any:
    """Say whose call this is."""
    return context


@tool(name="a/b c.ü")
def strange() -> str:
    """Have a name."""
    return "strange"


@tool
def planned() -> None:
    """Be done by a recipe."""


def resolver() -> AgentResolver:
    tools = [echo, media, noise, fail, refuse, long, slow, nap, free, whose, strange, planned]
    step = {"tool": "echo", "arguments": {"a": 1}}
    plan = {
        "serial": [step],
        "compose": lambda serial, _parallel, _errors: f"composed of {serial[0].content}",
    }
    return AgentResolver(tools, recipes={"planned": lambda _: plan})


if __name__ == "__main__":
    mcp.serve(resolver(), context={"user": "u1"})
