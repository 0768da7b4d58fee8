"""The audit trace of the gateway: a row for each call that a model made, and one for each result that a client gave.

Rules of this file:
- A call that was told to a client is a row of the kind `begun`; what the client sends back of it is its row as a call.
  A call that was cut off, or cannot be read, is a row of its own at once: nobody can run it.
- All is read and written in a thread of its own, while the answer goes to the client. Where a store that fails stops
  requests, the end of an answer waits until its rows are committed; if they cannot be, the answer does not end well.
  Else it waits only where many answers wait to be recorded, and no longer than a second.
- What is sensitive is hidden first, and the keys of clients and providers wherever they stand. Nothing else of a
  request or an answer is kept.
- A result that a client repeats, in the next turn or because it asks again, is recorded once.
"""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.client.tracing import plain_content
from toolwire.dialects import dialect
from toolwire.errors import StoreFailed, ToolwireError
from toolwire.gateway.errors import GatewayError
from toolwire.scrubbing import Known, scrub
from toolwire.traces.trace import Trace
from toolwire.types import Message, Part, Request, ToolCall, ToolResult
from toolwire.wire.arguments import input_of

_log = logging.getLogger(__name__)
_BEHIND = 64  # answers that have ended and are not recorded yet
_PATIENCE = 1.0  # seconds that the end of an answer waits for those before it
_RETRY = 5.0  # seconds after which a store that has failed is tried again
_KNOWN = 20_000  # calls whose time is known, and results that were recorded
_write = msgspec.json.Encoder().encode


class AuditedTurn(Struct):
    """A request and its answer, as the client has them."""

    identity: str
    owner: str
    wire: str
    path: str
    body: bytes
    answer: bytes | Sequence[Part]  # a whole answer as it was sent, or what a stream told
    provider: str = ""
    losses: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()  # what the client showed
    at: float = 0.0


class Audit:
    """Records the calls of all requests into a store of traces; `secrets` gives the keys of providers."""

    def __init__(self, store: Any, secrets: Callable[[], Sequence[str]] = tuple, *, stops: bool = False) -> None:
        self.store: Any = store
        self._secrets = secrets
        self.stops: bool = stops
        self._thread = ThreadPoolExecutor(1, "toolwire-audit")
        self._recording: set[asyncio.Task[None]] = set()
        self._next_try = 0.0
        self._made: OrderedDict[tuple[str, int, int], float] = OrderedDict()
        self._told: OrderedDict[bytes, None] = OrderedDict()

    @property
    def failed(self) -> bool:
        """Whether nothing can be recorded, where then nothing is to be asked; the store is tried again now and then."""
        if not self.stops or self.store.failed is None:
            return False
        now = time.monotonic()
        if now >= self._next_try:
            self._next_try = now + _RETRY
            self._thread.submit(_try_again, self.store)
        return True

    async def record(self, turn: AuditedTurn) -> None:
        """Record what was called in a turn, before its answer ends.

        Where a store that fails stops requests, this waits for the commit, and raises `Refused` if there is none.
        """
        task = asyncio.ensure_future(self._commit(turn))
        self._recording.add(task)
        task.add_done_callback(self._done)
        if self.stops:
            try:
                await asyncio.shield(task)
            except (StoreFailed, ToolwireError) as problem:
                raise GatewayError("overloaded", "calls cannot be recorded now", retry_after=_RETRY) from problem
        elif len(self._recording) > _BEHIND:
            await asyncio.wait([task], timeout=_PATIENCE)

    async def _commit(self, turn: AuditedTurn) -> None:
        """Give the rows of a turn to the store, and wait until they are committed."""
        run, marks = asyncio.get_running_loop().run_in_executor, list[bytes]()
        try:
            for ticket in await run(self._thread, self._record, turn, marks):
                await ticket.committed()
        except BaseException:
            await run(self._thread, self._forget, marks)
            raise

    def _forget(self, marks: list[bytes]) -> None:
        """Take results for new again that were not recorded."""
        for mark in marks:
            self._told.pop(mark, None)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._recording.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _log.error("the calls of a request were not recorded: %s", type(problem).__name__)

    def _record(self, turn: AuditedTurn, marks: list[bytes]) -> list[Any]:
        """Give the rows of a turn to the store; return their tickets, and add the marks of results to `marks`."""
        here = dialect(turn.wire)
        try:
            request = here.decode_request(msgspec.json.decode(turn.body), turn.path)
            parts = turn.answer
            if isinstance(parts, bytes):
                parts = here.decode_response(msgspec.json.decode(parts)).message.parts if parts else []
        except (ToolwireError, msgspec.DecodeError, UnicodeError, RecursionError):
            return []
        known = Known([*self._secrets(), *turn.keys])
        conversation = _conversation(turn.owner, request)
        results, calls = (
            self._results(turn, request, conversation, marks),
            self._calls(turn, request, parts, conversation),
        )
        return [self._keep(turn, conversation, known, fields) for fields in (*results, *calls)]

    def _calls(
        self, turn: AuditedTurn, request: Request, parts: Sequence[Part], conversation: str
    ) -> Iterator[dict[str, Any]]:
        """Tell the calls of an answer."""
        iteration = sum(message.role == "assistant" for message in request.messages)
        for place, call in enumerate(part for part in parts if type(part) is ToolCall):
            if call.runs:
                _note(self._made, (conversation, iteration, place), turn.at)
            kind: dict[str, Any] = {"kind": "begun", "ending": "begun"} if call.runs else {"ending": "invalid"}
            yield {
                **_of(call),
                **kind,
                "result": {} if call.runs else {"content": call.error or "cut off"},
                "result_type": "ok" if call.runs else "error",
                "duration_ms": 0.0,
                "iteration": iteration,
                "losses": turn.losses,
                "started_at": datetime.fromtimestamp(turn.at, UTC),
            }

    def _results(
        self, turn: AuditedTurn, request: Request, conversation: str, marks: list[bytes]
    ) -> Iterator[dict[str, Any]]:
        """Tell the results that a request brings for the first time: those after the model's last words."""
        messages = request.messages
        last = max((place for place, one in enumerate(messages) if one.role == "assistant"), default=-1)
        first = last
        while first > 0 and messages[first - 1].role == "assistant":
            first -= 1
        calls = [part for one in messages[max(first, 0) : last + 1] for part in one.parts if type(part) is ToolCall]
        iteration = sum(message.role == "assistant" for message in messages[: max(first, 0)])
        for place, call, result in _paired(calls, messages[last + 1 :]):
            said = plain_content(result.content)
            mark = [turn.owner, conversation, iteration, call.id, call.name, input_of(call), said]
            digest = hashlib.sha256(repr(mark).encode(errors="replace")).digest()
            if digest in self._told:
                continue
            _note(self._told, digest, None)
            marks.append(digest)
            made = self._made.get((conversation, iteration, place), turn.at)
            yield {
                **_of(call),
                "result": said if type(said) is dict else {"content": said},
                "result_type": "error" if result.is_error else "ok",
                "duration_ms": round(max(0.0, turn.at - made) * 1000, 3),
                "iteration": iteration,
                "started_at": datetime.fromtimestamp(made, UTC),
            }

    def _keep(self, turn: AuditedTurn, conversation: str, known: Known, fields: dict[str, Any]) -> Any:
        """Hide what is sensitive, give a row to the store, and return its ticket."""
        provider, _, model = turn.provider.partition("/")
        said = {name: fields[name] for name in ("tool_name", "arguments", "result", "call_id", "repair", "losses")}
        clean = scrub(said, (), known)
        around = {"tenant_id": turn.owner, "conversation_id": conversation, "session": turn.identity}
        where = {"model": model or None, "provider": provider or None, "dialect": turn.wire}
        return self.store.record(Trace.new({**fields, **clean, **around, **where}))

    async def aclose(self) -> None:
        """Write what waits, and close the store."""
        loop = asyncio.get_running_loop()
        if self._recording:
            await asyncio.wait(self._recording)
        await loop.run_in_executor(self._thread, _close, self.store)
        self._thread.shutdown()


