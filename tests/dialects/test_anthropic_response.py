"""Responses of Messages: what each means, that it comes back, and responses from elsewhere."""

from typing import Any

import pytest
from msgspec import json
from msgspec.structs import replace

from tests.dialects.asking import Said, losses
from toolwire import (
    Audio,
    Choice,
    Citation,
    Message,
    Opaque,
    Refusal,
    Response,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    Usage,
    accumulate,
    dialect,
    translate,
)
from toolwire.dialects import anthropic
from toolwire.dialects.anthropic.response import decode_usage

PLAIN = Opaque("anthropic", {})
USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"city": "Paris"}}
HELLO = {"type": "text", "text": "Hi"}


def answering(*content: Any, stop: Any = "end_turn", **fields: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **fields,
    }


OWN: dict[str, dict[str, Any]] = {
    "words": answering(HELLO),
    "calls": answering(HELLO, USE, {**USE, "id": "toolu_2"}, stop="tool_use"),
    "thinking": answering(
        {"type": "thinking", "thinking": "", "signature": "S"},
        {"type": "redacted_thinking", "data": "blob"},
        HELLO,
    ),
    "what the server ran": answering(
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]},
        {"type": "code_execution_tool_result", "tool_use_id": "s", "content": {"stdout": ""}},
        {**HELLO, "citations": [{"type": "web_search_result_location", "url": "u", "title": "t", "x": 1}]},
    ),
    "what nobody knows": answering({"type": "fallback", "x": 1}, {**USE, "input": "{}"}, "bare", None),
    "nothing": {},
    "no content": answering(),
    "content of no kind": answering(content=5),
    "a text as content": answering(content="Hi"),
    "no reason": answering(HELLO, stop=None),
    "a sequence": answering(HELLO, stop="stop_sequence", stop_sequence="END"),
    "a refusal": answering(stop="refusal", stop_details={"type": "refusal", "category": "cyber", "explanation": "e"}),
    "more": answering(
        HELLO,
        container={"id": "c"},
        usage={
            "input_tokens": 10,
            "cache_creation_input_tokens": 3,
            "cache_read_input_tokens": 4,
            "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": 2},
            "server_tool_use": {"web_search_requests": 1},
            "service_tier": "standard",
        },
    ),
    "no usage": answering(HELLO, usage=None),
    "counts of no kind": answering(HELLO, usage={"input_tokens": None, "output_tokens": "5"}),
    "another role": answering(HELLO, role="model", type="completion"),
}


@pytest.mark.parametrize("body", OWN.values(), ids=OWN)
def test_a_response_comes_back(body: dict[str, Any]) -> None:
    encoded = anthropic.encode_response(anthropic.decode_response(body))
    assert (encoded.body, encoded.losses) == (body, ())


MEANT: dict[str, list[Any]] = {
    "words": [Text("Hi", opaque=PLAIN)],
    "calls": [
        Text("Hi", opaque=PLAIN),
        ToolCall("toolu_1", "look", {"city": "Paris"}),
        ToolCall("toolu_2", "look", {"city": "Paris"}),
    ],
    "thinking": [
        Thinking("", "S", opaque=PLAIN),
        Thinking("", "blob", redacted=True, opaque=PLAIN),
        Text("Hi", opaque=PLAIN),
    ],
    "what the server ran": [
        ServerToolCall("s", "web_search", {"query": "q"}, opaque=PLAIN),
        ServerToolResult("s", "web_search_tool_result", [{"url": "u"}], opaque=PLAIN),
        ServerToolResult("s", "code_execution_tool_result", {"stdout": ""}, opaque=PLAIN),
        Text(
            "Hi",
            [Citation("u", "t", opaque=Opaque("anthropic", {"type": "web_search_result_location", "x": 1}))],
            opaque=PLAIN,
        ),
    ],
    "nothing": [],
    "no content": [],
    "content of no kind": [],
    "a text as content": [Text("Hi")],
}


@pytest.mark.parametrize("case", MEANT)
def test_what_an_answer_means(case: str) -> None:
    assert anthropic.decode_response(OWN[case]).parts == MEANT[case]


