"""Traces of a conversation's calls: one trace for each call, whatever its outcome.

Rules of this file:
- A call is recorded when its result is in the history, so that both agree.
- Sensitive values are hidden before anything leaves this file; the tool itself received the original. A value that was
  hidden once is hidden wherever it reappears, also in other calls of the turn.
- In a durable run, the id of a trace is the key of its call, so that a resumed run does not record it twice.
- If a store that must be reliable cannot be written to, the run fails before the next tool runs.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.client.exchange import ExchangeState, ProviderConnection
from toolwire.loop import AskModel, Done, LoopStep
from toolwire.resolvers import RunSecrets
from toolwire.scrubbing import Known, scrub, secrets_of
from toolwire.traces.trace import Scope, Trace
from toolwire.types import Message, ToolCall, ToolResult
from toolwire.types.frozen import copy_json
from toolwire.waiting.results import CallEnding, Ran
from toolwire.waiting.steps import Ask, Work
from toolwire.wire.arguments import input_of


class _CallingAnswer(Struct, frozen=True):
    """The exchange whose answer made the calls."""

    turn: int = 0
    model: str | None = None
    losses: tuple[str, ...] = ()
    request_digest: str | None = None
    response_digest: str | None = None


class _TracedCall(Struct, frozen=True):
    """A call's values for its trace, and the names of its sensitive fields."""

    value: dict[str, Any]
    fields: Sequence[str]


class Recording:
    """Records the calls of one conversation in a store. Calls of the tool `unrun` are not recorded."""

    def __init__(self, scope: Scope, upstream: ProviderConnection, resolve: Any, unrun: str | None = None) -> None:
        self._scope = scope
        self._upstream = upstream
        self._secrecy = RunSecrets(resolve, [upstream.provider.key])
        self._known: Known | None = None
        self._unrun = unrun
        self._ran: dict[int, Ran] = {}
        self._recorded_messages = 0
        self._answer = _CallingAnswer()
        self._keys: dict[int, str] = {}
        self._is_resumed = False

    @property
    def files(self) -> Sequence[Any]:
        """The files of the store, which no tool may touch."""
        return getattr(self._scope.store, "files", ())

    def add_records(self, records: Iterable[Ran]) -> None:
        """Store the records of calls until their results are in the history."""
        self._ran.update((id(ran.call), ran) for ran in records)

    def new_digest(self) -> Any:
        """Return a new digest for the bytes of an answer."""
        return hashlib.sha256()

    def note_exchange(self, step: AskModel, state: ExchangeState) -> None:
        """Note the exchange whose answer may contain calls."""
        self._answer = _CallingAnswer(
            step.turn,
            step.request.model,
            tuple(str(loss) for loss in state.losses if loss.severity != "formal"),
            hashlib.sha256(state.body).hexdigest() if state.body is not None else None,
            state.digest.hexdigest() if state.digest is not None else None,
        )

    def set_key(self, call: ToolCall, key: str, *, is_resumed: bool) -> None:
        """Set the `key` of a call's trace. With `again`, the run was resumed, and the trace may exist already."""
        self._keys[id(call)], self._is_resumed = key, is_resumed

    def record_start(self, call: ToolCall, times: int) -> None:
        """Record durably that a call is about to start; it may have started `times` times before."""
        snapshot = self.snapshot(call, ToolResult(call.id, call.name, ""))
        ran = Ran(call, ToolResult(call.id, call.name, ""), "ok", time.time(), 0.0)
        trace_builder = self._build_trace([snapshot], 0, ran, self._answer, is_error=False)
        number = f"{self._keys[id(call)]}-{times + 1}"
        self._scope.store.record(replace(trace_builder, id=number, kind="begun", ending="begun", result={}))
        self._scope.store.flush()

    def check(self) -> None:
        """Raise the store's error, if there is one, before a tool runs."""
        self._scope.check()

    def record_steps(self, step: LoopStep, before: int) -> Work[None]:
        """Record the calls that have results now. At the end, wait until all of them are durable."""
        store, fresh = self._scope.store, _messages_of(step, before)[self._recorded_messages :]
        self._recorded_messages += len(fresh)
        if isinstance(step, AskModel) and step.turn == 0:
            self._secrecy.observe(step)
        pairs = [pair for pair in _pair_calls(fresh) if pair[0].name != self._unrun]
        turn = [self.snapshot(*pair) for pair in pairs]
        for index, pair in enumerate(pairs):
            key = self._keys.get(id(pair[0]))
            if self._is_resumed and key is not None and (yield Ask(store.get, (key,))) is not None:
                continue
            yield Ask(store.record, (self.trace_builder(*pair, turn, index),), awaited=store.arecord)
        if isinstance(step, Done):
            yield Ask(store.flush, awaited=store.aflush)

    def snapshot(self, call: ToolCall, result: ToolResult) -> _TracedCall:
        """Return a copy of a call's and its result's values, as they are now."""
        value = {
            "arguments": copy_json(input_of(call)),
            "result": plain_content(result.content),
            "repair": call.error,
        }
        return _TracedCall(value, self._secrecy.fields_of(call.name))

    def trace_builder(
        self, call: ToolCall, result: ToolResult, turn: Sequence[_TracedCall] = (), index: int = 0
    ) -> Callable[[], Trace]:
        """Return a function that builds the trace of a call.

        The store's thread calls it, so that the run need not wait.
        """
        turn = turn or [self.snapshot(call, result)]
        ran = self._ran.pop(id(call), None) or Ran(call, result, _ending_without_run(call), None, 0.0)
        return partial(self._build_trace, turn, index, ran, self._answer, is_error=result.is_error)

    def _build_trace(
        self, turn: Sequence[_TracedCall], index: int, ran: Ran, answer: _CallingAnswer, *, is_error: bool
    ) -> Trace:
        """Build a trace, with sensitive values hidden."""
        known = self._secrets_of_turn(turn if index == 0 else ())
        snapshot = scrub(turn[index].value, turn[index].fields, known)
        labels = (ran.call.name, ran.call.id, answer.model, self._scope.session, answer.losses)
        name, call_id, model, session, losses = scrub(labels, (), known)
        return self._scope.trace(
            ran.started,
            session=session,
            **({"id": self._keys[id(ran.call)]} if id(ran.call) in self._keys else {}),
            tool_name=name,
            arguments=_as_map(snapshot["arguments"]),
            result=_as_map(snapshot["result"]),
            result_type="error" if is_error else "ok",
            ending=ran.ending,
            duration_ms=round(ran.seconds * 1000, 3),
            waited_ms=None if ran.approval is None else round(ran.waited * 1000, 3),
            iteration=answer.turn,
            call_id=call_id,
            model=model,
            provider=self._upstream.provider.name,
            dialect=self._upstream.provider.dialect,
            sandbox=ran.sandbox,
            approval=ran.approval,
            losses=losses,
            repair=snapshot["repair"],
            request_digest=answer.request_digest,
            response_digest=answer.response_digest,
        )

    def _secrets_of_turn(self, turn: Sequence[_TracedCall]) -> Known:
        """Return the secrets of the run.

        With several calls in a turn, all are searched before the first is recorded.
        """
        if self._known is None:
            self._known = self._secrecy()
        for one in turn if len(turn) > 1 else ():
            self._known.learn(secrets_of(one.value, one.fields))
        return self._known


