"""Streams of Responses by hand: each with the response that it tells, and how to read and write them."""

from typing import Any

import msgspec

from toolwire.dialects import openai_responses
from toolwire.types import Event

Body = dict[str, Any]
AT: Body = {"item_id": "i0", "output_index": 0}
IN_TEXT: Body = {**AT, "content_index": 0}
IN_SUMMARY: Body = {**AT, "summary_index": 0}
USAGE = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}


def response(*output: Any, **fields: Any) -> Body:
    shell = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "error": None}
    return {**shell, "status": "completed", "output": list(output), "usage": USAGE, **fields}


def step(kind: str, body: Body | None = None, **more: Any) -> Body:
    return {"type": f"response.{kind}", **(body or {}), **more}


def added(item: Body, place: int = 0) -> Body:
    empty: dict[str, Body] = {
        "message": {"content": []},
        "function_call": {"arguments": ""},
        "custom_tool_call": {"input": ""},
        "reasoning": {"summary": []},
    }
    return step("output_item.added", output_index=place, item={**item, **empty.get(item["type"], {})} | BEGUN)


BEGUN = {"status": "in_progress"}


def done(item: Body, place: int = 0) -> Body:
    return step("output_item.done", output_index=place, item=item)


def words(*pieces: str) -> list[Body]:
    return [step("output_text.delta", IN_TEXT, delta=piece, logprobs=[]) for piece in pieces]


def fragments(*pieces: str, place: int = 0) -> list[Body]:
    at = {"item_id": f"i{place}", "output_index": place}
    return [step("function_call_arguments.delta", at, delta=piece) for piece in pieces]


def item(kind: str, place: int = 0, **fields: Any) -> Body:
    return {"id": f"i{place}", "type": kind, "status": "completed", **fields}


def text(said: str, **fields: Any) -> Body:
    return {"type": "output_text", "text": said, "annotations": [], **fields}


def call(arguments: str, place: int = 0) -> Body:
    return item("function_call", place, call_id=f"c{place}", name="look", arguments=arguments)


BEGIN = [
    step("created", response=response(status="in_progress", usage=None)),
    step("in_progress", response=response(status="in_progress", usage=None)),
]
HELLO = item("message", role="assistant", content=[text("Hello")])
NOTE = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2}
NOTED = item("message", role="assistant", content=[text("Hello", annotations=[NOTE])])
LOGS = [{"token": "Hello", "logprob": -0.5, "top_logprobs": []}]
LOGGED = item("message", role="assistant", content=[text("Hello", logprobs=LOGS)])
BOTH = item("message", role="assistant", content=[text("Hello"), {"type": "refusal", "refusal": "No."}])
THOUGHT = item(
    "reasoning",
    summary=[{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}],
    encrypted_content="secret",
)
RAW = item("reasoning", summary=[], content=[{"type": "reasoning_text", "text": "Hm."}])
SEARCH = item("web_search_call", action={"type": "search", "query": "q"})
CUSTOM = item("custom_tool_call", call_id="c0", name="run", input="1 + 1")
X, Y = call('{"x":1}'), call('{"y":2}', 1)
PART = step("content_part.added", IN_TEXT, part=text(""))
CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


def turn(*events: Any, output: list[Any], **fields: Any) -> tuple[list[Body], Body]:
    """Give a whole stream, and the response that it tells."""
    end = response(*output, **fields)
    flat = [one for event in events for one in (event if isinstance(event, list) else [event])]
    return [*BEGIN, *flat, step(end["status"], response=end)], end