def test_what_a_response_means() -> None:
    response = anthropic.decode_response(OWN["more"])
    assert (response.id, response.model, response.content) == ("msg_1", "claude-sonnet-5", "Hi")
    calls = anthropic.decode_response(OWN["calls"]).tool_calls
    assert [call.index for call in calls] == [0, 1]
    sequence = anthropic.decode_response(OWN["a sequence"]).choices[0]
    assert (sequence.finish_reason, sequence.stop_sequence) == ("stop_sequence", "END")


# A compaction and an advisor are asked beside the answer: what they took is not in the counts at the top.
COMPACTED: dict[str, Any] = {
    "input_tokens": 612,
    "output_tokens": 2819,
    "cache_read_input_tokens": 10,
    "iterations": [
        {"type": "compaction", "input_tokens": 60_000, "output_tokens": 500, "cache_read_input_tokens": 5},
        {"type": "message", "input_tokens": 612, "output_tokens": 2819, "cache_read_input_tokens": 10},
        {"type": "advisor_message", "model": "m", "input_tokens": 385, "output_tokens": 22},
    ],
}
LONG = {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 7}
Counts = tuple[int | None, ...]
COUNTS: list[tuple[dict[str, Any], Counts]] = [
    ({"input_tokens": 10, "output_tokens": 5}, (10, 5, None, None, None)),
    (OWN["more"]["usage"], (17, 5, 4, 3, 2, 0)),
    (
        {"input_tokens": 1, "output_tokens": 5, "cache_creation_input_tokens": 9, "cache_creation": LONG},
        (10, 5, None, 9, None, 7),
    ),
    ({"input_tokens": 1, "output_tokens": 5, "cache_creation": LONG}, (1, 5, None, None, None, 0)),
    ({"input_tokens": 1, "output_tokens": 5, "cache_creation": {"ephemeral_1h_input_tokens": "7"}}, (1, 5)),
    ({"input_tokens": 10, "cache_read_input_tokens": 4, "output_tokens": 0}, (14, 0, 4, None, None)),
    ({"output_tokens": 5}, (None, 5, None, None, None)),
    ({"input_tokens": 1.5, "output_tokens": True}, (None, None, None, None, None)),
    (COMPACTED, (61_012, 522 + 2819, 15, None, None)),
    (
        {"input_tokens": 3, "output_tokens": 2, "iterations": ["odd", {"type": "compaction"}, None]},
        (3, 2, None, None, None),
    ),
    ({"input_tokens": 3, "output_tokens": 2, "iterations": {"type": "compaction"}}, (3, 2, None, None, None)),
]


@pytest.mark.parametrize(("body", "counts"), COUNTS)
def test_what_the_counts_mean(body: dict[str, Any], counts: Counts) -> None:
    usage = anthropic.decode_response(answering(HELLO, usage=body)).usage
    prompt, output, read, written, thinking, long = (*counts, None, None, None, None)[:6]
    assert usage == Usage(prompt, output, read, written, thinking, Opaque("anthropic", body), long)


def test_writes_of_an_hour_are_counted_again_where_a_count_has_changed() -> None:
    compaction = {"type": "compaction", "cache_creation_input_tokens": 4, "cache_creation": LONG | {"x": 1}}
    body = {
        "input_tokens": 1,
        "output_tokens": 5,
        "cache_creation_input_tokens": 9,
        "cache_creation": {**LONG, "new": 1},
        "iterations": [compaction],
    }
    response = anthropic.decode_response(answering(HELLO, usage=body))
    assert response.usage is not None
    assert (response.usage.cache_write_tokens, response.usage.cache_write_long_tokens) == (13, 13)
    changed = replace(response, usage=replace(response.usage, cache_write_long_tokens=10))
    written = anthropic.encode_response(changed).body["usage"]
    assert written["cache_creation"] == {"ephemeral_5m_input_tokens": 6, "ephemeral_1h_input_tokens": 3, "new": 1}
    assert {**written, "cache_creation": body["cache_creation"]} == body


def test_writes_of_an_hour_from_elsewhere_are_a_part_of_all_writes() -> None:
    usage = Usage(20, 5, cache_write_tokens=9, cache_write_long_tokens=12)
    written = anthropic.encode_response(Response.of(Message("assistant", "Hi."), usage=usage)).body["usage"]
    assert written["cache_creation"] == {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 9}


