"""Answers of Responses that are kept, so that a client sends only what is new: whoever has made them.

Rules of this file:
- What a provider of Responses holds itself is asked of it; only who holds it is kept here, and what was said where
  others are to go on with it when it is away.
- What another wire's model said is kept whole, in the memory: found by its own key alone, bounded, and expiring.
- It is kept before the client hears its end: whoever goes on at once finds it.
- A summary of ours is an item that its client repeats; it is said in words to every model.

Sources: openai 3.52.0, ResponseCreateParams.store and previous_response_id, CompactedResponse (2026-11-22).
"""

import base64
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from toolwire.dialects import dialect, traits_of
from toolwire.gateway.errors import Refused, error_in, error_of, reply_of
from toolwire.gateway.headers import kind_of
from toolwire.gateway.masking import MaskedStream, ProviderSecrets
from toolwire.gateway.stored_turns import LONGEST_ID, REFERS, StoredItem, StoredTurn, Turns, as_items, reference_in
from toolwire.providers import Provider
from toolwire.providers.addressing import url_of
from toolwire.streams.accumulation import events_of
from toolwire.wire.bodies import read_body
from toolwire.wire.framing import EventStream
from toolwire.wire.transport import HttpRequest, TransportError

_log = logging.getLogger(__name__)
WIRE = "openai-responses"
_RESTS = {"items": "/input_items", "cancel": "/cancel"}
# What a client may ask of who holds an answer (openai 3.54.0, responses.retrieve and input_items.list; 2026-11-22).
_ASKED = frozenset("stream starting_after include_obfuscation include include[] after before limit order".split())
_PAGE, _LONGEST_PAGE = 20, 100
_EVENTS = "text/event-stream; charset=utf-8"
_ID = re.compile(rb'"id"\s*:\s*"(resp_[A-Za-z0-9_-]{1,100})"')
_HEAD_BYTES = 4096
_FIRST_ELSE, _FIRST_ERROR = 300, 400
_LAST = frozenset({b"response.completed", b"response.incomplete"})
_ENDS = (b"event: response.completed\n", b"event: response.incomplete\n")
_OURS = "toolwire-summary:"
_SHORT = "What was said before, in short:\n\n"
_SUMMARISE = (
    "Sum up the conversation so far for somebody who goes on with it and sees nothing else of it: what was asked, what "
    "was decided and why, what was done and found, with exact names, paths and values, and what is still to be done. "
    "Write the summary alone."
)
_read = msgspec.json.decode
_write = msgspec.json.encode


def text_of(member: Any) -> str:
    """Read a member of a body that is a text; anything else is none."""
    try:
        value = _read(member) if member is not None else ""
    except (msgspec.DecodeError, UnicodeError):
        return ""
    return value if isinstance(value, str) else ""


def whole(
    turns: Sequence[StoredTurn], body: bytes, provider: Provider, known: Mapping[str, StoredItem]
) -> bytes | None:
    """Give a request with what it goes on from and its provider does not hold; None if it stays as it is."""
    held = next((at for at, kept in enumerate(turns) if kept.there and kept.maker == provider.name), len(turns))
    missing = turns[:held]
    before = missing[-1].before if missing else ""
    if any(not kept.answer for kept in missing) or (before and held == len(turns)):
        raise Refused.forgotten(WIRE)
    if not missing and _OURS.encode() not in body and REFERS not in body:
        return None
    read = read_body(body)
    items = [item for kept in reversed(missing) for item in kept.items]
    if traits_of(provider.dialect).stores_responses:
        items = [_unnamed(item) for item in items if not _is_bare(item)]
    given = as_items(read.get("input"))
    told = [_said(one) for item in (*items, *given) for one in _recalled(item, known, provider)]
    if not missing and told == given:
        return None
    read["input"] = told
    if missing:
        read.pop("previous_response_id", None)
        read.pop("conversation", None)
    return _write({**read, "previous_response_id": before} if before else read)


