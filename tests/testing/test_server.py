"""The simulated model as a server: what it serves beside answers, what it refuses, and what is left of it."""

import asyncio
import gc
import http.client
import socket
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

import httpx
import httpx2
import pytest

from tests.testing.asking import ASKERS, BODIES, KEYS, PATHS, USUAL_KEY, post, send
from tests.testing.sdks import MODELS, anthropic_at, google_at, ollama_at, openai_at
from toolwire.errors import ScenarioFailed
from toolwire.testing import Fail, Pace, SimulatedModel, Wait, simulate
from toolwire.testing.connection import LARGEST
from toolwire.testing.pytest_plugin import simulated_model  # noqa: F401 - the fixture that is shown
from toolwire.types import Error, Image, ToolCall

VENDORS_WORDS: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "error": {
            "message": "Missing required parameter: 'messages'.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "missing_required_parameter",
        }
    },
    "openai-responses": {
        "error": {
            "message": "Missing required parameter: 'input'.",
            "type": "invalid_request_error",
            "param": "input",
            "code": "missing_required_parameter",
        }
    },
    "anthropic": {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "messages: Field required"},
    },
    "gemini": {
        "error": {
            "code": 400,
            "message": "* GenerateContentRequest.contents: contents is not specified\n",
            "status": "INVALID_ARGUMENT",
        }
    },
    "ollama": {"error": "model is required"},
}
NEEDED = {"openai-responses": "input", "gemini": "contents", "ollama": "model"}


@pytest.mark.parametrize("name", VENDORS_WORDS)
def test_a_refusal_has_the_body_of_its_vendor(name: str) -> None:
    with simulate() as model:
        body = {key: value for key, value in BODIES[name].items() if key != NEEDED.get(name, "messages")}
        refused = send(model.url, name, body)
        assert (refused.status, refused.body) == (400, VENDORS_WORDS[name])
        [received] = model.requests
        assert received.refused is not None
        assert received.turn is None
        assert send(model.url, name, b"{not json").status == 400
        assert send(model.url, name, b"[]").status == 400


WITHOUT_KEY = {"openai-chat": 401, "openai-responses": 401, "anthropic": 401, "gemini": 403, "ollama": 200}
WRONG_KEY = WITHOUT_KEY | {"gemini": 400, "ollama": 401}


@pytest.mark.parametrize("name", WITHOUT_KEY)
def test_a_key_is_wanted_as_its_vendor_wants_it(name: str) -> None:
    version = {"anthropic-version": "2026-10-21"}
    with simulate() as model:
        assert post(model.url, PATHS[name], BODIES[name], version).status == WITHOUT_KEY[name]
        assert send(model.url, name, BODIES[name]).status == 200
    with simulate(api_key="right") as model:
        given = send(model.url, name, BODIES[name])
        assert given.status == WRONG_KEY[name]
        assert b"right" not in given.data
        key = {header: value.replace("k", "right") for header, value in KEYS.get(name, {}).items()}
        right = {**key, "authorization": "Bearer right", **version}
        assert post(model.url, PATHS[name], BODIES[name], right).status == 200
        assert ASKERS[name](model.url, key="right") == "You said: ?"
    assert "right" not in repr(model.requests)


def test_only_the_models_that_there_are_answer() -> None:
    with simulate("nothing".split, models=["toy"]) as model:
        statuses = {name: send(model.url, name, body).status for name, body in BODIES.items()}
    assert statuses == {
        "openai-chat": 404,
        "openai-responses": 400,
        "anthropic": 404,
        "gemini": 404,
        "ollama": 404,
    }


def test_the_sdks_list_the_models() -> None:
    with simulate(models=["toy", "big"]) as model:
        with openai_at(model.url) as openai:
            assert [each.id for each in openai.models.list()] == ["toy", "big"]
            assert openai.models.retrieve("big").id == "big"
        with anthropic_at(model.url) as anthropic:
            assert [each.id for each in anthropic.models.list()] == ["toy", "big"]
        with google_at(model.url) as google:
            assert [each.name for each in google.models.list()] == ["models/toy", "models/big"]
        with ollama_at(model.url) as ollama:
            assert [each.model for each in ollama.list().models] == ["toy", "big"]
            assert "tools" in (ollama.show("toy").capabilities or [])


