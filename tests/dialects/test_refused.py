"""What a vendor refuses is not written from elsewhere, and each such thing is named in a loss."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import BEGUN, Said, asking, losses
from toolwire import (
    Document,
    Message,
    Output,
    ServerTool,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    dialect,
    translate,
)
from toolwire.dialects import NAMES
from toolwire.testing.rules import WireRequest
from toolwire.testing.wires import refusal

LOOK = Tool("look", "Look.", {"type": "object", "properties": {}})
SEARCH = ServerTool("web_search", "elsewhere", {"type": "web_search"})
ONE_BY_ONE: dict[str, Any] = {"tool_choice": ToolChoice("required"), "parallel_tool_calls": False}
STARTS: dict[str, tuple[str, Any]] = {
    "anthropic": ("messages", {"role": "user", "content": "(the conversation begins)"}),
    "gemini": ("contents", {"role": "user", "parts": [{"text": "(the conversation begins)"}]}),
}


A, B = {"type": "string"}, {"type": "integer"}
ONE = {"type": "object", "properties": {"a": A}, "required": ["a"]}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
# What stands at the root of parameters; what is written there in its place, with its losses.
ROOTS: dict[str, tuple[dict[str, Any], dict[str, Any], list[Said]]] = {
    "as it is": ({**ONE, "title": "T", "if": {}}, {**ONE, "title": "T", "if": {}}, []),
    "nothing": ({}, {"type": "object", "properties": {}}, []),
    "no properties": ({"type": "object", "x": 1}, {"type": "object", "x": 1, "properties": {}}, []),
    "a list of no properties": ({"type": "object", "properties": []}, {"type": "object", "properties": {}}, []),
    "null properties": ({"type": "object", "properties": None}, {"type": "object", "properties": {}}, []),
    "text": ({"type": "string"}, {"type": "object", "properties": {}}, [("schema_type", "approximated", "semantic")]),
    "alternatives": (
        {"anyOf": [ONE, {"type": "object", "properties": {"b": {"oneOf": [A, B]}}}], "description": "It."},
        {
            "type": "object",
            "properties": {"a": A, "b": {"oneOf": [A, B]}},
            "description": 'It. (anyOf: [{"required": ["a"]}, {"required": []}])',
        },
        [("schema_anyOf", "approximated", "semantic"), ("schema_anyOf", "moved", "minor")],
    ),
    "one object": ({"oneOf": [{"type": "null"}, ONE]}, ONE, [("schema_oneOf", "approximated", "minor")]),
    "all at once": ({**ONE, "allOf": [{"required": ["b"]}]}, {**ONE, "required": ["a", "b"]}, [
        ("schema_allOf", "approximated", "minor")
    ]),
    "a reference": ({"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}, {**NODE, "$defs": {"Node": NODE}}, [
        ("schema_$ref", "approximated", "minor")
    ]),
    "not": ({**ONE, "not": {"required": ["b"]}}, {**ONE, "description": '(not: {"required": ["b"]})'}, [
        ("schema_not", "moved", "minor")
    ]),
    "values": ({"enum": [{}]}, {"type": "object", "properties": {}, "description": "(enum: [{}])"}, [
        ("schema_enum", "moved", "minor")
    ]),
    "no schema": ({"anyOf": [5]}, {"type": "object", "properties": {}}, [("schema_unfit", "approximated", "semantic")]),
}  # fmt: skip


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
def test_the_root_of_parameters_is_an_object(target: str, root: str) -> None:
    schema, expected, lost = ROOTS[root]
    encoded = dialect(target).encode_request(asking([Message("Hi")], tools=[Tool("look", "Look.", schema)]))
    [tool] = encoded.body["tools"]
    function = tool.get("function", tool)
    assert function["parameters"] == expected
    assert [(loss.concept, loss.action, loss.severity) for loss in encoded.losses] == lost
    assert refusal(WireRequest(target, encoded.body, "m")) is None
    function["parameters"] = schema
    own = encoded.body
    assert dialect(target).encode_request(dialect(target).decode_request(own)).body == own


@pytest.mark.parametrize("tools", [[], [SEARCH]])
@pytest.mark.parametrize("target", NAMES)
def test_without_a_tool_there_is_no_choice(target: str, tools: list[Any]) -> None:
    said = asking([Message("Hi")], tools=tools, max_tokens=5, **ONE_BY_ONE)
    unsaid = asking([Message("Hi")], tools=tools, max_tokens=5)
    encoded, plain = (dialect(target).encode_request(request) for request in (said, unsaid))
    assert encoded.body == plain.body
    assert [loss for loss in losses(encoded) if loss not in losses(plain)] == [
        ("tool_choice", "dropped", "minor"),
        ("parallel_tool_calls", "dropped", "minor"),
    ]


@pytest.mark.parametrize("target", NAMES)
def test_a_choice_is_among_the_tools_that_are_declared(target: str) -> None:
    encoded = dialect(target).encode_request(
        asking([Message("Hi")], tools=[LOOK], tool_choice=ToolChoice("required", ["find"]))
    )
    assert ("tool_choice.names", "approximated", "semantic") in losses(encoded)
    assert "find" not in str(encoded.body)


@pytest.mark.parametrize("name", ["search", None])
@pytest.mark.parametrize("target", NAMES)
def test_no_other_tool_has_to_be_called_for_one_that_another_server_runs(target: str, name: str | None) -> None:
    search = ServerTool("search", "elsewhere", {"type": "search", **({} if name is None else {"name": name})})
    forced, free = (
        dialect(target).encode_request(asking([Message("Hi")], tools=[search, LOOK], tool_choice=choice))
        for choice in (ToolChoice("required", ["search"]), ToolChoice("auto"))
    )
    assert forced.body == free.body
    assert ("tool_choice.names", "approximated", "semantic") in losses(forced)


@pytest.mark.parametrize("target", STARTS)
def test_a_conversation_that_the_model_begins_gets_a_turn_that_reads_back_as_nothing(target: str) -> None:
    key, start = STARTS[target]
    calls = [Message("assistant", [ToolCall("c", "look")]), Message("tool", [ToolResult("c", "look", "x")])]
    grown: list[Any] = []
    for messages in ([], calls, [*calls, Message("assistant", "Done."), Message("Thanks.")]):
        request = asking(messages, system="Be brief.", tools=[LOOK], max_tokens=5)
        encoded = dialect(target).encode_request(request)
        turns = encoded.body[key]
        assert turns[0] == start
        assert turns[: len(grown)] == grown, "what was sent once stays"
        assert losses(encoded) == [BEGUN]
        read = dialect(target).decode_request(encoded.body)
        assert [message.role for message in read.messages] == [message.role for message in messages]
        again = dialect(target).encode_request(read)
        assert (again.body, again.losses) == (encoded.body, ())
        grown = turns


@pytest.mark.parametrize("target", STARTS)
def test_nothing_is_put_before_what_was_read_here(target: str) -> None:
    key, start = STARTS[target]
    role = "assistant" if target == "anthropic" else "model"
    answer = {**start, "role": role}
    for turns in ([answer], [answer, start], [start, start], [start, answer], [start], []):
        body = {key: turns}
        encoded = dialect(target).encode_request(dialect(target).decode_request(body))
        assert (encoded.body, encoded.losses) == (body, ())


def test_words_that_are_none_are_left_out_of_messages() -> None:
    messages = [
        Message("  "),
        Message("assistant", "\n"),
        Message("assistant", [Text(" "), Text("Yes.")]),
        Message("user", [Text("\t"), Text("Go on.")]),
    ]
    encoded = dialect("anthropic").encode_request(asking(messages, max_tokens=5))
    assert encoded.body["messages"] == [
        {"role": "user", "content": "(empty)"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Go on."},
    ]
    assert losses(encoded) == [
        ("messages[0].content[0].text", "dropped", "minor"),
        ("messages[0].content", "approximated", "minor"),
        ("messages[1].content[0].text", "dropped", "minor"),
        ("messages[2].content[0].text", "dropped", "minor"),
        ("messages[3].content[0].text", "dropped", "minor"),
    ]


UNREASONED: list[tuple[dict[str, Any], list[Said]]] = [
    ({"effort": "high"}, [("effort", "dropped", "semantic")]),
    ({"effort": "none"}, [("effort", "dropped", "formal")]),
    ({"thinking": "adaptive"}, [("thinking", "dropped", "semantic")]),
    ({"thinking": "disabled"}, [("thinking", "dropped", "formal")]),
    ({"thinking_budget": 5000}, [("thinking_budget", "dropped", "semantic")]),
    ({"thinking_display": "summarized"}, [("thinking_display", "dropped", "minor")]),
]


@pytest.mark.sampled
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize(("settings", "lost"), UNREASONED)
def test_a_model_that_does_not_reason_is_not_asked_to(target: str, settings: dict[str, Any], lost: list[Said]) -> None:
    plain = dialect(target).encode_request(asking([Message("Hi")], max_tokens=50))
    request = asking([Message("Hi")], max_tokens=50, **settings)
    encoded = dialect(target, reasons=False).encode_request(request)
    assert (encoded.body, losses(encoded)) == (plain.body, lost)
    own = dialect(target).decode_request(dialect(target).encode_request(request).body)
    assert dialect(target, reasons=False).encode_request(own) == dialect(target).encode_request(own)


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize(
    ("model", "settings", "severity"),
    [
        ("gpt-5.2", {"thinking": "disabled"}, "formal"),
        ("gpt-5.2", {"thinking_budget": 0}, "formal"),
        ("gpt-5", {"thinking": "adaptive"}, "minor"),
        ("gpt-5", {"thinking_budget": -1}, "minor"),
    ],
)
def test_a_model_that_reasons_only_if_asked_loses_nothing_where_it_is_not_to(
    target: str, model: str, settings: dict[str, Any], severity: str
) -> None:
    plain, encoded = (
        dialect(target).encode_request(replace(asking([Message("Hi")], **said), model=model)) for said in ({}, settings)
    )
    assert (encoded.body, losses(encoded)) == (plain.body, [(*settings, "dropped", severity)])


ASKED: list[tuple[str, dict[str, Any], str, list[Said]]] = [
    ("gpt-5", {"thinking_budget": 1024}, "low", [("thinking_budget", "approximated", "minor")]),
    ("gpt-5", {"thinking_budget": 8192}, "medium", [("thinking_budget", "approximated", "minor")]),
    (
        "gpt-5.2",
        {"thinking": "enabled", "thinking_budget": 31_999},
        "high",
        [("thinking_budget", "approximated", "minor")],
    ),
    ("gpt-5.2", {"thinking": "adaptive"}, "medium", [("thinking", "approximated", "minor")]),
    ("gpt-5.2", {"thinking_budget": -1}, "medium", [("thinking_budget", "approximated", "minor")]),
    ("gpt-6-sol", {"thinking": "disabled"}, "none", []),
    ("gpt-5", {"thinking": "disabled"}, "minimal", [("effort", "approximated", "semantic")]),
    ("o3", {"thinking_budget": 0}, "low", [("effort", "approximated", "semantic")]),
    ("gpt-6-astra", {"thinking": "disabled"}, "low", [("effort", "approximated", "semantic")]),
    ("gpt-6-sol", {"thinking_budget": 0}, "none", []),
    ("gpt-6-sol", {"thinking_budget": 2000, "effort": "high"}, "high", [("thinking_budget", "dropped", "minor")]),
]


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize(("model", "settings", "effort", "lost"), ASKED)
def test_how_much_a_model_is_to_think_becomes_an_effort(
    target: str, model: str, settings: dict[str, Any], effort: str, lost: list[Said]
) -> None:
    encoded = dialect(target).encode_request(replace(asking([Message("Hi")], **settings), model=model))
    said = encoded.body["reasoning_effort"] if target == "openai-chat" else encoded.body["reasoning"]["effort"]
    assert (said, losses(encoded)) == (effort, lost)


WARM: list[tuple[dict[str, Any], bool]] = [
    ({"temperature": 0.2}, False),
    ({"temperature": 1}, True),
    ({"temperature": 0.2, "effort": "none"}, True),
    ({"top_p": 0.2, "effort": "low"}, False),
    ({"top_p": 1.0, "effort": "low"}, True),
]


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize(("settings", "kept"), WARM)
def test_a_model_that_reasons_draws_its_words_as_it_does(target: str, settings: dict[str, Any], kept: bool) -> None:
    field = next(iter(settings))
    encoded = dialect(target, reasons=True).encode_request(asking([Message("Hi")], **settings))
    assert (field in encoded.body) == kept
    assert losses(encoded) == ([] if kept else [(field, "dropped", "semantic")])


DRAWN: dict[str, Any] = {"frequency_penalty": 0.5, "presence_penalty": 0.5, "logit_bias": {"1": 2}}
COUNTED = {"logprobs": True, "top_logprobs": 2}


@pytest.mark.parametrize(("target", "settings"), [("openai-chat", DRAWN | COUNTED), ("openai-responses", COUNTED)])
@pytest.mark.parametrize(
    ("model", "effort", "kept"),
    [("o3", None, False), ("gpt-5", "none", False), ("gpt-5.2", None, True), ("gpt-5.2", "low", False)],
)
def test_what_is_refused_while_a_model_reasons_is_not_sent(
    target: str, settings: dict[str, Any], model: str, effort: Any, kept: bool
) -> None:
    encoded = dialect(target).encode_request(replace(asking([Message("Hi")], effort=effort, **settings), model=model))
    lost = [loss for loss in losses(encoded) if loss[0] != "effort"]
    assert sorted(lost) == sorted((field, "dropped", "semantic") for field in settings if not kept)
    assert refusal(WireRequest(target, encoded.body, model)) is None


@pytest.mark.parametrize(("kind", "places"), [("video/mp4", [".data", ""]), ("audio/flac", [""])])
def test_what_is_heard_or_seen_is_no_file_of_responses(kind: str, places: list[str]) -> None:
    words: Any = [Text("Look."), Document(data="eA==", media_type=kind)]
    encoded = dialect("openai-responses").encode_request(asking([Message("user", words)]))
    assert encoded.body["input"] == [{"type": "message", "role": "user", "content": "Look."}]
    assert losses(encoded) == [(f"messages[0].content[1]{place}", "dropped", "semantic") for place in places]
    own = {"type": "input_file", "filename": "f", "file_data": f"data:{kind};base64,eA=="}
    body = {"model": "m", "input": [{"role": "user", "content": [own]}]}
    assert dialect("openai-responses").encode_request(dialect("openai-responses").decode_request(body)).body == body


GRAMMAR = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: WORD"}}
TOLD = "The text follows this lark grammar:\nstart: WORD"


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize(
    ("description", "format_", "told", "action"),
    [
        ("Run.", GRAMMAR, f"Run.\n\n{TOLD}", "moved"),
        (None, GRAMMAR, TOLD, "moved"),
        ("Run.", {"type": "text"}, "Run.", "dropped"),
        ("Run.", {"type": "other"}, "Run.", "dropped"),
    ],
)
def test_the_grammar_of_free_text_is_told_where_a_function_takes_it(
    description: str | None, format_: dict[str, Any], told: str, action: str, target: str
) -> None:
    request = asking([Message("Hi")], tools=[Tool("run", description, custom=True, format=format_)], max_tokens=99)
    encoded = dialect(target, custom_tools=False).encode_request(request)
    [tool] = encoded.body["tools"]
    [tool] = tool.get("functionDeclarations", [tool])
    assert tool.get("function", tool)["description"] == told
    severity = {"moved": "minor", "dropped": "formal" if format_["type"] == "text" else "semantic"}[action]
    assert losses(encoded) == [("tools[0].custom", "approximated", "minor"), ("tools[0].format", action, severity)]


# What is asked of a model; what it takes, and how much it matters that it is another.
LEVELS: list[tuple[str, str, str | None, str]] = [
    ("gpt-5", "none", "minimal", "semantic"),
    ("gpt-5", "max", "high", "minor"),
    ("gpt-5.1", "minimal", "low", "minor"),
    ("gpt-5.1", "none", "none", ""),
    ("gpt-5.2", "max", "xhigh", "minor"),
    ("gpt-5.6-sol", "max", "max", ""),
    ("gpt-5.2-codex", "minimal", "low", "minor"),
    ("gpt-5-pro", "low", "high", "minor"),
    ("o4-mini", "xhigh", "high", "minor"),
    ("gpt-4o", "low", None, "semantic"),
    ("m", "max", "max", ""),
]


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize(("model", "given", "taken", "severity"), LEVELS)
def test_an_effort_is_the_nearest_that_the_model_takes(
    target: str, model: str, given: str, taken: str | None, severity: str
) -> None:
    encoded = dialect(target).encode_request(replace(asking([Message("Hi")], effort=given), model=model))
    assert (encoded.body.get("reasoning_effort") or encoded.body.get("reasoning", {}).get("effort")) == taken
    assert [loss[2] for loss in losses(encoded)] == ([severity] if severity else [])
    assert refusal(WireRequest(target, encoded.body, model)) is None
    own = {"model": model, "reasoning_effort": given, "reasoning": {"effort": given}}
    assert dialect(target).encode_request(dialect(target).decode_request(own)).body == own


@pytest.mark.parametrize(("model", "kept"), [("o3", False), ("gpt-5.2", False), ("o1", True), ("gpt-4o", True)])
def test_stop_sequences_are_sent_to_models_that_take_them(model: str, kept: bool) -> None:
    body = {"model": model, "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}], "stop_sequences": ["X"]}
    encoded = translate.request(body, "anthropic", "openai-chat")
    assert ("stop" in encoded.body) == kept
    assert losses(encoded) == ([] if kept else [("stop_sequences", "dropped", "semantic")])


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize(("model", "kept"), [("o3", False), ("gpt-5", True)])
def test_how_many_calls_there_may_be_is_said_to_models_that_take_it(target: str, model: str, kept: bool) -> None:
    request = replace(asking([Message("Hi")], tools=[LOOK], parallel_tool_calls=False), model=model)
    encoded = dialect(target).encode_request(request)
    assert ("parallel_tool_calls" in encoded.body) == kept
    assert losses(encoded) == ([] if kept else [("parallel_tool_calls", "dropped", "minor")])
    assert refusal(WireRequest(target, encoded.body, model)) is None


@pytest.mark.parametrize(
    ("model", "store", "sent"),
    [
        ("gpt-4o", None, False),
        ("o3", False, False),
        ("gpt-5", True, True),
        ("gpt-oss:20b", None, True),
        ("m", None, True),
    ],
)
def test_labels_are_sent_to_chat_completions_where_they_are_taken(model: str, store: bool | None, sent: bool) -> None:
    request = replace(asking([Message("Hi")], store=store, metadata={"a": "b", "c": 1}), model=model)
    encoded = dialect("openai-chat").encode_request(request)
    assert encoded.body.get("metadata") == ({"a": "b"} if sent else None)
    assert losses(encoded) == [("metadata.c" if sent else "metadata", "dropped", "formal")]
    assert refusal(WireRequest("openai-chat", encoded.body, model)) is None


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
def test_a_long_name_of_a_user_is_cut_and_stays_his(target: str) -> None:
    """So Claude Code names them."""
    names = [f"user_{'a' * 64}_account_{'b' * 36}_session_{number:036}" for number in (1, 2)]
    told = []
    for name in (*names, "user_1"):
        body = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]}
        encoded = translate.request({**body, "metadata": {"user_id": name}}, "anthropic", target)
        assert losses(encoded) == ([("metadata", "approximated", "formal")] if len(name) > 64 else [])
        told.append(encoded.body["user"])
    assert [len(name) for name in told] == [64, 64, 6]
    assert len(set(told)) == 3
    for field in ("user", "safety_identifier"):
        own = {"model": "m", field: names[0]}
        assert dialect(target).encode_request(dialect(target).decode_request(own)).body[field] == names[0]


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize(("field", "most"), [("user", 64), ("safety_identifier", 128)])
def test_who_asks_is_said_in_as_many_characters_as_are_taken(target: str, field: str, most: int) -> None:
    for length in (most, most + 1):
        encoded = dialect(target).encode_request(asking([Message("Hi")], **{field: "x" * length}))
        assert losses(encoded) == ([] if length == most else [(field, "approximated", "formal")])
        assert len(encoded.body[field]) == most
        assert refusal(WireRequest(target, encoded.body, "m")) is None
        assert "string too long" in str(refusal(WireRequest(target, encoded.body | {field: "x" * (most + 1)}, "m")))


@pytest.mark.parametrize(("field", "given"), [("temperature", 2.5), ("top_p", -1), ("top_p", 1.5)])
def test_a_number_out_of_bounds_is_not_sent(field: str, given: float) -> None:
    encoded = translate.request(
        {"model": "m", "max_tokens": 5, "messages": [], field: given}, "anthropic", "openai-chat"
    )
    assert field not in encoded.body
    assert losses(encoded) == [(field, "dropped", "semantic")]


def test_functions_where_a_model_takes_none_while_it_reasons() -> None:
    request = replace(asking([Message("Hi")], tools=[LOOK]), model="gpt-6-sol")
    encoded = dialect("openai-chat").encode_request(request)
    assert encoded.body["reasoning_effort"] == "none"
    assert losses(encoded) == [("effort", "defaulted", "semantic")]


BUDGET: dict[str, Any] = {"thinking": "enabled", "thinking_budget": 2000, "max_tokens": 9000}


def test_a_newer_claude_finds_its_budget_itself_at_the_effort_that_is_near() -> None:
    for said in (BUDGET, {**BUDGET, "thinking": None}):
        request = replace(asking([Message("Hi")], **said), model="claude-sonnet-5")
        encoded = dialect("anthropic").encode_request(request)
        assert encoded.body["thinking"] == {"type": "adaptive"}
        assert encoded.body["output_config"] == {"effort": "low"}
        assert losses(encoded) == [("thinking_budget", "approximated", "minor")]
    always = replace(asking([Message("Hi")], thinking="disabled", max_tokens=5), model="claude-opus-5-5")
    encoded = dialect("anthropic").encode_request(always)
    assert "thinking" not in encoded.body
    assert losses(encoded) == [("thinking", "dropped", "semantic")]


@pytest.mark.parametrize(
    ("words", "thinks"),
    [([], False), ([Message("And?")], False), ([Message("assistant", "A."), Message("Go on.")], True)],
)
def test_calls_without_thoughts_are_answered_without_thinking(words: list[Message], thinks: bool) -> None:
    calls = [Message("assistant", [ToolCall("c", "look")]), Message("tool", [ToolResult("c", "look", "x")])]
    request = replace(asking([Message("Hi"), *calls, *words], tools=[LOOK], **BUDGET), model="claude-sonnet-4-5")
    encoded = dialect("anthropic").encode_request(request)
    assert ("thinking" in encoded.body) == thinks
    assert losses(encoded) == ([] if thinks else [("thinking", "dropped", "semantic")])


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
def test_the_root_of_an_answers_schema_is_an_object(target: str) -> None:
    schema = {"type": "object", "anyOf": [ONE, {"properties": {"b": B}}]}
    encoded = dialect(target).encode_request(asking([Message("Hi")], output=Output("schema", schema)))
    form = encoded.body["response_format"]["json_schema"] if target == "openai-chat" else encoded.body["text"]["format"]
    assert form["schema"]["properties"] == {"a": A, "b": B}
    assert "anyOf" not in form["schema"]
    assert ("output.schema", "approximated", "semantic") in losses(encoded)
    assert refusal(WireRequest(target, encoded.body, "m")) is None
