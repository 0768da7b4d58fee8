"""The audit trace of the gateway: a row for each call of a model, and one for each result that a client returned.

Rules of this file:
- A call that the client received is a row of the kind `begun`. The result that the client returns is the call's row. A
  call that was cut off or cannot be read is a row at once, because nobody can run it.
- A thread of its own reads and writes everything while the answer is sent. With `failing = "stop"` the end of an answer
  waits until its rows are committed, and an answer whose rows cannot be committed ends with an error. Otherwise the end
  waits only if many answers wait to be recorded, for at most a second.
- Sensitive values are hidden first, and the keys of clients and providers wherever they occur. Nothing else of a
  request or an answer is stored.
- A result that a client repeats, in the next turn or in a retry, is recorded once.
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
_BEHIND = 64  # answers that may wait to be recorded before the next one is delayed
_PATIENCE = 1.0  # seconds that the end of an answer is delayed at most
_RETRY = 5.0  # seconds after which a store that has failed is tried again
_KNOWN = 20_000  # calls and results that are remembered
_write = msgspec.json.Encoder().encode


class AuditedTurn(Struct):
    """A request and its answer, as the client has them."""

    identity: str
    owner: str
    wire: str
    path: str
    body: bytes
    answer: bytes | Sequence[Part]  # a whole answer as it was sent, or the parts of a stream
    provider: str = ""
    losses: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()  # the credentials that the client sent
    at: float = 0.0


class Audit:
    """Records the calls of all requests in a store of traces. `secrets` returns the keys of the providers.

    With `stops`, no request is served while the store fails.
    """

    def __init__(self, store: Any, secrets: Callable[[], Sequence[str]] = tuple, *, stops: bool = False) -> None:
        self.store: Any = store
        self._secrets = secrets
        self.stops: bool = stops
        self._thread = ThreadPoolExecutor(1, "toolwire-audit")
        self._recording: set[asyncio.Task[None]] = set()
        self._next_try = 0.0
        self._call_times: OrderedDict[tuple[str, int, int], float] = OrderedDict()
        self._recorded_results: OrderedDict[bytes, None] = OrderedDict()

    @property
    def failed(self) -> bool:
        """Return True if requests must be refused because nothing can be recorded.

        The store is tried again now and then.
        """
        if not self.stops or self.store.failed is None:
            return False
        now = time.monotonic()
        if now >= self._next_try:
            self._next_try = now + _RETRY
            self._thread.submit(_try_again, self.store)
        return True

    async def record(self, turn: AuditedTurn) -> None:
        """Record the calls of a turn before its answer ends.

        With `stops`, wait for the commit, and raise `GatewayError` if it fails.
        """
        task = asyncio.ensure_future(self._commit(turn))
        self._recording.add(task)
        task.add_done_callback(self._log_failure)
        if self.stops:
            try:
                await asyncio.shield(task)
            except (StoreFailed, ToolwireError) as problem:
                raise GatewayError("overloaded", "calls cannot be recorded now", retry_after=_RETRY) from problem
        elif len(self._recording) > _BEHIND:
            await asyncio.wait([task], timeout=_PATIENCE)

    async def _commit(self, turn: AuditedTurn) -> None:
        """Pass the rows of a turn to the store, and wait until they are committed."""
        run, digests = asyncio.get_running_loop().run_in_executor, list[bytes]()
        try:
            for ticket in await run(self._thread, self._record, turn, digests):
                await ticket.committed()
        except BaseException:
            await run(self._thread, self._unmark, digests)
            raise

    def _unmark(self, digests: list[bytes]) -> None:
        """Mark results as not recorded, so that a repetition is recorded."""
        for digest in digests:
            self._recorded_results.pop(digest, None)

    def _log_failure(self, task: "asyncio.Task[None]") -> None:
        self._recording.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _log.error("the calls of a request were not recorded: %s", type(problem).__name__)

    def _record(self, turn: AuditedTurn, digests: list[bytes]) -> list[Any]:
        """Pass the rows of a turn to the store. Return their tickets, and add the digests of results to `digests`."""
        wire = dialect(turn.wire)
        try:
            request = wire.decode_request(msgspec.json.decode(turn.body), turn.path)
            parts = turn.answer
            if isinstance(parts, bytes):
                parts = wire.decode_response(msgspec.json.decode(parts)).message.parts if parts else []
        except (ToolwireError, msgspec.DecodeError, UnicodeError, RecursionError):
            return []
        secrets = Known([*self._secrets(), *turn.keys])
        conversation = _conversation(turn.owner, request)
        results, calls = (
            self._result_rows(turn, request, conversation, digests),
            self._call_rows(turn, request, parts, conversation),
        )
        return [self._store_row(turn, conversation, secrets, fields) for fields in (*results, *calls)]

    def _call_rows(
        self, turn: AuditedTurn, request: Request, parts: Sequence[Part], conversation: str
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of an answer's calls."""
        iteration = sum(message.role == "assistant" for message in request.messages)
        for index, call in enumerate(part for part in parts if type(part) is ToolCall):
            if call.runs:
                _remember(self._call_times, (conversation, iteration, index), turn.at)
            state: dict[str, Any] = {"kind": "begun", "ending": "begun"} if call.runs else {"ending": "invalid"}
            yield {
                **_call_fields(call),
                **state,
                "result": {} if call.runs else {"content": call.error or "cut off"},
                "result_type": "ok" if call.runs else "error",
                "duration_ms": 0.0,
                "iteration": iteration,
                "losses": turn.losses,
                "started_at": datetime.fromtimestamp(turn.at, UTC),
            }

    def _result_rows(
        self, turn: AuditedTurn, request: Request, conversation: str, digests: list[bytes]
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of results that are new in this request: those after the model's last message."""
        messages = request.messages
        last = max((index for index, message in enumerate(messages) if message.role == "assistant"), default=-1)
        first = last
        while first > 0 and messages[first - 1].role == "assistant":
            first -= 1
        calls = [
            part for message in messages[max(first, 0) : last + 1] for part in message.parts if type(part) is ToolCall
        ]
        iteration = sum(message.role == "assistant" for message in messages[: max(first, 0)])
        for index, call, result in _paired(calls, messages[last + 1 :]):
            content = plain_content(result.content)
            identity = [turn.owner, conversation, iteration, call.id, call.name, input_of(call), content]
            digest = hashlib.sha256(repr(identity).encode(errors="replace")).digest()
            if digest in self._recorded_results:
                continue
            _remember(self._recorded_results, digest, None)
            digests.append(digest)
            called_at = self._call_times.get((conversation, iteration, index), turn.at)
            yield {
                **_call_fields(call),
                "result": content if type(content) is dict else {"content": content},
                "result_type": "error" if result.is_error else "ok",
                "duration_ms": round(max(0.0, turn.at - called_at) * 1000, 3),
                "iteration": iteration,
                "started_at": datetime.fromtimestamp(called_at, UTC),
            }

    def _store_row(self, turn: AuditedTurn, conversation: str, secrets: Known, fields: dict[str, Any]) -> Any:
        """Hide sensitive values, pass the row to the store, and return its ticket."""
        provider, _, model = turn.provider.partition("/")
        sensitive = {name: fields[name] for name in ("tool_name", "arguments", "result", "call_id", "repair", "losses")}
        clean = scrub(sensitive, (), secrets)
        request_fields = {"tenant_id": turn.owner, "conversation_id": conversation, "session": turn.identity}
        model_fields = {"model": model or None, "provider": provider or None, "dialect": turn.wire}
        return self.store.record(Trace.new({**fields, **clean, **request_fields, **model_fields}))

    async def aclose(self) -> None:
        """Write the waiting rows, and close the store."""
        loop = asyncio.get_running_loop()
        if self._recording:
            await asyncio.wait(self._recording)
        await loop.run_in_executor(self._thread, _close, self.store)
        self._thread.shutdown()


def _try_again(store: Any) -> None:
    """Resume a store that has failed, if it can be read again."""
    with contextlib.suppress(StoreFailed, ToolwireError):
        store.traces(limit=1)
        store.resume()


def _close(store: Any) -> None:
    try:
        store.close()
    except StoreFailed as problem:
        _log.warning("the store of traces failed: %s", type(problem).__name__)


def _call_fields(call: ToolCall) -> dict[str, Any]:
    input_value = input_of(call)
    arguments = input_value if type(input_value) is dict else {"content": input_value}
    return {"tool_name": call.name, "arguments": arguments, "call_id": call.id, "repair": call.error, "losses": ()}


def _paired(calls: Sequence[ToolCall], messages: Sequence[Message]) -> Iterator[tuple[int, ToolCall, ToolResult]]:
    """Yield each result with its call and the index of the call: matched by id, else by name and order."""
    unanswered = dict(enumerate(calls))
    for result in (part for message in messages for part in message.parts if type(part) is ToolResult):
        call_id = result.tool_call_id
        matches = [index for index, call in unanswered.items() if call_id is not None and call.id == call_id]
        matches = matches or [index for index, call in unanswered.items() if call.name == result.name] or [*unanswered]
        if matches:
            yield matches[0], unanswered.pop(matches[0]), result
        else:
            yield -1, ToolCall(call_id, result.name or ""), result


def _remember(remembered: "OrderedDict[Any, Any]", key: Any, value: Any) -> None:
    remembered[key] = value
    if len(remembered) > _KNOWN:
        remembered.popitem(last=False)


def _conversation(owner: str, request: Request) -> str:
    """Return the id of a conversation: a hash of the key's id and the user's first message."""
    first = next((message.text for message in request.messages if message.role == "user"), "")
    return hashlib.sha256(f"{owner}\0{first}".encode(errors="replace")).hexdigest()[:32]


def visible_keys(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the credentials that a client sent."""
    values = (headers.get(name, "") for name in ("authorization", "x-api-key", "api-key", "x-goog-api-key"))
    return tuple(key for value in values if len(key := value.rpartition(" ")[2]) > 3)
