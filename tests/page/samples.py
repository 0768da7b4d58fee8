"""Sample exchanges, which the library itself translates: a coding agent that mends a file, on several wires."""

import base64
import json
import random
import struct
import time
import zlib
from typing import Any

from msgspec import Struct

from toolwire import catalogue, translate
from toolwire.dialects import dialect
from toolwire.records import Body, Frame, Record, RecordStore
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    Choice,
    ChoiceEnd,
    Message,
    MessageEnd,
    MessageStart,
    PartEnd,
    PartStart,
    Response,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    Usage,
    UsageDelta,
)

TOOLS = (
    "read_file write_file edit_file bash grep glob list_files web_fetch todo_write task notebook_edit search_code "
    "run_tests git_diff git_log apply_patch open_pull_request comment ask_user screenshot click type_text scroll wait"
).split()
SYSTEM = "You are a careful coding agent that works in a repository.\n" + (
    "Read before you write. Run the tests after each change. Say what you did in one sentence.\n" * 40
)
ASK = "The page of the list shows nine rows, not ten. Find out why, and mend it."
OLD = "def page(rows, size):\n    return rows[: size - 1]\n"
STEPS: list[tuple[str, dict[str, Any], str, str]] = [
    ("read_file", {"path": "src/pages.py"}, OLD, "I look at the file first."),
    ("bash", {"command": "pytest -q tests/test_pages.py"}, "F.\n1 failed, 1 passed in 0.21s", "Now the test."),
    (
        "edit_file",
        {"path": "src/pages.py", "old_string": OLD, "new_string": OLD.replace(" size - 1", "size")},
        "src/pages.py: 1 change",
        "The slice is wrong: I mend it.",
    ),
    ("bash", {"command": "pytest -q tests/test_pages.py"}, "2 passed in 0.19s", "Once more."),
    ("grep", {"path": "src", "pattern": "size - 1"}, "no match", "Is it anywhere else?"),
    ("bash", {"command": "git diff --stat"}, " src/pages.py | 2 +-", "What changed?"),
]
THOUGHTS = (
    "The slice drops the last row, so a page of ten has nine rows. I should look at the test first.",
    "The test agrees: off by one.",
)
DONE = "The last row of a page was cut off. `page` now keeps all of them, and both tests pass."
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "The path of the file."}, "limit": {"type": "integer"}},
    "required": ["path"],
}
URLS = {
    "anthropic": "https://api.anthropic.com/v1/messages",
    "openai-responses": "https://api.openai.com/v1/responses",
    "openai-chat": "https://api.openai.com/v1/chat/completions",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.5-pro:streamGenerateContent",
    "ollama": "http://127.0.0.1:11434/api/chat",
}


class Spec(Struct, frozen=True):
    """A conversation to make: who asks which model on which wire, and who answers."""

    wire: str
    model: str
    provider: str
    answered: str
    target: str
    key: str
    program: str
    turns: int
    image: bool = False


SPECS = (
    Spec("anthropic", "sonnet", "openai", "gpt-6-sol", "openai-responses", "ann", "claude-code/2.1.332", 7, True),
    Spec("openai-responses", "gpt-5.5", "anthropic", "claude-sonnet-5-5", "anthropic", "ci", "codex/0.171.0", 7),
    Spec("anthropic", "haiku", "ollama", "qwen3", "ollama", "ann", "claude-code/2.1.332", 3),
    Spec("openai-chat", "gpt-4o", "gemini", "gemini-3.5-pro", "gemini", "blue/cleo", "openai-python/3.57", 2),
    Spec("anthropic", "claude-sonnet-5-5", "anthropic", "claude-sonnet-5-5", "anthropic", "bob", "claude-code/2.1", 5),
)


def png(width: int = 64, height: int = 40) -> str:
    """Return a small image in Base64."""
    rows = b"".join(
        b"\0" + bytes(value for x in range(width) for value in (40 + x * 3 % 200, 120, 200 - y * 3))
        for y in range(height)
    )

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(data).decode()


def _tool(name: str, wire: str) -> dict[str, Any]:
    words = f"{name.replace('_', ' ').capitalize()}. " + "It returns what it found, or an error that says why. " * 6
    if wire == "anthropic":
        return {"name": name, "description": words, "input_schema": SCHEMA}
    function = {"name": name, "description": words, "parameters": SCHEMA}
    return {"type": "function", "function": function} if wire == "openai-chat" else {"type": "function", **function}