def test_the_sdks_count_tokens() -> None:
    asked: Any = [{"role": "user", "content": "How many tokens is that?"}]
    with simulate() as model:
        with anthropic_at(model.url) as anthropic:
            assert anthropic.messages.count_tokens(model=MODELS["anthropic"], messages=asked).input_tokens > 10
        with google_at(model.url) as google:
            assert (google.models.count_tokens(model=MODELS["gemini"], contents="?").total_tokens or 0) > 5
        with openai_at(model.url) as openai:
            assert openai.responses.input_tokens.count(model="gpt-6-sol", input="?").input_tokens > 5
            kept = openai.responses.create(model="gpt-6-sol", input="?")
            assert openai.responses.retrieve(kept.id).output_text == "You said: ?"


OTHERS: list[tuple[str, str, int]] = [
    ("GET", "/v1/messages", 405),
    ("DELETE", "/api/chat", 405),
    ("POST", "/v1/models", 405),
    ("POST", "/v1/v1/messages", 404),
    ("GET", "/", 404),
    ("POST", "/v1beta/models/m:sing", 404),
    ("HEAD", "/api/version", 200),
    ("GET", "/api/version", 200),
]


@pytest.mark.parametrize(("method", "path", "status"), OTHERS)
def test_what_is_not_there_is_said(method: str, path: str, status: int) -> None:
    with simulate() as model:
        answered = post(model.url, path, b"", USUAL_KEY, method)
        assert answered.status == status
        assert (answered.data == b"") == (method == "HEAD")
        assert ("allow" in answered.headers) == (status == 405)
        assert model.requests[0].status == status


def test_a_connection_is_used_again() -> None:
    ports = set()
    with simulate() as model, httpx2.Client(headers=USUAL_KEY) as client:
        for stream in (True, False, True):
            answered = client.post(f"{model.url}/api/chat", json={**BODIES["ollama"], "stream": stream})
            ports.add(answered.extensions["network_stream"].get_extra_info("client_addr"))
        assert len(ports) == 1
        assert [received.sent > 0 for received in model.requests] == [True] * 3


def test_a_large_body_is_taken_and_a_larger_one_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    large = {"model": "m", "messages": [{"role": "user", "content": "x" * 5_000_000}], "stream": False}
    with simulate(["Read."]) as model:
        assert send(model.url, "ollama", large).body["message"]["content"] == "Read."
        assert LARGEST > 5_000_000
        monkeypatch.setattr("toolwire.testing.connection.LARGEST", 1000)
        connection = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=5)
        connection.request("POST", "/api/chat", b"x" * 1001)
        assert connection.getresponse().status == 413
        connection.close()


@pytest.mark.parametrize("noise", [b"\x16\x03\x01\x02", b"GET\r\n\r\n", b"POST /api/chat HTTP/1.1\r\n\r\n", b""])
def test_noise_is_refused_and_leaves_nothing(noise: bytes) -> None:
    with simulate() as model:
        host, port = model.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=5) as held:
            held.sendall(noise)
            held.shutdown(socket.SHUT_WR)
            assert held.recv(100)[:12] in (b"HTTP/1.1 400", b"")
        assert ASKERS["ollama"](model.url) == "You said: ?"


def sockets() -> list[socket.socket]:
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is socket.socket and each.fileno() >= 0]


def ask_in_vain(url: str) -> None:
    with pytest.raises(httpx.TransportError):
        ASKERS["ollama"](url)


@pytest.mark.usefixtures("little_garbage")
def test_nothing_is_left_of_a_server() -> None:
    threads, before = set(threading.enumerate()), len(sockets())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with simulate([Wait(60), "never", [Pace(60), "slow"]]) as model:
            model.play([[Wait(60), "never"]])
            client = threading.Thread(target=ask_in_vain, args=(model.url,))
            client.start()
            while not model.requests or model._service.scenario.left():
                time.sleep(0.001)
            model._service.problems.clear()
        client.join(20)
        assert not client.is_alive()
        model.close()
    assert set(threading.enumerate()) <= threads
    assert len(sockets()) <= before
    assert [each.message for each in caught if issubclass(each.category, ResourceWarning)] == []
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(model.url.rpartition(":")[2])), timeout=1)


