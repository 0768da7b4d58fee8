"""Scenarios: what they may be made of, how they are played, and how they fail."""

import asyncio
import json
import time
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.testing.asking import ASKERS, BODIES, send
from toolwire import ProviderError, generate
from toolwire.errors import DeclarationError, InvalidField, ScenarioFailed
from toolwire.testing import Expect, Fail, Finish, Pace, Raw, Scenario, SimulatedModel, Wait, simulate
from toolwire.testing.written import read_file, steps_of
from toolwire.types import Error, Message, Refusal, Request, Response, Text, Thinking, ToolCall, Usage

SAID: list[tuple[Any, str]] = [
    ("Hello.", "Hello."),
    (Text(text="Hello."), "Hello."),
    (Message("assistant", "Hello."), "Hello."),
    (Response.of(Message("assistant", "Hello.")), "Hello."),
    (["Hel", "lo."], "Hello."),
    ({"text": "Hello."}, "Hello."),
    ([{"wait": 0}, {"text": "Hel"}, "lo."], "Hello."),
    (Finish("stop"), ""),
    (Usage(3, 4), ""),
    (Expect(messages=1), ""),
    (Wait(0), ""),
    ([], ""),
]


@pytest.mark.parametrize(("turn", "text"), SAID)
def test_a_turn_is_whatever_says_it(turn: Any, text: str) -> None:
    with simulate([turn]) as model:
        assert ASKERS["openai-chat"](model.url) == text


def test_a_response_is_answered_as_it_is() -> None:
    given = Response.of(
        Message("assistant", [Text(text="Half")]),
        "length",
        id="resp_1",
        model="other",
        usage=Usage(7, 5, reasoning_tokens=2),
    )
    with simulate(given) as model:
        chat = send(model.url, "openai-chat", BODIES["openai-chat"]).body
        assert (chat["id"], chat["model"], chat["choices"][0]["finish_reason"]) == (
            "resp_1",
            "other",
            "length",
        )
        assert (chat["usage"]["prompt_tokens"], chat["usage"]["completion_tokens"]) == (7, 5)
        items = send(model.url, "openai-responses", BODIES["openai-responses"]).body
        assert items["incomplete_details"] == {"reason": "max_output_tokens"}
        told = send(model.url, "gemini", BODIES["gemini"]).body
        assert told["usageMetadata"]["thoughtsTokenCount"] == 2
        assert send(model.url, "anthropic", BODIES["anthropic"]).body["stop_reason"] == "max_tokens"
        assert send(model.url, "ollama", BODIES["ollama"]).body["done_reason"] == "length"


def test_what_a_script_leaves_out_is_filled_in_the_same_way_at_the_same_time() -> None:
    def told() -> list[bytes]:
        turns = [[Thinking(text="Hm."), ToolCall(None, "f", {"a": 1})]]
        with simulate(Scenario(turns, repeat=True), clock=count(5).__next__) as model:
            return [send(model.url, name, BODIES[name]).data for name in ASKERS for _ in range(2)]

    first = told()
    assert first == told()
    assert len(set(first[:4])) == 4


