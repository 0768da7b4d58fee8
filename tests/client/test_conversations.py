"""Conversations over real sockets: every provider, both faces, streaming and not."""

from pathlib import Path
from typing import Any

import pytest

from tests.client.faces import (
    COMPATIBLE,
    DIALECTS,
    FACES,
    KEY,
    RUN,
    TOKYO,
    awaited,
    chat,
    get_weather,
    lead,
    legal,
    options_at,
)
from toolwire import (
    AgentResolver,
    CodeTools,
    Context,
    Message,
    TextDelta,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    aio,
    session_tools,
)
from toolwire.client import sync
from toolwire.loop import Done, LoopLimits
from toolwire.testing import Expect, simulate

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tell the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", [*DIALECTS, *COMPATIBLE])
@pytest.mark.row("R001-62", "R003-01", "R003-09", "R003-10", "R003-43")
def test_a_tool_is_run_and_the_model_answers(name: str, face: str, shown: bool) -> None:
    RUN.clear()
    script = [
        ["I look.", TOKYO, Expect(last="Tokyo?", tools=["get_weather"], system="Be brief.")],
        [Expect(results={"get_weather": "25 degrees in Tokyo"}), "It is 25 degrees."],
    ]
    with simulate(script, api_key=KEY) as model:
        led = lead(face, name, model.url, "Weather in Tokyo?", shown=shown, tools=[get_weather], system="Be brief.")
    done = led.done
    assert RUN == ["Tokyo"]
    assert (done.ending, done.turns, done.message.content) == ("answer", 2, "It is 25 degrees.")
    assert (done.content, done.finish_reason, done.tool_calls) == ("It is 25 degrees.", "stop", [])
    assert done.usage.total_tokens > 0
    assert [message.role for message in done.messages] == ["assistant", "tool", "assistant"]
    assert legal(done.messages)
    assert led.told[-1] == done
    if shown:
        kinds = [type(item) for item in led.items if type(item) is not TextDelta]
        assert kinds == [ToolCall, ToolResult, Done]
        words = "".join(item.text for item in led.items if type(item) is TextDelta)
        assert words == "I look.It is 25 degrees."
    assert {received.request.stream for received in model.requests if received.request} <= {shown, None}
    assert all(received.dialect == model.requests[0].dialect for received in model.requests)


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("R003-44")
def test_without_auto_tools_nothing_is_run(name: str, face: str) -> None:
    RUN.clear()
    with simulate([["I look.", TOKYO]], api_key=KEY) as model:
        led = lead(face, name, model.url, "?", shown=True, tools=[get_weather], auto_tools=False)
    [call] = [item for item in led.items if isinstance(item, ToolCall)]
    assert (call.name, call.arguments, call.complete, call.index) == (
        "get_weather",
        {"city": "Tokyo"},
        True,
        0,
    )
    assert RUN == []
    assert (led.done.ending, led.done.calls) == ("calls", [call])


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("R003-02", "R003-04")
def test_messages_come_before_the_prompt(name: str, face: str) -> None:
    given: Any = ["Hi", {"role": "assistant", "content": "Hello."}, Message("user", "I am Ann.")]
    with simulate([[Expect(messages=4, last="Who am I?"), "Ann."]], strict=True) as model:
        done = lead(face, name, model.url, "Who am I?", messages=given).done
    assert done.content == "Ann."
    sent = model.requests[0].request
    assert sent is not None
    assert [m.text for m in sent.messages] == ["Hi", "Hello.", "I am Ann.", "Who am I?"]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("R003-05", "R003-06")
def test_a_context_is_sent_as_it_is(name: str, face: str) -> None:
    tools = [Tool("get_weather", "Tell.", {"type": "object", "properties": {}})]
    context = Context("Be brief.", ["One", Message("assistant", "Two"), "Three"], tools)
    expected = Expect(system="Be brief.", last="Three", tools=["get_weather"])
    with simulate([[expected, "Four"]]) as model:
        assert lead(face, name, model.url, context).done.content == "Four"
    sent = model.requests[0].request
    assert sent is not None
    assert [m.text for m in sent.messages if m.role != "system"] == ["One", "Two", "Three"]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("R003-46")
def test_the_london_history_is_taken_by_every_provider(name: str) -> None:
    call = ToolCall("call_1", "get_weather", {"city": "London"})
    history = [
        Message("What's the weather in London?"),
        Message("assistant", [call]),
        Message("tool", "15 degrees, cloudy", "get_weather", "call_1"),
        Message("And tomorrow?"),
    ]
    expected = Expect(last="tomorrow?", results={"get_weather": "15 degrees"})
    with simulate([[expected, "Rain."]]) as model:
        assert chat("sync", name, model.url, history, tools=[WEATHER]).content == "Rain."
    assert model.requests[0].refused is None


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("R001-52")
def test_chat_is_one_round_in_the_spelling_of_openai(name: str, face: str) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather in Tokyo?"}]
    with simulate([[Expect(system="Be brief.", tools=["get_weather"]), TOKYO]]) as model:
        response = chat(face, name, model.url, messages, tools=[WEATHER])
    assert [(call.name, call.arguments) for call in response.tool_calls] == [("get_weather", {"city": "Tokyo"})]
    assert response.finish_reason == "tool_calls"
    assert response.model


