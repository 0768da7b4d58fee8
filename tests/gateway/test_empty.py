"""An answer of a model without a body is an error in every wire, and the next provider of its route is asked."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.standing import NAMES, WIRES, Answered, Stood, at, post, standing
from toolwire.dialects import dialect
from toolwire.testing import simulate
from toolwire.types import Context, Message, Request

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\n"
EMPTY = {
    "no bytes": HEAD + b"content-length: 0\r\n\r\n",
    "no chunk": HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "closed": HEAD + b"connection: close\r\n\r\n",
    "blanks": HEAD + b"content-length: 4\r\n\r\n \n\r\n",
    "201": HEAD.replace(b"200 OK", b"201 Created") + b"content-length: 0\r\n\r\n",
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "205": b"HTTP/1.1 205 Reset Content\r\ncontent-length: 0\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n",
}
SILENT = {
    **EMPTY,
    "a comment": HEAD + b"connection: close\r\n\r\n: PROCESSING\n\n: PROCESSING\n\n",
}
PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "/v1/embeddings": ("openai", {"input": "x"}),
    "/v1/moderations": ("openai", {"input": "x"}),
    "/v1/completions": ("openai", {"prompt": "x", "stream": True}),
    "/v1/audio/speech": ("openai", {"input": "x", "voice": "v"}),
    "/v1/messages/count_tokens": ("anthropic", {"messages": []}),
    "/v1/responses/input_tokens": ("openai-responses", {"input": "x"}),
    "/v1/responses/compact": ("openai-responses", {"input": "x"}),
    "/api/embed": ("ollama", {"input": "x"}),
    "/api/generate": ("ollama", {"prompt": "x"}),
}


@contextlib.contextmanager
def server(said: bytes) -> Iterator[str]:
    """Answer each request with these bytes, and close the connection."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                opened, _ = listening.accept()
                with opened:
                    opened.settimeout(5)
                    opened.recv(1 << 20)
                    opened.sendall(said)
                    if b"101" in said:  # who switches keeps the connection
                        opened.recv(1)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


@contextlib.contextmanager
def gateway(url: str, good: str) -> Iterator[Stood]:
    """Stand before servers that say nothing, and before good ones called `good-...` that follow them in a route."""
    goods = {f"good-{name}": at(good, name).with_options(name=f"good-{name}") for name in NAMES.values()}
    routes = "".join(f'[routes.{name}]\nto = ["{name}/m", "good-{name}/m"]\n' for name in NAMES.values())
    with standing(url, routes, goods) as stood:
        yield stood


def asked(url: str, source: str, model: str, *, stream: bool) -> Answered:
    encoded = dialect(source).encode_request(
        Request(context=Context(None, [Message("Hello")]), model=model, stream=stream, max_tokens=9)
    )
    return post(url, encoded.path, encoded.json)


def content_type_of(target: str, *, stream: bool) -> bytes:
    if not stream:
        return b"application/json"
    return b"application/x-ndjson" if target == "ollama" else b"text/event-stream"


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("empty", SILENT)
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("source", WIRES)
def test_an_answer_without_a_body_is_an_error_and_the_next_provider_is_asked(
    source: str, target: str, empty: str, stream: bool
) -> None:
    if empty not in EMPTY and (not stream or target == "ollama"):
        pytest.skip("its wire has no comments")
    said = SILENT[empty].replace(b"%s", content_type_of(target, stream=stream))
    with (
        simulate(lambda _request, _turn: "Hello.", strict=False) as model,
        server(said) as url,
        gateway(url, model.url) as stood,
    ):
        answered = asked(stood.url, source, f"{NAMES[target]}/m", stream=stream)
        assert answered.status == 502
        read = dialect(source).decode_error(answered.status, json.loads(answered.data), answered.headers)
        status = empty if empty.isdigit() else "200"
        assert (read.kind, read.message) == ("server", f"{NAMES[target]} answered with {status} and an empty body")
        assert stood.seen[-1]["ending"] == "error"
        good = asked(stood.url, source, NAMES[target], stream=stream)
        assert (good.status, good.headers["x-toolwire-model"]) == (200, f"good-{NAMES[target]}/m")
        assert b"Hel" in good.data


@pytest.mark.sampled
@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("path", PATHS)
def test_what_a_model_answers_on_other_paths_has_a_body_too(path: str, empty: str) -> None:
    name, body = PATHS[path]
    with server(EMPTY[empty].replace(b"%s", b"application/json")) as url, standing(url) as stood:
        answered = post(stood.url, path, json.dumps({"model": f"{name}/m", **body}).encode())
        assert answered.status == 502
        assert b"and an empty body" in answered.data


def test_a_model_that_thinks_longer_than_a_keep_alive_is_waited_for() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    begun, ends = threading.Event(), threading.Event()

    def serve() -> None:
        opened, _ = listening.accept()
        with opened, listening:
            opened.recv(1 << 20)
            opened.sendall(HEAD % b"text/event-stream" + b"connection: close\r\n\r\n")
            begun.set()
            ends.wait(10)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with standing(f"http://127.0.0.1:{listening.getsockname()[1]}", keep_alive=0.05) as stood:
        threading.Timer(0.4, ends.set).start()
        answered = asked(stood.url, "openai-chat", "anthropic/m", stream=True)
    assert begun.is_set()
    assert answered.status == 200
    assert answered.data.startswith(b": waiting\n\n")
    assert b'"error"' in answered.data
    thread.join(10)


@pytest.mark.parametrize("messages", [b"", b'"%s": [],', b'"%s" : null ,', b'"%s": [ ],'])
@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/v1/chat/completions", b"messages"),
        ("/v1/messages", b"messages"),
        ("/v1beta/models/ollama/m:generateContent", b"contents"),
    ],
)
def test_a_request_without_messages_is_rejected_before_a_server_that_accepts_it(
    path: str, key: bytes, messages: bytes
) -> None:
    with simulate([]) as model, standing(model.url) as stood:
        body = b'{%s "model": "ollama/m", "max_tokens": 9}' % (messages % key if messages else b"")
        answered = post(stood.url, path, body)
        assert answered.status == 400
        assert f"{key.decode()}: at least one message is required".encode() in answered.data
        assert model.requests == []