FINISHES: list[tuple[Any, list[Any], str | None]] = [
    ("end_turn", [HELLO], "stop"),
    ("max_tokens", [HELLO], "length"),
    ("stop_sequence", [HELLO], "stop_sequence"),
    ("tool_use", [USE], "tool_calls"),
    ("pause_turn", [HELLO], "pause"),
    ("refusal", [], "refusal"),
    ("model_context_window_exceeded", [HELLO], "context_window"),
    ("end_turn", [USE], "tool_calls"),
    (None, [USE], "tool_calls"),
    ("max_tokens", [USE], "length"),
    ("compaction", [], "pause"),
    ("new_word", [], "unknown"),
    (None, [HELLO], None),
]


@pytest.mark.parametrize(("word", "content", "reason"), FINISHES)
def test_why_an_answer_ended(word: Any, content: list[Any], reason: str | None) -> None:
    body = answering(*content, stop=word)
    response = anthropic.decode_response(body)
    assert (response.finish_reason, response.raw_finish_reason) == (reason, word)
    assert anthropic.encode_response(response).body == body


def test_one_value_changes_one_place() -> None:
    response = anthropic.decode_response(OWN["more"])
    [choice] = response.choices
    assert response.usage is not None
    other = replace(
        response,
        choices=[
            replace(
                choice,
                message=replace(choice.message, content=[replace(choice.message.parts[0], text="Bye")]),
                finish_reason="length",
            )
        ],
        usage=replace(response.usage, input_tokens=18),
    )
    expected = {**OWN["more"], "content": [{"type": "text", "text": "Bye"}], "stop_reason": "max_tokens"}
    expected["usage"] = {**OWN["more"]["usage"], "input_tokens": 11}
    encoded = anthropic.encode_response(other)
    assert (encoded.body, encoded.losses) == (expected, ())


def test_a_changed_count_changes_alone_beside_a_compaction() -> None:
    response = anthropic.decode_response(answering(HELLO, usage=COMPACTED))
    assert response.usage is not None
    changed = replace(response.usage, output_tokens=4000)
    written = anthropic.encode_response(replace(response, usage=changed)).body["usage"]
    assert written == {**COMPACTED, "output_tokens": 4000 - 522}
    assert decode_usage(written) == replace(changed, opaque=Opaque("anthropic", written))


def encode(message: Message, reason: Any = "stop", **fields: Any) -> tuple[dict[str, Any], list[Said]]:
    encoded = anthropic.encode_response(Response.of(message, reason, id="r", model="m", **fields))
    return encoded.body, losses(encoded)


# The keys that the schema requires of an answer, and that another wire knows nothing of.
SAID = {**HELLO, "citations": None}
DIRECT = {"caller": {"type": "direct"}}
UNKNOWN_COUNTS = dict.fromkeys(
    ("cache_creation", "inference_geo", "output_tokens_details", "server_tool_use", "service_tier", "speed")
)
ENCODED: dict[str, tuple[list[Any] | str, list[Any], list[Said]]] = {
    "words": ("Hi", [SAID], []),
    "nothing": ("", [], []),
    "a call": (
        [Text("Hi"), ToolCall.parse("c", "look", '{"x": 1}')],
        [SAID, {"type": "tool_use", "id": "c", "name": "look", "input": {"x": 1}, **DIRECT}],
        [],
    ),
    "an odd id": (
        [ToolCall("functions.look:0", "look")],
        [{"type": "tool_use", "id": "functions_look_0__tw9-2e_14-3a", "name": "look", "input": {}, **DIRECT}],
        [],
    ),
    "bad arguments": (
        [ToolCall.parse("c", "look", "{")],
        [],
        [("choices[0].message.content[0]", "dropped", "semantic")],
    ),
    "thinking": (
        [Thinking("Hm."), Text("Hi")],
        [SAID],
        [("choices[0].message.content[0]", "dropped", "semantic")],
    ),
    "signed thinking": (
        [Thinking("Hm.", "S"), Text("Hi")],
        [{"type": "thinking", "thinking": "Hm.", "signature": "S"}, SAID],
        [],
    ),
    "a refusal": (
        [Refusal("Hi")],
        [SAID],
        [("choices[0].message.content[0]", "approximated", "minor")],
    ),
    "sound": ([Audio("x"), Text("Hi")], [SAID], [("choices[0].message.content[0]", "dropped", "semantic")]),
}


