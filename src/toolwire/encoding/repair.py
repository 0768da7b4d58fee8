"""Make any history legal: after its message, every call has one result, in the order of the calls.

Rules of this file:
- A history that is already legal is returned as the same list.
- Calls and their order never change. Each of these changes is a loss:
  - A result that answers no call becomes text of the user.
  - A call without a result gets a result with an error.
  - A late result moves to its call.
- If a wire requires the user to begin, a constant message of the user is added at the beginning. The decoder removes it
  again, and it stays the same when the history grows.
- Other requirements of a target, such as those on roles and empty text, are those of its dialect.
"""

from collections import deque
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from msgspec.structs import replace

from toolwire.encoding.ledger import Ledger
from toolwire.encoding.linking import link_results
from toolwire.encoding.severities import severity_of_loss
from toolwire.types import Action, Loss, Message, Output, Part, Text, ToolCall, ToolResult

__all__ = ["repair"]

NO_RESULT = "no result was provided for this call"
OPENING_TEXT = "(the conversation begins)"
_REMINDER = "<system-reminder>", "</system-reminder>"
JSON_REQUEST = "Answer in JSON."
_RESULT_ROLES = ("tool", "user")
_MODEL_ROLES = ("assistant", "model")


def repair(messages: Sequence[Message], losses: list[Loss] | None = None) -> Sequence[Message]:
    """Return `messages` as a history in which every call is followed by its result. Each change is added to `losses`.

    >>> from toolwire import Message, ToolCall, repair
    >>> history = [Message("Look."), Message("assistant", [ToolCall("call_1", "look", {})]), Message("Never mind.")]
    >>> [message.role for message in repair.repair(history)]
    ['user', 'assistant', 'tool', 'user']
    """
    return messages if is_legal(messages) else _Repair(messages, [] if losses is None else losses).run()


def is_legal(messages: Sequence[Message]) -> bool:
    """Return True if the results of every message's calls follow it, in the order of the calls."""
    waiting: deque[str | None] = deque()
    known: set[str | None] = set()  # the ids in `waiting`
    part: Any  # narrowed by `part_type`, which no type checker follows
    for message in messages:
        content = message.content
        if type(content) is str:
            if waiting:
                return False
            continue
        is_assistant = message.role == "assistant"
        if is_assistant and waiting:
            return False
        for part in content:  # type: ignore[union-attr]
            part_type = type(part)
            if part_type is ToolCall and is_assistant and part.id not in known:
                waiting.append(part.id)
                known.add(part.id)
            elif part_type is ToolResult:
                answers = waiting and message.role in _RESULT_ROLES and waiting[0] == part.tool_call_id
                if not answers or part.tool_call_id is None:
                    return False
                known.discard(waiting.popleft())
            elif waiting and (part_type is ToolCall or not is_assistant):
                return False
    return not waiting


def add_opening_turn(bodies: list[Any], first: dict[str, Any], ledger: Ledger | None) -> None:
    """Insert `first` before encoded messages that do not begin with one of the user, and report it.

    The `ledger` is None if the message is written again on its own wire, which is no loss.
    """
    if _lacks_beginning(bodies):
        bodies.insert(0, deepcopy(first))
        if ledger is not None:
            detail = f"{ledger.dialect} requires a message of the user first: one is added"
            ledger.lose("messages", "first_turn", detail, "defaulted")


def begins_with_opening_turn(bodies: list[Any], first: dict[str, Any]) -> bool:
    """Return True if the first of the received messages is one that `add_opening_turn` inserted."""
    return bool(bodies) and bodies[0] == first and _lacks_beginning(bodies[1:])


def _lacks_beginning(bodies: list[Any]) -> bool:
    return not bodies or (type(bodies[0]) is dict and bodies[0].get("role") in _MODEL_ROLES)


def ask_for_json(output: Output | None, bodies: list[Any], ledger: Ledger) -> None:
    """Insert a system message that asks for JSON, if the output is JSON and nothing before the user asks for it.

    In JSON mode OpenAI rejects a request without the word: "'messages' must contain the word 'json' in some form".
    """
    if output is None or output.kind != "json":
        return
    for body in bodies:
        if type(body) is dict and "json" in str(body.get("content")).lower():
            return
        if type(body) is not dict or body.get("role") not in ("system", "developer"):
            break
    bodies.insert(0, {"role": "system", "content": JSON_REQUEST})
    detail = f"{ledger.dialect} requires the word JSON in a message: a system message with it is added"
    ledger.lose("output", "output_json", detail, "approximated")


