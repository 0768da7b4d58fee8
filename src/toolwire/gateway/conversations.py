"""Conversations of Responses: stored items under a name, which requests continue with any model.

Rules of this file:
- A conversation is an entry of the memory, and each of its items a row of that entry. An owner finds only its own.
- Each change is one call of the memory. No conversation is read, changed here and written back.
- A turn is added before the client receives the end of its answer, so the next request finds it, on every gateway.
- Without keys, an unknown name is passed to a provider of the wire. With keys it is rejected.

Sources: openai 3.54.0, resources.conversations, ResponseCreateParams.conversation (2026-11-22).
"""

import logging
import re
import secrets
import time
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.gateway.entries import Appended, Item, StoredEntry
from toolwire.gateway.errors import GatewayError
from toolwire.gateway.memory import Memory
from toolwire.gateway.response_store import as_list, page
from toolwire.gateway.stored_turns import Turns, as_items, conversation_key
from toolwire.types.readable import readable

_log = logging.getLogger(__name__)
_MOST = 8 * 1024 * 1024  # bytes of one conversation
_AT_ONCE = 20
_PAIRS, _LONGEST_NAME, _LONGEST_TEXT = 16, 64, 512
_TEXTS = {"assistant": "output_text"}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")  # an id of an item that its path can name
_read = msgspec.json.decode
_write = msgspec.json.encode


@readable
class _Conversation(Struct):
    """The value of a conversation's entry."""

    id: str
    created_at: int
    metadata: dict[str, str] = {}

    @property
    def wire_form(self) -> dict[str, Any]:
        """The conversation as its wire shows it."""
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created_at,
            "metadata": self.metadata,
        }


def named_in(members: Mapping[str, Any]) -> str:
    """Return the id of the conversation that a request continues, or an empty text."""
    value = _read(members["conversation"]) if "conversation" in members else None
    name = value.get("id") if type(value) is dict else value
    if name is not None and type(name) is not str:
        raise GatewayError("invalid_request", "conversation: must be the id of a conversation")
    if name and bytes(members.get("previous_response_id") or b"null") != b"null":
        raise GatewayError("invalid_request", "previous_response_id: must not be used together with conversation")
    return name or ""


async def add(turns: Turns, name: str, items: list[Any]) -> None:
    """Add a turn to a conversation. If it was deleted meanwhile, or would be too long, the turn is dropped."""
    added, _ = await _append(turns, name, items)
    if added.too_long:
        _log.warning("conversation %s would be more than %d bytes: a turn of it is not stored", name[:80], _MOST)


async def answer(turns: Turns, subject: str, method: str, body: bytes, query: str) -> bytes:
    """Answer a request for conversations: `subject` is the path after their common beginning."""
    name, _, rest = subject.partition("/")
    _, _, item = rest.partition("/")
    if not name and method == "POST":
        return await _create(turns, _object(body))
    if not name:
        raise _unknown(name)
    if not rest:
        return await _answer_whole(turns, name, method, body)
    if not item and method == "POST":
        return await _extend(turns, name, _object(body))
    return await _answer_items(turns, name, item, method, query)


async def _answer_whole(turns: Turns, name: str, method: str, body: bytes) -> bytes:
    match method:
        case "GET":
            return _write((await _find(turns, name)).wire_form)
        case "POST":
            return _write((await _change(turns, name, _object(body))).wire_form)
        case "DELETE":
            if not await _memory(turns).delete(turns.owner, conversation_key(name)):
                raise _unknown(name)
            return _write({"id": name, "object": "conversation.deleted", "deleted": True})
        case _:
            raise GatewayError.method(method, "a conversation", ("GET", "POST", "DELETE"))


async def _answer_items(turns: Turns, name: str, item: str, method: str, query: str) -> bytes:
    match method:
        case "GET":
            entry = await _memory(turns).read(turns.owner, conversation_key(name), items=True)
            if entry is None:
                raise _unknown(name)
            if item:
                return _the_item(name, entry, item)
            return _write(page([_read(one.value or b"{}") for one in entry.items], query))
        case "DELETE" if item:
            kept = await _find(turns, name)
            if not await _memory(turns).delete_item(turns.owner, conversation_key(name), item):
                raise _no_item(name, item)
            return _write(kept.wire_form)
        case _:
            raise GatewayError.method(method, "a conversation", ("GET", "DELETE" if item else "POST"))


