"""A gateway among enemies: every path is classified, nothing is answered without a key, nothing of ours is told."""

import contextlib
import json
import random
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gateway.standing import KEY, NAMES, Answered, at, post, standing
from tests.gateway.test_keys import Guarded, ask, body_of, guarded
from toolwire.config import GatewaySettings
from toolwire.dialects import dialect
from toolwire.gateway import starting
from toolwire.gateway.app import AllowedOrigins
from toolwire.gateway.metrics import Metrics
from toolwire.gateway.routes import Routes
from toolwire.testing import Cut, Fail, Raw, Scenario, simulate
from toolwire.translation import paths
from toolwire.types import Context, Error, Message, Request, Text, Thinking, ToolCall

__all__ = ["guarded"]

# Every path that is answered. One that is new stands here before this test is green again.
OPEN = {"/health", "/ready"}
OURS = {"/metrics", "/toolwire/requests/tw_0/losses", "/toolwire/keys", "/toolwire/keys/abcdefgh"}
WIRES = {
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/responses/input_tokens",
    "/v1/responses/compact",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1beta/models",
    "/api/chat",
    "/api/tags",
    "/api/version",
    "/api/show",
    "/v1/embeddings",
    "/v1/completions",
    "/v1/moderations",
    "/v1/images/generations",
    "/v1/audio/speech",
    "/api/embed",
    "/api/embeddings",
    "/api/generate",
}
PATTERNS = {
    "_GEMINI": "/v1beta/models/m:generateContent",
    "_MODEL": "/v1/models/m",
    "_RESPONSE": "/v1/responses/resp_1",
    "_CONVERSATION": "/v1/conversations/conv_1",
    "_WITH_TWO_VERSIONS": "/v1/v1/chat/completions",
    "_WITHOUT_VERSION": "/chat/completions",
}
NOBODYS = ["/", "/docs", "/openapi.json", "/debug", "/debug/pprof", "/admin", "/key/generate", "/keys", "/user/new"]
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECTX")


def said(url: str, data: bytes, patience: float = 5) -> bytes:
    """Send bytes, and read what is answered until the connection ends or nothing more comes."""
    with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), patience) as opened:
        heard = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            opened.sendall(data)
            opened.settimeout(0.5)
            while piece := opened.recv(65536):
                heard += piece
        return heard


def head(method: str, path: str, *more: str) -> bytes:
    """Write the head of a request."""
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "connection: close", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@pytest.mark.row("O2")
def test_every_path_of_the_table_is_classified() -> None:
    assert set(paths._FIXED) == WIRES
    patterns = {name for name in vars(paths) if name.isupper() and hasattr(getattr(paths, name), "fullmatch")}
    assert patterns == set(PATTERNS)
    assert all(getattr(paths, name).fullmatch(path) for name, path in PATTERNS.items())


@pytest.mark.row("O2", "O4", "O28")
def test_without_a_key_only_health_and_readiness_are_told(guarded: Guarded) -> None:
    known = sorted(OURS | WIRES | set(PATTERNS.values()))
    twisted = ["/v1//chat/completions", "/V1/CHAT/COMPLETIONS", "/v1/chat/completions/", "/health/../v1/models"]
    twisted += ["/v1%2fmodels", "/%2e%2e/v1/models", "/health/", "//health", "/health%00", "/v1/models;/health"]
    for path in [*known, *NOBODYS, *twisted]:
        for method in METHODS:
            answer = said(guarded.stood.url, head(method, path, "content-length: 0"), 2)
            assert answer[9:12] in (b"401", b"400", b""), (method, path, answer[:200])
    for path in OPEN:
        assert said(guarded.stood.url, head("GET", path))[9:12] == b"200"
        assert said(guarded.stood.url, head("POST", path, "content-length: 0"))[9:12] == b"404"
    assert guarded.model.requests == []


@pytest.mark.row("O28")
def test_figures_are_told_with_a_key_alone_and_have_few_labels(guarded: Guarded) -> None:
    gateway = guarded.stood.gateway
    metrics = Metrics(lambda: gateway.context.routes.providers, lambda: gateway.running)
    gateway.metrics, gateway.observers = metrics.render, [metrics.observe]
    key = guarded.make()
    assert ask(guarded.stood.url, key).status == 200
    for number in range(300):
        ask(guarded.stood.url, key, f'nobody/{number}"\n')
    answer = said(guarded.stood.url, head("GET", "/metrics", f"x-api-key: {key}"))
    told = answer.partition(b"\r\n\r\n")[2].decode()
    assert 'toolwire_requests_total{ending="answer",provider="openai",status="200",wire="openai-chat"} 1.0' in told
    assert 'toolwire_tokens_total{direction="output",provider="openai"}' in told
    assert "toolwire_running_requests 1.0" in told
    assert len(told.splitlines()) < 100
    assert key not in told
    assert "nobody" not in told
    assert b"401" in said(guarded.stood.url, head("GET", "/metrics"))[:16]


