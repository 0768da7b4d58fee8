"""A key goes into one header: it is in no repr, no log, no error, no traceback, no history."""

import io
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.faces import DIALECTS, FACES, TOKYO, awaited, get_weather, lead, options_at, with_history
from toolwire import Context, aio
from toolwire.client import sync
from toolwire.client.exchange import Retries
from toolwire.client.saving import save
from toolwire.errors import InvalidField, ToolwireError
from toolwire.providers import PROVIDERS, Provider, provider_of
from toolwire.testing import Cut, Raw, Wait, simulate
from toolwire.wire.transport import HttpRequest, Timeouts

KEY = "sk-SENTINEL-5f2c9e1b7a"
OURS = ("exchange.py", "httpx.py", "conversation.py", "dialogue.py", "run.py", "waiting.py")
MARKS = ("SENTINEL", "5f2c9e1b7a")


def clean(*texts: str) -> bool:
    return not any(mark in text for mark in MARKS for text in texts)


@pytest.fixture
def logged() -> Iterator[Callable[[], str]]:
    """Collect every log of every library at its most talkative."""
    stream = io.StringIO()
    handler, root = logging.StreamHandler(stream), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(1)
    yield stream.getvalue
    root.removeHandler(handler)
    root.setLevel(before)


def told(problem: BaseException) -> list[str]:
    """Say an exception in every way that a program may: its chain, its values, and the locals of our code.

    The frames above ours hold what the caller gave, as the caller gave it.
    """
    whole = traceback.TracebackException.from_exception(problem, capture_locals=True)
    ours = [frame for frame in whole.stack if Path(frame.filename).name in OURS]
    assert ours
    texts = [repr(frame.locals) for frame in ours]
    texts.append("".join(traceback.format_exception(problem)))
    seen: list[BaseException] = []
    while problem is not None and problem not in seen:
        seen.append(problem)
        texts += [str(problem), repr(problem), repr(problem.args), repr(vars(problem))]
        problem = problem.__cause__ or problem.__context__  # type: ignore[assignment]
    return texts


FAULTS: dict[str, list[Any]] = {
    "refused, and the key is echoed": [Raw(f'{{"error": {{"message": "Wrong key: {KEY}"}}}}'.encode(), 401)],
    "refused with a page": [Raw(f"<html>Bearer {KEY}</html>".encode(), 403, "text/html")],
    "broken": [Raw(b"{}", 500)],
    "cut": [Cut(reset=True)],
    "late": [Wait(5), "Late."],
}


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, marks=pytest.mark.slow if case == "late" and name != "openai" else ())
        for name in DIALECTS
        for case in FAULTS
    ],
)
def test_no_failure_tells_the_key(name: str, case: str, face: str, logged: Callable[[], str]) -> None:
    options: dict[str, Any] = {"api_key": KEY, "retries": Retries(attempts=1)}
    if case == "late":  # where the machine is busy, any other answer may take as long
        options["timeouts"] = Timeouts(first=0.5)
    with simulate([FAULTS[case]], strict=False) as model, pytest.raises(ToolwireError) as found:
        lead(face, name, model.url, "?", options=options)
    sent = {value for value in model.requests[0].headers.values() if KEY in value}
    assert len(sent) == 1, "a control: the key was sent, in one header"
    assert clean(*told(found.value), logged())
    assert logged(), "a control: something was logged"


