"""Streams of any size, in five wires and many shapes: what grows is the number of frames of each shape."""

import json
from collections.abc import Callable, Iterator
from typing import Any

Frames = Iterator[dict[str, Any]]


def _chat(delta: dict[str, Any], index: int = 0, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}


def _chat_call(index: int | None, call_id: str | None, name: str | None, text: str | None) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", text)) if value is not None}
    entry: dict[str, Any] = {"type": "function", "function": function}
    if index is not None:
        entry["index"] = index
    if call_id is not None:
        entry["id"] = call_id
    return {"tool_calls": [entry]}


def _chat_words(size: int) -> Frames:
    yield _chat({"role": "assistant", "content": ""})
    for number in range(size):
        yield _chat({"content": f"word {number} "})
    yield _chat({}, finish="stop")


def _chat_thoughts(size: int) -> Frames:
    for number in range(size):
        yield _chat({"reasoning_content": f"thought {number} "})
    yield _chat({"content": "Done."})
    yield _chat({}, finish="stop")


def _chat_details(size: int) -> Frames:
    for number in range(size):
        text = f"thought {number}"
        detail = {"type": "reasoning.text", "text": text, "index": number % 3, "signature": "c2ln"}
        yield _chat({"reasoning": text, "reasoning_details": [detail]})
    yield _chat({"content": "Done."})
    yield _chat({}, finish="stop")


def _chat_turns_of_kinds(size: int) -> Frames:
    for number in range(size):
        yield _chat({"reasoning_content": f"thought {number} "})
        yield _chat({"content": f"word {number} "})
    yield _chat({}, finish="stop")


def _chat_arguments(size: int) -> Frames:
    yield _chat(_chat_call(0, "call_0", "f", ""))
    yield _chat(_chat_call(0, None, None, '{"a": "'))
    for number in range(size):
        yield _chat(_chat_call(0, None, None, f"word {number} "))
    yield _chat(_chat_call(0, None, None, '"}'))
    yield _chat({}, finish="tool_calls")


def _chat_calls(start: Callable[[int], dict[str, Any]], *texts: str, index: bool = True) -> Callable[[int], Frames]:
    """Give calls one after the other: a beginning each, and pieces of text."""

    def shape(size: int) -> Frames:
        for number in range(size):
            yield _chat(start(number))
            for text in texts:
                yield _chat(_chat_call(number if index else None, None, None, text))
        yield _chat({}, finish="tool_calls")

    return shape


def _chat_interleaved(size: int) -> Frames:
    for number in range(size):
        yield _chat(_chat_call(number, f"call_{number}", "f", ""))
    for text in ('{"a":', "1}"):
        for number in range(size):
            yield _chat(_chat_call(number, None, None, text))
    yield _chat({}, finish="tool_calls")


def _chat_choices(delta: Callable[[int], dict[str, Any]], finish: str = "stop") -> Callable[[int], Frames]:
    def shape(size: int) -> Frames:
        for turn in range(2):
            for number in range(size):
                yield _chat(delta(turn), number)
        for number in range(size):
            yield _chat({}, number, finish)

    return shape


def _chat_members(size: int) -> Frames:
    for number in range(size):
        yield _chat({"content": f"word {number} ", f"y_{number}": number})
    yield _chat({}, finish="stop")


def _chat_usages(size: int) -> Frames:
    for number in range(size):
        usage = {"prompt_tokens": 10, "completion_tokens": number, "total_tokens": 10 + number}
        yield _chat({"content": f"word {number} "}, usage=usage)
    yield _chat({}, finish="stop")


def _chat_notes(size: int) -> Frames:
    yield _chat({"content": "Done. "})
    for number in range(size):
        inner = {"url": f"https://x.test/{number}", "title": "t", "start_index": 0, "end_index": 4}
        yield _chat({"annotations": [{"type": "url_citation", "url_citation": inner}]})
    yield _chat({}, finish="stop")


def _event(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, **members}


def _response(status: str, output: list[Any]) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status, "output": output}


def _message_item(number: int, texts: list[str]) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}


def _call_item(number: int, text: str, **more: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "f", "arguments": text}
    return {**item, "status": "completed", **more}


