"""The vendors' own SDKs in front of the gateway, a model in each of the five wires behind it: all that they do."""

import base64
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import anthropic
import google.genai.errors
import httpx
import httpx2
import ollama
import openai
import pytest
from msgspec import Struct

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES
from tests.gateway.talkers import (
    IMAGE,
    SYSTEM,
    TALKERS,
    TOOLS,
    Clients,
    Face,
    Heard,
    Talker,
    Told,
    Wish,
    got,
    inside,
)
from toolwire.testing import Cut, Fail, Finish, Scenario
from toolwire.testing.service import Received
from toolwire.types import Error, Image, Part, Request, Text, Thinking, Tool, ToolCall, ToolResult, Usage

MODELS = {
    "openai-chat": "gpt-4.1",
    "openai-responses": "gpt-6-sol",
    "anthropic": "claude-opus-5-5",
    "gemini": "gemini-3-pro",
    "ollama": "qwen3",
}
# What signs a turn that comes back, and how its wire writes that.
SIGNED = {"openai-responses": "encrypted_content", "anthropic": "signature", "gemini": "thoughtSignature"}
ODD = 'a "b"\\c\n\t\u00e4\u4e16\u2028</x>{}'
THOUGHT = "Which files are there? \u00e4"
WORDS = "Gr\u00fc\u00dfe: \u4e16\u754c, 'one' and \"two\"."
USAGE = Usage(input_tokens=100, output_tokens=20)
FIRST: tuple[tuple[str, Any], ...] = (("read_file", {"path": ODD}), ("now", {}), ("read_file", {"path": "d.png"}))
SECOND: tuple[tuple[str, Any], ...] = (("now", {}),)
RESULTS = [f"ok {ODD}", "noon", '{"size": 1}']


class Case(Struct, frozen=True):
    """What a model does, what the client must hear of it, and what the model must have been asked."""

    turns: list[list[Any]]
    hears: list[Heard]
    wish: Wish = Wish()
    asked: Callable[[str, list[Received]], None] = lambda _wire, _requests: None
    modes: tuple[bool, ...] = (False, True)


def _calls(calls: tuple[tuple[str, Any], ...]) -> list[ToolCall]:
    return [ToolCall(None, name, arguments) for name, arguments in calls]


def _read(received: Received) -> Request:
    assert received.request is not None
    return received.request


def _parts(received: Received, kind: type[Part]) -> list[Any]:
    return [part for message in _read(received).messages for part in message.parts if type(part) is kind]


def _asked_plainly(_wire: str, requests: list[Received]) -> None:
    request = _read(requests[0])
    assert SYSTEM in str(request.system) + str(request.messages[0].content)
    assert request.messages[-1].text == "What is there?"
    roles = [message.role for message in request.messages]
    assert roles in (["user"], ["system", "user"], ["developer", "user"])


def _asked_with_results(_wire: str, requests: list[Received]) -> None:
    _, second, third = requests
    for received in requests:
        assert [tool.name for tool in _read(received).tools if isinstance(tool, Tool)] == [name for name, _, _ in TOOLS]
    for received, calls, results in ((second, FIRST, RESULTS), (third, FIRST + SECOND, [*RESULTS, "noon"])):
        called = _parts(received, ToolCall)
        assert [(call.name, call.arguments) for call in called] == list(calls)
        told = _parts(received, ToolResult)
        assert [result.tool_call_id for result in told] == [call.id for call in called]
        assert [_words(result) for result in told] == results


