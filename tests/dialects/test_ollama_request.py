"""Tools, choices and settings from elsewhere in the words of Ollama."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, asking, losses
from toolwire import Cache, Context, Image, Message, Opaque, Output, Request, ServerTool, Tool, ToolChoice
from toolwire.dialects import ollama

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
LOOK, FIND = Tool("look", "Look.", SCHEMA), Tool("find", "Find.", SCHEMA)
PNG = "iVBORw0KGgoAAAA"

TOOLS: dict[str, tuple[Tool | ServerTool, list[Any], list[Said]]] = {
    "plain": (
        LOOK,
        [{"type": "function", "function": {"name": "look", "description": "Look.", "parameters": SCHEMA}}],
        [],
    ),
    "bare": (Tool("look"), [{"type": "function", "function": {"name": "look"}}], []),
    "with more": (
        Tool(
            "look",
            metadata={"a": 1},
            strict=True,
            cache=Cache(),
            opaque=Opaque("anthropic", {"defer_loading": True}),
        ),
        [{"type": "function", "function": {"name": "look"}}],
        [
            ("tools[0].strict", "dropped", "minor"),
            ("tools[0].metadata", "dropped", "formal"),
            ("tools[0].cache", "dropped", "formal"),
            ("tools[0].opaque.defer_loading", "dropped", "minor"),
        ],
    ),
    "free text": (
        Tool("run", "Run.", custom=True, format={"type": "text"}),
        [
            {
                "type": "function",
                "function": {
                    "name": "run",
                    "description": "Run.",
                    "parameters": {
                        "type": "object",
                        "properties": {"input": {"type": "string"}},
                        "required": ["input"],
                    },
                },
            }
        ],
        [("tools[0].custom", "approximated", "minor"), ("tools[0].format", "dropped", "formal")],
    ),
    "a server's": (ServerTool("web_search", "anthropic", {}), [], [("tools[0]", "dropped", "semantic")]),
    "its own server's": (ServerTool("search", "ollama", {"type": "search"}), [{"type": "search"}], []),
}


@pytest.mark.parametrize("case", TOOLS)
def test_a_tool(case: str) -> None:
    tool, bodies, lost = TOOLS[case]
    encoded = ollama.encode_request(asking([], tools=[tool]))
    assert (encoded.body.get("tools", []), losses(encoded)) == (bodies, lost)


def test_a_schema_in_the_words_that_a_server_keeps() -> None:
    schema = {
        "type": "object",
        "properties": {"unit": {"const": "C"}, "city": {"$ref": "#/$defs/city"}},
        "$defs": {"city": {"type": "string", "maxLength": 9}},
    }
    encoded = ollama.encode_request(asking([], tools=[Tool("look", "Look.", schema)]))
    assert encoded.body["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {"unit": {"enum": ["C"]}, "city": {"type": "string", "description": "(maxLength: 9)"}},
    }
    assert losses(encoded) == [("tools[0].parameters.properties.city", "moved", "minor")]


ASK, ASK_NAMED = "Answer this by calling a tool.", "Answer this by calling one of these tools: find."
CHOICES: dict[str, tuple[ToolChoice | None, list[str], str, list[Said]]] = {
    "absent": (None, ["look", "find"], "Hi", []),
    "auto": (ToolChoice("auto"), ["look", "find"], "Hi", []),
    "none": (
        ToolChoice("none"),
        [],
        "Hi",
        [
            ("tool_choice", "approximated", "minor"),
            ("tools[0]", "dropped", "minor"),
            ("tools[1]", "dropped", "minor"),
        ],
    ),
    "required": (
        ToolChoice("required"),
        ["look", "find"],
        f"Hi\n\n{ASK}",
        [("tool_choice", "approximated", "semantic")],
    ),
    "named": (
        ToolChoice("required", ["find"]),
        ["find"],
        f"Hi\n\n{ASK_NAMED}",
        [("tool_choice", "approximated", "semantic"), ("tools[0]", "dropped", "minor")],
    ),
    "narrowed": (
        ToolChoice("auto", ["find"]),
        ["find"],
        "Hi",
        [("tool_choice.names", "approximated", "minor"), ("tools[0]", "dropped", "minor")],
    ),
    "unknown": (
        ToolChoice("required", ["what"]),
        ["look", "find"],
        f"Hi\n\n{ASK}",
        [("tool_choice.names", "approximated", "semantic"), ("tool_choice", "approximated", "semantic")],
    ),
}


@pytest.mark.parametrize("case", CHOICES)
def test_a_choice_among_tools(case: str) -> None:
    choice, offered, said, lost = CHOICES[case]
    encoded = ollama.encode_request(
        asking([Message("user", "Hi"), Message("assistant", "Hm.")], tools=[LOOK, FIND], tool_choice=choice)
    )
    assert [tool["function"]["name"] for tool in encoded.body.get("tools", [])] == offered
    assert encoded.body["messages"][0] == {"role": "user", "content": said}
    assert losses(encoded) == lost
    assert "tool_choice" not in encoded.body


NOBODY_ASKS: dict[str, tuple[list[Message], list[Tool], list[dict[str, Any]]]] = {
    "no tools": ([Message("user", "Hi")], [], [{"role": "user", "content": "Hi"}]),
    "no user": (
        [Message("assistant", "Hm.")],
        [LOOK],
        [{"role": "assistant", "content": "Hm."}, {"role": "user", "content": ASK}],
    ),
    "no words": (
        [Message("user", [Image(data=PNG)])],
        [LOOK],
        [{"role": "user", "content": ASK, "images": [PNG]}],
    ),
}


@pytest.mark.parametrize(("messages", "tools", "bodies"), NOBODY_ASKS.values(), ids=NOBODY_ASKS)
def test_a_choice_without_tools_or_words(messages: list[Any], tools: list[Any], bodies: list[Any]) -> None:
    encoded = ollama.encode_request(asking(messages, tools=tools, tool_choice=ToolChoice("required")))
    assert encoded.body["messages"] == bodies
    assert losses(encoded) == [("tool_choice", *(("approximated", "semantic") if tools else ("dropped", "minor")))]


def test_a_choice_leaves_what_it_was_given_alone() -> None:
    odd = {"role": "user", "content": ["x"]}
    request = ollama.decode_request({"messages": [odd], "tools": [{"function": {"name": "look"}}]})
    forced = ollama.encode_request(replace(request, tool_choice=ToolChoice("required")))
    assert forced.body["messages"] == [{"role": "user", "content": ASK}]
    assert odd == {"role": "user", "content": ["x"]}


SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any], list[Said]]] = {
    "nothing": ({}, {}, []),
    "streaming": ({"stream": True}, {"stream": True}, []),
    "no words at all, where none means no end": (
        {"max_tokens": 0},
        {"options": {"num_predict": 1}},
        [("max_tokens", "approximated", "minor")],
    ),
    "options": (
        {"max_tokens": 5, "temperature": 1, "top_p": 0.5, "top_k": 4.0, "stop": ["a"], "seed": 3}
        | {"presence_penalty": 0.5, "frequency_penalty": 0.25},
        {
            "options": {
                "num_predict": 5,
                "temperature": 1,
                "top_p": 0.5,
                "top_k": 4.0,
                "stop": ["a"],
                "seed": 3,
            }
            | {"presence_penalty": 0.5, "frequency_penalty": 0.25}
        },
        [],
    ),
    "half a count": ({"top_k": 4.5}, {}, [("top_k", "dropped", "semantic")]),
    "logprobs": ({"logprobs": True, "top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}, []),
    "others": (
        {"n": 2, "parallel_tool_calls": False, "metadata": {"a": "b"}, "user": "u", "store": True},
        {},
        [
            ("parallel_tool_calls", "dropped", "minor"),
            ("n", "dropped", "semantic"),
            *((field, "dropped", "formal") for field in ("metadata", "user", "store")),
        ],
    ),
    "thinks": ({"thinking": "enabled"}, {"think": True}, []),
    "does not": ({"thinking": "disabled"}, {"think": False}, []),
    "adapts": ({"thinking": "adaptive"}, {"think": True}, [("thinking", "approximated", "minor")]),
    "thinks hard": ({"thinking": "enabled", "effort": "high"}, {"think": "high"}, []),
    "tries without": (
        {"thinking": "disabled", "effort": "low"},
        {"think": False},
        [("effort", "dropped", "semantic")],
    ),
    "thinks about nothing": (
        {"thinking": "enabled", "effort": "none"},
        {"think": False},
        [("thinking", "approximated", "minor")],
    ),
    "tries unheard of": ({"effort": "utmost"}, {}, [("effort", "dropped", "semantic")]),
    "has a budget": ({"thinking_budget": 9}, {"think": True}, [("thinking_budget", "approximated", "minor")]),
    "has a budget of nothing": ({"thinking_budget": 0}, {"think": False}, []),
    "none": ({"effort": "none"}, {"think": False}, []),
    "minimal": ({"effort": "minimal"}, {"think": "low"}, [("effort", "approximated", "minor")]),
    "low": ({"effort": "low"}, {"think": "low"}, []),
    "medium": ({"effort": "medium"}, {"think": "medium"}, []),
    "high": ({"effort": "high"}, {"think": "high"}, []),
    "xhigh": ({"effort": "xhigh"}, {"think": "max"}, [("effort", "approximated", "minor")]),
    "max": ({"effort": "max"}, {"think": "max"}, []),
    "text": ({"output": Output("text")}, {"format": ""}, []),
    "json": ({"output": Output("json")}, {"format": "json"}, []),
    "schema": (
        {"output": Output("schema", SCHEMA, "answer", "An answer.", strict=True)},
        {"format": SCHEMA},
        [(f"output.{field}", "dropped", "minor") for field in ("name", "description", "strict")],
    ),
    "no schema": ({"output": Output("schema")}, {"format": "json"}, [("output", "approximated", "semantic")]),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_a_setting(case: str) -> None:
    fields, said, lost = SETTINGS[case]
    encoded = ollama.encode_request(asking([], **fields))
    assert encoded.body == {"model": "m", "messages": [], "stream": False, **said}
    assert losses(encoded) == lost


def test_a_format_keeps_a_model_from_calling() -> None:
    encoded = ollama.encode_request(asking([], tools=[LOOK], output=Output("json")))
    assert losses(encoded) == [("output", "approximated", "semantic")]


def test_state_and_other_wires_stay_behind() -> None:
    context = Context(provider_state={"previous_response_id": "r"})
    encoded = ollama.encode_request(Request(context=context, opaque=Opaque("openai-chat", {"modalities": ["text"]})))
    assert losses(encoded) == [
        ("provider_state.previous_response_id", "dropped", "semantic"),
        ("opaque.modalities", "dropped", "semantic"),
    ]