def _responses(events: Callable[[int, list[Any]], Frames]) -> Callable[[int], Frames]:
    """Give events between those of a response; those within put its items in a list."""

    def shape(size: int) -> Frames:
        output: list[Any] = []
        yield _event("response.created", response=_response("in_progress", []))
        yield from events(size, output)
        yield _event("response.completed", response=_response("completed", output))

    return shape


def _responses_words(*, named: bool) -> Callable[[int, list[Any]], Frames]:
    where: dict[str, Any] = {"output_index": 0, "content_index": 0}
    if named:
        where["item_id"] = "msg_0"

    def shape(size: int, output: list[Any]) -> Frames:
        item = _message_item(0, ["".join(f"word {number} " for number in range(size))])
        yield _event("response.output_item.added", output_index=0, item={**item, "content": []})
        for number in range(size):
            yield _event("response.output_text.delta", delta=f"word {number} ", **where)
        yield _event("response.output_item.done", output_index=0, item=item)
        output.append(item)

    return shape


def _responses_messages(*, named: bool) -> Callable[[int, list[Any]], Frames]:
    def shape(size: int, output: list[Any]) -> Frames:
        for number in range(size):
            item = _message_item(number, ["One."])
            item = item if named else {key: value for key, value in item.items() if key != "id"}
            where = {"item_id": f"msg_{number}"} if named else {}
            yield _event("response.output_item.added", output_index=number, item={**item, "content": []})
            yield _event("response.output_text.delta", output_index=number, content_index=0, delta="One.", **where)
            yield _event("response.output_item.done", output_index=number, item=item)
            output.append(item)

    return shape


def _responses_parts(size: int, output: list[Any]) -> Frames:
    item = _message_item(0, ["One."] * size)
    yield _event("response.output_item.added", output_index=0, item={**item, "content": []})
    for part in item["content"]:
        yield _event("response.content_part.added", item_id="msg_0", output_index=0, part={**part, "text": ""})
        yield _event("response.output_text.delta", item_id="msg_0", output_index=0, delta="One.")
    yield _event("response.output_item.done", output_index=0, item=item)
    output.append(item)


def _responses_calls(
    *texts: str, named: bool = True, placed: bool = True, done: bool = True
) -> Callable[[int, list[Any]], Frames]:
    def shape(size: int, output: list[Any]) -> Frames:
        for number in range(size):
            item = _call_item(number, "".join(texts))
            yield _event(
                "response.output_item.added",
                output_index=number,
                item={**item, "arguments": "", "status": "in_progress"},
            )
            where = {**({"item_id": f"fc_{number}"} if named else {}), **({"output_index": number} if placed else {})}
            for text in texts:
                yield _event("response.function_call_arguments.delta", delta=text, **where)
            if done:
                yield _event("response.output_item.done", output_index=number, item=item)
            output.append(item)

    return shape


def _responses_interleaved(size: int, output: list[Any]) -> Frames:
    items = [_call_item(number, '{"a":1}') for number in range(size)]
    for number, item in enumerate(items):
        yield _event("response.output_item.added", output_index=number, item={**item, "arguments": ""})
    for text in ('{"a":', "1}"):
        for number in range(size):
            yield _event(
                "response.function_call_arguments.delta", item_id=f"fc_{number}", output_index=number, delta=text
            )
    for number, item in enumerate(items):
        yield _event("response.output_item.done", output_index=number, item=item)
    output += items


def _responses_unknown(size: int, output: list[Any]) -> Frames:
    """Calls that have ended, and then text of items that nobody knows."""
    yield from _responses_calls('{"a":1}')(size, output)
    for number in range(size):
        yield _event("response.function_call_arguments.delta", item_id=f"no_{number}", output_index=0, delta="x")


def _responses_thoughts(size: int, output: list[Any]) -> Frames:
    summary = [{"type": "summary_text", "text": f"Thought {number}."} for number in range(size)]
    item = {"type": "reasoning", "id": "rs_0", "summary": summary}
    yield _event("response.output_item.added", output_index=0, item={**item, "summary": []})
    where = {"item_id": "rs_0", "output_index": 0}
    for number, part in enumerate(summary):
        empty = {"type": "summary_text", "text": ""}
        yield _event("response.reasoning_summary_part.added", summary_index=number, part=empty, **where)
        yield _event("response.reasoning_summary_text.delta", summary_index=number, delta=part["text"], **where)
        yield _event("response.reasoning_summary_text.done", summary_index=number, text=part["text"], **where)
    yield _event("response.output_item.done", output_index=0, item=item)
    output.append(item)


