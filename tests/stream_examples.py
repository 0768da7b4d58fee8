"""Streams written by hand, so that the laws of streams also hold where no recording is at hand.

Each dialect has one for what its wire does: words, calls in fragments, thoughts, several calls, an end at a
limit, an error on the way, an answer that nobody ended.
"""

from typing import Any

from toolwire.streams import encode_json
from toolwire.wire.framing import write_event

Body = dict[str, Any]
TEXT = 'Größe "5" \\ \u2028 {"x": [1}'  # what a reader that splits or searches by hand falls over
QUERY = ('{"q": "t', 'ea \\"}{\\" \\u00fc", "n": [1, 2.5', ", null]}")


def events(*bodies: Body, done: bool = False) -> bytes:
    """Write bodies as server-sent events."""
    return b"".join(write_event(encode_json(body)) for body in bodies) + (b"data: [DONE]\n\n" if done else b"")


def named(*bodies: Body) -> bytes:
    """Write bodies as server-sent events that are named by their type."""
    return b"".join(write_event(encode_json(body), body["type"].encode()) for body in bodies)


def lines(*bodies: Body) -> bytes:
    """Write bodies as lines, as a server in Go does: what some take for the end of a line is escaped."""
    return b"".join(encode_json(body) + b"\n" for body in bodies).replace("\u2028".encode(), rb"\u2028")


def chunk(delta: Body | None = None, finish: str | None = None, index: int = 0, **beside: Any) -> Body:
    """Make a chunk of Chat Completions."""
    entry = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    shell = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**shell, "choices": [] if delta is None else [entry], **beside}


