"""What somebody who comes from another library wants to find: messages and streams.

Rule: a line that a test elsewhere shows in depth is shown here in short, so that each can be read and run.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.client.faces import FACES, RUN, TOKYO, chat, get_weather, lead, options_at
from toolwire import (
    CallDelta,
    Context,
    Message,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tool,
    ToolCall,
    ToolResult,
    tool,
)
from toolwire.client import sync
from toolwire.loop import Done
from toolwire.providers import PROVIDERS, provider_of, put_key
from toolwire.testing import Expect, Finish, simulate

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOUR = ("openai", "anthropic", "gemini", "openai-responses")
BLOCK = '~~~tool_call\n{"name": "get_weather", "arguments": {"city": "Tokyo"}}\n~~~'


class TestMessagesAndStreams:
    """Who comes from a library of messages and streams."""

    @pytest.mark.sampled
    @pytest.mark.parametrize("face", FACES)
    @pytest.mark.parametrize("name", FOUR)
    @pytest.mark.row("4.4.1", "R003-01", "R003-05", "R003-09")
    def test_generate_takes_a_string_or_a_context(self, name: str, face: str) -> None:
        prompts = ("Weather?", Context("Be brief.", [Message("Weather?")]))
        for prompt in prompts:
            with simulate([[Expect(last="Weather?"), TOKYO], ["Warm."]]) as model:
                done = lead(face, name, model.url, prompt, tools=[get_weather], max_tokens=100).done
            assert done.message.content == "Warm."
            assert len(model.requests[0].body.get("messages", [0])) <= 2

    @pytest.mark.row("4.4.2", "I-27", "I-32")
    def test_a_provider_is_named_in_any_way(self) -> None:
        given: list[Any] = [
            "anthropic",
            PROVIDERS["anthropic"],
            ("anthropic", {"api_key": "k"}),
            (PROVIDERS["anthropic"], {"api_key": "k"}),
            {"adapter": "anthropic", "api_key": "k"},
        ]
        try:
            put_key("anthropic", "k")
            for one in given:
                with sync.Client(one, "m") as client:
                    assert (client.provider.name, client.provider.key) == ("anthropic", "k")
        finally:
            put_key("anthropic", None)
        assert provider_of(("openai", {"base_url": "http://x"}), "m", base_url="http://y")[0].base_url == "http://y"

    @pytest.mark.sampled
    @pytest.mark.parametrize("role", ["user", "assistant", "tool", "system", "developer"])
    @pytest.mark.parametrize("name", FOUR)
    @pytest.mark.row("4.4.3")
    def test_every_role_is_taken_by_every_provider(self, name: str, role: Any) -> None:
        """By a strict server; the words on the wire are in tests/dialects/test_roles.py."""
        messages = [
            Message("Hi"),
            Message("assistant", [Thinking("Hm."), Text("I look."), ToolCall("call_1", "look", {"q": "x"})]),
            Message("tool", "found", "look", "call_1"),
        ]
        messages += [Message(role, "More words.")] if role != "tool" else []
        messages += [Message("Go on.")] if role in ("assistant", "developer", "system") else []
        with simulate([["Done."]]) as model:
            assert chat("sync", name, model.url, messages).content == "Done."
        assert "found" in str(model.requests[0].body)
        assert ("More words." in str(model.requests[0].body)) is (role != "tool")

    @pytest.mark.parametrize("name", FOUR)
    @pytest.mark.row("4.4.4", "R003-46")
    def test_the_history_of_the_guide_is_taken(self, name: str) -> None:
        """Word for word, with a question after it."""
        messages = [
            Message("user", "What's the weather in Tokyo?"),
            Message(
                "assistant",
                [Text("Let me check that for you."), ToolCall("call_1", "get_weather", {"city": "Tokyo"})],
            ),
            Message("tool", "25 degrees, sunny", "get_weather", "call_1"),
            Message("assistant", "The weather in Tokyo is 25 degrees and sunny."),
        ]
        expected = Expect(last="And what about London?", messages=5)
        with simulate([[expected, "Rain."]]) as model:
            led = lead("sync", name, model.url, "And what about London?", messages=messages, tools=[get_weather])
        assert led.done.message.content == "Rain."

    @pytest.mark.parametrize("name", FOUR)
    @pytest.mark.row("4.4.5", "R003-44", "R003-45", "I-28", "I-30")
    def test_a_stream_is_read_piece_by_piece(self, name: str) -> None:
        RUN.clear()
        chunks: list[Any] = []
        with simulate([[Thinking("Hm."), "I look.", TOKYO], ["Warm."]]) as model:
            stream = sync.stream(
                "?",
                name,
                "m",
                tools=[get_weather],
                options=options_at(name, model.url),
                on_event=chunks.append,
            )
            kinds: list[Any] = []
            items, rest = stream.next()
            while rest is not None:
                kinds += [type(item) for item in items]
                items, rest = stream.next()
            done = stream.collect()
        assert list(dict.fromkeys(kinds)) == [
            ThinkingDelta,
            TextDelta,
            ToolCall,
            ToolResult,
            Done,
        ]
        fragments = [chunk for chunk in chunks if isinstance(chunk, CallDelta)]
        assert bool(fragments) is (name != "gemini"), "they are for listeners alone; Gemini sends none"
        assert (done.finish_reason, done.usage is not None, RUN) == ("stop", True, ["Tokyo"])
        with simulate([[TOKYO]]) as model:
            found = lead("sync", name, model.url, "?", shown=True, tools=[get_weather], auto_tools=False)
        assert (found.done.ending, RUN) == ("calls", ["Tokyo"])

    @pytest.mark.parametrize("name", [*FOUR, "ollama", "ollama-v1"])
    @pytest.mark.row("4.4.6", "R001-31", "R003-35", "R003-36", "R003-40")
    def test_calls_at_once_have_an_index_and_are_whole(self, name: str) -> None:
        """Fragments are in tests/test_stream_cuts.py."""
        calls = [TOKYO, ToolCall(None, "get_weather", {"city": "Oslo"})]
        with simulate([calls]) as model:
            led = lead("sync", name, model.url, "?", shown=True, tools=[get_weather], auto_tools=False)
        shown = [item for item in led.items if isinstance(item, ToolCall)]
        assert [(call.index, call.arguments["city"], call.complete) for call in shown] == [
            (0, "Tokyo", True),
            (1, "Oslo", True),
        ]
        assert len({call.id for call in shown}) == 2

    @pytest.mark.parametrize("shown", [False, True])
    @pytest.mark.row("4.4.7", "R003-41", "R003-42")
    def test_gemini_gets_back_its_signatures_and_no_ids_that_were_made(self, shown: bool) -> None:
        calls = [TOKYO, ToolCall("own-1", "get_weather", {"city": "Oslo"})]
        with simulate([[Thinking("Hm."), *calls], ["Warm."]]) as model:
            done = lead("sync", "gemini", model.url, "?", shown=shown, tools=[get_weather]).done
        made, own = (call.id or "" for call in done.messages[0].tool_calls)
        assert (made.removeprefix("gemini_").isdigit(), own) == (True, "own-1")
        sent = str(model.requests[1].body)
        assert "thoughtSignature" in sent
        assert (sent.count("gemini_"), sent.count("'id': 'own-1'")) == (0, 2)

    @pytest.mark.parametrize("face", FACES)
    @pytest.mark.row("4.4.8", "R003-08", "R003-31", "R003-53", "R003-54", "R003-55")
    def test_responses_has_items_and_goes_on_from_the_last(self, face: str) -> None:
        context = Context("Be brief.", [Message("Weather?")], provider_state={})
        with simulate([[TOKYO], ["Warm."]]) as model:
            done = lead(face, "openai-responses", model.url, context, tools=[get_weather]).done
        first, second = (received.body for received in model.requests)
        assert first["instructions"] == "Be brief."
        assert [item["type"] for item in first["input"]] == ["message"]
        assert [item["type"] for item in second["input"]] == ["function_call_output"]
        assert second["previous_response_id"]
        assert done.provider_state["previous_response_id"] != second["previous_response_id"]

    @pytest.mark.row("4.4.9", "R003-15", "R003-17", "R003-49")
    def test_anthropic_gets_its_thoughts_and_one_system_prompt(self) -> None:
        words = [Message("developer", "Always respond in JSON format"), Message("Weather?")]
        with simulate([[Thinking("Hm."), TOKYO], ["{}"]]) as model:
            lead("sync", "anthropic", model.url, Context(None, words), tools=[get_weather])
        second = model.requests[1].body
        assert second["system"] == "Always respond in JSON format"
        assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
        assert second["messages"][1]["content"][0]["signature"]

    @pytest.mark.parametrize("name", FOUR)
    @pytest.mark.row("4.4.10", "I-34", "R001-10")
    def test_an_answer_has_the_form_that_was_wanted(self, name: str) -> None:
        with simulate([['{"value": 25}']]) as model:
            found = sync.generate("?", name, "m", output=int, options=options_at(name, model.url))
        assert found == 25

    @pytest.mark.parametrize(
        ("name", "said", "meant"),
        [
            ("openai", "length", "length"),
            ("openai", "stop", "stop"),
            ("openai", "content_filter", "content_filter"),
            ("anthropic", "max_tokens", "length"),
            ("anthropic", "end_turn", "stop"),
            ("gemini", "MAX_TOKENS", "length"),
            ("gemini", "SAFETY", "content_filter"),
            ("ollama", "length", "length"),
        ],
    )
    @pytest.mark.row("I-29")
    def test_ends_have_one_word_and_keep_their_own(self, name: str, said: str, meant: Any) -> None:
        with simulate([["Words.", Finish(meant)]]) as model:
            done = lead("sync", name, model.url, "?").done
        assert (done.finish_reason, done.response.raw_finish_reason) == (meant, said)

    @pytest.mark.row("R003-57")
    def test_the_guides_have_counterparts(self) -> None:
        """Tools, streams, providers."""
        pages = {
            "tools.md": "# Tools and resolvers",
            "reference.md": "## Streams",
            "clients.md": "## Providers",
        }
        for page, heading in pages.items():
            assert heading in (DOCS / page).read_text(), page


class Search:
    """A tool as a class: what it is called, what it takes, what it does."""

    @staticmethod
    def definition() -> Tool:
        """Declare."""
        schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
        return Tool.new(name="search", description="Search.", input_schema=schema, parameters=schema)

    @staticmethod
    def execute(arguments: dict[str, Any], context: Any) -> tuple[str, str]:
        """Say what was found."""
        return ("ok", f"{context}: {arguments['q']}") if arguments["q"] else ("error", "nothing to search")


@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("I-31", "R003-07")
def test_tools_are_classes_or_made_on_the_spot(face: str) -> None:
    @tool(name="double", description="Double.")
    def doubled(n: int) -> str:
        return str(n * 2)

    calls = [
        ToolCall(None, "search", {"q": "x"}),
        ToolCall(None, "search", {"q": ""}),
        ToolCall(None, "double", {"n": 4}),
    ]
    with simulate([calls, ["Done."]]) as model:
        done = lead(face, "anthropic", model.url, "?", tools=[Search, doubled], context="ann").done
    results = [part for message in done.messages for part in message.parts if isinstance(part, ToolResult)]
    assert [(result.content, result.is_error) for result in results] == [
        ("ann: x", False),
        ("nothing to search", True),
        ("8", False),
    ]
