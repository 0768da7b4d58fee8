"""Readers of streams as many write them, one for each wire: the control that shows what a row is worth.

Each does what the examples of its wire need, in a few honest lines: bytes are decoded as they are read, lines
are split as Python splits them, fragments are added to the call in their place, arguments are read at the end
and are none where nothing came, and the last reason for an end counts.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.nasty_row import Told

Reads = Iterable[bytes]
FINISH = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "STOP": "stop",
    "MAX_TOKENS": "length",
}


def lines(reads: Reads) -> Iterator[str]:
    """Give the lines of what is read."""
    for read in reads:
        yield from read.decode().splitlines()


def bodies(reads: Reads) -> Iterator[Any]:
    """Give the bodies of server-sent events."""
    for line in lines(reads):
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line[6:])


def told(text: str, calls: Iterable[Any], finish: str | None, thinking: str = "") -> Told:
    """Say what was read."""
    return Told(text=text, thinking=thinking, calls=tuple(calls), finish=FINISH.get(finish or "", finish))


def whole(call: Iterable[str]) -> tuple[str, str, Any]:
    """Give a call whose arguments came as text."""
    call_id, name, arguments = call
    return call_id, name, json.loads(arguments or "{}")


def read_chat(reads: Reads) -> Told:
    """Read chunks: calls are merged by their index."""
    text, thinking, finish = "", "", None
    calls: dict[int, Any] = {}
    for body in bodies(reads):
        choice = body["choices"][0]
        delta = choice["delta"]
        text += delta.get("content") or ""
        thinking += delta.get("reasoning_content") or ""
        for entry in delta.get("tool_calls") or ():
            call = calls.setdefault(entry["index"], {"id": "", "name": "", "arguments": ""})
            call["id"] += entry.get("id", "")
            call["name"] += entry["function"].get("name", "")
            call["arguments"] += entry["function"].get("arguments", "")
        if choice["finish_reason"] is not None:
            finish = choice["finish_reason"]
    return told(text, [whole(call.values()) for call in calls.values()], finish, thinking)


def read_messages(reads: Reads) -> Told:
    """Read events: a delta is about the block that started last, and a stop ends it."""
    text, thinking, finish, fragments = "", "", None, ""
    block: dict[str, Any] = {}
    calls = []
    for body in bodies(reads):
        delta = body.get("delta", {})
        match body["type"]:
            case "content_block_start":
                block, fragments = body["content_block"], ""
            case "content_block_delta":
                text += delta.get("text", "")
                thinking += delta.get("thinking", "")
                fragments += delta.get("partial_json", "")
            case "content_block_stop" if block["type"] == "tool_use":
                calls.append(whole((block["id"], block["name"], fragments)))
            case "message_delta":
                finish = delta["stop_reason"]
    return told(text, calls, finish, thinking)


def read_responses(reads: Reads) -> Told:
    """Read events: a fragment is about the item in its place."""
    text, thinking, finish = "", "", None
    calls: dict[int, list[str]] = {}
    for body in bodies(reads):
        match body["type"]:
            case "response.output_item.added" if body["item"]["type"] == "function_call":
                calls[body["output_index"]] = [body["item"]["call_id"], body["item"]["name"], ""]
            case "response.output_text.delta":
                text += body["delta"]
            case "response.reasoning_summary_text.delta":
                thinking += body["delta"]
            case "response.function_call_arguments.delta":
                calls[body["output_index"]][2] += body["delta"]
            case "response.completed":
                finish = "tool_calls" if calls else "stop"
    return told(text, map(whole, calls.values()), finish, thinking)


def read_gemini(reads: Reads) -> Told:
    """Read chunks: each has the next parts."""
    text, finish, calls = "", None, []
    for body in bodies(reads):
        candidate = body["candidates"][0]
        for part in candidate["content"]["parts"]:
            if "functionCall" in part:
                call = part["functionCall"]
                calls.append((call.get("id"), call["name"], call["args"]))
            else:
                text += part["text"]
        finish = candidate.get("finishReason", finish)
    return told(text, calls, "tool_calls" if calls else finish)


def read_ollama(reads: Reads) -> Told:
    """Read lines: each has the next piece of the message."""
    text, thinking, finish, calls = "", "", None, []
    for line in lines(reads):
        body = json.loads(line)
        message = body["message"]
        text += message["content"]
        thinking += message.get("thinking", "")
        for call in message.get("tool_calls", ()):
            calls.append((call.get("id"), call["function"]["name"], call["function"]["arguments"]))  # noqa: PERF401
        if body["done"]:
            finish = "tool_calls" if calls else body["done_reason"]
    return told(text, calls, finish, thinking)


READERS: dict[str, Callable[[Reads], Told]] = {
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "anthropic": read_messages,
    "gemini": read_gemini,
    "ollama": read_ollama,
}
