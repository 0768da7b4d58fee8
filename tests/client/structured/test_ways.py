"""The way to an answer of the wanted form: which one is taken, and what each dialect is sent on it."""

from typing import Any

import pytest

from tests.client.structured.wanting import (
    INSTRUCTION,
    MODELS,
    NATIVE,
    STRICT,
    TOOL,
    WEATHER,
    Person,
    Point,
    Tree,
    asking,
    sent,
)
from toolwire.client.structured import OutputForm, OutputMethod, choose_method, prepare
from toolwire.errors import InvalidField
from toolwire.loop.steps import ANSWER
from toolwire.providers import PROVIDERS, provider_of
from toolwire.types import Output, Tool, ToolChoice

# The way for a type that can be held to strictly, for one that cannot; then both beside the caller's tools.
CHOSEN: list[tuple[str, str, OutputMethod, OutputMethod, OutputMethod, OutputMethod]] = [
    ("openai", "gpt-6-sol", STRICT, NATIVE, STRICT, NATIVE),
    ("openai-responses", "gpt-6-sol", STRICT, NATIVE, STRICT, NATIVE),
    ("anthropic", "claude-opus-5", NATIVE, TOOL, NATIVE, TOOL),
    ("anthropic", "claude-3-5-sonnet-latest", TOOL, TOOL, TOOL, TOOL),
    ("anthropic", "claude-sonnet-4-20250514", TOOL, TOOL, TOOL, TOOL),
    ("anthropic", "claude-sonnet-4-5-20250929", NATIVE, TOOL, NATIVE, TOOL),
    ("gemini", "gemini-3.5-flash", NATIVE, NATIVE, NATIVE, NATIVE),
    ("gemini", "gemini-2.5-pro", NATIVE, NATIVE, TOOL, TOOL),
    ("ollama", "qwen3", NATIVE, NATIVE, INSTRUCTION, INSTRUCTION),
    ("openai", "gpt-4-turbo", TOOL, TOOL, TOOL, TOOL),
    ("openai", "gpt-4.1", STRICT, NATIVE, STRICT, NATIVE),
    ("vllm", "m", STRICT, NATIVE, TOOL, TOOL),
    ("groq", "m", STRICT, NATIVE, TOOL, TOOL),
    ("deepseek", "m", TOOL, TOOL, TOOL, TOOL),
    ("ollama-v1", "m", STRICT, NATIVE, INSTRUCTION, INSTRUCTION),
]


@pytest.mark.parametrize(
    ("name", "model", "alone", "loose", "beside", "loose_beside"),
    CHOSEN,
    ids=[f"{row[0]}-{row[1]}" for row in CHOSEN],
)
@pytest.mark.row("R001-10")
def test_the_first_way_that_can_be_said_is_taken(
    name: str, model: str, alone: OutputMethod, loose: OutputMethod, beside: OutputMethod, loose_beside: OutputMethod
) -> None:
    """Native where there is one, else by tool, else by instruction."""
    found = [
        choose_method(PROVIDERS[name], OutputForm.of(given), asking(model, tools))
        for tools in ([], [WEATHER])
        for given in (Person, dict[str, int])
    ]
    assert found == [alone, loose, beside, loose_beside]


OLDER = "claude-3-7-sonnet-latest"


@pytest.mark.parametrize(
    ("name", "model", "can", "settings", "way"),
    [
        ("anthropic", OLDER, {}, {"thinking": "enabled", "thinking_budget": 2000}, INSTRUCTION),
        ("anthropic", OLDER, {}, {"thinking": "disabled"}, TOOL),
        ("anthropic", "claude-opus-5", {}, {"thinking": "adaptive"}, NATIVE),
        ("anthropic", "claude-opus-5", {"structured_output": False}, {}, TOOL),
        ("openai", "gpt-6-sol", {"structured_output": False, "tool_choice": False}, {}, INSTRUCTION),
        ("openai", "gpt-6-sol", {"structured_output": False, "native_tool_calls": False}, {}, INSTRUCTION),
        ("openai", "gpt-6-sol", {"native_tool_calls": False}, {"tools": [WEATHER]}, INSTRUCTION),
        ("openai", "gpt-6-sol", {"native_tool_calls": False}, {}, STRICT),
    ],
)
def test_what_the_server_cannot_do_is_not_asked_of_it(
    name: str, model: str, can: Any, settings: dict[str, Any], way: OutputMethod
) -> None:
    provider = PROVIDERS[name].with_options(capabilities=can)
    assert choose_method(provider, OutputForm.of(Person), asking(model, **settings)) == way


def test_a_tool_is_not_called_where_the_server_keeps_the_conversation() -> None:
    provider = PROVIDERS["openai-responses"].with_options(capabilities={"structured_output": False})
    request = asking("gpt-6-sol")
    kept = type(request.context)(messages=request.messages, provider_state={"previous_response_id": "r"})
    assert choose_method(provider, OutputForm.of(Person), request) == TOOL
    assert choose_method(provider, OutputForm.of(Person), type(request)(model="m", context=kept)) == INSTRUCTION


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["native", "tool", "instruction"])
def test_the_caller_may_insist_on_a_way(name: str, kind: Any) -> None:
    assert choose_method(PROVIDERS[name], OutputForm.of(Tree), asking(MODELS[name]), kind).kind == kind


def test_a_way_that_there_is_not_is_refused() -> None:
    kind: Any = "prompted"
    with pytest.raises(InvalidField, match="must be native, tool or instruction"):
        choose_method(PROVIDERS["openai"], OutputForm.of(Point), asking(), kind)


