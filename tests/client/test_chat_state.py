"""`toolwire.conversation` and `toolwire.aio.conversation`: one history, whatever answers it, and nothing lost of it."""

import asyncio
import stat
from pathlib import Path
from typing import Any, Self

import pytest

import toolwire
from tests.client.faces import DIALECTS, FACES, KEY, TOKYO, awaited, get_weather, options_at
from toolwire import (
    Cancel,
    Context,
    Conversation,
    Done,
    Image,
    Message,
    ProviderError,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    ToolResult,
    aio,
)
from toolwire.client.saving import save
from toolwire.errors import InvalidBody, InvalidField, UserError
from toolwire.testing import Cut, Expect, Fail, Wait, simulate
from toolwire.types import Error, Usage

ANN = Expect(where=lambda request: next(one for one in request.messages if one.role == "user").text == "I am Ann.")


class Chat:
    """A conversation behind one face: the same calls, awaited where they have to be."""

    def __init__(self, face: str, *arguments: Any, **settings: Any) -> None:
        self.loop = asyncio.new_event_loop() if face == "async" else None
        self.chat: Any = (aio if self.loop else toolwire).conversation(*arguments, **settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self.settled(self.chat.close())
        if self.loop is not None:
            self.loop.close()

    def settled(self, value: Any) -> Any:
        return self.loop.run_until_complete(value) if self.loop is not None and asyncio.iscoroutine(value) else value

    def ask(self, *arguments: Any, **settings: Any) -> Any:
        return self.settled(self.chat.ask(*arguments, **settings))

    def items(self, *arguments: Any, **settings: Any) -> list[Any]:
        stream = self.chat.stream(*arguments, **settings)
        if self.loop is None:
            return list(stream)

        async def collected() -> list[Any]:
            return [item async for item in stream]

        items: list[Any] = self.loop.run_until_complete(collected())
        return items

    def texts(self) -> list[tuple[str, str]]:
        return [(message.role, message.text) for message in self.chat.history]


def server_at(model: Any, provider: str = "openai") -> dict[str, Any]:
    return options_at(provider, model.url)


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
def test_each_question_is_asked_with_all_that_was_said(name: str, face: str, *, shown: bool) -> None:
    usages = [Usage(input_tokens=10, output_tokens=5)] * 3
    turns: list[Any] = [[TOKYO, usages[0]], [ANN, "25 degrees, Ann.", usages[1]], [ANN, "You are Ann.", usages[2]]]
    with (
        simulate(turns, api_key=KEY) as model,
        Chat(face, name, "m", system="Be brief.", tools=[get_weather], **server_at(model, name)) as chat,
    ):
        for question, answer in (("I am Ann.", "25 degrees, Ann."), ("Who am I?", "You are Ann.")):
            if shown:
                *items, done = chat.items(question)
                assert "".join(item.text for item in items if isinstance(item, TextDelta)) == answer
                assert isinstance(done, Done)
            else:
                assert chat.ask(question).content == answer
        assert chat.texts() == [
            ("user", "I am Ann."),
            ("assistant", ""),
            ("tool", "25 degrees in Tokyo"),
            ("assistant", "25 degrees, Ann."),
            ("user", "Who am I?"),
            ("assistant", "You are Ann."),
        ]
        assert (chat.chat.usage.input_tokens, chat.chat.usage.output_tokens) == (30, 15)
    assert ["Be brief." in str(request.body) for request in model.requests] == [True] * 3
    assert all("get_weather" in str(request.body) for request in model.requests)


def test_a_cost_is_the_sum_of_the_known_costs() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=0)
    with (
        simulate([["One.", usage], ["Two.", usage], ["Three.", usage]]) as model,
        toolwire.conversation("openai/gpt-4o", **server_at(model)) as chat,
    ):
        assert chat.cost is None
        first = chat.ask("1?").cost
        assert first is not None
        assert first > 0
        assert chat.ask("2?", model="a-model-without-a-price").cost is None
        assert chat.cost == first
        chat.ask("3?")
        assert chat.cost == pytest.approx(2 * first)
        assert chat.usage is not None
        assert chat.usage.input_tokens == 3_000_000


