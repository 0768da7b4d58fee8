"""Conversations of Responses: items under a name, which requests go on from and are added to, whoever answers them.

Rules of this file:
- They are kept in the memory alone: found by their own key, bounded, and expiring.
- What was asked and answered is added before the client hears the end: whoever goes on at once finds it.
- A name that is not known here is passed to a provider of the wire where nobody has a key, and refused otherwise.

Sources: openai 3.54.0, resources.conversations, ResponseCreateParams.conversation (2026-11-22).
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import Raw, Struct

from toolwire.gateway.endings import Refused
from toolwire.gateway.stored import StoredTurn, Turns, as_items, as_list, page
from toolwire.types.readable import readable

_log = logging.getLogger(__name__)
_MOST = 8 * 1024 * 1024  # bytes of one conversation
_AT_ONCE = 20
_PAIRS = 16
_TEXTS = {"assistant": "output_text"}
_LOCKS: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
_read = msgspec.json.decode
_write = msgspec.json.encode


@readable
class _Conversation(Struct):
    """What is kept of a conversation."""

    id: str
    created_at: int
    metadata: dict[str, str] = {}
    items: list[dict[str, Any]] = []

    @property
    def shown(self) -> dict[str, Any]:
        """The conversation as its wire shows it."""
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created_at,
            "metadata": self.metadata,
        }


def named_in(members: Mapping[str, Any]) -> str:
    """Read which conversation a request goes on from; empty where it names none."""
    value = _read(members["conversation"]) if "conversation" in members else None
    name = value.get("id") if type(value) is dict else value
    if name is not None and type(name) is not str:
        raise Refused("invalid_request", "conversation: must be the id of a conversation")
    if name and bytes(members.get("previous_response_id") or b"null") != b"null":
        raise Refused("invalid_request", "previous_response_id: must not stand beside conversation")
    return name or ""


async def turn_of(turns: Turns, name: str) -> StoredTurn | None:
    """Give a conversation as one turn that a request goes on from; None where it is not known here."""
    kept = await _find(turns, name)
    return None if kept is None else StoredTurn("", asked=Raw(_write(kept.items)), answer=Raw(b'{"output":[]}'))


async def add(turns: Turns, name: str, items: list[Any]) -> None:
    """Add to a conversation what was said in a turn; one that would be too long stays as it is, and the log says so."""
    async with _lock(turns, name):
        kept = await _find(turns, name)
        if kept is not None:
            kept.items = [*kept.items, *_told(items, kept)]
            if not await _keep(turns, kept):
                _log.warning("conversation %s would be more than %d bytes: a turn of it is not kept", kept.id, _MOST)


async def answer(turns: Turns, subject: str, method: str, body: bytes, query: str) -> bytes:
    """Answer what is asked of conversations: `subject` is the path after their common beginning."""
    name, _, rest = subject.partition("/")
    _, _, item = rest.partition("/")
    if not name and method == "POST":
        return await _create(turns, _object(body))
    async with _lock(turns, name):
        kept = await _find(turns, name) if name else None
        if kept is None:
            raise Refused("not_found", f"Conversation with id '{name}' not found.")
        if rest:
            return await _answer_items(turns, kept, item, method, body, query)
        return await _answer_whole(turns, kept, method, body)


async def _answer_whole(turns: Turns, kept: _Conversation, method: str, body: bytes) -> bytes:
    match method:
        case "GET":
            return _write(kept.shown)
        case "POST":
            kept.metadata = _metadata(_object(body))
            await _keep(turns, kept)
            return _write(kept.shown)
        case "DELETE":
            await turns.memories[0].keep(turns.owner, [(_key(kept.id), b"")])
            return _write({"id": kept.id, "object": "conversation.deleted", "deleted": True})
        case _:
            raise Refused.method(method, "a conversation", ("GET", "POST", "DELETE"))


async def _answer_items(turns: Turns, kept: _Conversation, item: str, method: str, body: bytes, query: str) -> bytes:
    found = next((one for one in kept.items if one["id"] == item), None)
    if item and found is None:
        raise Refused("not_found", f"Item with id '{item}' not found in conversation '{kept.id}'.")
    match method:
        case "GET":
            return _write(found or page(kept.items, query))
        case "POST" if not item:
            return await _extend(turns, kept, _object(body))
        case "DELETE" if found is not None:
            kept.items.remove(found)
            await _keep(turns, kept)
            return _write(kept.shown)
        case _:
            raise Refused.method(method, "a conversation", ("GET", "DELETE" if item else "POST"))


async def _create(turns: Turns, read: dict[str, Any]) -> bytes:
    kept = _Conversation(f"conv_{secrets.token_hex(16)}", int(time.time()), _metadata(read))
    kept.items = _told(_given(read), kept)
    if not await _keep(turns, kept):
        raise Refused("invalid_request", f"items: must not be more than {_MOST} bytes")
    return _write(kept.shown)


async def _extend(turns: Turns, kept: _Conversation, read: dict[str, Any]) -> bytes:
    added = _told(_given(read), kept)
    kept.items = [*kept.items, *added]
    if not await _keep(turns, kept):
        raise Refused("invalid_request", f"items: this conversation must not be more than {_MOST} bytes")
    return _write(as_list(added, more=False))


async def _find(turns: Turns, name: str) -> _Conversation | None:
    if len(name) > len("conv_") + 64:
        return None
    found = (await turns.memories[0].find(turns.owner, [_key(name)])).get(_key(name))
    return _read(found, type=_Conversation) if found else None


async def _keep(turns: Turns, kept: _Conversation) -> bool:
    value = _write(kept)
    if len(value) > _MOST:
        return False
    await turns.memories[0].keep(turns.owner, [(_key(kept.id), value)])
    return True


def _lock(turns: Turns, name: str) -> asyncio.Lock:
    """Give what lets one at a time change a conversation in this process."""
    return _LOCKS.setdefault((turns.owner, name), asyncio.Lock())


def _key(name: str) -> str:
    return f"conv:{name}"


def _object(body: bytes) -> dict[str, Any]:
    try:
        read = _read(body or b"{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        read = None
    if type(read) is not dict:
        raise Refused("invalid_request", "body: must be a JSON object")
    return read


def _metadata(read: dict[str, Any]) -> dict[str, str]:
    metadata = read.get("metadata") or {}
    texts = type(metadata) is dict and all(type(value) is str for value in metadata.values())
    if not texts or len(metadata) > _PAIRS:
        raise Refused("invalid_request", f"metadata: must be up to {_PAIRS} pairs of texts")
    return metadata


def _given(read: dict[str, Any]) -> list[dict[str, Any]]:
    items = read.get("items") or []
    if type(items) is not list or len(items) > _AT_ONCE or any(type(item) is not dict for item in items):
        raise Refused("invalid_request", f"items: must be a list of up to {_AT_ONCE} items")
    return items


def _told(items: list[Any], kept: _Conversation) -> list[dict[str, Any]]:
    """Give items as their wire lists them: each with an id of its own, and messages in parts."""
    known = {item.get("id") for item in kept.items}
    told = []
    for item in as_items(items):
        if type(item) is not dict:
            continue
        role, content = item.get("role"), item.get("content")
        if role is not None:
            text = {"type": _TEXTS.get(str(role), "input_text"), "text": content}
            parts = [text] if type(content) is str else content
            item = {"status": "completed", **item, "type": "message", "content": parts}  # noqa: PLW2901
        name = item.get("id")
        if type(name) is not str or name in known:
            name = f"{'msg' if role is not None else 'item'}_{secrets.token_hex(12)}"
        known.add(name)
        told.append({**item, "id": name})
    return told