def _try_again(store: Any) -> None:
    """Let a store record again that can be read."""
    with contextlib.suppress(StoreFailed, ToolwireError):
        store.traces(limit=1)
        store.resume()


def _close(store: Any) -> None:
    try:
        store.close()
    except StoreFailed as problem:
        _log.warning("the store of traces failed: %s", type(problem).__name__)


def _of(call: ToolCall) -> dict[str, Any]:
    said = input_of(call)
    arguments = said if type(said) is dict else {"content": said}
    return {"tool_name": call.name, "arguments": arguments, "call_id": call.id, "repair": call.error, "losses": ()}


def _paired(calls: Sequence[ToolCall], messages: Sequence[Message]) -> Iterator[tuple[int, ToolCall, ToolResult]]:
    """Pair results with the calls that they answer, and their places: by id, else by name and place."""
    left = dict(enumerate(calls))
    for result in (part for message in messages for part in message.parts if type(part) is ToolResult):
        known = result.tool_call_id
        same = [place for place, call in left.items() if known is not None and call.id == known]
        same = same or [place for place, call in left.items() if call.name == result.name] or [*left]
        if same:
            yield same[0], left.pop(same[0]), result
        else:
            yield -1, ToolCall(known, result.name or ""), result


def _note(kept: "OrderedDict[Any, Any]", key: Any, value: Any) -> None:
    kept[key] = value
    if len(kept) > _KNOWN:
        kept.popitem(last=False)


def _conversation(owner: str, request: Request) -> str:
    """Name a conversation by who leads it and what its user said first."""
    first = next((message.text for message in request.messages if message.role == "user"), "")
    return hashlib.sha256(f"{owner}\0{first}".encode(errors="replace")).hexdigest()[:32]


def visible_keys(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Give what a client showed to say who it is."""
    shown = (headers.get(name, "") for name in ("authorization", "x-api-key", "api-key", "x-goog-api-key"))
    return tuple(key for one in shown if len(key := one.rpartition(" ")[2]) > 3)
