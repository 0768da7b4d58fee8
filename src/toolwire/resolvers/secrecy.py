"""The secrets of a run: those that were configured, and the values of sensitive fields in its calls and results.

Rules of this file:
- The secrets are collected only on request. If nothing fails and nothing is recorded, they are never collected.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from toolwire.loop.steps import AskModel, Done, RunTools
from toolwire.resolvers.protocol import fields_of
from toolwire.scrubbing import LONG, Known, secrets_of
from toolwire.types import CallEnd, Message, Response, ToolCall, ToolResult
from toolwire.wire.arguments import input_of


class RunSecrets:
    """Returns the secrets of the latest messages and calls."""

    def __init__(self, resolve: Any, given: Iterable[str | None] = ()) -> None:
        self._resolve = resolve
        # Shorter texts occur by chance.
        self.given: tuple[str, ...] = tuple(text.strip() for text in given if text and len(text.strip()) >= LONG)
        self._messages: Sequence[Message] = ()
        self._calls: Sequence[ToolCall] = ()

    def observe(self, step: AskModel | RunTools) -> None:
        """Remember the current history, or the calls that follow it."""
        if isinstance(step, RunTools):
            self._calls = step.calls
        else:
            self._messages, self._calls = step.request.messages, ()

    def fields_of(self, tool: str) -> list[str]:
        """Return the sensitive fields of a tool."""
        return fields_of(self._resolve, tool)

    def __call__(self, event: Any = None) -> Known:
        """Return the secrets that are known by now, with those in `event`, which is reported before the next step."""
        known = Known(self.given)
        for part in (*_parts(self._messages), *self._calls, *_parts_of(event)):
            if isinstance(part, ToolCall):
                known.learn(secrets_of(input_of(part), self.fields_of(part.name)))
            elif isinstance(part, ToolResult):
                known.learn(secrets_of(part.content, self.fields_of(part.name or "")))
        return known


def _parts(messages: Iterable[Message]) -> Iterator[Any]:
    return (part for message in messages for part in message.parts)


def _parts_of(event: Any) -> Iterable[Any]:
    match event:
        case Response():
            return [part for choice in event.choices for part in choice.message.parts]
        case Done():
            return _parts(event.messages)
        case CallEnd(call=call):
            return (call,)
    return ()