def _responses_repeated(size: int, output: list[Any]) -> Frames:
    """Words, and after each of them what would be the end of another text."""
    item = _message_item(0, ["".join(f"word {number} " for number in range(size))])
    where = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    yield _event("response.output_item.added", output_index=0, item={**item, "content": []})
    for number in range(size):
        yield _event("response.output_text.delta", delta=f"word {number} ", **where)
        yield _event("response.output_text.done", text="x", **where)
    yield _event("response.output_item.done", output_index=0, item=item)
    output.append(item)


def _messages(events: Callable[[int], Frames], reason: str = "end_turn") -> Callable[[int], Frames]:
    """Give events between those of a message."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}

    def shape(size: int) -> Frames:
        yield _event("message_start", message={**message, "stop_reason": None, "stop_sequence": None})
        yield from events(size)
        yield _event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 5})
        yield _event("message_stop")

    return shape


def _start(index: int | None, block: dict[str, Any]) -> dict[str, Any]:
    return _event("content_block_start", **({} if index is None else {"index": index}), content_block=block)


def _delta(index: int | None, kind: str, field: str, text: str) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return _event("content_block_delta", **place, delta={"type": kind, field: text})


def _messages_words(kind: str) -> Callable[[int], Frames]:
    def shape(size: int) -> Frames:
        yield _start(0, {"type": kind, kind: ""})
        for number in range(size):
            yield _delta(0, f"{kind}_delta", kind, f"word {number} ")
        yield _event("content_block_stop", index=0)

    return shape


def _messages_blocks(size: int) -> Frames:
    for number in range(size):
        kind = ("text", "thinking")[number % 2]
        yield _start(number, {"type": kind, kind: ""})
        yield _delta(number, f"{kind}_delta", kind, f"word {number}")
        yield _event("content_block_stop", index=number)


def _tool_use(number: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "f", "input": {}}


def _messages_arguments(size: int) -> Frames:
    yield _start(0, _tool_use(0))
    for text in ('{"a": "', *(f"word {number} " for number in range(size)), '"}'):
        yield _delta(0, "input_json_delta", "partial_json", text)
    yield _event("content_block_stop", index=0)


def _messages_calls(*texts: str, after: dict[str, Any] | None = None) -> Callable[[int], Frames]:
    def shape(size: int) -> Frames:
        for number in range(size):
            yield _start(number, _tool_use(number))
            for text in texts:
                yield _delta(number, "input_json_delta", "partial_json", text)
            yield _event("content_block_stop", index=number)
            if after is not None:
                yield after

    return shape


def _messages_interleaved(*, named: bool) -> Callable[[int], Frames]:
    def shape(size: int) -> Frames:
        for number in range(size):
            yield _start(number, _tool_use(number))
        for text in ('{"a":', "1}"):
            for number in range(size):
                yield _delta(number if named else None, "input_json_delta", "partial_json", text)
        for number in range(size):
            yield _event("content_block_stop", index=number)

    return shape


def _messages_strays(size: int) -> Frames:
    yield from _messages_calls('{"a":1}')(size)
    for _ in range(size):
        yield _delta(size, "input_json_delta", "partial_json", '{"b":1}')


def _messages_fallbacks(size: int) -> Frames:
    for number in range(size):
        yield _start(2 * number, _tool_use(number))
        yield _event("content_block_stop", index=2 * number)
        yield _start(2 * number + 1, {"type": "fallback", "to": {"model": f"m{number}"}})
        yield _event("content_block_stop", index=2 * number + 1)


def _gemini(parts: list[Any], index: int | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}}
    if finish is not None:
        candidate["finishReason"] = finish
    if index is not None:
        candidate["index"] = index
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "r", **more}


def _gemini_parts(parts: Callable[[int], list[Any]], **more: Any) -> Callable[[int], Frames]:
    def shape(size: int) -> Frames:
        for number in range(size):
            yield _gemini(parts(number), **more)
        yield _gemini([{"text": ""}], finish="STOP", usageMetadata={"promptTokenCount": 1, "totalTokenCount": 2})

    return shape


def _gemini_pieces(size: int) -> Frames:
    begin = {"name": "f", "id": "call_0", "partialArgs": [{"jsonPath": "$.a", "stringValue": ""}], "willContinue": True}
    yield _gemini([{"functionCall": begin}])
    for number in range(size):
        piece = {"jsonPath": f"$.b[{number}].c", "stringValue": "word"}
        yield _gemini([{"functionCall": {"partialArgs": [piece], "willContinue": True}}])
    yield _gemini([{"functionCall": {}}])
    yield _gemini([{"text": ""}], finish="STOP")


def _gemini_choices(size: int) -> Frames:
    for turn in range(2):
        for number in range(size):
            yield _gemini([{"text": f"word {turn} "}], number)
    for number in range(size):
        yield _gemini([{"text": ""}], number, "STOP")


def _gemini_usages(size: int) -> Frames:
    for number in range(size):
        usage = {"promptTokenCount": 10, "candidatesTokenCount": number, "totalTokenCount": 10 + number}
        yield _gemini([{"text": f"word {number} "}], usageMetadata=usage)
    yield _gemini([{"text": ""}], finish="STOP")


def _gemini_sources(size: int) -> Frames:
    yield _gemini([{"text": "word " * size}])
    chunks = [{"web": {"uri": f"https://x.test/{number}", "title": "t"}} for number in range(size)]
    supports = [
        {"segment": {"startIndex": 5 * number, "endIndex": 5 * number + 4}, "groundingChunkIndices": [number]}
        for number in range(size)
    ]
    last = _gemini([{"text": ""}], finish="STOP")
    last["candidates"][0]["groundingMetadata"] = {"groundingChunks": chunks, "groundingSupports": supports}
    yield last


def _gemini_call(number: int, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"id": f"call_{number}", "name": "f", "args": {"a": number}, **more}}


def _ollama(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    line = {"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", **message}}
    return {**line, "done": False, **more}


def _ollama_lines(message: Callable[[int], dict[str, Any]]) -> Callable[[int], Frames]:
    def shape(size: int) -> Frames:
        for number in range(size):
            yield _ollama(message(number))
        yield _ollama({"content": ""}, done=True, done_reason="stop", prompt_eval_count=1, eval_count=2)

    return shape


def _ollama_call(number: int, *, named: bool = True) -> dict[str, Any]:
    entry: dict[str, Any] = {"function": {"name": "f", "arguments": {"a": number}}}
    return {"content": "", "tool_calls": [{"id": f"call_{number}", **entry} if named else entry]}


def _one_of(*messages: Callable[[int], Any]) -> Callable[[int], Any]:
    return lambda number: messages[number % len(messages)](number)


STREAMS: dict[str, dict[str, Callable[[int], Frames]]] = {
    "openai-chat": {
        "words": _chat_words,
        "thoughts": _chat_thoughts,
        "details of thoughts": _chat_details,
        "thoughts and words": _chat_turns_of_kinds,
        "arguments": _chat_arguments,
        "calls": _chat_calls(lambda n: _chat_call(n, f"call_{n}", "f", ""), '{"a":', "1}"),
        "calls of one id": _chat_calls(lambda n: _chat_call(n, "call_0", "f", ""), '{"a":1}'),
        "calls of odd ids": _chat_calls(lambda n: _chat_call(n, f"srv/c:{n}", "srv/f", ""), '{"a":1}'),
        "calls without text": _chat_calls(lambda n: _chat_call(n, f"call_{n}", "f", "")),
        "calls of broken text": _chat_calls(lambda n: _chat_call(n, f"call_{n}", "f", ""), '{"a":'),
        "calls of no name": _chat_calls(lambda n: _chat_call(n, None, None, '{"a":'), "1}"),
        "calls of no id": _chat_calls(lambda n: _chat_call(n, None, "f", ""), '{"a":1}'),
        "calls of no index": _chat_calls(lambda n: _chat_call(None, f"call_{n}", "f", '{"a":'), "1}", index=False),
        "open calls of no index": _chat_calls(lambda n: _chat_call(None, f"call_{n}", "f", '{"a":'), "1", index=False),
        "interleaved calls": _chat_interleaved,
        "choices": _chat_choices(lambda turn: {"content": f"word {turn} "}),
        "choices with calls": _chat_choices(
            lambda turn: _chat_call(0, None if turn else "call_0", None if turn else "f", ('{"a":', "1}")[turn]),
            "tool_calls",
        ),
        "choices with calls without text": _chat_choices(
            lambda turn: {} if turn else _chat_call(0, "call_0", "f", ""), "tool_calls"
        ),
        "members": _chat_members,
        "usages": _chat_usages,
        "notes": _chat_notes,
    },
    "openai-responses": {
        "words": _responses(_responses_words(named=True)),
        "words of no item": _responses(_responses_words(named=False)),
        "messages": _responses(_responses_messages(named=True)),
        "messages of no id": _responses(_responses_messages(named=False)),
        "parts": _responses(_responses_parts),
        "calls": _responses(_responses_calls('{"a":', "1}")),
        "calls without text": _responses(_responses_calls()),
        "calls of broken text": _responses(_responses_calls('{"a":')),
        "calls of no end": _responses(_responses_calls('{"a":', "1}", done=False)),
        "text of no call": _responses(_responses_calls('{"a":', named=False, placed=False, done=False)),
        "interleaved calls": _responses(_responses_interleaved),
        "text of unknown calls": _responses(_responses_unknown),
        "thoughts": _responses(_responses_thoughts),
        "other ends": _responses(_responses_repeated),
    },
    "anthropic": {
        "words": _messages(_messages_words("text")),
        "thoughts": _messages(_messages_words("thinking")),
        "blocks": _messages(_messages_blocks),
        "arguments": _messages(_messages_arguments, "tool_use"),
        "calls": _messages(_messages_calls('{"a":', "1}"), "tool_use"),
        "calls without text": _messages(_messages_calls(), "tool_use"),
        "calls of broken text": _messages(_messages_calls('{"a":'), "tool_use"),
        "interleaved calls": _messages(_messages_interleaved(named=True), "tool_use"),
        "text of no call": _messages(_messages_interleaved(named=False), "tool_use"),
        "stray text": _messages(_messages_strays, "tool_use"),
        "fallbacks": _messages(_messages_fallbacks, "tool_use"),
        "calls and counts": _messages(
            _messages_calls(after=_event("message_delta", delta={}, usage={"output_tokens": 5})), "tool_use"
        ),
    },
    "gemini": {
        "words": _gemini_parts(lambda number: [{"text": f"word {number} "}]),
        "thoughts and words": _gemini_parts(
            _one_of(lambda n: [{"text": f"word {n} "}], lambda n: [{"text": f"thought {n} ", "thought": True}])
        ),
        "signed words": _gemini_parts(lambda n: [{"text": f"word {n} ", "thoughtSignature": "c2ln"}]),
        "calls": _gemini_parts(lambda number: [_gemini_call(number)]),
        "calls of no id": _gemini_parts(lambda number: [{"functionCall": {"name": "f", "args": {"a": number}}}]),
        "calls without arguments": _gemini_parts(lambda n: [_gemini_call(n, args={})]),
        "pieces of a call": _gemini_pieces,
        "choices": _gemini_choices,
        "usages": _gemini_usages,
        "sources": _gemini_sources,
    },
    "ollama": {
        "words": _ollama_lines(lambda number: {"content": f"word {number} "}),
        "thoughts and words": _ollama_lines(
            _one_of(lambda n: {"content": f"word {n} "}, lambda n: {"content": "", "thinking": f"thought {n} "})
        ),
        "calls": _ollama_lines(_ollama_call),
        "calls of no id": _ollama_lines(lambda number: _ollama_call(number, named=False)),
        "words and calls": _ollama_lines(_one_of(lambda n: {"content": f"word {n} "}, _ollama_call)),
    },
}


def frames_of(source: str, shape: str, size: int) -> list[bytes]:
    """Write the frames of a stream of a wire, of one shape and size."""
    write = _write_line if source == "ollama" else _write_event
    return [write(body) for body in STREAMS[source][shape](size)]


def _write_line(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


def _write_event(body: dict[str, Any]) -> bytes:
    data = json.dumps(body, separators=(",", ":"))
    return (f"event: {body['type']}\ndata: {data}\n\n" if "type" in body else f"data: {data}\n\n").encode()