BODY = body_of()
DOUBTFUL = [
    ("length and chunks", [f"content-length: {len(BODY)}", "transfer-encoding: chunked"], BODY),
    ("two lengths", [f"content-length: {len(BODY)}", "content-length: 5"], BODY),
    ("a length that is none", ["content-length: 5x"], BODY),
    ("a negative length", ["content-length: -5"], BODY),
    ("an odd coding", ["transfer-encoding: xchunked"], BODY),
    ("a coding with a space", ["transfer-encoding : chunked"], b"0\r\n\r\n"),
    ("a folded header", ["x-a: b\r\n c", f"content-length: {len(BODY)}"], BODY),
    ("a header without a name", [": x", f"content-length: {len(BODY)}"], BODY),
    ("two hosts", ["host: evil", f"content-length: {len(BODY)}"], BODY),
    ("an upgrade", ["upgrade: h2c", "connection: upgrade", f"content-length: {len(BODY)}"], BODY),
    ("a chunk that is none", ["transfer-encoding: chunked"], b"zz\r\n" + BODY),
    ("a huge chunk extension", ["transfer-encoding: chunked"], b"5;" + b"a" * 1_000_000),
    ("a head that never ends", ["x-a: " + "a" * 300_000], BODY),
    ("a thousand headers", [f"x-{number}: " + "a" * 100 for number in range(1000)], BODY),
]


@pytest.mark.row("O7")
@pytest.mark.parametrize(("headers", "body"), [one[1:] for one in DOUBTFUL], ids=[one[0] for one in DOUBTFUL])
def test_a_doubtful_request_is_one_request_or_none(headers: list[str], body: bytes, guarded: Guarded) -> None:
    smuggled = head("GET", "/v1/models", f"x-api-key: {guarded.make()}")
    answer = said(guarded.stood.url, head("POST", "/v1/chat/completions", *headers) + body + smuggled)
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert answer[9:12] in (b"400", b"401", b"403", b"404", b""), answer[:200]
    assert guarded.model.requests == []
    assert ask(guarded.stood.url, guarded.make()).status == 200


@pytest.mark.row("O7")
@pytest.mark.parametrize("trailer", ["x-api-key: {key}", "origin: http://evil.example", "content-encoding: gzip"])
def test_what_follows_a_body_is_no_header(trailer: str, guarded: Guarded) -> None:
    key, body = guarded.make(), body_of()
    in_head = f"x-api-key: {key}"
    for shown, status in (([in_head], b"200"), ([], b"401")):
        head_ = head("POST", "/v1/chat/completions", *shown, "transfer-encoding: chunked")
        chunks = b"%x\r\n%s\r\n0\r\n%s\r\n\r\n" % (len(body), body, trailer.format(key=key).encode())
        assert said(guarded.stood.url, head_ + chunks)[9:12] == status


