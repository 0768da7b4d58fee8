"""Any resolver as an MCP server, asked by the official client."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

import toolwire
from tests.mcp.served import BESIDE, SCHEMA, resolver
from tests.mcp.serving import PATHS, SERVED, in_thread, wait_for
from toolwire import AgentResolver, Image, Tool, mcp, tool
from toolwire.errors import InvalidField, MissingExtra

pytestmark = pytest.mark.slow  # servers are begun and ended

ANYWHERE = "0.0.0.0"  # noqa: S104 - that is what is tested

NAMES = [handled.name for handled in resolver().available_tools()]
ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"], ids=["handshake", "modern"])
Ask = Callable[[Client], Coroutine[Any, Any, Any]]


def ask(given: Any, question: Ask, mode: str = "auto", **said: Any) -> Any:
    """Ask the server of a resolver, or one at a URL, with the official client."""

    async def main() -> Any:
        server = given if isinstance(given, str) else mcp.server_of(given, **said)
        async with Client(server, mode=mode) as client:
            return await question(client)

    return asyncio.run(main())


def texts(result: types.CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, types.TextContent)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve over HTTP, on a free port."""
    with in_thread(
        lambda ready: mcp.aserve(resolver(), transport="http", port=0, ready=ready, context={"user": "u1"})
    ) as url:
        yield url


@ERAS
def test_tools_are_listed_as_they_are(mode: str) -> None:
    listed = ask(resolver(), lambda client: client.list_tools(), mode).tools
    assert [one.name for one in listed] == NAMES
    said = listed[0].model_dump(by_alias=True, exclude_none=True)
    assert said.pop("_meta") == BESIDE["_meta"]
    assert said == {
        "name": "echo",
        "description": "Echo.",
        "inputSchema": SCHEMA,
        **{key: value for key, value in BESIDE.items() if key != "_meta"},
    }


@ERAS
@pytest.mark.parametrize(
    ("given", "listed"),
    [
        (None, {"type": "object"}),
        ({}, {"type": "object"}),
        ({"properties": {"a": {}}}, {"properties": {"a": {}}, "type": "object"}),
        ({"type": "string"}, {"type": "object"}),
        ({"type": ["object", "null"], "title": "t"}, {"type": "object", "title": "t"}),
        ({"type": "object", "required": "a", "$schema": 5}, {"type": "object"}),
    ],
)
def test_a_schema_that_the_protocol_does_not_take_costs_no_other_tool(given: Any, listed: Any, mode: str) -> None:
    class Odd:
        def available_tools(self) -> list[Tool]:
            return [Tool("odd", "o", given), Tool("odd", "the same again", {}), Tool("good", "g", SCHEMA)]

        def resolve(self, call: toolwire.ToolCall) -> str:
            return call.name

    found = ask(Odd(), lambda client: client.list_tools(), mode).tools
    assert [(one.name, one.input_schema) for one in found] == [("odd", listed), ("good", SCHEMA)]


CALLS: list[tuple[str, dict[str, Any], str, bool]] = [
    ("echo", {"a": 1}, '{"a":1,"b":null}', False),
    ("echo", {"a": "x"}, "invalid arguments for 'echo': ", True),
    ("fail", {}, "Tool execution failed: no luck", True),
    ("refuse", {}, "do it otherwise", True),
    ("long", {}, "xxxxxxxxxx\n[990 of 1000 characters were left out]", False),
    ("slow", {}, "Tool execution failed: it took longer than 0.1 s", True),
    ("free", {"input": "words"}, "got words", False),
    ("free", {"text": "words"}, "invalid arguments for 'free': the tool takes text", True),
    ("whose", {}, '{"user":"u1"}', False),
    ("a/b c.ü", {}, "strange", False),
    ("planned", {}, 'composed of {"a":1,"b":null}', False),
]


@ERAS
def test_calls_run_as_anywhere_else(mode: str) -> None:
    async def question(client: Client) -> list[types.CallToolResult]:
        return [await client.call_tool(name, arguments) for name, arguments, _, _ in CALLS]

    found = ask(resolver(), question, mode, context={"user": "u1"})
    for (_, _, words, is_error), result in zip(CALLS, found, strict=True):
        [said] = texts(result)
        assert (said[: len(words)], result.is_error) == (words, is_error)


class OddParams(types.CallToolRequestParams, extra="allow"):
    """What a client says that has the arguments of a call under another name."""


class OddCall(types.CallToolRequest):
    """A call of such a client."""

    params: OddParams


