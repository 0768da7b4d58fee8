"""What is said after a bad answer, and what the user sees of a good one.

Rules of this file:
- The model reads each problem with its place, and nothing of its answer at length: it has written that.
- Each call of the answer's tool has a result like any other call, so that the history is valid at each turn.
- In the end the answer's tool was never there: an answer that came by it is the JSON of its arguments, and
  what was wrong with one is words of the user.
"""

from collections.abc import Sequence
from typing import Any, TypeGuard

from msgspec.structs import replace

from toolwire.client.structured.reading import AnswerProblems
from toolwire.loop.steps import ANSWER
from toolwire.types import Message, Response, Text, ToolCall, ToolResult
from toolwire.wire.arguments import argument_text

AGAIN = "Give the whole answer again, in the form that was asked for."
TOO_EARLY = (
    "not taken: other tools were called together with it. Give the answer again, alone, when you have read "
    "their results."
)


def repair(problems: AnswerProblems) -> str:
    """Say what is wrong with an answer, so that the next one can be right."""
    listed = "\n".join(f"- {problem}" for problem in problems.problems)
    return f"The answer cannot be used:\n{listed}\n\n{AGAIN}"


def answer_to(call: ToolCall, problems: AnswerProblems) -> ToolResult:
    """Give the result of a call of the answer's tool whose answer is not taken."""
    words = TOO_EARLY if problems.kind == "unfinished" else repair(problems)
    return ToolResult(call.id, call.name, words, is_error=True)


def next_messages(response: Response, problems: AnswerProblems) -> list[Message]:
    """Give what follows an answer without other calls: results of the answer's tool, or words of the user."""
    results = [answer_to(part, problems) for part in response.parts if is_answer(part)]
    return [Message("tool", [result]) for result in results] or [Message("user", repair(problems))]


def is_answer(part: Any) -> TypeGuard[ToolCall]:
    """Whether a part is a call of the answer's tool, which the user never sees."""
    return type(part) is ToolCall and part.name == ANSWER


def settled(response: Response) -> Response:
    """Give a response whose answer is words, also where it came as a call."""
    if not response.choices or not any(map(is_answer, response.parts)):
        return response
    first, *others = response.choices
    reason = "stop" if first.finish_reason == "tool_calls" else first.finish_reason
    first = replace(first, message=_in_words(first.message), finish_reason=reason)
    return replace(response, choices=[first, *others])


def settled_history(messages: Sequence[Message]) -> list[Message]:
    """Give messages without the answer's tool: what was called by it, and what came of that, in words.

    A call beside others was not taken, and goes with its result: there is no place for words between them.
    """
    made: list[Message] = []
    told = True
    for message in messages:
        if any(map(is_answer, message.parts)):
            told = all(is_answer(part) for part in message.parts if type(part) is ToolCall)
            message = _in_words(message) if told else _without(message)  # noqa: PLW2901 - it is what is kept
        elif any(map(_answers, message.parts)):
            message = _told(message) if told else _without(message)  # noqa: PLW2901 - it is what is kept
        if message.content != []:
            made.append(message)
    return made


def _answers(part: Any) -> TypeGuard[ToolResult]:
    return type(part) is ToolResult and part.name == ANSWER


def _told(message: Message) -> Message:
    """Give what was wrong with answers as words of the user."""
    return Message("user", "\n".join(str(part.content) for part in message.parts if _answers(part)))


def _in_words(message: Message) -> Message:
    """Give an answer with the JSON of its call; words beside the call are no part of the answer."""
    called = any(map(is_answer, message.parts))
    kept = [part for part in message.parts if not (called and type(part) is Text)]
    return replace(message, content=[Text(argument_text(part)) if is_answer(part) else part for part in kept])


def _without(message: Message) -> Message:
    """Give a message without calls of the answer's tool, or without their results."""
    return replace(message, content=[part for part in message.parts if not (is_answer(part) or _answers(part))])
