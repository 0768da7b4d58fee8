"""The calls of a foreign answer come back settled: with ids of their own, and without the nulls of strictness."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from toolwire import Message, Opaque, Response, Text, Thinking, Tool, ToolCall, translate
from toolwire.dialects import NAMES
from toolwire.errors import InvalidBody
from toolwire.providers import provider_of
from toolwire.streams.accumulation import accumulate, events_of
from toolwire.translation.exchange import Exchange

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
ALL = {**SCHEMA, "required": ["city", "unit"]}
SAID = {"city": "Paris", "unit": None}
SIGNED = Opaque("gemini", {"thoughtSignature": "c2ln"})
ASKS = [{"role": "user", "content": "?"}]
Body = dict[str, Any]


def function(schema: Body) -> Body:
    return {"name": "weather", "description": "W", "parameters": schema, "strict": True}


def claudes(schema: Body) -> Body:
    return {"name": "weather", "description": "W", "input_schema": schema, "strict": True}


# What clients ask whose wires have strict tools.
ASKED: dict[str, Callable[[Body], Body]] = {
    "openai-chat": lambda schema: {"messages": ASKS, "tools": [{"type": "function", "function": function(schema)}]},
    "openai-responses": lambda schema: {"input": ASKS, "tools": [{"type": "function", **function(schema)}]},
    "anthropic": lambda schema: {"max_tokens": 99, "messages": ASKS, "tools": [claudes(schema)]},
}
PAIRS = [(source, target) for source in ASKED for target in NAMES if source != target]
SHOWN = pytest.mark.parametrize("streamed", [False, True])
BETWEEN = pytest.mark.parametrize(("source", "target"), PAIRS)


def asked(source: str, target: str, schema: Body = SCHEMA, said: Iterable[Body] = ()) -> Exchange:
    body = ASKED[source](schema)
    place = "input" if source == "openai-responses" else "messages"
    return translate.exchange({"model": "m", **body, place: [*body[place], *said]}, source=source, target=target)


def told(made: Exchange, response: Response, *, streamed: bool) -> Response:
    """Give an answer of the target, in its own wire, as the client reads it."""
    wire, client = made.target, made.source
    if not streamed:
        return client.decode_response(made.response(wire.encode_response(response).body).body)
    writer, reading, way = wire.encode_stream(), client.decode_stream(), made.stream()
    data = b"".join([*map(writer.feed, events_of(response)), writer.close()])
    shown = b"".join([*(way.feed(data[at : at + 7]) for at in range(0, len(data), 7)), way.close()])
    return accumulate([*reading.feed(shown), *reading.close()])


def answer(*parts: Any) -> Response:
    return Response.of(Message("assistant", list(parts)), "tool_calls", id="r", model="m")


@pytest.mark.sampled
@SHOWN
@BETWEEN
def test_a_null_that_only_strictness_asked_for_does_not_come_back(source: str, target: str, streamed: bool) -> None:
    response = answer(Text("I look."), ToolCall("c1", "weather", SAID), ToolCall("c2", "weather", {"city": "Rome"}))
    client = told(asked(source, target), response, streamed=streamed)
    assert [call.arguments for call in client.tool_calls] == [{"city": "Paris"}, {"city": "Rome"}]
    assert client.message.text == "I look."


@pytest.mark.sampled
@SHOWN
@BETWEEN
def test_a_null_comes_back_where_the_client_asked_for_it(source: str, target: str, streamed: bool) -> None:
    client = told(asked(source, target, ALL), answer(ToolCall("c1", "weather", SAID)), streamed=streamed)
    assert [call.arguments for call in client.tool_calls] == [SAID]


def test_only_a_call_that_may_lose_something_waits_until_it_is_whole() -> None:
    events = list(events_of(answer(ToolCall("c1", "weather", SAID, raw='{"city":"Paris","unit":null}'))))
    heard = {}
    for schema, name in ((SCHEMA, "optional"), (ALL, "required")):
        way = asked("openai-chat", "anthropic", schema).stream()
        said = [way.encode_events([event]).count(b"Paris") for event in events]
        heard[name] = [type(event).__name__ for event, count in zip(events, said, strict=True) if count]
    assert heard == {"optional": ["CallEnd"], "required": ["CallDelta"]}


# Names that no wire with a grammar takes, that only some take, or that look as if they had been written otherwise.
NAMES_OF_TOOLS = ("a" * 80, "srv.x/list", f"srv:{'b' * 62}", f"x.y{'c' * 130}", "list__tw3-2e")


@pytest.mark.sampled
@SHOWN
@BETWEEN
@pytest.mark.parametrize("name", NAMES_OF_TOOLS)
def test_a_call_has_the_name_that_its_client_declared(name: str, source: str, target: str, streamed: bool) -> None:
    [(place, [tool])] = [(key, value) for key, value in ASKED[source](SCHEMA).items() if key == "tools"]
    declared = json.loads(json.dumps(tool).replace('"weather"', json.dumps(name)))
    made = translate.exchange({"model": "m", **ASKED[source](SCHEMA), place: [declared]}, source=source, target=target)
    [sent] = made.target.decode_request(made.encoded.body, made.encoded.path).tools
    assert isinstance(sent, Tool)
    client = told(made, answer(ToolCall("c1", sent.name, {"city": "Paris"})), streamed=streamed)
    assert f'"name": "{name}"' in json.dumps(made.source.encode_response(client).body)


@pytest.mark.sampled
@SHOWN
@BETWEEN
def test_what_broke_off_is_no_call(source: str, target: str, streamed: bool) -> None:
    broken = ToolCall("c1", "weather", {}, complete=False, raw='{"city":"Pa')
    client = told(asked(source, target), answer(Text("I look."), broken), streamed=streamed)
    assert client.tool_calls == []


# Answers of wires that give a call no id: what is made for one is the same each time.
WITHOUT_ID: dict[str, Body] = {
    "gemini": {"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [
        {"functionCall": {"name": "weather", "args": {"city": "Rome"}}, "thoughtSignature": "c2ln"}]}}]},
    "ollama": {"done": True, "message": {"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "weather", "arguments": {"city": "Rome"}}}]}},
}  # fmt: skip
REPEATED: dict[str, Any] = {
    "openai-chat": lambda body: [body["choices"][0]["message"]],
    "openai-responses": lambda body: body["output"],
    "anthropic": lambda body: [{"role": "assistant", "content": body["content"]}],
}


@pytest.mark.parametrize("target", WITHOUT_ID)
@pytest.mark.parametrize("source", ASKED)
def test_calls_without_ids_are_told_apart_in_the_clients_conversation(source: str, target: str) -> None:
    first = asked(source, target)
    said = first.response(WITHOUT_ID[target]).body
    begun = REPEATED[source](said)
    second = asked(source, target, SCHEMA, begun)
    again = first.source.decode_response(second.response(WITHOUT_ID[target]).body)
    ids = [call.id for response in (first.source.decode_response(said), again) for call in response.tool_calls]
    assert len(set(ids)) == len(ids) == 2
    way, reading = asked(source, target, SCHEMA, begun).stream(), first.source.decode_stream()
    data = json.dumps(WITHOUT_ID[target])
    shown = way.feed(f"data: {data}\n\n".encode() if target == "gemini" else f"{data}\n".encode()) + way.close()
    streamed = accumulate([*reading.feed(shown), *reading.close()])
    assert [call.id for call in streamed.tool_calls] == ids[1:]


@SHOWN
@pytest.mark.parametrize("source", ASKED)
def test_what_is_learned_of_a_settled_turn_is_found_again(source: str, streamed: bool) -> None:
    signed = Opaque("gemini", {"thoughtSignature": "c2ln"})
    for call_id in (None, "c1"):
        made = asked(source, "gemini")
        call = ToolCall(call_id, "weather", SAID, opaque=signed)
        client = told(made, answer(call), streamed=streamed)
        repeated = REPEATED[source](made.source.encode_response(client).body)
        second = asked(source, "gemini", SCHEMA, repeated)
        assert second.memory_keys == [key for key, _ in made.memory_updates] != []
        second.use_memory(dict(made.memory_updates))
        assert "c2ln" in str(second.encoded.body)


CUSTOM: dict[str, Body] = {
    "openai-chat": {
        "messages": ASKS,
        "tools": [{"type": "custom", "custom": {"name": "apply_patch", "description": "P"}}],
    },
    "openai-responses": {"input": ASKS, "tools": [{"type": "custom", "name": "apply_patch", "description": "P"}]},
}


def repeating(source: str, body: Body, target: str, *parts: Any, streamed: bool) -> Exchange:
    """Give the next request of a client that repeats an answer, with what was kept of that."""
    made = translate.exchange({"model": "m", **body}, source=source, target=target)
    client = told(made, answer(*parts), streamed=streamed)
    place = "input" if source == "openai-responses" else "messages"
    said = [*body[place], *REPEATED[source](made.source.encode_response(client).body)]
    second = translate.exchange({"model": "m", **body, place: said}, source=source, target=target)
    assert second.memory_keys == [key for key, _ in made.memory_updates] != []
    second.use_memory(dict(made.memory_updates))
    return second


@SHOWN
@pytest.mark.parametrize("source", CUSTOM)
def test_what_is_learned_of_a_call_of_free_text_is_found_again(source: str, streamed: bool) -> None:
    """So Codex patches files with a model of another wire, which needs its thoughts again."""
    call = ToolCall("c1", "apply_patch", {"input": "*** Begin Patch\n"})
    thought = Thinking("Hm.", signature="c2ln")
    second = repeating(source, CUSTOM[source], "anthropic", thought, call, streamed=streamed)
    [sent] = [message for message in second.encoded.body["messages"] if message["role"] == "assistant"]
    assert [block["type"] for block in sent["content"]] == ["thinking", "tool_use"]
    assert sent["content"][0]["signature"] == "c2ln"
    assert sent["content"][1]["input"] == {"input": "*** Begin Patch\n"}
    signed = replace(call, id=None, opaque=Opaque("gemini", {"thoughtSignature": "c2ln"}))
    second = repeating(source, CUSTOM[source], "gemini", signed, streamed=streamed)
    assert "c2ln" in str(second.encoded.body)


# What a model of another wire says to tools that Responses calls without a name, and what a client adds to that.
UNNAMED: dict[str, tuple[str, Body, str, Body]] = {
    "local_shell": (
        "local_shell",
        {"command": ["ls"]},
        "action",
        {"timeout_ms": None, "working_directory": None, "user": None},
    ),
    "in a folder": ("local_shell", {"command": ["ls"], "working_directory": "/", "env": {}}, "action", {"user": None}),
    "shell": ("shell", {"commands": ["ls"], "timeout_ms": None}, "action", {"max_output_length": None}),
    "apply_patch": ("apply_patch", {"type": "delete_file", "path": "a"}, "operation", {"diff": None}),
}


@SHOWN
@pytest.mark.parametrize("call_id", [None, "c1"])
@pytest.mark.parametrize("case", UNNAMED)
def test_what_is_learned_of_a_call_that_is_repeated_with_nulls_is_found_again(
    case: str, call_id: str | None, streamed: bool
) -> None:
    kind, arguments, key, added = UNNAMED[case]
    body = {"model": "m", "input": ASKS, "tools": [{"type": kind}]}
    thought, call = Thinking("Hm.", signature="c2ln"), ToolCall(call_id, kind, arguments)
    target, parts = ("anthropic", [thought, call]) if call_id else ("gemini", [replace(call, opaque=SIGNED)])
    made = translate.exchange(body, source="openai-responses", target=target)
    shown = made.source.encode_response(told(made, answer(*parts), streamed=streamed)).body["output"]
    [item] = [item for item in shown if item["type"].endswith("_call")]
    item[key] |= added
    second = translate.exchange(body | {"input": [*ASKS, item]}, source="openai-responses", target=target)
    assert second.memory_keys == [key for key, _ in made.memory_updates] != []
    second.use_memory(dict(made.memory_updates))
    assert "c2ln" in str(second.encoded.body)


@SHOWN
def test_what_is_learned_of_a_turn_of_several_texts_is_found_again(streamed: bool) -> None:
    """Chat Completions says them as one."""
    parts = [
        Thinking("Hm.", signature="c2ln"),
        Text("I look. "),
        Text("Now."),
        ToolCall("c1", "weather", {"city": "R"}),
    ]
    second = repeating("openai-chat", ASKED["openai-chat"](SCHEMA), "anthropic", *parts, streamed=streamed)
    assert "c2ln" in str(second.encoded.body)


@SHOWN
@pytest.mark.parametrize("source", CUSTOM)
def test_a_server_of_the_same_wire_without_tools_of_free_text_is_answered_for(source: str, streamed: bool) -> None:
    provider, _ = provider_of({"name": "mine", "dialect": source, "base_url": "http://mine/v1"})
    made = translate.exchange({"model": "m", **CUSTOM[source]}, source=source, target=provider)
    assert "custom" not in str(made.encoded.body)
    client = told(made, answer(ToolCall("c1", "apply_patch", {"input": "ls"})), streamed=streamed)
    [call] = client.tool_calls
    assert (call.custom, call.raw) == (True, "ls")


@SHOWN
def test_thinking_that_a_client_of_chat_is_shown_is_no_loss(streamed: bool) -> None:
    told = b'{"message": {"role": "assistant", "content": "Yes.", "thinking": "Hm."}, "done": true}\n'
    made = asked("openai-chat", "ollama")
    if streamed:
        way = made.stream()
        shown, losses = way.feed(told) + way.close(), way.losses
    else:
        encoded = made.response(told)
        shown, losses = encoded.json, encoded.losses
    assert b'"reasoning_content":"Hm."' in shown
    assert [loss for loss in losses if loss.severity == "semantic"] == []


@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("target", NAMES)
def test_a_body_that_is_no_text_somewhere_is_refused(source: str, target: str) -> None:
    for odd in (b'"system":"x-anthropic-billing-header: \xff"', b'"user":"\xed\xa0\x80"'):
        with pytest.raises(InvalidBody, match="utf-8"):
            translate.exchange(b'{"model":"m","messages":[],%b}' % odd, source=source, target=target)
