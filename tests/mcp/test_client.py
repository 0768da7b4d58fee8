"""Any MCP server as a resolver: official servers, over standard input and output and over HTTP."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp import official
from tests.mcp.serving import (
    OFFICIAL,
    PATHS,
    by_hand,
    do,
    in_thread,
    serve_official,
    wait_for,
)
from toolwire import (
    AgentResolver,
    Audio,
    Composition,
    Document,
    Image,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    aio,
    execute,
    mcp,
    tool,
)
from toolwire.errors import InvalidField, UnknownTool
from toolwire.mcp import McpResolver
from toolwire.waiting.results import FAILED


@pytest.fixture(scope="module")
def over_stdio() -> Iterator[McpResolver]:
    with mcp.stdio(sys.executable, [OFFICIAL], env=PATHS) as resolver:
        yield resolver


@pytest.fixture(scope="module")
def over_http() -> Iterator[McpResolver]:
    with in_thread(serve_official) as url, mcp.http(url) as resolver:
        yield resolver


@pytest.fixture(params=["over_stdio", "over_http"])
def resolver(request: pytest.FixtureRequest) -> McpResolver:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, McpResolver)
    return found


@pytest.mark.row("R002-45")
def test_all_pages_are_listed_as_they_are(resolver: McpResolver) -> None:
    """What a listing says of a tool is kept."""
    tools = resolver.available_tools()
    assert [one.name for one in tools][: len(official.TOOLS)] == [one.name for one in official.TOOLS]
    assert tools[0] == Tool(
        "add",
        "Add numbers.",
        official.ADD,
        {
            "title": "Add!",
            "annotations": {"readOnlyHint": True, "title": "Adding"},
            "outputSchema": {"type": "object", "required": ["sum"]},
            "icons": [{"src": "https://e.org/i.png"}],
            "_meta": tools[0].metadata["_meta"],
        },
    )
    assert tools[0].metadata["_meta"]["own"] in ({"k": None}, {})


CALLS: list[tuple[str, dict[str, Any], str, bool]] = [
    ("add", {"a": 1, "b": 2}, "3", False),
    ("fail", {}, "no luck", True),
    ("refuse", {}, f"{FAILED}refused", True),
    ("print", {}, "print {}", False),
    ("a/b c.ü", {"ü": [None, 1.5, "\u2028"]}, "a/b c.ü {'ü': [None, 1.5, '\\u2028']}", False),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "arguments", "words", "is_error"), CALLS)
def test_results(resolver: McpResolver, name: str, arguments: dict[str, Any], words: str, is_error: bool) -> None:
    call = ToolCall("c1", name, arguments)
    result = resolver.resolve(call)
    assert (result.tool_call_id, result.name) == ("c1", name)
    assert (result.content, result.is_error) == (words, is_error)
    assert asyncio.run(resolver.aresolve(call)) == result
    assert execute([call], resolver) == [result]


def test_media_in_results(resolver: McpResolver) -> None:
    result = resolver.resolve(ToolCall("c1", "content"))
    assert isinstance(result.content, list)
    plain = [(type(part), {name: getattr(part, name, None) for name in FIELDS}) for part in result.content]
    assert plain == [(type(part), {name: getattr(part, name, None) for name in FIELDS}) for part in PARTS]
    assert [getattr(part.opaque, "value", None) for part in result.content] == [  # type: ignore[union-attr]
        {"annotations": {"audience": ["user"], "priority": 0.5}},
        None,
        {"_meta": {"k": 1}},
        {},
        {},
        {},
        {},
    ]


FIELDS = ("text", "data", "media_type", "url", "name")


PARTS = [
    Text("words"),
    Image(data="aW1n", media_type="image/png"),
    Audio(data="c25k", media_type="audio/wav"),
    Document(text="inside", media_type="text/plain", name="b c.txt"),
    Document(data="cGRm", media_type="application/pdf", name="z.pdf"),
    Image(data="cG5n", media_type="image/png"),
    Text("[resource https://e.org/x] x a link"),
]


def test_an_unknown_name_is_told_with_those_that_are_known(resolver: McpResolver) -> None:
    with pytest.raises(UnknownTool, match="Unknown tool: nope; available: add, content"):
        resolver.resolve(ToolCall("c1", "nope"))

    @tool
    def nope() -> str:
        """Be in the next resolver."""
        return "found"

    [result] = execute([ToolCall("c1", "nope")], Composition([resolver, AgentResolver([nope])]))
    assert result.content == "found"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (ToolCall("c1", "add", {"a": float("nan")}), "they are not JSON: "),
        (ToolCall("c1", "add", {"a": {1}}), "they are not JSON: "),
        (ToolCall("c1", "add", {"a": "\ud800"}), "they are not JSON: "),
        (ToolCall.parse("c1", "add", '{"a": '), ""),
        (ToolCall("c1", "add", complete=False), "they were cut off"),
        (ToolCall("c1", "add", raw="words", custom=True), "the tool takes a JSON object"),
    ],
)
def test_what_cannot_be_sent_is_not_sent(resolver: McpResolver, call: ToolCall, words: str) -> None:
    result = resolver.resolve(call)
    assert result.is_error
    assert str(result.content).startswith(f"invalid arguments for 'add': {words}")


def test_many_calls_at_once_keep_their_results_apart(resolver: McpResolver) -> None:
    calls = [ToolCall(f"c{number}", "add", {"a": number, "b": 1000}) for number in range(20)]

    async def main() -> list[ToolResult]:
        return await asyncio.gather(*map(resolver.aresolve, calls))

    found = asyncio.run(main())
    threads = [threading.Thread(target=lambda call=call: found.append(resolver.resolve(call))) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 40
    assert {(one.tool_call_id, one.content) for one in found} == {
        (f"c{number}", str(1000 + number)) for number in range(20)
    }


def test_a_listing_that_changed_is_read_anew(resolver: McpResolver) -> None:
    assert resolver.resolve(ToolCall("c1", "grow")).content == "grow {}"
    assert wait_for(lambda: any(one.name == "grown" for one in resolver.available_tools()))
    assert resolver.resolve(ToolCall("c1", "grown")).content == "grown {}"


def test_the_older_protocol_tells_of_changes_too() -> None:
    with by_hand() as resolver:
        assert do(resolver, "grow", "new").content == "grown"
        assert wait_for(lambda: any(one.name == "new" for one in resolver.available_tools()))


def test_a_callers_loop_is_not_blocked(tmp_path: Path) -> None:
    """A call that takes 0.15 s leaves the loop free to count."""

    async def main() -> int:
        async with by_hand() as resolver:
            ticks, call = 0, ToolCall("c1", "do", {"count": {"path": str(tmp_path / "f"), "wait": 0.15}})
            calling = asyncio.create_task(resolver.aresolve(call))
            while not calling.done():
                await asyncio.sleep(0.01)
                ticks += 1
            given = resolver.resolve(ToolCall("c2", "do", {"about": 1}))
            assert not (await given).is_error  # type: ignore[misc]
            return ticks

    assert asyncio.run(main()) > 5


def test_secrets_are_not_named() -> None:
    targets = (
        mcp.stdio("server", ["--key", "canary"], env={"KEY": "canary"}),
        mcp.http("https://user:canary@e.org:8443/mcp?key=canary", headers={"authorization": "canary"}),
    )
    assert [repr(one) for one in targets] == [
        "McpResolver(<MCP server 'server'>)",
        "McpResolver(<MCP server https://e.org:8443/mcp>)",
    ]


def test_bad_targets_are_refused() -> None:
    with pytest.raises(InvalidField, match="args must be a list of strings"):
        mcp.stdio("x", "--flag")
    with pytest.raises(InvalidField, match="url must begin with http"):
        mcp.http("file:///etc/passwd")


def test_calls_run_together_only_where_the_host_says_so() -> None:
    for parallel, count in ((False, 0), (True, 4)):
        with by_hand(parallel=parallel) as resolver:
            assert sum(one.metadata.get("parallel") is True for one in resolver.available_tools()) == count


def test_the_awaited_face_runs_them() -> None:
    async def main() -> list[ToolResult]:
        async with by_hand() as resolver:
            return await aio.execute([ToolCall("c1", "do", {"about": 1})], resolver)

    [result] = asyncio.run(main())
    assert not result.is_error