@ERAS
@pytest.mark.parametrize(("beside", "words"), [
    ({"args": {"part": "x"}}, "invalid arguments for 'work': its arguments came as 'args', where none are read"),
    ({"arguments": {}, "input": '{"part": "x"}'}, "invalid arguments for 'work': its arguments came as 'input'"),
    ({"args": {}}, "did nothing"),
    ({"arguments": {"part": "y"}, "args": {"part": "x"}}, "did y"),
    ({"timeout": 5}, "did nothing"),
])  # fmt: skip
def test_a_call_whose_arguments_came_under_another_name_does_not_run_without_them(
    beside: dict[str, Any], words: str, mode: str
) -> None:
    @tool
    def work(part: str = "nothing") -> str:
        """Do a part."""
        return f"did {part}"

    async def question(client: Client) -> types.CallToolResult:
        request = OddCall(params=OddParams(name="work", **beside))
        return await client.session.send_request(request, types.CallToolResult)

    found = ask(AgentResolver([work]), question, mode)
    [said] = texts(found)
    assert (said[: len(words)], found.is_error) == (words, words.startswith("invalid"))


PROMISED = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
MISFITS: list[tuple[Any, str]] = [
    ({"a": 1}, ""),
    ({"b": 1}, "missing required field: a"),
    ({"a": "x"}, "field a: expected type integer"),
    ([1], "expected type object"),
    ("words", "it holds no JSON"),
    ({"a": 1, "long": "x" * 90}, "it holds no JSON"),
    ([Image(data="aW1n", media_type="image/png")], "it holds no JSON"),
]


@ERAS
def test_a_result_that_its_output_schema_does_not_take_is_an_error(mode: str) -> None:
    """The official client throws it away otherwise, with all that it says."""

    @tool(metadata={"outputSchema": PROMISED}, output_limit=80)
    def give(which: int) -> Any:
        """Give something."""
        return MISFITS[which][0]

    async def question(client: Client) -> list[types.CallToolResult]:
        return [await client.call_tool("give", {"which": which}) for which in range(len(MISFITS))]

    found = ask(AgentResolver([give]), question, mode)
    assert [result.is_error for result in found] == [bool(problem) for _, problem in MISFITS]
    for result, (_, problem) in zip(found[1:], MISFITS[1:], strict=True):
        said = texts(result)[-1]
        assert said.startswith("The result does not fit the tool's output schema: ")
        assert problem in said
        assert len(result.content) == 2


@ERAS
def test_media_are_content(mode: str) -> None:
    result = ask(resolver(), lambda client: client.call_tool("media"), mode)
    assert [block.model_dump(by_alias=True, exclude_none=True) for block in result.content] == [
        {"type": "text", "text": "words"},
        {
            "type": "image",
            "data": "aW1n",
            "mimeType": "image/png",
            "_meta": {"toolwire/part": {"kind": "image", "detail": "low"}},
        },
        {
            "type": "resource_link",
            "uri": "https://e.org/x.png",
            "name": "x.png",
            "_meta": {"toolwire/part": {"kind": "image"}},
        },
        {
            "type": "audio",
            "data": "c25k",
            "mimeType": "audio/wav",
            "_meta": {"toolwire/part": {"kind": "audio", "transcript": "sound"}},
        },
        {
            "type": "resource",
            "resource": {"uri": "toolwire://document/a%20b.txt", "mimeType": "text/plain", "text": "inside"},
        },
        {
            "type": "resource",
            "resource": {"uri": "toolwire://document/", "mimeType": "application/pdf", "blob": "cGRm"},
        },
        {
            "type": "resource_link",
            "uri": "https://e.org/x.pdf",
            "name": "x.pdf",
            "mimeType": "application/pdf",
            "_meta": {"toolwire/part": {"kind": "document", "name": "x.pdf"}},
        },
    ]


@ERAS
@pytest.mark.parametrize("name", ["nope", "ECHO", "echo ", ""])
def test_an_unknown_tool_is_an_error_of_the_protocol(name: str, mode: str) -> None:
    async def question(client: Client) -> MCPError:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(name)
        return caught.value

    error = ask(resolver(), question, mode)
    assert error.code == types.INVALID_PARAMS
    assert error.message.startswith(f"Unknown tool: {name}; available: echo, media")


def test_only_the_named_tools_are_served() -> None:
    async def question(client: Client) -> list[str]:
        with pytest.raises(MCPError, match="Unknown tool: fail; available: echo"):
            await client.call_tool("fail")
        return [one.name for one in (await client.list_tools()).tools]

    assert ask(resolver(), question, names=["echo", "nope"]) == ["echo"]


