"""Records of a gateway: both sides of each exchange, on every wire, with nothing secret in them."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.gateway.standing import KEY, NAMES, WIRES, Answered, Stood, ask, post, send, standing
from tests.gateway.test_sockets import create, heard, opened
from tests.translation.test_deferred_tools import request as deferred_request
from toolwire import records
from toolwire.config import read_settings
from toolwire.config.settings import InvalidSettings
from toolwire.dialects import dialect
from toolwire.gateway.recording import Recorder
from toolwire.records import Record, RecordStore
from toolwire.testing import Cut, Fail, Scenario, simulate
from toolwire.testing.server import SimulatedModel
from toolwire.types import Context, Error, Message, Request, Text, Tool, ToolCall

OURS = "tw-0123456789abcdef0123456789abcdef"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [Tool("look", "Look.", SCHEMA)]
SEARCHING = {"anthropic": "/v1/messages", "openai-responses": "/v1/responses"}


class Recorded(NamedTuple):
    """A gateway that records, before a simulated model."""

    stood: Stood
    store: RecordStore
    model: SimulatedModel

    def newest(self, count: int = 1) -> list[Record]:
        """Return the records, the oldest first, once there are `count`."""
        until = time.monotonic() + 15
        while True:
            self.stood.settle()
            assert self.store.flush(10)
            lines = self.store.list().rows
            if len(lines) >= count or time.monotonic() > until:
                break
            time.sleep(0.02)
        assert len(lines) == count
        found = [self.store.read(line.id) for line in reversed(lines)]
        return [one for one in found if one is not None]


@contextmanager
def recording(scenario: Any, folder: Path, settings: str = "", **options: Any) -> Iterator[Recorded]:
    with (
        records.open(f"sqlite:///{folder / 'records.db'}") as store,
        simulate(scenario, strict=False) as model,
        standing(model.url, settings, recorder=Recorder(store, lambda: [KEY], **options)) as stood,
    ):
        yield Recorded(stood, store, model)


def request(target: str, *, stream: bool) -> Request:
    messages = [Message("Where is the harbour?")]
    context = Context("Be brief.", messages, TOOLS)
    return Request(context=context, model=f"{NAMES[target]}/m", stream=stream, max_tokens=99, seed=7)


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("source", WIRES)
def test_the_four_bodies_are_what_was_on_the_wire(source: str, target: str, stream: bool, tmp_path: Path) -> None:
    with recording(Scenario([["I look.", ToolCall(None, "look", {"city": "Bern"})]]), tmp_path) as recorded:
        _, answered = ask(recorded.stood.url, source, request(target, stream=stream), {"user-agent": "mine/1"})
        [record] = recorded.newest()
        [received] = recorded.model.requests
        assert record.id == answered.headers["x-toolwire-request"]
        assert record.client_answer.data == answered.data
        assert json.loads(record.provider_request.data) == received.body
        sent = dialect(source).encode_request(request(target, stream=stream)).body
        assert json.loads(record.client_request.data) == {**sent, **_added(source, stream=stream)}
        assert (record.wire, record.provider_wire) == (source, target)
        assert (record.model, record.provider, record.provider_model) == (f"{NAMES[target]}/m", NAMES[target], "m")
        assert (record.status, record.provider_status, record.ending) == (200, 200, "answer")
        assert record.streamed is stream
        assert record.url.startswith(recorded.model.url)
        assert record.client_request.headers["user-agent"] == "mine/1"
        assert record.usage is not None
        assert record.usage.output_tokens
        if source == target:
            assert record.provider_answer.data == record.client_answer.data
        check_times(record, stream=stream)


def _added(source: str, *, stream: bool) -> dict[str, Any]:
    """Return what `ask` adds to a request."""
    return {"stream_options": {"include_usage": True}} if stream and source == "openai-chat" else {}


def check_times(record: Record, *, stream: bool) -> None:
    assert 0 <= record.time - time.time() + 60 < 60
    assert record.first_byte is not None
    assert 0 < record.first_byte <= record.seconds
    for body in (record.provider_answer, record.client_answer):
        assert bool(body.frames) is stream
        assert sum(frame.size for frame in body.frames) == (len(body.data) if stream else 0)
        times = [seconds for seconds, _ in body.events()]
        assert times == sorted(times)
        assert not times or times[-1] <= record.seconds
        assert len(times) > 3 or not stream or body.content_type == "application/json"


def test_losses_of_both_directions_are_in_the_record(tmp_path: Path) -> None:
    with recording(Scenario([["Hello."]]), tmp_path) as recorded:
        _, answered = ask(recorded.stood.url, "openai-chat", request("anthropic", stream=False))
        [record] = recorded.newest()
        assert [loss.path for loss in record.request_losses] == ["seed", "cache_control"]
        report = json.loads(send(recorded.stood.url, "GET", f"/toolwire/requests/{record.id}/losses", None).data)
        assert [loss["path"] for loss in report["losses"]] == [loss.path for loss in record.losses]
        assert answered.headers["x-toolwire-losses"] == "semantic=1"
        [line] = recorded.store.list().rows
        assert (line.semantic, line.minor) == (1, 0)


def test_turns_of_a_conversation_share_its_id_and_its_session(tmp_path: Path) -> None:
    with recording(Scenario([["One."], ["Two."], ["Three."]]), tmp_path) as recorded:
        first = [{"role": "user", "content": "Hello."}]
        then = [*first, {"role": "assistant", "content": "One."}, {"role": "user", "content": "And?"}]
        for messages in (first, then, [{"role": "user", "content": "Other."}]):
            user = "user_1_account_2_session_abc-1"
            body = {"model": "anthropic/m", "messages": messages, "max_tokens": 9, "metadata": {"user_id": user}}
            post(recorded.stood.url, "/v1/messages", json.dumps(body).encode())
        one, two, three = recorded.newest(3)
        assert one.conversation == two.conversation != three.conversation
        assert one.session == "abc-1"


def test_a_turn_of_a_stored_response_is_of_its_conversation(tmp_path: Path) -> None:
    with recording(Scenario([["One."], ["Two."]]), tmp_path) as recorded:
        body: dict[str, Any] = {"model": "anthropic/m", "input": [{"role": "user", "content": "Hello."}]}
        first = json.loads(post(recorded.stood.url, "/v1/responses", json.dumps(body).encode()).data)
        body = {"model": "anthropic/m", "input": "And?", "previous_response_id": first["id"]}
        post(recorded.stood.url, "/v1/responses", json.dumps(body).encode())
        one, two = recorded.newest(2)
        assert one.conversation == two.conversation != ""


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/chat/completions", b"not json", 400),
        ("/v1/chat/completions", b'{"model":"nobody/m","messages":[]}', 404),
        ("/v1/messages", b'{"messages":[]}', 400),
    ],
)
def test_a_request_that_is_rejected_is_recorded(path: str, body: bytes, status: int, tmp_path: Path) -> None:
    with recording(Scenario([]), tmp_path) as recorded:
        answered = post(recorded.stood.url, path, body)
        [record] = recorded.newest()
        assert (record.status, record.ending) == (status, "error") == (answered.status, "error")
        assert (record.client_request.data, record.client_answer.data) == (body, answered.data)
        assert record.provider_request.data == b""


@pytest.mark.parametrize("target", ["openai-chat", "anthropic"])
def test_an_error_of_a_provider_is_recorded(target: str, tmp_path: Path) -> None:
    with recording(Scenario([[Fail(Error("invalid_request", "no such thing", 400))]]), tmp_path) as recorded:
        body = {"model": f"{NAMES[target]}/m", "messages": [{"role": "user", "content": "Hello."}]}
        answered = post(recorded.stood.url, "/v1/chat/completions", json.dumps(body).encode())
        [record] = recorded.newest()
        assert (record.status, record.provider_status, record.ending) == (400, 400, "error")
        assert b"no such thing" in record.provider_answer.data
        assert record.client_answer.data == answered.data


def test_a_provider_that_cannot_be_reached_is_recorded(tmp_path: Path) -> None:
    settings = '[providers.gone]\ndialect = "openai-chat"\nbase_url = "http://127.0.0.1:9"\n'
    from toolwire.providers import PROVIDERS

    gone = {"gone": PROVIDERS["openai"].with_options(base_url="http://127.0.0.1:9", api_key=KEY, paths=())}
    with records.open(f"sqlite:///{tmp_path / 'records.db'}") as store, simulate([], strict=False) as model:
        recorder = Recorder(store, lambda: [KEY])
        with standing(model.url, settings, gone, recorder=recorder) as stood:
            post(stood.url, "/v1/chat/completions", b'{"model":"gone/m","messages":[{"role":"user","content":"?"}]}')
            [record] = Recorded(stood, store, model).newest()
    assert (record.status, record.provider_status, record.error) == (502, 0, "connect")
    assert record.provider_request.data
    assert [earlier.error for earlier in record.earlier] == ["connect"]


def test_each_provider_that_was_asked_is_in_the_record(tmp_path: Path) -> None:
    settings = '[routes.both]\nto = ["openai/a", "anthropic/b"]\n'
    with recording(Scenario([[Fail(Error("server", "busy", 503))], ["Hello."]]), tmp_path, settings) as recorded:
        post(recorded.stood.url, "/v1/chat/completions", b'{"model":"both","messages":[{"role":"user","content":"?"}]}')
        [record] = recorded.newest()
        [earlier] = record.earlier
        assert (earlier.provider, earlier.provider_model, earlier.status) == ("openai", "a", 503)
        assert b"busy" in earlier.answer.data
        assert json.loads(earlier.request.data)["model"] == "a"
        assert (record.model, record.provider, record.provider_model) == ("both", "anthropic", "b")


def test_a_stream_that_breaks_off_is_recorded(tmp_path: Path) -> None:
    with recording(Scenario([[Text("Hello and more."), Cut(events=3)]]), tmp_path) as recorded:
        body = b'{"model":"anthropic/m","stream":true,"messages":[{"role":"user","content":"?"}]}'
        answered = post(recorded.stood.url, "/v1/chat/completions", body)
        [record] = recorded.newest()
        assert record.ending == "broke off"
        assert record.client_answer.data == answered.data
        assert record.provider_answer.data


def test_a_turn_of_a_websocket_is_recorded(tmp_path: Path) -> None:
    with recording(Scenario([["Hello."]]), tmp_path) as recorded, opened(recorded.stood.url) as socket:
        create(socket, input="Where?")
        events = heard(socket)
        assert events[-1]["type"] == "response.completed"
        [record] = recorded.newest()
        assert (record.websocket, record.streamed, record.wire) == (True, True, "openai-responses")
        recorded_events = [json.loads(event.partition(b"data: ")[2]) for _, event in record.client_answer.events()]
        assert [event["type"] for event in recorded_events] == [event["type"] for event in events]


def test_a_path_of_one_wire_is_recorded(tmp_path: Path) -> None:
    with recording(Scenario([]), tmp_path) as recorded:
        body = b'{"model":"openai/m","input":"words"}'
        answered = post(recorded.stood.url, "/v1/embeddings", body)
        [record] = recorded.newest()
        assert record.path == "/v1/embeddings"
        assert (record.status, record.client_answer.data) == (answered.status, answered.data)


def test_without_bodies_the_rest_is_recorded(tmp_path: Path) -> None:
    with recording(Scenario([["Hello."]]), tmp_path, bodies=False) as recorded:
        _, answered = ask(recorded.stood.url, "openai-chat", request("anthropic", stream=True))
        [record] = recorded.newest()
        assert {body.data for body in record.bodies.values()} == {b""}
        assert {len(body.headers) + len(body.frames) for body in record.bodies.values()} == {0}
        assert record.client_answer.size == len(answered.data)
        assert [loss.path for loss in record.request_losses][:1] == ["seed"]


def test_health_checks_lists_and_pages_of_records_are_not_recorded(tmp_path: Path) -> None:
    with recording(Scenario([]), tmp_path) as recorded:
        for path in ("/", "/health", "/v1/models", "/toolwire/records", "/nothing"):
            send(recorded.stood.url, "GET", path, None)
        assert recorded.newest(0) == []


def test_records_are_read_over_http(tmp_path: Path) -> None:
    with recording(Scenario([["One."], ["Two."], ["Three."]]), tmp_path) as recorded:
        for _ in range(3):
            ask(recorded.stood.url, "openai-chat", request("anthropic", stream=False))
        recorded.newest(3)

        def read(path: str) -> Any:
            answered: Answered = send(recorded.stood.url, "GET", f"/toolwire/records{path}", None)
            return answered.status, json.loads(answered.data)

        status, page = read("?limit=2")
        assert status == 200
        assert len(page["records"]) == 2
        assert read(f"?limit=2&before={page['next']}")[1]["next"] is None
        assert read("?model=none")[1] == {"records": [], "next": None}
        assert len(read("?lossy=1&status=200")[1]["records"]) == 3
        status, record = read(f"/{page['records'][0]['id']}")
        assert (status, record["client_request"]["cut"]) == (200, False)
        assert "Where is the harbour?" in record["client_request"]["data"]
        assert read("/nothing")[0] == 404
        for wrong in ("?limit=x", "?limit=0", "?colour=red", "?limit=100000"):
            assert read(wrong)[0] == 400


def test_without_the_section_there_are_no_records() -> None:
    with simulate([], strict=False) as model, standing(model.url) as stood:
        answered = send(stood.url, "GET", "/toolwire/records", None)
        assert answered.status == 404
        assert b"[record]" in answered.data


def test_no_secret_is_in_a_record(tmp_path: Path) -> None:
    said = f"the key is {KEY}, mine is {OURS}, and api_key=abcdef0123456789abcdef or {KEY[::-1]}"
    turns = Scenario([[said, ToolCall(None, "look", {"city": f"at {KEY}", "password": "open-sesame-1234"})]] * 20)
    with recording(turns, tmp_path) as recorded:
        for stream in (False, True):
            for source in WIRES:
                for target in ("anthropic", "openai-chat"):
                    asked = request(target, stream=stream)
                    messages = [Message(f"I am {OURS}, {KEY} and open-sesame-1234")]
                    context = Context(f"It is {KEY}", messages, TOOLS)
                    asked = Request(context=context, model=asked.model, stream=stream, max_tokens=99)
                    header = "x-goog-api-key" if source == "gemini" else "authorization"
                    ask(recorded.stood.url, source, asked, {header: f"Bearer {OURS}", "cookie": f"a={OURS}"})
        found = recorded.newest(20)
        assert all(b"[hidden" in record.client_request.data for record in found)
        everything = [json.dumps(record.to_json()) for record in found]
    with sqlite3.connect(tmp_path / "records.db") as connection:
        everything += ["\n".join(connection.iterdump())]
    for text in everything:
        for secret in (KEY, OURS, KEY[::-1], "abcdef0123456789abcdef"):
            assert secret not in text


SERVED = """
[server]
listen = "127.0.0.1:0"
database = "sqlite:///keys.db"

