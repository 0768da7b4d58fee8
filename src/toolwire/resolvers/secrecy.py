"""What is secret in a run: what was given, and what stands in the sensitive fields of its calls and results.

Rules of this file:
- It is worked out when it is asked for: where nothing fails, and nothing is recorded, nobody asks.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from toolwire.loop.steps import AskModel, Done, RunTools
from toolwire.resolvers.protocol import fields_of
from toolwire.scrubbing import LONG, Known, secrets_of
from toolwire.types import CallEnd, Message, Response, ToolCall, ToolResult
from toolwire.wire.arguments import input_of


class RunSecrets:
    """Says which values of the latest messages and calls are secret."""

    def __init__(self, resolve: Any, given: Iterable[str | None] = ()) -> None:
        self._resolve = resolve
        # What is long enough to be told apart.
        self.given: tuple[str, ...] = tuple(one.strip() for one in given if one and len(one.strip()) >= LONG)
        self._messages: Sequence[Message] = ()
        self._calls: Sequence[ToolCall] = ()

    def hear(self, step: AskModel | RunTools) -> None:
        """Take the history as it is now, or the calls that follow it."""
        if isinstance(step, RunTools):
            self._calls = step.calls
        else:
            self._messages, self._calls = step.request.messages, ()

    def fields_of(self, tool: str) -> list[str]:
        """List the sensitive fields of a tool."""
        return fields_of(self._resolve, tool)

    def __call__(self, event: Any = None) -> Known:
        """Say what is secret by now, and in an event that is told before the next step."""
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