def _words(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return "".join(part.text for part in result.content if isinstance(part, Text))


def _asked_with_thoughts(wire: str, requests: list[Received]) -> None:
    _, second = requests
    if wire in SIGNED:
        assert "".join(part.text for part in _parts(second, Thinking)) == THOUGHT
        assert f'"{SIGNED[wire]}":' in second.raw.decode().replace('": ', '":')
    assert "toolwire:foreign" not in second.raw.decode()


def _asked_with_schema(_wire: str, requests: list[Received]) -> None:
    output = _read(requests[0]).output
    assert output is not None
    assert output.schema is not None
    assert list(output.schema["properties"]) == ["city"]


def _asked_with_image(wire: str, requests: list[Received]) -> None:
    [received] = requests
    [image] = _parts(received, Image)
    data = (
        image.data if wire != "gemini" else image.data.translate(str.maketrans("-_", "+/"))
    )  # it takes both alphabets
    assert base64.b64decode(data, validate=True) == IMAGE


def _asked_for_few(_wire: str, requests: list[Received]) -> None:
    assert _read(requests[0]).max_tokens == 32


CASES = {
    "text": Case([[WORDS, USAGE]], [Heard(WORDS, usage=(100, 20), ending="stop")], asked=_asked_plainly),
    "usage": Case(
        [["Hi.", Usage(input_tokens=1234, output_tokens=567, cache_read_tokens=1000, reasoning_tokens=300)]],
        [Heard("Hi.", usage=(1234, 567), ending="stop")],
    ),
    "tools": Case(
        [["I look.", *_calls(FIRST), USAGE], [*_calls(SECOND), USAGE], [WORDS, USAGE]],
        [
            Heard("I look.", "", list(FIRST), (100, 20), "tool_calls"),
            Heard("", "", list(SECOND), (100, 20), "tool_calls"),
            Heard(WORDS, "", [], (100, 20), "stop"),
        ],
        Wish(tools=True),
        _asked_with_results,
    ),
    "thinking": Case(
        [[Thinking(THOUGHT), *_calls(FIRST), USAGE], [WORDS, USAGE]],
        [Heard("", THOUGHT, list(FIRST), (100, 20), "tool_calls"), Heard(WORDS, "", [], (100, 20), "stop")],
        Wish(tools=True, thinks=True),
        _asked_with_thoughts,
    ),
    "schema": Case(
        [['{"city": "K\u00f6ln"}', USAGE]],
        [Heard('{"city": "K\u00f6ln"}', usage=(100, 20), ending="stop")],
        Wish(schema=True),
        _asked_with_schema,
    ),
    "image": Case(
        [[WORDS, USAGE]], [Heard(WORDS, usage=(100, 20), ending="stop")], Wish(image=True), _asked_with_image
    ),
    "length": Case(
        [["Cut of", Finish("length"), USAGE]],
        [Heard("Cut of", usage=(100, 20), ending="length")],
        Wish(most=32),
        _asked_for_few,
    ),
}


class Wrong(NamedTuple):
    """What goes wrong at the model; `status` is what a client must be told, where it can be."""

    steps: list[Any]
    status: int | None
    words: str = ""
    retry: str | None = None
    modes: tuple[bool, ...] = (False, True)


WRONG = {
    "400": Wrong([Fail(Error("invalid_request", "That field is bad.", 400))], 400, "That field is bad."),
    "401": Wrong([Fail(Error("authentication", "No such key.", 401))], 401, "No such key."),
    "429": Wrong([Fail(Error("rate_limit", "Slower, please.", 429), retry_after=7)], 429, "Slower, please.", "7"),
    "500": Wrong([Fail(Error("server", "It broke.", 500))], 500, "It broke."),
    "overloaded": Wrong([WORDS, Error("overloaded", "Too busy.")], None, "Too busy.", modes=(True,)),
    "cut": Wrong([WORDS, Cut()], None),
    "cut-within": Wrong([WORDS, Cut(bytes=133)], None),
    "reset": Wrong([WORDS, Cut(reset=True)], None),
}
APIS = (openai.APIError, anthropic.APIError, google.genai.errors.APIError, ollama.ResponseError, Told)
LOST = (*APIS, httpx2.TransportError, httpx.TransportError)
OPENAI: dict[int | None, type[Exception]] = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    404: openai.NotFoundError,
    429: openai.RateLimitError,
    500: openai.InternalServerError,
}
RAISED: dict[str, dict[int | None, type[Exception]]] = {
    "openai-chat": OPENAI,
    "openai-responses": OPENAI,
    "anthropic": {status: getattr(anthropic, kind.__name__) for status, kind in OPENAI.items()},
    "gemini": {
        status: google.genai.errors.ServerError if status == 500 else google.genai.errors.ClientError
        for status in OPENAI
    },
    "ollama": dict.fromkeys(OPENAI, ollama.ResponseError),
}


@pytest.fixture(scope="session")
def clients() -> Iterator[Clients]:
    made = Clients()
    yield made
    made.close()


async def converse(talker: Talker, turns: int) -> list[Heard]:
    """Ask until the model has nothing more to say, running what it calls."""
    heard = []
    talker.says("What is there?")
    for _ in range(turns):
        heard.append(await talker.ask())
        if heard[-1].calls:
            talker.gives(RESULTS if len(heard[-1].calls) > 1 else ["noon"])
    return heard


FACES: tuple[Face, ...] = ("sync", "async")
FAST = {
    ("openai-chat", "anthropic"),
    ("anthropic", "gemini"),
    ("gemini", "ollama"),
    ("ollama", "openai-responses"),
    ("openai-responses", "openai-chat"),
}


