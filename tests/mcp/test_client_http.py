"""Servers over HTTP: away and back, too much, headers, cancelled calls."""

import asyncio
import contextlib
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.mcp import served
from tests.mcp.serving import (
    in_thread,
    serve_app,
    serve_ours,
    wait_for,
)
from toolwire import (
    AgentResolver,
    ToolCall,
    ToolResult,
    mcp,
    tool,
)
from toolwire.mcp import McpResolver
from toolwire.waiting.results import FAILED

pytestmark = pytest.mark.slow  # servers are begun and ended


def test_a_call_that_is_given_up_is_stopped(tmp_path: Path) -> None:
    note = tmp_path / "note"

    async def main(resolver: McpResolver) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await resolver.aresolve(ToolCall("c1", "nap", {"path": str(note)}))

    with in_thread(serve_ours) as url, mcp.http(url) as resolver:
        asyncio.run(main(resolver))
        assert wait_for(lambda: note.read_text() == "stopped")


def test_an_http_server_that_went_away_and_came_back() -> None:
    with in_thread(serve_ours) as url:
        resolver = mcp.http(url).connect()
        echo = ToolCall("c1", "echo", {"a": 1})
        assert not resolver.resolve(echo).is_error
    with contextlib.closing(resolver):
        assert str(resolver.resolve(echo).content).startswith(f"{FAILED}cannot be reached: ")
        port = int(url.split(":")[2].split("/")[0])

        async def serve(ready: Callable[[str], None]) -> None:
            await mcp.aserve(served.resolver(), transport="http", port=port, ready=ready)

        with in_thread(serve):
            assert not resolver.resolve(echo).is_error


def test_an_answer_over_http_has_a_limit() -> None:
    @tool(output_limit=10_000_000)
    def long(size: int) -> str:
        """Say much."""
        return "x" * size

    async def serve(ready: Callable[[str], None]) -> None:
        await mcp.aserve(AgentResolver([long]), transport="http", port=0, ready=ready)

    with in_thread(serve) as url, mcp.http(url, max_message=100_000) as resolver:
        assert len(resolver.resolve(ToolCall("c1", "long", {"size": 90_000})).content) == 90_000
        result = resolver.resolve(ToolCall("c1", "long", {"size": 5_000_000}))
        assert "the answer has more than 100000 bytes" in str(result.content)
        assert len(resolver.resolve(ToolCall("c1", "long", {"size": 90_000})).content) == 90_000


def test_headers_are_sent() -> None:
    """A server that wants a key gets it with each request, and only answers those that have it."""
    seen: list[str | None] = []

    async def serve(ready: Callable[[str], None]) -> None:
        app = mcp.server_of(served.resolver()).streamable_http_app()

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                seen.append(dict(scope["headers"]).get(b"authorization", b"").decode())
            await app(scope, receive, send)

        await serve_app(guarded, ready)

    with in_thread(serve) as url, mcp.http(url, headers={"Authorization": "Bearer k"}) as resolver:
        assert not resolver.resolve(ToolCall("c1", "echo", {"a": 1})).is_error
    assert set(seen) == {"Bearer k"}


JSON, EVENTS = "application/json", "text/event-stream"
REFUSED = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "%s"}}'
# How servers say that they do not know a session any more.
FORGOTTEN: dict[str, tuple[int, str, bytes]] = {
    "forgotten": (404, JSON, b""),
    "forgotten in JSON": (404, JSON, REFUSED % b"Session not found"),
    "forgotten in words": (404, "text/plain", b"Session not found"),
    "forgotten by 400 in JSON": (400, JSON, REFUSED % b"Bad Request: No valid session ID provided"),
    "forgotten by 400 in words": (400, "text/plain", b"Invalid session ID"),
    "forgotten by one that began anew": (400, JSON, REFUSED % b"Bad Request: Server not initialized"),
}
HALF = '{"jsonrpc": "2.0", "id": 4, "result": {"content": [{"type": "text", "text": "half \\ud83d"}]}}'
ODD_CODE = '{"jsonrpc": "2.0", "id": 4, "error": {"code": "E1", "message": "own words"}}'
TOLD = '{"jsonrpc": "2.0", "method": "notifications/x"}'
# How servers answer a call: DONE is the answer.
SAID: dict[str, tuple[str, str]] = {
    "half a character": (JSON, HALF),
    "half a character in a stream": (EVENTS, f"event: message\r\ndata: {HALF}\r\n\r\n"),
    "several": (JSON, f"[{TOLD}, DONE]"),
    "several in a stream": (EVENTS, f"data: [{TOLD}, DONE]\n\n"),
    "over several lines of a stream": (EVENTS, 'data: {"jsonrpc": "2.0", "id": 4,\ndata: "result": {}}\n\n'),
    "over several lines": (JSON, '\ufeff{"jsonrpc": "2.0",\r\n "id": 4,\n "result": {}}\n'),
    "another number": (JSON, '{"jsonrpc": "2.0", "id": 999, "result": {}}'),
    "no number": (JSON, '{"jsonrpc": "2.0", "id": null, "error": {"code": -5, "message": "own words"}}'),
    "nothing": (JSON, ""),
    "odd code": (JSON, ODD_CODE),
    "odd code in a stream": (EVENTS, f"event: message\ndata: {ODD_CODE}\n\n"),
}


