"""The calls of a conversation, as traces in a store: one for each, whatever became of it.

Rules of this file:
- A call is recorded when its result stands in the history, so that both say the same.
- What is sensitive is hidden before anything leaves this file; the tool itself got the original.
- A store that cannot be written to, and is to be believed, is found out before the next tool runs.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from toolwire.exchange import Line, Sent
from toolwire.functions.forms import copied
from toolwire.loop import AskModel, Done, Step
from toolwire.outcome import CallEnding
from toolwire.records import Ran
from toolwire.resolvers import fields_of
from toolwire.scrubbing import scrub
from toolwire.steps import Ask, Steps
from toolwire.traces.scope import Scope
from toolwire.traces.trace import Trace
from toolwire.types import Message, ToolCall, ToolResult


class Answer(Struct, frozen=True):
    """What is known of the answer that made the calls."""

    turn: int = 0
    model: str | None = None
    losses: tuple[str, ...] = ()
    request_digest: str | None = None
    response_digest: str | None = None


class Recording:
    """Records the calls of one conversation into a store; those of `unrun` ask for nothing to be run."""

    def __init__(self, scope: Scope, line: Line, resolve: Any, unrun: str | None = None) -> None:
        self._scope = scope
        self._line = line
        self._resolve = resolve
        self._unrun = unrun
        self._ran: dict[int, Ran] = {}
        self._told = 0
        self._answer = Answer()

    def keep(self, ran: Ran) -> None:
        """Keep what became of a call until its result stands in the history."""
        self._ran[id(ran.call)] = ran

    def new_digest(self) -> Any:
        """Give what the bytes of an answer are fed to."""
        return hashlib.sha256()

    def answered(self, step: AskModel, sent: Sent) -> None:
        """Note the exchange whose answer may have calls."""
        encoded = sent.encoded
        self._answer = Answer(
            step.turn,
            step.request.model,
            tuple(map(str, encoded.losses)) if encoded is not None else (),
            hashlib.sha256(encoded.json).hexdigest() if encoded is not None else None,
            sent.digest.hexdigest() if sent.digest is not None else None,
        )

    def check(self) -> None:
        """Raise what is wrong with the store, before a tool is run."""
        self._scope.check()

    def settling(self, step: Step, before: int) -> Steps[None]:
        """Record the calls that have got their results; at the end, wait until all are kept for good."""
        store, messages = self._scope.store, _messages_of(step, before)
        for call, result in _settled(messages[self._told :]):
            if call.name == self._unrun:
                continue
            yield Ask(store.record, (self.trace(call, result),), awaited=store.arecord)
        self._told = max(self._told, len(messages))
        if isinstance(step, Done):
            yield Ask(store.flush, awaited=store.aflush)

    def trace(self, call: ToolCall, result: ToolResult) -> Callable[[], Trace]:
        """Give what makes the trace of a call: the thread of the store does, so that the run goes on."""
        said = {
            "arguments": copied(_arguments_of(call)),
            "result": _plain(result.content),
            "repair": call.error,
        }
        fields = fields_of(self._resolve, call.name)
        ran = self._ran.pop(id(call), None) or Ran(call, result, _unrun(call), None, 0.0)
        return partial(self._made, said, fields, ran, self._answer, is_error=result.is_error)

    def _made(
        self, said: dict[str, Any], fields: Sequence[str], ran: Ran, answer: Answer, *, is_error: bool
    ) -> Trace:
        """Make a trace, with what is sensitive hidden."""
        said = scrub(said, fields)
        return self._scope.trace(
            ran.started,
            tool_name=ran.call.name,
            arguments=_map(said["arguments"]),
            result=_map(said["result"]),
            result_type="error" if is_error else "ok",
            ending=ran.ending,
            duration_ms=round(ran.seconds * 1000, 3),
            iteration=answer.turn,
            call_id=ran.call.id,
            model=answer.model,
            provider=self._line.provider.name,
            dialect=self._line.provider.dialect,
            sandbox=ran.sandbox,
            approval=ran.approval,
            losses=answer.losses,
            repair=said["repair"],
            request_digest=answer.request_digest,
            response_digest=answer.response_digest,
        )


def _map(said: Any) -> dict[str, Any]:
    return said if type(said) is dict else {"content": said}


def _messages_of(step: Step, before: int) -> Sequence[Message]:
    """Give what the run has added to the history so far."""
    match step:
        case Done():
            return step.messages
        case AskModel():
            return step.request.messages[before:]
    return ()


def _settled(messages: Sequence[Message]) -> Iterable[tuple[ToolCall, ToolResult]]:
    """Pair the calls with their results: each call has exactly one, in the order of the calls."""
    calls = [part for message in messages for part in message.parts if type(part) is ToolCall]
    results = [part for message in messages for part in message.parts if type(part) is ToolResult]
    return zip(calls, results, strict=False)


def _unrun(call: ToolCall) -> CallEnding:
    """Say why a call was not run to its end, where nobody saw it run."""
    return "cancelled" if call.runs else "invalid"


def _arguments_of(call: ToolCall) -> dict[str, Any]:
    """Give what a call was made with; text that is no JSON object stays text."""
    return {"input": call.raw} if call.custom or call.error is not None else call.arguments


def _plain(content: Any) -> Any:
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
