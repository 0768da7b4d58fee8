"""What a reader of a row types, where the tests of a room typed something else: in the row's own names and calls.

Rule: the tests that `rows.toml` names under `fails` have to fail, for what they type does not hold yet. One that passes
leaves that list, and its row leaves `less` with the last of its tests.
"""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from scripts.rows import lists
from tests.client.canned import Canned
from tests.client.faces import DIALECTS, FACES, KEY, chat, lead, options_at
from toolwire import (
    AgentResolver,
    CodeTools,
    Composition,
    LLMFactory,
    Message,
    Tool,
    ToolCall,
    ToolResult,
    execute,
    session_tools,
    tool,
)
from toolwire.client import sync
from toolwire.dialects import dialect
from toolwire.providers import provider_of
from toolwire.testing import simulate
from toolwire.types import Thinking


@pytest.fixture(autouse=True)
def fails_where_that_is_said(request: pytest.FixtureRequest) -> None:
    """Expect a test to fail that is listed; a listed one that passes is an error."""
    if request.function.__name__ in lists()["fails"]["tests"]:
        request.applymarker(pytest.mark.xfail(strict=True, reason="it is asked for, and does not hold yet"))


PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    },
    "required": ["location"],
    "additionalProperties": False,
}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Tell.", "strict": True, "parameters": PARAMETERS},
}
# What a strict model says where it wants no unit.
NULL = ToolCall(None, "get_weather", {"location": "San Francisco, CA", "unit": None})


RAN: list[Any] = []


class GetWeather:
    """A tool by the declaration of the comparison."""

    def definition(self) -> Tool:
        """Declare."""
        return Tool.from_map(WEATHER)

    def execute(self, arguments: dict[str, Any], _context: Any) -> str:
        """Run."""
        RAN.append(arguments)
        return "22 degrees"


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", ["openai", "openai-responses"])
@pytest.mark.row("R001-05", "R001-10")
def test_a_null_that_strictness_asked_for_is_no_argument(name: str, face: str) -> None:
    RAN.clear()
    with simulate([[NULL], ["22 degrees."]]) as model:
        lead(face, name, model.url, "?", tools=[GetWeather])
    assert RAN == [{"location": "San Francisco, CA"}]


@pytest.mark.parametrize("name", ["openai", "openai-responses"])
@pytest.mark.row("R001-05", "R001-10")
def test_chat_gives_the_arguments_without_such_a_null(name: str) -> None:
    with simulate([[NULL]]) as model:
        [call] = chat("sync", name, model.url, "?", tools=[WEATHER]).tool_calls
    assert call.arguments == {"location": "San Francisco, CA"}


@pytest.mark.row("R001-05")
def test_a_server_that_does_not_know_strict_is_not_told_of_it() -> None:
    provider = provider_of("ollama-v1")[0]
    with simulate([["Hi."]]) as model:
        chat("sync", provider.name, model.url, "?", tools=[WEATHER])
    assert "strict" not in str(model.requests[0].body)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("R001-18")
def test_a_history_in_the_format_of_claude_reaches_claude(face: str) -> None:
    blocks = [{"type": "tool_use", "id": "toolu_abc123", "name": "get_weather", "input": {"location": "SF"}}]
    results = [{"type": "tool_result", "tool_use_id": "toolu_abc123", "content": '{"temperature": 22}'}]
    messages = [
        {"role": "user", "content": "What's the weather?"},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": results},
    ]
    with simulate([["22."]]) as model:
        chat(face, "anthropic", model.url, messages, tools=[WEATHER])
    sent = model.requests[0].body["messages"]
    assert [message["content"] for message in sent[1:]] == [blocks, results]


@pytest.mark.row("R001-21")
def test_a_tool_of_the_server_may_be_given_as_its_map() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    with simulate([["Hi."]]) as model:
        chat("sync", "anthropic", model.url, "?", tools=[search])
    assert model.requests[0].body["tools"] == [search]