def test_a_port_that_is_taken_is_said() -> None:
    with simulate() as model, pytest.raises(OSError, match="in use"):
        simulate(port=int(model.url.rpartition(":")[2])).start()


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_there_is_not_is_an_error(port: int) -> None:
    with pytest.raises(OSError, match="port must be 0-65535"), simulate(port=port):
        pytest.fail("it listens")


def test_a_field_of_an_imitator_is_taken_where_it_is_allowed() -> None:
    body = {**BODIES["openai-chat"], "reasoning": {"effort": "low"}, "top_k": 5}
    with simulate(allow=["reasoning", "top_k"]) as model:
        assert send(model.url, "openai-chat", body).status == 200
        assert model.requests[0].body == body
        assert send(model.url, "openai-chat", {**body, "min_p": 1}).status == 400


def test_what_a_wire_cannot_say_is_kept() -> None:
    with simulate([["Look:", Image(data="aGk=", media_type="image/png")]]) as model:
        assert send(model.url, "ollama", BODIES["ollama"]).body["message"]["content"] == "Look:"
        assert [loss.concept for loss in model.requests[0].losses] == ["image"]


def test_headers_that_are_none_are_a_problem() -> None:
    scenario = [Fail(Error("server", "No."), headers={"x y": "z"})]
    model = simulate(scenario).start()
    with pytest.raises(ConnectionError):
        send(model.url, "ollama", BODIES["ollama"])
    model.close()
    with pytest.raises(ScenarioFailed, match="LocalProtocolError"):
        model.check()


def test_it_is_used_in_async_code_as_well() -> None:
    async def run() -> list[str]:
        async with simulate() as model, httpx2.AsyncClient(headers=USUAL_KEY) as client:
            asked = [client.post(f"{model.url}/api/chat", json=BODIES["ollama"]) for _ in range(5)]
            return [answered.json()["message"]["content"] for answered in await asyncio.gather(*asked)]

    assert asyncio.run(run()) == ["You said: ?"] * 5


def test_the_fixture_gives_a_model(simulated_model: SimulatedModel) -> None:  # noqa: F811 - the fixture
    assert ASKERS["openai-responses"](simulated_model.url) == "You said: ?"
    simulated_model.play(["Played."])
    assert ASKERS["gemini"](simulated_model.url) == "Played."


FIXTURE_USED = """
def test_good(simulated_model):
    assert simulated_model.requests == []

def test_bad(simulated_model):
    simulated_model.play(["Nobody asks."])
"""


@pytest.mark.slow
def test_the_fixture_fails_a_test_that_does_not_keep_to_the_scenario(tmp_path: Any) -> None:
    (tmp_path / "test_it.py").write_text(FIXTURE_USED)
    command = [sys.executable, "-m", "pytest", "-q", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert "2 passed, 1 error" in ran.stdout
    assert "turn 1 of 1 was not requested" in ran.stdout


def test_the_plugin_is_light() -> None:
    code = "import sys, pytest; before = set(sys.modules); import toolwire.testing.pytest_plugin;"
    code += "print(sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    heavy = {"asyncio", "h11", "http", "httpx2", "socket", "ssl", "yaml"}
    assert not heavy & set(eval(ran.stdout))  # noqa: S307 - what our own command printed


def test_calls_have_ids_of_their_vendor_that_differ() -> None:
    with simulate([[ToolCall(None, "f"), ToolCall(None, "f")]]) as model:
        [first, second] = send(model.url, "anthropic", BODIES["anthropic"]).body["content"]
    assert first["id"].startswith("toolu_")
    assert first["id"] != second["id"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_of_ollama_says_how_long_it_took(stream: bool) -> None:
    with simulate(["Hello."]) as model, ollama_at(model.url) as client:
        ask: Any = client.chat
        told = ask("m", [{"role": "user", "content": "Hi"}], stream=stream)
        *_, last = told if stream else [told]
    assert last.total_duration >= last.prompt_eval_duration + last.eval_duration > 0