[providers.local]
dialect = "openai-chat"
base_url = "{url}"
key = "$LOCAL_KEY"

[record]
bytes = 2_000_000
"""


def test_a_gateway_of_a_file_records_for_its_keys(tmp_path: Path) -> None:
    file = tmp_path / "toolwire.toml"
    with simulate([["One."], ["Two."]], strict=False) as model:
        file.write_text(SERVED.format(url=model.url))
        keys = [new_key(file, name) for name in ("ann", "ben")]
        admin = new_key(file, "boss", "--admin")
        environment = {**os.environ, "LOCAL_KEY": KEY, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "toolwire", "serve", "--config", str(file)]
        with running(command, environment) as process:
            assert process.stdout is not None
            url = process.stdout.readline().decode().split()[-1]
            for key in keys:
                body = b'{"model":"local/m","messages":[{"role":"user","content":"Hello."}]}'
                assert post(url, "/v1/chat/completions", body, {"x-api-key": key}).status == 200
            pages = [records_of(url, key, 1) for key in keys]
            assert [[line["key_name"] for line in page] for page in pages] == [["ann"], ["ben"]]
            theirs = f"/toolwire/records/{pages[1][0]['id']}"
            assert send(url, "GET", theirs, None, {"x-api-key": keys[0]}).status == 404
            assert send(url, "GET", theirs, None, {"x-api-key": keys[1]}).status == 200
            assert send(url, "GET", "/toolwire/records", None).status == 401
            assert send(url, "GET", theirs, None, {"x-api-key": admin}).status == 200
            assert len(records_of(url, admin, 2)) == 2
            chosen = send(url, "GET", f"/toolwire/records?key_id={pages[1][0]['key']}", None, {"x-api-key": admin})
            assert [line["key_name"] for line in json.loads(chosen.data)["records"]] == ["ben"]
            other = f"/toolwire/records?key_id={pages[1][0]['key']}"
            lines = json.loads(send(url, "GET", other, None, {"x-api-key": keys[0]}).data)["records"]
            assert [line["key_name"] for line in lines] == ["ann"]
            until = time.monotonic() + 10
            while 'toolwire_records_total{outcome="written"} 2.0' not in metrics_of(url, keys[0]):
                assert time.monotonic() < until
                time.sleep(0.05)
            process.terminate()
            assert process.wait(20) == 0
    with records.open(f"sqlite:///{tmp_path / 'records.db'}") as store:
        everything = json.dumps([record.to_json() for record in store.iterate()])
    assert everything.count("Hello.") == 4
    for secret in (KEY, *keys):
        assert secret not in everything


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def new_key(file: Path, name: str, *more: str) -> str:
    command = [sys.executable, "-m", "toolwire", "keys", "create", "--config", str(file), "--name", name, *more]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.check_output(command, env=environment, text=True).strip()


def metrics_of(url: str, key: str) -> str:
    return send(url, "GET", "/metrics", None, {"x-api-key": key}).data.decode()


def records_of(url: str, key: str, count: int) -> list[Any]:
    until = time.monotonic() + 20
    while True:
        lines: list[Any] = json.loads(send(url, "GET", "/toolwire/records", None, {"x-api-key": key}).data)["records"]
        if len(lines) >= count or time.monotonic() > until:
            return lines
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ('[record]\nexpires = "soon"\n', "record.expires must be a time"),
        ("[record]\nbytes = 1000\n", "record.bytes must be 1048576 or more"),
        ("[record]\nbodys = true\n", "bodies"),
        ('[record]\ndatabase = "mysql://x"\n', "record.database must be"),
    ],
)
def test_wrong_settings_are_refused(settings: str, problem: str) -> None:
    with pytest.raises(InvalidSettings, match=problem):
        read_settings(settings)


def test_the_section_turns_recording_on() -> None:
    assert read_settings("").record is None
    record = read_settings("[record]\n").record
    assert record is not None
    assert (record.bodies, record.expires, record.bytes) == (True, "7d", 1 << 30)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("source", "target"), [("anthropic", "openai-chat"), ("openai-responses", "gemini")])
def test_each_request_of_an_answer_with_a_search_is_recorded(
    source: str, target: str, tmp_path: Path, *, stream: bool
) -> None:
    search = ToolCall(None, "tool_search", {"query": "weather of a city"})
    with recording(Scenario([["I look.", search], "It is sunny."]), tmp_path) as recorded:
        body = {**deferred_request(source, streamed=stream), "model": f"{NAMES[target]}/m"}
        answered = post(recorded.stood.url, SEARCHING[source], json.dumps(body).encode(), {})
        [record] = recorded.newest()
        first, second = recorded.model.requests
    assert [json.loads(one.request.data) for one in record.earlier] == [first.body]
    assert json.loads(record.provider_request.data) == second.body
    [earlier] = record.earlier
    assert (earlier.status, record.provider_status, record.status) == (200, 200, 200)
    assert b"tool_search" in earlier.answer.data
    assert b"sunny" in record.provider_answer.data
    assert record.client_answer.data == answered.data
