"""The calls of a conversation, as traces in a store: one for each, whatever became of it.

Rules of this file:
- A call is recorded when its result stands in the history, so that both say the same.
- What is sensitive is hidden before anything leaves this file; the tool itself got the original. What was
  hidden once is hidden wherever it reappears: calls of one turn know each other's secrets.
- In a run that survives, a trace is known by the key of its call, so that a run that goes on records it once.
- A store that cannot be written to, and is to be believed, is found out before the next tool runs.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.client.exchange import Sent, Upstream
from toolwire.loop import AskModel, Done, LoopStep
from toolwire.resolvers import RunSecrets
from toolwire.scrubbing import Known, scrub, secrets_of
from toolwire.traces.trace import Scope, Trace
from toolwire.types import Message, ToolCall, ToolResult
from toolwire.types.frozen import copied
from toolwire.waiting.results import CallEnding, Ran
from toolwire.waiting.steps import Ask, Work
from toolwire.wire.arguments import input_of


class _CallingAnswer(Struct, frozen=True):
    """What is known of the answer that made the calls."""

    turn: int = 0
    model: str | None = None
    losses: tuple[str, ...] = ()
    request_digest: str | None = None
    response_digest: str | None = None


class _TracedCall(Struct, frozen=True):
    """What is to be in a trace, as it was said, and the fields of it that are sensitive."""

    value: dict[str, Any]
    fields: Sequence[str]


class Recording:
    """Records the calls of one conversation into a store; those of `unrun` ask for nothing to be run."""

    def __init__(self, scope: Scope, upstream: Upstream, resolve: Any, unrun: str | None = None) -> None:
        self._scope = scope
        self._upstream = upstream
        self._secrecy = RunSecrets(resolve, [upstream.provider.key])
        self._known: Known | None = None
        self._unrun = unrun
        self._ran: dict[int, Ran] = {}
        self._told = 0
        self._answer = _CallingAnswer()
        self._keys: dict[int, str] = {}
        self._again = False

    @property
    def files(self) -> Sequence[Any]:
        """The files of the store, which no tool may touch."""
        return getattr(self._scope.store, "files", ())

    def keep(self, told: Iterable[Ran]) -> None:
        """Keep what became of calls until their results stand in the history."""
        self._ran.update((id(ran.call), ran) for ran in told)

    def new_digest(self) -> Any:
        """Give what the bytes of an answer are fed to."""
        return hashlib.sha256()

    def answered(self, step: AskModel, sent: Sent) -> None:
        """Note the exchange whose answer may have calls."""
        self._answer = _CallingAnswer(
            step.turn,
            step.request.model,
            tuple(str(loss) for loss in sent.losses if loss.severity != "formal"),
            hashlib.sha256(sent.body).hexdigest() if sent.body is not None else None,
            sent.digest.hexdigest() if sent.digest is not None else None,
        )

    def know(self, call: ToolCall, key: str, *, again: bool) -> None:
        """Take the key by which a call's trace is known; where a run goes on, it may be there already."""
        self._keys[id(call)], self._again = key, again

    def begun(self, call: ToolCall, times: int) -> None:
        """Record that a call begins, for good, before it does; it may have begun some times before."""
        said = self.said(call, ToolResult(call.id, call.name, ""))
        ran = Ran(call, ToolResult(call.id, call.name, ""), "ok", time.time(), 0.0)
        trace = self._made([said], 0, ran, self._answer, is_error=False)
        number = f"{self._keys[id(call)]}-{times + 1}"
        self._scope.store.record(replace(trace, id=number, kind="begun", ending="begun", result={}))
        self._scope.store.flush()

    def check(self) -> None:
        """Raise what is wrong with the store, before a tool is run."""
        self._scope.check()

    def settling(self, step: LoopStep, before: int) -> Work[None]:
        """Record the calls that have got their results; at the end, wait until all are kept for good."""
        store, fresh = self._scope.store, _messages_of(step, before)[self._told :]
        self._told += len(fresh)
        if isinstance(step, AskModel) and step.turn == 0:
            self._secrecy.observe(step)
        pairs = [pair for pair in _settled(fresh) if pair[0].name != self._unrun]
        turn = [self.said(*pair) for pair in pairs]
        for place, pair in enumerate(pairs):
            key = self._keys.get(id(pair[0]))
            if self._again and key is not None and (yield Ask(store.get, (key,))) is not None:
                continue
            yield Ask(store.record, (self.trace(*pair, turn, place),), awaited=store.arecord)
        if isinstance(step, Done):
            yield Ask(store.flush, awaited=store.aflush)

    def said(self, call: ToolCall, result: ToolResult) -> _TracedCall:
        """Give what a call and its result say, as it is now."""
        value = {
            "arguments": copied(input_of(call)),
            "result": plain_content(result.content),
            "repair": call.error,
        }
        return _TracedCall(value, self._secrecy.fields_of(call.name))

    def trace(
        self, call: ToolCall, result: ToolResult, turn: Sequence[_TracedCall] = (), place: int = 0
    ) -> Callable[[], Trace]:
        """Give what makes the trace of a call of a turn: the store's thread does, so that the run goes on."""
        turn = turn or [self.said(call, result)]
        ran = self._ran.pop(id(call), None) or Ran(call, result, _unrun(call), None, 0.0)
        return partial(self._made, turn, place, ran, self._answer, is_error=result.is_error)

    def _made(
        self, turn: Sequence[_TracedCall], place: int, ran: Ran, answer: _CallingAnswer, *, is_error: bool
    ) -> Trace:
        """Make a trace, with what is sensitive hidden."""
        known = self._known_by(turn if place == 0 else ())
        said = scrub(turn[place].value, turn[place].fields, known)
        around = (ran.call.name, ran.call.id, answer.model, self._scope.session, answer.losses)
        name, call_id, model, session, losses = scrub(around, (), known)
        return self._scope.trace(
            ran.started,
            session=session,
            **({"id": self._keys[id(ran.call)]} if id(ran.call) in self._keys else {}),
            tool_name=name,
            arguments=_map(said["arguments"]),
            result=_map(said["result"]),
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
            repair=said["repair"],
            request_digest=answer.request_digest,
            response_digest=answer.response_digest,
        )

    def _known_by(self, turn: Sequence[_TracedCall]) -> Known:
        """Give what is secret in the run; several calls are looked through before the first has its trace."""
        if self._known is None:
            self._known = self._secrecy()
        for one in turn if len(turn) > 1 else ():
            self._known.learn(secrets_of(one.value, one.fields))
        return self._known


