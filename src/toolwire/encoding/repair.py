"""One pass that makes any history legal: every call has one result right after it, in the order of the calls.

Rules of this file:
- A history that is legal already comes back as the very same list.
- Calls and their order are never touched. A result that answers no call becomes words of the user; a call
  without a result gets one that says so; a late result moves up to its call. Each is a loss by name.
- Where a wire has the user begin, a constant turn stands in for his; it reads back as nothing, and it stays
  where it is when the history grows.
- What else a target wants of roles and of empty text is the matter of its dialect.
"""

from collections import deque
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from msgspec.structs import replace

from toolwire.encoding.ledger import Ledger
from toolwire.encoding.linking import link_results
from toolwire.encoding.severities import weigh
from toolwire.types import Action, Loss, Message, Output, Part, Text, ToolCall, ToolResult

__all__ = ["repair"]

NO_RESULT = "no result was provided for this call"
BEGINNING = "(the conversation begins)"
_REMINDER = "<system-reminder>", "</system-reminder>"
_JSON = "Answer in JSON."
_HOLDERS = ("tool", "user")
_ANSWERERS = ("assistant", "model")


def repair(messages: Sequence[Message], losses: list[Loss] | None = None) -> Sequence[Message]:
    """Give a history in which every call is followed by its result; `losses` name each change.

    >>> from toolwire import Message, ToolCall, repair
    >>> history = [Message("Look."), Message("assistant", [ToolCall("call_1", "look", {})]), Message("Never mind.")]
    >>> [message.role for message in repair.repair(history)]
    ['user', 'assistant', 'tool', 'user']
    """
    return messages if is_legal(messages) else _Repair(messages, [] if losses is None else losses).run()


def is_legal(messages: Sequence[Message]) -> bool:
    """Whether every call is followed by its result, in the order of the calls."""
    waiting: deque[str | None] = deque()
    known: set[str | None] = set()  # the ids that wait
    part: Any  # told apart by `kind`, which no checker follows
    for message in messages:
        content = message.content
        if type(content) is str:
            if waiting:
                return False
            continue
        asks = message.role == "assistant"
        if asks and waiting:
            return False
        for part in content:  # type: ignore[union-attr]
            kind = type(part)
            if kind is ToolCall and asks and part.id not in known:
                waiting.append(part.id)
                known.add(part.id)
            elif kind is ToolResult:
                answers = waiting and message.role in _HOLDERS and waiting[0] == part.tool_call_id
                if not answers or part.tool_call_id is None:
                    return False
                known.discard(waiting.popleft())
            elif waiting and (kind is ToolCall or not asks):
                return False
    return not waiting


def begin(bodies: list[Any], first: dict[str, Any], ledger: Ledger | None) -> None:
    """Put `first` before written turns that do not begin with the user's; without a ledger, once more."""
    if _lacks_beginning(bodies):
        bodies.insert(0, deepcopy(first))
        if ledger is not None:
            ledger.lose("messages", "first_turn", "the user speaks first on this wire", "defaulted")


def is_begun(bodies: list[Any], first: dict[str, Any]) -> bool:
    """Whether the first of read turns is one that `begin` put there."""
    return bool(bodies) and bodies[0] == first and _lacks_beginning(bodies[1:])


def _lacks_beginning(bodies: list[Any]) -> bool:
    return not bodies or (type(bodies[0]) is dict and bodies[0].get("role") in _ANSWERERS)


def say_json(output: Output | None, bodies: list[Any], ledger: Ledger) -> None:
    """Have the system ask for JSON where that is wanted and no word of it is said when the user begins."""
    if output is None or output.kind != "json":
        return
    for body in bodies:
        if type(body) is dict and "json" in str(body.get("content")).lower():
            return
        if type(body) is not dict or body.get("role") not in ("system", "developer"):
            break
    bodies.insert(0, {"role": "system", "content": _JSON})
    ledger.lose("output", "output_json", "the system says JSON, as it must be said", "approximated")


