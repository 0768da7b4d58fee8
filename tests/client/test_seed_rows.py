"""What a reader of another library's page types first: its names, its keywords, its call forms."""

import json
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from tests.client.faces import DIALECTS, FACES, KEY, TOKYO, get_weather, lead
from toolwire import (
    AgentResolver,
    Client,
    CodeTools,
    Composition,
    LLMFactory,
    LLMProvider,
    LLMResponse,
    Stream,
    TextDelta,
    Tool,
    ToolCall,
    ToolResult,
    Trace,
    Usage,
    codec,
    execute,
    generate,
    resolver,
    resolver_fn,
    session_tools,
    stream,
    tool_calls,
)
from toolwire.errors import InvalidField, UnknownDialect, UnknownTool
from toolwire.loop import Done
from toolwire.testing import simulate

READ = ToolCall(None, "read_file", {"path": "x.txt"})


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Make a folder that is bound, which is the current one too, and another one with a secret."""
    for name, text in (("mine", "mine"), ("other", "SECRET-OF-OTHER")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text(text)
    monkeypatch.chdir(tmp_path / "mine")
    return str(tmp_path / "mine"), str(tmp_path / "other")


GIVEN = {
    "an instance": CodeTools,
    "a pair": lambda mine: (CodeTools, mine),
    "the pair of resolver()": resolver,
    "a class": lambda _mine: CodeTools,
    "a composition": lambda mine: Composition([(CodeTools, mine)]),
    "a pair of an instance": lambda mine: (CodeTools("/"), mine),
}


@pytest.mark.sampled
@pytest.mark.row("R002-17")
@pytest.mark.row("R002-18")
@pytest.mark.row("R002-22")
@pytest.mark.row("R002-88")
@pytest.mark.parametrize("form", GIVEN)
@pytest.mark.parametrize("face", FACES)
def test_a_resolver_goes_in_by_one_way_and_its_folder_stays(face: str, form: str, folders: tuple[str, str]) -> None:
    mine, other = folders
    make: Any = GIVEN[form]
    with simulate([]) as model:
        for context in (other, "alice", {"user": 1}):
            for settings in ({"resolver": make(mine)}, {"tools": make(mine)}, {"tools": [make(mine)]}):
                model.play([[READ], "Done."])
                done = lead(face, "openai", model.url, "?", context=context, **settings).done
                assert len(model.requests[-1].body["tools"]) == 12, "what lists its tools declares them"
                assert done.messages[1].parts[0].content == "mine"
    for context in (other, "alice", {"user": 1}):
        assert execute([READ], make(mine), context=context)[0].content == "mine"
        tools, resolve = session_tools.prepare(make(mine), ["read_file", "nothing"], context)
        assert resolve is not None
        assert ([one.name for one in tools], resolve(READ).content) == (["read_file"], "mine")


class Mine:
    """A resolver of ordinary methods, which is passed as its class."""

    def available_tools(self) -> list[Tool]:
        return [Tool("a", "A", {"type": "object"}), Tool("b", "B", {"type": "object"})]

    def resolve(self, call: ToolCall, context: Any = None) -> tuple[str, str]:
        return ("ok", json.dumps(context)) if call.name == "a" else ("error", "Unknown tool")


@pytest.mark.row("R002-22")
def test_a_class_of_ones_own_is_made() -> None:
    tools, resolve = session_tools.prepare(Mine, ["a"], {"user_id": "abc", "project": "/repo"})
    assert resolve is not None
    assert [one.name for one in tools] == ["a"]
    assert json.loads(str(resolve(ToolCall("1", "a", {})).content)) == {"user_id": "abc", "project": "/repo"}
    assert execute([ToolCall("1", "a")], Mine)[0].content == "null"
    with simulate([[ToolCall(None, "a")], "Done."]) as model:
        done = lead("sync", "anthropic", model.url, "?", resolver=Mine, context=[1]).done
    assert done.messages[1].parts[0].content == "[1]"


class Static:
    """A resolver that is asked without an instance."""

    @staticmethod
    def available_tools() -> list[Tool]:
        """List."""
        return [Tool("a", "A", {"type": "object"}), Tool("b", "B", {"type": "object"})]

    @staticmethod
    def resolve(call: ToolCall, context: Any = None) -> tuple[str, str]:
        """Run."""
        return ("ok", f"{call.name} for {context['user']}")


class Called(Mine):
    """A resolver that can be called as well, for whatever reason."""

    def __call__(self) -> None:
        """Do nothing."""

    def resolve(self, call: ToolCall, context: Any = None) -> tuple[str, str]:
        """Run."""
        return ("ok", f"{call.name} for {context['user']}")


@pytest.mark.parametrize("resolver", [Static, Called()])
def test_a_resolver_that_is_a_class_or_can_be_called_is_bound_as_any_other(resolver: Any) -> None:
    asked: list[str] = []

    def ask(call: ToolCall, _preview: str) -> bool:
        asked.append(call.name)
        return True

    turns: list[Any] = [[ToolCall(None, "a"), ToolCall(None, "b")], "Done."]
    with simulate(turns) as model:
        given: dict[str, Any] = {"resolver": resolver, "tools": [Tool("a", "A", {"type": "object"})]}
        done = lead("sync", "openai", model.url, "?", context={"user": "ann"}, approve=ask, **given).done
    one, other = [message.parts[0] for message in done.messages[1:3]]
    assert one.content == "a for ann"
    assert other.content == "unknown tool 'b'. Available: a"
    assert asked == ["a"]


@pytest.mark.parametrize("given", [3, "x", (), [], (1, 2), object()])
def test_what_is_no_resolver_is_refused_to_the_caller(given: Any) -> None:
    with pytest.raises(InvalidField, match="execute"):
        execute([READ], given)
    with pytest.raises(InvalidField, match=r"resolver|settings|run"):
        generate("?", "openai", "m", resolver=given, options={"api_key": KEY, "base_url": "http://127.0.0.1:9"})


def order(item: str) -> str:
    """Order something."""
    return item


@pytest.mark.parametrize("tools", [order, [order, Tool("a", "A")], (Mine, AgentResolver([order]))])
def test_a_resolver_in_the_place_of_tools_has_each_of_them(tools: Any) -> None:
    with pytest.raises(InvalidField, match=r"settings: resolver does not have 'order', which can be run; .*tools=\["):
        generate("?", "openai", "m", tools=tools, resolver=Mine, api_key=KEY, base_url="http://127.0.0.1:9")


def test_tools_that_are_declared_are_not_widened_by_a_resolver(tmp_path: Path) -> None:
    declared = [one for one in CodeTools(tmp_path).available_tools() if one.name == "read_file"]
    with simulate([[ToolCall(None, "bash", {"command": "touch made"})], "Done."]) as model:
        done = lead("sync", "openai", model.url, "?", tools=declared, resolver=(CodeTools, tmp_path)).done
        assert [one["function"]["name"] for one in model.requests[0].body["tools"]] == ["read_file"]
    assert "unknown tool 'bash'" in done.messages[1].parts[0].content
    assert list(tmp_path.iterdir()) == []


@pytest.mark.row("R002-15")
@pytest.mark.row("R002-16")
@pytest.mark.row("R002-28")
@pytest.mark.row("R002-29")
def test_code_tools_are_asked_as_a_module_is(folders: tuple[str, str]) -> None:
    mine, other = folders
    assert CodeTools.resolve(ToolCall(name="read_file", arguments={"path": "x.txt"})).content == "mine"  # type: ignore[arg-type, call-arg]
    assert CodeTools.resolve(READ, other).content == "SECRET-OF-OTHER"  # type: ignore[arg-type]
    assert CodeTools(mine).resolve(READ, other).content == "SECRET-OF-OTHER", "the folder of the call"
    assert CodeTools.resolve(CodeTools(other), READ).content == "SECRET-OF-OTHER", "as a function of an instance"
    assert len(CodeTools.available_tools()) == 12  # type: ignore[call-arg]
    assert resolver(mine) == (CodeTools, mine)
    assert resolver_fn(mine)(READ).content == "mine"


@pytest.mark.row("R002-20")
@pytest.mark.row("R002-53")
@pytest.mark.row("R002-56")
@pytest.mark.row("I-31")
def test_a_class_says_its_tools_and_a_tool_its_schema() -> None:
    class Search:
        name, description = "search", "Search."
        input_schema: ClassVar = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}

        def execute(self, args: dict[str, Any], context: dict[str, Any]) -> str:
            return f"{args['q']} for {context.get('user_id')}"

    class Tools(AgentResolver):
        tools = [Search]  # noqa: RUF012 - as one writes it

    call = ToolCall(name="search", arguments={"q": "x"})
    assert [one.name for one in Tools.available_tools()] == ["search"]  # type: ignore[call-arg]
    assert Tools.resolve(call).content == Tools().resolve(call).content == "x for None"  # type: ignore[arg-type, call-arg]
    assert Tools.resolve(call, {"user_id": "abc"}).content == "x for abc"  # type: ignore[arg-type]
    assert Tool.new(name="f", description="F", input_schema={"type": "object"}).parameters == {"type": "object"}
    with pytest.raises(InvalidField, match="run is not a field of a tool"):
        Tool.new(name="f", description="F", parameters={}, run=print)
    assert AgentResolver([]).available_tools() == []


@pytest.mark.row("R002-75")
def test_unknown_tool_goes_on_and_any_other_error_is_final() -> None:
    class Last(AgentResolver):
        def available_tools(self) -> list[Tool]:
            return [Tool("b", "B", {"type": "object"})]

        def resolving(self, call: ToolCall, _context: Any = None) -> Any:
            yield from ()
            return ToolResult(call.id, call.name, "the last one's")

    assert Composition([Mine, Last]).resolve(ToolCall("1", "b")).content == "the last one's"
    with pytest.raises(UnknownTool):
        Composition([Mine]).resolve(ToolCall("1", "b"))


@pytest.mark.row("R001-54")
def test_usage_is_a_map_of_counts() -> None:
    usage = Usage(3, 4)
    assert dict(usage) == dict(usage.items())
    assert dict(usage)["prompt_tokens"] == usage.get("prompt_tokens") == 3
    assert ("prompt_tokens" in usage, "nothing" in usage, usage.get("nothing", 7)) == (True, False, 7)
    assert list(usage) == list(usage.keys())
    make: Any = LLMResponse
    made = make("Hi", usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3})
    assert made.usage == Usage(1, 2)


@pytest.mark.row("R001-57")
@pytest.mark.row("I-25")
@pytest.mark.parametrize(
    ("name", "options", "provider", "model"),
    [
        ("Sonnet 4.5", {}, "anthropic", "claude-sonnet-4-20250514"),
        ("sonnet-4", {}, "anthropic", "claude-sonnet-4-20250514"),
        ("anthropic/Opus 4", {}, "anthropic", "claude-opus-4-20250514"),
        ("llama3.1:70b", {}, "ollama-v1", "llama3.1:70b"),
        ("llama3.1:8b", {}, "ollama-v1", "llama3.1:8b"),
        ("ollama", {"model": "llama3.1"}, "ollama-v1", "llama3.1"),
        ("anthropic", {"model": "Sonnet 4.5"}, "anthropic", "claude-sonnet-4-20250514"),
        ("groq/anything", {}, "groq", "anything"),
    ],
)
def test_a_factory_resolves_aliases(name: str, options: Any, provider: str, model: str) -> None:
    made = LLMFactory.create(name, **options)
    assert (made.provider.name, made.model) == (provider, model)
    with simulate(["Hi."]) as server:
        url = server.url + ("/v1" if made.provider.name not in ("anthropic", "openai") else "")
        with LLMFactory.create(name, base_url=url, api_key=KEY, **options) as client:
            client.chat("?")
        assert server.requests[0].body["model"] == model


@pytest.mark.row("I-26")
def test_options_hold_for_each_of_several_and_a_key_for_its_provider() -> None:
    made = LLMFactory.create_with_fallback(["gpt-4o", "anthropic"], base_url="http://127.0.0.1:9", api_key=KEY)
    assert {one.provider.base_url for one in (made, *made.others)} == {"http://127.0.0.1:9"}
    assert {one.provider.key for one in (made, *made.others)} == {KEY}
    made = LLMFactory.create_with_fallback(["gpt-4o", "gpt-4o-mini", "anthropic", "groq"], api_key=KEY)
    assert [one.provider.api_key for one in (made, *made.others)] == [KEY, KEY, None, None]
    assert made.others[2].model is None


@pytest.mark.row("R001-52")
def test_a_transport_of_sync_code_alone_is_enough() -> None:
    class Answer:
        status = 200
        headers: dict[str, str] = {}  # noqa: RUF012 - as one writes it

        def __init__(self) -> None:
            body = {"choices": [{"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]}
            self.pieces = [msgspec.json.encode(body), b""]

        def read(self) -> bytes:
            return self.pieces.pop(0)

    class Mock:
        def send(self, *_given: Any) -> Answer:
            return Answer()

    mock: Any = Mock()
    assert LLMProvider is Client
    assert LLMProvider("openai", "m", api_key=KEY, transport=mock).chat("?").content == "Hi."


@pytest.mark.row("R001-45")
@pytest.mark.row("I-04")
@pytest.mark.parametrize("name", ["groq", "ollama-v1", "vllm", "google"])
def test_a_codec_knows_the_servers_too(name: str) -> None:
    ping = Tool("ping", "Ping", {"type": "object"})
    assert "ping" in json.dumps(codec.encode_definitions([ping], name))
    with pytest.raises(UnknownDialect, match="unknown"):
        codec.encode_definitions([ping], "nobody")


@pytest.mark.row("R002-99")
@pytest.mark.row("R002-100")
def test_a_trace_has_a_changeset() -> None:
    good = {"tenant_id": "t", "conversation_id": "c", "tool_name": "f", "arguments": {}, "result": "x",
            "result_type": "ok", "duration_ms": 1, "iteration": 0, "unknown": 1}  # fmt: skip
    changeset = Trace.changeset(good)
    assert (changeset.valid, changeset.errors) == (True, ())
    assert "unknown" not in changeset.changes
    assert not Trace.changeset({**good, "result_type": "odd"}).valid
    assert Trace.changeset(Trace.new(good), {"result_type": "error"}).changes["result_type"] == "error"


@pytest.mark.row("R004-14")
def test_the_door_of_calls_tells_of_tools() -> None:
    shown = tool_calls.augment_system_prompt("Be helpful.", [
        {"name": "read_file", "description": "read a file", "schema": {"type": "object"}}])  # fmt: skip
    assert shown.startswith("Be helpful.")
    assert "read_file" in shown


@pytest.mark.sampled
@pytest.mark.row("I-30")
@pytest.mark.row("R003-45")
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("face", FACES)
def test_chunks_are_shown_to_a_function(face: str, name: str) -> None:
    shown: list[Any] = []
    with simulate([[TOKYO], "Warm."]) as model:
        done = lead(face, name, model.url, "?", tools=[get_weather], on_chunk=shown.append).done
        assert model.requests[0].body.get("stream") in (True, None), "it is shown while it comes"
    assert "".join(one.text for one in shown if isinstance(one, TextDelta)) == "Warm."
    assert list(dict.fromkeys(type(one) for one in shown)) == [ToolCall, ToolResult, TextDelta, Done]
    assert (done.content, shown[-1].content) == ("Warm.", "Warm.")


def test_a_stream_is_collected_with_chunks() -> None:
    heard: list[Any] = []
    with simulate(["Warm."]) as model:
        shown = stream("?", "openai", "m", options={"base_url": model.url, "api_key": KEY})
        assert isinstance(shown, Stream)
        assert shown.collect(heard.append).content == "Warm."
    assert type(heard[-1]) is Done


@pytest.mark.row("I-18")
def test_a_loop_by_the_number_of_its_iterations() -> None:
    again = [[ToolCall(None, "get_weather", {"city": str(number)})] for number in range(3)]
    with simulate([again[0], again[1]]) as model:
        done = lead("sync", "openai", model.url, "?", tools=[get_weather], max_iterations=2).done
    assert (done.ending, done.turns) == ("limit", 2)


def test_an_unknown_setting_lists_what_there_is() -> None:
    with pytest.raises(
        InvalidField,
        match=r"tool is not a setting; did you mean tools\? There are: messages, system,.*limits.*on_chunk",
    ):
        generate("?", "openai", "m", tool=[], options={"api_key": KEY})  # type: ignore[call-overload]
