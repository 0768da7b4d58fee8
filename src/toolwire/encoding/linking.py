"""Find the call that each tool result of a conversation answers, even if results have no ids.

Rules of this file:
- A result answers the call that has its id. Without an id, it answers the next call of its name, else the next call.
- Calls wait for their results across messages of the assistant. Strands sends each parallel call in a message of its
  own, and then all results in order, without ids (strands 1.62, OllamaModel).
- Calls form groups. A new group begins after a result, and after a message of the user, which interrupts the
  calls before it. Results answer the latest groups that have enough calls for them, in order.
- Results that follow each other, up to the next message of the assistant, are linked together. So a later message
  never changes the link of a result before an answer of the model.
- After results, an answer without calls ends the turn: a later result needs an id to answer a call before it.
- An id that no call has can only refer to a call that came without an id.
"""

from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from toolwire.types import Message, ToolCall, ToolResult
from toolwire.wire.names import is_generated_id

_Position = tuple[int, int]
"""The index of a message, and the index of a part in it."""
_Key = tuple[str, str | None]


class _Call(Struct, eq=False):
    """A call of the conversation, and the groups that it belongs to, one for each of its keys."""

    position: _Position
    call: ToolCall
    groups: "list[_Group]" = []
    answered: bool = False


class _Group(Struct, eq=False):
    """The calls of one group that share a key; `waiting` of them have no result yet."""

    number: int
    calls: deque[_Call]
    waiting: int = 0

    def take(self) -> _Call:
        """Remove the first call that has no result yet, and return it."""
        while (call := self.calls.popleft()).answered:
            pass
        call.answered = True
        for group in call.groups:
            group.waiting -= 1
        return call


class _Result(Struct, eq=False):
    """A result of the conversation, and its call once it has been found."""

    position: _Position
    result: ToolResult
    call: _Call | None = None


class _Linker:
    """Links each run of results to the calls before it, message by message.

    - `links`: the position of each linked result, with the position of its call and the call.
    - `_with_id`: the calls of the conversation, by their ids.
    - `_open`: the calls of the present turn, by their names and by their order.
    - `_run`: the results since the last message of the assistant.
    """

    def __init__(self, *, by_order: bool) -> None:
        self.links: dict[_Position, tuple[_Position, ToolCall]] = {}
        self._by_order = by_order
        self._with_id: dict[_Key, list[_Group]] = {}
        self._open: dict[_Key, list[_Group]] = {}
        self._run: list[_Result] = []
        self._number = 0
        self._interrupted = self._answered = False

    def read(self, message_index: int, message: Message) -> None:
        """Read the next message of the conversation."""
        is_assistant = message.role == "assistant"
        if is_assistant and self._run:
            self.end_run()
        elif message.role == "user":
            self._interrupted = True
        has_calls = False
        for index, part in enumerate(() if type(message.content) is str else message.parts):
            if type(part) is ToolCall and is_assistant:
                has_calls = True
                self._add((message_index, index), part)
            elif type(part) is ToolResult:
                self._run.append(_Result((message_index, index), part))
        if is_assistant and not has_calls and self._answered:
            self._open = {}

    def _add(self, position: _Position, call: ToolCall) -> None:
        if self._run:
            self.end_run()
        if self._interrupted or self._answered:
            self._number += 1
        self._interrupted = self._answered = False
        added = _Call(position, call)
        keys = [(self._open, ("name", call.name)), (self._open, ("any", None))]
        if is_generated_id(call.id):
            keys += [(self._open, ("name, without an id", call.name)), (self._open, ("without an id", None))]
        for queues, key in [(self._with_id, ("id", call.id)), *keys]:
            groups = queues.setdefault(key, [])
            if not groups or groups[-1].number != self._number:
                groups.append(_Group(self._number, deque()))
            groups[-1].calls.append(added)
            groups[-1].waiting += 1
            added.groups.append(groups[-1])

    def end_run(self) -> None:
        """Link the results read since the last message of the assistant."""
        results, self._run, self._answered = self._run, [], True
        for key_of in (self._by_id, self._by_name, self._by_position, self._by_missing_id):
            self._link([result for result in results if result.call is None], key_of)
        for result in results:
            if result.call is not None:
                self.links[result.position] = (result.call.position, result.call.call)

    def _link(self, results: list[_Result], key_of: Callable[[ToolResult], _Key | None]) -> None:
        by_key: dict[_Key, list[_Result]] = {}
        for result in results:
            if (key := key_of(result.result)) is not None:
                by_key.setdefault(key, []).append(result)
        for key, results_of_key in by_key.items():
            groups = self._open.get(key) or self._with_id.get(key) or []
            for result, call in zip(results_of_key, _take(groups, len(results_of_key)), strict=False):
                result.call = call

    def _by_id(self, result: ToolResult) -> _Key | None:
        return None if result.tool_call_id is None else ("id", result.tool_call_id)

    def _by_name(self, result: ToolResult) -> _Key | None:
        return ("name", result.name) if result.tool_call_id is None and result.name is not None else None

    def _by_position(self, result: ToolResult) -> _Key | None:
        may_answer_any = result.name is None or self._by_order
        return ("any", None) if result.tool_call_id is None and may_answer_any else None

    def _by_missing_id(self, result: ToolResult) -> _Key | None:
        if result.tool_call_id is None or ("id", result.tool_call_id) in self._with_id:
            return None
        return ("without an id", None) if result.name is None else ("name, without an id", result.name)


def _take(groups: list[_Group], count: int) -> list[_Call]:
    """Return at most `count` waiting calls, in order, from the latest groups that have so many."""
    latest: list[_Group] = []
    available = 0
    while groups and available < count:
        group = groups.pop()
        if group.waiting:
            latest.append(group)
            available += group.waiting
    latest.reverse()
    groups += latest
    taken: list[_Call] = []
    for group in latest:
        while group.waiting and len(taken) < count:
            taken.append(group.take())
    return taken


def link_results(messages: Sequence[Message], *, by_order: bool = False) -> dict[_Position, tuple[_Position, ToolCall]]:
    """Return the call that each result in `messages` answers, by the positions of both. Orphans are left out.

    A result is an orphan if no waiting call has its name. With `by_order`, it answers the next call if it has no id.
    """
    linker = _Linker(by_order=by_order)
    for index, message in enumerate(messages):
        linker.read(index, message)
    linker.end_run()
    return linker.links
