"""A server of the older protocol, written by hand: it starts at once, and does what it is told."""

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOOLS: list[Any] = [
    {"name": "do", "inputSchema": {"type": "object"}},
    {
        "name": "odd\nname",
        "inputSchema": {"type": "string", "properties": 5},
        "annotations": "none",
        "title": 3,
    },
    {"name": "list schema", "inputSchema": [1], "description": 7},
    {"name": "no schema"},
    {"nameless": True},
    7,
]
if "--twice" in sys.argv:
    TOOLS += [{"name": "do", "inputSchema": {"type": "object"}, "description": "the second"}, *TOOLS]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(number: Any, words: str) -> None:
    send({"id": number, "result": {"content": [{"type": "text", "text": words}]}})


def die(_number: Any, code: int) -> None:
    sys.stderr.write("last words\x1b[2J\n" if "--twice" in sys.argv else "last words\n")
    sys.stderr.flush()
    os._exit(code)


def count(number: Any, told: dict[str, Any]) -> None:
    with Path(told["path"]).open("a") as file:
        file.write("once\n")
    time.sleep(told.get("wait", 0))
    text(number, str(os.getpid()))


def raw(number: Any, words: str) -> None:
    sys.stdout.write(words)
    text(number, "after")


def ask(number: Any, method: str) -> None:
    send({"id": "own", "method": method, "params": {"messages": [], "maxTokens": 1}})
    text(number, sys.stdin.readline())


def flood(number: Any, method: str) -> None:
    while True:
        send({"method": method, "params": {"progressToken": number, "progress": 1, "level": "info", "data": "x"}})


def grow(number: Any, name: str) -> None:
    TOOLS.append({"name": name, "inputSchema": {"type": "object"}})
    send({"method": "notifications/tools/list_changed"})
    text(number, "grown")


DEEDS: dict[str, Callable[[Any, Any], None]] = {
    "die": die,
    "count": count,
    "raw": raw,
    "ask": ask,
    "grow": grow,
    "size": lambda number, size: text(number, "x" * size),
    "result": lambda number, result: send({"id": number, "result": result}),
    "error": lambda number, error: send({"id": number, "error": error}),
    "about": lambda number, _: text(number, json.dumps([os.getpid(), str(Path.cwd()), dict(os.environ)])),
    "silent": lambda _number, _: None,
    "flood": flood,
}


def call(number: Any, told: dict[str, Any]) -> None:
    [(deed, given)] = told.items()
    DEEDS[deed](number, given)


def answer(message: dict[str, Any]) -> None:
    number, params = message.get("id"), message.get("params") or {}
    match message.get("method"):
        case "initialize" if "--begins-late" in sys.argv or "--newer" in sys.argv:
            send({"id": number, "error": {"code": -32022, "message": "no handshake", "data": {"supported": ["no"]}}})
        case "server/discover" if ("--begins-late" in sys.argv and number != 1) or {"--newer", "--both"} & {*sys.argv}:
            about = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0}
            send({"id": number, "result": {**about, "resultType": "complete", "cacheScope": "private"}})
        case "server/discover" if "--silent" in sys.argv or "--begins-late" in sys.argv:
            pass
        case "initialize":
            about = {"name": "by hand", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": about}
            send({"id": number, "result": result})
        case "tools/list":
            listed = {"tools": TOOLS, **({"nextCursor": "again"} if "--endless" in sys.argv else {})}
            send({"id": number, "result": listed})
        case "tools/call":
            call(number, params["arguments"])
        case _ if number is not None:
            send({"id": number, "error": {"code": -32601, "message": "no such method"}})


def main() -> None:
    if "--escapes" in sys.argv:
        sys.stderr.write("\x1b[2J\x1b]0;mine\x07 \u202egone\n")
        sys.stderr.flush()
        os._exit(3)
    if "--tells" in sys.argv:
        sys.stderr.write(f"no access: {os.environ['SERVER_TOKEN']}, {os.environ['PLACE']}\n")
        sys.stderr.flush()
        os._exit(3)
    if "--sleeps" in sys.argv:
        time.sleep(1.5)
    if "--deaf" in sys.argv:
        time.sleep(60)
    if "--child" in sys.argv and os.fork() == 0:
        if "--apart" in sys.argv:
            os.setsid()
        with Path(sys.argv[-1]).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(60)
        os._exit(0)
    for line in sys.stdin:
        if "--strict" in sys.argv and "server/discover" in line:
            os._exit(1)
        answer(json.loads(line))


if __name__ == "__main__":
    main()
