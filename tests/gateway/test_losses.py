"""What was lost is told: counted in a header, listed by the request's id, refused where strictness is asked for."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, post, standing
from toolwire.dialects import dialect
from toolwire.testing import Cut, Fail, Scenario, simulate
from toolwire.types import Error

LOSSY = {"model": "anthropic/m", "messages": [{"role": "user", "content": "Hello"}], "logit_bias": {"1": 1}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
WEB = {"type": "web_search_preview"}


def get(url: str, path: str) -> tuple[int, Any]:
    """Get what is at a path."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def ask(url: str, body: Any, path: str = "/v1/chat/completions", **headers: str) -> Any:
    """Ask, and give what was answered."""
    return post(url, path, json.dumps(body).encode(), headers)


@pytest.mark.row("O23")
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_losses_are_counted_in_a_header_and_listed_by_the_id(stream: bool, lenient_model: Playing) -> None:
    with lenient_model(Scenario(["Yes."])) as stood:
        answered = ask(stood.url, {**LOSSY, "stream": stream})
        assert "semantic=1" in answered.headers["x-toolwire-losses"].split()
        status, report = get(stood.url, f"/toolwire/requests/{answered.headers['x-toolwire-request']}/losses")
        assert status == 200
        assert [loss["path"] for loss in report["losses"] if loss["severity"] == "semantic"] == ["logit_bias"]
        assert report["provider"] == "anthropic/m"
        assert get(stood.url, "/toolwire/requests/tw_nobody/losses")[0] == 404


def test_where_nothing_is_lost_no_header_says_so(lenient_model: Playing) -> None:
    with lenient_model(Scenario(["Yes."])) as stood:
        answered = ask(stood.url, {**LOSSY, "model": "openai/m"})
        assert "x-toolwire-losses" not in answered.headers


def test_what_a_set_of_tools_loses_is_counted_once(lenient_model: Playing) -> None:
    body = {"model": "anthropic/m", "input": "Hello", "tools": [WEB]}
    with lenient_model(Scenario(["Yes."] * 4)) as stood:
        told = [ask(stood.url, body, "/v1/responses").headers.get("x-toolwire-losses", "") for _ in range(2)]
        other = ask(stood.url, {**body, "tools": [WEB, {**WEB, "type": "file_search"}]}, "/v1/responses")
        assert ["semantic" in one for one in told] == [True, False]
        assert "semantic=2" in other.headers["x-toolwire-losses"]
        answered = ask(stood.url, body, "/v1/responses")
        _, report = get(stood.url, f"/toolwire/requests/{answered.headers['x-toolwire-request']}/losses")
        assert [loss["path"] for loss in report["losses"] if loss["severity"] == "semantic"] == ["tools[0]"]


@pytest.mark.row("O23")
def test_a_strict_request_is_refused_if_it_would_lose_meaning(lenient_model: Playing) -> None:
    with lenient_model(Scenario(["Yes."])) as stood:
        answered = ask(stood.url, LOSSY, **{"x-toolwire-strict": "1"})
        assert answered.status == 400
        assert "logit_bias" in json.loads(answered.data)["error"]["message"]
        assert stood.requests == []
        body = {key: value for key, value in LOSSY.items() if key != "logit_bias"}
        assert ask(stood.url, {**body, "max_tokens": 9}, **{"x-toolwire-strict": "1"}).status == 200


def test_a_strict_route_is_strict() -> None:
    settings = '[routes.careful]\nto = ["anthropic/m"]\nstrict = true\n'
    with simulate(Scenario([], complete=False)) as model, standing(model.url, settings) as stood:
        assert ask(stood.url, {**LOSSY, "model": "careful"}).status == 400
        assert model.requests == []


def test_a_strict_route_goes_on_to_a_provider_that_loses_nothing() -> None:
    settings = '[routes.careful]\nto = ["anthropic/m", "gemini/m", "openai/m"]\nstrict = true\n'
    broken = Fail(Error("server", "broken", 500))
    with simulate(Scenario(["Yes.", broken]), strict=False) as model, standing(model.url, settings) as stood:
        answered = ask(stood.url, {**LOSSY, "model": "careful"})
        assert (answered.status, answered.headers["x-toolwire-model"]) == (200, "openai/m")
        assert ask(stood.url, {**LOSSY, "model": "careful"}).status == 500, "what may pass, and not what never does"
        assert [one.dialect for one in model.requests] == ["openai-chat"] * 2


