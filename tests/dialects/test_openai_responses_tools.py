"""Tools and the choice among them in the words of Responses, both ways."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, asking, losses
from tests.wires import differences
from toolwire import (
    Cache,
    Context,
    Opaque,
    Request,
    ServerTool,
    Tool,
    ToolChoice,
)
from toolwire.dialects import openai_chat, openai_responses

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
LOOK, RUN = Tool("look", "Look.", SCHEMA), Tool("run", custom=True)
NOTHING = {"type": "object", "properties": {}}
GRAMMAR = {"syntax": "lark", "definition": 'start: "a"'}
Case = tuple[Any, Any, list[Said]]

TOOLS: dict[str, Case] = {
    "plain": (
        LOOK,
        {"type": "function", "name": "look", "description": "Look.", "parameters": SCHEMA, "strict": False},
        [],
    ),
    "bare": (
        Tool("look"),
        {"type": "function", "name": "look", "parameters": NOTHING, "strict": False},
        [("tools[0].parameters", "defaulted", "minor")],
    ),
    "bare and strict": (
        Tool("look", strict=True),
        {
            "type": "function",
            "name": "look",
            "parameters": {**NOTHING, "additionalProperties": False, "required": []},
            "strict": True,
        },
        [("tools[0].parameters", "defaulted", "minor")],
    ),
    "strict": (
        Tool("look", None, SCHEMA, strict=True),
        {
            "type": "function",
            "name": "look",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": ["string", "null"]}},
                "required": ["city"],
                "additionalProperties": False,
            },
            "strict": True,
        },
        [("tools[0].parameters", "approximated", "formal")],
    ),
    "a name that is too long and has a dot": (
        Tool("a." + "b" * 127, None, NOTHING),
        {"type": "function", "name": "a_" + "b" * 117 + "_d2f45d29", "parameters": NOTHING, "strict": False},
        [],
    ),
    "free text": (RUN, {"type": "custom", "name": "run"}, []),
    "free text of a grammar": (
        Tool("run", custom=True, format={"type": "grammar", "grammar": GRAMMAR}),
        {"type": "custom", "name": "run", "format": {"type": "grammar", **GRAMMAR}},
        [],
    ),
    "with more": (
        replace(LOOK, metadata={"a": 1}, cache=Cache(), opaque=Opaque("anthropic", {"input_examples": [1]})),
        {"type": "function", "name": "look", "description": "Look.", "parameters": SCHEMA, "strict": False},
        [
            ("tools[0].metadata", "dropped", "formal"),
            ("tools[0].cache", "dropped", "formal"),
            ("tools[0].opaque.input_examples", "dropped", "semantic"),
        ],
    ),
    "a server's": (ServerTool("web_search", "anthropic", {}), None, [("tools[0]", "dropped", "semantic")]),
    "its own server's": (
        ServerTool("web_search", "openai-responses", {"type": "web_search"}),
        {"type": "web_search"},
        [],
    ),
}


@pytest.mark.parametrize("case", TOOLS)
def test_a_tool_from_elsewhere(case: str) -> None:
    tool, body, lost = TOOLS[case]
    encoded = openai_responses.encode_request(asking([], tools=[tool]))
    assert (encoded.body.get("tools", [None])[0], losses(encoded)) == (body, lost)


OWN_TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "look", "parameters": SCHEMA, "strict": True, "description": None},
    {"type": "function", "name": "look", "parameters": None, "strict": None, "defer_loading": True},
    {"type": "function", "name": "srv_look__tw3-2f", "parameters": SCHEMA},
    {"type": "custom", "name": "run", "format": {"type": "grammar", **GRAMMAR}},
    {"type": "custom", "name": "run", "format": {"type": "text"}},
    {"type": "custom", "name": "run", "format": {"type": "new"}},
    {"type": "namespace", "name": "crm", "description": "d", "tools": []},
    {"type": "mcp", "server_label": "s", "server_url": "u", "require_approval": "never"},
    {"type": "function"},
]


@pytest.mark.parametrize("tool", OWN_TOOLS)
def test_a_tool_comes_back(tool: dict[str, Any]) -> None:
    body = {"model": "m", "input": [], "tools": [tool]}
    encoded = openai_responses.encode_request(openai_responses.decode_request(body))
    assert differences(body, encoded.body) == []
    assert encoded.losses == ()


def test_a_grammar_is_the_same_tool_in_chat_completions() -> None:
    request = openai_responses.decode_request({"tools": [OWN_TOOLS[3]]})
    [tool] = openai_chat.encode_request(request).body["tools"]
    assert tool == {
        "type": "custom",
        "custom": {"name": "run", "format": {"type": "grammar", "grammar": GRAMMAR}},
    }


CHOICES: dict[str, Case] = {
    "auto": (ToolChoice("auto"), "auto", []),
    "none": (ToolChoice("none"), "none", []),
    "required": (ToolChoice("required"), "required", []),
    "named": (ToolChoice("required", ["look"]), {"type": "function", "name": "look"}, []),
    "named custom": (ToolChoice("required", ["run"]), {"type": "custom", "name": "run"}, []),
    "some": (
        ToolChoice("auto", ["look"]),
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]},
        [],
    ),
    "one of some": (
        ToolChoice("required", ["look", "run"]),
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "look"}, {"type": "custom", "name": "run"}],
        },
        [],
    ),
    "none of some": (
        ToolChoice("none", ["look"]),
        "none",
        [("tool_choice.names", "dropped", "minor")],
    ),
}


@pytest.mark.parametrize("case", CHOICES)
def test_a_choice(case: str) -> None:
    choice, body, lost = CHOICES[case]
    encoded = openai_responses.encode_request(asking([], tools=[LOOK, RUN], tool_choice=choice))
    assert (encoded.body["tool_choice"], losses(encoded)) == (body, lost)
    if case != "none of some":
        assert openai_responses.decode_request(encoded.body).tool_choice == choice


@pytest.mark.parametrize("choice", [{"type": "mcp", "server_label": "s"}, {"type": "web_search"}, None, {}, []])
def test_a_choice_of_this_wire_alone_comes_back(choice: Any) -> None:
    body = {"model": "m", "input": "Hi", "tool_choice": choice}
    request = openai_responses.decode_request(body)
    assert request.tool_choice is None
    assert openai_responses.encode_request(request).body == body


def test_a_chosen_name_is_the_name_of_the_tool() -> None:
    request = Request(context=Context(tools=[Tool("srv/look")]), tool_choice=ToolChoice("required", ["srv/look"]))
    body = openai_responses.encode_request(request).body
    assert body["tool_choice"]["name"] == body["tools"][0]["name"] == "srv_look__tw3-2f"
    back = openai_responses.decode_request(body)
    assert back.tool_choice == request.tool_choice
    assert openai_chat.encode_request(back).body["tool_choice"]["function"]["name"] == "srv_look__tw3-2f"


def test_a_choice_of_functions_and_hosted_tools_keeps_the_functions_elsewhere() -> None:
    tools: list[Any] = [{"type": "function", "name": "look"}, {"type": "web_search"}, {"type": "apply_patch"}]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": tools}
    body = {"model": "m", "input": "Hi", "tools": tools, "tool_choice": choice}
    request = openai_responses.decode_request(body)
    assert request.tool_choice == ToolChoice("auto", ["look", "apply_patch"])
    assert openai_responses.encode_request(request).body == body
    encoded = openai_chat.encode_request(request)
    assert encoded.body["tool_choice"]["allowed_tools"]["tools"] == [
        {"type": "function", "function": {"name": "look"}},
        {"type": "function", "function": {"name": "apply_patch"}},
    ]
    assert losses(encoded) == [
        ("tools[1]", "dropped", "semantic"),
        ("opaque.tool_choice", "dropped", "semantic"),
    ]
