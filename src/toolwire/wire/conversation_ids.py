"""The id of a conversation: a hash of the user's first message, which all turns of the conversation repeat."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

_MESSAGE_MEMBERS = ("messages", "contents", "input")
_read_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read = msgspec.json.Decoder().decode


def conversation_of(owner: str, members: Mapping[str, Any]) -> bytes:
    """Return the id of a conversation: a hash of the owner and the user's first message. Empty if there is none."""
    try:
        messages = next((members[name] for name in _MESSAGE_MEMBERS if name in members), None)
        first = b"" if messages is None else _first_message(messages)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return b""
    return hashlib.sha256(owner.encode() + b"\0" + first).digest() if first else b""


def _first_message(messages: Any) -> bytes:
    if bytes(messages).startswith(b'"'):
        return bytes(messages)
    for raw in _read_list(messages):
        message = _read(raw)
        if type(message) is dict and message.get("role", "user") == "user":
            content = message.get("content", message.get("parts"))
            return msgspec.json.encode(_texts(content))
    return b""


def _texts(content: Any) -> list[str]:
    parts = content if type(content) is list else [content]
    texts = [part.get("text") if type(part) is dict else part for part in parts]
    return [text for text in texts if isinstance(text, str)]