@pytest.mark.parametrize("stream", [False, True])
def test_each_answer_of_ollama_has_a_time_of_its_own(stream: bool) -> None:
    body = {**BODIES["ollama"], "stream": stream}

    def times(**given: Any) -> list[str]:
        with simulate(Scenario(["Hi there."], repeat=True), **given) as model:
            answers = [send(model.url, "ollama", body).data.decode().splitlines() for _ in range(3)]
        told = [{json.loads(line)["created_at"] for line in lines} for lines in answers]
        assert all(len(one) == 1 for one in told), "every line of an answer says the same"
        return [one.pop() for one in told]

    assert times(clock=lambda: 1_800_000_000) == [
        "2027-01-15T08:00:00Z",
        "2027-01-15T08:00:00.000001Z",
        "2027-01-15T08:00:00.000002Z",
    ]
    before = datetime.now(UTC)
    assert before <= datetime.fromisoformat(times()[0]) <= datetime.now(UTC)


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "ollama"])
def test_an_answer_has_the_present_time(name: str) -> None:
    field = "created" if name == "openai-chat" else "created_at"
    before = int(time.time())
    with simulate(["Hi."]) as model:
        told = send(model.url, name, BODIES[name]).body[field]
    made = datetime.fromisoformat(told).timestamp() if name == "ollama" else told
    assert before <= made <= time.time()


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_no_two_answers_have_one_id(name: str) -> None:
    field = "responseId" if name == "gemini" else "id"

    def ids(**given: Any) -> list[str]:
        with simulate(Scenario(["Hi."], repeat=True), **given) as model:
            return [send(model.url, name, BODIES[name]).body[field] for _ in range(2)]

    assert len({*ids(), *ids()}) == 4, "another server has other ids too"
    assert ids(clock=lambda: 5) == ids(clock=lambda: 5), "but at the same time the same"


def test_an_answer_keeps_the_time_that_its_script_gives() -> None:
    with simulate(Response.of(Message("assistant", "Hi."), created=5.0)) as model:
        assert send(model.url, "ollama", BODIES["ollama"]).body["created_at"] == "1970-01-01T00:00:05Z"


def test_a_function_sees_the_request_and_where_it_stands() -> None:
    seen: list[tuple[int, int, str]] = []

    def play(request: Request, turn: Any) -> Any:
        seen.append((turn.number, turn.round, turn.dialect))
        return request.messages[-1].text.upper() + str(turn.body["model"])

    with simulate(play) as model:
        messages: list[Any] = [{"role": "user", "content": "hi "}]
        body = {"model": "m", "messages": messages, "stream": False}
        assert send(model.url, "ollama", body).body["message"]["content"] == "HI m"
        messages += [{"role": "assistant", "content": "x"}, {"role": "user", "content": "ho "}]
        assert send(model.url, "openai-chat", body).body["choices"][0]["message"]["content"] == "HO m"
    assert seen == [(0, 0, "ollama"), (1, 1, "openai-chat")]


def test_a_function_may_wait() -> None:
    async def play(request: Request, turn: Any) -> str:
        del request, turn
        await asyncio.sleep(0.01)
        return "Here."

    with simulate(play) as model:
        assert ASKERS["ollama"](model.url) == "Here."


def test_one_step_answers_every_request_and_a_list_each_once() -> None:
    with simulate(Text(text="Hello.")) as model:
        assert [ASKERS["ollama"](model.url) for _ in range(3)] == ["Hello."] * 3
        model.play(["One.", "Two."])
        assert [ASKERS["ollama"](model.url) for _ in range(2)] == ["One.", "Two."]


def test_a_scenario_by_rounds_serves_many_conversations() -> None:
    with simulate(Scenario(["First.", "Second."], by="round")) as model:
        history = [{"role": "user", "content": "?"}]
        longer = [*history, {"role": "assistant", "content": "First."}, *history]
        for messages, text in ((history, "First."), (longer, "Second."), (history, "First.")):
            body = {"model": "m", "messages": messages, "stream": False}
            assert send(model.url, "ollama", body).body["message"]["content"] == text


def asked_once(model: SimulatedModel) -> int:
    return send(model.url, "openai-chat", BODIES["openai-chat"]).status


def test_a_request_too_many_fails() -> None:
    with (
        pytest.raises(ScenarioFailed, match="1 turns, and this is request 2"),
        simulate(["Hi."]) as model,
    ):
        assert [asked_once(model), asked_once(model)] == [200, 400]