def remind(text: str) -> str:
    """Wrap a system message that has to stand in a user's turn."""
    return f"{_REMINDER[0]}\n{text}\n{_REMINDER[1]}"


class _Answer(NamedTuple):
    """A result and where it stood: in which message, at which place in it, after words or not."""

    place: int
    spot: int
    after_words: bool
    message: Message
    result: ToolResult


class _Repair:
    """The slow way: take every result out, and put it back where it belongs."""

    def __init__(self, messages: Sequence[Message], losses: list[Loss]) -> None:
        self.messages = messages
        self.losses = losses
        self.answers: dict[tuple[int, int], _Answer] = {}
        self.orphans: set[tuple[int, int]] = set()
        self.words_before = [0]

    def run(self) -> list[Message]:
        """Match results to calls, then write the history anew."""
        self._match()
        repaired: list[Message] = []
        for place, message in enumerate(self.messages):
            repaired += self._without_results(place, message)
            if message.role == "assistant":
                repaired += self._results_of(place, message)
        return repaired

    def _match(self) -> None:
        links = link_results(self.messages)
        for place, message in enumerate(self.messages):
            words = 0 if message.parts else 1
            for index, part in enumerate(message.parts):
                if type(part) is not ToolResult:
                    words += 1
                elif (link := links.get((place, index))) is None:
                    self.orphans.add((place, index))
                else:
                    self.answers[link[0]] = _Answer(place, index, words > 0, message, part)
            self.words_before.append(self.words_before[-1] + words)

    def _without_results(self, place: int, message: Message) -> list[Message]:
        parts = message.parts
        if not any(type(part) is ToolResult for part in parts):
            return [message]
        if message.role not in _HOLDERS:
            detail = f"a message of the {message.role} holds no results"
            self.losses.append(Loss(f"messages[{place}].role", "tool_result", "moved", detail, "minor"))
        kept: list[Part] = []
        for index, part in enumerate(parts):
            if type(part) is not ToolResult:
                kept.append(part)
            elif (place, index) in self.orphans:
                kept += _as_words(part)
                self._lose(place, "orphan_result", f"no call {part.tool_call_id!r} came before it; said by the user")
        if not kept:
            return []
        return [Message("user", kept)] if message.role == "tool" else [replace(message, content=kept)]

    def _results_of(self, place: int, message: Message) -> list[Message]:
        results = []
        latest = (place, 0)
        for index, part in enumerate(message.parts):
            if type(part) is not ToolCall:
                continue
            answer = self.answers.get((place, index))
            if answer is None:
                self._lose(place, "missing_result", f"the call {part.id!r} has no result; one says so")
                results.append(Message("tool", [ToolResult(part.id, part.name, NO_RESULT, is_error=True)]))
                continue
            if answer[:2] < latest or self._interrupted(place, answer):
                detail = f"the result of {part.id!r} belongs right after its call"
                self._lose(answer.place, "order_of_results", detail, "moved")
            latest = max(latest, answer[:2])
            result = replace(answer.result, tool_call_id=part.id, name=answer.result.name or part.name)
            opaque = answer.message.opaque if answer.message.role == "tool" else None
            results.append(Message("tool", [result], opaque=opaque))
        return results

    def _interrupted(self, start: int, answer: _Answer) -> bool:
        if answer.place == start:
            return False
        return answer.after_words or self.words_before[answer.place] > self.words_before[start + 1]

    def _lose(self, place: int, concept: str, detail: str, action: Action = "repaired") -> None:
        self.losses.append(Loss(f"messages[{place}]", concept, action, detail, weigh(concept, action)))


def _as_words(result: ToolResult) -> list[Part]:
    told = f"[result of {result.name or 'a tool'}]"
    if isinstance(result.content, str):
        return [Text(f"{told} {result.content}")]
    return [Text(told), *result.content]