@pytest.mark.row("R001-54")
def test_the_usage_of_an_answer_is_used_as_a_map() -> None:
    with simulate([["Hi."]]) as model:
        usage: Any = chat("sync", "openai", model.url, "?").usage
    assert "prompt_tokens" in usage
    assert usage.get("prompt_tokens") == usage["prompt_tokens"]
    assert {type(count) for _, count in usage.items()} == {int}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a folder to work in, and one that is none of ours."""
    for name in ("project", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_text(f"of {name}")
    return tmp_path / "project"


READ = ToolCall("1", "read_file", {"path": "README.md"})


@pytest.mark.row("R002-15")
def test_the_code_tools_resolve_a_call_as_they_are(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    resolve: Any = CodeTools.resolve
    assert resolve(READ).content == "of project"


@pytest.mark.row("R002-16")
def test_the_code_tools_resolve_a_call_in_a_folder(project: Path) -> None:
    resolve: Any = CodeTools.resolve
    assert resolve(READ, str(project)).content == "of project"


@pytest.mark.row("R002-17")
def test_the_only_resolver_declares_its_tools(project: Path) -> None:
    with simulate([[READ], ["Done."]]) as model:
        done = lead("sync", "openai", model.url, "?", resolver=CodeTools(project)).done
    assert len(model.requests[0].body["tools"]) == 12
    assert "of project" in [part.content for part in done.messages[1].parts if isinstance(part, ToolResult)]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("setting", ["tools", "resolver"])
@pytest.mark.row("R002-18")
def test_a_resolver_and_its_folder_are_a_resolver_of_a_run(setting: str, face: str, project: Path) -> None:
    given: dict[str, Any] = {setting: (CodeTools, str(project))}
    with simulate([[READ], ["Done."]]) as model:
        done = lead(face, "openai", model.url, "?", **given).done
    assert len(model.requests[0].body["tools"]) == 12
    assert "of project" in [part.content for part in done.messages[1].parts if isinstance(part, ToolResult)]


@pytest.mark.row("R002-18")
def test_a_resolver_and_its_folder_execute_calls(project: Path) -> None:
    pair: Any = (CodeTools, str(project))
    assert [result.content for result in execute([READ], pair)] == ["of project"]


class Searching:
    """A resolver that nobody has made an instance of."""

    def available_tools(self) -> list[Tool]:
        """List."""
        return [Tool(name, "", {"type": "object"}) for name in ("read_file", "search")]

    def resolve(self, call: ToolCall, context: Any = None) -> tuple[str, str]:
        """Answer."""
        return "ok", f"{call.name} of {context}"


@pytest.mark.row("R002-22")
def test_a_session_may_be_prepared_from_a_class() -> None:
    resolver: Any = Searching
    tools, resolve = session_tools.prepare(resolver, ["read_file", "search"], {"user_id": "abc"})
    assert [one.name for one in tools] == ["read_file", "search"]
    assert resolve is not None
    assert resolve(READ).content == "read_file of {'user_id': 'abc'}"


@pytest.mark.row("R002-52")
@pytest.mark.parametrize("kind", ["a tool", "a call"])
def test_a_value_does_not_change_with_what_it_was_made_of(kind: str) -> None:
    given: dict[str, Any] = {"type": "object"}
    if kind == "a tool":
        made = Tool.new(name="a", description="b", parameters=given)
        given["x"] = 1
        assert made.parameters == {"type": "object"}
    else:
        call = ToolCall("1", "a", given)
        given["x"] = 1
        assert call.arguments == {"type": "object"}


@pytest.mark.row("R002-56")
def test_without_a_context_there_is_an_empty_one() -> None:
    class Asking:
        def definition(self) -> Tool:
            return Tool("who", "", {"type": "object"})

        def execute(self, _arguments: Any, context: Any) -> str:
            return str(context.get("user_id"))

    result = AgentResolver([Asking()]).resolve(ToolCall("1", "who", {}))
    assert (result.content, result.is_error) == ("None", False)


@pytest.mark.row("R002-75")
def test_unknown_tool_alone_lets_the_next_one_try() -> None:
    class Silent(Searching):
        def resolve(self, call: ToolCall, context: Any = None) -> tuple[str, str]:
            del call, context
            return "error", "Unknown tool"

    assert Composition([Silent(), Searching()]).resolve(READ).content == "read_file of None"


@pytest.mark.parametrize("context", ["alice", "other"])
@pytest.mark.row("R002-88")
def test_a_context_never_moves_the_code_tools(context: str, project: Path) -> None:
    given = str(project.parent / context) if context == "other" else context
    resolver = Composition([(CodeTools, str(project))])
    _, resolve = session_tools.prepare(resolver, ["read_file"], given)
    assert resolve is not None
    assert resolve(READ).content == "of project"


# The parts of a message as tuples, and what they mean.
TUPLES: dict[str, tuple[Any, Any]] = {
    "text": (("text", "Hi."), "Text"),
    "tool use": (("tool_use", "call_1", "search", {"q": "x"}), "ToolCall"),
    "tool result": (("tool_result", "call_1", "search", "found"), "ToolResult"),
    "thinking": (("thinking", "Hm."), "Thinking"),
    "signed thinking": (("thinking", {"text": "Hm.", "signature": "c2ln"}), "Thinking"),
}


@pytest.mark.parametrize("kind", TUPLES)
@pytest.mark.row("R003-21", "R003-22", "R003-23", "R003-24", "R003-25")
def test_a_part_may_be_a_tuple(kind: str) -> None:
    given, meant = TUPLES[kind]
    role: Any = "user" if kind == "tool result" else "assistant"
    [part] = Message(role, [given]).parts
    assert type(part).__name__ == meant
    if isinstance(part, Thinking):
        assert (part.text, part.signature) == ("Hm.", "c2ln" if kind == "signed thinking" else None)


def made_ids(name: str, answers: list[Any], prompt: str) -> list[str | None]:
    """Lead a conversation in which each answer says the same, and give the ids of its calls."""

    @tool
    def look(q: str) -> str:
        """Look."""
        return q

    with simulate(answers) as model:
        done = lead("sync", name, model.url, prompt, tools=[look]).done
    return [call.id for message in done.messages for call in message.tool_calls]


@pytest.mark.row("R004-11")
def test_an_id_that_was_made_is_its_own_in_a_conversation() -> None:
    block = '~~~tool_call\n{"name": "look", "arguments": {"q": "x"}}\n~~~'
    ids = made_ids("ollama", [[block], [block], ["Done."]], "Look twice.")
    assert len(set(ids)) == 2


def gemini(*parts: dict[str, Any]) -> dict[str, Any]:
    """Make an answer of Gemini."""
    return {"candidates": [{"content": {"role": "model", "parts": [*parts]}, "finishReason": "STOP"}]}


@pytest.mark.row("R003-42")
def test_equal_answers_of_gemini_have_calls_of_two_ids() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    calling = gemini({"functionCall": {"name": "look", "args": {}}})
    transport: Any = Canned(calling, calling, gemini({"text": "Done."}))
    with sync.Client("gemini", "m", transport=transport, api_key=KEY) as client:
        done = client.run("Look twice.", tools=[look])
    assert done.content == "Done."
    assert len({call.id for message in done.messages for call in message.tool_calls}) == 2


@pytest.mark.row("I-23")
def test_an_answer_gives_back_what_the_server_said() -> None:
    said = gemini({"text": "Hi.", "unheard_of": 1}) | {"responseId": "r", "x-more": [None]}
    transport: Any = Canned(said)
    with sync.Client("gemini", "m", transport=transport, api_key=KEY) as client:
        answer = client.chat("?")
    assert dialect("gemini").encode_response(answer).body == said


@pytest.mark.parametrize(
    ("alias", "model_name"),
    [
        ("Sonnet 4.5", "claude-sonnet-4-20250514"),
        ("sonnet-4", "claude-sonnet-4-20250514"),
        ("llama3.1:70b", "llama3.1:70b"),
    ],
)
@pytest.mark.row("I-25", "4.2.2")
def test_an_alias_is_the_model_that_it_stands_for(alias: str, model_name: str) -> None:
    assert LLMFactory.create(alias).model == model_name


@pytest.mark.row("I-25")
def test_a_provider_and_a_model_make_a_client() -> None:
    create: Any = LLMFactory.create
    assert create("ollama", model="llama3.1").model == "llama3.1"


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("I-30", "4.4.5")
def test_each_piece_is_told_to_who_collects_a_stream(name: str) -> None:
    told: list[Any] = []
    with simulate([["One, ", "two."]]) as model:
        stream: Any = sync.stream("?", name, "m", options=options_at(name, model.url, api_key=KEY))
        stream.collect(on_chunk=told.append)
    assert "".join(getattr(piece, "text", "") for piece in told) == "One, two."


@pytest.mark.row("I-31")
def test_a_tool_may_say_input_schema() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    assert Tool.new(name="look", description="Look.", input_schema=schema).parameters == schema


@pytest.mark.row("I-31")
def test_a_tool_is_a_class_with_a_name_a_description_and_a_schema() -> None:
    class Look:
        name = "look"
        description = "Look."
        input_schema: ClassVar[dict[str, Any]] = {"type": "object", "properties": {"q": {"type": "string"}}}

        def execute(self, arguments: dict[str, Any], _context: Any) -> tuple[str, str]:
            return "ok", f"looked at {arguments['q']}"

    result = AgentResolver([Look()]).resolve(ToolCall("1", "look", {"q": "x"}))
    assert result == ToolResult("1", "look", "looked at x")


@pytest.mark.row("R003-57")
def test_a_page_shows_how_a_stream_is_read_and_its_calls_are_run_by_hand() -> None:
    pages = [page.read_text() for page in (Path(__file__).resolve().parent.parent / "docs").glob("*.md")]
    words = ("stream(", ".next()", ".collect(", "auto_tools=False")
    assert any(all(word in page for word in words) for page in pages)