@pytest.mark.parametrize(("content", "blocks", "lost"), ENCODED.values(), ids=ENCODED)
def test_an_answer_from_elsewhere(content: Any, blocks: list[Any], lost: list[Said]) -> None:
    body, found = encode(Message("assistant", content))
    assert body == {
        "id": "r",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": blocks,
        "container": None,
        "diagnostics": None,
        "stop_details": None,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            **UNKNOWN_COUNTS,
            "input_tokens": 0,
            "output_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        },
    }
    assert found == lost


LOST = [("choices[0].finish_reason", "approximated", "semantic")]
WORDS: list[tuple[Any, Any, list[Said]]] = [
    ("stop", "end_turn", []),
    ("length", "max_tokens", []),
    ("tool_calls", "tool_use", []),
    ("stop_sequence", "stop_sequence", []),
    ("refusal", "refusal", []),
    ("pause", "pause_turn", []),
    ("context_window", "model_context_window_exceeded", []),
    (None, None, []),
    ("content_filter", "refusal", LOST),
    ("incomplete", "max_tokens", LOST),
    ("malformed_tool_call", "max_tokens", LOST),
    ("error", "end_turn", LOST),
    ("unknown", "end_turn", LOST),
]


@pytest.mark.parametrize(("reason", "word", "lost"), WORDS)
def test_the_word_for_an_end(reason: Any, word: Any, lost: list[Said]) -> None:
    body, found = encode(Message("assistant", "Hi"), reason)
    assert (body["stop_reason"], found) == (word, lost)


# Counts of another wire: input, read from the cache, written to it; then the same as Messages counts them, and whether
# that is reported.
CACHED: list[tuple[tuple[int, int | None, int | None], tuple[int, int, int], bool]] = [
    ((10, 4, None), (6, 4, 0), False),
    ((15, 14, None), (1, 14, 0), False),
    ((14, 14, None), (0, 14, 0), False),
    ((13, 14, None), (0, 13, 0), True),
    ((10, 14, None), (0, 10, 0), True),
    ((0, 14, None), (0, 0, 0), True),
    ((10, None, 4), (6, 0, 4), False),
    ((10, 6, 4), (0, 6, 4), False),
    ((10, 7, 4), (0, 6, 4), True),
    ((10, 0, 10), (0, 0, 10), False),
]


@pytest.mark.parametrize(("counts", "written", "reported"), CACHED)
def test_no_more_tokens_were_cached_than_there_were(
    counts: tuple[int, int | None, int | None], written: tuple[int, int, int], reported: bool
) -> None:
    total, cached, made = counts
    usage = Usage(total, 5, cache_read_tokens=cached, cache_write_tokens=made)
    encoded = anthropic.encode_response(Response(choices=[Choice(Message("assistant", "Hi"), "stop")], usage=usage))
    body = encoded.body["usage"]
    assert body == dict(
        zip(("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"), written, strict=True),
        output_tokens=5,
        **UNKNOWN_COUNTS,
    )
    assert decode_usage(body).input_tokens == total
    assert [loss.path for loss in encoded.losses] == ["usage.cache_read_tokens"] * reported


def test_counts_from_elsewhere_are_said_without_what_was_cached() -> None:
    body, lost = encode(Message("assistant", "Hi"), usage=Usage(17, 5, 4, 3, 2, Opaque("openai-chat", {"x": 1})))
    assert body["usage"] == {
        **UNKNOWN_COUNTS,
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 3,
        "output_tokens_details": {"thinking_tokens": 2},
    }
    assert lost == [("usage.opaque", "dropped", "formal")]