def test_a_listing_that_fails_is_an_error_without_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def available_tools(self) -> list[Tool]:
            raise RuntimeError("password 123")

        def resolve(self, call: toolwire.ToolCall) -> str:
            return call.name

    async def question(client: Client) -> str:
        with pytest.raises(MCPError) as caught:
            await client.list_tools()
        return caught.value.message

    assert ask(Broken(), question) == "the tools could not be listed"
    assert "password 123" in caplog.text


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"names": "echo"}, "names must be a list of names"),
        ({"transport": "smoke"}, "transport must be 'stdio' or 'http', not 'smoke'"),
        ({"transport": "http", "host": ANYWHERE}, "hosts must list the names by which clients reach the server"),
        ({"transport": "http", "hosts": "e.org"}, "hosts must list the names by which clients reach the server"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(said: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidField, match=message):
        mcp.serve(resolver(), **said)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    for use in (lambda: mcp.server_of(resolver()), lambda: mcp.stdio("x"), lambda: mcp.http("http://x")):
        with pytest.raises(MissingExtra, match=r"pip install 'toolwire\[mcp\]'"):
            use()


@ERAS
def test_calls_over_http(url: str, mode: str) -> None:
    async def question(client: Client) -> Any:
        listed = [one.name for one in (await client.list_tools()).tools]
        results = await asyncio.gather(*(client.call_tool("echo", {"a": number}) for number in range(50)))
        return listed, [result.structured_content["a"] for result in results], await client.call_tool("whose")

    listed, numbers, whose = ask(url, question, mode)
    assert (listed, numbers, texts(whose)) == (NAMES, list(range(50)), ['{"user":"u1"}'])


@ERAS
def test_a_client_that_gives_up_stops_the_call(url: str, mode: str, tmp_path: Path) -> None:
    note = tmp_path / "note"

    async def question(client: Client) -> None:
        with pytest.raises(MCPError, match="timed out"):
            await client.call_tool("nap", {"path": str(note)}, read_timeout_seconds=0.1)

    ask(url, question, mode)
    assert wait_for(lambda: note.read_text() == "stopped")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost"}, 200),
        ({"origin": "http://localhost:3000"}, 200),
        ({"host": "e.org"}, 421),
        ({"host": "127.0.0.1.e.org:80"}, 421),
        ({"origin": "http://e.org"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_only_pages_of_this_machine_reach_the_tools(url: str, headers: dict[str, str], status: int) -> None:
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    accept = {"accept": "application/json, text/event-stream"}
    assert httpx2.post(url, json=body, headers=accept | headers).status_code == status


def test_beyond_this_machine_the_named_hosts_are_answered() -> None:
    with in_thread(
        lambda ready: mcp.aserve(resolver(), transport="http", host=ANYWHERE, port=0, hosts=["e.org"], ready=ready)
    ) as url:
        here = url.replace(ANYWHERE, "127.0.0.1")
        for headers, status in (({"host": "e.org"}, 400), ({}, 421)):
            assert httpx2.post(here, json={}, headers=headers).status_code == status


def test_stdio_carries_nothing_but_the_protocol(tmp_path: Path) -> None:
    note = tmp_path / "note"
    served = subprocess.Popen(
        [sys.executable, "-W", "error", SERVED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **PATHS},
        text=True,
    )
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}
    asked: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "noise", "arguments": {}}},
        {"id": 3, "method": "tools/call", "params": {"name": "nap", "arguments": {"path": str(note)}}},
    ]
    assert served.stdin is not None
    assert served.stdout is not None
    served.stdin.write("no message\n" + "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in asked))
    served.stdin.flush()
    answers = {(answer := json.loads(served.stdout.readline()))["id"]: answer for _ in range(2)}
    assert answers[1]["result"]["serverInfo"]["name"] == "toolwire"
    assert answers[2]["result"]["content"] == [{"type": "text", "text": "quiet"}]
    assert wait_for(note.exists)
    rest, errors = served.communicate(timeout=30)
    assert rest == "" or json.loads(rest)["id"] == 3
    assert (served.returncode, note.read_text()) == (0, "stopped")
    assert errors.count("noise") == 4


# Lines that cannot be read, and the number and the code of the error that answers each.
UNREADABLE: list[tuple[bytes, Any, int]] = [
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":"\\ud800"}}}', 1, -32700),
    (b'{"jsonrpc":"2.0","id":"two","method":"tools/call","params":{"arguments":{"\\udc00":1}}}', "two", -32700),
    (b'{"method":"tools/call","params":{"arguments":{"id":7,"a":"\xed\xa0\x80"}},"jsonrpc":"2.0","id":3}', 3, -32700),
    (b'{"method":"tools/call","params":{"a":' + b"[" * 3000 + b"]" * 3000 + b'},"jsonrpc":"2.0","id":4}', 4, -32700),
    (b'{"method":"tools/call","params":{"a":' + b'{"id":' * 3000 + b"5" + b"}" * 3000 + b'},"id":5}', 5, -32700),
    (b'{"jsonrpc":"2.0","id":6,"method":"tools/call","params":' + b"[" * 3000, 6, -32700),
    (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":"\\"id\\":9, \\\\', 7, -32700),
    (b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"a":' + b"9" * 5000 + b"}}", 8, -32700),
    (b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":[1]}', 9, -32600),
    (b'{"jsonrpc":"2.0","id":10,"method":5}', 10, -32600),
    (b'{"id":11,"method":"ping"}', 11, -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":[1],"method":"tools/list"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', None, -32700),
]
# Lines that nobody waits for.
UNASKED = [
    b"no message",
    b"[]",
    b'"id": 1',
    b'{"jsonrpc":"2.0","method":"notifications/x","params":{"id":1,"a":"\\ud800"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud800"}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}',
]


def test_a_request_that_cannot_be_read_is_answered_over_stdio() -> None:
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}
    first = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about}).encode()
    pings = b'{"jsonrpc":"2.0","id":98,"method":"ping"},7,{"jsonrpc":"2.0","id":99,"method":"ping"}'
    last = b"\xef\xbb\xbf[" + pings + b"]\r"
    with subprocess.Popen(
        [sys.executable, SERVED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **PATHS}
    ) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        served.stdin.write(b"\n".join([first, *UNASKED, *(line for line, _, _ in UNREADABLE), last, b""]))
        served.stdin.flush()
        answers = [json.loads(served.stdout.readline()) for _ in range(len(UNREADABLE) + 3)]
    assert served.returncode == 0
    errors = [(one["id"], one["error"]["code"]) for one in answers if "error" in one]
    assert errors == [(number, code) for _, number, code in UNREADABLE]
    assert {one["id"] for one in answers if "result" in one} == {0, 98, 99}


@pytest.mark.parametrize("text", ['"\\ud800"', '{"\\udc00": 1}', "[" * 3000 + "]" * 3000, "[" * 3000, "9" * 5000])
@pytest.mark.parametrize("modern", [False, True])
def test_a_request_that_cannot_be_read_is_answered_over_http(url: str, text: str, modern: bool) -> None:
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if modern:
        named = {"mcp-method": "tools/call", "mcp-name": "echo", "mcp-protocol-version": MODERN_PROTOCOL_VERSIONS[0]}
        headers |= named
    body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":' + text + "}}}"
    answer = httpx2.post(url, content=body.encode(), headers=headers, timeout=5)
    assert answer.status_code == 400
    assert "error" in answer.json()