def test_a_turn_that_nobody_asked_for_fails() -> None:
    with (
        pytest.raises(ScenarioFailed, match="turn 2, 3 of 3 was not requested"),
        simulate(["a", "b", "c"]) as model,
    ):
        asked_once(model)
    with simulate(Scenario(["a", "b"], complete=False)) as model:
        asked_once(model)
    with pytest.raises(ScenarioFailed, match="turn 1 of 1 was not requested"), simulate(["a"]) as model:
        model.play(Scenario(["b"], complete=False))


def test_what_a_function_raises_fails_and_is_the_cause() -> None:
    def play(request: Request, turn: Any) -> Any:
        raise LookupError(f"no answer to {request.messages[-1].text}{turn.number}")

    with (
        pytest.raises(ScenarioFailed, match=r"LookupError: no answer to \?0") as found,
        simulate(play) as model,
    ):
        assert asked_once(model) == 400
    assert isinstance(found.value.__cause__, LookupError)


def test_an_exception_of_the_test_is_not_hidden() -> None:
    with pytest.raises(KeyError), simulate(["never asked"]):
        raise KeyError


UNMET: list[tuple[Expect, str]] = [
    (Expect(last="weather"), "the last message must contain 'weather', not '?'"),
    (Expect(system="brief"), "the system prompt must contain 'brief', not ''"),
    (Expect(model="gpt-9"), "the model must be 'gpt-9', not 'gpt-4.1'"),
    (Expect(tools=["f"]), "the tools f must be offered; there are none"),
    (Expect(results={"f": "x"}), "there must be a result of f; there is none"),
    (Expect(messages=2), "there must be 2 messages, not 1"),
    (Expect(where=lambda request: request.temperature), "the request is not as `where` wants it"),
]


@pytest.mark.parametrize(("expected", "words"), UNMET)
def test_an_expectation_that_does_not_hold_fails(expected: Expect, words: str) -> None:
    with pytest.raises(ScenarioFailed, match="request 1: ") as found, simulate([[expected, "Hi."]]) as model:
        assert asked_once(model) == 400
    assert words in str(found.value)


def test_an_expectation_that_holds_is_not_seen() -> None:
    holds = Expect(last="?", model="gpt-4.1", messages=1, where=lambda request: not request.tools)
    with simulate([[holds, "Hi."]]) as model:
        assert asked_once(model) == 200
        assert model.problems == []


FILE = """
turns:
  - expect: {last: weather}
    thinking: I look it up.
    text: One moment.
    calls:
      - get_weather: {city: Tokyo}
      - {name: get_time, arguments: {}, id: call_9}
    usage: {input_tokens: 3, output_tokens: 4}
  - error: {status: 429, message: Slow down., retry_after: 2}
  - error: overloaded
  - - wait: 0.5
    - pace: 0.1
    - text: Half
    - cut: {events: 2}
  - raw: "data: [DONE]"
    finish: length
by: round
repeat: true
"""