def _as_map(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {"content": value}


def _messages_of(step: LoopStep, before: int) -> Sequence[Message]:
    """Return the messages that the run has added so far."""
    match step:
        case Done():
            return step.messages
        case AskModel():
            return step.request.messages[before:]
    return ()


def _pair_calls(messages: Sequence[Message]) -> Iterable[tuple[ToolCall, ToolResult]]:
    """Pair the calls with their results: each call has exactly one, in the same order."""
    if not messages:
        return ()
    parts = [part for message in messages for part in message.parts]
    calls = [part for part in parts if type(part) is ToolCall]
    return zip(calls, [part for part in parts if type(part) is ToolResult], strict=False)


def _ending_without_run(call: ToolCall) -> CallEnding:
    """Return the ending of a call for which there is no record of a run."""
    return "cancelled" if call.runs else "invalid"


def plain_content(content: Any) -> Any:
    """Return the content of a result as plain values."""
    return content if isinstance(content, str) else [_plain_part(part) for part in content]


def _plain_part(part: Any) -> dict[str, Any]:
    """Return a part of a result as plain values. Data is replaced by its size and digest."""
    fields = {
        name: value
        for name in part.__struct_fields__
        if name != "opaque" and (value := getattr(part, name)) is not None
    }
    if "data" in fields:
        data = fields["data"].encode()
        fields["data"] = {"characters": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return {"type": type(part).__name__.lower(), **fields}
