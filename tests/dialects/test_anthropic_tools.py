"""Tools, choices, calls and results from elsewhere in the words of Messages, and what those words mean."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, asking, losses, unbegun
from toolwire import (
    Audio,
    Cache,
    Document,
    Image,
    Message,
    Opaque,
    ServerTool,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    translate,
)
from toolwire.dialects import anthropic

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
LOOK, FIND = Tool("look", "Look.", SCHEMA), Tool("find", "Find.", SCHEMA)
FREE = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
DEFAULTED = ("max_tokens", "defaulted", "formal")

TOOLS: dict[str, tuple[Tool | ServerTool, list[Any], list[Said]]] = {
    "plain": (LOOK, [{"name": "look", "description": "Look.", "input_schema": SCHEMA}], []),
    "bare": (Tool("look"), [{"name": "look", "input_schema": {"type": "object", "properties": {}}}], []),
    "a schema without a type": (
        Tool("look", None, {"properties": {}}),
        [{"name": "look", "input_schema": {"type": "object", "properties": {}}}],
        [],
    ),
    "not strict": (
        Tool("look", None, SCHEMA, strict=False),
        [{"name": "look", "input_schema": SCHEMA, "strict": False}],
        [],
    ),
    "strict": (
        Tool(
            "look",
            None,
            {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}},
            strict=True,
        ),
        [
            {
                "name": "look",
                "input_schema": {
                    "type": "object",
                    "properties": {"n": {"type": "integer", "description": "(minimum: 1)"}},
                    "additionalProperties": False,
                },
                "strict": True,
            }
        ],
        [("tools[0].parameters.properties.n", "moved", "minor")],
    ),
    "a mark": (
        replace(LOOK, cache=Cache("1h")),
        [
            {
                "name": "look",
                "description": "Look.",
                "input_schema": SCHEMA,
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            }
        ],
        [],
    ),
    "with more": (
        Tool("look", None, SCHEMA, {"a": 1}, opaque=Opaque("openai-responses", {"async": True})),
        [{"name": "look", "input_schema": SCHEMA}],
        [("tools[0].metadata", "dropped", "formal"), ("tools[0].opaque.async", "dropped", "semantic")],
    ),
    "free text": (
        Tool("run", "Run.", custom=True, format={"type": "text"}),
        [{"name": "run", "description": "Run.", "input_schema": FREE}],
        [("tools[0].custom", "approximated", "minor"), ("tools[0].format", "dropped", "formal")],
    ),
    "a server's": (ServerTool("web_search", "openai-chat", {}), [], [("tools[0]", "dropped", "semantic")]),
    "its own server's": (
        ServerTool("bash_20250124", "anthropic", {"type": "bash_20250124", "name": "bash"}),
        [{"type": "bash_20250124", "name": "bash"}],
        [],
    ),
    "an odd name": (
        Tool("srv/list.items", None, SCHEMA),
        [{"name": "srv_list_items__tw3-2f_8-2e", "input_schema": SCHEMA}],
        [],
    ),
}


# Tools that the client runs: the declaration, then what another model is told (words of it, fields, what is required),
# and the losses of that.
CLIENTS_TOOLS: dict[str, tuple[dict[str, Any], str, set[str], list[str], list[Any]]] = {
    "bash": ({"type": "bash_20250124", "name": "bash"}, "bash session", {"command", "restart"}, [], []),
    "an old editor": (
        {"type": "text_editor_20250124", "name": "str_replace_editor", "cache_control": {"type": "ephemeral"}},
        "puts `new_str` after",
        {"command", "path", "view_range", "file_text", "old_str", "new_str", "insert_line"},
        ["command", "path"],
        [("tools[0].cache", "dropped", "formal")],
    ),
    "an editor": (
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 90},
        "A view shows at most 90 characters.",
        {"command", "path", "view_range", "file_text", "old_str", "new_str", "insert_line", "insert_text"},
        ["command", "path"],
        [],
    ),
    "memory": (
        {"type": "memory_20250818", "name": "memory", "defer_loading": True},
        "/memories",
        {
            *("command", "path", "view_range", "file_text", "old_str", "new_str", "insert_line", "insert_text"),
            *("old_path", "new_path"),
        },
        ["command"],
        [("tools[0].opaque.defer_loading", "dropped", "minor")],
    ),
    "a screen": (
        {"type": "computer_20251124", "name": "computer", "display_width_px": 800, "display_height_px": 600},
        "The screen is 800 pixels wide. The screen is 600 pixels high.",
        {
            *("action", "coordinate", "text", "start_coordinate", "duration", "scroll_direction", "scroll_amount"),
            "region",
        },
        ["action"],
        [],
    ),
}


@pytest.mark.parametrize("case", CLIENTS_TOOLS)
def test_a_tool_that_the_client_runs_is_told_to_another_model(case: str) -> None:
    body, words, fields, required, lost = CLIENTS_TOOLS[case]
    choice = {"type": "tool", "name": body["name"]}
    asked = {"model": "m", "max_tokens": 9, "messages": [], "tools": [body], "tool_choice": choice}
    encoded = translate.request(asked, source="anthropic", target="openai-chat")
    (tool,) = encoded.body["tools"]
    function = tool["function"]
    assert (tool["type"], function["name"]) == ("function", body["name"])
    assert words in function["description"]
    assert function["parameters"]["properties"].keys() == fields
    assert function["parameters"]["required"] == required
    assert losses(encoded) == lost
    assert encoded.body["tool_choice"] == {"type": "function", "function": {"name": body["name"]}}
    assert anthropic.encode_request(anthropic.decode_request(asked)).body == asked


def test_what_claude_knows_of_a_clients_tool_cannot_be_said() -> None:
    (tool,) = anthropic.decode_request({"messages": [], "tools": [{"type": "bash_20250124", "name": "bash"}]}).tools
    changed = replace(tool, description="d", parameters=SCHEMA, metadata={"a": 1}, strict=True)
    encoded = anthropic.encode_request(asking([], tools=[changed]))
    assert encoded.body["tools"] == [{"type": "bash_20250124", "name": "bash", "strict": True}]
    assert [path for path, *_ in losses(encoded) if path != DEFAULTED[0]] == [
        "tools[0].description",
        "tools[0].parameters",
        "tools[0].metadata",
    ]


@pytest.mark.parametrize("case", TOOLS)
def test_a_tool(case: str) -> None:
    tool, bodies, lost = TOOLS[case]
    encoded = anthropic.encode_request(asking([], tools=[tool]))
    assert encoded.body.get("tools", []) == bodies
    assert [loss for loss in losses(encoded) if loss != DEFAULTED] == lost


def test_a_long_name_is_cut_to_what_a_server_takes() -> None:
    names = ["x" * 128, "x" * 129, "x" * 129 + "y", "srv/" + "x" * 200]
    encoded = anthropic.encode_request(asking([], tools=[Tool(name) for name in names]))
    written = [tool["name"] for tool in encoded.body["tools"]]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", name) for name in written)
    assert written[0] == names[0]
    assert len(set(written)) == len(names)


AUTO = {"type": "auto"}
FORCED = ("tool_choice", "approximated", "semantic")
CHOICES: dict[str, tuple[dict[str, Any], Any, list[Said]]] = {
    "absent": ({}, None, []),
    "auto": ({"tool_choice": ToolChoice("auto")}, AUTO, []),
    "none": ({"tool_choice": ToolChoice("none")}, {"type": "none"}, []),
    "required": ({"tool_choice": ToolChoice("required")}, {"type": "any"}, []),
    "named": ({"tool_choice": ToolChoice("required", ["find"])}, {"type": "tool", "name": "find"}, []),
    "an odd name": (
        {"tool_choice": ToolChoice("required", ["a.b"])},
        {"type": "tool", "name": "a_b__tw1-2e"},
        [],
    ),
    "some": (
        {"tool_choice": ToolChoice("required", ["look", "find"])},
        {"type": "any"},
        [("tool_choice.names", "approximated", "semantic")],
    ),
    "narrowed": (
        {"tool_choice": ToolChoice("auto", ["find"])},
        AUTO,
        [("tool_choice.names", "approximated", "semantic")],
    ),
    "one at a time": (
        {"parallel_tool_calls": False},
        {"type": "auto", "disable_parallel_tool_use": True},
        [],
    ),
    "one at a time, required": (
        {"tool_choice": ToolChoice("required"), "parallel_tool_calls": False},
        {"type": "any", "disable_parallel_tool_use": True},
        [],
    ),
    "one at a time, named": (
        {"tool_choice": ToolChoice("required", ["find"]), "parallel_tool_calls": False},
        {"type": "tool", "name": "find", "disable_parallel_tool_use": True},
        [],
    ),
    "side by side": (
        {"parallel_tool_calls": True},
        {"type": "auto", "disable_parallel_tool_use": False},
        [],
    ),
    "one at a time, none": (
        {"tool_choice": ToolChoice("none"), "parallel_tool_calls": False},
        {"type": "none"},
        [("parallel_tool_calls", "dropped", "minor")],
    ),
    "required while thinking": (
        {"tool_choice": ToolChoice("required"), "thinking": "adaptive"},
        AUTO,
        [FORCED],
    ),
    "named while thinking": (
        {
            "tool_choice": ToolChoice("required", ["find"]),
            "thinking": "enabled",
            "parallel_tool_calls": False,
        },
        {"type": "auto", "disable_parallel_tool_use": True},
        [FORCED],
    ),
    "required with a budget": (
        {"tool_choice": ToolChoice("required"), "thinking_budget": 2048},
        AUTO,
        [FORCED],
    ),
    "required without thinking": (
        {"tool_choice": ToolChoice("required"), "thinking": "disabled"},
        {"type": "any"},
        [],
    ),
    "auto while thinking": ({"tool_choice": ToolChoice("auto"), "thinking": "adaptive"}, AUTO, []),
    "no tools": (
        {"tools": [], "tool_choice": ToolChoice("auto"), "parallel_tool_calls": False},
        None,
        [("tool_choice", "dropped", "minor"), ("parallel_tool_calls", "dropped", "minor")],
    ),
}


@pytest.mark.parametrize("case", CHOICES)
def test_a_choice_among_tools(case: str) -> None:
    fields, body, lost = CHOICES[case]
    fields = {"tools": [LOOK, FIND, Tool("a.b")]} | fields
    encoded = anthropic.encode_request(asking([], **fields))
    assert encoded.body.get("tool_choice") == body
    assert len(encoded.body.get("tools", [])) == len(fields["tools"])
    assert [loss for loss in losses(encoded) if loss != DEFAULTED] == lost


THINKERS = [
    ("claude-opus-5-5", True),
    ("claude-fable-5-1-20260901", True),
    ("anthropic/claude-mythos-5-2", True),
    ("claude-sonnet-5-5", True),
    ("claude-sonnet-5", False),
    ("claude-haiku-5-5", False),
    ("claude-opus-5", False),
]


@pytest.mark.parametrize(("model", "refuses"), THINKERS)
def test_some_models_cannot_be_forced(model: str, refuses: bool) -> None:
    request = replace(asking([], tools=[LOOK], tool_choice=ToolChoice("required")), model=model)
    encoded = anthropic.encode_request(request)
    assert encoded.body["tool_choice"] == ({"type": "auto"} if refuses else {"type": "any"})
    assert (FORCED in losses(encoded)) is refuses


READ: list[tuple[Any, ToolChoice | None, bool | None]] = [
    ({"type": "auto"}, ToolChoice("auto"), None),
    ({"type": "none"}, ToolChoice("none"), None),
    ({"type": "any"}, ToolChoice("required"), None),
    ({"type": "tool", "name": "find"}, ToolChoice("required", ["find"]), None),
    ({"type": "tool", "name": "srv_list__tw3-2f"}, ToolChoice("required", ["srv/list"]), None),
    ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice("auto"), False),
    ({"type": "any", "disable_parallel_tool_use": False}, ToolChoice("required"), True),
    (
        {"type": "tool", "name": "find", "disable_parallel_tool_use": True},
        ToolChoice("required", ["find"]),
        False,
    ),
    ({"type": "none", "disable_parallel_tool_use": True}, ToolChoice("none"), None),
    ({"type": "tool"}, None, None),
    ({"type": "some"}, None, None),
    ("auto", None, None),
]


@pytest.mark.parametrize(("value", "choice", "parallel"), READ)
def test_what_a_choice_means(value: Any, choice: ToolChoice | None, parallel: bool | None) -> None:
    request = anthropic.decode_request({"tool_choice": value, "messages": []})
    assert (request.tool_choice, request.parallel_tool_calls) == (choice, parallel)
    encoded = anthropic.encode_request(request)
    assert (encoded.body, encoded.losses) == ({"tool_choice": value, "messages": []}, ())


def exchange(call: ToolCall, result: ToolResult | None = None) -> tuple[Any, Any, list[Said]]:
    """Write a call with its result, and give the losses."""
    answered = result or ToolResult(call.id, call.name, "x")
    encoded = anthropic.encode_request(asking([Message("assistant", [call]), Message("tool", [answered])]))
    lost = unbegun(encoded.body, losses(encoded))
    asked, answer = encoded.body["messages"]
    return asked["content"][0], answer["content"][0], [loss for loss in lost if loss != DEFAULTED]


INPUTS: dict[str, tuple[ToolCall, dict[str, Any], list[Said]]] = {
    "an object": (ToolCall("c", "look", {"a": 1}), {"a": 1}, []),
    "text": (ToolCall.parse("c", "look", '{"a":1}'), {"a": 1}, []),
    "no text": (ToolCall.parse("c", "look", ""), {}, []),
    "null": (ToolCall.parse("c", "look", "null"), {}, []),
    "not JSON": (
        ToolCall.parse("c", "look", '{"a":'),
        {},
        [("messages[0].content[0].raw", "dropped", "semantic")],
    ),
    "free text": (
        ToolCall("c", "run", raw="print(1)", custom=True),
        {"input": "print(1)"},
        [("messages[0].content[0].custom", "approximated", "minor")],
    ),
    "cut off": (
        ToolCall("c", "look", {"a": 1}, complete=False),
        {"a": 1},
        [("messages[0].content[0].complete", "dropped", "semantic")],
    ),
}


@pytest.mark.parametrize(("call", "given", "lost"), INPUTS.values(), ids=INPUTS)
def test_arguments_are_an_object(call: ToolCall, given: dict[str, Any], lost: list[Said]) -> None:
    use, _, found = exchange(call)
    assert use == {"type": "tool_use", "id": "c", "name": call.name, "input": given}
    assert found == lost


IDS: dict[str | None, str] = {
    "toolu_01XYZ789": "toolu_01XYZ789",
    "call_abc-1": "call_abc-1",
    "functions.Bash:0": "functions_Bash_0__tw9-2e_14-3a",
    "a.b": "a_b__tw1-2e",
    "a:b": "a_b__tw1-3a",
    None: "toolwire_1",
}


@pytest.mark.parametrize("call_id", IDS)
def test_ids(call_id: str | None) -> None:
    use, result, _ = exchange(ToolCall(call_id, "look"))
    assert use["id"] == result["tool_use_id"] == IDS[call_id]


@pytest.mark.parametrize("call_id", ["functions.Bash:0", "a b", "é", "x" * 40 + "."])
def test_an_odd_id_is_read_back(call_id: str) -> None:
    use, result, _ = exchange(ToolCall(call_id, "srv/list.items"))
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", use["id"])
    assert result["tool_use_id"] == use["id"]
    messages = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    request = anthropic.decode_request({"messages": messages})
    assert request.messages[0].tool_calls == [ToolCall(call_id, "srv/list.items")]
    assert request.messages[1].tool_call_id == call_id
    assert anthropic.encode_request(request).body["messages"] == messages


CONTENTS: dict[str, tuple[ToolResult, dict[str, Any], list[Said]]] = {
    "words": (ToolResult("c", None, "ok"), {"content": "ok"}, []),
    "an error": (ToolResult("c", None, "boom", is_error=True), {"content": "boom", "is_error": True}, []),
    "words like an error": (ToolResult("c", None, "Error: boom"), {"content": "Error: boom"}, []),
    "nothing": (ToolResult("c", None, ""), {}, []),
    "no parts": (ToolResult("c", None, []), {}, []),
    "an error without words": (ToolResult("c", None, "", is_error=True), {"is_error": True}, []),
    "parts": (
        ToolResult("c", None, [Text("a"), Text(""), Image("u"), Document("d", name="n")]),
        {
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image", "source": {"type": "url", "url": "u"}},
                {"type": "document", "source": {"type": "url", "url": "d"}, "title": "n"},
            ]
        },
        [],
    ),
    "what a result cannot hold": (
        ToolResult("c", None, [Text("a"), Audio("x")]),
        {"content": [{"type": "text", "text": "a"}]},
        [("messages[1].content[0].content[1]", "dropped", "semantic")],
    ),
    "a mark": (
        ToolResult("c", None, "ok", cache=Cache()),
        {"content": "ok", "cache_control": {"type": "ephemeral"}},
        [],
    ),
    "what another wire said": (
        ToolResult("c", None, "ok", opaque=Opaque("gemini", {"scheduling": "SILENT"})),
        {"content": "ok"},
        [("messages[1].content[0].opaque.scheduling", "dropped", "semantic")],
    ),
}


@pytest.mark.parametrize(("result", "body", "lost"), CONTENTS.values(), ids=CONTENTS)
def test_a_result(result: ToolResult, body: dict[str, Any], lost: list[Said]) -> None:
    _, written, found = exchange(ToolCall("c", "look"), result)
    assert written == {"type": "tool_result", "tool_use_id": "c", **body}
    assert found == lost
