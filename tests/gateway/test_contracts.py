"""What client programs count on beside answers: that somebody is there, what goes up with a request, how long it is."""

import http.client
import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, post, send
from toolwire.dialects import dialect
from toolwire.testing import Scenario
from toolwire.types import Context, Message, Request

ASK: dict[str, Any] = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
BASES = {
    "openai-chat": ("", "/v1", "/v1/v1"),
    "openai-responses": ("", "/v1", "/v1/v1"),
    "anthropic": ("", "/v1", "/v1/v1"),
    "gemini": ("", "/v1beta", "/v1beta/v1beta", "/v1"),
    "ollama": ("/api", "/v1/api"),
}
BETAS = {"anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14", "anthropic-version": "2023-06-01"}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_somebody_is_there(method: str, strict_model: Playing) -> None:
    with strict_model([]) as stood:
        place = urlsplit(stood.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
        connection.request(method, "/")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"toolwire gateway\n" if method == "GET" else b"")
        connection.close()


@pytest.mark.parametrize("wire", WIRES)
def test_beta_headers_go_to_their_own_vendor_alone(wire: str, lenient_model: Playing) -> None:
    with lenient_model(Scenario([["Hi."]])) as stood:
        body = json.dumps({**ASK, "model": f"{NAMES[wire]}/m"}).encode()
        assert post(stood.url, "/v1/messages?beta=true", body, BETAS).status == 200
        sent = {name.lower(): value for name, value in stood.requests[0].headers.items()}
        assert sent.get("anthropic-beta") == (BETAS["anthropic-beta"] if wire == "anthropic" else None)
        assert ("anthropic-version" in sent) is (wire == "anthropic")


@pytest.mark.parametrize("wire", WIRES)
def test_tokens_are_counted_or_estimated_and_it_is_said(wire: str, lenient_model: Playing) -> None:
    with lenient_model(Scenario([], complete=False)) as stood:
        body = json.dumps({**ASK, "model": f"{NAMES[wire]}/m"}).encode()
        answered = post(stood.url, "/v1/messages/count_tokens?beta=true", body, BETAS)
        assert answered.headers.get("x-toolwire-estimate") == (None if wire == "anthropic" else "1")
        if wire != "anthropic":
            assert json.loads(answered.data)["input_tokens"] > 0


@pytest.mark.parametrize(
    ("headers", "window"),
    [
        ({}, "context_window"),
        ({"anthropic-version": "2023-06-01"}, "max_input_tokens"),
        ({"x-goog-api-key": "k"}, "inputTokenLimit"),
    ],
)
def test_models_are_listed_with_their_windows(headers: dict[str, str], window: str, strict_model: Playing) -> None:
    with strict_model([]) as stood:
        place = urlsplit(stood.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
        connection.request("GET", "/v1/models?limit=1000", headers=headers)
        read = json.loads(connection.getresponse().read())
        connection.close()
        models = {
            str(one.get("id") or one.get("name")).removeprefix("models/"): one
            for one in read.get("data") or read["models"]
        }
        known = [one for name, one in models.items() if name.startswith("anthropic/")]
        assert known
        assert sum(one.get(window, 0) >= 100_000 for one in known) >= 3


@pytest.mark.parametrize("wire", BASES)
def test_a_base_address_may_hold_the_version_or_not(wire: str, strict_model: Playing) -> None:
    encoded = dialect(wire).encode_request(Request(model=f"{NAMES[wire]}/m", context=Context(None, [Message("Hello")])))
    path = re.sub("^/(v1beta|v1|api)", "", encoded.path)
    with strict_model(Scenario([["Hi."]] * len(BASES[wire]))) as stood:
        for base in BASES[wire]:
            answered = post(stood.url, base + path, encoded.json)
            assert answered.status == 200, (base, answered.data)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("PUT", "/v1/messages", "POST"),
        ("DELETE", "/api/chat", "POST"),
        ("POST", "/v1/models", "GET, HEAD"),
        ("POST", "/api/tags", "GET, HEAD"),
        ("GET", "/v1beta/models/m:generateContent", "POST"),
        ("POST", "/v1/responses/resp_1/input_items", "GET"),
        ("GET", "/v1/responses/resp_1/cancel", "POST"),
    ],
)
def test_a_method_that_a_path_does_not_know_is_told_which_it_knows(
    method: str, path: str, allowed: str, strict_model: Playing
) -> None:
    with strict_model([]) as stood:
        answered = send(stood.url, method, path, b"{}")
        assert (answered.status, answered.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize(
    ("method", "rest", "allowed"),
    [("PUT", "", "GET, POST, DELETE"), ("PATCH", "/items", "GET, POST"), ("POST", "/items/{item}", "GET, DELETE")],
)
def test_a_conversation_tells_which_methods_it_knows(
    method: str, rest: str, allowed: str, strict_model: Playing
) -> None:
    with strict_model([]) as stood:
        said = b'{"items": [{"role": "user", "content": "Hello"}]}'
        name = json.loads(send(stood.url, "POST", "/v1/conversations", said).data)["id"]
        item = json.loads(send(stood.url, "GET", f"/v1/conversations/{name}/items", None).data)["first_id"]
        answered = send(stood.url, method, f"/v1/conversations/{name}{rest.format(item=item)}", b"{}")
        assert (answered.status, answered.headers["allow"]) == (405, allowed)


def test_models_are_listed_below_each_base_address(strict_model: Playing) -> None:
    with strict_model(Scenario([])) as stood:
        listed = [send(stood.url, "GET", f"{base}/models", None).data for base in ("", "/v1", "/v1/v1")]
        assert listed[0] == listed[1] == listed[2]
        assert send(stood.url, "GET", "/v2/models", None).status == 404
