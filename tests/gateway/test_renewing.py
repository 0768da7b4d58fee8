"""Settings read anew while a gateway serves, and the way up to providers through proxies and private authorities."""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.test_serve import ask, first_line, opened, program
from tests.gateway.standing import post, standing
from tests.gateway.test_keys import body_of
from toolwire.config import read_settings
from toolwire.errors import UserError
from toolwire.gateway.routes import UpstreamNetwork
from toolwire.gateway.starting import upstream_of
from toolwire.testing import simulate

SETTINGS = """
[providers.local]
dialect = "openai-chat"
base_url = "{url}"
key_file = "key"
[routes.{route}]
to = ["local/m"]
"""


def _told_until(process: "subprocess.Popen[str]", word: str) -> str:
    """Read what it tells until there is a word in it."""
    assert process.stderr is not None
    told = ""
    while word not in told:
        line = process.stderr.readline()
        assert line, told
        told += line
    return told


def _status(url: str, model: str) -> int:
    try:
        ask(url, model)
    except urllib.error.HTTPError as problem:
        problem.close()
        return problem.code
    return 200


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
@pytest.mark.row("O27")
def test_settings_are_read_anew_and_bad_ones_leave_the_old_in_force(tmp_path: Path) -> None:
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model:
        file, key = tmp_path / "toolwire.toml", tmp_path / "key"
        file.write_text(SETTINGS.format(url=model.url, route="one"))
        key.write_text("first")
        process = program("--config", str(file), "--listen", "127.0.0.1:0")
        try:
            url = first_line(process)
            assert [_status(url, name) for name in ("one", "two")] == [200, 404]
            file.write_text(SETTINGS.format(url=model.url, route="two") + "[typo]\n")
            process.send_signal(signal.SIGHUP)
            told_before = _told_until(process, "refused")
            assert [_status(url, name) for name in ("one", "two")] == [200, 404]
            file.write_text(SETTINGS.format(url=model.url, route="two"))
            key.write_text("sk-another")
            process.send_signal(signal.SIGHUP)
            late = time.monotonic() + 20
            while _status(url, "two") != 200 and time.monotonic() < late:
                time.sleep(0.05)
            assert [_status(url, name) for name in ("one", "two")] == [404, 200]
            assert json.load(opened(f"{url}/ready")) == {"status": "ready"}
        finally:
            process.send_signal(signal.SIGTERM)
            _, told = process.communicate(timeout=20)
        assert model.requests[-1].headers["authorization"] == "Bearer sk-another"
        told = told_before + told
        assert "refused; the old ones are in force" in told
        assert "typo is not a section" in told
        assert "sk-another" not in told


@pytest.mark.slow
@pytest.mark.row("O27")
def test_a_key_of_a_provider_is_exchanged_under_load_without_a_refusal(tmp_path: Path) -> None:
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model:
        file, key = tmp_path / "toolwire.toml", tmp_path / "key"
        file.write_text(SETTINGS.format(url=model.url, route="one"))
        key.write_text("first")
        process = program("--quiet", "--config", str(file), "--listen", "127.0.0.1:0")
        try:
            url = first_line(process)
            with ThreadPoolExecutor(8) as pool:
                asked = [pool.submit(_status, url, "one") for _ in range(200)]
                asked[10].result()
                key.write_text("second")
                process.send_signal(signal.SIGHUP)
                assert {one.result() for one in asked} == {200}
            late = time.monotonic() + 20
            while model.requests[-1].headers["authorization"] != "Bearer second" and time.monotonic() < late:
                assert _status(url, "one") == 200
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
        used = [request.headers["authorization"] for request in model.requests]
        assert set(used) == {"Bearer first", "Bearer second"}


