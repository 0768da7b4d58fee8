"""The audit trace of a gateway that is killed: what of the answers that clients have is in the store afterwards."""

import contextlib
import http.client
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from tests.gateway.standing import KEY, NAMES, WIRES, post, standing
from tests.traces.postgres import Database
from toolwire import traces
from toolwire.dialects import dialect
from toolwire.errors import StoreFailed
from toolwire.gateway.auditing import _BEHIND, Audit
from toolwire.testing import simulate
from toolwire.testing.server import SimulatedModel
from toolwire.types import Context, Message, Request, Tool, ToolCall

TOOL = Tool("look", "Look.", {"type": "object", "properties": {"city": {"type": "string"}}})
# What the last words of a stream hold.
LAST = {
    "openai-chat": b"[DONE]",
    "openai-responses": b"event: response.completed",
    "anthropic": b"event: message_stop",
    "gemini": b'"finishReason"',
    "ollama": b'"done":true',
}
SETTINGS = """
[traces]
url = "{url}"
failing = "{failing}"
[providers.openai]
base_url = "{model}"
key = "$SOME_KEY"
[providers.anthropic]
base_url = "{model}"
key = "$SOME_KEY"
[providers.gemini]
base_url = "{model}"
key = "$SOME_KEY"
[providers.openai-responses]
base_url = "{model}"
key = "$SOME_KEY"
[providers.ollama]
base_url = "{model}"
"""


def asked_for(request: Any, _turn: Any) -> list[Any]:
    """Call the tool with what the user said."""
    return [ToolCall(None, "look", {"city": request.messages[-1].text})]


@pytest.fixture(scope="module")
def model() -> Iterator[SimulatedModel]:
    with simulate(asked_for, strict=False) as standing_model:
        yield standing_model


