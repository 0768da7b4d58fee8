"""From an answer to the wanted value, or to what is wrong with it.

Rules of this file:
- JSON is the whole text or its only fenced block, exactly; it is looked for nowhere else, and never repaired.
- An answer that was refused, cut off or is not the last one is not read at all, whatever it looks like.
- A good answer is good whichever way it came; a value is given only after the full validation.
"""

import re
from typing import Any, Literal

from msgspec import Struct

from toolwire.client.structured.wanted import WantedForm
from toolwire.client.structured.ways import Way
from toolwire.encoding.finish import CUT
from toolwire.errors import InvalidField
from toolwire.loop.steps import ANSWER
from toolwire.text_tagged.zones import Zone, zone_of
from toolwire.types import Refusal, Response, ToolCall
from toolwire.wire.arguments import parse_arguments

MAX_PROBLEM = 600
REFUSED = frozenset({"refusal", "content_filter"})
NOT_CALLED = f"the answer must be given by calling {ANSWER}, not in words"
MENDABLE = frozenset({"empty", "no_json", "invalid"})
_THOUGHT = re.compile(r"\s*<(think|thinking)>.*?</\1>", re.DOTALL | re.IGNORECASE)


class ReadValue(Struct, frozen=True):
    """The value of an answer."""

    value: Any


class AnswerProblems(Struct, frozen=True):
    """Why an answer has no value: each problem with its place, and the text that came.

    `unfinished`: calls are to be run first, or the model paused. `refused` and `cut_off` would be the same
    again. The others can be mended.
    """

    kind: Literal["refused", "cut_off", "unfinished", "empty", "no_json", "invalid"]
    problems: tuple[str, ...]
    text: str = ""

    @property
    def mendable(self) -> bool:
        """Whether the model may do better if it is told."""
        return self.kind in MENDABLE


def read(response: Response, wanted: WantedForm, way: Way) -> ReadValue | AnswerProblems:
    """Read an answer."""
    calls = [part for part in response.parts if type(part) is ToolCall]
    answers = [call for call in calls if call.name == ANSWER]
    text = answers[0].raw or "" if answers else response.message.text
    unread = _unread(response, others=len(calls) > len(answers))
    if unread is not None:
        return AnswerProblems(*unread, text)
    if len(answers) > 1:
        return AnswerProblems("invalid", (f"{len(answers)} answers came, where one was expected",), text)
    if answers:
        answer, problem = answers[0].arguments, None if answers[0].runs else answers[0].error or "cut off"
    elif not text.strip():
        return AnswerProblems("empty", ("the answer says nothing",), text)
    else:
        answer, problem = _object_in(text, way)
    if problem is not None:
        return AnswerProblems("no_json", (shortened(problem),), text)
    return _valued(answer, wanted, way, text)


def _unread(response: Response, *, others: bool) -> tuple[Any, tuple[str, ...]] | None:
    """Say why an answer is not to be read, if it is not."""
    reason = response.finish_reason
    refusals = [part.text for part in response.parts if type(part) is Refusal]
    if refusals or reason in REFUSED:
        return "refused", (shortened("; ".join(filter(None, refusals)) or f"it ended with {reason}"),)
    if reason in CUT:
        return "cut_off", (f"the answer was cut off before it was whole ({reason})",)
    if others:
        return "unfinished", ("there are calls to run before the answer",)
    return ("unfinished", ("the model paused",)) if reason == "pause" else None


def _valued(answer: dict[str, Any], wanted: WantedForm, way: Way, text: str) -> ReadValue | AnswerProblems:
    """Make the value of an answer that is an object."""
    if way.strict:
        answer = wanted.pruned(answer)
    problems = wanted.problems(answer)
    if not problems:
        try:
            return ReadValue(wanted.value(answer))
        except InvalidField as problem:
            problems = [f"field {problem.field}: {problem.reason}"]
    return AnswerProblems("invalid", tuple(map(shortened, problems)), text)


def shortened(text: str) -> str:
    """Give the beginning of a problem that says too much."""
    return text if len(text) <= MAX_PROBLEM else f"{text[:MAX_PROBLEM]}..."


def _object_in(text: str, way: Way) -> tuple[dict[str, Any], str | None]:
    """Find the object that a text is, or that stands in its only block; a thought before is passed over."""
    thought = _THOUGHT.match(text)
    said = text[thought.end() :] if thought is not None else text
    if not said.lstrip().startswith("{"):
        blocks = _blocks(said)
        if not blocks:
            return {}, NOT_CALLED if way.kind == "tool" else "the answer is not a JSON object"
        if len(blocks) > 1:
            return {}, f"{len(blocks)} blocks of code came, where one JSON object was expected"
        said = blocks[0]
    answer, problem = parse_arguments(said)
    if problem is None and not said.lstrip().startswith("{"):
        problem = "the block is not a JSON object"
    return answer, problem


def _blocks(text: str) -> list[str]:
    """List what stands in the fenced blocks of a text that have an end."""
    found: list[str] = []
    zone: Zone | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        if zone is None:
            zone, lines = zone_of(line), []
        elif not zone.ends(line):
            lines.append(line)
        else:
            if zone.length:
                found.append("\n".join(lines))
            zone = None
    return found