def test_a_file_says_the_same_as_steps(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(FILE)
    turns, said = read_file(file)
    assert said == {"by": "round", "repeat": True}
    assert turns[0] == [
        Expect(last="weather"),
        Thinking(text="I look it up."),
        Text(text="One moment."),
        ToolCall(None, "get_weather", {"city": "Tokyo"}),
        ToolCall("call_9", "get_time", {}),
        Usage(3, 4),
    ]
    assert turns[1] == [Fail(Error("rate_limit", "Slow down.", 429), 2.0)]
    assert turns[2] == [Fail(Error("overloaded", "The scenario says overloaded."))]
    assert turns[3][:3] == [Wait(0.5), Pace(0.1), Text(text="Half")]
    assert turns[4] == [Raw(b"data: [DONE]"), Finish("length")]
    assert Scenario.of(file).by == "round"


def test_a_file_is_played(tmp_path: Path) -> None:
    file = tmp_path / "scenario.json"
    file.write_text('[{"text": "From a file."}, {"refusal": "No."}]')
    with simulate(str(file)) as model:
        assert ASKERS["anthropic"](model.url) == "From a file."
        chat = send(model.url, "openai-chat", BODIES["openai-chat"]).body
        assert chat["choices"][0]["message"]["refusal"] == "No."


BAD_FILES: list[tuple[str, str]] = [
    ("- txt: Hi", "bad.yaml:1:3: turns[0].txt: is not a step; known: expect, wait,"),
    ("- text: Hi\n  wait: soon", "bad.yaml:2:3: turns[0].wait: must be a number of seconds, not 'soon'"),
    ("turns: 5", "bad.yaml:1:1: turns: must be a list, not 5"),
    (
        "turns: []\nrepaet: true",
        "bad.yaml:2:1: scenario.repaet: is not a key here; known: by, complete, repeat, turns",
    ),
    ("- finish: done", "must be one of stop, length,"),
    ("- error: {kind: broken}", "must be one of invalid_request,"),
    ("- error: 200", "must be a status of an error, not 200"),
    ("- error: {headers: {a: 1}}", "turns[0].error: cannot be used: Expected `str`, got `int` - at `$.headers[...]`"),
    ("- error: [429]", "must be one of invalid_request,"),
    ("- raw: {data: x, status: no}", "turns[0].raw: cannot be used: Expected `int`, got `str` - at `$.status`"),
    (
        "- raw: {data: x, content_type: 5}",
        "turns[0].raw: cannot be used: Expected `str | null`, got `int` - at `$.content_type`",
    ),
    ("- expect: {last: 5}", "turns[0].expect: cannot be used: Expected `str | null`, got `int` - at `$.last`"),
    ("- expect: {tools: bash}", "turns[0].expect: cannot be used: Expected `array | null`, got `str` - at `$.tools`"),
    ("- expect: {where: here}", "turns[0].expect: cannot be used: Expected `Callable`, got `str` - at `$.where`"),
    ("- call: {name: f, args: {}}", "turns[0].call.args: is not a key here; known: arguments, id, name"),
    ("- calls: [f]", "turns[0].calls[0]: must be a map: a name with arguments"),
    ("- raw: {base64: '*'}", "turns[0].raw.base64: is not base64"),
    ("", "is empty"),
    ("- text: [", "is not YAML"),
]


@pytest.mark.parametrize(("text", "words"), BAD_FILES)
def test_a_file_that_cannot_be_read_says_where(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(DeclarationError) as found:
        simulate(tmp_path / "bad.yaml")
    assert words in str(found.value)


@pytest.mark.parametrize("scenario", [5, [5], [{"text": 5}], [[object()]], "scenario.txt", "missing.yaml"])
def test_what_is_no_scenario_is_refused(scenario: Any) -> None:
    with pytest.raises((InvalidField, DeclarationError)):
        simulate(scenario)


def test_steps_are_read_in_the_order_in_which_they_are_written() -> None:
    assert steps_of({"text": "a", "wait": 1, "refusal": "b"}, "") == [
        Text(text="a"),
        Wait(1.0),
        Refusal(text="b"),
    ]


@pytest.mark.parametrize(
    ("status", "kind"), [(429, "rate_limit"), (500, "server"), (401, "authentication"), (418, "invalid_request")]
)
def test_a_status_is_an_error_of_its_kind(status: int, kind: Any) -> None:
    assert Fail(status) == Fail(Error(kind, f"The scenario says {kind}.", status))
    assert steps_of({"error": status}, "") == [Fail(status)]
    with simulate([Fail(status)]) as model, pytest.raises(ProviderError) as found:
        generate("?", "openai", "m", base_url=model.url, api_key="any", retries=1)
    assert (found.value.status, found.value.error.kind) == (status, kind)


@pytest.mark.parametrize("wrong", ["429", None, 4.5])
def test_what_is_no_error_is_refused_where_it_is_passed(wrong: Any) -> None:
    with pytest.raises(InvalidField, match="Fail: error must be an Error or a status"):
        Fail(wrong)