@pytest.mark.row("O12")
def test_who_sends_on_after_the_answer_is_given_up(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolwire.gateway.serving._HEAD_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", urlsplit(guarded.stood.url).port or 0), 5) as opened:
        lines = ["POST /v1/chat/completions HTTP/1.1", "host: 127.0.0.1", "content-length: 1000000"]
        opened.sendall("\r\n".join([*lines, "", ""]).encode())
        assert opened.recv(65536).startswith(b"HTTP/1.1 401")
        opened.sendall(b"x" * 500_000)  # it may be long, and is no head of another request
        ended = time.monotonic() + 5
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < ended:
                opened.sendall(b"x")
                time.sleep(0.02)
        assert time.monotonic() < ended


@pytest.mark.row("O2")
def test_a_websocket_is_told_at_once_that_there_is_none(guarded: Guarded) -> None:
    upgrade = ["upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="]
    head_ = head("GET", "/v1/responses", *upgrade).replace(b"connection: close", b"connection: upgrade")
    assert said(guarded.stood.url, head_)[9:12] in (b"401", b"404")


@pytest.mark.row("O33")
def test_the_second_version_of_http_is_not_spoken(guarded: Guarded) -> None:
    answer = said(guarded.stood.url, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(64))
    assert answer[:12] in (b"HTTP/1.1 400", b"")


@pytest.mark.row("O11")
@pytest.mark.parametrize(
    ("body", "headers", "statuses"),
    [
        (b"", {}, {400}),
        (b"[]", {}, {400}),
        (b"\xff\xfe", {}, {400}),
        (b'{"model": "openai/m", "messages": ' + b"[" * 100_000, {}, {400}),
        (b'{"model": "openai/m", "messages": ' + b"[" * 5000 + b"]" * 5000 + b"}", {}, {200, 400}),
        (b'{"model": "openai/m", "model": "anthropic/m"}', {}, {400}),
        (b'{"model": "\xff"}', {}, {400}),
        (b'{"model": "openai/m", "messages": [], "user": "\xff"}', {}, {400}),
        (b"\x1f\x8b" + bytes(100), {"content-encoding": "gzip"}, {415}),
        (b"[]", {"content-encoding": "Identity"}, {400}),
    ],
)
def test_a_malformed_body_is_refused(
    body: bytes, headers: dict[str, str], statuses: set[int], guarded: Guarded
) -> None:
    answered = post(guarded.stood.url, "/v1/chat/completions", body, {"x-api-key": guarded.make(), **headers})
    assert answered.status in statuses, answered


@pytest.mark.row("O18", "O31")
def test_a_limit_is_that_of_a_key_whatever_a_client_says_of_itself(guarded: Guarded) -> None:
    key, url = guarded.make(requests="2/day"), guarded.stood.url
    statuses = []
    for number in range(4):
        told = {"x-api-key": key, "x-forwarded-for": f"10.0.0.{number}", "forwarded": f"for=10.0.0.{number}"}
        more: dict[str, Any] = {
            "metadata": {"user_id": "admin"},
            "user": "root",
            "tenant_id": "other",
            "is_admin": True,
        }
        statuses.append(post(url, "/v1/chat/completions", body_of(**more), told).status)
    assert statuses == [200, 200, 429, 429]


@pytest.mark.row("O19")
def test_no_answer_is_to_be_kept_by_a_cache(guarded: Guarded) -> None:
    key, url = guarded.make(), guarded.stood.url
    assert ask(url, key).headers["cache-control"] == "no-store"
    assert ask(url, key, stream=True).headers["cache-control"] == "no-store"
    assert ask(url, None).headers["cache-control"] == "no-store"


@pytest.mark.row("O25")
@pytest.mark.parametrize(
    ("places", "host", "origin", "allowed"),
    [
        (AllowedOrigins(), "127.0.0.1:8080", "", True),
        (AllowedOrigins(), "localhost", "http://localhost:3000", True),
        (AllowedOrigins(), "[::1]:8080", "", True),
        (AllowedOrigins(), "LocalHost:8080", "HTTP://LOCALHOST:3000", True),
        (AllowedOrigins(("gate.example",), loopback=False), "Gate.Example:8080", "", True),
        (AllowedOrigins(), "evil.example:8080", "", False),
        (AllowedOrigins(), "127.0.0.1.evil.example", "", False),
        (AllowedOrigins(), "", "", False),
        (AllowedOrigins(), "127.0.0.1:8080", "https://evil.example", False),
        (AllowedOrigins(), "127.0.0.1:8080", "null", False),
        (AllowedOrigins(("gate.example",)), "gate.example", "", True),
        (AllowedOrigins(origins=("https://app.example",)), "127.0.0.1", "https://app.example", True),
        (AllowedOrigins(loopback=False), "any.example", "", True),
        (AllowedOrigins(loopback=False), "any.example", "https://evil.example", False),
        (AllowedOrigins(loopback=False), "any.example:8443", "https://any.example:8443", True),
        (AllowedOrigins(("gate.example",), loopback=False), "other.example", "", False),
    ],
)
def test_hosts_and_origins_go_by_a_list(places: AllowedOrigins, host: str, origin: str, allowed: bool) -> None:
    assert places.allow(host, origin) is allowed


@pytest.mark.row("O25")
def test_who_looks_whether_it_lives_may_come_by_its_address(guarded: Guarded) -> None:
    guarded.stood.gateway.allowed_origins = AllowedOrigins(("gate.example",), loopback=False)
    for path, status in (("/health", b"200"), ("/ready", b"200"), ("/metrics", b"403"), ("/v1/models", b"403")):
        assert said(guarded.stood.url, head("GET", path))[9:12] == status
    guarded.stood.gateway.allowed_origins = AllowedOrigins()
    assert said(guarded.stood.url, head("GET", "/health").replace(b"127.0.0.1", b"evil.example"))[9:12] == b"403"


@pytest.mark.row("O25")
@pytest.mark.parametrize(
    ("origin", "permitted"),
    [
        ("https://app.example", True),
        ("HTTPS://App.Example", True),
        ("http://localhost:3000", True),
        ("https://evil.example", False),
        ("https://app.example.evil.example", False),
        ("null", False),
    ],
)
def test_a_page_that_may_ask_is_permitted_before_it_shows_a_key(origin: str, permitted: bool, guarded: Guarded) -> None:
    guarded.stood.gateway.allowed_origins = AllowedOrigins(origins=("https://app.example",))
    url, path, page = guarded.stood.url, "/v1/chat/completions", f"origin: {origin}"
    wants = ("access-control-request-method: POST", "access-control-request-headers: authorization")
    first = said(url, head("OPTIONS", path, page, *wants)).decode()
    assert first[9:12] == ("204" if permitted else "403")
    for key, status in ((guarded.make(), 200), ("tw-none", 401)):
        answered = post(url, path, BODY, {"origin": origin, "x-api-key": key})
        assert answered.status == (status if permitted else 403)
        assert answered.headers.get("access-control-allow-origin") == (origin if permitted else None)
    if permitted:
        assert f"access-control-allow-origin: {origin}\r\n" in first
        assert "access-control-allow-headers: authorization\r\n" in first
        assert said(url, head("OPTIONS", path, page))[9:12] == b"401"
    assert b"access-control" not in said(url, head("OPTIONS", path, *wants))
    assert len(guarded.model.requests) == permitted


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_of_the_first_version_of_http_is_sent_no_chunks(stream: bool, guarded: Guarded) -> None:
    body = body_of(stream=stream)
    lines = head("POST", "/v1/chat/completions", f"x-api-key: {guarded.make()}", f"content-length: {len(body)}")
    answers = [
        said(guarded.stood.url, lines.replace(b"HTTP/1.1", version) + body) for version in (b"HTTP/1.0", b"HTTP/1.1")
    ]
    old, new = (answer.partition(b"\r\n\r\n") for answer in answers)
    assert (b"transfer-encoding" in old[0], b"transfer-encoding" in new[0]) == (False, stream)
    assert old[2].endswith(b"data: [DONE]\n\n") if stream else json.loads(old[2])["choices"]


@pytest.mark.row("O20", "O6")
def test_no_key_and_no_body_is_told_anywhere(guarded: Guarded, tmp_path: Path) -> None:
    gateway, secret = guarded.stood.gateway, "SENTINEL-5f2c-said-in-a-body"
    metrics = Metrics(lambda: gateway.context.routes.providers, lambda: gateway.running)
    gateway.observers = [metrics.observe]
    key = guarded.make(requests="1000/day", tokens="1000000/day")
    leak = f"bad key {KEY} at https://x/?key={KEY}"
    turns: list[Any] = [
        [Thinking(secret), Text(secret)],
        [Text(secret), Cut()],
        Fail(Error("authentication", leak, 401)),
        Fail(Error("server", leak, 500)),
        Raw(leak.encode()),
    ]
    told = b""
    for name in NAMES.values():
        for stream in (False, True):
            guarded.model.play(Scenario(turns))
            for _ in turns:
                answered = ask(guarded.stood.url, key, f"{name}/m", stream=stream, user=secret)
                told += json.dumps(answered.headers).encode()
                told += answered.data if answered.status >= 400 else b""
    told += said(guarded.stood.url, head("GET", f"/v1/models?key={key}", f"x-api-key: {secret}"))
    told += json.dumps(guarded.stood.seen.first(2 * len(NAMES) * len(turns))).encode() + metrics.render()
    time.sleep(0.3)
    told += b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for mark in (KEY, key, key[11:], secret):
        assert mark.encode() not in told, mark
    assert b"toolwire_windows" in told, "the control: the database was read"


@pytest.mark.row("O21")
def test_a_provider_that_leads_elsewhere_is_not_followed() -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as canary:
        to = f"http://127.0.0.1:{canary.getsockname()[1]}/"
        head_ = f"HTTP/1.1 307 X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"
        with _answering(head_.encode()) as url, standing(url) as stood:
            for model in ("openai/m", "anthropic/m"):
                answered = post(stood.url, "/v1/chat/completions", body_of(model))
                assert answered.status == 502
                assert to not in str(answered)
        canary.settimeout(0.1)
        with pytest.raises(TimeoutError):
            canary.accept()


@contextlib.contextmanager
def _answering(answer: bytes) -> Iterator[str]:
    """Be a server that says the same to everybody."""
    import threading

    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    opened, _ = server.accept()
                    opened.recv(65536)
                    opened.sendall(answer)
                    opened.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.row("O22")
@pytest.mark.parametrize("name", NAMES.values())
def test_what_a_request_points_to_is_not_fetched(name: str) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as canary, simulate([], strict=False) as model:
        model.play(lambda _request, _turn: "Hello.")
        url = f"http://127.0.0.1:{canary.getsockname()[1]}/x.png"
        content = [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": url}}]
        tool = {"type": "function", "function": {"name": "f", "parameters": {"$ref": url}}}
        with standing(model.url) as stood:
            body = {"model": f"{name}/m", "messages": [{"role": "user", "content": content}], "tools": [tool]}
            assert post(stood.url, "/v1/chat/completions", json.dumps(body).encode()).status in (200, 400)
        canary.settimeout(0.1)
        with pytest.raises(TimeoutError):
            canary.accept()


@pytest.mark.row("O32", "O10")
def test_a_line_of_the_log_is_one_line(guarded: Guarded, capsys: pytest.CaptureFixture[str]) -> None:
    guarded.stood.gateway.log = starting._log
    key = guarded.make()
    names = [
        'gpt-4\n{"level":"error"}',
        "\x1b[31mred",
        "{{7*7}}",
        "__class__",
        "${jndi:ldap://x}",
        "' OR 1=1",
        "x" * 5000,
    ]
    for name in names:
        assert ask(guarded.stood.url, key, name).status == 404
    said(guarded.stood.url, head("GET", "/%0a%1b[31m" + "x" * 5000, f"x-api-key: {key}"))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(names) + 1
    assert all(len(line) < 1500 and line.isprintable() and json.loads(line)["status"] == 404 for line in lines)


@pytest.mark.row("O29")
def test_nothing_of_the_inside_is_told(guarded: Guarded) -> None:
    key, url = guarded.make(), guarded.stood.url

    def fail(*_: Any) -> None:
        raise RuntimeError("SENTINEL of the inside")

    answers = [said(url, head(method, "/v1/messages", f"x-api-key: {key}")) for method in ("GET", "PUT")]
    guarded.stood.gateway.context.routes.find = fail  # type: ignore[method-assign,assignment]
    answered = ask(url, key)
    assert answered.status == 500
    assert b"SENTINEL" not in answered.data
    for answer in (*answers, str(answered).encode()):
        assert b"server:" not in answer.lower()
        assert b"Traceback" not in answer
        assert b".py" not in answer


@pytest.mark.row("O24")
@pytest.mark.parametrize("source", NAMES)
def test_a_hostile_provider_says_what_it_likes_and_the_client_alone_decides_what_runs(
    guarded: Guarded, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key, said = guarded.make(), '\x1b[2J\x07 \u202e\ufeff\x00 {"level":"error"}'
    call = ToolCall(None, "not_declared", {"command": f"rm -rf / {said}"})
    for target in NAMES:
        guarded.model.play(Scenario([[said, call]]))
        here = dialect(source)
        request = Request(context=Context(None, [Message("?")]), model=f"{NAMES[target]}/m", max_tokens=9, stream=False)
        encoded = here.encode_request(request)
        answered = post(guarded.stood.url, encoded.path, encoded.json, {"x-api-key": key})
        assert answered.status == 200, answered
        response = here.decode_response(json.loads(answered.data))
        assert response.content == said
        assert [(one.name, one.arguments) for one in response.tool_calls] == [(call.name, call.arguments)]
        assert "rm -rf" not in str(guarded.stood.seen[-1])
    told = capsys.readouterr()
    assert "rm -rf" not in told.out + told.err


def _chance(dice: random.Random) -> tuple[str, str, dict[str, str], bytes]:
    """Make a request of chance: nearly right, or not at all."""
    path = dice.choice([*WIRES, *PATTERNS.values(), *NOBODYS, *OURS, "/health", "/v1/models"])
    if dice.random() < 0.2:
        path += dice.choice(["/", "?key=x", "%00", "/..", ":x", "#a", "?alt=sse"])
    value: Any = dice.choice(["m", "openai/m", "anthropic/m", 5, None, [], {}, "x" * 300, "../../x", "\u0000"])
    body: Any = {"model": value, "messages": dice.choice([[], "x", [{"role": "user", "content": "x"}], [5], None])}
    for name in ("contents", "input", "tools", "max_tokens", "stream", "system", "n", "options", "generationConfig"):
        if dice.random() < 0.3:
            body[name] = dice.choice([[], {}, "x", -1, 10**400, True, None, [{"parts": 3}], [{"role": "tool"}], 1e308])
    data = json.dumps(body).encode()
    if dice.random() < 0.2:
        data = data[: dice.randrange(len(data))] + dice.randbytes(dice.randrange(5))
    headers = {"content-type": dice.choice(["application/json", "text/plain", ""])}
    if dice.random() < 0.3:
        name = dice.choice(["x-api-key", "authorization", "x-goog-api-key", "x-toolwire-strict", "expect"])
        headers[name] = dice.choice(["", "1", "Bearer", "tw-" + "a" * 40, "Bearer tw-" + "b" * 40, "\xff" * 20])
    return dice.choice(["GET", "POST", "POST", "POST", "PUT", "OPTIONS"]), path, headers, data


def _fuzz(guarded: Guarded, count: int, seed: int) -> None:
    import http.client

    dice, key = random.Random(seed), guarded.make()  # noqa: S311 - the same ones each time
    guarded.model.play(lambda _request, _turn: "Hello.")
    port, broken = urlsplit(guarded.stood.url).port, 0
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    for number in range(count):
        guarded.model.requests.clear()
        guarded.stood.seen.clear()
        method, path, headers, data = _chance(dice)
        mine = dice.random() < 0.5
        if mine:
            headers["x-api-key"] = key
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            answer.read()
        except (http.client.HTTPException, ConnectionError):
            connection.close()
            broken += 1
            continue
        assert answer.status < 500, (number, method, path, headers, data)
        assert mine or re.split("[?#]", path)[0] in OPEN or answer.status >= 400, (number, method, path, headers, data)
    connection.close()
    assert broken < count / 5, "most of them are whole requests"


@pytest.mark.row("O3")
def test_nothing_of_chance_is_a_fault_of_ours_or_served_without_a_key(guarded: Guarded) -> None:
    _fuzz(guarded, 500, 1)


@pytest.mark.slow
@pytest.mark.row("O3")
def test_of_fifty_thousand_requests_of_chance_none_is_a_fault_or_served_without_a_key(guarded: Guarded) -> None:
    _fuzz(guarded, 50_000, 2)


def test_what_is_kept_of_names_that_clients_asked_for_is_bounded() -> None:
    routes = Routes(GatewaySettings(), {"a": at("http://127.0.0.1:9", "openai").with_options(name="a")})
    names = [f"a/{number}" for number in range(3000)]
    assert [routes.find(name) for name in names] == [routes.find(name) for name in names]
    assert len(routes._resolved) <= 1024
    assert [routes.find(name) for name in ("a", "b/m", "a/" + "m" * 300, "a/m m")] == [None] * 4


@pytest.mark.slow
def test_the_routes_of_a_gateway_are_asked_in_their_order_and_by_weight() -> None:
    with simulate([], strict=False) as one, simulate([], strict=False) as two:
        one.play(lambda _request, _turn: "Hello.")
        two.play(lambda _request, _turn: "Hello.")
        settings = """[routes.both]
to = [{ model = "a/m", weight = 3 }, { model = "b/m", weight = 1 }]
"""
        providers = {name: at(model.url, "openai").with_options(name=name) for name, model in (("a", one), ("b", two))}
        with standing(one.url, settings, providers) as stood:
            answered: list[Answered] = []
            for number in range(80):
                body = {"model": "both", "messages": [{"role": "user", "content": f"Question {number}"}]}
                answered += [post(stood.url, "/v1/chat/completions", json.dumps(body).encode()) for _ in range(2)]
            models = [one.headers["x-toolwire-model"] for one in answered]
            assert models[::2] == models[1::2], "a conversation stays where its cache is"
            assert 35 < models[::2].count("a/m") < 75
