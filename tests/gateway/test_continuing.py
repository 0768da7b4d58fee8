"""A text that breaks off is gone on with where the route says so: by the next provider, in every wire, and told."""

import asyncio
import contextlib
import json
import math
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, Answered, Before, Stood, post, standing
from tests.stream_oracles import READERS
from toolwire import accumulate
from toolwire.config import PriceSettings, read_settings
from toolwire.dialects import dialect
from toolwire.gateway import app
from toolwire.gateway.accounts import Accounts
from toolwire.gateway.choosing import ProviderChooser
from toolwire.gateway.context import leave
from toolwire.gateway.continuing import CONTINUE_PROMPT
from toolwire.gateway.keys import limit_of, mint
from toolwire.gateway.ledger import LimitLedger
from toolwire.gateway.prices import Prices
from toolwire.gateway.routes import Routes
from toolwire.testing import Cut, Fail, Scenario, simulate
from toolwire.types import (
    Context,
    Error,
    ErrorEnd,
    Message,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Usage,
)

MODELS = {
    "openai-chat": "gpt-4.1",
    "openai-responses": "gpt-4.1",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
    "ollama": "qwen3",
}
PREFILLED = ("anthropic", "ollama")
TOOLS = [Tool("now", "Say the time.", {"type": "object", "properties": {}})]
COUNTED = ["One, two, ", "three, four. ", Cut()]
REST = ["Five, six.", Usage(input_tokens=30, output_tokens=5)]


def route(*wires: str, more: str = "continue = true") -> str:
    """Write a route over providers of these wires."""
    to = [f"{NAMES[wire]}/{MODELS[wire]}" for wire in wires]
    return f"[routes.r]\nto = {json.dumps(to)}\n{more}\n"


@contextlib.contextmanager
def played(
    model: Playing, turns: Any, *wires: str, more: str = "continue = true", keys: dict[str, str] | None = None
) -> Iterator[Before]:
    """Play turns behind a gateway that has one route; `keys` of providers, by name."""
    with model(turns) as before:
        tools = before.gateway.context
        providers = tools.routes.providers
        if keys is not None:
            providers = {name: one.with_options(api_key=keys[name]) for name, one in providers.items()}
        routes = Routes(read_settings(route(*wires, more=more)), providers)
        before.gateway.context = replace(tools, routes=routes, chooser=ProviderChooser())
        try:
            yield before
        finally:
            before.gateway.context = tools


def asked(url: str, wire: str, *, stream: bool = True, **more: Any) -> Answered:
    """Ask for a count in a wire."""
    given: dict[str, Any] = {"context": Context("Count.", [Message("To six.")], TOOLS), "max_tokens": 900, **more}
    encoded = dialect(wire).encode_request(Request(model="r", stream=stream, **given))
    return post(url, encoded.path, encoded.json)


def heard(wire: str, answered: Answered) -> tuple[Response, list[Error]]:
    """Read a stream as the client of a wire does."""
    decoder = dialect(wire).decode_stream()
    events = [*decoder.feed(answered.data), *decoder.close()]
    return accumulate(events), [event.error for event in events if type(event) is ErrorEnd]


