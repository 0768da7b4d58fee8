"""Responses and errors of Responses, both ways."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, losses
from tests.oracles import RESPONSES
from tests.wires import differences
from toolwire import (
    Choice,
    Citation,
    Error,
    Image,
    Message,
    Opaque,
    Refusal,
    Response,
    Text,
    Thinking,
    ToolCall,
    Usage,
    translate,
)
from toolwire.dialects import openai_chat, openai_responses

TEXT = {"type": "output_text", "text": "Blue.", "annotations": [], "logprobs": []}
MSG = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [TEXT]}
REFUSAL = {**MSG, "content": [{"type": "refusal", "refusal": "No."}]}
FC = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "look",
    "arguments": "{}",
    "status": "completed",
}


def body_of(*output: Any, **fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 5.5,
        "model": "m",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **fields,
    }


def cut(reason: Any) -> dict[str, Any]:
    return {"status": "incomplete", "incomplete_details": reason}


FINISHES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "words": (body_of(MSG), "stop", "completed"),
    "a call": (body_of(MSG, FC), "tool_calls", "completed"),
    "a refusal": (body_of(REFUSAL), "refusal", "completed"),
    "too long": (body_of(MSG, **cut({"reason": "max_output_tokens"})), "length", "max_output_tokens"),
    "too long with a call": (
        body_of(FC, **cut({"reason": "max_output_tokens"})),
        "length",
        "max_output_tokens",
    ),
    "filtered": (body_of(**cut({"reason": "content_filter"})), "content_filter", "content_filter"),
    "steered": (body_of(**cut({"reason": "steered"})), "pause", "steered"),
    "cut for a new reason": (body_of(**cut({"reason": "bored"})), "incomplete", "bored"),
    "cut for no reason": (body_of(**cut(None)), "incomplete", "incomplete"),
    "cut with more": (body_of(**cut({"reason": "x", "y": 1})), "incomplete", "incomplete"),
    "failed": (body_of(status="failed", error={"code": "server_error", "message": "x"}), "error", "failed"),
    "on its way": (body_of(status="in_progress"), "incomplete", "in_progress"),
    "a new status": (body_of(status="dreaming"), "unknown", "dreaming"),
    "a call without a status": ({"output": [FC]}, "tool_calls", None),
    "nothing": ({"output": []}, None, None),
}


@pytest.mark.parametrize("case", FINISHES)
def test_why_a_response_ends(case: str) -> None:
    body, reason, word = FINISHES[case]
    response = openai_responses.decode_response(body)
    assert (response.finish_reason, response.raw_finish_reason) == (reason, word)
    encoded = openai_responses.encode_response(response)
    assert differences(body, encoded.body) == []
    assert encoded.losses == ()


def test_what_a_response_means() -> None:
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 17,
    }
    response = openai_responses.decode_response(body_of(MSG, FC, usage=usage, service_tier="flex"))
    assert (response.id, response.model, response.created, response.service_tier) == (
        "resp_1",
        "m",
        5.5,
        "flex",
    )
    assert response.provider_state == {"previous_response_id": "resp_1"}
    assert response.content == "Blue."
    assert response.tool_calls == [ToolCall("call_1", "look", {})]
    assert response.usage == Usage(10, 7, 4, 1, 2, Opaque("openai-responses", usage))


def test_cache_writes_are_told_by_their_lifetimes() -> None:
    lifetimes = {"ttl_12h_tokens": 3, "ttl_30m_tokens": 5}
    details = {"cached_tokens": 0, "cache_write_tokens": 8, "cache_write_tokens_details": lifetimes}
    usage = {"input_tokens": 10, "input_tokens_details": details, "output_tokens": 7}
    response = openai_responses.decode_response(body_of(MSG, usage=usage))
    assert response.usage is not None
    assert (response.usage.cache_write_tokens, response.usage.cache_write_long_tokens) == (8, 3)
    claude = translate.response(body_of(MSG, usage=usage), source="openai-responses", target="anthropic").body["usage"]
    assert claude["cache_creation"] == {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 3}
    back = openai_responses.encode_response(replace(response, usage=replace(response.usage, opaque=None)))
    assert back.body["usage"]["input_tokens_details"] == details
    chat = openai_chat.encode_response(replace(response, usage=replace(response.usage, opaque=None)))
    assert [loss.path for loss in chat.losses if loss.concept == "usage_details"] == ["usage.cache_write_long_tokens"]
    assert "cache_write_tokens_details" not in chat.body["usage"]["prompt_tokens_details"]


NOTES: list[tuple[dict[str, Any], Citation]] = [
    (
        {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2},
        Citation("u", "t", None, 0, 2, Opaque("openai-responses", {})),
    ),
    ({"type": "url_citation", "url": "u"}, Citation("u", opaque=Opaque("openai-responses", {}))),
    (
        {"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 3},
        Citation(
            None,
            "a.pdf",
            opaque=Opaque("openai-responses", {"type": "file_citation", "file_id": "f", "index": 3}),
        ),
    ),
]


@pytest.mark.parametrize(("note", "citation"), NOTES)
def test_a_citation(note: dict[str, Any], citation: Citation) -> None:
    body = body_of({**MSG, "content": [{**TEXT, "annotations": [note]}]})
    response = openai_responses.decode_response(body)
    [part] = response.parts
    assert isinstance(part, Text)
    assert part.citations == [citation]
    assert differences(body, openai_responses.encode_response(response).body) == []


ODD: list[dict[str, Any]] = [
    {},
    {"output": None, "status": "completed"},
    {
        "id": 5,
        "created_at": "now",
        "model": None,
        "usage": [],
        "output": [None, "x", {}, {"type": 5}, {"role": "user"}],
    },
    body_of({**MSG, "content": []}, {**MSG, "content": "Blue."}, {**MSG, "role": "user"}),
    body_of({**MSG, "content": [{**TEXT, "item.phase": 1}, None, {"type": "refusal"}]}),
    body_of({**MSG, "content": [{**TEXT, "annotations": [5]}], "phase": "final_answer", "new": {}}),
    body_of({"type": "function_call_output", "call_id": "call_1", "output": "x"}, created_at=float("inf")),
]


@pytest.mark.parametrize("body", ODD)
def test_an_odd_response_comes_back(body: dict[str, Any]) -> None:
    encoded = openai_responses.encode_response(openai_responses.decode_response(body))
    assert differences(body, encoded.body) == []


def test_a_changed_field_is_the_only_difference() -> None:
    body = body_of(MSG, FC, usage={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "cost": 4})
    response = openai_responses.decode_response(body)
    choice = replace(response.choices[0], finish_reason="length")
    assert response.usage is not None
    changes: list[tuple[dict[str, Any], list[str]]] = [
        ({"model": "n"}, ["$.model: 'm' became 'n'"]),
        (
            {"choices": [choice]},
            [
                "$.status: 'completed' became 'incomplete'",
                "$.incomplete_details: None became {'reason': 'max_output_tokens'}",
            ],
        ),
        (
            {"usage": replace(response.usage, output_tokens=5)},
            ["$.usage.output_tokens: 2 became 5", "$.usage.total_tokens: 3 became 6"],
        ),
    ]
    for fields, expected in changes:
        found = differences(body, openai_responses.encode_response(replace(response, **fields)).body)
        assert sorted(found) == sorted(expected)


def answer(*parts: Any, finish: Any = "stop", **fields: Any) -> Any:
    message = Message("assistant", list(parts))
    return openai_responses.encode_response(Response(choices=[Choice(message, finish)], id="r", model="m", **fields))


def without_ids(items: list[Any]) -> list[Any]:
    kinds = [(item["type"], item["id"].partition("_")[0]) for item in items]
    assert len({item["id"] for item in items}) == len(items)
    return [{**item, "id": kind[1]} for item, kind in zip(items, kinds, strict=True)]


def test_a_response_from_elsewhere() -> None:
    parts = [Thinking("Hm.", "sig"), Text("a"), Text("b"), ToolCall("call_1", "look", {"x": 1}), Text("c")]
    encoded = answer(*parts, finish="tool_calls")
    text = {"type": "output_text", "annotations": []}
    message = {"type": "message", "id": "msg", "role": "assistant", "status": "completed"}
    assert without_ids(encoded.body["output"]) == [
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {**message, "content": [{**text, "text": "a"}, {**text, "text": "b"}]},
        {
            "type": "function_call",
            "id": "fc",
            "call_id": "call_1",
            "name": "look",
            "arguments": '{"x":1}',
            "status": "completed",
        },
        {**message, "content": [{**text, "text": "c"}]},
    ]
    assert losses(encoded) == [("choices[0].message.content[0].signature", "dropped", "semantic")]


def test_the_frame_of_a_response_from_elsewhere() -> None:
    encoded = answer(created=5, usage=Usage(3, 4))
    assert encoded.body == {
        "id": "r",
        "object": "response",
        "created_at": 5,
        "status": "completed",
        "background": False,
        "completed_at": 5,
        "error": None,
        "frequency_penalty": 0,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "model": "m",
        "output": [],
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
        "usage": {
            "input_tokens": 3,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 4,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 7,
        },
    }


def test_a_response_from_elsewhere_is_one_of_this_vendor() -> None:
    first, again = (answer(Refusal("No."), ToolCall("c", "run", raw="1", custom=True)) for _ in range(2))
    assert RESPONSES["openai-responses"](first.body) is None
    assert first.body == again.body
    assert first.body["output"][0]["content"] == [{"type": "refusal", "refusal": "No."}]
    asked = first.body["output"][1]
    assert (asked["type"], asked["status"], asked["id"][:4]) == ("custom_tool_call", "completed", "ctc_")
    assert openai_responses.encode_response(Response()).body["id"].startswith("resp_")


ENDINGS: dict[Any, tuple[str, Any, list[Said]]] = {
    None: ("completed", None, []),
    "stop": ("completed", None, []),
    "length": ("incomplete", {"reason": "max_output_tokens"}, []),
    "content_filter": ("incomplete", {"reason": "content_filter"}, []),
    "pause": ("incomplete", {"reason": "steered"}, []),
    "incomplete": ("incomplete", None, []),
    "error": ("failed", None, []),
    "context_window": (
        "incomplete",
        {"reason": "max_output_tokens"},
        [("choices[0].finish_reason", "approximated", "semantic")],
    ),
    "stop_sequence": ("completed", None, [("choices[0].finish_reason", "approximated", "minor")]),
    "refusal": (
        "incomplete",
        {"reason": "content_filter"},
        [("choices[0].finish_reason", "approximated", "semantic")],
    ),
    "malformed_tool_call": ("completed", None, [("choices[0].finish_reason", "approximated", "semantic")]),
}


@pytest.mark.parametrize("finish", ENDINGS)
def test_how_a_response_from_elsewhere_ends(finish: Any) -> None:
    status, details, lost = ENDINGS[finish]
    encoded = answer(Text("a"), finish=finish)
    assert (encoded.body["status"], encoded.body["incomplete_details"]) == (status, details)
    assert losses(encoded) == lost
    assert encoded.body["error"] == (
        {"code": "server_error", "message": "the answer failed"} if finish == "error" else None
    )


def test_what_a_response_cannot_hold() -> None:
    choices = [
        Choice(Message("assistant", [Image("u")], "bob"), "stop", None, "END"),
        Choice(Message("assistant", "b")),
    ]
    response = Response(choices=choices, service_tier="on_demand", provider_state={"previous_response_id": "x", "y": 1})
    assert losses(openai_responses.encode_response(response)) == [
        ("choices[0].message.content[0]", "dropped", "semantic"),
        ("choices[0].message.name", "dropped", "semantic"),
        ("choices[0].stop_sequence", "dropped", "minor"),
        ("choices[1]", "dropped", "semantic"),
        ("service_tier", "dropped", "formal"),
        ("provider_state.previous_response_id", "dropped", "formal"),
        ("provider_state.y", "dropped", "formal"),
    ]


def test_a_response_goes_on_as_a_request() -> None:
    response = openai_responses.decode_response(body_of(MSG, FC))
    encoded = openai_chat.encode_response(response)
    [choice] = encoded.body["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Blue."
    assert choice["message"]["tool_calls"][0]["id"] == "call_1"


ERRORS: dict[str, tuple[int | None, Any, tuple[Any, ...]]] = {
    "an invalid request": (
        400,
        {"error": {"message": "no", "type": "invalid_request_error", "param": "input", "code": None}},
        ("invalid_request", "no", "invalid_request_error", None, "input"),
    ),
    "an unknown model": (
        400,
        {
            "error": {
                "message": "no",
                "type": "invalid_request_error",
                "param": "model",
                "code": "model_not_found",
            }
        },
        ("not_found", "no", "invalid_request_error", "model_not_found", "model"),
    ),
    "no quota": (
        429,
        {"error": {"message": "no", "code": "insufficient_quota"}},
        ("billing", "no", None, "insufficient_quota", None),
    ),
    "too fast": (429, {"error": {"message": "no"}, "x": 1}, ("rate_limit", "no", None, None, None)),
    "a type that says more": (
        400,
        {"error": {"message": "no", "type": "authentication_error"}},
        ("authentication", "no", "authentication_error", None, None),
    ),
    "a string": (500, {"error": "boom"}, ("server", "boom", None, None, None)),
    "in a stream": (
        None,
        {
            "type": "error",
            "code": "rate_limit_exceeded",
            "message": "no",
            "param": None,
            "sequence_number": 3,
        },
        ("rate_limit", "no", None, "rate_limit_exceeded", None),
    ),
    "of a failed response": (
        None,
        {"code": "server_error", "message": "no"},
        ("server", "no", None, "server_error", None),
    ),
    "a message alone": (401, {"message": "who?"}, ("authentication", "who?", None, None, None)),
    "a page": (502, "<html>", ("server", "<html>", None, None, None)),
    "nothing": (404, None, ("not_found", "", None, None, None)),
    "a list": (400, [1], ("invalid_request", "[1]", None, None, None)),
    "a code that is a status": (
        200,
        {"error": {"message": "no", "code": 503}},
        ("overloaded", "no", None, 503, None),
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_error(case: str) -> None:
    status, body, meant = ERRORS[case]
    error = openai_responses.decode_error(status, body)
    assert (error.kind, error.message, error.type, error.code, error.param) == meant
    reply = openai_responses.encode_error(error)
    assert differences(body, reply.body) == []
    assert reply.losses == ()
    if status is not None:
        assert reply.status == status


def test_an_error_from_elsewhere() -> None:
    reply = openai_responses.encode_error(Error("context_length", "too long", request_id="req_1"))
    assert reply.status == 400
    assert reply.body == {
        "error": {
            "message": "too long",
            "type": "invalid_request_error",
            "param": None,
            "code": "context_length_exceeded",
        }
    }
    assert losses(reply) == [("request_id", "dropped", "formal")]


def test_a_response_of_this_wire_may_lack_its_status() -> None:
    body = {"id": "r", "object": "response", "completed_at": 5, "output": []}
    data = b"data: " + msgspec.json.encode({"type": "response.completed", "response": body}) + b"\n\n"
    stream = translate.stream("openai-responses", "openai-responses")
    assert b'"completed_at":5' in stream.feed(data) + stream.close()