def _rows(cases: dict[str, Any]) -> list[Any]:
    """List a table: case x SDK x wire x face x mode; all but some of them are slow."""
    rows = []
    for (name, case), sdk, wire, face in itertools.product(cases.items(), TALKERS, WIRES, FACES):
        for stream in case.modes:
            quick = (sdk, wire) in FAST and (face == "async") is stream and name in ("tools", "429")
            label = f"{name}-{sdk}-{wire}-{face}-{'stream' if stream else 'plain'}"
            marks = () if quick else pytest.mark.slow
            rows.append(pytest.param(name, sdk, wire, face, stream, id=label, marks=marks))
    return rows


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "sdk", "wire", "face", "stream"), _rows(CASES))
def test_an_sdk_has_what_the_model_gave(
    name: str,
    sdk: str,
    wire: str,
    face: Face,
    stream: bool,
    strict_model: Playing,
    clients: Clients,
    tally: Counter[str],
) -> None:
    case = CASES[name]
    with strict_model(Scenario(case.turns)) as stood:
        client = clients.at(stood.url, sdk, face)
        talker = TALKERS[sdk](client, f"{NAMES[wire]}/{MODELS[wire]}", case.wish, stream=stream)
        heard = clients.run(face, converse(talker, len(case.turns)))
        assert heard == case.hears
        case.asked(wire, stood.requests)
    tally["conversations of the vendors' SDKs through the gateway"] += 1


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "sdk", "wire", "face", "stream"), _rows(WRONG))
def test_an_sdk_raises_what_went_wrong_at_the_model(
    name: str,
    sdk: str,
    wire: str,
    face: Face,
    stream: bool,
    lenient_model: Playing,
    clients: Clients,
    tally: Counter[str],
) -> None:
    wrong = WRONG[name]
    with lenient_model(Scenario([wrong.steps])) as stood:
        client = clients.at(stood.url, sdk, face)
        talker = TALKERS[sdk](client, f"{NAMES[wire]}/{MODELS[wire]}", Wish(), stream=stream)
        with pytest.raises(LOST) as raised:
            clients.run(face, converse(talker, 1))
    problem: Any = raised.value
    assert wrong.words in str(problem)
    if wrong.status is not None:
        if sdk != "ollama":  # its error has no headers
            assert problem.response.headers.get("retry-after") == wrong.retry
        assert getattr(problem, "status_code", getattr(problem, "code", None)) == wrong.status
        assert type(problem) is RAISED[sdk][wrong.status]
    tally["conversations of the vendors' SDKs through the gateway"] += 1


# How each server says it (recorded bodies and what users report, to 2026-11).
TOO_LONG = dict.fromkeys(WIRES, "This model's maximum context length is 10 tokens.") | {
    "gemini": "The input token count (20) exceeds the maximum number of tokens allowed (10)."
}


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("wire", WIRES)
def test_a_prompt_that_was_too_long_is_known_as_such(
    wire: str, face: Face, lenient_model: Playing, clients: Clients
) -> None:
    for sdk, stream in itertools.product(TALKERS, (False, True)):
        with lenient_model(Scenario([[Error("context_length", TOO_LONG[wire], 400)]])) as stood:
            talker = TALKERS[sdk](clients.at(stood.url, sdk, face), f"{NAMES[wire]}/m", Wish(), stream=stream)
            with pytest.raises(RAISED[sdk][400], match=re.escape(TOO_LONG[wire])) as raised:
                clients.run(face, converse(talker, 1))
        if sdk.startswith("openai"):
            assert getattr(raised.value, "code", None) == "context_length_exceeded"
        if sdk == "anthropic":
            assert "prompt is too long" in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("wire", [None, *WIRES])
def test_an_error_of_its_own_is_the_sdks(
    wire: str | None, face: Face, lenient_model: Playing, clients: Clients, tally: Counter[str]
) -> None:
    """The final response of a failed stream: OpenAI's SDK says the same without the gateway (None)."""
    with lenient_model(Scenario([WRONG["overloaded"].steps])) as stood:
        name = f"{NAMES[wire]}/{MODELS[wire]}" if wire is not None else MODELS["openai-responses"]
        client = clients.at(stood.url if wire is not None else stood.model, "openai-responses", face)

        async def ask() -> None:
            async with inside(client.responses.stream(model=name, input="?")) as events:
                await got(events.get_final_response())

        with pytest.raises(RuntimeError, match=r"Didn't receive a `response.completed` event"):
            clients.run(face, ask())
    tally["errors that OpenAI's SDK makes of its own, with and without the gateway"] += 1