def _messages_request(spec: Spec, step: int, number: int) -> dict[str, Any]:
    first: list[dict[str, Any]] = [{"type": "text", "text": ASK}]
    if spec.image:
        first.append({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png()}})
    messages: list[dict[str, Any]] = [{"role": "user", "content": first}]
    for index, (name, arguments, result, said) in enumerate(STEPS[:step]):
        call = f"call_{number}_{index}"
        thought = [{"type": "thinking", "thinking": THOUGHTS[index], "signature": "c2ln"}] if index < 2 else []
        text = {"type": "text", "text": said}
        use = {"type": "tool_use", "id": call, "name": name, "input": arguments}
        messages.append({"role": "assistant", "content": [*thought, text, use]})
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": result}]})
    return {
        "model": spec.model,
        "max_tokens": 32000,
        "stream": True,
        "system": [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}],
        "tools": [_tool(name, spec.wire) for name in TOOLS],
        "messages": messages,
        "metadata": {"user_id": "user_1_session_9"},
        "thinking": {"type": "enabled", "budget_tokens": 8000},
        "top_k": 40,
    }


def _responses_request(spec: Spec, step: int, number: int) -> dict[str, Any]:
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ASK}]}
    ]
    for index, (name, arguments, result, _) in enumerate(STEPS[:step]):
        call = f"call_{number}_{index}"
        items.append({"type": "function_call", "call_id": call, "name": name, "arguments": json.dumps(arguments)})
        items.append({"type": "function_call_output", "call_id": call, "output": result})
    return {
        "model": spec.model,
        "instructions": SYSTEM,
        "logit_bias": {"50256": -100},
        "max_output_tokens": 8192,
        "prompt_cache_key": "0192-77c1",
        "stream": True,
        "store": False,
        "input": items,
        "tools": [_tool(name, spec.wire) for name in TOOLS],
    }


def _chat_request(spec: Spec, step: int, number: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": ASK, "name": "ann"},
    ]
    for index, (name, arguments, result, _) in enumerate(STEPS[:step]):
        call = f"call_{number}_{index}"
        function = {"name": name, "arguments": json.dumps(arguments)}
        messages.append({"role": "assistant", "tool_calls": [{"id": call, "type": "function", "function": function}]})
        messages.append({"role": "tool", "tool_call_id": call, "content": result})
    tools = [_tool(name, spec.wire) for name in TOOLS[:6]]
    return {"model": spec.model, "messages": messages, "tools": tools, "seed": 7}


REQUESTS = {
    "anthropic": (_messages_request, "/v1/messages"),
    "openai-responses": (_responses_request, "/v1/responses"),
    "openai-chat": (_chat_request, "/v1/chat/completions"),
}


def _answer(step: int, number: int) -> Response:
    if step >= len(STEPS):
        return Response.of(Message("assistant", [Text(DONE)]), finish_reason="stop", id=f"r{number}")
    name, arguments, _, said = STEPS[step]
    thoughts = [Thinking(THOUGHTS[step])] if step < 2 else []
    parts: list[Any] = [*thoughts, Text(said), ToolCall(f"call_{number}_{step}", name, arguments)]
    return Response.of(Message("assistant", parts), finish_reason="tool_calls", id=f"r{number}")


def _pieces(response: Response, wire: str, usage: Usage) -> list[bytes]:
    """Return the frames of a streamed answer."""
    events: list[Any] = [MessageStart(Response(id=response.id, model="m"))]
    for key, part in enumerate(response.choices[0].message.parts):
        if isinstance(part, ToolCall):
            raw = json.dumps(part.arguments)
            events.append(CallStart(key, part.id, part.name))
            events += [CallDelta(key, raw[at : at + 9]) for at in range(0, len(raw), 9)]
            events.append(CallEnd(key, ToolCall(part.id, part.name, part.arguments, raw=raw)))
        elif isinstance(part, Thinking):
            deltas = [ThinkingDelta(key, part.text[at : at + 24]) for at in range(0, len(part.text), 24)]
            events += [PartStart(key, Thinking("")), *deltas, PartEnd(key, Thinking(""))]
        elif isinstance(part, Text):
            texts = [TextDelta(key, part.text[at : at + 24]) for at in range(0, len(part.text), 24)]
            events += [PartStart(key, Text("")), *texts, PartEnd(key, Text(""))]
    ending = Choice(Message("assistant", []), response.choices[0].finish_reason)
    events += [UsageDelta(usage), ChoiceEnd(0, ending), MessageEnd()]
    encoder = dialect(wire).encode_stream()
    return [data for data in (*map(encoder.feed, events), encoder.close()) if data]


