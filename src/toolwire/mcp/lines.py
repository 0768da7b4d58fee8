"""Messages as lines of JSON, and what can be told of a line that is none.

Rules of this file:
- Who waits for an answer gets one: a line that cannot be read still names its request, wherever that can be found.
  So it is looked through as text, in time that grows with its length.
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
    """Read a line; ValidationError, which is a ValueError, if it is no message."""
    return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))


def _error_message(number: int | str | None, words: str, code: int = PARSE_ERROR) -> SessionMessage:
    """Give the error that answers the request of this number."""
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=words)))


def read_requests(line: bytes) -> list[tuple[SessionMessage | None, SessionMessage | None]]:
    """Read what a client wrote: each message, or the error that answers what is none.

    Both are None for what names no request that waits. Earlier protocols take several messages, as a list.
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
    place = ".".join(map(str, first["loc"][1:]))
    words = f"the message cannot be read: {f'{place}: ' if place else ''}{first['msg']}"
    return _error_message(
        _number_in(members), words, PARSE_ERROR if first["type"] == "json_invalid" else INVALID_REQUEST
    )


def mended(line: bytes) -> list[str]:
    """Give the messages of a line that is almost one: earlier protocols take several, as a list.

    Half of a surrogate pair, an odd code of an error and a number like `4.0` are mended; any other answer that
    cannot be read becomes an error, and what is no message is left out.
    """
    try:
        read = json.loads(line)
        return [text for one in (read if isinstance(read, list) else [read]) for text in _mended(one)]
    except (ValueError, RecursionError) as problem:
        return _unread(line, problem)


def _mended(message: Any) -> list[str]:
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
        return _unread(text.encode(), problem)
    return [text]


def _unread(line: bytes, problem: Exception) -> list[str]:
    """Give the error that stands for an answer, so that nobody waits for it."""
    members = _members(line)
    number = _number_in(members) if _is_answer(members) else None
    if number is None:
        shown = scrub_text(line[:200].decode(errors="replace"))
        logger.warning("a server wrote a line that is not a message to its standard output: %r", shown)
        return []
    error = _error_message(number, f"the answer cannot be read: {str(problem)[:200]}")
    return [error.message.model_dump_json(by_alias=True, exclude_unset=True)]


def _is_answer(members: dict[str, bytes]) -> bool:
    return "method" not in members and not members.keys().isdisjoint(("result", "error"))


def _members(line: bytes) -> dict[str, bytes]:
    """List the members of an object that may be too broken or too deep to be read, each with its text or number."""
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


def _number_in(members: dict[str, bytes]) -> int | str | None:
    try:
        number: Any = json.loads(members.get("id", b"null"))
        json.dumps(number, ensure_ascii=False).encode()
    except ValueError:
        return None
    return number if type(number) in (int, str) else None
