"""While one client sends the worst body that it can, others are answered within a second."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.processes import Gateway, Model

SETTINGS = """
[providers.local]
dialect = "openai-chat"
base_url = "{url}"
key = "$LOCAL_KEY"
[providers.chat]
dialect = "openai-chat"
base_url = "http://127.0.0.1:1"
key = "$LOCAL_KEY"
[providers.messages]
dialect = "anthropic"
base_url = "http://127.0.0.1:1"
key = "$LOCAL_KEY"
[providers.responses]
dialect = "openai-responses"
base_url = "http://127.0.0.1:1"
key = "$LOCAL_KEY"
[providers.content]
dialect = "gemini"
base_url = "http://127.0.0.1:1"
key = "$LOCAL_KEY"
"""
USER = {"role": "user", "content": "Go on."}
SECOND = 1.0


def call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "look", "arguments": '{"place": "here"}'}}


def of_calls(names: list[str]) -> list[dict[str, Any]]:
    results = [{"role": "tool", "tool_call_id": name, "content": "."} for name in names]
    return [USER, {"role": "assistant", "content": None, "tool_calls": [call(name) for name in names]}, *results]


def of_turns(count: int) -> list[dict[str, Any]]:
    asked: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call("call_0")]}
    answered: dict[str, Any] = {"role": "tool", "tool_call_id": "call_0", "content": "."}
    return [USER, *([asked, answered] * count)]


def tools(count: int) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"place": {"type": "string"}}}
    return [{"type": "function", "function": {"name": f"look{n}", "parameters": schema}} for n in range(count)]


BODIES: dict[str, Callable[[], dict[str, Any]]] = {
    "calls of one id": lambda: {"messages": of_calls(["call_0"] * 6_000)},
    "turns of one id": lambda: {"messages": of_turns(10_000)},
    "parallel calls": lambda: {"messages": of_calls([f"call_{n}" for n in range(100_000)])},
    "messages": lambda: {"messages": [USER, {"role": "assistant", "content": "Yes."}] * 350_000},
    "text": lambda: {"messages": [{"role": "user", "content": "word " * 12_000_000}]},
    "tools": lambda: {"messages": [USER], "tools": tools(50_000)},
    "depth": lambda: {"messages": [USER], "metadata": json.loads('{"a":' * 900 + "1" + "}" * 900)},
}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Model() as model:
        (tmp_path / "toolwire.toml").write_text(SETTINGS.format(url=model.url))
        started = Gateway(tmp_path)
        yield started
        started.stop()


def post(port: int, body: bytes) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("POST", "/v1/chat/completions", body)
        return connection.getresponse().status
    finally:
        connection.close()


def health(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    finally:
        connection.close()


def slowest_beside(port: int, body: bytes, clients: int) -> tuple[float, set[int]]:
    """Send a body, and ask for small things until it is answered; return the longest wait, and what was answered."""
    small = json.dumps({"model": "local/answer", "messages": [USER]}).encode()
    senders = [threading.Thread(target=post, args=(port, body)) for _ in range(clients)]
    for sender in senders:
        sender.start()
    slowest, statuses = 0.0, set[int]()
    while any(sender.is_alive() for sender in senders):
        start = time.monotonic()
        statuses.add(health(port))
        between = time.monotonic()
        statuses.add(post(port, small))
        slowest = max(slowest, between - start, time.monotonic() - between)
        time.sleep(0.02)
    for sender in senders:
        sender.join()
    return slowest, statuses


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("provider", ["chat", "messages", "responses", "content"])
@pytest.mark.parametrize("shape", BODIES)
def test_others_are_answered_within_a_second(shape: str, provider: str, gateway: Gateway) -> None:
    body = json.dumps({"model": f"{provider}/m", **BODIES[shape]()}).encode()
    slowest, statuses = slowest_beside(gateway.port, body, 1)
    assert statuses == {200}
    assert slowest < SECOND


def test_a_small_request_is_answered_beside_a_large_one(gateway: Gateway) -> None:
    body = json.dumps({"model": "responses/m", **BODIES["calls of one id"]()}).encode()
    slowest, statuses = slowest_beside(gateway.port, body, 2)
    assert statuses == {200}
    assert slowest < SECOND