@pytest.mark.slow
@pytest.mark.parametrize("signal", [2, 15])
def test_an_interrupt_ends_a_server_that_waits(signal: int) -> None:
    served = subprocess.Popen(
        [sys.executable, SERVED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **PATHS}
    )
    assert served.stdin is not None
    served.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    served.stdin.flush()
    assert served.stdout is not None
    served.stdout.readline()
    served.send_signal(signal)
    assert served.wait(30) in (0, -15)
    served.stdin.close()
    served.stdout.close()


@pytest.mark.slow
@ERAS
def test_the_official_client_over_stdio(mode: str) -> None:
    async def main() -> list[str]:
        process = StdioServerParameters(command=sys.executable, args=[SERVED], env=PATHS)
        async with Client(stdio_client(process), mode=mode) as client:
            await client.call_tool("noise")
            results = [await client.call_tool(name, arguments) for name, arguments, _, _ in CALLS]
            return [texts(result)[0] for result in results]

    words = asyncio.run(main())
    assert all(said.startswith(wanted) for said, (_, _, wanted, _) in zip(words, CALLS, strict=True))


def test_a_session_never_sees_the_context_of_another_server() -> None:
    @tool
    def whose(context: Any = None) -> str:
        """Say whose."""
        return str(context)

    shared = AgentResolver([whose])

    async def main() -> list[str]:
        servers = [mcp.server_of(shared, context=f"canary {number}") for number in range(8)]

        async def one(server: Any) -> str:
            async with Client(server) as client:
                return texts(await client.call_tool("whose"))[0]

        return await asyncio.gather(*map(one, servers))

    assert asyncio.run(main()) == [f"canary {number}" for number in range(8)]