@contextlib.contextmanager
def _proxy(seen: list[bytes]) -> Iterator[str]:
    """Be a proxy that hands on what it is asked."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = server.accept()
                    data = client.recv(65536)
                    seen.append(data)
                    client.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
                    client.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_a_proxy_of_the_settings_is_used_but_for_hosts_that_are_direct() -> None:
    seen: list[bytes] = []
    with _proxy(seen) as proxy, simulate(lambda _request, _turn: "Hello.", strict=False) as model:
        with standing("http://models.example:8000") as stood:
            transport = stood.gateway.context.transport
            transport.upstream_network = UpstreamNetwork(proxy, frozenset({"127.0.0.1"}))  # type: ignore[attr-defined]
            post(stood.url, "/v1/chat/completions", body_of())
            assert seen[0].startswith(b"POST http://models.example:8000/v1/chat/completions HTTP/1.1")
        with standing(model.url) as stood:
            stood.gateway.context.transport.upstream_network = UpstreamNetwork(proxy, frozenset({"127.0.0.1"}))  # type: ignore[attr-defined]
            assert post(stood.url, "/v1/chat/completions", body_of()).status == 200
        assert len(seen) == 1


@pytest.mark.skipif(not Path("/usr/bin/openssl").exists(), reason="openssl makes the certificates")
def test_a_private_authority_is_trusted_where_the_settings_name_it(tmp_path: Path) -> None:
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-keyout", "key.pem", "-out", "ca.pem", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            for _ in range(8):
                with contextlib.suppress(OSError):
                    client, _ = server.accept()
                    with client, context.wrap_socket(client, server_side=True) as safe:
                        safe.recv(65536)
                        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n"
                        safe.sendall(head + b"{}")

        threading.Thread(target=serve, daemon=True).start()
        with standing(f"https://127.0.0.1:{server.getsockname()[1]}") as stood:
            assert post(stood.url, "/v1/chat/completions", body_of()).status == 502
            settings = read_settings('[upstream]\nca_file = "ca.pem"')
            upstream_network = upstream_of(settings, str(tmp_path / "toolwire.toml"))
            stood.gateway.context.transport.upstream_network = upstream_network  # type: ignore[attr-defined]
            assert post(stood.url, "/v1/chat/completions", body_of()).status == 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('proxy = "$PATH"', "PATH holds something else"),
        ('proxy = "$NO_SUCH"', "NO_SUCH is not set"),
        ('ca_file = "none.pem"', "none.pem cannot be read"),
    ],
)
def test_a_way_up_that_is_not_there_is_told_at_the_start(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        upstream_of(read_settings(f"[upstream]\n{text}"), str(tmp_path / "toolwire.toml"), {"PATH": "/bin"})


CHUNK = b'data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
LAST = b'data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@contextlib.contextmanager
def _streaming(begun: list[int], go_on: threading.Event) -> Iterator[str]:
    """Be a model that begins to answer, and goes on when it is told."""

    def answer(client: socket.socket) -> None:
        with client:
            client.recv(65536)
            client.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + CHUNK)
            begun.append(1)
            go_on.wait(30)
            client.sendall(LAST)

    with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=300)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow
@pytest.mark.row("O26")
def test_two_hundred_streams_end_well_when_a_signal_says_stop(tmp_path: Path) -> None:
    go_on, begun = threading.Event(), list[int]()
    with _streaming(begun, go_on) as upstream:
        file = tmp_path / "toolwire.toml"
        (tmp_path / "key").write_text("k")
        file.write_text(SETTINGS.format(url=upstream, route="one"))
        process = program("--quiet", "--config", str(file), "--listen", "127.0.0.1:0")
        url = first_line(process)
        with ThreadPoolExecutor(200) as pool:
            asked = [pool.submit(post, url, "/v1/chat/completions", body_of("one", stream=True)) for _ in range(200)]
            limit = time.monotonic() + 20
            while len(begun) < 200 and time.monotonic() < limit:
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            go_on.set()
            answered = [one.result() for one in asked]
        process.communicate(timeout=40)
        assert process.returncode == 0
        assert len(begun) == 200
        assert all(b"[DONE]" in one.data and not one.broken for one in answered)
