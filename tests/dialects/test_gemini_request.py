"""Tools, choices and settings from elsewhere in the words of generateContent."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, asking, losses
from toolwire import Cache, Message, Opaque, Output, ServerTool, Tool, ToolChoice
from toolwire.dialects import gemini

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = Tool("look", "Look.", SCHEMA)
DECLARED = {"name": "look", "description": "Look.", "parametersJsonSchema": SCHEMA}


def body_of(model: str = "m", **fields: Any) -> tuple[dict[str, Any], list[Said]]:
    request = replace(asking([Message("Go.")], **fields), model=model)
    encoded = gemini.encode_request(request)
    assert encoded.body.pop("contents") == [{"role": "user", "parts": [{"text": "Go."}]}]
    return encoded.body, losses(encoded)


TOOLS: list[tuple[Any, Any, list[Said]]] = [
    (TOOL, DECLARED, []),
    (Tool("look"), {"name": "look"}, []),
    (Tool("look", parameters={}), {"name": "look"}, []),
    (
        Tool(
            "look",
            parameters={
                "type": "object",
                "properties": {"a": {"const": 1}, "b": {"allOf": [{"type": "string"}]}},
            },
        ),
        {
            "name": "look",
            "parametersJsonSchema": {
                "type": "object",
                "properties": {"a": {"enum": [1]}, "b": {"type": "string"}},
            },
        },
        [("tools[0].parameters", "approximated", "formal")],
    ),
    (
        Tool("look", parameters={"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}}),
        {
            "name": "look",
            "parametersJsonSchema": {
                "type": "object",
                "properties": {"a": {"type": "string", "description": "(maxLength: 5)"}},
            },
        },
        [("tools[0].parameters.properties.a", "moved", "minor")],
    ),
    (Tool("look", strict=False), {"name": "look"}, [("tools[0].strict", "dropped", "formal")]),
    (Tool("look", metadata={"a": 1}), {"name": "look"}, [("tools[0].metadata", "dropped", "formal")]),
    (Tool("look", cache=Cache()), {"name": "look"}, [("tools[0].cache", "dropped", "formal")]),
    (
        Tool("look", opaque=Opaque("elsewhere", {"a": 1})),
        {"name": "look"},
        [("tools[0].opaque.a", "dropped", "semantic")],
    ),
    (
        Tool("sql", custom=True, format={"type": "text"}),
        {
            "name": "sql",
            "parametersJsonSchema": {
                "type": "object",
                "properties": {"input": {"type": "string"}},
                "required": ["input"],
            },
        },
        [("tools[0].custom", "approximated", "minor"), ("tools[0].format", "dropped", "formal")],
    ),
]


@pytest.mark.parametrize(("tool", "declared", "lost"), TOOLS)
def test_tools(tool: Tool, declared: dict[str, Any], lost: list[Said]) -> None:
    assert body_of(tools=[tool]) == ({"tools": [{"functionDeclarations": [declared]}]}, lost)


def test_declarations_share_an_object_and_tools_of_the_server_have_their_own() -> None:
    search = ServerTool("googleSearch", "gemini", {"googleSearch": {}})
    theirs = ServerTool("web_search", "elsewhere", {"type": "web_search"})
    body, lost = body_of(tools=[TOOL, search, theirs, Tool("find")])
    assert body == {"tools": [{"functionDeclarations": [DECLARED, {"name": "find"}]}, {"googleSearch": {}}]}
    assert lost == [("tools[2]", "dropped", "semantic")]


def calling(mode: str, *names: str) -> dict[str, Any]:
    return {"functionCallingConfig": {"mode": mode, **({"allowedFunctionNames": [*names]} if names else {})}}


NAMES = "tool_choice.names"
CHOICES: list[tuple[ToolChoice, dict[str, Any], list[Said]]] = [
    (ToolChoice("auto"), calling("AUTO"), []),
    (ToolChoice("none"), calling("NONE"), []),
    (ToolChoice("required"), calling("ANY"), []),
    (ToolChoice("required", ["look"]), calling("ANY", "look"), []),
    (ToolChoice("required", ["look", "b/c"]), calling("ANY", "look", "b_c__tw1-2f"), []),
    (ToolChoice("required", ["look", "x"]), calling("ANY", "look"), [(NAMES, "approximated", "semantic")]),
    (ToolChoice("auto", ["look"]), calling("VALIDATED", "look"), [("tool_choice", "approximated", "minor")]),
    (ToolChoice("none", ["look"]), calling("NONE"), [("tool_choice.names", "dropped", "minor")]),
]


@pytest.mark.parametrize(("choice", "written", "lost"), CHOICES)
def test_choices(choice: ToolChoice, written: dict[str, Any], lost: list[Said]) -> None:
    body, found = body_of(tools=[TOOL, Tool("b/c")], tool_choice=choice)
    assert (body["toolConfig"], found) == (written, lost)


STRICT: list[tuple[ToolChoice | None, dict[str, Any]]] = [
    (None, calling("VALIDATED")),
    (ToolChoice("auto"), calling("VALIDATED")),
    (ToolChoice("auto", ["look"]), calling("VALIDATED", "look")),
    (ToolChoice("required"), calling("ANY")),
    (ToolChoice("none"), calling("NONE")),
]


@pytest.mark.parametrize(("choice", "written"), STRICT)
def test_a_strict_tool_has_calls_validated(choice: ToolChoice | None, written: dict[str, Any]) -> None:
    body, lost = body_of(tools=[TOOL, replace(TOOL, name="find", strict=True)], tool_choice=choice)
    assert body["toolConfig"] == written
    assert ("tools[1].strict", "approximated", "minor") in lost


SETTINGS: list[tuple[dict[str, Any], dict[str, Any], list[Said]]] = [
    (
        {"temperature": 0.2, "top_p": 0.9, "top_k": 3, "max_tokens": 9, "stop": ["END"], "seed": 7, "n": 2},
        {
            "generationConfig": {
                "temperature": 0.2,
                "topP": 0.9,
                "topK": 3,
                "maxOutputTokens": 9,
                "stopSequences": ["END"],
                "seed": 7,
                "candidateCount": 2,
            }
        },
        [],
    ),
    (
        {"presence_penalty": 0.5, "frequency_penalty": 0.1, "logprobs": True, "top_logprobs": 3},
        {
            "generationConfig": {
                "presencePenalty": 0.5,
                "frequencyPenalty": 0.1,
                "responseLogprobs": True,
                "logprobs": 3,
            }
        },
        [],
    ),
    ({"temperature": 2.5}, {}, [("temperature", "dropped", "semantic")]),
    ({"top_p": 1.5}, {}, [("top_p", "dropped", "semantic")]),
    ({"seed": 2**31}, {}, [("seed", "dropped", "semantic")]),
    ({"seed": -(2**31)}, {"generationConfig": {"seed": -(2**31)}}, []),
    ({"presence_penalty": -3}, {}, [("presence_penalty", "dropped", "semantic")]),
    ({"frequency_penalty": 3}, {}, [("frequency_penalty", "dropped", "semantic")]),
    ({"max_tokens": 0}, {"generationConfig": {"maxOutputTokens": 1}}, [("max_tokens", "approximated", "minor")]),
    (
        {"stop": ["a", "b", "c", "d", "e", "f"]},
        {"generationConfig": {"stopSequences": ["a", "b", "c", "d", "e"]}},
        [("stop", "approximated", "semantic")],
    ),
    ({"metadata": {"a": "b", "c": 1}}, {"labels": {"a": "b"}}, [("metadata.c", "dropped", "formal")]),
    ({"metadata": {"c": 1}}, {}, [("metadata.c", "dropped", "formal")]),
    ({"service_tier": "priority"}, {"serviceTier": "priority"}, []),
    ({"service_tier": "default"}, {"serviceTier": "standard"}, []),
    ({"service_tier": "scale"}, {}, [("service_tier", "dropped", "minor")]),
    ({"store": True}, {"store": True}, []),
    ({"tool_choice": ToolChoice("auto")}, {}, [("tool_choice", "dropped", "minor")]),
    ({"parallel_tool_calls": False}, {}, [("parallel_tool_calls", "dropped", "minor")]),
    ({"logit_bias": {"1": 2}}, {}, [("logit_bias", "dropped", "semantic")]),
    ({"user": "u"}, {}, [("user", "dropped", "formal")]),
    ({"cache_key": "k"}, {}, [("cache_key", "dropped", "formal")]),
    ({"opaque": Opaque("elsewhere", {"a": 1})}, {}, [("opaque.a", "dropped", "semantic")]),
]


@pytest.mark.parametrize(("fields", "written", "lost"), SETTINGS)
def test_settings(fields: dict[str, Any], written: dict[str, Any], lost: list[Said]) -> None:
    assert body_of(**fields) == (written, lost)


def test_settings_that_were_read_here_stay_whatever_they_are() -> None:
    config = {"temperature": 9, "topP": 2, "seed": 2**40, "maxOutputTokens": 0, "stopSequences": list("abcdefg")}
    body = {"contents": [{"role": "user", "parts": [{"text": "a"}]}], "generationConfig": config}
    assert gemini.encode_request(gemini.decode_request(body)).body == body


JSON = "application/json"
OUTPUTS: list[tuple[Output, dict[str, Any], list[Said]]] = [
    (Output("text"), {"responseMimeType": "text/plain"}, []),
    (Output("json"), {"responseMimeType": JSON}, []),
    (Output("schema", SCHEMA), {"responseMimeType": JSON, "responseJsonSchema": SCHEMA}, []),
    (
        Output("schema", {"type": "array", "items": {}}),
        {"responseMimeType": JSON, "responseJsonSchema": {"type": "array", "items": {}}},
        [],
    ),
    (
        Output("schema", SCHEMA, "city", "A city.", strict=True),
        {"responseMimeType": JSON, "responseJsonSchema": SCHEMA},
        [(f"output.{field}", "dropped", "minor") for field in ("name", "description", "strict")],
    ),
]


@pytest.mark.parametrize(("output", "written", "lost"), OUTPUTS)
def test_the_form_of_the_answer(output: Output, written: dict[str, Any], lost: list[Said]) -> None:
    assert body_of(output=output) == ({"generationConfig": written}, lost)


OLD, NEW, NEWER = "gemini-2.5-flash", "gemini-3-flash", "gemini-4-argon"
OLD_PRO, PRO, NEW_PRO = "gemini-2.5-pro", "gemini-3-pro-preview", "gemini-3.1-pro-preview"
THINKING: list[tuple[str, dict[str, Any], dict[str, Any], list[Said]]] = [
    (NEW, {"effort": "high"}, {"thinkingLevel": "HIGH"}, []),
    (NEW, {"effort": "none"}, {"thinkingLevel": "MINIMAL"}, [("effort", "approximated", "semantic")]),
    (NEW, {"effort": "max"}, {"thinkingLevel": "HIGH"}, [("effort", "approximated", "semantic")]),
    ("m", {"effort": "max"}, {"thinkingLevel": "XHIGH"}, [("effort", "approximated", "semantic")]),
    (PRO, {"effort": "medium"}, {"thinkingLevel": "HIGH"}, [("effort", "approximated", "semantic")]),
    (PRO, {"effort": "minimal"}, {"thinkingLevel": "LOW"}, [("effort", "approximated", "semantic")]),
    (NEW_PRO, {"effort": "medium"}, {"thinkingLevel": "MEDIUM"}, []),
    (NEW_PRO, {"effort": "none"}, {"thinkingLevel": "LOW"}, [("effort", "approximated", "semantic")]),
    ("gemini-3.7-flash", {"effort": "minimal"}, {"thinkingLevel": "LOW"}, [("effort", "approximated", "semantic")]),
    (OLD_PRO, {"thinking": "disabled"}, {"thinkingBudget": 128}, [("thinking", "approximated", "minor")]),
    (
        OLD_PRO,
        {"effort": "none"},
        {"thinkingBudget": 128},
        [("effort", "approximated", "minor"), ("thinking", "approximated", "minor")],
    ),
    (OLD_PRO, {"thinking": "adaptive"}, {"thinkingBudget": -1}, [("thinking", "approximated", "minor")]),
    (NEWER, {"effort": "minimal"}, {"thinkingLevel": "LOW"}, [("effort", "approximated", "semantic")]),
    (NEWER, {"effort": "max"}, {"thinkingLevel": "HIGH"}, [("effort", "approximated", "semantic")]),
    ("m", {"effort": "low"}, {"thinkingLevel": "LOW"}, []),
    (NEW, {"effort": "huge"}, {}, [("effort", "dropped", "semantic")]),
    (OLD, {"effort": "none"}, {"thinkingBudget": 0}, [("effort", "approximated", "minor")]),
    (OLD, {"effort": "medium"}, {"thinkingBudget": 8192}, [("effort", "approximated", "minor")]),
    (OLD, {"effort": "low", "thinking_budget": 9}, {"thinkingBudget": 9}, [("effort", "dropped", "minor")]),
    (OLD, {"thinking": "disabled"}, {"thinkingBudget": 0}, []),
    (OLD, {"thinking": "adaptive"}, {"thinkingBudget": -1}, [("thinking", "approximated", "minor")]),
    (OLD, {"thinking": "enabled", "thinking_budget": 99}, {"thinkingBudget": 99}, []),
    (NEW, {"thinking_budget": 99}, {"thinkingBudget": 99}, []),
    (
        NEW,
        {"thinking_budget": 99, "effort": "low"},
        {"thinkingLevel": "LOW"},
        [("thinking_budget", "dropped", "semantic")],
    ),
    (NEWER, {"thinking_budget": 99}, {"thinkingLevel": "LOW"}, [("thinking_budget", "approximated", "minor")]),
    (NEW, {"thinking": "disabled"}, {"thinkingLevel": "MINIMAL"}, [("thinking", "approximated", "semantic")]),
    (NEW, {"thinking": "adaptive"}, {}, [("thinking", "approximated", "minor")]),
    (NEW, {"thinking": "adaptive", "effort": "low"}, {"thinkingLevel": "LOW"}, []),
    (NEW, {"thinking_display": "summarized"}, {"includeThoughts": True}, []),
    (NEW, {"thinking_display": "omitted"}, {"includeThoughts": False}, []),
    (
        NEW,
        {"thinking_display": "detailed"},
        {"includeThoughts": True},
        [("thinking_display", "approximated", "minor")],
    ),
]


@pytest.mark.parametrize(("model", "fields", "written", "lost"), THINKING)
def test_thinking(model: str, fields: dict[str, Any], written: dict[str, Any], lost: list[Said]) -> None:
    body, found = body_of(model, **fields)
    assert (body.get("generationConfig", {}).get("thinkingConfig", {}), found) == (written, lost)


def test_state_of_another_provider_is_a_loss() -> None:
    request = asking([Message("Go.")])
    context = replace(request.context, provider_state={"previous_response_id": "r"})
    encoded = gemini.encode_request(replace(request, context=context))
    assert losses(encoded) == [("provider_state.previous_response_id", "dropped", "semantic")]