class ByHand(BaseHTTPRequestHandler):
    """A server of the older protocol that answers calls as the path says."""

    protocol_version = "HTTP/1.1"
    calls = 0
    sessions = 0
    lost = 0
    unlisted = ""
    valid = ""

    def log_message(self, *_: Any) -> None:
        pass

    def reply(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content_type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.reply(b"", 405)

    def do_DELETE(self) -> None:
        self.reply(b"", 405)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "serverInfo": {"name": "n", "version": "1"},
        }
        results: dict[str, Any] = {
            "initialize": about,
            "tools/list": {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]},
        }
        method = asked["method"]
        if method == "initialize":
            ByHand.sessions += 1
            ByHand.valid = f"s{ByHand.sessions}"
        if method == "tools/list" and self.headers["mcp-session-id"] == ByHand.unlisted:
            self.reply(b"", 404)
        elif method in results:
            body = {"jsonrpc": "2.0", "id": asked["id"], "result": results[method]}
            self.reply(json.dumps(body).encode(), mcp_session_id=f"s{ByHand.sessions}")
        elif method == "tools/call":
            ByHand.calls += 1
            time.sleep(asked["params"]["arguments"].get("wait", 0))
            self.call(asked["params"]["arguments"]["how"], asked["id"])
        elif "id" in asked:
            self.reply(b"", 400)
        else:
            self.reply(b"", 202)

    def call(self, how: str, number: int) -> None:
        done = {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "done"}]}}
        body = json.dumps(done).encode()
        match how:
            case "valid" if self.headers["mcp-session-id"] != ByHand.valid:
                self.reply(REFUSED % b"Session not found", 404)
            case "silent":
                self.close_connection = True
            case "short":
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "1000")
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True
            case "zipped":
                self.reply(gzip.compress(body), content_encoding="gzip")
            case _ if how in FORGOTTEN and ByHand.sessions != ByHand.lost:
                ByHand.lost = ByHand.sessions + 1
                status, kind, body = FORGOTTEN[how]
                self.reply(body, status, content_type=kind)
            case _ if how in SAID:
                kind, text = SAID[how]
                self.reply(text.replace("DONE", body.decode()).encode(), content_type=kind)
            case "401 in JSON":
                self.reply(b'{"detail": "no"}', 401)
            case status if status.isdigit():
                self.reply(b"<html>", int(status), content_type="text/html")
            case _:
                self.reply(body)


@pytest.fixture(scope="module")
def strange() -> Iterator[McpResolver]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), ByHand)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    with mcp.http(f"http://127.0.0.1:{server.server_port}/mcp", timeout=5) as resolver:
        yield resolver
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("how", "words", "calls"),
    [
        ("", "done", 1),
        ("silent", f"{FAILED}cannot be reached: ", 1),
        ("short", f"{FAILED}the answer broke off: ", 1),
        ("zipped", f"{FAILED}answered with a compressed body", 1),
        ("401", f"{FAILED}answered 401 Unauthorized", 1),
        ("503", f"{FAILED}answered 503 Service Unavailable", 1),
        ("200", f"{FAILED}Unexpected content type: text/html", 1),
        ("302", f"{FAILED}Unexpected content type: text/html", 1),
        ("401 in JSON", f"{FAILED}answered 401 Unauthorized", 1),
        ("odd code", f"{FAILED}own words", 1),
        ("odd code in a stream", f"{FAILED}own words", 1),
        ("half a character", "half \ufffd", 1),
        ("half a character in a stream", "half \ufffd", 1),
        ("several", "done", 1),
        ("several in a stream", "done", 1),
        ("over several lines", "", 1),
        ("over several lines of a stream", "", 1),
        ("another number", "", 1),
        ("no number", f"{FAILED}own words", 1),
        ("nothing", f"{FAILED}the answer cannot be read", 1),
        *((how, "done", 2) for how in FORGOTTEN),
        ("well", "done", 1),
    ],
)
def test_a_failure_of_http_costs_its_call_only(strange: McpResolver, how: str, words: str, calls: int) -> None:
    """No call is repeated but that of a session which the server forgot: it was not begun."""
    ByHand.lost = 0
    before = ByHand.calls
    result = strange.resolve(ToolCall("c1", "do", {"how": how}))
    assert str(result.content).startswith(words)
    assert result.is_error == words.startswith(FAILED)
    assert ByHand.calls - before == calls


def test_calls_that_meet_a_forgotten_session_together_all_have_results(strange: McpResolver) -> None:
    """Some are under way when the first one is told."""
    ByHand.valid, sessions = "none", ByHand.sessions

    async def main() -> list[ToolResult]:
        calls = [ToolCall(f"c{wait}", "do", {"how": "valid", "wait": wait / 50}) for wait in range(10)]
        return await asyncio.gather(*map(strange.aresolve, calls))

    assert [result.content for result in asyncio.run(main())] == ["done"] * 10
    assert ByHand.sessions == sessions + 1


def test_a_session_that_is_forgotten_is_begun_anew_for_a_listing(strange: McpResolver) -> None:
    ByHand.unlisted = f"s{ByHand.sessions}"
    strange.refresh()
    assert ByHand.unlisted != f"s{ByHand.sessions}"
    assert [one.name for one in strange.available_tools()] == ["do"]


class Silent(ByHand):
    """A server of the older protocol that holds a method open that it does not know."""

    given_up = threading.Event()

    def do_POST(self) -> None:
        line = self.rfile.peek()  # type: ignore[attr-defined]
        if b"server/discover" in line:
            self.given_up.wait(20)
            self.close_connection = True
        else:
            super().do_POST()


def test_a_server_over_http_that_does_not_answer_the_first_question_starts_soon() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    start = time.monotonic()
    try:
        with mcp.http(f"http://127.0.0.1:{server.server_port}/mcp") as resolver:
            assert [one.name for one in resolver.available_tools()] == ["do"]
            assert time.monotonic() - start < 3
    finally:
        Silent.given_up.set()
        server.shutdown()
        server.server_close()
        thread.join()