def call(index: int, text: str = "", call_id: str | None = None, name: str | None = None) -> Body:
    """Make the delta of a call."""
    entry: Body = {"index": index, "function": {"arguments": text}}
    if call_id is not None:
        entry |= {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
    return {"tool_calls": [entry]}


def note(place: int) -> Body:
    """Make an annotation of a text."""
    return {"index": place, "type": "url_citation", "url_citation": {"url": f"https://a.example/{place}"}}


COUNTS = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
ROLE = chunk({"role": "assistant", "content": ""})
USAGE = chunk(usage=COUNTS)
FRAGMENTS = [chunk(call(0, piece)) for piece in QUERY]
CHAT = {
    "words": events(ROLE, *(chunk({"content": word}) for word in TEXT.split(" ")), chunk({}, "stop"), USAGE, done=True),
    "calls": events(
        ROLE,
        chunk({"content": "I look."}),
        chunk(call(0, "", "call_1", "search")),
        *FRAGMENTS,
        chunk(call(1, "", "call_2", "now")),
        chunk(call(1, "{}")),
        chunk({}, "tool_calls"),
        USAGE,
        done=True,
    ),
    "interleaved": events(
        ROLE,
        chunk(call(0, '{"a":', "call_1", "search")),
        chunk(call(1, '{"b":', "call_2", "search")),
        chunk(call(0, "1}")),
        chunk(call(1, "2}")),
        chunk({}, "tool_calls"),
        done=True,
    ),
    "thinking": events(
        chunk({"role": "assistant", "reasoning_content": "Hm. "}),
        chunk({"reasoning_content": "Well."}),
        chunk({"content": "Yes."}),
        chunk({}, "stop", usage=COUNTS),
        done=True,
    ),
    "refusal": events(ROLE, chunk({"refusal": "I can"}), chunk({"refusal": "not."}), chunk({}, "stop"), done=True),
    "choices": events(
        chunk({"role": "assistant", "content": "A"}),
        chunk({"role": "assistant", "content": "B"}, index=1),
        chunk({"content": "a"}),
        chunk({}, "length"),
        chunk({}, "stop", index=1),
        USAGE,
        done=True,
    ),
    "limit in a call": events(
        ROLE, chunk(call(0, "", "call_1", "search")), FRAGMENTS[0], chunk({}, "length"), done=True
    ),
    "limit at a call": events(ROLE, chunk(call(0, "", "call_1", "now")), chunk({}, "length"), done=True),
    "a call after the end": events(
        ROLE,
        chunk(call(0, "{}", "call_1", "now"), "tool_calls"),
        chunk(call(1, "", "call_2", "search")),
        *[chunk(call(1, piece)) for piece in QUERY],
        chunk({}, "tool_calls"),
        done=True,
    ),
    "notes before words": events(
        ROLE,
        *[chunk({"annotations": [note(place)]}) for place in range(2)],
        chunk({"content": "As said."}),
        chunk({}, "stop"),
        done=True,
    ),
    "a call of two kinds": events(
        chunk({"role": "assistant", "function_call": {"name": "", "arguments": ""}}),
        chunk(
            {"tool_calls": [{**call(0, "{}", "call_1", "now")["tool_calls"][0], "custom": {"name": "", "input": ""}}]}
        ),
        chunk({}, "tool_calls"),
        done=True,
    ),
    "error": events(
        ROLE, chunk({"content": "I w"}), {"error": {"message": "no", "type": "server_error", "code": None}}
    ),
    "nobody ended it": events(ROLE, chunk({"content": "I"}), chunk(call(0, "{}", "call_1", "now"))),
    "comments": b": ping\r\n\r\n" + events(ROLE, chunk({"content": "I"}), chunk({}, "stop")).replace(b"\n", b"\r\n"),
}


def blocks(*steps: Body, reason: str | None = "end_turn") -> bytes:
    """Write a message of the Messages API around steps."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    usage = {"input_tokens": 7, "cache_read_input_tokens": 2, "output_tokens": 1}
    ending = {"stop_reason": None, "stop_sequence": None}
    begin = {"type": "message_start", "message": {**message, **ending, "usage": usage}}
    delta = {**ending, "stop_reason": reason}
    end = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}
    ended = () if reason is None else (end, {"type": "message_stop"})
    return named(begin, {"type": "ping"}, *steps, *ended)


def block(index: int, body: Body, *deltas: Body) -> list[Body]:
    """Make a block with its deltas."""
    steps = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    start = {"type": "content_block_start", "index": index, "content_block": body}
    return [start, *steps, {"type": "content_block_stop", "index": index}]


def words(index: int, *texts: str) -> list[Body]:
    """Make a block of text."""
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": text} for text in texts))


def tool(index: int, name: str, *texts: str) -> list[Body]:
    """Make a block that asks for a tool."""
    body = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    return block(index, body, *({"type": "input_json_delta", "partial_json": text} for text in texts))


THOUGHT = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Hm."},
    {"type": "signature_delta", "signature": "c2ln+/8="},
)
MESSAGES = {
    "words": blocks(*words(0, *TEXT.split(" "))),
    "calls": blocks(*words(0, "I look."), *tool(1, "search", "", *QUERY), *tool(2, "now"), reason="tool_use"),
    "thinking": blocks(*THOUGHT, *words(1, "Yes."), *tool(2, "search", *QUERY), reason="tool_use"),
    "redacted": blocks(*block(0, {"type": "redacted_thinking", "data": "YQ=="}), *words(1, "Yes.")),
    "limit in a call": blocks(*words(0, "I"), *tool(1, "search", QUERY[0]), reason="max_tokens"),
    "limit at a call": blocks(*words(0, "I"), *tool(1, "now"), reason="max_tokens"),
    "unknown": blocks(*words(0, "I"), {"type": "news", "index": 0}, *block(1, {"type": "mystery", "a": 1})),
    "error": blocks(*words(0, "I w"), reason=None)
    + named({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    "nobody ended it": blocks(*words(0, "I"), *tool(1, "now", "{}"), *tool(2, "now"), reason=None),
}


def response(output: list[Body], status: str = "in_progress", **beside: Any) -> Body:
    """Make the body of Responses around items."""
    counts = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    said = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": status,
        "error": None,
    }
    usage = None if status == "in_progress" else counts
    asked = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**said, "incomplete_details": None, **asked, "output": output, "usage": usage, **beside}


def item(place: int, body: Body, *steps: Body, cut: bool = False) -> list[Body]:
    """Make an item of Responses with its steps; one that was cut off is never done."""
    empty: dict[str, Body] = {
        "message": {"content": []},
        "function_call": {"arguments": ""},
        "reasoning": {"summary": []},
    }
    begun = {**body, **empty[body["type"]], "status": "in_progress"}
    added = {"type": "response.output_item.added", "output_index": place, "item": begun}
    done = {"type": "response.output_item.done", "output_index": place, "item": body}
    where = {"item_id": body["id"], "output_index": place}
    return [
        added,
        *({"type": f"response.{step.pop('type')}", **where, **step} for step in steps),
        *([] if cut else [done]),
    ]


def spoken(place: int, *texts: str, cut: bool = False, kind: str = "text") -> tuple[Body, list[Body]]:
    """Make a message of Responses, and the steps that tell it."""
    whole = "".join(texts)
    parts: dict[str, Body] = {
        "text": {"type": "output_text", "text": whole, "annotations": [], "logprobs": []},
        "refusal": {"type": "refusal", "refusal": whole},
    }
    stem = "output_text" if kind == "text" else kind
    body = {
        "id": f"msg_{place}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [parts[kind]],
    }
    begin = {"type": "content_part.added", "content_index": 0, "part": {**parts[kind], kind: ""}}
    logged: Body = {"logprobs": []} if kind == "text" else {}
    deltas = [{"type": f"{stem}.delta", "content_index": 0, "delta": text, **logged} for text in texts]
    end = [
        {"type": f"{stem}.done", "content_index": 0, kind: whole, **logged},
        {"type": "content_part.done", "content_index": 0, "part": parts[kind]},
    ]
    return body, item(place, body, begin, *deltas, *([] if cut else end), cut=cut)


def asked(place: int, name: str, *texts: str, cut: bool = False) -> tuple[Body, list[Body]]:
    """Make a call of Responses, and the steps that tell it."""
    whole = "".join(texts)
    body = {"id": f"fc_{place}", "type": "function_call", "call_id": f"call_{place}", "name": name}
    body |= {"arguments": whole, "status": "completed"}
    deltas = [{"type": "function_call_arguments.delta", "delta": text} for text in texts]
    end = {"type": "function_call_arguments.done", "arguments": whole}
    return body, item(place, body, *deltas, *([] if cut else [end]), cut=cut)


def thought(place: int) -> tuple[Body, list[Body]]:
    """Make a reasoning item with two summaries, and the steps that tell it."""
    summary = [{"type": "summary_text", "text": text} for text in ("Hm.", "Well.")]
    body = {"id": f"rs_{place}", "type": "reasoning", "summary": summary, "encrypted_content": "Z0FB"}
    steps: list[Body] = []
    for index, part in enumerate(summary):
        at = {"summary_index": index}
        steps += [
            {"type": "reasoning_summary_part.added", **at, "part": {"type": "summary_text", "text": ""}},
            {"type": "reasoning_summary_text.delta", **at, "delta": part["text"]},
            {"type": "reasoning_summary_text.done", **at, "text": part["text"]},
            {"type": "reasoning_summary_part.done", **at, "part": part},
        ]
    return body, item(place, body, *steps)


def told(*items: tuple[Body, list[Body]], status: str | None = "completed", **beside: Any) -> bytes:
    """Write a stream of Responses around items; `status` says how it ended, None that it did not."""
    steps = [{"type": "response.created", "response": response([])}]
    steps += [step for _, made in items for step in made]
    if status is not None:
        final = response([body for body, _ in items], status, **beside)
        steps.append({"type": f"response.{status}", "response": final})
    return named(*({**step, "sequence_number": number} for number, step in enumerate(steps)))


LIMIT = {"incomplete_details": {"reason": "max_output_tokens"}}
FAILED = {"error": {"code": "server_error", "message": "no"}}
HALF = asked(0, "search", QUERY[0], cut=True)
HALF[0]["status"] = "incomplete"
RESPONSES = {
    "words": told(spoken(0, *TEXT.split(" "))),
    "calls": told(spoken(0, "I look."), asked(1, "search", *QUERY), asked(2, "now", "{}")),
    "thinking": told(thought(0), spoken(1, "Yes."), asked(2, "search", *QUERY)),
    "refusal": told(spoken(0, "I can", "not.", kind="refusal")),
    "limit in a call": told(HALF, status="incomplete", **LIMIT),
    "failed": told(spoken(0, "I w", cut=True), status="failed", **FAILED),
    "error": told(spoken(0, "I w", cut=True), status=None)
    + named({"type": "error", "code": "server_error", "message": "no", "param": None, "sequence_number": 9}),
    "nobody ended it": told(spoken(0, "I"), asked(1, "now", "{}"), asked(2, "search", *QUERY, cut=True), status=None),
}


def said(*parts: Body, finish: str | None = None, **beside: Any) -> Body:
    """Make a chunk of Gemini."""
    candidate: Body = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
        beside |= {"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}}
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "r1", **beside}


def partial(path: str, **value: Any) -> Body:
    """Make a part that says a piece of a call's arguments."""
    return {"functionCall": {"partialArgs": [{"jsonPath": path, **value}], "willContinue": True}}


LOOK = {
    "functionCall": {"name": "search", "args": {"q": TEXT, "n": [1, 2.5, None]}},
    "thoughtSignature": "c2ln+/8=",
}
NOW = {"functionCall": {"id": "call-2", "name": "now", "args": {}}}
GEMINI = {
    "words": events(*(said({"text": word}) for word in TEXT.split(" ")), said({"text": ""}, finish="STOP")),
    "calls": events(said({"text": "I look."}), said(LOOK, NOW), said({"text": ""}, finish="STOP")),
    "thinking": events(
        said({"text": "Hm.", "thought": True}),
        said({"text": "Well.", "thought": True}),
        said({"text": "Yes."}),
        said({"text": "", "thoughtSignature": "c2ln"}, finish="STOP"),
    ),
    "pieces of a call": events(
        said({"functionCall": {"name": "search", "willContinue": True}}),
        said(partial("$.q.a[0]", stringValue="t", willContinue=True)),
        said(partial("$.q.a[0]", stringValue="ea")),
        said(partial("$.n", numberValue=2)),
        said({"functionCall": {}}),
        said({"text": ""}, finish="STOP"),
    ),
    "limit": events(said({"text": "I"}), said({"text": " l"}, finish="MAX_TOKENS")),
    "blocked": events({"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "m", "responseId": "r1"}),
    "array": b"[" + encode_json(said({"text": "I"})) + b"\n,\r\n" + encode_json(said(NOW, finish="STOP")) + b"\n]\n",
    "error": events(said({"text": "I w"}), {"error": {"code": 503, "message": "no", "status": "UNAVAILABLE"}}),
    "nobody ended it": events(said({"text": "I"}), said(NOW)),
}


def line(*, done: str | None = None, **message: Any) -> Body:
    """Make a line of Ollama."""
    body: Body = {
        "model": "m",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": "", **message},
    }
    counts = {"prompt_eval_count": 7, "eval_count": 5}
    return {**body, "done": False} if done is None else {**body, "done_reason": done, "done": True, **counts}


SEARCH = {"function": {"name": "search", "arguments": {"q": TEXT, "n": [1, 2.5, None]}}}
CLOCK = {"id": "call_2", "function": {"index": 1, "name": "now", "arguments": {}}}
OLLAMA = {
    "one line": lines(line(content="I", done="stop")),
    "words": lines(*(line(content=word) for word in TEXT.split(" ")), line(done="stop")),
    "calls": lines(line(content="I look."), line(tool_calls=[SEARCH]), line(tool_calls=[CLOCK]), line(done="stop")),
    "thinking": lines(line(thinking="Hm. "), line(thinking="Well."), line(content="Yes."), line(done="stop")),
    "limit": lines(line(content="I"), line(content=" l", done="length")),
    "error": lines(line(content="I w"), {"error": "no"}),
    "nobody ended it": lines(line(content="I"), line(tool_calls=[CLOCK])),
}
EXAMPLES: dict[str, dict[str, bytes]] = {
    "openai-chat": CHAT,
    "openai-responses": RESPONSES,
    "anthropic": MESSAGES,
    "gemini": GEMINI,
    "ollama": OLLAMA,
}