def _streamed(pieces: list[bytes], first: float) -> Body:
    frames = tuple(Frame(first + 0.03 * index, len(piece)) for index, piece in enumerate(pieces))
    data = b"".join(pieces)
    return Body(data=data, size=len(data), frames=frames, headers={"content-type": "text/event-stream"})


def make_record(spec: Spec, step: int, number: int, start: float, chance: random.Random, *, breaks: bool) -> Record:
    """Return the record of one turn, as a gateway would write it."""
    make, path = REQUESTS[spec.wire]
    body = make(spec, step, number)
    if breaks and step == spec.turns - 2:
        body["tools"].insert(20, _tool("new_tool", spec.wire))
    exchange = translate.exchange(body, source=spec.wire, target=spec.target, path=path, model=spec.answered)
    sent, asked = exchange.encoded.json, json.dumps(body).encode()
    tokens = len(sent) // 4
    has_new = step == 0, breaks and step >= spec.turns - 2  # a tool that comes or goes ends what a cache can read
    shares = {(False, False): (0.8, 0.93), (False, True): (0.38, 0.42)}
    read = int(tokens * chance.uniform(*shares.get(has_new, (0, 0))))
    written = min(tokens - read, int(tokens * (0.08 if step else 0.95))) if spec.target == "anthropic" else 0
    usage = Usage(tokens, chance.randint(40, 600), read, written)
    response, first = _answer(step, number), chance.uniform(0.2, 0.9)
    if exchange.streams:
        pieces = _pieces(response, spec.target, usage)
        stream = exchange.stream()
        back = [data for data in (*map(stream.feed, pieces), stream.close()) if data]
        answered, received, losses = _streamed(pieces, first), _streamed(back, first + 0.001), tuple(stream.losses)
    else:
        whole = Response(choices=response.choices, id=response.id, model=spec.answered, usage=usage)
        data = dialect(spec.target).encode_response(whole).json
        reply = exchange.response(data)
        answered, losses = Body(data=data, size=len(data)), reply.losses
        received = Body(data=reply.json, size=len(reply.json))
    name = f"{spec.provider}/{spec.answered}"
    ending = (
        "broke off, continued" if number % 7 == 5 and step == 1 else "tool calls" if step < len(STEPS) else "answer"
    )
    return Record(
        id=f"tw_{chance.randbytes(12).hex()}",
        time=start + step * 7,
        seconds=first + 1.2,
        first_byte=first,
        key=f"k{spec.key[:4]}",
        key_name=spec.key,
        session=f"s{number}",
        conversation=f"conv_{number:04d}",
        path=path,
        wire=spec.wire,
        provider_wire=spec.target,
        url=URLS[spec.target],
        model=spec.model,
        provider=spec.provider,
        provider_model=spec.answered,
        streamed=exchange.streams,
        status=200,
        provider_status=200,
        ending=ending,
        usage=usage,
        cost=catalogue.cost(usage, name) or catalogue.cost(usage, spec.answered) or 0.0,
        request_losses=exchange.encoded.losses,
        answer_losses=losses,
        client_request=Body(
            data=asked, size=len(asked), headers={"content-type": "application/json", "user-agent": spec.program}
        ),
        provider_request=Body(data=sent, size=len(sent), headers={"content-type": "application/json"}),
        provider_answer=answered,
        client_answer=received,
    )


def fill(store: RecordStore, conversations: int = 5, *, spread: float = 140.0) -> list[Record]:
    """Write some conversations to a store, the last one now. Return their records, the oldest first."""
    chance, now = random.Random(3), time.time()  # noqa: S311 - the same samples each time
    made: list[Record] = []
    for number in range(conversations):
        spec = SPECS[number % len(SPECS)]
        start = now - 60 - (conversations - 1 - number) * spread
        breaks = number % 5 == 0
        made += [make_record(spec, step, number, start, chance, breaks=breaks) for step in range(spec.turns)]
    for record in made:
        store.write(record)
    assert store.flush(30)
    return made