INNER = {"x": {"type": "integer"}, "y": {"type": "integer"}}
POINT: dict[str, Any] = {
    "type": "object",
    "properties": INNER,
    "required": ["x", "y"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "name": "response", "schema": POINT, "strict": True}
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("openai", "native"): {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "response", "schema": POINT, "strict": True},
        }
    },
    ("openai-responses", "native"): {"text": {"format": FORM}},
    ("anthropic", "native"): {"output_config": {"format": {"type": "json_schema", "schema": POINT}}},
    ("gemini", "native"): {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": POINT}},
    ("ollama", "native"): {"format": POINT},
    ("openai", "tool"): {"tool_choice": {"type": "function", "function": {"name": ANSWER}}},
    ("openai-responses", "tool"): {"tool_choice": {"type": "function", "name": ANSWER}},
    ("anthropic", "tool"): {"tool_choice": {"type": "tool", "name": ANSWER}},
    ("gemini", "tool"): {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [ANSWER]}}},
    ("ollama", "tool"): {},
    **{(name, "instruction"): {} for name in MODELS},
}
SAYS_FORM = {"response_format", "text", "output_config", "generationConfig", "format"}
SAYS_TOOLS = {"tools", "tool_choice", "toolConfig"}


@pytest.mark.parametrize(("name", "kind"), BODIES)
@pytest.mark.row("I-34", "R001-10")
def test_each_dialect_is_sent_each_way(name: str, kind: Any) -> None:
    """What stands in the body, and that the strict servers take it."""
    wanted, request = OutputForm.of(Point), asking(MODELS[name])
    body = sent(name, prepare(request, wanted, choose_method(PROVIDERS[name], wanted, request, kind)))
    expected = BODIES[name, kind]
    assert {key: body[key] for key in expected} == expected
    said = {
        "form": bool(SAYS_FORM & body.keys()),
        "tools": bool(SAYS_TOOLS & body.keys()),
        "words": "Form of the answer" in repr(body),
    }
    assert said == {"form": kind == "native", "tools": kind == "tool", "words": kind == "instruction"}
    if kind == "tool":
        assert repr(body["tools"]).count(ANSWER) == 1
        assert repr(POINT["properties"]) in repr(body["tools"])


@pytest.mark.sampled
@pytest.mark.parametrize("given", [Point, Tree, list[int], dict[str, int], Any])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("tools", [[], [WEATHER]], ids=["alone", "beside tools"])
def test_the_strict_servers_take_what_is_chosen(name: str, given: Any, tools: list[Tool]) -> None:
    wanted, request = OutputForm.of(given), asking(MODELS[name], tools)
    sent(name, prepare(request, wanted, choose_method(PROVIDERS[name], wanted, request)))


def test_nothing_is_changed_in_the_request_itself() -> None:
    request = asking(tools=[WEATHER])
    before = repr(request)
    for way in (STRICT, NATIVE, TOOL, INSTRUCTION):
        assert prepare(request, OutputForm.of(Point), way) == prepare(request, OutputForm.of(Point), way)
    assert repr(request) == before


@pytest.mark.parametrize(
    ("tools", "given", "choice"),
    [
        ([], None, ToolChoice("required", [ANSWER])),
        ([], ToolChoice("auto"), ToolChoice("required", [ANSWER])),
        ([WEATHER], None, ToolChoice("required")),
        ([WEATHER], ToolChoice("auto"), ToolChoice("required")),
        ([WEATHER], ToolChoice("auto", ["get_weather"]), ToolChoice("required", ["get_weather", ANSWER])),
        ([WEATHER], ToolChoice("none"), ToolChoice("required", [ANSWER])),
        ([WEATHER], ToolChoice("required"), ToolChoice("required")),
        ([WEATHER], ToolChoice("required", ["get_weather"]), ToolChoice("required", ["get_weather"])),
    ],
)
def test_the_tools_of_the_caller_come_first(tools: list[Tool], given: Any, choice: ToolChoice) -> None:
    asked = prepare(asking(tools=tools, tool_choice=given), OutputForm.of(Point), TOOL)
    assert asked.tool_choice == choice
    assert [getattr(tool, "name", "") for tool in asked.tools] == [*(tool.name for tool in tools), ANSWER]


def test_the_name_of_the_answers_tool_is_taken() -> None:
    with pytest.raises(InvalidField, match=f"a tool named {ANSWER}"):
        prepare(asking(tools=[Tool(ANSWER, "", {})]), OutputForm.of(Point), TOOL)


def test_the_form_of_the_answer_is_said_in_one_way_only() -> None:
    request = asking(output=Output("json"))
    assert prepare(request, OutputForm.of(Point), NATIVE).output == Output("schema", POINT)
    assert prepare(request, OutputForm.of(Point), TOOL).output is None
    assert prepare(request, OutputForm.of(Point), INSTRUCTION).output is None


def test_instructions_stand_at_the_end_of_the_system_prompt() -> None:
    system = prepare(asking(), OutputForm.of(Point), INSTRUCTION).system
    assert isinstance(system, str)
    assert system.startswith("Be brief.\n\n# Form of the answer")
    assert system.endswith('"additionalProperties": false}')


def test_capabilities_can_be_said_of_any_server() -> None:
    given = {
        "dialect": "openai-chat",
        "base_url": "http://x/v1",
        "capabilities": {"structured_output": False},
    }
    provider, _ = provider_of(given, "m")
    assert choose_method(provider, OutputForm.of(Point), asking()) == TOOL