def _recalled(item: Any, known: Mapping[str, StoredItem], provider: Provider) -> Iterator[Any]:
    """Give the item that one refers to, where the provider does not hold it."""
    name, own = reference_in(item), traits_of(provider.dialect).stores_responses
    kept = None if name is None else known.get(name)
    if name is None or (own and (kept is None or (kept.there and kept.maker == provider.name))):
        yield item
    elif kept is None:
        message = f"Item with id '{name[:LONGEST_ID]}' not found: it is not kept any more, or was not to be (`store`)."
        raise Refused("not_found", f"{message} Send the item itself.")
    elif not own:
        yield _read(kept.item)
    elif not _is_bare(recalled := _read(kept.item)):
        yield _unnamed(recalled)


def _is_bare(item: Any) -> bool:
    """Whether an item is reasoning that a server would have to hold."""
    return type(item) is dict and item.get("type") == "reasoning" and not item.get("encrypted_content")


def _unnamed(item: Any) -> Any:
    """Give an item without its id: another server knows none of that name."""
    named = type(item) is dict and reference_in(item) is None
    return {key: value for key, value in item.items() if key != "id"} if named else item


def _said(item: Any) -> Any:
    """Give an item; a summary of ours in words."""
    sealed = item.get("encrypted_content") if type(item) is dict and item.get("type") == "compaction" else None
    if type(sealed) is not str or not sealed.startswith(_OURS):
        return item
    try:
        text = base64.urlsafe_b64decode(sealed.removeprefix(_OURS)).decode()
    except ValueError:
        raise Refused("invalid_request", "input: a compaction item of ours has been changed") from None
    return {"type": "message", "role": "user", "content": _SHORT + text}


class Keeper:
    """Keeps one answer while it goes to the client."""

    def __init__(self, place: Turns, members: Mapping[str, Any], maker: str, *, passes: bool, client: Any) -> None:
        self._place, self._members, self._maker, self._passes = place, members, maker, passes
        self.adds: Callable[[list[Any]], Awaitable[None]] | None = None  # to a conversation
        self.continues: tuple[str, str] = "", ""  # that conversation, and its last item before this turn
        self.others: bool = False  # who may go on with what its provider holds
        self._noted_as = ""  # the name under which the answer is stored already
        self._frames = EventStream()
        self._client = client
        self._begins: tuple[int, dict[str, str]] | None = None
        self._head: bytes | None = b""
        self._streams = bytes(members.get("stream") or b"") == b"true"

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        """Begin an answer; one in one piece begins when it is stored, so that an error can still be told."""
        if self._streams:
            await self._client.begin(status, headers)
        else:
            self._begins = status, headers

    async def send(self, data: bytes, more: bool) -> None:
        """Hand on what is said; its end is kept first."""
        if self.adds is not None or self.others:
            await self._keep_said(data)
        if self._head is not None and is_kept(self._members):
            name, kept = self._noted(data) if self._passes else self._heard(data)
            if kept is not None:
                self._head = None
                if self.continues[1] and kept.answer:
                    kept = replace(kept, before=self.continues[0], last=self.continues[1])
                await self._store(name, kept)
        if self._begins is not None:
            begins, self._begins = self._begins, None
            await self._client.begin(*begins)
        await self._client.send(data, more)

    async def _store(self, name: str, kept: StoredTurn) -> bool:
        """Store an answer. It goes to the client also if it cannot be stored."""
        try:
            is_stored = await self._place.keep(name, kept, again=name == self._noted_as)
        except Refused as refused:
            _log.warning("the answer %s is not stored: %s", name, refused)
            return False
        self._noted_as = name
        return is_stored

    async def _keep_said(self, data: bytes) -> None:
        """Keep what was said, in its conversation, or for others than the provider that holds it."""
        answers = [data]
        if self._streams:
            answers = [event_answer(event) for kind, event in self._frames.feed(data) if kind in _LAST]
        for answer in answers:
            name, kept = kept_of(self._members, answer, self._maker)
            if kept is not None and self.adds is not None:
                await self.adds(kept.items)
            elif kept is not None and await self._store(name, replace(kept, there=True)):
                self._head = None

    def _noted(self, data: bytes) -> tuple[str, StoredTurn | None]:
        """Note who holds an answer."""
        self._head = (self._head or b"") + data[:_HEAD_BYTES]
        found = _ID.search(self._head)
        if found is None:
            self._head = self._head if len(self._head) < _HEAD_BYTES else None
            return "", None
        return found[1].decode(), StoredTurn(self._maker, there=True)

    def _heard(self, data: bytes) -> tuple[str, StoredTurn | None]:
        """Read an answer, or its last event."""
        if not self._streams:
            return kept_of(self._members, data, self._maker)
        frame = next((frame for frame in reversed(data.split(b"\n\n")) if frame.startswith(_ENDS)), None)
        if frame is None:
            return "", None
        return kept_of(self._members, event_answer(frame.partition(b"\ndata: ")[2]), self._maker)