@contextlib.contextmanager
def serving(folder: Path, settings: str) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Serve a gateway of these settings in a process of its own."""
    file = folder / "toolwire.toml"
    file.write_text(settings)
    command = [sys.executable, "-m", "toolwire", "serve", "--config", str(file), "--listen", "127.0.0.1:0", "--quiet"]
    environment = {**os.environ, "SOME_KEY": KEY, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().decode().split()[-1], process
        finally:
            process.kill()


def body_of(source: str, target: str, words: str, *, stream: bool) -> tuple[str, bytes]:
    request = Request(
        context=Context(None, [Message(words)], [TOOL]), model=f"{NAMES[target]}/m", stream=stream, max_tokens=99
    )
    encoded = dialect(source).encode_request(request)
    return encoded.path, encoded.json


def is_whole(url: str, source: str, target: str, words: str, *, stream: bool) -> bool:
    """Ask, and say whether all of the answer came: of a stream, its last words."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    with contextlib.closing(connection):
        path, body = body_of(source, target, words, stream=stream)
        connection.request("POST", path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            return False
        if not stream:
            return words.encode() in answer.read()
        return any(LAST[source] in line for line in iter(answer.readline, b""))


def is_whole_over_websocket(url: str, target: str, words: str) -> bool:
    """Ask over a WebSocket, and say whether the last words of the answer came."""
    with connect(f"ws{url.removeprefix('http')}/v1/responses") as opened:
        body = json.loads(body_of("openai-responses", target, words, stream=True)[1])
        opened.send(json.dumps({**body, "type": "response.create"}))
        while True:
            kind = json.loads(opened.recv(timeout=20))["type"]
            if kind in ("response.completed", "error"):
                return bool(kind == "response.completed")


class Load:
    """Clients of all wires that ask until the gateway is gone; `whole` is what they had whole, and when."""

    def __init__(self, url: str, name: str, clients: int = 10) -> None:
        self.whole: dict[str, float] = {}
        self._url, self._name = url, name
        self._threads = [threading.Thread(target=self._ask, args=(number,), daemon=True) for number in range(clients)]
        for thread in self._threads:
            thread.start()

    def _ask(self, client: int) -> None:
        chance = random.Random(f"{self._name}{client}")  # noqa: S311 - a test
        for turn in range(10_000):
            words = f"{self._name}-{client}-{turn}-"
            source, target = chance.choice(WIRES), chance.choice(WIRES)
            try:
                if client == 0:
                    whole = is_whole_over_websocket(self._url, target, words)
                else:
                    whole = is_whole(self._url, source, target, words, stream=chance.random() < 0.5)
            except (OSError, http.client.HTTPException, WebSocketException, TimeoutError):
                return
            if whole:
                self.whole[words] = time.monotonic()

    def join(self) -> None:
        """Wait until all clients have noticed that the gateway is gone."""
        for thread in self._threads:
            thread.join(30)


def killed_under_load(folder: Path, url: str, failing: str, model: SimulatedModel, rounds: int) -> dict[str, float]:
    """Kill gateways at random moments; give what was answered whole and is not in the store, and how old it was."""
    chance, answered, missing = random.Random(5), 0, dict[str, float]()  # noqa: S311 - a test
    settings = SETTINGS.format(url=url, failing=failing, model=model.url)
    for number in range(rounds):
        with serving(folder, settings) as (address, process):
            load = Load(address, f"round {number}")
            time.sleep(chance.uniform(0.5, 2.0))
            process.kill()
            killed = time.monotonic()
            load.join()
        with traces.open(url) as store:
            kept, after = set[str](), None
            while (page := store.traces(limit=1000, after=after)).rows:
                kept |= {str(row.arguments["city"]) for row in page.rows if row.kind == "begun"}
                after = page.next
                if after is None:
                    break
            assert store.verify().ok
        answered += len(load.whole)
        missing |= {words: killed - at for words, at in load.whole.items() if words not in kept}
    assert answered > 20 * rounds
    return missing


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_every_answer_that_a_client_has_whole_is_recorded_where_a_failing_store_stops(
    kind: Literal["sqlite", "postgresql"], tmp_path: Path, model: SimulatedModel, request: pytest.FixtureRequest
) -> None:
    database: Database | None = request.getfixturevalue("database") if kind == "postgresql" else None
    url = f"sqlite:///{tmp_path / 'traces.db'}" if database is None else database.url
    assert killed_under_load(tmp_path, url, "stop", model, 5) == {}


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_where_a_failing_store_does_not_stop_a_kill_loses_a_few_answers_of_the_last_second(
    tmp_path: Path, model: SimulatedModel
) -> None:
    missing = killed_under_load(tmp_path, f"sqlite:///{tmp_path / 'traces.db'}", "continue", model, 3)
    assert len(missing) <= 3 * _BEHIND
    assert max(missing.values(), default=0.0) < 1.0


class Failing:
    """A store that fails when something is recorded, or when that is to be committed."""

    failed = None

    def __init__(self, *, late: bool) -> None:
        self.late = late

    def record(self, trace: Any) -> Any:
        del trace
        if not self.late:
            raise StoreFailed("the disk is full")
        return self

    async def committed(self) -> None:
        """Fail to commit."""
        raise StoreFailed("the disk is full")

    def close(self) -> None:
        """Close nothing."""


@pytest.mark.sampled
@pytest.mark.parametrize("late", [False, True], ids=["record", "commit"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("source", WIRES)
def test_an_answer_that_cannot_be_recorded_does_not_end_well(
    source: str, target: str, stream: bool, late: bool, model: SimulatedModel
) -> None:
    with standing(model.url, audit=Audit(Failing(late=late), stops=True)) as stood:
        path, body = body_of(source, target, "Bern", stream=stream)
        answered = post(stood.url, path, body)
        if stream:
            assert answered.status == 200
            assert LAST[source] not in answered.data
            decoder = dialect(source).decode_stream()
            events = [*decoder.feed(answered.data), *decoder.close()]
            assert [type(event).__name__ for event in events][-2:] == ["ErrorEnd", "MessageEnd"] or answered.broken
        else:
            assert answered.status == 503
            read = dialect(source).decode_error(503, json.loads(answered.data), answered.headers)
            assert read.message == "calls cannot be recorded now"
        if source == "openai-responses" and stream:
            assert not is_whole_over_websocket(stood.url, target, "Bern")
        stood.settle()
        assert stood.seen[0]["ending"] in ("error", "broke off")


def test_a_store_that_is_well_again_is_used_again(tmp_path: Path, model: SimulatedModel, monkeypatch: Any) -> None:
    monkeypatch.setattr("toolwire.gateway.auditing._RETRY", 0.05, raising=False)
    store = traces.open(f"sqlite:///{tmp_path / 'traces.db'}", patience=0.0)
    commit: Callable[..., Any] = store._writer._committer.commit

    def fail(*_arguments: Any, **_keywords: Any) -> Any:
        raise StoreFailed("the disk is full")

    with standing(model.url, audit=Audit(store, stops=True)) as stood:
        path, body = body_of("openai-chat", "openai-chat", "Bern", stream=False)
        monkeypatch.setattr(store._writer._committer, "commit", fail)
        assert [post(stood.url, path, body).status for _ in range(2)] == [503, 503]
        monkeypatch.setattr(store._writer._committer, "commit", commit)
        late = time.monotonic() + 10
        while (status := post(stood.url, path, body).status) != 200 and time.monotonic() < late:
            time.sleep(0.05)
        assert status == 200
    with traces.open(f"sqlite:///{tmp_path / 'traces.db'}") as again:
        assert [row.arguments for row in again.traces().rows] == [{"city": "Bern"}]


def test_a_result_that_was_not_recorded_is_recorded_when_it_comes_again(tmp_path: Path, model: SimulatedModel) -> None:
    store = traces.open(f"sqlite:///{tmp_path / 'traces.db'}")
    audit = Audit(store, stops=True)
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    said: list[dict[str, Any]] = [{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": [call]}]
    said.append({"role": "tool", "tool_call_id": "c", "content": "seen"})
    body = json.dumps({"model": "openai/m", "messages": said}).encode()
    with standing(model.url, audit=audit) as stood:
        audit.store = Failing(late=True)
        assert post(stood.url, "/v1/chat/completions", body).status == 503
        audit.store = store
        assert [post(stood.url, "/v1/chat/completions", body).status for _ in range(2)] == [200, 200]
    with traces.open(f"sqlite:///{tmp_path / 'traces.db'}") as again:
        assert [row.result for row in again.traces().rows if row.kind is None] == [{"content": "seen"}]