@pytest.mark.parametrize("face", FACES)
def test_a_value_of_a_type_ends_a_question_and_not_the_conversation(face: str) -> None:
    turns = ["It is warm.", '{"value": 25}', [Expect(where=lambda request: len(request.messages) == 5), "Yes."]]
    with simulate(turns) as model, Chat(face, "openai/gpt-4o", **server_at(model)) as chat:
        chat.ask("How warm is it?")
        assert chat.ask("In numbers?", output=int).output == 25
        done = chat.ask("Really?")
        assert (done.content, done.output) == ("Yes.", None)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "turn", [[Fail(Error("authentication", "Who are you?", 401))], [Fail(Error("overloaded", "Later.", 529))]]
)
def test_a_question_that_failed_can_be_asked_again(face: str, turn: list[Any]) -> None:
    options = {"retries": 1, **options_at("openai", "")}
    with simulate(["Hello.", turn, [Expect(where=lambda request: len(request.messages) == 3), "Better."]]) as model:
        options["base_url"] = model.url
        with Chat(face, "openai/gpt-4o", **options) as chat:
            chat.ask("Hi.")
            before = list(chat.chat.history)
            with pytest.raises(ProviderError):
                chat.ask("How are you?")
            with pytest.raises(ProviderError) if turn == [] else pytest.raises(InvalidField):
                chat.ask("How?", temprature=1)
            assert chat.chat.history == before
            assert chat.ask("How are you?").content == "Better."


@pytest.mark.parametrize("face", FACES)
def test_an_answer_that_broke_off_is_in_the_history_as_far_as_it_came(face: str) -> None:
    with (
        simulate([["It is ", Cut()], "warm."]) as model,
        Chat(face, "openai/gpt-4o", retries=1, **server_at(model)) as chat,
    ):
        *_, done = chat.items("How is it?")
        assert done.ending == "error"
        assert chat.texts() == [("user", "How is it?"), ("assistant", "It is ")]
        assert chat.ask().content == "warm."
        assert chat.texts()[-1] == ("assistant", "warm.")


def test_an_answer_that_was_stopped_is_in_the_history_as_far_as_it_came() -> None:
    with (
        simulate([["It is ", Wait(30), "warm."], "warm."]) as model,
        toolwire.conversation("openai/gpt-4o", **server_at(model)) as chat,
    ):
        with chat.stream("How is it?") as stream:
            assert next(iter(stream)) == TextDelta(0, "It ")
            assert chat.history == []
        assert [message.text for message in chat.history] == ["How is it?", "It "]
        stop = Cancel()
        stop()
        assert chat.ask("And now?", cancel=stop).ending == "cancelled"
        assert len(chat.history) == 2, "nothing was answered"
        assert chat.ask("And now?").content == "warm."


@pytest.mark.parametrize("face", FACES)
def test_calls_that_the_caller_runs_are_answered_in_the_next_question(face: str) -> None:
    turns: list[Any] = [
        [ToolCall("c1", "get_weather", {"city": "Oslo"})],
        [Expect(results={"get_weather": "cold"}), "Cold."],
    ]
    with (
        simulate(turns) as model,
        Chat(face, "anthropic/claude-sonnet-5-5", tools=[get_weather], **server_at(model, "anthropic")) as chat,
    ):
        [call] = chat.ask("Oslo?", auto_tools=False).calls
        assert chat.ask(ToolResult(call.id, call.name, "cold")).content == "Cold."


def test_two_questions_at_once_are_refused() -> None:
    with (
        simulate([["It is ", Wait(0.3), "warm."], "Yes."]) as model,
        toolwire.conversation("openai/gpt-4o", **server_at(model)) as chat,
    ):
        with chat.stream("How is it?") as stream:
            next(iter(stream))
            with pytest.raises(UserError, match=r"waits for an answer already.*fork"):
                chat.ask("And now?")
            with pytest.raises(UserError, match="waits for an answer"):
                list(chat.stream("And now?"))
            stream.collect()
        assert len(chat.history) == 2
        chat.ask("Really?")
        assert len(chat.history) == 4


def test_a_stream_that_nobody_reads_changes_nothing() -> None:
    with simulate(["Hello."]) as model, toolwire.conversation("openai/gpt-4o", **server_at(model)) as chat:
        chat.stream("Never read.")
        assert chat.ask("Hi.").content == "Hello."
        assert [message.text for message in chat.history] == ["Hi.", "Hello."]


