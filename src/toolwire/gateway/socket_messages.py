"""The messages of Responses over a WebSocket, as a connection reads them.

Rules of this file:
- A member remains the bytes that the client sent, unless the connection itself needs the value.
- A member that cannot be read, or has another type, is refused by its name.

Sources: openai 3.52.0, ResponsesClientEvent and the steering events (2026-11-22).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from toolwire.gateway.stored_turns import as_items

NOTHING = Raw(b"null")
_LONGEST_ID = 200
_LONGEST_NAME = 256
_OWN = frozenset({"type", "stream_id", "stream", "background", "generate"})
_read = msgspec.json.decode
_write = msgspec.json.encode
# The result that a client has to send for each kind of call, and the fields of the call that name it.
_OWED = {
    "function_call": ("function_call_output", ("call_id", "name")),
    "custom_tool_call": ("custom_tool_call_output", ("call_id",)),
    "computer_call": ("computer_call_output", ("call_id",)),
    "shell_call": ("shell_call_output", ("call_id",)),
    "apply_patch_call": ("apply_patch_call_output", ("call_id",)),
    "tool_search_call": ("tool_search_output", ("call_id", "execution")),
}


class WrongMessage(Exception):
    """An error in a message, and the member that is wrong."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class Create(Struct):
    """A request for an answer: its body, and the values that the connection itself needs."""

    body: dict[str, Raw]
    lane: str | None
    previous: str
    prewarms: bool
    pass_on: Callable[[], None]


def do_nothing() -> None:
    """Free nothing: this message was not counted."""


def read_members(data: str | bytes) -> dict[str, Raw]:
    """Return the members of a message as bytes."""
    try:
        return _read(data.encode() if isinstance(data, str) else data, type=dict[str, Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise WrongMessage("a message must be a JSON object of type response.create or response.steer") from None


def read_value(members: Mapping[str, Raw], name: str) -> Any:
    """Return the value of a member, or None if there is none."""
    try:
        return _read(members.get(name, NOTHING))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise WrongMessage(f"{name}: cannot be read", name) from None


def read_mark(members: Mapping[str, Raw]) -> dict[str, Any]:
    """Return the members that name the lane of a message in its events."""
    name = read_value(members, "stream_id")
    if name is not None and not (type(name) is str and 0 < len(name) <= _LONGEST_NAME):
        raise WrongMessage(f"stream_id: must be a text of up to {_LONGEST_NAME} characters", "stream_id")
    return {} if name is None else {"stream_id": name}


def read_create(members: dict[str, Raw], pass_on: Callable[[], None]) -> Create:
    """Return a request for an answer. Raise if a member that the connection itself needs has a wrong type."""
    options = _read_typed(members, "prompt_cache_options", dict, "an object") or {}
    generate, prewarm = _read_typed(members, "generate", bool, "true or false"), options.get("prewarm")
    if prewarm is not None and type(prewarm) is not bool:
        raise WrongMessage("prompt_cache_options.prewarm: must be true or false", "prompt_cache_options.prewarm")
    previous = _read_typed(members, "previous_response_id", str, "a text") or ""
    body = {name: value for name, value in members.items() if name not in _OWN}
    lane = read_mark(members).get("stream_id")
    return Create(body, lane, previous, generate is False or prewarm is True, pass_on)


def _read_typed(members: Mapping[str, Raw], name: str, expected: type[Any], description: str) -> Any:
    """Return the value of a member that is null or of a type."""
    value = read_value(members, name)
    if value is not None and type(value) is not expected:
        raise WrongMessage(f"{name}: must be {description}", name)
    return value


def join_inputs(added: Iterable[Raw], input_items: Raw) -> Raw:
    """Return an input with the additions before it."""
    return Raw(_write([item for raw in (*added, input_items) for item in as_items(_read(raw))]))


def read_id(answer: bytes) -> str:
    """Return the id of an answer, or an empty text."""
    read = _read(answer) if answer else None
    name = read.get("id") if type(read) is dict else None
    return name if type(name) is str and len(name) <= _LONGEST_ID else ""


def read_kind(event: bytes) -> bytes:
    """Return the type of an event, or nothing."""
    try:
        return str(_read(event).get("type")).encode()
    except (msgspec.DecodeError, UnicodeError, AttributeError):
        return b""


def steer_error(code: str) -> dict[str, str]:
    """Return the error for an addition that is refused."""
    return {"type": "invalid_request_error", "code": code, "message": f"this input was not accepted: {code}"}


def is_addition(value: Any) -> bool:
    """Return True if an input is a text, or messages of a user alone."""
    if type(value) is str:
        return bool(value)
    return (
        type(value) is list
        and bool(value)
        and all(
            type(item) is dict and item.get("role") == "user" and item.get("type", "message") == "message"
            for item in value
        )
    )


def list_owed(answer: bytes) -> list[dict[str, Any]]:
    """Return the results that the client has to send before the model can continue."""
    read = _read(answer)
    items = as_items(read.get("output")) if type(read) is dict else []
    owed: list[dict[str, Any]] = []
    for item in items:
        if type(item) is not dict:
            continue
        result_type, fields = _OWED.get(str(item.get("type")), ("", ()))
        if result_type and not (item.get("type") == "tool_search_call" and item.get("execution") != "client"):
            owed.append({"type": result_type, **{name: item.get(name) for name in fields}})
        if item.get("type") == "mcp_approval_request":
            owed.append({"type": "mcp_approval_response", "approval_request_id": item.get("id")})
    return owed
