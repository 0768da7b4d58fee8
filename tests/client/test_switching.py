"""What somebody who comes from another library wants to find: the checklists, one test for each line.

Rule: a line that a test elsewhere shows in depth is shown here in short, so that each can be read and run.
"""

import sys
from typing import Any

import pytest

from tests.client.faces import DIALECTS, FACES, KEY, RUN, TOKYO, chat, get_weather, lead, options_at
from toolwire import (
    CodeTools,
    Context,
    LLMFactory,
    LLMResponse,
    Message,
    Response,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    catalogue,
    codec,
    cost,
    tool_loop,
    traces,
)
from toolwire.client import sync
from toolwire.client.exchange import Retries
from toolwire.client.failures import AllFailed, AuthenticationFailed, ProviderError, RateLimited
from toolwire.errors import InvalidField, UnknownDialect
from toolwire.loop import AskModel, Done, LoopLimits, RunTools
from toolwire.testing import Expect, Fail, Finish, Wait, simulate
from toolwire.types import Error, Request

WEATHER = get_weather.to_openai_format()
ONCE = Retries(attempts=1)


class TestFromACodec:
    """Who comes from a codec with a loop."""

    @pytest.mark.row("4.1.1")
    def test_three_operations_by_the_names_of_providers(self) -> None:
        ping = Tool("ping", "Ping", {"type": "object"})
        nested = {"name": "ping", "description": "Ping", "parameters": {"type": "object", "properties": {}}}
        assert codec.encode_definitions([ping], "openai") == [{"type": "function", "function": nested}]
        assert codec.encode_definitions([ping], "anthropic") == [
            {"name": "ping", "description": "Ping", "input_schema": {"type": "object"}}
        ]
        result = ToolResult("call_1", "ping", "pong")
        assert codec.encode_result(result, "openai") == {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": "pong",
        }
        assert codec.encode_result(result, "ollama") == {"role": "tool", "content": "pong"}
        with pytest.raises(UnknownDialect, match="openai-chat"):
            codec.encode_result(result, "opnai")

    @pytest.mark.row("4.1.2")
    def test_a_body_without_calls_has_none_and_an_absent_id_is_none(self) -> None:
        for provider in ("openai", "anthropic", "ollama", "gemini", "openai-responses"):
            bodies: list[Any] = [
                {},
                {"choices": []},
                {"message": {"content": "Hi"}},
                {"content": "Hi"},
                None,
                [],
            ]
            for body in bodies:
                assert codec.decode_tool_calls(body, provider) == []
        said = {"message": {"tool_calls": [{"function": {"name": "ping", "arguments": {}}}]}}
        assert [(call.id, call.name) for call in codec.decode_tool_calls(said, "ollama")] == [(None, "ping")]

    @pytest.mark.row("4.1.3")
    def test_other_providers_have_the_same_three_operations(self) -> None:
        for provider in ("gemini", "openai-responses"):
            assert "ping" in str(codec.encode_definitions([Tool("ping", "Ping", {"type": "object"})], provider))
            assert "pong" in str(codec.encode_result(ToolResult("call_1", "ping", "pong"), provider))
        said = {"output": [{"type": "function_call", "call_id": "c", "name": "ping", "arguments": "{}"}]}
        assert [call.id for call in codec.decode_tool_calls(said, "openai-responses")] == ["c"]

    @pytest.mark.parametrize("face", FACES)
    @pytest.mark.row("4.1.4", "R004-25", "R004-27")
    def test_arguments_that_are_none_are_said_and_nothing_is_run(self, face: str) -> None:
        RUN.clear()
        broken = ToolCall("call_1", "get_weather", raw='{"city": ', error="it is no JSON")
        wrong = ToolCall("call_2", "get_weather", {"town": "Oz"})
        with simulate([[broken, wrong], [Expect(results={"get_weather": "invalid arguments"}), "Sorry."]]) as model:
            done = lead(face, "openai", model.url, "?", tools=[get_weather]).done
        assert (done.content, RUN) == ("Sorry.", [])
        results = [part for message in done.messages for part in message.parts if isinstance(part, ToolResult)]
        assert [result.is_error for result in results] == [True, True]

    @pytest.mark.parametrize("name", DIALECTS)
    @pytest.mark.row("4.1.5", "I13", "I15", "I-06")
    def test_calls_are_said_again_and_orphans_are_mended(self, name: str) -> None:
        """What others say was called is history, and is never run here."""
        RUN.clear()
        history = [
            Message("Weather?"),
            Message("assistant", [ToolCall("call_1", "get_weather", {"city": "Oslo"})]),
            Message("tool", "15 degrees", "get_weather", "call_1"),
            Message("assistant", [ToolCall("call_2", "get_weather", {"city": "Rome"})]),
            Message("tool", "of another session", "get_weather", "call_9"),
            Message("tool", "said twice", "get_weather", "call_1"),
            Message("Go on."),
        ]
        with simulate([["I go on."]]) as model:
            done = lead("sync", name, model.url, Context(None, history), tools=[get_weather]).done
        assert (done.content, RUN, model.requests[0].refused) == ("I go on.", [], None)
        sent = str(model.requests[0].body)
        assert "15 degrees" in sent
        assert sent.count("[result of get_weather] of another session") == 1, "words of the user, no result"
        assert sent.count("[result of get_weather] said twice") == 1
        assert any(loss.action == "repaired" for loss in done.losses)

    @pytest.mark.row("4.1.6", "I-18", "I-20", "I-21", "I-22")
    def test_the_loop_is_led_by_any_function_that_asks_a_model(self) -> None:
        def led(answers: list[Response], **said: Any) -> tuple[Done, list[AskModel]]:
            """Lead the loop by hand: `answers` stand for what a send function gives."""
            request = Request(context=Context(None, [Message("?")], [get_weather.tool]), model="m")
            loop, asked = tool_loop(request, **said), list[AskModel]()
            step = next(loop)
            while not isinstance(step, Done):
                if isinstance(step, AskModel):
                    asked.append(step)
                    step = loop.send(answers[len(asked) - 1])
                else:
                    assert isinstance(step, RunTools)
                    step = loop.send(
                        [ToolResult(call.id, call.name, "Error: no", is_error=True) for call in step.calls]
                    )
            return step, asked

        def calling(number: int) -> Response:
            call = ToolCall(f"c{number}", "get_weather", {"city": str(number)})
            return Response.of(Message("assistant", [call]), "tool_calls")

        calls = [calling(number) for number in range(30)]
        assert led(calls, limits=LoopLimits(turns=10, repeats=0))[0].ending == "limit"
        done, asked = led(calls)
        assert (done.ending, len(asked)) == ("no_progress", 3)
        assert "tool error repeated 3+ times" in done.reason
        done, _ = led(calls, terminal_tool="get_weather")
        assert (done.ending, done.calls[0].arguments) == ("terminal", {"city": "0"})
        done, asked = led([Response.of(Message("assistant", " "), "stop")] * 9)
        assert (done.ending, len(asked)) == ("error", 3)

    @pytest.mark.parametrize("face", FACES)
    @pytest.mark.row("4.1.6", "4.1.7")
    def test_each_step_and_each_call_is_told(self, face: str) -> None:
        """Iterations and what was done are events; traces have names, ids and times."""
        with simulate([[TOKYO], ["Done."]]) as model:
            led = lead(face, "openai", model.url, "?", tools=[get_weather])
        told = [event for event in led.told if isinstance(event, AskModel | RunTools | ToolResult | Done)]
        assert [type(event).__name__ for event in told] == [
            "AskModel",
            "RunTools",
            "ToolResult",
            "AskModel",
            "Done",
        ]
        assert [event.turn for event in told if isinstance(event, AskModel)] == [0, 1]
        [result] = [event for event in told if isinstance(event, ToolResult)]
        assert [call.id for event in told if isinstance(event, RunTools) for call in event.calls] == [
            result.tool_call_id
        ]

    @pytest.mark.row("4.1.7")
    def test_telemetry_has_durations_names_and_ids(self, tmp_path: Any) -> None:
        with traces.open(f"sqlite:///{tmp_path / 't.db'}") as store, simulate([[TOKYO], ["Done."]]) as model:
            done = lead("sync", "openai", model.url, "?", tools=[get_weather], traces=store).done
            [one] = store.traces().rows
        [call] = done.messages[0].tool_calls
        assert (one.tool_name, one.call_id) == ("get_weather", call.id)
        assert one.duration_ms >= 0


