"""What the server of Ollama refuses, which is little: bodies that do not fit its types, in the words of Go.

Rule: it pairs no results with calls and minds no order of roles; so nothing of that is refused here.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from toolwire.testing.strictness.asked import Asked, Check, Rejection
from toolwire.testing.strictness.shapes import Words, check_object, dotted, kind_of

ROLES = ("system", "user", "assistant", "tool")
EFFORTS = ("low", "medium", "high", "max")
_GO = {"string": "string", "boolean": "bool", "integer": "int", "number": "float64", "array": "[]api.Message"}
_GOT = {"integer": "number", "boolean": "bool"}
FIELDS = {
    "model": "string",
    "messages": "array",
    "tools": "array",
    "stream": "boolean",
    "format": "string|object",
    "options": "object",
    "think": "boolean|string",
    "keep_alive": "string|number",
    "truncate": "boolean",
    "shift": "boolean",
    "logprobs": "boolean",
    "top_logprobs": "integer",
}
MESSAGE = {
    "role": "string",
    "content": "string",
    "thinking": "string",
    "images": "array",
    "tool_calls": "array",
    "tool_name": "string",
    "tool_call_id": "string",
}
FUNCTION = {"name": "string", "arguments": "object", "index": "integer"}


def _missing(path: str) -> Rejection:
    return Rejection(f"{path} is required")


def _wrong(path: str, kinds: str, value: Any) -> Rejection:
    kind = kinds.partition("|")[0]
    got, wanted = _GOT.get(kind_of(value), kind_of(value)), _GO.get(kind, "map[string]any")
    return Rejection(f"json: cannot unmarshal {got} into Go struct field ChatRequest.{path} of type {wanted}")


def _nullable(fields: dict[str, str]) -> dict[str, str]:
    """Take null for everything: Go leaves a field as it is then."""
    return {key: f"{kinds}|null" for key, kinds in fields.items()}


WORDS = Words(_missing, None, _wrong, lambda at, step: at if isinstance(step, int) else dotted(at, step))


def check_fields(asked: Asked) -> Iterator[Rejection]:
    """Check the kinds of what is known; what is not known is ignored."""
    body = asked.body
    yield from check_object(body, _nullable(FIELDS), (), WORDS)
    if not body.get("model"):
        yield _missing("model")
    think, form = body.get("think"), body.get("format")
    if type(think) is str and think not in EFFORTS:
        known = ", ".join(f'"{word}"' for word in EFFORTS[::-1])
        yield Rejection(f'invalid think value: "{think}" (must be {known}, true, or false)')
    if type(form) is str and form not in ("", "json"):
        yield Rejection(f'invalid format: "{form}"; expected "json" or a valid JSON Schema object')


def check_messages(asked: Asked) -> Iterator[Rejection]:
    """Check the kinds of what is in a message."""
    for message in asked.body.get("messages") or ():
        yield from check_object(message, _nullable(MESSAGE), (), WORDS, "messages")
        role = message.get("role") or ""
        if role.lower() not in ROLES:
            yield Rejection(f"invalid role: {role}, role must be one of [{', '.join(ROLES)}]")
        for image in message.get("images") or ():
            yield from _check_image(image)
        for call in message.get("tool_calls") or ():
            fields = {"function": "object", "id": "string"}
            yield from check_object(call, _nullable(fields), (), WORDS, "messages.tool_calls")
            function = call.get("function") or {}
            yield from check_object(function, _nullable(FUNCTION), (), WORDS, "messages.tool_calls.function")


def _check_image(image: Any) -> Iterator[Rejection]:
    if type(image) is not str:
        yield _wrong("messages.images", "string", image)
    try:
        base64.b64decode(image.replace("\n", "").replace("\r", ""), validate=True)
    except binascii.Error:
        yield Rejection("illegal base64 data at input byte 0")


def check_tools(asked: Asked) -> Iterator[Rejection]:
    """Check the kinds of what is in a tool."""
    for tool in asked.body.get("tools") or ():
        yield from check_object(tool, _nullable({"type": "string", "function": "object"}), (), WORDS, "tools")
        function = tool.get("function") or {}
        fields = {"name": "string", "description": "string", "parameters": "object"}
        yield from check_object(function, _nullable(fields), (), WORDS, "tools.function")


CHECKS: tuple[Check, ...] = (check_fields, check_messages, check_tools)
