"""What the server of Messages refuses is not sent: alternatives at the top, settings of other models, half a call."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from toolwire import accumulate, dialect, translate
from toolwire.testing.rules import WireRequest
from toolwire.testing.wires import refusal
from toolwire.types import Context, Encoded, Image, Message, Request, Text, Tool, ToolCall, ToolResult

WIRE = dialect("anthropic")
BEFORE = ("claude-sonnet-4-5", "claude-haiku-4-5", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-opus-4-1")
# What Gemini CLI, Codex and others always send.
CLIENTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "thoughts shown": (
        "gemini",
        {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
        "/v1beta/models/m:generateContent",
    ),
    "any budget": (
        "gemini",
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1}}},
        "/v1beta/models/m:generateContent",
    ),
    "an effort": ("openai-chat", {"reasoning_effort": "medium"}, ""),
    "an effort with a summary": ("openai-responses", {"reasoning": {"effort": "medium", "summary": "auto"}}, ""),
}
ASKS: dict[str, dict[str, Any]] = {
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "?"}]}]},
    "openai-chat": {"messages": [{"role": "user", "content": "?"}]},
    "openai-responses": {"input": "?"},
}


@pytest.mark.parametrize("model", [*BEFORE, "claude-opus-4-5", "claude-opus-4-6", "claude-sonnet-5"])
@pytest.mark.parametrize("client", CLIENTS)
def test_what_clients_always_ask_for_is_taken_by_each_model(client: str, model: str) -> None:
    source, said, path = CLIENTS[client]
    made = translate.exchange(
        {**ASKS[source], **said}, source=source, target="anthropic", model=model, path=path
    ).encoded
    kind = made.body.get("thinking", {}).get("type")
    if model in BEFORE:
        assert kind in (None, "enabled"), "adaptive thinking is of newer models"
        assert "effort" not in made.body.get("output_config", {})
        assert {loss.concept for loss in made.losses} & {"thinking", "effort"}
    if kind == "enabled":
        assert 1024 <= made.body["thinking"]["budget_tokens"] < made.body["max_tokens"]
    if model in ("claude-opus-4-6", "claude-sonnet-5"):
        assert kind in (None, "adaptive")
    assert refusal(WireRequest("anthropic", made.body, model, {"anthropic-version": "2023-06-01"})) is None


def sent(model: str, **settings: Any) -> dict[str, Any]:
    quirks = {"api_version": settings.pop("api_version")} if "api_version" in settings else {}
    request = Request(model=model, max_tokens=9000, context=Context(None, [Message("?")]), **settings)
    encoded = WIRE.encode_request(request, **quirks)
    lost = {loss.path for loss in encoded.losses}
    return {name: encoded.body.get(name, "lost" if name in lost else None) for name in settings}


@pytest.mark.parametrize(
    ("model", "settings", "expected"),
    [
        ("claude-haiku-4-5", {"temperature": 0.5}, {"temperature": 0.5}),
        ("claude-haiku-4-5", {"temperature": 1.5}, {"temperature": "lost"}),
        ("claude-haiku-4-5", {"top_k": 40}, {"top_k": 40}),
        ("claude-haiku-4-5", {"top_k": -1}, {"top_k": "lost"}),
        ("claude-sonnet-5", {"temperature": 0.5, "api_version": "2023-06-01"}, {"temperature": "lost"}),
        ("unknown", {"temperature": 0.5, "api_version": "2023-06-01"}, {"temperature": 0.5}),
        ("claude-opus-4-1", {"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": "lost"}),
        ("claude-sonnet-4-6", {"temperature": 1, "top_p": 0.9}, {"temperature": "lost", "top_p": 0.9}),
        ("claude-haiku-4-5", {"temperature": 0, "top_p": 1}, {"temperature": 0, "top_p": "lost"}),
        ("claude-haiku-4-5", {"temperature": 1.5, "top_p": 0.9}, {"temperature": "lost", "top_p": 0.9}),
        ("claude-haiku-4-5", {"temperature": 0.5, "top_p": 1.5}, {"temperature": 0.5, "top_p": "lost"}),
        ("claude-sonnet-4-20250514", {"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
    ],
)
def test_how_words_are_drawn_is_said_where_it_is_taken(model: str, settings: Any, expected: dict[str, Any]) -> None:
    assert sent(model, **settings) == expected


@pytest.mark.parametrize(
    ("given", "taken"), [({"temperature": 0.2}, False), ({"temperature": 1}, True), ({"top_k": 40}, False),
                         ({"top_p": 0.5}, False), ({"top_p": 0.95}, True)],
)  # fmt: skip
def test_a_model_that_thinks_takes_little_of_it(given: dict[str, Any], taken: bool) -> None:
    [(name, value)] = given.items()
    assert sent("claude-sonnet-4-5", thinking_budget=2048, **given)[name] == (value if taken else "lost")


A, B = {"type": "string"}, {"type": "integer"}
ONE = {"type": "object", "properties": {"a": A}, "required": ["a"]}
OTHER = {"type": "object", "properties": {"a": A, "b": B}, "required": ["a", "b"]}


@pytest.mark.parametrize(
    ("schema", "properties", "required"),
    [
        ({"anyOf": [ONE, OTHER]}, {"a": A, "b": B}, ["a"]),
        ({"oneOf": [ONE, OTHER], "type": "object"}, {"a": A, "b": B}, ["a"]),
        ({"allOf": [ONE, OTHER]}, {"a": A, "b": B}, ["a", "b"]),
        ({"anyOf": [{"$ref": "#/$defs/One"}], "$defs": {"One": ONE}}, {"a": A}, ["a"]),
        ({**ONE, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": A}, ["a"]),
        ({"anyOf": [ONE, {"type": "object", "properties": {"a": B}}]}, {"a": {"anyOf": [A, B]}}, None),
        ({"anyOf": [True, 5, {"$ref": "#/nowhere"}]}, {}, None),
    ],
)
def test_alternatives_at_the_top_of_a_schema_are_said_as_one_object(
    schema: dict[str, Any], properties: dict[str, Any], required: list[str] | None
) -> None:
    tool = Tool("update", "Updates.", schema)
    encoded = WIRE.encode_request(Request(model="m", max_tokens=9, context=Context(None, [Message("?")], [tool])))
    [sent] = encoded.body["tools"]
    assert sent["input_schema"]["type"] == "object"
    assert (sent["input_schema"]["properties"], sent["input_schema"].get("required")) == (properties, required)
    assert {loss.concept for loss in encoded.losses} <= {*(f"schema_{key}" for key in schema), "schema_unfit"} != set()
    assert refusal(WireRequest("anthropic", encoded.body, "m", {"anthropic-version": "2023-06-01"})) is None
    own = {**encoded.body, "tools": [{"name": "update", "description": "Updates.", "input_schema": schema}]}
    assert WIRE.encode_request(WIRE.decode_request(own)).body == own


@pytest.mark.parametrize(
    ("schema", "lost"),
    [({}, False), ({"type": "string"}, True), ({"type": ["object", "null"]}, True), ({"type": None}, True)],
)
def test_a_type_at_the_top_that_is_no_object_becomes_one_with_a_loss(schema: dict[str, Any], lost: bool) -> None:
    tool = Tool("update", "Updates.", {**schema, "properties": {"a": A}})
    encoded = WIRE.encode_request(Request(model="m", max_tokens=9, context=Context(None, [Message("?")], [tool])))
    assert encoded.body["tools"][0]["input_schema"] == {"type": "object", "properties": {"a": A}}
    assert [loss.concept for loss in encoded.losses] == ["schema_type"] * lost


def test_what_may_be_null_at_the_top_is_an_object() -> None:
    tool = Tool("update", "Updates.", {"type": ["object", "null"], "properties": {"a": A}})
    encoded = WIRE.encode_request(Request(model="m", max_tokens=9, context=Context(None, [Message("?")], [tool])))
    assert encoded.body["tools"][0]["input_schema"]["type"] == "object"


EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": []}},
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "t", "name": "write", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"path": "/tm'},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    {"type": "message_stop"},
]


def test_half_a_call_of_a_stream_is_no_call_in_a_body_of_its_own_wire() -> None:
    decoder = WIRE.decode_stream()
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in EVENTS)
    response = accumulate(decoder.feed(data) + decoder.close())
    assert [call.raw for call in response.broken_calls] == ['{"path": "/tm']
    encoded = WIRE.encode_response(response)
    assert "tool_use" not in [block["type"] for block in encoded.body["content"]]
    assert [loss.concept for loss in encoded.losses] == ["bad_arguments"]
    history = Request(model="m", max_tokens=9, context=Context(None, [Message("?"), response.message]))
    assert "bad_arguments" in [loss.concept for loss in WIRE.encode_request(history).losses]


PIECES: list[dict[str, Any]] = [
    {"functionCall": {"name": "write", "id": "c", "partialArgs": [{"jsonPath": "$.path", "stringValue": "/tm"}],
                      "willContinue": True}},
]  # fmt: skip


def test_half_a_call_in_pieces_is_no_call_in_a_body_of_gemini() -> None:
    gemini = dialect("gemini")
    decoder = gemini.decode_stream()
    chunk = {"candidates": [{"content": {"role": "model", "parts": PIECES}, "finishReason": "STOP"}]}
    response = accumulate(decoder.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n") + decoder.close())
    assert not response.tool_calls
    encoded = gemini.encode_response(response)
    assert not [part for one in encoded.body["candidates"] for part in one["content"].get("parts", ()) if part]
    assert {loss.concept for loss in encoded.losses} & {"bad_arguments", "incomplete_call"}


def test_a_temperature_beside_top_p_is_a_loss_only_where_it_says_something() -> None:
    request = Request(context=Context(None, []), model="claude-haiku-4-5", temperature=0.5, top_p=0.9)
    lost = [
        [
            (loss.path, loss.action, loss.severity)
            for loss in WIRE.encode_request(asked).losses
            if loss.path != "max_tokens"
        ]
        for asked in (request, replace(request, temperature=1), replace(request, top_p=1))
    ]
    assert lost == [
        [("top_p", "dropped", "semantic")],
        [("temperature", "dropped", "formal")],
        [("top_p", "dropped", "formal")],
    ]


EFFORTS: list[tuple[str, dict[str, Any], str]] = [
    ("claude-opus-4-5", {"effort": "max"}, "high"),
    ("claude-opus-4-5", {"effort": "minimal"}, "low"),
    ("claude-sonnet-4-6", {"effort": "xhigh"}, "high"),
    ("claude-sonnet-4-6", {"effort": "max"}, "max"),
    ("claude-mythos-preview", {"effort": "xhigh"}, "high"),
    ("claude-opus-4-8", {"effort": "xhigh", "thinking": "disabled"}, "xhigh"),
    ("claude-opus-5", {"effort": "xhigh", "thinking": "disabled"}, "high"),
    ("claude-haiku-5-5", {"effort": "max", "thinking": "disabled"}, "high"),
    ("claude-sonnet-5-5", {"effort": "max", "thinking": "between_tools"}, "high"),
    ("claude-haiku-5-5", {"effort": "max"}, "max"),
]


@pytest.mark.parametrize(("model", "settings", "written"), EFFORTS)
def test_an_effort_is_one_that_the_model_takes(model: str, settings: dict[str, Any], written: str) -> None:
    request = Request(model=model, max_tokens=9, context=Context(None, [Message("?")]), **settings)
    encoded = WIRE.encode_request(request)
    assert encoded.body["output_config"] == {"effort": written}
    lost = [("effort", "approximated", "minor")] * (written != settings["effort"])
    assert [(loss.path, loss.action, loss.severity) for loss in encoded.losses] == lost
    assert refusal(WireRequest("anthropic", encoded.body, model, {"anthropic-version": "2023-06-01"})) is None


MUCH: dict[str, Any] = {"output_config": {"effort": "xhigh"}}
OFF: dict[str, Any] = {"thinking": {"type": "disabled"}}


@pytest.mark.parametrize(
    ("model", "said", "words"),
    [
        ("claude-sonnet-4-6", {"temperature": 0, "top_p": 1}, "`temperature` and `top_p` cannot both be specified"),
        ("claude-sonnet-4-0", {"temperature": 0, "top_p": 1}, None),
        ("claude-opus-4-6", MUCH, "effort level 'xhigh'. Supported levels: high, low, max, medium."),
        ("claude-opus-4-7", MUCH, None),
        ("claude-opus-4-7", MUCH | OFF, None),
        ("claude-opus-5", MUCH, None),
        ("claude-opus-5", MUCH | OFF, "output_config.effort 'xhigh' is not supported when thinking is disabled"),
    ],
)
def test_the_simulated_model_refuses_what_this_one_does(model: str, said: dict[str, Any], words: str | None) -> None:
    body = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "?"}], **said}
    refused = refusal(WireRequest("anthropic", body, model, {"anthropic-version": "2023-06-01"}))
    assert words in str(refused) if words else refused is None
    assert WIRE.encode_request(WIRE.decode_request(body)).body == body


SONNET = "claude-sonnet-5-5"
UNTHINKING: list[tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = [
    ({"thinking": "disabled"}, {"thinking": {"type": "between_tools"}}, [("thinking", "approximated")]),
    ({"thinking_budget": 0}, {"thinking": {"type": "between_tools"}}, [("thinking_budget", "approximated")]),
    ({"effort": "none"}, {"thinking": {"type": "between_tools"}}, [("effort", "approximated")]),
    (
        {"thinking": "disabled", "effort": "max"},
        {"thinking": {"type": "between_tools"}, "output_config": {"effort": "high"}},
        [("effort", "approximated"), ("thinking", "approximated")],
    ),
    (
        {"thinking": "disabled", "effort": "low"},
        {"thinking": {"type": "between_tools"}, "output_config": {"effort": "low"}},
        [("thinking", "approximated")],
    ),
    ({"effort": "max"}, {"output_config": {"effort": "max"}}, []),
    ({"thinking": "between_tools"}, {"thinking": {"type": "between_tools"}}, []),
]


@pytest.mark.parametrize(("fields", "written", "lost"), UNTHINKING)
def test_sonnet_thinks_between_tools_in_the_place_of_not_at_all(
    fields: dict[str, Any], written: dict[str, Any], lost: list[tuple[str, str]]
) -> None:
    request = Request(model=SONNET, max_tokens=9, context=Context(None, [Message("?")]), **fields)
    encoded = WIRE.encode_request(request)
    assert {key: encoded.body[key] for key in ("thinking", "output_config") if key in encoded.body} == written
    assert sorted((loss.path, loss.action) for loss in encoded.losses) == lost
    assert refusal(WireRequest("anthropic", encoded.body, SONNET, {"anthropic-version": "2023-06-01"})) is None


@pytest.mark.parametrize("said", [{"thinking": {"type": "disabled"}}, {"tool_choice": {"type": "any"}}])
def test_the_simulated_sonnet_refuses_what_the_real_one_does(said: dict[str, Any]) -> None:
    body = {"model": SONNET, "max_tokens": 9, "messages": [{"role": "user", "content": "?"}], **said}
    body["tools"] = [{"name": "f", "input_schema": {"type": "object"}}]
    refused = refusal(WireRequest("anthropic", body, SONNET, {"anthropic-version": "2023-06-01"}))
    assert refused is not None
    assert "not supported for this model" in str(refused)
    assert WIRE.encode_request(WIRE.decode_request(body)).body == body


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
CALLED = [Message("?"), Message("assistant", [ToolCall("a", "f", {})])]
PICTURE = Image(data="iVBORw0KGgo=", media_type="image/png")
FAILED = Message("tool", [ToolResult("a", "f", [Text("It broke."), PICTURE], is_error=True)])
WITH_SPACES = Context(" \n", [Message("?")])
# What is asked, the part of the body that it becomes, its loss, and what the server would have said of it.
REFUSED: dict[str, tuple[dict[str, Any], tuple[str, Any], list[tuple[str, str, str]], str]] = {
    "an end of spaces": (
        {"stop": ["\n", "END"]},
        ("stop_sequences", ["END"]),
        [("stop", "approximated", "semantic")],
        "each stop sequence must contain non-whitespace",
    ),
    "ends of spaces alone": (
        {"stop": ["\n\n", ""]},
        ("stop_sequences", None),
        [("stop", "dropped", "semantic")],
        "each stop sequence must contain non-whitespace",
    ),
    "an address as the user": (
        {"user": "jane@example.com"},
        ("metadata", None),
        [("user", "dropped", "formal")],
        "user_id appears to contain an email address",
    ),
    "a system prompt of spaces": (
        {"context": WITH_SPACES},
        ("system", None),
        [("system", "dropped", "minor")],
        "text content blocks must contain non-whitespace text",
    ),
    "a system message of spaces": (
        {"context": Context(None, [Message("system", " "), Message("?")])},
        ("system", None),
        [("messages[0].content", "dropped", "minor")],
        "text content blocks must contain non-whitespace text",
    ),
    "spaces before a system message": (
        {"context": Context(" ", [Message("system", "Be brief."), Message("?")])},
        ("system", "Be brief."),
        [("system.content[0].text", "dropped", "minor")],
        "text content blocks must contain non-whitespace text",
    ),
    "a picture of an error": (
        {"context": Context(None, [*CALLED, FAILED])},
        ("messages.2.content.0.content", [{"type": "text", "text": "It broke."}]),
        [("messages[2].content[0].content[1]", "dropped", "semantic")],
        "all content must be type `text` if `is_error` is true",
    ),
    "a parameter of an odd name": (
        {
            "context": Context(
                None,
                [Message("?")],
                [Tool("f", None, {"type": "object", "properties": {"$top": A, "a": B}, "required": ["$top", "a"]})],
            )
        },
        ("tools.0.input_schema", {"type": "object", "properties": {"a": B}, "required": ["a"]}),
        [("tools[0].parameters.properties.$top", "dropped", "semantic")],
        "Property keys should match pattern",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_server_refuses_is_left_out_with_a_loss(name: str) -> None:
    fields, (path, written), lost, _ = REFUSED[name]
    asked: dict[str, Any] = {"context": Context(None, [Message("?")]), "model": "m", "max_tokens": 9, **fields}
    encoded = WIRE.encode_request(Request(**asked))
    found: Any = encoded.body
    for step in path.split("."):
        found = found[int(step)] if step.isdigit() else found.get(step)
    assert found == written
    assert [(loss.path, loss.action, loss.severity) for loss in encoded.losses] == lost
    assert refusal(WireRequest("anthropic", encoded.body, "m", {"anthropic-version": "2023-06-01"})) is None


ASKED: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}
RAW: dict[str, dict[str, Any]] = {
    "an end of spaces": {"stop_sequences": ["\n", "END"]},
    "an address as the user": {"metadata": {"user_id": "jane@example.com"}},
    "a system prompt of spaces": {"system": " \n"},
    "a picture of an error": {
        "messages": [
            *ASKED["messages"],
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": [IMAGE]}],
            },
        ]
    },
    "a parameter of an odd name": {
        "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {"$top": A}}}]
    },
}


@pytest.mark.parametrize("name", RAW)
def test_what_was_read_here_stays_and_the_simulated_model_refuses_it(name: str) -> None:
    body = ASKED | RAW[name]
    assert WIRE.encode_request(WIRE.decode_request(body)) == Encoded("/v1/messages", body, ())
    assert REFUSED[name][3] in str(refusal(WireRequest("anthropic", body, "m", {"anthropic-version": "2023-06-01"})))
