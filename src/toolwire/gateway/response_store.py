"""Stored responses: a client of Responses sends only what is new, whichever provider made the earlier answers.

Rules of this file:
- If a provider stores a response itself, the gateway stores only the provider's name, and asks that provider for the
  response. On a route with several providers the gateway also stores the content, so that another provider can continue
  it.
- The answer of another wire's model is stored whole, in the memory: only its own key finds it, its size is limited, and
  it expires.
- The gateway stores an answer before it sends the end of the answer, so that a client can continue it at once.
- A summary that the gateway made is an item that the client sends back. The gateway sends it to every model as text.

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
from toolwire.gateway.errors import GatewayError, error_in, error_of, reply_of
from toolwire.gateway.headers import content_type_of
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
_SUBPATHS = {"items": "/input_items", "cancel": "/cancel"}
# The query parameters that the gateway forwards to the provider that stores a response
# (openai 3.54.0, responses.retrieve and input_items.list; 2026-11-22).
_FORWARDED_PARAMETERS = frozenset(
    "stream starting_after include_obfuscation include include[] after before limit order".split()
)
_PAGE, _LONGEST_PAGE = 20, 100
_EVENTS = "text/event-stream; charset=utf-8"
_ID = re.compile(rb'"id"\s*:\s*"(resp_[A-Za-z0-9_-]{1,100})"')
_HEAD_BYTES = 4096
_FIRST_REDIRECT, _FIRST_ERROR = 300, 400
_FINAL_EVENTS = frozenset({b"response.completed", b"response.incomplete"})
_FINAL_FRAMES = (b"event: response.completed\n", b"event: response.incomplete\n")
_SUMMARY_PREFIX = "toolwire-summary:"
_SUMMARY_INTRODUCTION = "What was said before, in short:\n\n"
_SUMMARISE = (
    "Sum up the conversation so far for somebody who goes on with it and sees nothing else of it: what was asked, what "
    "was decided and why, what was done and found, with exact names, paths and values, and what is still to be done. "
    "Write the summary alone."
)
_read = msgspec.json.decode
_write = msgspec.json.encode


def text_of(member: Any) -> str:
    """Return the text of a raw JSON member. Return an empty text if it is missing or is no text."""
    try:
        value = _read(member) if member is not None else ""
    except (msgspec.DecodeError, UnicodeError):
        return ""
    return value if isinstance(value, str) else ""


def inline_history(
    turns: Sequence[StoredTurn], body: bytes, provider: Provider, known: Mapping[str, StoredItem]
) -> bytes | None:
    """Return `body` with the history that its provider has not stored. Return None if the body needs no change.

    `turns` are the turns that the request continues, the latest first. `known` has the stored items by id. Raises
    `GatewayError` if a part of the history is nowhere stored.
    """
    first_stored = next(
        (index for index, turn in enumerate(turns) if turn.there and turn.maker == provider.name), len(turns)
    )
    missing = turns[:first_stored]
    stored_before = missing[-1].before if missing else ""
    if any(not turn.answer for turn in missing) or (stored_before and first_stored == len(turns)):
        raise GatewayError.unknown_response(WIRE)
    if not missing and _SUMMARY_PREFIX.encode() not in body and REFERS not in body:
        return None
    parsed = read_body(body)
    items = [item for turn in reversed(missing) for item in turn.items]
    if traits_of(provider.dialect).stores_responses:
        items = [_without_id(item) for item in items if not _is_bare(item)]
    new_input = as_items(parsed.get("input"))
    full_input = [
        _summary_as_text(resolved)
        for item in (*items, *new_input)
        for resolved in _resolve_reference(item, known, provider)
    ]
    if not missing and full_input == new_input:
        return None
    parsed["input"] = full_input
    if missing:
        parsed.pop("previous_response_id", None)
        parsed.pop("conversation", None)
    return _write({**parsed, "previous_response_id": stored_before} if stored_before else parsed)


def _resolve_reference(item: Any, known: Mapping[str, StoredItem], provider: Provider) -> Iterator[Any]:
    """Yield `item`, or the stored item that it refers to if `provider` has not stored it.

    A stored item that has nothing but an id is left out. Raise `GatewayError` if an item that is needed is not stored.
    """
    name, provider_stores = reference_in(item), traits_of(provider.dialect).stores_responses
    stored = None if name is None else known.get(name)
    if name is None or (provider_stores and (stored is None or (stored.there and stored.maker == provider.name))):
        yield item
    elif stored is None:
        message = (
            f"Item with id '{name[:LONGEST_ID]}' not found: it has expired, was deleted, or was not stored (`store`)."
        )
        raise GatewayError("not_found", f"{message} Send the item itself.")
    elif not provider_stores:
        yield _read(stored.item)
    elif not _is_bare(stored_item := _read(stored.item)):
        yield _without_id(stored_item)


def _is_bare(item: Any) -> bool:
    """Return True if `item` is reasoning without its content, which only the server that stored it can read."""
    return type(item) is dict and item.get("type") == "reasoning" and not item.get("encrypted_content")


def _without_id(item: Any) -> Any:
    """Return `item` without its id, which another server does not know."""
    has_own_id = type(item) is dict and reference_in(item) is None
    return {key: value for key, value in item.items() if key != "id"} if has_own_id else item


def _summary_as_text(item: Any) -> Any:
    """Return `item`. A summary that the gateway made is returned as a message of the user."""
    encoded = item.get("encrypted_content") if type(item) is dict and item.get("type") == "compaction" else None
    if type(encoded) is not str or not encoded.startswith(_SUMMARY_PREFIX):
        return item
    try:
        text = base64.urlsafe_b64decode(encoded.removeprefix(_SUMMARY_PREFIX)).decode()
    except ValueError:
        raise GatewayError(
            "invalid_request", "input: a compaction item has been changed; send it as it was received"
        ) from None
    return {"type": "message", "role": "user", "content": _SUMMARY_INTRODUCTION + text}


class ResponseRecorder:
    """Stores one answer while the gateway sends it to the client.

    `stored_turns` is where to store it, `members` are those of the request. With `passes`, the answer goes through
    unchanged from a provider that stores it itself.
    """

    def __init__(
        self, stored_turns: Turns, members: Mapping[str, Any], provider_name: str, *, passes: bool, client: Any
    ) -> None:
        self._stored_turns, self._members = stored_turns, members
        self._provider_name, self._passes = provider_name, passes
        self.add_to_conversation: Callable[[list[Any]], Awaitable[None]] | None = None
        self.continued_conversation: tuple[str, str] = "", ""  # the conversation, and its last item before this turn
        self.stores_content: bool = False  # True if another provider may have to continue the answer
        self._stored_name = ""  # the id under which the answer is already stored
        self._frames = EventStream()
        self._client = client
        self._pending_head: tuple[int, dict[str, str]] | None = None
        self._head: bytes | None = b""
        self._streams = bytes(members.get("stream") or b"") == b"true"

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        """Send the head of a stream. The head of an answer in one piece waits until the answer is stored.

        So the client can still get an error if the answer cannot be added to its conversation.
        """
        if self._streams:
            await self._client.begin(status, headers)
        else:
            self._pending_head = status, headers

    async def send(self, data: bytes, more: bool) -> None:
        """Send `data`. If it is the end of an answer, store the answer first."""
        if self.add_to_conversation is not None or self.stores_content:
            await self._store_content(data)
        if self._head is not None and should_store(self._members):
            name, turn = self._note_stored_by_provider(data) if self._passes else self._read_answer(data)
            if turn is not None:
                self._head = None
                if self.continued_conversation[1] and turn.answer:
                    turn = replace(turn, before=self.continued_conversation[0], last=self.continued_conversation[1])
                await self._store(name, turn)
        if self._pending_head is not None:
            head, self._pending_head = self._pending_head, None
            await self._client.begin(*head)
        await self._client.send(data, more)

    async def _store(self, name: str, turn: StoredTurn) -> bool:
        """Store a turn. Return False if it cannot be stored; the answer is sent to the client all the same."""
        try:
            is_stored = await self._stored_turns.keep(name, turn, again=name == self._stored_name)
        except GatewayError as problem:
            _log.warning("the answer %s is not stored: %s", name, problem)
            return False
        self._stored_name = name
        return is_stored

    async def _store_content(self, data: bytes) -> None:
        """Store the content of an answer: in its conversation, or for another provider than the one that stores it."""
        answers = [data]
        if self._streams:
            answers = [event_answer(event) for kind, event in self._frames.feed(data) if kind in _FINAL_EVENTS]
        for answer in answers:
            name, turn = turn_of_answer(self._members, answer, self._provider_name)
            if turn is not None and self.add_to_conversation is not None:
                await self.add_to_conversation(turn.items)
            elif turn is not None and await self._store(name, replace(turn, there=True)):
                self._head = None

    def _note_stored_by_provider(self, data: bytes) -> tuple[str, StoredTurn | None]:
        """Return the id of an answer, and a turn that names only the provider that stores it."""
        self._head = (self._head or b"") + data[:_HEAD_BYTES]
        match = _ID.search(self._head)
        if match is None:
            self._head = self._head if len(self._head) < _HEAD_BYTES else None
            return "", None
        return match[1].decode(), StoredTurn(self._provider_name, there=True)

    def _read_answer(self, data: bytes) -> tuple[str, StoredTurn | None]:
        """Return the id and the turn of a whole answer, or of the last event of a stream."""
        if not self._streams:
            return turn_of_answer(self._members, data, self._provider_name)
        frame = next((frame for frame in reversed(data.split(b"\n\n")) if frame.startswith(_FINAL_FRAMES)), None)
        if frame is None:
            return "", None
        return turn_of_answer(self._members, event_answer(frame.partition(b"\ndata: ")[2]), self._provider_name)


def event_answer(event: bytes) -> bytes:
    """Return the response that the last event of a stream contains. Return an empty text if it cannot be read."""
    try:
        return bytes(_read(event, type=dict[str, Raw]).get("response", b""))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return b""


def turn_of_answer(members: Mapping[str, Any], answer: bytes, provider_name: str) -> tuple[str, StoredTurn | None]:
    """Return the id and the turn of a completed answer. The turn is None if the answer failed or cannot be read."""
    try:
        parsed = _read(answer)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return "", None
    name = parsed.get("id") if type(parsed) is dict else None
    if type(name) is not str or parsed.get("status") not in ("completed", "incomplete"):
        return "", None
    previous = text_of(members.get("previous_response_id"))
    return name, StoredTurn(provider_name, False, previous, Raw(bytes(members.get("input") or b"null")), Raw(answer))


def should_store(members: Mapping[str, Any]) -> bool:
    """Return True if the client wants its answer stored. It does, unless it sends `store: false`."""
    return bytes(members.get("store") or b"") != b"false"


def _input_items(turn: StoredTurn) -> list[dict[str, Any]]:
    """Return the input items of a turn, each with an id."""
    items = enumerate(as_items(_read(turn.asked)))
    return [{"id": f"item_{index}", **item} for index, item in items if type(item) is dict]


def page(items: list[dict[str, Any]], query: str) -> dict[str, Any]:
    """Return one page of `items`, the newest first, as the parameters in `query` request.

    Raises `GatewayError` for a wrong parameter, or if the item of `after` is missing.
    """
    parameters = parse_qs(query)
    limit, order, after = (parameters.get(name, [""])[-1] for name in ("limit", "order", "after"))
    if order not in ("", "asc", "desc"):
        raise GatewayError("invalid_request", "order: must be asc or desc")
    page_size = int(limit) if limit.isascii() and limit.isdigit() and len(limit) < 4 else 0
    if limit and not 1 <= page_size <= _LONGEST_PAGE:
        raise GatewayError("invalid_request", f"limit: must be 1 to {_LONGEST_PAGE}")
    listed = items if order == "asc" else items[::-1]
    names = [item["id"] for item in listed]
    if after and after not in names:
        raise GatewayError("not_found", f"Item with id '{after[:80]}' not found.")
    start, page_size = names.index(after) + 1 if after else 0, page_size or _PAGE
    return as_list(listed[start : start + page_size], more=len(listed) > start + page_size)


def as_list(items: list[dict[str, Any]], *, more: bool) -> dict[str, Any]:
    """Return items as a list object of the wire."""
    first_and_last = {name: items[index]["id"] if items else None for name, index in (("first_id", 0), ("last_id", -1))}
    return {"object": "list", "data": items, "has_more": more, **first_and_last}


def summary_request(body: bytes) -> bytes:
    """Return the request that asks a model to sum up the conversation of `body`."""
    parsed = _read(body)
    copied = {name: parsed[name] for name in ("model", "instructions", "previous_response_id") if parsed.get(name)}
    instruction = {"type": "message", "role": "user", "content": _SUMMARISE}
    return _write({**copied, "input": [*as_items(parsed.get("input")), instruction], "store": False})


def compacted_response(body: bytes, answer: bytes, identity: str, secrets: ProviderSecrets) -> bytes:
    """Return the compacted conversation: the user's messages, and the model's summary as an item, without `secrets`.

    Raises `GatewayError` if the model wrote no summary.
    """
    parsed = _read(answer)
    parts = [
        part for item in as_items(parsed.get("output")) for part in item.get("content") or () if type(part) is dict
    ]
    text = secrets.mask_text("".join(part.get("text") or "" for part in parts if part.get("type") == "output_text"))
    if not text:
        raise GatewayError("server", "the model wrote no summary")
    encoded = _SUMMARY_PREFIX + base64.urlsafe_b64encode(text.encode()).decode()
    suffix = identity.removeprefix("tw_")
    users = [
        _as_output_message(item, f"msg_{suffix}{index}")
        for index, item in enumerate(as_items(_read(body).get("input")))
    ]
    output = [item for item in users if item is not None]
    output.append({"type": "compaction", "id": f"cmp_{suffix}", "encrypted_content": encoded})
    response = {
        "id": f"resp_{suffix}",
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": output,
    }
    return _write({**response, "usage": parsed.get("usage")})


def _as_output_message(item: Any, name: str) -> dict[str, Any] | None:
    """Return a message of the user as an item of an answer. Return None for any other item."""
    if type(item) is not dict or item.get("role") != "user" or item.get("type", "message") != "message":
        return None
    content = item.get("content")
    parts = [{"type": "input_text", "text": content}] if type(content) is str else content
    return {"id": name, "status": "completed", **item, "type": "message", "content": parts}


async def fetch(context: Any, stored_turns: Turns, endpoint: Any, method: str, query: str, client: Any) -> None:
    """Show, delete or cancel a stored response: in the gateway, or at the provider that stores it.

    `endpoint` says which response, and what to do with it. Raises `GatewayError` if the response is not stored.
    """
    turn = await stored_turns.find(endpoint.subject)
    if turn is None or (turn.there and turn.maker not in context.routes.providers):
        raise GatewayError("not_found", f"Response with id '{endpoint.subject}' not found.")
    if turn.there:
        await _fetch_from_provider(
            context, stored_turns, context.routes.providers[turn.maker], endpoint, method, query, client
        )
        return
    if endpoint.action == "cancel":
        raise GatewayError("invalid_request", "Only a response with background=true can be cancelled.")
    content_type, body = "application/json", bytes(turn.answer)
    if method == "DELETE":
        if not await stored_turns.forget(endpoint.subject):  # another request has deleted it meanwhile
            raise GatewayError("not_found", f"Response with id '{endpoint.subject}' not found.")
        body = _write({"id": endpoint.subject, "object": "response", "deleted": True})
    elif endpoint.action == "items":
        body = _write(page(_input_items(turn), query))
    elif "stream=true" in query.split("&"):
        content_type, body = _EVENTS, _stream_of(_read(body), parse_qs(query).get("starting_after", [""])[-1])
    await client.begin(200, {"content-type": content_type, "content-length": str(len(body))})
    await client.send(body, False)


def _stream_of(answer: dict[str, Any], seen_event: str) -> bytes:
    """Return `answer` as a stream: the events after the one that the client has seen, and always the last one."""
    wire = dialect(WIRE)
    encoder = wire.encode_stream()
    stream = b"".join(map(encoder.feed, events_of(wire.decode_response(answer)))) + encoder.close()
    events = stream.removesuffix(b"\n\n").split(b"\n\n")
    skipped = int(seen_event) + 1 if seen_event.isascii() and seen_event.isdigit() and len(seen_event) < 10 else 0
    return b"\n\n".join(events[min(skipped, len(events) - 1) :]) + b"\n\n"


async def _fetch_from_provider(
    context: Any, stored_turns: Turns, provider: Provider, endpoint: Any, method: str, query: str, client: Any
) -> None:
    """Forward the request to `provider`, which stores the response, and send its answer to the client."""
    path = f"/v1/responses/{endpoint.subject}{_SUBPATHS.get(endpoint.action, '')}"
    parameters = urlencode(
        [pair for pair in parse_qsl(query) if pair[0] in _FORWARDED_PARAMETERS and len(pair[1]) <= LONGEST_ID]
    )
    url, secrets = url_of(provider, f"{path}?{parameters}" if parameters else path), context.secrets_of(provider)
    try:
        answer = await context.transport.asend(
            HttpRequest(method, url, context.routes.headers(provider), b""), context.timeouts
        )
    except TransportError as problem:
        raise GatewayError("server", f"{provider.name} could not be reached: {problem.kind}") from problem
    try:
        if method == "DELETE" and answer.status < _FIRST_REDIRECT:
            await stored_turns.forget(endpoint.subject)
        if answer.status < _FIRST_REDIRECT:
            content_type, masking = content_type_of(answer.headers, "application/json", secrets), MaskedStream(secrets)
            await client.begin(answer.status, {"content-type": content_type})
            while data := await answer.aread():
                await client.send(masking.feed(data), True)
            await client.send(masking.close(), False)
            return
        status, body, parsed = await error_in(answer, secrets)
    except TransportError as problem:
        raise GatewayError("server", f"{provider.name} broke off its answer: {problem.kind}") from problem
    finally:
        await answer.aclose()
    if isinstance(parsed, str) or answer.status < _FIRST_ERROR:
        body = secrets.mask_error(reply_of(error_of(provider, answer, parsed, secrets), WIRE).json)
    await client.begin(status, {"content-type": "application/json", "content-length": str(len(body))})
    await client.send(body, False)
