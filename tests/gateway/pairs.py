"""Two gateways on one database, each a process of its own, before a model that repeats what it was told."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.test_serve import first_line
from tests.gateway.standing import Answered, send
from toolwire.cli import main
from toolwire.testing import Scenario, simulate
from toolwire.types import Text

SETTINGS = """
[server]
listen = "127.0.0.1:0"
database = "{database}"
[memory]
bytes = {size}
[providers.anthropic]
base_url = "{model}"
key = "$PAIR_KEY"
"""


class Pair(NamedTuple):
    """Two gateways: where they are, their processes, their settings, and the model's requests."""

    urls: tuple[str, str]
    processes: tuple["subprocess.Popen[str]", "subprocess.Popen[str]"]
    file: Path
    requests: list[Any]

    def key(self, name: str, **limits: str) -> str:
        """Make a key."""
        told, options = io.StringIO(), [text for limit in limits.items() for text in (f"--{limit[0]}", limit[1])]
        with contextlib.redirect_stdout(told):
            assert main(["keys", "create", "--config", str(self.file), "--name", name, *options]) == 0
        return told.getvalue().strip()


class Client(NamedTuple):
    """A client with a key, who asks the one gateway or the other."""

    pair: Pair
    key: str

    def send(self, at: int, method: str, path: str, body: Any = None) -> Answered:
        """Send a request to one of the two."""
        data = None if body is None else json.dumps(body).encode()
        return send(self.pair.urls[at % 2], method, path, data, {"authorization": f"Bearer {self.key}"})

    def ask(self, at: int, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request that has to be answered well, and read its answer."""
        answered = self.send(at, method, path, body)
        assert answered.status == 200, answered
        read: dict[str, Any] = json.loads(answered.data)
        return read

    def respond(self, at: int, words: str, **more: Any) -> dict[str, Any]:
        """Have the model repeat all that it was told."""
        return self.ask(at, "POST", "/v1/responses", {"model": "anthropic/m", "input": words, **more})

    def texts(self, at: int, conversation: str, *, users: bool = False) -> list[str]:
        """Give the words of a conversation in order: all, or those of users alone."""
        words, after = list[str](), ""
        while True:
            page = self.ask(at, "GET", f"/v1/conversations/{conversation}/items?order=asc&limit=100{after}")
            words += [
                part["text"] for item in page["data"] for part in item["content"] if not users or item["role"] == "user"
            ]
            if not page["has_more"]:
                return words
            after = f"&after={page['last_id']}"


def message(words: str) -> dict[str, str]:
    """Give a message of a user."""
    return {"role": "user", "content": words}


def words_of(answer: dict[str, Any]) -> str:
    """Give the words of an answer."""
    return "".join(part.get("text", "") for item in answer["output"] for part in item.get("content", ()))


def _repeat(request: Any, _turn: int) -> list[Any]:
    return [Text(" ".join(one.text for one in request.messages if one.role == "user"))]


@contextlib.contextmanager
def pair(folder: Path, database: str, size: int = 67_108_864) -> Iterator[Pair]:
    """Start two gateways, while this lasts."""
    file = folder / "toolwire.toml"
    with simulate(Scenario(_repeat, complete=False), strict=False) as model:
        file.write_text(SETTINGS.format(database=database, size=size, model=model.url))
        command = [sys.executable, "-m", "toolwire", "serve", "--quiet", "--config", str(file)]
        environment = {**os.environ, "PAIR_KEY": "sk-pair"}
        streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        one, other = (subprocess.Popen(command, env=environment, **streams) for _ in range(2))
        try:
            yield Pair((first_line(one), first_line(other)), (one, other), file, model.requests)
        finally:
            for process in (one, other):
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait(10)
                assert process.stdout is not None
                process.stdout.close()