CHOICES: dict[str, tuple[Any, ToolChoice]] = {
    "auto": ("auto", ToolChoice("auto")),
    "none": ("none", ToolChoice("none")),
    "required": ("required", ToolChoice("required")),
    "by name": ("get_weather", ToolChoice("required", ["get_weather"])),
    "as OpenAI says it": (
        {"type": "function", "function": {"name": "get_weather"}},
        ToolChoice("required", ["get_weather"]),
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", ["openai", "openai-responses", "anthropic", "gemini"])
@pytest.mark.row("R001-06", "R001-12")
def test_a_tool_choice_is_said_on_every_wire(name: str, choice: str) -> None:
    given, meant = CHOICES[choice]
    with simulate([[TOKYO if choice != "none" else "No."]]) as model:
        chat("sync", name, model.url, "?", tools=[WEATHER], tool_choice=given)
    sent = model.requests[0].request
    assert sent is not None
    assert sent.tool_choice == meant


@pytest.mark.parametrize("face", FACES)
def test_a_forced_choice_is_released_after_its_first_use(face: str) -> None:
    with simulate([[TOKYO], ["Done."]]) as model:
        done = lead(face, "openai", model.url, "?", tools=[get_weather], tool_choice="required").done
    assert done.ending == "answer"
    assert [r.body.get("tool_choice") for r in model.requests] == ["required", "auto"]


@pytest.mark.row("R003-45", "I-30")
class TestStream:
    """`next`, `collect`, `response`."""

    def test_of_sync_code(self) -> None:
        with simulate([[TOKYO], ["It is warm."]]) as model:
            stream = sync.stream("?", "anthropic", "m", tools=[get_weather], options=options_at("anthropic", model.url))
            assert stream.response is None
            items, rest = stream.next()
            assert isinstance(items[0], ToolCall)
            assert rest is stream
            done = stream.collect()
            assert done.content == "It is warm."
            assert stream.response is done.response
            assert stream.next() == ([], None)

    def test_of_async_code(self) -> None:
        async def main() -> None:
            stream = aio.stream("?", "anthropic", "m", tools=[get_weather], options=options_at("anthropic", model.url))
            assert stream.response is None
            items, rest = await stream.next()
            assert isinstance(items[0], ToolCall)
            assert rest is stream
            done = await stream.collect()
            assert done.content == "It is warm."
            assert stream.response is done.response
            assert await stream.next() == ([], None)

        with simulate([[TOKYO], ["It is warm."]]) as model:
            awaited(main())

    def test_leaving_a_loop_does_not_end_it(self) -> None:
        with simulate([["One, ", "two."]]) as model:
            stream = sync.stream("?", "openai", "m", options=options_at("openai", model.url))
            for item in stream:
                assert isinstance(item, TextDelta)
                break
            assert stream.collect().content == "One, two."


@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("J16")
def test_a_listener_that_fails_does_not_end_the_run(face: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_event: Any) -> None:
        raise RuntimeError("the screen is gone")

    with simulate([[TOKYO], ["Done."]]) as model:
        done = lead(face, "openai", model.url, "?", tools=[get_weather], on_event=fail).done
    assert done.ending == "answer"
    assert "on_event failed" in caplog.text
    assert "the screen is gone" in caplog.text


@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("R002-59", "R002-61", "R003-47")
def test_a_tool_that_fails_is_told_to_the_model(face: str) -> None:
    def broken(city: str) -> str:
        raise ValueError(f"no such city: {city}")

    expected = Expect(results={"broken": "no such city: Tokyo"})
    with simulate([[ToolCall(None, "broken", {"city": "Tokyo"})], [expected, "Sorry."]]) as model:
        done = lead(face, "anthropic", model.url, "?", tools=[broken]).done
    assert done.content == "Sorry."


@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("J1")
def test_a_run_is_bounded(face: str) -> None:
    with simulate(lambda _request, turn: [ToolCall(None, "get_weather", {"city": str(turn.number)})]) as model:
        done = lead(face, "openai", model.url, "?", tools=[get_weather], limits=LoopLimits(turns=4)).done
    assert (done.ending, done.turns, len(model.requests)) == ("limit", 4, 4)
    assert legal(done.messages)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("R003-56")
def test_a_model_nobody_knows_is_asked_for_as_it_is_written(name: str) -> None:
    with simulate([[Expect(model="claude-sonnet-9-20990101"), "Hi."]]) as model:
        assert lead("sync", name, model.url, "?", model="claude-sonnet-9-20990101").done.content == "Hi."


SEEDS = {
    "openai": ("gpt-4o", "openai-chat"),
    "anthropic": ("claude-sonnet-4", "anthropic"),
    "ollama-v1": ("llama3.1", "openai-chat"),
}
BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Execute a shell command",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}


@pytest.mark.parametrize("name", SEEDS)
@pytest.mark.row("R001-56", "R001-57", "R001-58", "R001-59")
def test_unified_tool_calling(name: str) -> None:
    """One declaration in OpenAI's words, three providers, the same answer."""
    from toolwire import Response

    model_name, wire = SEEDS[name]
    with (
        simulate([[ToolCall(None, "bash", {"command": "ls"})]]) as model,
        sync.Client(name, model_name, **options_at(name, model.url)) as llm,
    ):
        response = llm.chat(messages=[{"role": "user", "content": "List files"}], tools=[BASH])
    assert isinstance(response, Response)
    assert len(response.tool_calls) > 0
    assert response.tool_calls[0].name == "bash"
    assert response.tool_calls[0].arguments == {"command": "ls"}
    [received] = model.requests
    assert received.dialect == wire
    if wire == "openai-chat":
        assert received.body["tools"] == [BASH]
    else:
        [told] = received.body["tools"]
        assert told["input_schema"] == BASH["function"]["parameters"]  # type: ignore[index]
        assert "parameters" not in told


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("R003-01", "R003-43", "R003-37")
def test_the_second_request_has_the_prompt_the_words_the_call_and_its_result(name: str, face: str) -> None:
    with simulate([["Let me check.", TOKYO], ["It is 25 degrees."]]) as model:
        done = lead(face, name, model.url, "What's the weather in Tokyo?", tools=[get_weather]).done
    assert done.message.content == "It is 25 degrees."
    first, second = (received.request for received in model.requests)
    assert first is not None
    assert second is not None
    assert [(message.role, message.text) for message in first.messages] == [("user", "What's the weather in Tokyo?")]
    parts = [(message.role, part) for message in second.messages for part in message.parts]
    said = [(role, type(part).__name__) for role, part in parts]
    assert said == [("user", "Text"), ("assistant", "Text"), ("assistant", "ToolCall"), ("tool", "ToolResult")]
    [call, result] = [part for _, part in parts if isinstance(part, ToolCall | ToolResult)]
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert (call.arguments, result.content) == ({"city": "Tokyo"}, "25 degrees in Tokyo")
    if name != "ollama":
        assert (result.tool_call_id, result.name or call.name) == (call.id, call.name)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("R003-44", "R003-45")
def test_calls_are_picked_from_what_a_stream_gives_next(name: str) -> None:
    RUN.clear()
    with simulate([["I look.", TOKYO]]) as model:
        options = options_at(name, model.url)
        stream = sync.stream("Weather?", name, "m", tools=[get_weather], auto_tools=False, options=options)
        chunks, rest = stream.next()
        found = list(chunks)
        while rest is not None:
            assert rest is stream
            chunks, rest = stream.next()
            found += chunks
    calls = [chunk for chunk in found if isinstance(chunk, ToolCall) and chunk.complete]
    assert [(call.name, call.arguments, call.index) for call in calls] == [("get_weather", {"city": "Tokyo"}, 0)]
    assert (RUN, chunks, len(model.requests)) == ([], [], 1)


class Searching:
    """Somebody's own resolver, in the shape of the original's example."""

    def available_tools(self) -> list[Tool]:
        schema = {"type": "object", "properties": {"query": {"type": "string"}}}
        return [Tool("search", "Search the knowledge base", schema)]

    def resolve(self, call: ToolCall) -> tuple[str, str]:
        if call.name != "search":
            return "error", f"Unknown tool: {call.name}"
        return ("ok", f"found {call.arguments['query']}") if call.arguments["query"] else ("error", "no query")


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("R002-38", "R002-37")
def test_a_resolver_of_ones_own_works_in_the_loop(name: str, face: str) -> None:
    calls = [ToolCall(None, "search", {"query": "tea"}), ToolCall(None, "search", {"query": ""})]
    with simulate([[Expect(tools=["search"]), *calls], ["Found."]]) as model:
        done = lead(face, name, model.url, "?", tools=Searching()).done
    results = [part for message in done.messages for part in message.parts if isinstance(part, ToolResult)]
    assert [(result.content, result.is_error) for result in results] == [("found tea", False), ("no query", True)]
    assert done.content == "Found."


@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("R002-15", "R002-17", "R002-65")
def test_the_code_tools_alone_work_in_the_loop_and_in_the_folder_of_the_process(
    face: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text("hello")
    monkeypatch.chdir(tmp_path)
    script = [[ToolCall(None, "read_file", {"path": "README.md"})], [Expect(results={"read_file": "hello"}), "Read."]]
    with simulate(script) as model:
        assert lead(face, "openai", model.url, "?", tools=CodeTools()).done.content == "Read."


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("R002-90")
def test_a_turn_without_tools_is_a_plain_request(name: str, face: str) -> None:
    tools, resolver = session_tools.prepare(AgentResolver([get_weather]), [], {"user": 1})
    with simulate([["Hi."]]) as model:
        assert lead(face, name, model.url, "Hello", tools=tools, resolver=resolver).done.content == "Hi."
    assert {"tools", "tool_choice", "toolConfig"} & set(model.requests[0].body) == set()