def event_answer(event: bytes) -> bytes:
    """Give the answer that the last event of a stream repeats; nothing where it cannot be read."""
    try:
        return bytes(_read(event, type=dict[str, Raw]).get("response", b""))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return b""


def kept_of(members: Mapping[str, Any], answer: bytes, maker: str) -> tuple[str, StoredTurn | None]:
    """Give the name of an answer, and what is to be kept; nothing of one that failed."""
    try:
        read = _read(answer)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return "", None
    name = read.get("id") if type(read) is dict else None
    if type(name) is not str or read.get("status") not in ("completed", "incomplete"):
        return "", None
    before = text_of(members.get("previous_response_id"))
    return name, StoredTurn(maker, False, before, Raw(bytes(members.get("input") or b"null")), Raw(answer))


def is_kept(members: Mapping[str, Any]) -> bool:
    """Whether a client wants its answer to be kept: it is, unless it says otherwise."""
    return bytes(members.get("store") or b"") != b"false"


def _asked_items(kept: StoredTurn) -> list[dict[str, Any]]:
    """Give what was asked in a turn, each item with an id."""
    items = enumerate(as_items(_read(kept.asked)))
    return [{"id": f"item_{at}", **item} for at, item in items if type(item) is dict]


def page(items: list[dict[str, Any]], query: str) -> dict[str, Any]:
    """List some of the items: the newest first, unless the client says otherwise."""
    asked = parse_qs(query)
    limit, order, after = (asked.get(name, [""])[-1] for name in ("limit", "order", "after"))
    if order not in ("", "asc", "desc"):
        raise Refused("invalid_request", "order: must be asc or desc")
    most = int(limit) if limit.isascii() and limit.isdigit() and len(limit) < 4 else 0
    if limit and not 1 <= most <= _LONGEST_PAGE:
        raise Refused("invalid_request", f"limit: must be 1 to {_LONGEST_PAGE}")
    listed = items if order == "asc" else items[::-1]
    names = [item["id"] for item in listed]
    if after and after not in names:
        raise Refused("not_found", f"Item with id '{after[:80]}' not found.")
    start, most = names.index(after) + 1 if after else 0, most or _PAGE
    return as_list(listed[start : start + most], more=len(listed) > start + most)


def as_list(items: list[dict[str, Any]], *, more: bool) -> dict[str, Any]:
    """Give items as a list of their wire."""
    ends = {name: items[at]["id"] if items else None for name, at in (("first_id", 0), ("last_id", -1))}
    return {"object": "list", "data": items, "has_more": more, **ends}


def to_sum_up(body: bytes) -> bytes:
    """Give the request that asks a model for a summary of a conversation."""
    read = _read(body)
    known = {name: read[name] for name in ("model", "instructions", "previous_response_id") if read.get(name)}
    asked = {"type": "message", "role": "user", "content": _SUMMARISE}
    return _write({**known, "input": [*as_items(read.get("input")), asked], "store": False})


def summed_up(body: bytes, answer: bytes, identity: str, secrets: ProviderSecrets) -> bytes:
    """Write a compacted conversation: what the user said, and a summary as an item of ours, without `secrets`."""
    read = _read(answer)
    said = [part for item in as_items(read.get("output")) for part in item.get("content") or () if type(part) is dict]
    text = secrets.mask_text("".join(part.get("text") or "" for part in said if part.get("type") == "output_text"))
    if not text:
        raise Refused("server", "the model gave no summary")
    sealed = _OURS + base64.urlsafe_b64encode(text.encode()).decode()
    name = identity.removeprefix("tw_")
    users = [_of_user(item, f"msg_{name}{at}") for at, item in enumerate(as_items(_read(body).get("input")))]
    output = [item for item in users if item is not None]
    output.append({"type": "compaction", "id": f"cmp_{name}", "encrypted_content": sealed})
    told = {"id": f"resp_{name}", "object": "response.compaction", "created_at": int(time.time()), "output": output}
    return _write({**told, "usage": read.get("usage")})


