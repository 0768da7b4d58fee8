"""What somebody who comes from another library wants to find: calls in text, and what goes with them.

Rule: a line that a test elsewhere shows in depth is shown here in short, so that each can be read and run.
"""

import json
from typing import Any

import pytest

from tests.client.faces import FACES, KEY, RUN, TOKYO, awaited, get_weather, lead, options_at
from toolwire import (
    AgentResolver,
    Clearing,
    Context,
    Message,
    ToolCall,
    ToolError,
    ToolResult,
    aio,
    text_tagged,
    tool,
    tool_calls,
)
from toolwire.client.clearing import clear
from toolwire.loop import LoopLimits
from toolwire.testing import simulate
from toolwire.types import Request

BLOCK = '~~~tool_call\n{"name": "get_weather", "arguments": {"city": "Tokyo"}}\n~~~'
NATIVE = {
    "id": "c1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Tokyo"}'},
}
OTHER = {"type": "tool_use", "id": "c2", "name": "get_weather", "input": {"city": "Oslo"}}
RULES: dict[str, tuple[Any, Any]] = {
    "a map": ({"city": "Oslo"}, {"city": "Oslo"}),
    "JSON": ('{"city": "Oslo"}', {"city": "Oslo"}),
    "an empty string": ("", {}),
    "a list": ([1], None),
    "a number": (1, None),
    "JSON of a list": ("[1]", None),
    "no JSON": ("{", None),
}


class TestCallsInText:
    """Who comes from models that write their calls into their text."""

    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.row("4.5.1", "R004-22", "R004-23", "R004-24", "R004-25", "R004-26")
    def test_both_parsers_have_the_same_rules(self, rule: str) -> None:
        given, meant = RULES[rule]
        shape = {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": given}}
        text = f"~~~tool_call\n{json.dumps({'name': 'get_weather', 'arguments': given})}\n~~~"
        for parsed in (tool_calls.native.parse([shape]), text_tagged.parse(text, [get_weather.tool])):
            assert [call.arguments for call in parsed.calls] == ([] if meant is None else [meant])
            assert bool(parsed.errors) is (meant is None)

    @pytest.mark.row("4.5.2", "R004-09", "R004-10", "R004-13")
    def test_fences_ids_and_blocks_that_are_none(self) -> None:
        offered = [get_weather.tool]
        assert text_tagged.parse(f"Say {BLOCK.replace(chr(10), ' ')}", offered).calls == []
        calls = text_tagged.parse(f"{BLOCK}\n{BLOCK}", offered).calls
        assert len({call.id for call in calls}) == 2
        broken = text_tagged.parse(f"~~~tool_call\n{{\n~~~\n{BLOCK}", offered)
        assert (len(broken.calls), len(broken.errors)) == (1, 1)

    @pytest.mark.parametrize(
        ("native", "content", "calls", "protocol"),
        [
            (True, "Hi", [NATIVE], "native"),
            (True, BLOCK, [], "text_tagged"),
            (True, "Hi", [], "native"),
            (False, BLOCK, [], "text_tagged"),
            (False, "Hi", [NATIVE], "native"),
        ],
    )
    @pytest.mark.row("4.5.3", "R004-16", "R004-17", "R004-18", "R004-19", "R004-21")
    def test_the_table_of_four_rows_and_its_one_deviation(
        self, native: bool, content: str, calls: list[Any], protocol: str
    ) -> None:
        """The loop is in test_fallback.py."""
        answer = {"role": "assistant", "content": content, "tool_calls": calls}
        found = tool_calls.extract(answer, {"native_tool_calls": native}, [get_weather.tool])
        assert (found.protocol, len(found.calls)) == (protocol, int(bool(calls) or content == BLOCK))
        both = tool_calls.native.parse([NATIVE, OTHER])
        assert [call.arguments["city"] for call in both.calls] == ["Tokyo", "Oslo"]

    @pytest.mark.parametrize("face", FACES)
    @pytest.mark.row("4.5.4")
    def test_what_a_server_can_do_is_said_once_or_for_one_request(self, face: str) -> None:
        """What nobody states is not there (`extract`); of a known server it is stated."""
        assert tool_calls.extract({"role": "assistant", "content": BLOCK}, {}, [get_weather.tool]).calls
        with simulate([[TOKYO], ["One."], [BLOCK], ["Two."]]) as model:
            lead(face, "openai", model.url, "?", tools=[get_weather])
            lead(face, "openai", model.url, "?", tools=[get_weather], capabilities={"native_tool_calls": False})
        assert ["tools" in received.body for received in model.requests] == [True, True, False, False]

    @pytest.mark.parametrize("said", [[ToolCall(None, "get_weather", {"town": 1})], [BLOCK.replace("city", "town")]])
    @pytest.mark.parametrize("face", FACES)
    @pytest.mark.row("4.5.5", "R004-27")
    def test_arguments_are_checked_before_anything_runs(self, face: str, said: list[Any]) -> None:
        RUN.clear()
        with simulate([said, ["Sorry."]]) as model:
            done = lead(face, "openai", model.url, "?", tools=[get_weather]).done
        [result] = [part for message in done.messages for part in message.parts if isinstance(part, ToolResult)]
        assert (done.content, RUN, result.is_error) == ("Sorry.", [], True)
        assert "city" in str(result.content)

    @pytest.mark.row("4.5.6")
    def test_what_later_versions_have_is_there(self) -> None:
        """Each is shown in depth elsewhere.

        Repairs, ids that collide: test_execution.py. Fences in streams: text/overlay/test_streams.py. Short
        prompts: text/tagged/test_prompting.py. Ends, budgets, no progress, a last tool: test_loop.py. Asking
        before a call: clients/test_adapting.py. Events: clients/test_conversations.py. Compaction:
        test_clearing.py. Extracts: structured/. Confinement: codetools/. Sessions: clients/test_saving.py.
        """
        compact = text_tagged.augment_system_prompt("Base.", [get_weather.tool], compact=True)
        assert compact.startswith("Base.")
        assert len(compact) < len(text_tagged.augment_system_prompt("Base.", [get_weather.tool]))
        limits = LoopLimits()
        assert (limits.turns, limits.repeats, limits.tokens) == (25, 3, None)
        request = Request(context=Context(None, [Message("Hi")]), model="m")
        assert clear(request, Clearing(at=10))[0] == request


@pytest.mark.row("4.5.6")
def test_an_agent_may_be_the_tool_of_another() -> None:
    """A sub-agent is a tool that leads a conversation of its own."""

    async def main(url: str) -> str | None:
        async with aio.Client("anthropic", "inner", **options_at("anthropic", url)) as inner:

            @tool
            async def ask_expert(question: str) -> str:
                """Ask somebody who knows."""
                done = await inner.run(question, tools=[get_weather])
                if done.ending != "answer":
                    raise ToolError(done.reason)
                return done.content or ""

            resolver = AgentResolver([ask_expert])
            options = options_at("openai", url)
            done = await aio.generate("Weather?", "openai", "outer", tools=resolver, options=options)
            content: str | None = done.content
            return content

    def plays(request: Any, turn: Any) -> list[Any]:
        if request.model == "inner":
            return ["It is warm."] if turn.round else [TOKYO]
        return ["The expert says: warm."] if turn.round else [ToolCall(None, "ask_expert", {"question": "?"})]

    RUN.clear()
    with simulate(plays, api_key=KEY) as model:
        assert awaited(main(model.url)) == "The expert says: warm."
    assert (RUN, len(model.requests)) == (["Tokyo"], 4)