class TestFromAFactory:
    """Who comes from a factory of clients."""

    @pytest.mark.row("4.2.1", "R001-51")
    def test_a_declaration_in_openais_words_goes_in_and_comes_out(self) -> None:
        """A tool that runs offers it as well."""
        assert Tool.from_map(WEATHER).to_openai_format() == WEATHER == get_weather.tool.to_openai_format()
        for declared in CodeTools(".").available_tools():
            assert declared.to_openai_format()["function"]["name"] == declared.name

    @pytest.mark.row("4.2.2")
    def test_a_client_is_made_by_its_name(self) -> None:
        """The server of each is its own; tests/clients/test_factory.py runs the seed's test."""
        made = {name: LLMFactory.create(name) for name in ("openai", "anthropic", "ollama", "gpt-4o", "Sonnet 4.5")}
        assert [client.provider.name for client in made.values()] == [
            "openai",
            "anthropic",
            "ollama-v1",
            "openai",
            "anthropic",
        ]
        assert all(callable(client.chat) for client in made.values())

    @pytest.mark.parametrize("name", DIALECTS)
    @pytest.mark.row("R001-53", "R001-54", "I-23", "I-29", "4.2.3")
    def test_an_answer_says_what_it_is_on_every_provider(self, name: str) -> None:
        with simulate([[TOKYO, Usage(3, 4)], ["Warm."], ["Wa", Finish("length")]]) as model:
            called, said, cut = (chat("sync", name, model.url, "?", tools=[WEATHER]) for _ in range(3))
        assert isinstance(called, LLMResponse)
        assert (called.content, called.finish_reason, called.has_tool_calls()) == (None, "tool_calls", True)
        assert [type(call.arguments) for call in called.tool_calls] == [dict]
        assert called.usage is not None
        assert called.usage["total_tokens"] == 7
        finals = [one.is_final_answer() for one in (called, said, cut)]
        assert finals == [False, True, False]
        assert (said.content, said.tool_calls, said.finish_reason, bool(said.model)) == (
            "Warm.",
            [],
            "stop",
            True,
        )

    @pytest.mark.parametrize("name", DIALECTS)
    @pytest.mark.row("4.2.4", "R001-06", "R001-12")
    def test_a_tool_choice_holds_on_every_provider(self, name: str) -> None:
        """The forms on the wire are in test_conversations.py."""
        forms: list[Any] = [
            "auto",
            "none",
            "required",
            {"type": "function", "function": {"name": "get_weather"}},
        ]
        for form in forms:
            with simulate([["No."] if form == "none" else [TOKYO]]) as model:
                response = chat("sync", name, model.url, "?", tools=[WEATHER], tool_choice=form)
            assert response.has_tool_calls() is (form != "none")
        with pytest.raises(InvalidField, match="tool_choice"):
            chat("sync", name, "http://127.0.0.1:9", "?", tools=[WEATHER], tool_choice=3)

    @pytest.mark.row("4.2.5", "R001-50")
    def test_prices_are_dated_and_can_be_said_otherwise(self) -> None:
        usage = Usage(1_000_000, 1_000_000)
        assert cost(usage, "gpt-4o") == 12.5
        assert cost(usage, "nobody-knows-it") is None
        known = catalogue.model("gpt-4o")
        assert known is not None
        assert known.price is not None
        assert known.price.as_of == "January 2025"
        mine = catalogue.built_in().with_models({"gpt-4o": {"price": {"input": 1, "output": 2}}})
        assert mine.cost(usage, "gpt-4o") == 3.0

    @pytest.mark.row("4.2.6", "R001-29")
    def test_nothing_is_asked_on_standard_input_and_nothing_is_fetched(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def never(*_given: Any) -> str:
            raise AssertionError("somebody read from standard input")

        monkeypatch.setattr("builtins.input", never)
        monkeypatch.setattr(sys, "stdin", None)
        with LLMFactory.create("ollama") as client:
            assert (client.provider.base_url, client.provider.key) == ("http://localhost:11434/v1", "ollama")
        missing = Fail(Error("not_found", "model 'm' not found, try pulling it first"))
        with simulate([[missing]]) as model, pytest.raises(ProviderError, match="try pulling it first"):
            lead("sync", "ollama-v1", model.url, "?", options={"retries": ONCE})
        assert [received.path for received in model.requests] == ["/v1/chat/completions"]

    @pytest.mark.parametrize("shown", [False, True])
    @pytest.mark.row("4.2.7", "R001-22", "R003-49")
    def test_thinking_is_kept_and_said_again_to_who_thought_it(self, shown: bool) -> None:
        """Clearing is in tests/test_clearing.py."""
        with simulate([[Thinking("I look."), TOKYO], ["Warm."]]) as model:
            done = lead("sync", "anthropic", model.url, "?", shown=shown, tools=[get_weather]).done
        [thought] = [block for block in model.requests[1].body["messages"][1]["content"] if block["type"] == "thinking"]
        assert (thought["thinking"], bool(thought["signature"])) == ("I look.", True)
        assert done.ending == "answer"

    @pytest.mark.row("4.2.8", "I-24", "I-26")
    def test_the_next_of_several_is_asked_and_errors_have_classes(self) -> None:
        with simulate([], api_key="right") as one, simulate([["Hi."]], api_key=KEY) as other:
            given = [
                {"name": "anthropic", "base_url": one.url, "api_key": "wrong", "default_model": "a"},
                {"name": "openai", "base_url": other.url, "api_key": KEY, "default_model": "b"},
            ]
            with sync.Client(given) as client:
                assert client.chat("?").content == "Hi."
            with sync.Client(given[:1]) as client, pytest.raises(AuthenticationFailed):
                client.chat("?")
            with sync.Client([given[0], given[0]]) as client, pytest.raises(AllFailed, match="anthropic: "):
                client.chat("?")
        assert all(issubclass(kind, ProviderError) for kind in (AuthenticationFailed, RateLimited))

    @pytest.mark.row("4.2.8")
    def test_who_approves_sees_what_would_change(self, tmp_path: Any) -> None:
        """The question of a tool that writes shows the change."""
        (tmp_path / "a.txt").write_text("one\n")
        shown: list[str] = []

        def ask(_call: ToolCall, preview: str) -> bool:
            shown.append(preview)
            return False

        edit = ToolCall(None, "edit_file", {"path": "a.txt", "old_text": "one", "new_text": "two"})
        with simulate([[edit], ["Done."]]) as model:
            lead("sync", "openai", model.url, "?", tools=CodeTools(tmp_path), approve=ask)
        assert "- 1 one" in shown[0]
        assert "+ 1 two" in shown[0]
        assert (tmp_path / "a.txt").read_text() == "one\n"


def test_the_next_of_several_has_the_same_tools_and_the_time_that_is_left() -> None:
    given: list[Any]
    with simulate([[Fail(Error("invalid_request", "No."))]]) as one, simulate([[TOKYO], ["Warm."]]) as other:
        given = [("openai", options_at("openai", model.url)) for model in (one, other)]
        with sync.Client(given, "m") as client:
            assert client.run("?", tools=iter([get_weather])).message.text == "Warm."
    declared = [[tool["function"]["name"] for tool in each.body["tools"]] for each in other.requests]
    assert declared == [["get_weather"]] * 2

    with simulate([[Wait(0.4), Fail(Error("invalid_request", "No."))]]) as one, simulate([[Wait(5), "Warm."]]) as other:
        given = [("openai", options_at("openai", model.url)) for model in (one, other)]
        with sync.Client(given, "m") as client:
            done = client.run("?", limits={"seconds": 0.7})
    assert done.ending == "budget"
    assert done.reason == "0.7 of 0.7 seconds have passed"