def _of_user(item: Any, name: str) -> dict[str, Any] | None:
    """Give a message of the user as an item of an answer."""
    if type(item) is not dict or item.get("role") != "user" or item.get("type", "message") != "message":
        return None
    content = item.get("content")
    parts = [{"type": "input_text", "text": content}] if type(content) is str else content
    return {"id": name, "status": "completed", **item, "type": "message", "content": parts}


async def fetch(tools: Any, place: Turns, asked: Any, method: str, query: str, client: Any) -> None:
    """Show, forget or cancel a stored answer, here or where it is."""
    kept = await place.find(asked.subject)
    if kept is None or (kept.there and kept.maker not in tools.routes.providers):
        raise Refused("not_found", f"Response with id '{asked.subject}' not found.")
    if kept.there:
        await _fetch_there(tools, place, tools.routes.providers[kept.maker], asked, method, query, client)
        return
    if asked.action == "cancel":
        raise Refused("invalid_request", "Only an answer that was asked for in the background can be cancelled.")
    kind, body = "application/json", bytes(kept.answer)
    if method == "DELETE":
        if not await place.forget(asked.subject):  # somebody else was faster
            raise Refused("not_found", f"Response with id '{asked.subject}' not found.")
        body = _write({"id": asked.subject, "object": "response", "deleted": True})
    elif asked.action == "items":
        body = _write(page(_asked_items(kept), query))
    elif "stream=true" in query.split("&"):
        kind, body = _EVENTS, _told_again(_read(body), parse_qs(query).get("starting_after", [""])[-1])
    await client.begin(200, {"content-type": kind, "content-length": str(len(body))})
    await client.send(body, False)


def _told_again(answer: dict[str, Any], after: str) -> bytes:
    """Tell an answer as a stream: what follows an event that the client has seen, and its end in any case."""
    wire = dialect(WIRE)
    encoder = wire.encode_stream()
    told = b"".join(map(encoder.feed, events_of(wire.decode_response(answer)))) + encoder.close()
    events = told.removesuffix(b"\n\n").split(b"\n\n")
    seen = int(after) + 1 if after.isascii() and after.isdigit() and len(after) < 10 else 0
    return b"\n\n".join(events[min(seen, len(events) - 1) :]) + b"\n\n"


async def _fetch_there(
    tools: Any, place: Turns, provider: Provider, asked: Any, method: str, query: str, client: Any
) -> None:
    """Have the provider show, forget or cancel what it holds; what it says is handed on."""
    path = f"/v1/responses/{asked.subject}{_RESTS.get(asked.action, '')}"
    said = urlencode([pair for pair in parse_qsl(query) if pair[0] in _ASKED and len(pair[1]) <= LONGEST_ID])
    url, secrets = url_of(provider, f"{path}?{said}" if said else path), tools.secrets_of(provider)
    try:
        answer = await tools.transport.asend(
            HttpRequest(method, url, tools.routes.headers(provider), b""), tools.timeouts
        )
    except TransportError as problem:
        raise Refused("server", f"{provider.name} could not be reached: {problem.kind}") from problem
    try:
        if method == "DELETE" and answer.status < _FIRST_ELSE:
            await place.forget(asked.subject)
        if answer.status < _FIRST_ELSE:
            kind, masking = kind_of(answer.headers, "application/json", secrets), MaskedStream(secrets)
            await client.begin(answer.status, {"content-type": kind})
            while piece := await answer.aread():
                await client.send(masking.feed(piece), True)
            await client.send(masking.close(), False)
            return
        status, body, read = await error_in(answer, secrets)
    except TransportError as problem:
        raise Refused("server", f"{provider.name} broke off its answer: {problem.kind}") from problem
    finally:
        await answer.aclose()
    if isinstance(read, str) or answer.status < _FIRST_ERROR:
        body = secrets.mask_error(reply_of(error_of(provider, answer, read, secrets), WIRE).json)
    await client.begin(status, {"content-type": "application/json", "content-length": str(len(body))})
    await client.send(body, False)