TURNS: dict[str, tuple[list[Body], Body]] = {
    "words": turn(added(HELLO), PART, words("Hel", "lo"), done(HELLO), output=[HELLO]),
    "words with a note": turn(
        added(NOTED),
        PART,
        words("Hello"),
        step("output_text.annotation.added", IN_TEXT, annotation_index=0, annotation=NOTE),
        done(NOTED),
        output=[NOTED],
    ),
    "words with their odds": turn(
        added(LOGGED),
        step("content_part.added", IN_TEXT, part=text("", logprobs=[])),
        step("output_text.delta", IN_TEXT, delta="Hello", logprobs=LOGS),
        done(LOGGED),
        output=[LOGGED],
    ),
    "words and a refusal": turn(
        added(BOTH),
        PART,
        words("Hello"),
        step("content_part.added", AT, content_index=1, part={"type": "refusal", "refusal": ""}),
        step("refusal.delta", AT, content_index=1, delta="No."),
        done(BOTH),
        output=[BOTH],
    ),
    "words that only their end says": turn(
        added(HELLO), PART, step("output_text.done", IN_TEXT, text="Hello"), done(HELLO), output=[HELLO]
    ),
    "words without a beginning": turn(words("Hel", "lo"), done(HELLO), output=[HELLO]),
    "words without an end": turn(added(HELLO), PART, words("Hel"), output=[HELLO]),
    "words without a place": turn(
        added(HELLO),
        step("output_text.delta", delta="Hel"),
        step("output_text.delta", delta="lo"),
        output=[HELLO],
    ),
    "only at the end": turn(output=[THOUGHT, HELLO, Y]),
    "a call": turn(added(X), fragments('{"x"', ":1}"), done(X), output=[X]),
    "a call without fragments": turn(
        added(X), step("function_call_arguments.done", AT, arguments='{"x":1}'), done(X), output=[X]
    ),
    "a call without a beginning": turn(fragments('{"x"', ":1}"), done(X), output=[X]),
    "a call without arguments": turn(added(call("")), done(call("")), added(Y, 1), done(Y, 1), output=[call(""), Y]),
    "a call with bad arguments": turn(added(call("{")), fragments("{"), done(call("{")), output=[call("{")]),
    "calls side by side": turn(
        added(X),
        added(Y, 1),
        fragments('{"y"', place=1),
        fragments('{"x"'),
        fragments(":2}", place=1),
        fragments(":1}"),
        done(Y, 1),
        done(X),
        output=[X, Y],
    ),
    "a call that was cut off": turn(
        added(X),
        fragments('{"x'),
        done({**call('{"x'), "status": "incomplete"}),
        output=[{**call('{"x'), "status": "incomplete"}],
        **CUT,
    ),
    "a last call without arguments in an answer that was cut off": turn(
        added(call("")), done(call("")), output=[call("")], **CUT
    ),
    "a custom call": turn(
        added(CUSTOM),
        step("custom_tool_call_input.delta", AT, delta="1 + "),
        step("custom_tool_call_input.delta", AT, delta="1"),
        done(CUSTOM),
        output=[CUSTOM],
    ),
    "two summaries": turn(
        added(THOUGHT),
        step("reasoning_summary_part.added", IN_SUMMARY, part={"type": "summary_text", "text": ""}),
        step("reasoning_summary_text.delta", IN_SUMMARY, delta="On"),
        step("reasoning_summary_text.delta", IN_SUMMARY, delta="e."),
        step("reasoning_summary_text.delta", AT, summary_index=1, delta="Two."),
        done(THOUGHT),
        output=[THOUGHT],
    ),
    "two summaries that only the end says": turn(added(THOUGHT), done(THOUGHT), output=[THOUGHT]),
    "reasoning told in full": turn(
        added(RAW),
        step("content_part.added", IN_TEXT, part={"type": "reasoning_text", "text": ""}),
        step("reasoning_text.delta", IN_TEXT, delta="Hm."),
        done(RAW),
        output=[RAW],
    ),
    "a search": turn(
        added({**SEARCH, "action": {}}),
        step("web_search_call.searching", AT),
        done(SEARCH),
        output=[SEARCH],
    ),
    "an event that nobody knows": turn(step("dreamt", of="sheep"), added(HELLO), done(HELLO), output=[HELLO]),
    "an answer that failed": turn(
        added(HELLO),
        PART,
        words("Hello"),
        done(HELLO),
        output=[HELLO],
        status="failed",
        error={"code": "server_error", "message": "boom"},
    ),
}


def write(events: list[Body], *, numbered: bool = True) -> list[bytes]:
    frames = []
    for number, body in enumerate(events):
        data = msgspec.json.encode({**body, "sequence_number": number} if numbered else body)
        frames.append(b"event: " + body["type"].encode() + b"\ndata: " + data + b"\n\n")
    return frames


def read(*pieces: bytes) -> list[Event]:
    decoder = openai_responses.decode_stream()
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()


def tell(events: list[Event]) -> list[Body]:
    """Write events as a stream, and give the bodies of its frames."""
    encoder = openai_responses.encode_stream()
    data = b"".join(map(encoder.feed, events)) + encoder.close()
    frames = [frame.partition(b"\ndata: ") for frame in data.split(b"\n\n") if frame]
    bodies: list[Body] = [msgspec.json.decode(body) for _, _, body in frames]
    assert [name for name, _, _ in frames] == [b"event: " + body["type"].encode() for body in bodies]
    assert [body["sequence_number"] for body in bodies] == list(range(len(bodies)))
    return bodies