@pytest.mark.parametrize("first", ["openai-responses", "anthropic"])
@pytest.mark.parametrize("turns", [[[*COUNTED], REST], [REST]], ids=["a seam", "whole"])
def test_an_answer_of_responses_has_one_name(turns: Any, first: str, strict_model: Playing) -> None:
    with played(strict_model, turns, first, "gemini") as stood:
        answered = asked(stood.url, "openai-responses")
        events = [json.loads(line[6:]) for line in answered.data.split(b"\n") if line.startswith(b"data: {")]
        names = [event["response"]["id"] for event in events if "response" in event]
        assert events[-1]["type"] == "response.completed"
        assert len(names) == 3
        assert len(set(names)) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_who_goes_on_tells_its_key_to_nobody(wire: str, strict_model: Playing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolwire.gateway.delivery.MAX_CONTINUATIONS", 1)
    keys = {name: f"sk-{name}-0123456789abcdef" for name in NAMES.values()}
    for target in WIRES:
        key = keys[NAMES[target]]
        broken = ["Five.", Fail(Error("server", f"who is {key}?", 500))]
        with played(strict_model, [[*COUNTED], broken], wire, target, keys=keys) as stood:
            answered = asked(stood.url, wire)
        assert b"who is [hidden]" in answered.data
        assert key.encode() not in answered.data


def losses(stood: Before, answered: Answered) -> list[dict[str, Any]]:
    """Ask what was lost."""
    url = f"{stood.url}/toolwire/requests/{answered.headers['x-toolwire-request']}/losses"
    with urllib.request.urlopen(url, timeout=10) as told:  # noqa: S310 - the gateway of the test
        return json.loads(told.read())["losses"]  # type: ignore[no-any-return]


@pytest.mark.sampled
@pytest.mark.parametrize("step", [0, 1, *(pytest.param(step, marks=pytest.mark.slow) for step in (2, 3, 4))])
@pytest.mark.parametrize("first", WIRES)
@pytest.mark.parametrize("source", WIRES)
def test_the_next_provider_goes_on_with_a_text_and_the_seam_is_told(
    source: str, first: str, step: int, strict_model: Playing
) -> None:
    second = WIRES[(WIRES.index(first) + step) % len(WIRES)]
    with played(strict_model, Scenario([COUNTED, REST]), first, second) as stood:
        answered = asked(stood.url, source)
        response, errors = heard(source, answered)
        assert errors == []
        assert response.content == "One, two, three, four. Five, six."
        assert response.finish_reason == "stop"
        told = READERS[source](answered.data)
        assert (told.text, told.error) == ("One, two, three, four. Five, six.", None)
        assert (answered.status, answered.broken) == (200, False)
        again = stood.requests[1].request
        assert again is not None
        roles = [message.role for message in again.messages if message.role != "system"]
        turns = ["user", "assistant"] if second in PREFILLED else ["user", "assistant", "user"]
        assert roles == turns
        said = next(message.text for message in again.messages if message.role == "assistant")
        assert said == ("One, two, three, four." if second in PREFILLED else "One, two, three, four. ")
        assert (again.messages[-1].text == CONTINUE_PROMPT) is (second not in PREFILLED)
        [seam] = [loss for loss in losses(stood, answered) if loss["concept"] == "seam"]
        names = [f"{NAMES[wire]}/{MODELS[wire]}" for wire in (first, second)]
        assert seam["detail"] == f"{names[0]} broke off after 23 characters, and {names[1]} continued"
        assert seam["severity"] == "semantic"
        assert (b": toolwire: " in answered.data) is (source not in ("gemini", "ollama"))
        record = stood.seen[0]
        assert (record["ending"], record["continued_by"], record["provider"]) == ("continued", names[1:], names[0])
        assert answered.headers["x-toolwire-model"] == names[0]


@pytest.mark.parametrize("wire", WIRES)
def test_without_the_setting_a_text_that_breaks_off_is_an_error(wire: str, strict_model: Playing) -> None:
    scenario = Scenario([COUNTED, REST], complete=False)
    with played(strict_model, scenario, wire, wire, more="") as stood:
        response, errors = heard(wire, asked(stood.url, wire))
        assert errors
        assert (response.content or "").startswith("One, two, three, four.")
        assert len(stood.requests) == 1
        assert stood.seen[0]["ending"] == "broke off"


NEVER: dict[str, list[Any]] = {
    "a call that had begun": ["One.", ToolCall(None, "now", {"at": "noon"}), Cut(events=6)],
    "a call that was whole": ["One.", ToolCall(None, "now", {}), Cut()],
    "signed thinking": [Thinking("Which?"), "One.", Cut()],
    "a thought": [Thinking("Which is the first of them?"), Cut()],
}


@pytest.mark.sampled
@pytest.mark.parametrize("what", NEVER)
@pytest.mark.parametrize("source", WIRES)
def test_what_is_no_plain_text_is_never_gone_on_with(source: str, what: str, strict_model: Playing) -> None:
    scenario = Scenario([NEVER[what], REST], complete=False)
    with played(strict_model, scenario, "anthropic", "anthropic") as stood:
        thinks: dict[str, Any] = {"thinking_budget": 2048} if source == "anthropic" else {"effort": "high"}
        answered = asked(stood.url, source, **(thinks if "th" in what else {}))
        assert heard(source, answered)[1] or answered.broken
        assert len(stood.requests) == 1
        assert stood.seen[0]["ending"] == "broke off"


@pytest.mark.sampled
@pytest.mark.parametrize("source", WIRES)
@pytest.mark.parametrize("target", WIRES)
def test_the_only_provider_is_asked_again_twice_and_then_it_is_an_error(
    source: str, target: str, strict_model: Playing
) -> None:
    turns = [[f"{number}, ", Cut()] for number in "123"]
    with played(strict_model, Scenario([*turns, REST], complete=False), target) as stood:
        answered = asked(stood.url, source)
        response, errors = heard(source, answered)
        assert errors
        assert (response.content or "").strip() == "1, 2, 3,"
        assert len(stood.requests) == 3
        assert stood.seen[0]["ending"] == "broke off"
        assert len(stood.seen[0]["continued_by"]) == 2


@pytest.mark.parametrize("source", WIRES)
def test_who_goes_on_may_call_a_tool(source: str, strict_model: Playing) -> None:
    call = ["Five. ", ToolCall(None, "now", {})]
    for second in WIRES:
        with played(strict_model, Scenario([COUNTED, call]), "openai-chat", second) as stood:
            response, errors = heard(source, asked(stood.url, source))
            assert errors == []
            assert (response.content or "").strip() == "One, two, three, four. Five."
            assert [(one.name, one.arguments, one.runs) for one in response.tool_calls] == [("now", {}, True)]
            assert response.finish_reason == "tool_calls"


@pytest.mark.parametrize("source", WIRES)
def test_one_who_fails_to_go_on_is_followed_by_the_next(source: str, strict_model: Playing) -> None:
    busy = Fail(Error("overloaded", "busy", 503))
    wires = ("openai-chat", "anthropic", "ollama")
    with played(strict_model, Scenario([COUNTED, busy, REST]), *wires) as stood:
        response, errors = heard(source, asked(stood.url, source))
        assert errors == []
        assert response.content == "One, two, three, four. Five, six."
        assert stood.seen[0]["continued_by"] == ["ollama/qwen3"]
    refused = Scenario([COUNTED, busy, busy, busy], complete=False)
    with played(strict_model, refused, *wires) as stood:
        assert heard(source, asked(stood.url, source))[1]
        assert len(stood.requests) == 4
        assert stood.seen[0]["ending"] == "broke off"


@pytest.mark.parametrize("source", WIRES)
def test_an_error_within_a_stream_is_gone_on_after_only_if_another_may_do_better(
    source: str, strict_model: Playing
) -> None:
    for kind, goes_on in (("overloaded", True), ("invalid_request", False)):
        broken = ["One, two, ", Fail(Error(kind, "no", None))]  # type: ignore[arg-type]
        scenario = Scenario([broken, REST], complete=False)
        with played(strict_model, scenario, "anthropic", "openai-chat") as stood:
            response, errors = heard(source, asked(stood.url, source))
            assert (errors == []) is goes_on, kind
            assert (response.content == "One, two, Five, six.") is goes_on
            assert len(stood.requests) == 1 + goes_on


@pytest.mark.parametrize("wire", WIRES)
def test_blanks_that_were_not_sent_are_not_said_twice(wire: str, strict_model: Playing) -> None:
    for rest, whole in (("  \nB", "A  \nB"), (" B", "A  \nB"), ("B", "A  \nB"), ("\n\nB", "A  \n\n\nB")):
        turns = [["A  \n", Cut()], [rest]]
        with played(strict_model, Scenario(turns), "openai-chat", "anthropic") as stood:
            assert heard(wire, asked(stood.url, wire))[0].content == whole
            assert stood.requests[1].request is not None


@pytest.mark.parametrize("source", WIRES)
def test_an_answer_in_one_piece_is_asked_for_again(
    source: str, strict_model: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolwire.gateway.delivery.RETRY_DELAY", 0.005)
    for target in WIRES:
        cut = ["One, two, three.", Cut(bytes=40)]
        with played(strict_model, Scenario([cut, REST]), target) as stood:
            answered = asked(stood.url, source, stream=False)
            assert answered.status == 200
            assert dialect(source).decode_response(json.loads(answered.data)).content == "Five, six."
            roles = [[told.role for told in one.request.messages] for one in stood.requests if one.request]
            assert [one[-1:] for one in roles] == [["user"], ["user"]]
            [record] = stood.seen.first(1)
            assert record["estimated"]
            assert record["output_tokens"] == 5 + 10  # what was reported, and the forty bytes that nobody counted
        scenario = Scenario([cut, REST], complete=False)
        with played(strict_model, scenario, target, more="") as stood:
            assert asked(stood.url, source, stream=False).status == 502


def test_a_form_that_was_asked_for_is_not_gone_on_with(strict_model: Playing) -> None:
    form = {"type": "json_object"}
    body = {"model": "r", "stream": True, "messages": [{"role": "user", "content": "x"}], "response_format": form}
    scenario = Scenario([COUNTED, REST], complete=False)
    with played(strict_model, scenario, "openai-chat", "openai-chat") as stood:
        for given, asked_times in ((body, 1), ({**body, "n": 2, "response_format": {"type": "text"}}, 2)):
            answered = post(stood.url, "/v1/chat/completions", json.dumps(given).encode())
            assert len(stood.requests) == asked_times
            del answered


@pytest.mark.parametrize("source", WIRES)
def test_a_text_that_the_client_had_begun_is_one_turn(source: str, strict_model: Playing) -> None:
    context = Context(None, [Message("To six."), Message("assistant", [Text("Zero, ")])])
    with played(strict_model, Scenario([COUNTED, REST]), "openai-chat", "ollama") as stood:
        assert heard(source, asked(stood.url, source, context=context))[1] == []
        again = stood.requests[1].request
        assert again is not None
        assert [message.text for message in again.messages] == ["To six.", "Zero, One, two, three, four."]


def test_the_next_turn_goes_to_who_went_on(strict_model: Playing) -> None:
    turns = [COUNTED, REST, ["Seven."]]
    with played(strict_model, Scenario(turns), "openai-chat", "anthropic") as stood:
        asked(stood.url, "openai-chat")
        later = asked(stood.url, "openai-chat")
        assert later.headers["x-toolwire-model"] == "anthropic/claude-sonnet-4-5"
        assert len(stood.requests) == 3


PRICES = {"openai/gpt-4.1": PriceSettings(10.0, 10.0), "anthropic/claude-sonnet-4-5": PriceSettings(1.0, 1.0)}


@contextlib.contextmanager
def paid(tmp_path: Path, turns: Any, **limits: str) -> Iterator[tuple[Stood, Callable[[], list[int]], str]]:
    """Stand a gateway with keys before such turns; give what reads what a key has taken, and the key."""
    ledger, now = LimitLedger(f"sqlite:///{tmp_path / 'keys.db'}"), time.time()
    text, key = mint("ci", [], [limit_of(*one) for one in limits.items()], now, None)
    ledger.add(key)
    accounts = Accounts(LimitLedger(f"sqlite:///{tmp_path / 'keys.db'}"))
    settings = route("openai-chat", "anthropic")
    with (
        simulate(turns) as model,
        standing(model.url, settings, accounts=accounts, prices=Prices(PRICES)) as stood,
    ):
        yield stood, lambda: [*ledger.taken(key, time.time()).values()], text
    ledger.close()


def until(met: Callable[[], bool]) -> None:
    """Wait until something is so."""
    late = time.monotonic() + 10
    while not met():
        assert time.monotonic() < late, "it did not happen in time"
        time.sleep(0.01)


@pytest.mark.slow
def test_each_who_wrote_is_paid_for_and_it_is_one_request(tmp_path: Path) -> None:
    scenario = Scenario([COUNTED, REST])
    with paid(tmp_path, scenario, requests="100/day", tokens="100000/day", budget="10/day") as (stood, taken, key):
        encoded = dialect("openai-chat").encode_request(
            Request(model="r", stream=True, context=Context(None, [Message("Count.")]))
        )
        assert post(stood.url, encoded.path, encoded.json, {"x-api-key": key}).status == 200
        record = stood.seen[0]
        first = math.ceil(len(encoded.json) / 4), math.ceil(len("One, two, three, four. ") / 4)
        assert (record["input_tokens"], record["output_tokens"]) == (first[0] + 30, first[1] + 5)
        assert record["estimated"]
        assert record["cost"] == pytest.approx((sum(first) * 10 + 35) / 1e6)
        until(lambda: taken() == [1, sum(first) + 35, sum(first) * 10_000 + 35_000])


def test_a_client_that_leaves_at_a_seam_leaves_no_estimate_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = app._Request._send

    async def left(self: Any, data: bytes, more: bool) -> None:
        if b": toolwire: " in data:
            leave(self.scope)
            await asyncio.sleep(5)
        await send(self, data, more)

    monkeypatch.setattr(app._Request, "_send", left)
    scenario = Scenario([COUNTED, REST], complete=False)
    with paid(tmp_path, scenario, tokens="100000/day") as (stood, taken, key):
        encoded = dialect("openai-chat").encode_request(
            Request(model="r", stream=True, context=Context(None, [Message("Count.")]))
        )
        place = urlsplit(stood.url)
        with socket.create_connection((place.hostname or "", place.port or 0)) as opened:
            head = f"POST {encoded.path} HTTP/1.1\r\nhost: {place.netloc}\r\nx-api-key: {key}\r\n"
            opened.sendall(f"{head}content-length: {len(encoded.json)}\r\n\r\n".encode() + encoded.json)
            record = stood.seen[0]
        assert (record["ending"], record["continued_by"]) == ("client gone", ["anthropic/claude-sonnet-4-5"])
        until(lambda: taken() == [record["input_tokens"] + record["output_tokens"]])


def test_a_key_that_has_nothing_left_for_it_is_not_gone_on_with(tmp_path: Path) -> None:
    scenario = Scenario([COUNTED, REST], complete=False)
    with paid(tmp_path, scenario, budget="0.0009/day") as (stood, taken, key):
        encoded = dialect("openai-chat").encode_request(
            Request(model="r", stream=True, max_tokens=55, context=Context(None, [Message("Count.")]))
        )
        answered = post(stood.url, encoded.path, encoded.json, {"x-api-key": key})
        [error] = heard("openai-chat", answered)[1]
        assert "broke off" in error.message
        assert stood.seen[0]["ending"] == "broke off"
        until(lambda: 0 < taken()[0] < 900_000)