@pytest.mark.parametrize("face", FACES)
def test_another_provider_continues_and_what_it_cannot_have_is_reported(face: str) -> None:
    turns: list[Any] = [
        [Thinking("I think.", signature="sig"), "Hello, Ann."],
        [ANN, "You are Ann."],
        [ANN, "Still Ann."],
    ]
    with (
        simulate(turns, api_key=KEY) as model,
        Chat(face, "anthropic/claude-sonnet-5-5", **server_at(model, "anthropic")) as chat,
    ):
        chat.ask("I am Ann.")
        assert [loss for loss in chat.chat.losses if loss.severity != "formal"] == []
        chat.chat.switch("gemini/gemini-3.5-flash", **server_at(model, "gemini"))
        assert chat.ask("Who am I?").content == "You are Ann."
        assert any("thinking" in loss.concept for loss in chat.chat.losses)
        assert "gemini" in repr(chat.chat)
        chat.chat.switch("other-model")
        chat.ask("And now?")
    assert [request.path.partition(":")[0] for request in model.requests] == [
        "/v1/messages",
        "/v1beta/models/gemini-3.5-flash",
        "/v1beta/models/other-model",
    ]


def test_one_question_can_go_to_another_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulate(["Hello.", "From there.", "Back."], api_key=KEY) as model:
        monkeypatch.setenv("OLLAMA_HOST", "")
        elsewhere = {"name": "ollama", "base_url": model.url, "api_key": KEY}
        with toolwire.conversation("openai/gpt-4o", **server_at(model)) as chat:
            chat.ask("Hi.")
            twin = chat.fork(elsewhere, "qwen3")
            assert twin.ask("And there?").content == "From there."
            assert len(chat.history) == 2
            chat.ask("Here?", model="gpt-4o-mini")
    assert [request.path for request in model.requests] == ["/v1/chat/completions", "/api/chat", "/v1/chat/completions"]
    assert model.requests[-1].body["model"] == "gpt-4o-mini"


def test_a_model_of_another_provider_is_asked_there() -> None:
    chat = toolwire.conversation("openai/gpt-4o", api_key="any", timeouts=7.0)
    client, settings = chat._prepare({"model": "anthropic/claude-sonnet-5-5"})
    assert (client.provider.name, client.model, settings.get("model")) == ("anthropic", "claude-sonnet-5-5", None)
    assert (client.transport, client.upstream.timeouts) == (chat.client.transport, chat.client.upstream.timeouts)
    for model in ("gpt-4o-mini", "openai/gpt-4o-mini", "any-name"):
        same, _ = chat._prepare({"model": model})
        assert same is chat.client
    chat.close()


def test_a_name_alone_is_a_model_at_the_same_address() -> None:
    chat = toolwire.conversation("openai", "a", base_url="http://localhost:1/v1", api_key="mine")
    for name in ("gpt-4o", "openai/gpt-4o", "openai:gpt-4o"):
        chat.switch(name)
        assert (chat.model, chat.client.provider.base_url, chat.client.provider.api_key) == (
            "gpt-4o",
            "http://localhost:1/v1",
            "mine",
        )
    chat.switch("anthropic", "claude-sonnet-5-5")
    assert chat.client.provider.name == "anthropic"
    with pytest.raises(UserError, match="unknown provider"):
        chat.switch("antropic", "m")
    chat.close()


def test_a_fork_changes_neither() -> None:
    with (
        simulate(["Hello.", "Left.", "Right."]) as model,
        toolwire.conversation("openai/gpt-4o", system="Be brief.", **server_at(model)) as chat,
    ):
        chat.ask("Hi.")
        with chat.fork() as twin:
            assert twin.ask("Left?").content == "Left."
        assert chat.ask("Right?").content == "Right.", "the fork has not closed the client"
        assert twin.system == "Be brief."
        assert [message.text for message in twin.history][2:] == ["Left?", "Left."]
        assert [message.text for message in chat.history][2:] == ["Right?", "Right."]