def test_a_response_from_elsewhere() -> None:
    response = Response(
        choices=[
            Choice(Message("assistant", "Hi", "Bob"), "stop", "stop", "END", Opaque("openai-chat", {"x": 1})),
            Choice(Message("assistant", "Bye"), "stop"),
        ],
        created=1.0,
        service_tier="flex",
        provider_state={"a": 1},
        opaque=Opaque("openai-chat", {"moderation": 1}),
    )
    encoded = anthropic.encode_response(response)
    assert encoded.body["content"] == [SAID]
    assert encoded.body["stop_sequence"] == "END"
    assert encoded.body["model"] == ""
    assert encoded.body["id"] == anthropic.encode_response(response).body["id"]
    assert losses(encoded) == [
        ("choices[0].message.name", "dropped", "semantic"),
        ("choices[0].opaque.x", "dropped", "semantic"),
        ("choices[1]", "dropped", "semantic"),
        ("created", "dropped", "formal"),
        ("service_tier", "dropped", "formal"),
        ("provider_state.a", "dropped", "formal"),
        ("opaque.moderation", "dropped", "formal"),
    ]


def test_a_response_without_anything() -> None:
    body = anthropic.encode_response(Response()).body
    assert body.pop("id").startswith("msg_")
    assert (body["content"], body["stop_reason"], body["model"]) == ([], None, "")


@pytest.mark.parametrize("content", [[], [SAID]])
@pytest.mark.parametrize("other", ["openai-chat", "openai-responses", "gemini"])
def test_a_refusal_is_no_ordinary_end_elsewhere(other: str, content: list[Any]) -> None:
    there = translate.response(answering(*content, stop="refusal"), source="anthropic", target=other)
    assert dialect(other).decode_response(there.body).finish_reason == "content_filter"
    back = translate.response(there.body, source=other, target="anthropic")
    assert back.body["stop_reason"] == "refusal"


CHANGE = {"type": "fallback", "from": {"model": "claude-fable-5"}, "to": {"model": "claude-opus-4-8"}}


@pytest.mark.parametrize(
    ("before", "calls"), [([{**USE, "input": {}}], 0), ([USE], 1), ([{**USE, "input": {}}, SAID], 1)]
)
def test_the_model_that_goes_on_after_a_refusal_is_named_and_the_call_before_it_may_be_half(
    before: list[Any], calls: int
) -> None:
    blocks = [*before, CHANGE, SAID]
    body = answering(*blocks, stop="tool_use", model="claude-opus-4-8")
    head = {**body, "content": [], "stop_reason": None, "model": "claude-fable-5"}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": head}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    sent = b"".join(b"data: %b\n\n" % json.encode(event) for event in [*events, {"type": "message_stop"}])
    decoder = anthropic.decode_stream()
    told = [*decoder.feed(sent), *decoder.close()]
    response = anthropic.decode_response(body)
    for one in (response, accumulate(told)):
        assert (one.model, one.content, len(one.tool_calls)) == ("claude-opus-4-8", response.content, calls)
        assert len(one.tool_calls) + len(one.broken_calls) == 1
    assert anthropic.encode_response(response).body == body
    encoder = anthropic.encode_stream()
    written = b"".join([*(encoder.feed(event) for event in told), encoder.close()])
    assert (written.count(b"claude-opus-4-8"), encoder.losses) == (1, ())


HALF = ToolCall("a", "f", {}, raw='{"x":', complete=False, error="cut off")
BAD = ToolCall("b", "f", {}, raw="[]", error="an object was expected")
RUNS = ToolCall("c", "f", {"x": 1})
UNRUN = ("choices[0].finish_reason", "approximated", "semantic")


@pytest.mark.parametrize(
    ("calls", "written", "lost"),
    [([HALF], "max_tokens", [UNRUN]), ([BAD], "max_tokens", [UNRUN]), ([BAD, RUNS], "tool_use", [])],
)
def test_an_answer_without_a_call_to_run_does_not_end_with_tool_use(
    calls: list[ToolCall], written: str, lost: list[Said]
) -> None:
    body, losses = encode(Message("assistant", calls), "tool_calls")
    assert (body["stop_reason"], [block["id"] for block in body["content"]]) == (
        written,
        ["c"] if RUNS in calls else [],
    )
    assert [loss for loss in losses if "finish_reason" in loss[0]] == lost