def _map(said: Any) -> dict[str, Any]:
    return said if type(said) is dict else {"content": said}


def _messages_of(step: LoopStep, before: int) -> Sequence[Message]:
    """Give what the run has added to the history so far."""
    match step:
        case Done():
            return step.messages
        case AskModel():
            return step.request.messages[before:]
    return ()


def _settled(messages: Sequence[Message]) -> Iterable[tuple[ToolCall, ToolResult]]:
    """Pair the calls with their results: each call has exactly one, in the order of the calls."""
    if not messages:
        return ()
    parts = [part for message in messages for part in message.parts]
    calls = [part for part in parts if type(part) is ToolCall]
    return zip(calls, [part for part in parts if type(part) is ToolResult], strict=False)


def _unrun(call: ToolCall) -> CallEnding:
    """Say why a call was not run to its end, where nobody saw it run."""
    return "cancelled" if call.runs else "invalid"


def plain_content(content: Any) -> Any:
    """Say the content of a result in plain values."""
    return content if isinstance(content, str) else [_shown(part) for part in content]


def _shown(part: Any) -> dict[str, Any]:
    """Say a part of a result in plain values; what is large is told by its size and digest."""
    said = {
        name: value
        for name in part.__struct_fields__
        if name != "opaque" and (value := getattr(part, name)) is not None
    }
    if "data" in said:
        data = said["data"].encode()
        said["data"] = {"characters": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return {"type": type(part).__name__.lower(), **said}
