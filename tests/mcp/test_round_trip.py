"""What goes through an MCP server and an MCP client comes out as it went in."""

import asyncio
import sys
from typing import Any

import pytest
from mcp import Client

from tests.mcp import official, served
from tests.mcp.served import BESIDE
from tests.mcp.serving import (
    PATHS,
    SERVED,
    in_thread,
    serve_official,
    serve_ours,
)
from toolwire import (
    AgentResolver,
    ToolCall,
    execute,
    mcp,
)
from toolwire.mcp import McpResolver


def compare(ours: AgentResolver, theirs: McpResolver) -> None:
    for here, there in zip(ours.available_tools(), theirs.available_tools(), strict=True):
        assert (there.name, there.description) == (here.name, here.description)
        if not here.custom:
            assert there.parameters == here.parameters
            said = {key: here.metadata[key] for key in BESIDE.keys() & here.metadata}
            assert {**there.metadata, "_meta": 0} == {**said, "_meta": 0}
    for name, arguments in (("echo", {"a": 1}), ("media", {}), ("fail", {}), ("refuse", {}), ("a/b c.ü", {})):
        call = ToolCall("c1", name, arguments)
        [wanted], [found] = execute([call], ours), execute([call], theirs)
        assert (found.content, found.is_error) == (wanted.content, wanted.is_error)


@pytest.mark.parametrize("transport", ["http", pytest.param("stdio", marks=pytest.mark.slow)])
@pytest.mark.row("R002-45")
def test_our_server_behind_our_client_is_the_same_resolver(transport: str) -> None:
    """A tool comes through an MCP listing as it was, and its results do."""
    ours = served.resolver()
    if transport == "stdio":
        with mcp.stdio(sys.executable, [SERVED], env=PATHS) as theirs:
            compare(ours, theirs)
    else:
        with in_thread(serve_ours) as url, mcp.http(url) as theirs:
            compare(ours, theirs)


def test_what_was_read_is_served_again_as_it_was() -> None:
    """A server behind our client behind our server: what the first said is said again."""

    async def main(first: McpResolver) -> tuple[Any, Any, Any]:
        async with Client(mcp.server_of(first)) as client:
            add = await client.call_tool("add", {"a": 1, "b": 2})
            content = await client.call_tool("content")
            return (await client.list_tools()).tools[0], add, content

    with in_thread(serve_official) as url, mcp.http(url) as resolver:
        listed, add, content = asyncio.run(main(resolver))
    first = official.TOOLS[0].model_dump(by_alias=True, exclude_none=True)
    assert listed.model_dump(by_alias=True, exclude_none=True) | {"_meta": 0} == first | {"_meta": 0}
    assert (add.structured_content, [one.text for one in add.content]) == ({"sum": 3}, ["3"])
    again = [one.model_dump(by_alias=True, exclude_none=True) for one in content.content]
    assert again == official.CONTENT
