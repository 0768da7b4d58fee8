"""No schema makes us fetch anything: no socket is opened, no file is read."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.schemas import STRING, Schema, around
from toolwire.errors import InvalidSchema
from toolwire.schema.validator import Validator


class Listener:
    """A server that counts who comes; it sees also what does not go through Python's sockets."""

    def __init__(self) -> None:
        self.visits = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection:
                if connection.recv(1000).startswith(b"stop"):
                    return
                self.visits += 1
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ntrue")

    def close(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as last:
            last.sendall(b"stop")
        self._thread.join()
        self._socket.close()


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    found = Listener()
    yield found
    found.close()


class Touched(BaseException):
    pass


@contextmanager
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*_args: Any, **_options: Any) -> Any:
        raise Touched

    with monkeypatch.context() as patched:
        for name in ("connect", "connect_ex"):
            patched.setattr(socket.socket, name, refuse)
        for name in ("getaddrinfo", "gethostbyname", "create_connection"):
            patched.setattr(socket, name, refuse)
        yield


REMOTE: list[Callable[[str], Schema]] = [
    lambda uri: {"$ref": uri},
    lambda uri: around({"$ref": f"{uri}#/$defs/x"}),
    lambda uri: around({"$dynamicRef": f"{uri}#x"}),
    lambda uri: {"$defs": {"never": {"$ref": uri}}},
    lambda uri: around({"items": {"anyOf": [STRING, {"$ref": uri}]}}),
    lambda uri: {"$id": uri, **around({"$ref": "other.json"})},
    lambda uri: around({"$id": uri, "items": {"$ref": "other.json#/x"}}),
    lambda uri: {"$schema": uri},
    lambda uri: around({"$schema": uri}),
]


@pytest.mark.parametrize("number", range(len(REMOTE)))
@pytest.mark.row("H1")
def test_nothing_is_fetched(number: int, listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "s.json"
    file.write_text("true")
    uris = (f"http://127.0.0.1:{listener.port}/s.json", file.as_uri(), "https://a.invalid/s.json", "s.json")
    with no_network(monkeypatch):
        for uri in uris:
            with pytest.raises(InvalidSchema) as caught:
                Validator(REMOTE[number](uri))
            assert caught.value.path
    assert listener.visits == 0


@pytest.mark.row("H1")
def test_a_reference_in_a_value_is_a_value(listener: Listener) -> None:
    uri = f"http://127.0.0.1:{listener.port}/s.json"
    schema = around({"const": {"$ref": uri}, "default": {"$ref": uri}, "x-see": {"$ref": uri}}, **{"$id": uri})
    assert Validator(schema).problems({"p": {"$ref": uri}}) == []
    assert listener.visits == 0


def test_the_guards_see_what_is_fetched(listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: the library alone does fetch, and both guards notice."""
    (tmp_path / "s.json").write_text("true")
    for uri in (f"http://127.0.0.1:{listener.port}/s.json", (tmp_path / "s.json").as_uri()):
        assert jsonschema_rs.Draft202012Validator({"$ref": uri}).is_valid(1)
    assert listener.visits == 1
    with no_network(monkeypatch), pytest.raises(Touched):
        socket.create_connection(("127.0.0.1", listener.port))