ECHO = f"Wrong key: {KEY}"
TOLD_IN_A_STREAM: dict[str, Any] = {
    "openai": {"error": {"message": ECHO, "code": KEY}},
    "openai-responses": {"type": "error", "code": "invalid", "message": ECHO, "param": KEY},
    "anthropic": {"type": "error", "error": {"type": "authentication_error", "message": ECHO}, "more": [KEY]},
    "gemini": {"error": {"code": 400, "message": ECHO, "details": [{"key": KEY}]}},
    "ollama": {"error": ECHO},
}


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
def test_no_error_inside_of_a_stream_tells_the_key(name: str, face: str, logged: Callable[[], str]) -> None:
    told_by_events: list[Any] = []
    said = json.dumps(TOLD_IN_A_STREAM[name])
    kind = "application/x-ndjson" if name == "ollama" else "text/event-stream"
    data = f"{said}\n" if name == "ollama" else f"data: {said}\n\n"
    options = {"api_key": KEY, "retries": Retries(attempts=1)}
    with (
        simulate([Raw(data.encode(), 200, kind)], strict=False) as model,
        pytest.raises(ToolwireError, match="Wrong key") as found,
    ):
        lead(face, name, model.url, "?", shown=True, options=options, on_event=told_by_events.append)
    assert clean(*told(found.value), logged(), repr(told_by_events))
    assert "[hidden" in str(found.value), "a control: the key was there"


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
def test_no_success_tells_the_key(name: str, face: str, shown: bool, logged: Callable[[], str]) -> None:
    with simulate([[TOKYO], ["Warm."]], api_key=KEY) as model:
        led = lead(face, name, model.url, "?", shown=shown, tools=[get_weather], options={"api_key": KEY})
    history = save(with_history(Context(None, ["?"]), led.done), name)
    assert clean(repr(led), history, logged(), repr(model.requests))


def test_no_value_shows_the_key() -> None:
    provider, _ = provider_of("openai", "m", api_key=KEY, headers={"x-more": KEY}, query={"key": KEY})
    client = sync.Client("openai", "m", api_key=KEY)
    request = HttpRequest("POST", f"https://u:{KEY}@host/v1?key={KEY}", {"authorization": KEY}, b"")
    with pytest.raises(InvalidField) as refused:
        provider.with_options(base_url=f"https://user:{KEY}@host/v1")
    for value in (provider, refused.value, client, client.upstream, client.upstream.provider, request, vars(client)):
        assert clean(repr(value), str(value), f"{value!r:}")
        rich = getattr(value, "__rich_repr__", None)
        assert rich is None or clean(repr(list(rich())))
    assert provider.key == KEY, "a control"


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY} ", f"{KEY}\r\n"])
@pytest.mark.parametrize("face", FACES)
def test_white_space_around_a_key_is_not_a_part_of_it(face: str, key: str) -> None:
    with simulate(["Hi."], api_key=KEY) as model:
        assert lead(face, "openai", model.url, "?", options={"api_key": key}).done.content == "Hi."


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["openai", "anthropic"])
@pytest.mark.parametrize("key", [f"{KEY}\nx: y", f"{KEY}\u20ac", f"{KEY}\x00", f"{KEY}\u00e9"])
@pytest.mark.parametrize("face", FACES)
def test_a_key_that_no_header_can_carry_is_refused_without_telling_it(face: str, key: str, name: str) -> None:
    with pytest.raises(ToolwireError, match="no header can carry") as found:
        lead(face, name, "http://127.0.0.1:9", "?", options={"api_key": key})
    texts = [str(found.value), *(repr(vars(found.value)), repr(found.value))]
    assert clean(*texts)
    assert found.value.__context__ is None


def test_a_key_of_the_environment_is_told_as_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    echo = Raw(f'{{"error": {{"message": "{KEY}"}}}}'.encode(), 401)
    with (
        simulate([echo], api_key=KEY) as model,
        sync.Client("openai", "m", base_url=model.url) as client,
        pytest.raises(ToolwireError) as found,
    ):
        client.run("?")
    assert clean(*told(found.value), repr(client))


def test_a_password_in_an_address_is_told_as_little(logged: Callable[[], str]) -> None:
    with pytest.raises(ToolwireError) as found:
        sync.generate("?", "openai", "m", options={"base_url": f"http://u:{KEY}@127.0.0.1:9", "retries": Retries(1)})
    assert clean(str(found.value), repr(found.value), repr(vars(found.value)))
    assert logged() is not None


def test_providers_are_values_without_keys() -> None:
    assert all(provider.api_key in (None, "ollama") for provider in PROVIDERS.values())
    assert all(isinstance(pickle.loads(pickle.dumps(one)), Provider) for one in PROVIDERS.values())  # noqa: S301 - our own


def test_an_awaited_client_shows_as_little() -> None:
    async def main() -> str:
        async with aio.Client("openai", "m", api_key=KEY) as client:
            return repr(client) + repr(client.upstream) + repr(vars(client))

    assert clean(awaited(main()))
    assert options_at("openai", "x")