@pytest.mark.parametrize("wire", WIRES)
def test_the_next_provider_is_asked_where_one_fails_before_its_first_byte(wire: str) -> None:
    settings = f'[routes.any]\nto = ["openai/a", "{NAMES[wire]}/b", "anthropic/c"]\n'
    failures = [Fail(Error("server", "broken", 500)), Fail(Error("rate_limit", "slower", 429))]
    with simulate(Scenario([*failures, "Yes."]), strict=False) as model, standing(model.url, settings) as stood:
        answered = ask(stood.url, {**LOSSY, "model": "any", "stream": False})
        assert answered.status == 200
        assert answered.headers["x-toolwire-model"] == "anthropic/c"
        assert [one.dialect for one in model.requests] == ["openai-chat", wire, "anthropic"]


def test_after_the_first_byte_no_other_provider_is_asked() -> None:
    settings = '[routes.any]\nto = ["openai/a", "anthropic/b"]\n'
    turn = [["One two three four", Cut(events=3)]]
    with simulate(Scenario(turn), strict=False) as model, standing(model.url, settings) as stood:
        answered = ask(stood.url, {**LOSSY, "model": "any", "stream": True})
        assert b"[DONE]" not in answered.data
        assert len(model.requests) == 1


def test_an_error_that_does_not_pass_is_told_at_once() -> None:
    settings = '[routes.any]\nto = ["openai/a", "anthropic/b"]\n'
    with (
        simulate(Scenario([Fail(Error("invalid_request", "wrong", 400))]), strict=False) as model,
        standing(model.url, settings) as stood,
    ):
        assert ask(stood.url, {**LOSSY, "model": "any"}).status == 400
        assert len(model.requests) == 1


@pytest.mark.parametrize("wire", ["openai-chat", "anthropic", "gemini", "ollama"])
def test_models_are_listed_in_the_shape_of_the_wire(wire: str) -> None:
    paths = {"gemini": "/v1beta/models", "ollama": "/api/tags"}
    headers = {"anthropic": {"anthropic-version": "2023-06-01"}}.get(wire, {})
    with simulate(Scenario([], complete=False)) as model, standing(model.url, '[routes.a]\nto = ["openai/m"]') as stood:
        place = urlsplit(stood.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
        connection.request("GET", paths.get(wire, "/v1/models"), headers=headers)
        listed = json.loads(connection.getresponse().read())
        connection.close()
        entries = listed["models"] if wire in ("gemini", "ollama") else listed["data"]
        name = entries[0].get("id") or entries[0]["name"]
        assert name.removeprefix("models/") == "a"
        assert len(entries) > 10


@pytest.mark.parametrize("source", ["anthropic", "gemini", "openai-responses"])
def test_tokens_are_counted_by_the_provider_or_estimated_and_said_to_be(source: str, lenient_model: Playing) -> None:
    bodies: dict[str, tuple[str, Any]] = {
        "anthropic": ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "Hello"}]}),
        "gemini": ("/v1beta/models/{}:countTokens", {"contents": [{"parts": [{"text": "Hello"}]}]}),
        "openai-responses": ("/v1/responses/input_tokens", {"input": "Hello"}),
    }
    path, body = bodies[source]
    with lenient_model(Scenario([], complete=False)) as stood:
        for target in (source, "openai-chat"):
            name = f"{NAMES[target]}/m"
            answered = ask(stood.url, {**body, "model": name}, path.format(name))
            assert answered.status == 200, answered
            counted = json.loads(answered.data)
            assert (counted.get("totalTokens") or counted["input_tokens"]) > 0
            assert ("x-toolwire-estimate" in answered.headers) is (target != source)


@pytest.mark.row("O29")
def test_a_path_of_nobody_is_a_404_of_the_wire_that_it_looks_like(lenient_model: Playing) -> None:
    paths = {
        "/v1/messages/batches": "anthropic",
        "/v1/files": "openai-chat",
        "/v1beta/files": "gemini",
        "/api/pull": "ollama",
    }
    with lenient_model(Scenario([], complete=False)) as stood:
        for path, wire in paths.items():
            answered = ask(stood.url, {}, path)
            assert answered.status == 404
            assert dialect(wire).decode_error(404, json.loads(answered.data)).kind == "not_found"
            assert answered.headers["x-toolwire-request"]


def test_embeddings_go_to_a_provider_of_the_wire(lenient_model: Playing) -> None:
    with lenient_model(Scenario([], complete=False)) as stood:
        answered = ask(stood.url, {"model": "openai/e", "input": "x"}, "/v1/embeddings")
        assert answered.status == 404  # of the simulated model, which has none
        assert [(one.path, one.raw) for one in stood.requests] == [
            ("/v1/embeddings", b'{"model":"e","input":"x"}')
        ] or (stood.requests[0].path == "/v1/embeddings")
        answered = ask(stood.url, {"model": "anthropic/e", "input": "x"}, "/v1/embeddings")
        assert answered.status == 404
        assert len(stood.requests) == 1