@pytest.mark.parametrize("face", FACES)
def test_what_is_saved_goes_on_where_it_is_loaded(tmp_path: Path, face: str) -> None:
    file = tmp_path / "ann.json"
    usage = Usage(input_tokens=10, output_tokens=5)
    picture = Image(data="aGk=", media_type="image/png")
    with (
        simulate([["Hello, Ann.", usage], [ANN, "You are Ann.", usage]], api_key=KEY) as model,
        Chat(face, "openai/gpt-4o", system="Be brief.", top_k=5, **server_at(model)) as chat,
    ):
        chat.ask([Message("I am Ann."), Message("user", [Text("Me:"), picture])])
        chat.settled(chat.chat.save(file))
        assert KEY not in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [path.name for path in tmp_path.iterdir()] == ["ann.json"]
        load = (aio if face == "async" else toolwire).conversation.load
        loaded = chat.settled(load(file, **server_at(model)))
        assert (loaded.history, loaded.system, loaded.model) == (chat.chat.history, "Be brief.", "gpt-4o")
        assert (loaded.usage, loaded.cost, loaded.losses) == (chat.chat.usage, chat.chat.cost, chat.chat.losses)
        assert chat.settled(loaded.ask("Who am I?")).content == "You are Ann."
        assert loaded.usage.input_tokens == 20
        chat.settled(loaded.close())
    assert "Be brief." in str(model.requests[-1].body)


def test_it_is_loaded_for_another_provider_too(tmp_path: Path) -> None:
    file = tmp_path / "saved.json"
    file.write_text(
        save(Context("Be brief.", ["Hi."], provider_state={"previous_response_id": "r1"}), "openai-responses", "m")
    )
    chat = Conversation.load(file, "ollama/qwen3", system="Be long.", messages=["And now?"])
    assert (chat.client.provider.name, chat.model, chat.system) == ("ollama", "qwen3", "Be long.")
    assert [message.text for message in chat.history] == ["Hi.", "And now?"]
    assert [loss.path for loss in chat.losses] == ["provider_state.previous_response_id"]
    chat.close()


def test_what_is_no_conversation_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "odd.json"
    for text, error in (("{", InvalidBody), ("[]", InvalidField), ('{"context": 3}', InvalidField)):
        file.write_text(text)
        with pytest.raises(error):
            Conversation.load(file)
    with pytest.raises(FileNotFoundError):
        Conversation.load(tmp_path / "none.json")
    chat = toolwire.conversation("ollama/qwen3")
    chat.history = [Message("assistant", [ToolCall("c", "f", {"a": float("nan")})])]
    file.write_text("kept")
    with pytest.raises(InvalidField, match=r"context\.messages\[0\]"):
        chat.save(file)
    assert file.read_text() == "kept"


@pytest.mark.parametrize("face", FACES)
def test_a_client_that_is_lent_stays_open(face: str) -> None:
    with simulate(["One.", "Two."]) as model:
        if face == "sync":
            with toolwire.Client("openai", "gpt-4o", **server_at(model)) as client:
                with client.conversation(system="Be brief.", max_tokens=9) as chat:
                    chat.ask("1?")
                assert client.run("2?").content == "Two."
        else:

            async def main() -> Any:
                async with aio.Client("openai", "gpt-4o", **server_at(model)) as lent:
                    async with lent.conversation(system="Be brief.", max_tokens=9) as chat:
                        await chat.ask("1?")
                    return await lent.run("2?")

            assert awaited(main()).content == "Two."
    assert ["max_completion_tokens" in (request.body or {}) for request in model.requests] == [True, False]


def test_what_cannot_be_is_refused_with_what_would_be_right() -> None:
    with toolwire.Client("ollama", "m") as client:
        with pytest.raises(UserError, match=r"toolwire\.aio\.conversation a toolwire\.aio\.Client"):
            aio.conversation(client)  # type: ignore[arg-type]
        with pytest.raises(UserError, match="api_key is an option of the client"):
            client.conversation(api_key="x")
    with pytest.raises(UserError, match="unknown provider"):
        toolwire.conversation("no-such/model")
    chat = toolwire.conversation("ollama/m", temprature=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidField, match="temperature"):
        chat.ask("Hi.")


def test_an_iterator_of_tools_serves_each_question() -> None:
    with (
        simulate([[TOKYO], "Warm.", [TOKYO], "Warm."]) as model,
        toolwire.conversation("openai/m", tools=iter([get_weather]), **server_at(model)) as chat,
    ):
        assert [chat.ask("Tokyo?").turns, chat.ask("Again?").turns] == [2, 2]
