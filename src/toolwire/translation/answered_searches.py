"""The searches of one answer that toolwire answers itself: the model is asked again, and the client gets one answer.

Rules of this file:
- The model is asked again if it has only searched. If it has called tools of the client as well, the client gets the
  answer, and the model finds the results of its searches in the next turn.
- The client sees a search as a call and a result of its provider's own search.
- The usage that the client gets is the sum of all answers.
"""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from toolwire.loop.run import add_usage
from toolwire.translation.deferred_tools import (
    MAX_SEARCHES,
    DeferredTools,
    shown_id,
)
from toolwire.translation.exchange_request import ExchangeRequest
from toolwire.translation.turn_keys import has_provider_data
from toolwire.types import (
    CallEnd,
    CallStart,
    ChoiceEnd,
    Event,
    FinishReason,
    Message,
    MessageDelta,
    MessageEnd,
    MessageStart,
    OpaqueDelta,
    Part,
    PartEnd,
    PartStart,
    Response,
    ServerTool,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    UsageDelta,
)

_ENDINGS: frozenset[FinishReason | None] = frozenset({"tool_calls", "stop"})


class AnsweredSearches:
    """The searches of one answer.

    - `parts`: the parts of the answers so far, as the provider wrote them, with the results of the searches.
    - `is_asked_again`: whether the answer that has ended is continued by another request.
    - `is_waiting`: whether an answer has ended and the next one has not begun.
    - `usages`: what each answer that has ended has reported.
    """

    def __init__(self, request: ExchangeRequest, tools: DeferredTools) -> None:
        self.parts: list[Part] = []
        self.is_asked_again: bool = False
        self.usages: list[Usage | None] = []
        self._request, self._tools = request, tools
        self._usage_before: Usage | None = None
        self._usage: Usage | None = None
        self.is_waiting: bool = False
        self._searches = 0
        self._results: list[ToolResult] = []  # those of the present stream
        self._found: list[str] = []
        self._shown: list[Part] = []
        self._stream_keys = _StreamKeys()

    def is_search(self, name: str) -> bool:
        """Return True if a call of the tool `name` is a search."""
        return self._tools.function is not None and name == self._tools.function.name

    def without_searches(self, parts: list[Part]) -> list[Part]:
        """Return parts without the searches and their results."""
        return [part for part in parts if not (isinstance(part, ToolCall | ToolResult) and self._is_ours(part))]

    def _is_ours(self, part: ToolCall | ToolResult) -> bool:
        return part.name is not None and self.is_search(part.name)

    def _answer_call(self, call: ToolCall) -> tuple[ToolResult, list[Part]]:
        """Answer a search. Return its result, and the parts that the client gets."""
        tools = self._tools
        found, result = tools.answer(call, self._request.named_tools | dict.fromkeys(self._found))
        self._found += [tool.name for tool in found]
        self._searches += 1
        search = tools.tools[tools.search or 0]
        assert type(search) is ServerTool  # noqa: S101 - the function stands for it
        call_id = shown_id(call.id, tools.form.id_prefix, self._searches)
        arguments = {} if result.is_error else {"query": call.plain_arguments["query"]}
        return result, tools.form.search_parts(search, call_id, arguments, found)

    def whole(self, response: Response) -> Response:
        """Return a whole answer as the client gets it: with the earlier answers, and the searches as it knows them."""
        native, shown = list[Part](), list[Part]()
        results = list[Part]()
        for part in response.message.parts:
            native.append(part)
            if isinstance(part, ToolCall) and self.is_search(part.name):
                result, parts = self._answer_call(part)
                native.append(result)
                results.append(result)
                shown += parts
            else:
                shown.append(part)
        self._usage = response.usage
        self._end_answer(response.message.parts, results, response.finish_reason)
        self.parts += native
        self._shown += shown
        if not response.choices:
            return response
        choice = response.choices[0]
        finish = self._client_finish(choice.finish_reason, native)
        message = replace(choice.message, content=[*self._shown])
        usage = add_usage(self._usage_before, self._usage)
        self._begin_answer()
        return replace(response, choices=[replace(choice, message=message, finish_reason=finish)], usage=usage)

    def _end_answer(self, parts: list[Part], results: list[Part], finish: FinishReason | None) -> None:
        """Ask the model again if it has only searched."""
        has_others = any(isinstance(part, ToolCall) and not self.is_search(part.name) for part in parts)
        may_search = self._searches < MAX_SEARCHES and finish in _ENDINGS
        self.is_asked_again = bool(results) and not has_others and may_search
        if self.is_asked_again:
            message = Message("assistant", _as_repeated(parts))
            self._request.ask_again(message, results, self._found)
            self._found = []

    def _client_finish(self, finish: FinishReason | None, parts: list[Part]) -> FinishReason | None:
        """Return why an answer ends. One that has only searched ends without calls of the client."""
        calls = [part for part in parts if isinstance(part, ToolCall)]
        only_searches = bool(calls) and all(self.is_search(call.name) for call in calls)
        return "stop" if finish == "tool_calls" and only_searches else finish

    def _begin_answer(self) -> None:
        """Begin the next answer of the model, if there is one."""
        self.usages.append(self._usage)
        self.is_waiting = True
        self._usage_before, self._usage = add_usage(self._usage_before, self._usage), None

    def usage_of(self, answer: int) -> Usage | None:
        """Return what an answer has reported, the first of which is 0. It may be the present one."""
        return self.usages[answer] if answer < len(self.usages) else self._usage

    # For streams

    def joined(self, event: Event) -> Event | None:
        """Return an event of the provider as one of the whole answer. Return None for an end that is none."""
        if self.is_waiting:
            self.is_waiting = self.is_asked_again = False
        match event:
            case MessageStart() | MessageDelta():
                self._usage = event.response.usage or self._usage
                return None if self.usages else event
            case UsageDelta():
                self._usage = event.usage
                total = add_usage(self._usage_before, event.usage)
                return None if self.is_asked_again or total is None else replace(event, usage=total)
            case OpaqueDelta(key=None) if self.usages:
                return None
            case ChoiceEnd() | MessageEnd() if self.is_asked_again:
                return None
        return self._stream_keys.moved(event)

    def shown(self, event: Event) -> Iterator[Event]:
        """Yield the events that the client gets instead of `event`, with the searches as it knows them."""
        match event:
            case CallStart(name=name) if self.is_search(name):
                self._stream_keys.hidden.add(event.key)
            case CallEnd(call=call) if self.is_search(call.name):
                result, parts = self._answer_call(call)
                self._results.append(result)
                for part in parts:
                    key = self._stream_keys.new()
                    yield PartStart(key, part)
                    yield PartEnd(key, part)
            case _ if getattr(event, "key", None) not in self._stream_keys.hidden:
                yield event

    def end_choice(self, event: ChoiceEnd, parts: list[Part]) -> ChoiceEnd | None:
        """Return the end of the answer, whose parts are `parts`. Return None if the model is asked again."""
        self._end_answer(parts, [*self._results], event.choice.finish_reason)
        if self.is_asked_again:
            return None
        finish = self._client_finish(event.choice.finish_reason, parts)
        return replace(event, choice=replace(event.choice, finish_reason=finish))

    def end_stream(self, parts: list[Part]) -> None:
        """Note the parts of an answer whose stream has ended, and begin the next one."""
        for part in parts:
            self.parts.append(part)
            if isinstance(part, ToolCall) and self.is_search(part.name):
                result = next((one for one in self._results if one.tool_call_id == part.id), None)
                if result is not None:
                    self._results.remove(result)
                    self.parts.append(result)
        self._results = []
        self._begin_answer()
        self._stream_keys.begin()

    def stop(self) -> None:
        """Don't ask the model again: its stream broke off."""
        self.is_asked_again = False


def _as_repeated(parts: list[Part]) -> list[Part]:
    """Return the parts of an answer as the client's next request will have them, so that its bytes begin the same."""
    if any(map(has_provider_data, parts)):
        return parts  # the next request has them from memory
    return [
        replace(part, opaque=None, raw=None)
        if isinstance(part, ToolCall) and part.runs
        else replace(part, opaque=None)
        if isinstance(part, Text)
        else part
        for part in parts
    ]


class _StreamKeys:
    """The keys of parts in a stream that joins several. `hidden` are those that the client does not get."""

    def __init__(self) -> None:
        self.hidden: set[int] = set()
        self._next = 0
        self._keys: dict[int, int] = {}

    def new(self) -> int:
        """Return a key that no part has."""
        key, self._next = self._next, self._next + 1
        return key

    def begin(self) -> None:
        """Begin the next stream, whose keys begin anew."""
        self._keys = {}

    def moved(self, event: Any) -> Event:
        """Return an event with its key in the joined stream."""
        key = getattr(event, "key", None)
        if key is None:
            return event  # type: ignore[no-any-return]
        if key not in self._keys:
            self._keys[key] = self.new()
        moved = self._keys[key]
        return event if moved == key else replace(event, key=moved)  # type: ignore[no-any-return]
