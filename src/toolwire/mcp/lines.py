"""Messages as lines of JSON, and the repair of lines that are not messages.

Rules of this file:
- Each request gets an answer: a line that cannot be parsed still contains the id of its request, and that is looked
  for. The search reads the line as text, in linear time.
"""

import json
import logging
import re
from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from toolwire.scrubbing import scrub_text
from toolwire.waiting.results import replace_surrogates
from toolwire.wire.framing import BOM

logger: logging.Logger = logging.getLogger("toolwire.mcp")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[{]+|[\]}]+', re.DOTALL)
_VALUE = re.compile(rb'\s*:\s*("(?:[^"\\]|\\.)*+"|[^\s,\[\]{}"]*)', re.DOTALL)


def read_message(line: bytes | str) -> SessionMessage:
    """Return the message of `line`. Raise ValidationError, which is a ValueError, if it is none."""
    return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))


def _error_message(number: int | str | None, words: str, code: int = PARSE_ERROR) -> SessionMessage:
    """Return the error that answers the request with id `number`."""
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=words)))


def read_requests(line: bytes) -> list[tuple[SessionMessage | None, SessionMessage | None]]:
    """Return the messages of a client's line, each with the error that answers it if it is none.

    Both are None if no request waits for an answer. Earlier protocols allow several messages in a list.
    """
    line = line.removeprefix(BOM)
    if line.lstrip()[:1] != b"[":
        return [_read_request(line)] if line.strip() else []
    try:
        return [_read_request(json.dumps(one).encode()) for one in json.loads(line)]
    except (ValueError, RecursionError):
        return []


def _read_request(line: bytes) -> tuple[SessionMessage | None, SessionMessage | None]:
    try:
        message = read_message(line)
    except ValidationError as problem:
        return None, _refusal(line, problem)
    if isinstance(message.message, JSONRPCNotification) and "id" in _members(line):
        return None, _error_message(None, "the id of a request is a text or a whole number", INVALID_REQUEST)
    return message, None


def _refusal(line: bytes, problem: ValidationError) -> SessionMessage | None:
    members = _members(line)
    if "id" not in members or _is_answer(members):
        return None
    first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(map(str, first["loc"][1:]))
    text = f"the message cannot be read: {f'{path}: ' if path else ''}{first['msg']}"
    return _error_message(
        _request_id(members), text, PARSE_ERROR if first["type"] == "json_invalid" else INVALID_REQUEST
    )


def repair_messages(line: bytes) -> list[str]:
    """Return the messages of a server's line, with small errors repaired. Earlier protocols allow several in a list.

    Half a surrogate pair, an invalid error code and an id such as `4.0` are repaired. Any other answer that cannot be
    parsed becomes an error, and other lines are dropped.
    """
    try:
        parsed = json.loads(line)
        return [text for one in (parsed if isinstance(parsed, list) else [parsed]) for text in _repair_message(one)]
    except (ValueError, RecursionError) as problem:
        return _error_for_unreadable(line, problem)


def _repair_message(message: Any) -> list[str]:
    match message:
        case {"error": {"code": code, "message": str()} as error} if type(code) is not int:
            error["code"] = INTERNAL_ERROR
    match message:
        case {"id": float(number)} if number.is_integer():
            message["id"] = int(number)
    text = replace_surrogates(json.dumps(message, ensure_ascii=False))
    try:
        read_message(text)
    except ValueError as problem:
        return _error_for_unreadable(text.encode(), problem)
    return [text]


def _error_for_unreadable(line: bytes, problem: Exception) -> list[str]:
    """Return the error for an answer that cannot be parsed, so that its request does not wait for ever."""
    members = _members(line)
    number = _request_id(members) if _is_answer(members) else None
    if number is None:
        excerpt = scrub_text(line[:200].decode(errors="replace"))
        logger.warning("a server wrote a line that is not a message to its standard output: %r", excerpt)
        return []
    error = _error_message(number, f"the answer cannot be read: {str(problem)[:200]}")
    return [error.message.model_dump_json(by_alias=True, exclude_unset=True)]


def _is_answer(members: dict[str, bytes]) -> bool:
    return "method" not in members and not members.keys().isdisjoint(("result", "error"))


def _members(line: bytes) -> dict[str, bytes]:
    """Return the members of an object, each with its raw text or number.

    The object may be too broken or too deep to be parsed.
    """
    members: dict[str, bytes] = {}
    depth = 0
    for token in _TOKEN.finditer(line) if line.lstrip()[:1] == b"{" else ():
        text = token[0]
        if text[:1] == b'"':
            value = _VALUE.match(line, token.end()) if depth == 1 else None
            if value is not None:
                members[text[1:-1].decode(errors="replace")] = value[1]
        else:
            depth += len(text) if text[:1] in b"[{" else -len(text)
            if depth <= 0:
                break
    return members


def _request_id(members: dict[str, bytes]) -> int | str | None:
    try:
        number: Any = json.loads(members.get("id", b"null"))
        json.dumps(number, ensure_ascii=False).encode()
    except ValueError:
        return None
    return number if type(number) in (int, str) else None
