"""Tools, choices and calls from elsewhere in the words of Chat Completions, and what those words mean."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, asking, losses
from toolwire import (
    Cache,
    Message,
    Opaque,
    Quirks,
    ServerTool,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from toolwire.dialects import openai_chat
from toolwire.wire.names import Grammar

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
LOOK, FIND = Tool("look", "Look.", SCHEMA), Tool("find", "Find.", SCHEMA)
RUN = Tool("run", "Run.", custom=True)


def function(name: str = "look", **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **fields}}


TOOLS: dict[str, tuple[Tool | ServerTool, list[Any], list[Said]]] = {
    "plain": (LOOK, [function(description="Look.", parameters=SCHEMA)], []),
    "bare": (Tool("look"), [function()], []),
    "not strict": (
        replace(LOOK, strict=False),
        [function(description="Look.", parameters=SCHEMA, strict=False)],
        [],
    ),
    "strict": (
        Tool(
            "look",
            "Look.",
            {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
                "required": ["city"],
            },
            strict=True,
        ),
        [
            function(
                description="Look.",
                parameters={
                    "type": "object",
                    "properties": {
                        "city": {"type": "string"},
                        "days": {"type": ["integer", "null"], "description": "(default: 3)"},
                    },
                    "required": ["city", "days"],
                    "additionalProperties": False,
                },
                strict=True,
            )
        ],
        [("tools[0].parameters.properties.days", "moved", "minor")],
    ),
    "with more": (
        Tool("look", metadata={"a": 1}, cache=Cache(), opaque=Opaque("anthropic", {"defer_loading": True})),
        [function()],
        [
            ("tools[0].metadata", "dropped", "formal"),
            ("tools[0].cache", "dropped", "formal"),
            ("tools[0].opaque.defer_loading", "dropped", "minor"),
        ],
    ),
    "free text": (
        replace(RUN, format={"type": "text"}),
        [{"type": "custom", "custom": {"name": "run", "description": "Run.", "format": {"type": "text"}}}],
        [],
    ),
    "free text with a schema": (
        replace(RUN, parameters=SCHEMA, strict=True),
        [{"type": "custom", "custom": {"name": "run", "description": "Run."}}],
        [("tools[0].parameters", "dropped", "semantic"), ("tools[0].strict", "dropped", "semantic")],
    ),
    "a server's": (ServerTool("web_search", "anthropic", {}), [], [("tools[0]", "dropped", "semantic")]),
    "its own server's": (ServerTool("x", "openai-chat", {"type": "x"}), [{"type": "x"}], []),
    "an odd name": (Tool("srv/list.items"), [function("srv_list_items__tw3-2f_8-2e")], []),
}


@pytest.mark.parametrize("case", TOOLS)
def test_a_tool(case: str) -> None:
    tool, bodies, lost = TOOLS[case]
    encoded = openai_chat.encode_request(asking([], tools=[tool]))
    assert (encoded.body.get("tools", []), losses(encoded)) == (bodies, lost)


def test_a_server_is_sent_all_tools_that_a_request_of_its_own_has() -> None:
    own = openai_chat.decode_request({"tools": [function(f"t{number}") for number in range(129)]})
    assert len(openai_chat.encode_request(own).body["tools"]) == 129


REASONING: list[tuple[str, str | None, list[Tool], str | None, list[Said]]] = [
    ("gpt-6", "low", [LOOK], "none", [("effort", "approximated", "semantic")]),
    ("gpt-6.2-sol", "max", [LOOK], "none", [("effort", "approximated", "semantic")]),
    ("openai/gpt-5.6", "minimal", [LOOK], "none", [("effort", "approximated", "semantic")]),
    ("gpt-6", "none", [LOOK], "none", []),
    ("gpt-6", None, [LOOK], "none", [("effort", "defaulted", "semantic")]),
    ("gpt-6", "low", [], "low", []),
    ("gpt-5.1", "low", [LOOK], "low", []),
]


@pytest.mark.parametrize(("model", "effort", "tools", "written", "lost"), REASONING)
def test_a_model_that_takes_no_functions_here_while_it_reasons_is_told_not_to(
    model: str, effort: Any, tools: list[Tool], written: str | None, lost: list[Said]
) -> None:
    encoded = openai_chat.encode_request(replace(asking([Message("Hi")], tools=tools, effort=effort), model=model))
    assert (encoded.body.get("reasoning_effort"), losses(encoded)) == (written, lost)


NAMED = {"type": "function", "function": {"name": "find"}}


def allowed(mode: str, *entries: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list(entries)}}


CHOICES: dict[str, tuple[ToolChoice, Any, list[Said]]] = {
    "auto": (ToolChoice("auto"), "auto", []),
    "none": (ToolChoice("none"), "none", []),
    "required": (ToolChoice("required"), "required", []),
    "named": (ToolChoice("required", ["find"]), NAMED, []),
    "narrowed": (ToolChoice("auto", ["find"]), allowed("auto", NAMED), []),
    "some": (
        ToolChoice("required", ["find", "run"]),
        allowed("required", NAMED, {"type": "custom", "custom": {"name": "run"}}),
        [],
    ),
    "free text": (ToolChoice("required", ["run"]), {"type": "custom", "custom": {"name": "run"}}, []),
    "none of some": (
        ToolChoice("none", ["find"]),
        "none",
        [("tool_choice.names", "dropped", "minor")],
    ),
    "an odd name": (
        ToolChoice("required", ["a.b"]),
        {"type": "function", "function": {"name": "a_b__tw1-2e"}},
        [],
    ),
}


@pytest.mark.parametrize("case", CHOICES)
def test_a_choice_among_tools(case: str) -> None:
    choice, body, lost = CHOICES[case]
    encoded = openai_chat.encode_request(asking([], tools=[LOOK, FIND, RUN, Tool("a.b")], tool_choice=choice))
    assert (encoded.body["tool_choice"], losses(encoded)) == (body, lost)


READ: list[tuple[Any, ToolChoice | None]] = [
    ("auto", ToolChoice("auto")),
    ("none", ToolChoice("none")),
    ("required", ToolChoice("required")),
    ("any", ToolChoice("required")),
    (NAMED, ToolChoice("required", ["find"])),
    (allowed("auto", {"type": "web_search"}, NAMED), ToolChoice("auto", ["find"])),
    (allowed("auto", {"type": "web_search"}), None),
    ({"type": "custom", "custom": {"name": "run"}}, ToolChoice("required", ["run"])),
    (allowed("auto", NAMED), ToolChoice("auto", ["find"])),
    (
        allowed("required", NAMED, {"type": "custom", "custom": {"name": "run"}}),
        ToolChoice("required", ["find", "run"]),
    ),
    (
        {"type": "function", "function": {"name": "srv_list__tw3-2f"}},
        ToolChoice("required", ["srv/list"]),
    ),
    ("sometimes", None),
    (None, None),
    ({"type": "function", "name": "find"}, None),
    (allowed("auto"), None),
    (allowed("none", NAMED), None),
    (allowed("auto", {"type": "mcp"}), None),
]


@pytest.mark.parametrize(("value", "choice"), READ)
def test_what_a_choice_means(value: Any, choice: ToolChoice | None) -> None:
    request = openai_chat.decode_request({"tool_choice": value, "messages": []})
    assert request.tool_choice == choice
    assert openai_chat.encode_request(request).body == {"tool_choice": value, "messages": []}


@pytest.mark.parametrize("parallel", [True, False])
def test_calls_side_by_side(parallel: bool) -> None:
    encoded = openai_chat.encode_request(asking([], tools=[LOOK], parallel_tool_calls=parallel))
    assert (encoded.body["parallel_tool_calls"], encoded.losses) == (parallel, ())
    assert openai_chat.decode_request(encoded.body).parallel_tool_calls is parallel


def exchange(call: ToolCall, quirks: Quirks | None = None) -> tuple[dict[str, Any], str, list[Said]]:
    """Write a call with its result: the call, the id that the result refers to, the losses."""
    history = [Message("assistant", [call]), Message("tool", [ToolResult(call.id, call.name, "x")])]
    request = asking(history)
    encoded = openai_chat.encode_request(request, quirks or Quirks())
    answer, result = encoded.body["messages"]
    return answer["tool_calls"][0], result["tool_call_id"], losses(encoded)


def body_of(call_id: str, arguments: Any, name: str = "look") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


ARGUMENTS: dict[str, tuple[ToolCall, str]] = {
    "made here": (ToolCall("c", "look", {"é": [1, None]}), '{"é":[1,null]}'),
    "none": (ToolCall("c", "look"), "{}"),
    "as they came": (ToolCall.parse("c", "look", '{ "a": 1.0 }'), '{ "a": 1.0 }'),
    "as they came from elsewhere": (
        ToolCall.parse("c", "look", '{ "a": 1.0 }', opaque=Opaque("openai-responses", {})),
        '{ "a": 1.0 }',
    ),
    "empty": (ToolCall.parse("c", "look", ""), ""),
    "not JSON": (ToolCall.parse("c", "look", '{"a":'), '{"a":'),
    "changed": (replace(ToolCall.parse("c", "look", '{"a": 1}'), arguments={"a": 2}), '{"a":2}'),
}


@pytest.mark.parametrize(("call", "text"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_are_text(call: ToolCall, text: str) -> None:
    assert exchange(call) == (body_of("c", text), "c", [])


def test_arguments_as_an_object_for_a_server_that_wants_one() -> None:
    call = ToolCall.parse("c", "look", '{"a": 1}')
    assert exchange(call, Quirks(arguments_object=True)) == (body_of("c", {"a": 1}), "c", [])
    body = {"messages": [{"role": "assistant", "content": None, "tool_calls": [body_of("c", '{"a": 1}')]}]}
    own = openai_chat.encode_request(openai_chat.decode_request(body), Quirks(arguments_object=True))
    assert own.body["messages"][0]["tool_calls"] == [body_of("c", {"a": 1})]


def test_a_call_that_was_cut_off() -> None:
    call = ToolCall("c", "look", {"a": 1}, complete=False)
    assert exchange(call) == (
        body_of("c", '{"a":1}'),
        "c",
        [("messages[0].content[0].complete", "dropped", "semantic")],
    )


def test_a_call_of_free_text() -> None:
    call = ToolCall("c", "run", raw="print(1)", custom=True)
    said, _, lost = exchange(call)
    assert (said, lost) == ({"id": "c", "type": "custom", "custom": {"name": "run", "input": "print(1)"}}, [])
    read = openai_chat.decode_request({"messages": [{"role": "assistant", "tool_calls": [said]}]})
    assert read.messages[0].tool_calls == [call]


LONG = "call_" + "x" * 60
IDS: dict[str, tuple[str, str]] = {
    "as it is": ("call_1", "call_1"),
    "of Kimi": ("functions.Bash:0", "functions.Bash:0"),
    "of forty": ("x" * 40, "x" * 40),
    "with a space": ("a b", "a_b__tw1-20"),
}


@pytest.mark.parametrize(("call_id", "written"), IDS.values(), ids=IDS)
def test_ids(call_id: str, written: str) -> None:
    call, link, _ = exchange(ToolCall(call_id, "look"))
    assert (call["id"], link) == (written, written)
    read = openai_chat.decode_request({"messages": [{"role": "assistant", "tool_calls": [call]}]})
    assert read.messages[0].tool_calls[0].id == call_id


def test_long_ids_are_cut_the_same_way_every_time() -> None:
    call, link, _ = exchange(ToolCall(LONG, "look"))
    other, _, _ = exchange(ToolCall(LONG + "y", "look"))
    assert call["id"] == link == exchange(ToolCall(LONG, "look"))[1]
    assert len(link) == len(other["id"]) == 40
    assert other["id"] != link


def test_ids_in_the_grammar_of_mistral() -> None:
    quirks = Quirks(id_grammar=Grammar("A-Za-z0-9", 9, least=9))
    for call_id in ("call_1", "abc", LONG, "functions.Bash:0", None):
        call, link, _ = exchange(ToolCall(call_id, "look"), quirks)
        assert re.fullmatch(r"[A-Za-z0-9]{9}", call["id"])
        assert link == call["id"]
    assert exchange(ToolCall("abcDEF123", "look"), quirks)[1] == "abcDEF123"


def test_ids_that_were_read_fit_a_server_that_was_asked_for() -> None:
    body = {
        "messages": [
            {"role": "assistant", "content": None, "tool_calls": [body_of("call_1", "{}")]},
            {"role": "tool", "tool_call_id": "call_1", "content": "x"},
        ]
    }
    quirks = Quirks(id_grammar=Grammar("A-Za-z0-9", 9, least=9))
    answer, result = openai_chat.encode_request(openai_chat.decode_request(body), quirks).body["messages"]
    assert re.fullmatch(r"[A-Za-z0-9]{9}", answer["tool_calls"][0]["id"])
    assert result["tool_call_id"] == answer["tool_calls"][0]["id"]


def test_a_call_without_an_id_gets_one() -> None:
    call, link, lost = exchange(ToolCall(None, "look"))
    assert (call["id"], link, lost) == ("toolwire_1", "toolwire_1", [])


def test_a_name_that_was_escaped_is_read_back() -> None:
    call, _, _ = exchange(ToolCall("c", "srv/list.items"))
    assert call["function"]["name"] == "srv_list_items__tw3-2f_8-2e"
    request = openai_chat.decode_request({"messages": [{"role": "assistant", "tool_calls": [call]}]})
    assert request.messages[0].tool_calls == [ToolCall("c", "srv/list.items")]
    assert openai_chat.encode_request(request).body["messages"][0]["tool_calls"] == [call]