def wrap_reminder(text: str) -> str:
    """Return the text of a system message that is sent in a message of the user, with marks around it."""
    return f"{_REMINDER[0]}\n{text}\n{_REMINDER[1]}"


class _Answer(NamedTuple):
    """A result, the index of its message, its index in it, and whether that message has other content before it."""

    message_index: int
    part_index: int
    follows_content: bool
    message: Message
    result: ToolResult


class _Repair:
    """Repairs a history that is not legal: it removes every result, and inserts it after its call.

    `content_before` has the number of parts before each message, without results.
    """

    def __init__(self, messages: Sequence[Message], losses: list[Loss]) -> None:
        self.messages = messages
        self.losses = losses
        self.answers: dict[tuple[int, int], _Answer] = {}
        self.orphans: set[tuple[int, int]] = set()
        self.content_before = [0]

    def run(self) -> list[Message]:
        """Match results to calls, and return the repaired history."""
        self._match()
        repaired: list[Message] = []
        for index, message in enumerate(self.messages):
            repaired += self._without_results(index, message)
            if message.role == "assistant":
                repaired += self._results_of(index, message)
        return repaired

    def _match(self) -> None:
        links = link_results(self.messages)
        for message_index, message in enumerate(self.messages):
            count = 0 if message.parts else 1
            for index, part in enumerate(message.parts):
                if type(part) is not ToolResult:
                    count += 1
                elif (link := links.get((message_index, index))) is None:
                    self.orphans.add((message_index, index))
                else:
                    self.answers[link[0]] = _Answer(message_index, index, count > 0, message, part)
            self.content_before.append(self.content_before[-1] + count)

    def _without_results(self, message_index: int, message: Message) -> list[Message]:
        parts = message.parts
        if not any(type(part) is ToolResult for part in parts):
            return [message]
        if message.role not in _RESULT_ROLES:
            detail = f"a message of the {message.role} cannot have results"
            self.losses.append(Loss(f"messages[{message_index}].role", "tool_result", "moved", detail, "minor"))
        parts_left: list[Part] = []
        for index, part in enumerate(parts):
            if type(part) is not ToolResult:
                parts_left.append(part)
            elif (message_index, index) in self.orphans:
                parts_left += _as_text(part)
                detail = f"no call {part.tool_call_id!r} came before it: it is sent as text of the user"
                self._lose(message_index, "orphan_result", detail)
        if not parts_left:
            return []
        return [Message("user", parts_left)] if message.role == "tool" else [replace(message, content=parts_left)]

    def _results_of(self, message_index: int, message: Message) -> list[Message]:
        results = []
        latest = (message_index, 0)
        for index, part in enumerate(message.parts):
            if type(part) is not ToolCall:
                continue
            answer = self.answers.get((message_index, index))
            if answer is None:
                detail = f"the call {part.id!r} has no result: one with an error is added"
                self._lose(message_index, "missing_result", detail)
                results.append(Message("tool", [ToolResult(part.id, part.name, NO_RESULT, is_error=True)]))
                continue
            if answer[:2] < latest or self._was_interrupted(message_index, answer):
                detail = f"the result of {part.id!r} must follow its call"
                self._lose(answer.message_index, "order_of_results", detail, "moved")
            latest = max(latest, answer[:2])
            result = replace(answer.result, tool_call_id=part.id, name=answer.result.name or part.name)
            opaque = answer.message.opaque if answer.message.role == "tool" else None
            results.append(Message("tool", [result], opaque=opaque))
        return results

    def _was_interrupted(self, call_index: int, answer: _Answer) -> bool:
        """Return True if there is other content between the message of the call and the result."""
        if answer.message_index == call_index:
            return False
        return answer.follows_content or self.content_before[answer.message_index] > self.content_before[call_index + 1]

    def _lose(self, message_index: int, concept: str, detail: str, action: Action = "repaired") -> None:
        self.losses.append(
            Loss(f"messages[{message_index}]", concept, action, detail, severity_of_loss(concept, action))
        )


def _as_text(result: ToolResult) -> list[Part]:
    label = f"[result of {result.name or 'a tool'}]"
    if isinstance(result.content, str):
        return [Text(f"{label} {result.content}")]
    return [Text(label), *result.content]
