"""An answer of Responses repeats the settings of its request, and an answer of Messages has every key of its schema."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic.types as messages_types
import openai.types.responses as responses_types
import pytest

from toolwire import Message, Response, Text, ToolCall, dialect, translate
from toolwire.dialects import NAMES
from toolwire.streams.accumulation import accumulate, events_of
from toolwire.translation.exchange import Exchange
from toolwire.types import Error, ErrorEnd, MessageStart, Usage

SETTINGS: dict[str, Any] = {
    "instructions": "Be brief.",
    "max_output_tokens": 99,
    "max_tool_calls": 7,
    "metadata": {"team": "red"},
    "parallel_tool_calls": False,
    "prompt_cache_key": "k",
    "reasoning": {"effort": "low", "summary": None},
    "safety_identifier": "s1",
    "service_tier": "flex",
    "store": False,
    "temperature": 0.25,
    "text": {
        "format": {
            "type": "json_schema",
            "name": "city",
            "description": None,
            "schema": {"type": "object", "properties": {"city": {"type": "string"}}},
            "strict": True,
        },
        "verbosity": "low",
    },
    "tool_choice": {"type": "function", "name": "look"},
    "tools": [
        {
            "type": "function",
            "name": "look",
            "description": "Look.",
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
            "strict": False,
        }
    ],
    "top_logprobs": 3,
    "top_p": 0.5,
    "truncation": "auto",
    "user": "u1",
}
DEFAULTS: dict[str, Any] = {
    "background": False,
    "frequency_penalty": 0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
OTHER_KEYS = {"id", "object", "created_at", "status", "error", "incomplete_details", "model", "output", "usage"}
FOREIGN = [name for name in NAMES if name != "openai-responses"]
ASKS = {"model": "m", "input": "Where?"}
SAID = Response.of(
    Message("assistant", [Text("Looking."), ToolCall("c1", "look", {"a": 1})]), "tool_calls", usage=Usage(3, 4)
)
CUT = Response.of(Message("assistant", "Loo"), "length", usage=Usage(3, 4))


def asked(target: str, settings: dict[str, Any] | None = None, **given: Any) -> Exchange:
    return translate.exchange({**ASKS, **(settings or {})}, source="openai-responses", target=target, **given)


def streamed(exchange: Exchange, response: Response) -> bytes:
    writer, way = exchange.target.encode_stream(), exchange.stream()
    data = b"".join([*map(writer.feed, events_of(response)), writer.close()])
    return way.feed(data) + way.close()


def events(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


def frames(exchange: Exchange, response: Response) -> dict[str, dict[str, Any]]:
    """Return the response object of each event that has one."""
    told = events(streamed(exchange, response))
    return {event["type"]: event["response"] for event in told if "response" in event}


def echoed(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in OTHER_KEYS | {"completed_at"}}


def required_keys(model: Any) -> set[str]:
    return set(model.model_fields)


@pytest.mark.parametrize("target", FOREIGN)
def test_an_answer_repeats_what_was_asked(target: str) -> None:
    exchange = asked(target, SETTINGS, now=7, continues={"previous_response_id": "resp_1"})
    body = exchange.response(exchange.target.encode_response(SAID).body).body
    assert echoed(body) == {**DEFAULTS, **SETTINGS, "previous_response_id": "resp_1"}
    assert (body["created_at"], body["completed_at"], body["status"]) == (7, 7, "completed")
    responses_types.Response.model_validate(body)


@pytest.mark.parametrize("response", [SAID, CUT], ids=["completed", "incomplete"])
@pytest.mark.parametrize("target", FOREIGN)
def test_every_event_with_the_response_repeats_what_was_asked(target: str, response: Response) -> None:
    times = iter((7.9, 9.9))
    told = frames(asked(target, SETTINGS, now=times.__next__), response)
    last = "response.completed" if response is SAID else "response.incomplete"
    assert list(told) == ["response.created", "response.in_progress", last]
    for kind, body in told.items():
        assert echoed(body) == {**DEFAULTS, **SETTINGS}, kind
        assert body["created_at"] == 7
        assert body["completed_at"] == (9 if kind == "response.completed" else None)
        responses_types.Response.model_validate(body)


@pytest.mark.parametrize("target", FOREIGN)
def test_a_failed_stream_repeats_what_was_asked(target: str) -> None:
    exchange = asked(target, SETTINGS, now=7)
    way = exchange.stream()
    data = (
        way.encode_events([MessageStart(response=Response()), ErrorEnd(error=Error("server", "Broken."))]) + way.close()
    )
    told = {event["type"]: event["response"] for event in events(data) if "response" in event}
    failed = told["response.failed"]
    assert echoed(failed) == {**DEFAULTS, **SETTINGS}
    assert (failed["status"], failed["completed_at"], failed["created_at"]) == ("failed", None, 7)


@pytest.mark.parametrize("target", FOREIGN)
def test_what_was_not_asked_has_the_default_of_openai(target: str) -> None:
    exchange = asked(target)
    whole = exchange.response(exchange.target.encode_response(SAID).body).body
    for body in (whole, *frames(asked(target), SAID).values()):
        assert echoed(body) == DEFAULTS
        assert body.keys() == OTHER_KEYS | DEFAULTS.keys() | {"completed_at"}


@pytest.mark.parametrize("source", FOREIGN)
def test_without_a_request_the_defaults_are_written(source: str) -> None:
    whole = translate.response(dialect(source).encode_response(SAID).body, source, "openai-responses").body
    assert echoed(whole) == DEFAULTS
    writer, way = dialect(source).encode_stream(), translate.stream(source, "openai-responses")
    data = way.feed(b"".join([*map(writer.feed, events_of(SAID)), writer.close()])) + way.close()
    told = [event["response"] for event in events(data) if "response" in event]
    assert len(told) == 3
    assert all(echoed(body) == DEFAULTS for body in told)


def test_the_keys_of_a_repeated_declaration_are_complete() -> None:
    settings = {
        "tools": [{"type": "function", "name": "look"}, {"type": "web_search"}],
        "reasoning": {"effort": "high"},
        "text": {"verbosity": "high"},
        "conversation": "conv_1",
        "prompt_cache_retention": "24h",
        "metadata": None,
        "truncation": None,
    }
    exchange = asked("openai-chat", settings)
    body = exchange.response(exchange.target.encode_response(SAID).body).body
    assert body["tools"] == [
        {"type": "function", "name": "look", "description": None, "parameters": None, "strict": None},
        {"type": "web_search"},
    ]
    assert body["reasoning"] == {"effort": "high", "summary": None}
    assert body["text"] == {"format": {"type": "text"}, "verbosity": "high"}
    assert (body["conversation"], body["prompt_cache_retention"]) == ({"id": "conv_1"}, "24h")
    assert (body["metadata"], body["truncation"]) == ({}, "disabled")


def test_a_request_of_any_wire_can_be_repeated() -> None:
    body = {
        "model": "m",
        "max_tokens": 9,
        "system": "Be brief.",
        "temperature": 0.5,
        "messages": [{"role": "user", "content": "?"}],
    }
    request = dialect("anthropic").decode_request(body)
    written = dialect("openai-responses").encode_response(SAID, request=request).body
    assert (written["instructions"], written["temperature"], written["max_output_tokens"]) == ("Be brief.", 0.5, 9)
    for name in NAMES:
        plain = dialect(name).encode_response(SAID)
        assert name == "openai-responses" or dialect(name).encode_response(SAID, request=request) == plain


def test_an_answer_does_not_share_its_settings_with_the_next() -> None:
    first = translate.response({"choices": []}, "openai-chat", "openai-responses").body
    first["metadata"]["a"], first["text"]["format"]["type"], first["reasoning"]["effort"] = 1, "x", "x"
    assert echoed(translate.response({"choices": []}, "openai-chat", "openai-responses").body) == DEFAULTS


def test_an_answer_of_its_own_wire_is_not_touched() -> None:
    bare = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": []}
    exchange = asked("openai-responses", SETTINGS, now=7, continues={"previous_response_id": "resp_0"})
    assert exchange.response(bare).body == bare
    writer = dialect("openai-responses").encode_stream()
    native = b"".join([*map(writer.feed, events_of(SAID)), writer.close()]).replace(b'"truncation":"disabled",', b"")
    way = exchange.stream()
    assert list(events(way.feed(native) + way.close())) == list(events(native))


@pytest.mark.parametrize("target", FOREIGN)
def test_what_is_repeated_is_no_loss_and_does_not_change_the_answer(target: str) -> None:
    exchange = asked(target, SETTINGS, now=7)
    encoded = exchange.response(exchange.target.encode_response(SAID).body)
    plain = translate.response(exchange.target.encode_response(SAID).body, target, "openai-responses")
    assert [loss for loss in encoded.losses if loss not in plain.losses] == []
    for name in FOREIGN:
        again = translate.response(encoded.body, "openai-responses", name)
        assert {loss.severity for loss in again.losses} <= {"formal"}
    read = dialect("openai-responses").decode_response(encoded.body)
    assert dialect("openai-responses").encode_response(read).body == encoded.body
    assert (read.tool_calls[0].plain_arguments, read.content, read.finish_reason) == (
        {"a": 1},
        "Looking.",
        "tool_calls",
    )


def test_a_time_is_whole_seconds_and_never_zero_if_the_caller_has_one() -> None:
    late = {
        "model": "m",
        "created_at": "2026-11-27T12:00:00.75Z",
        "message": {"role": "assistant", "content": "Hi"},
        "done": True,
    }
    assert asked("ollama", now=7).response(late).body["created_at"] == 1_795_780_800
    zero = {
        "id": "x",
        "created": 0,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
    }
    assert asked("openai-chat", now=7).response(zero).body["created_at"] == 7


# Messages

MESSAGES = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}
UPSTREAMS = [name for name in NAMES if name != "anthropic"]


def messages_exchange(target: str) -> Exchange:
    return translate.exchange(MESSAGES, source="anthropic", target=target)


@pytest.mark.parametrize("target", UPSTREAMS)
def test_an_answer_of_messages_has_every_key_of_the_schema(target: str) -> None:
    exchange = messages_exchange(target)
    encoded = exchange.response(exchange.target.encode_response(SAID).body)
    body = encoded.body
    assert body.keys() == required_keys(messages_types.Message)
    assert body["usage"].keys() == required_keys(messages_types.Usage)
    assert [body[key] for key in ("container", "stop_details", "diagnostics")] == [None, None, None]
    text, call = body["content"]
    assert text == {"type": "text", "text": "Looking.", "citations": None}
    assert call["caller"] == {"type": "direct"}
    messages_types.Message.model_validate(body, strict=True)


@pytest.mark.parametrize("target", UPSTREAMS)
def test_a_stream_of_messages_has_every_key_of_the_schema(target: str) -> None:
    told = {event["type"]: event for event in events(streamed(messages_exchange(target), SAID))}
    message = told["message_start"]["message"]
    assert message.keys() == required_keys(messages_types.Message)
    assert message["usage"].keys() == required_keys(messages_types.Usage)
    delta = told["message_delta"]
    assert delta["delta"].keys() == required_keys(messages_types.raw_message_delta_event.Delta)
    assert delta["usage"].keys() == required_keys(messages_types.MessageDeltaUsage)
    starts = [
        event["content_block"]
        for event in events(streamed(messages_exchange(target), SAID))
        if event["type"] == "content_block_start"
    ]
    assert starts[0] == {"type": "text", "text": "", "citations": None}
    assert starts[1]["caller"] == {"type": "direct"}


@pytest.mark.parametrize("target", UPSTREAMS)
def test_what_is_added_to_an_answer_of_messages_is_no_loss(target: str) -> None:
    exchange = messages_exchange(target)
    body = exchange.response(exchange.target.encode_response(SAID).body).body
    read, messages = dialect("anthropic").decode_response(body), dialect("anthropic")
    assert messages.encode_response(read).body == body
    reader = messages.decode_stream()
    whole = accumulate([*reader.feed(streamed(messages_exchange(target), SAID)), *reader.close()])
    for response in (read, whole):
        assert (response.content, response.finish_reason) == ("Looking.", "tool_calls")
        assert response.tool_calls[0].plain_arguments == {"a": 1}
        assert response.usage is not None
        assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 4)
    turn = {"role": "assistant", "content": body["content"]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}]}
    sent_back = {**MESSAGES, "tools": [{"name": "look", "input_schema": {"type": "object"}}]}
    sent_back["messages"] = [*MESSAGES["messages"], turn, result]  # type: ignore[misc]
    bare = json.loads(
        json.dumps(sent_back).replace(', "citations": null', "").replace(', "caller": {"type": "direct"}', "")
    )
    bare["messages"][1]["content"][0].pop("citations", None)
    for name in UPSTREAMS:
        given, without = (translate.request(one, "anthropic", name) for one in (sent_back, bare))
        assert given.losses == without.losses
        assert given.body == without.body
    assert translate.request(sent_back, "anthropic", "anthropic").body == sent_back


def test_an_answer_of_messages_of_its_own_wire_is_not_touched() -> None:
    bare = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    assert translate.exchange(MESSAGES, source="anthropic", target="anthropic").response(bare).body == bare