async def _create(turns: Turns, read: dict[str, Any]) -> bytes:
    kept = _Conversation(f"conv_{secrets.token_hex(16)}", int(time.time()), _metadata(read))
    entry = StoredEntry(_write(kept), items=_as_rows(_listed(_new_items(read))))
    size = sum(len(item.value or b"") for item in entry.items)
    if size > _MOST or not await _memory(turns).write(turns.owner, conversation_key(kept.id), entry):
        raise _too_long("items: ")
    return _write(kept.wire_form)


async def _extend(turns: Turns, name: str, read: dict[str, Any]) -> bytes:
    added, listed = await _append(turns, name, _new_items(read))
    if not added.found:
        raise _unknown(name)
    if added.too_long:
        raise _too_long("items: this conversation ")
    return _write(as_list(listed, more=False))


async def _change(turns: Turns, name: str, read: dict[str, Any]) -> _Conversation:
    """Change the metadata of a conversation."""
    kept = await _find(turns, name)
    kept.metadata = _metadata(read)
    if not await _memory(turns).replace(turns.owner, conversation_key(name), StoredEntry(_write(kept)), items=False):
        raise _unknown(name)
    return kept


async def _append(turns: Turns, name: str, items: list[Any]) -> tuple[Appended, list[dict[str, Any]]]:
    """Add items to a conversation. An item whose id it has already gets another one."""
    listed = _listed(items)
    while True:
        added = await _memory(turns).append(turns.owner, conversation_key(name), _as_rows(listed), _MOST)
        if not added.taken:
            return added, listed
        listed = _listed(listed, added.taken)


async def _find(turns: Turns, name: str) -> _Conversation:
    entry = await _memory(turns).read(turns.owner, conversation_key(name))
    if entry is None:
        raise _unknown(name)
    return _read(entry.value, type=_Conversation)


def _memory(turns: Turns) -> Memory:
    return turns.memories[0].memory


def _unknown(name: str) -> GatewayError:
    return GatewayError("not_found", f"Conversation with id '{name[:80]}' not found.")


def _no_item(name: str, item: str) -> GatewayError:
    return GatewayError("not_found", f"Item with id '{item}' not found in conversation '{name}'.")


def _too_long(what: str) -> GatewayError:
    return GatewayError("invalid_request", f"{what}must not be more than {_MOST} bytes, or than this key may store")


def _the_item(name: str, entry: StoredEntry, item: str) -> bytes:
    value = next((one.value for one in entry.items if one.name == item), None)
    if value is None:
        raise _no_item(name, item)
    return value


def _object(body: bytes) -> dict[str, Any]:
    try:
        read = _read(body or b"{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        read = None
    if type(read) is not dict:
        raise GatewayError("invalid_request", "body: must be a JSON object")
    return read


def _metadata(read: dict[str, Any]) -> dict[str, str]:
    metadata = read.get("metadata") or {}
    pairs = metadata.items() if type(metadata) is dict else None
    if pairs is None or len(pairs) > _PAIRS or not all(type(value) is str for _, value in pairs):
        raise GatewayError("invalid_request", f"metadata: must be up to {_PAIRS} pairs of texts")
    if any(len(name) > _LONGEST_NAME or len(text) > _LONGEST_TEXT for name, text in pairs):
        most = f"{_LONGEST_NAME} characters, and texts up to {_LONGEST_TEXT}"
        raise GatewayError("invalid_request", f"metadata: must have names up to {most}")
    return metadata


def _new_items(read: dict[str, Any]) -> list[dict[str, Any]]:
    items = read.get("items") or []
    if type(items) is not list or len(items) > _AT_ONCE or any(type(item) is not dict for item in items):
        raise GatewayError("invalid_request", f"items: must be a list of up to {_AT_ONCE} items")
    return items


def _listed(items: list[Any], taken: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return items as their wire lists them: messages in parts, each item with an id of its own that is not taken."""
    known = set(taken)
    listed = []
    for item in as_items(items):
        if type(item) is not dict:
            continue
        role, content = item.get("role"), item.get("content")
        if role is not None:
            text = {"type": _TEXTS.get(str(role), "input_text"), "text": content}
            parts = [text] if type(content) is str else content
            item = {"status": "completed", **item, "type": "message", "content": parts}  # noqa: PLW2901
        name = item.get("id")
        if type(name) is not str or name in known or not _NAME.fullmatch(name):
            name = f"{'msg' if role is not None else 'item'}_{secrets.token_hex(12)}"
        known.add(name)
        listed.append({**item, "id": name})
    return listed


def _as_rows(items: list[dict[str, Any]]) -> list[Item]:
    return [Item(item["id"], _write(item)) for item in items]
