"""Steps, put together: the whole answer that they make, and the cues of what happens when.

Rule: each part keeps its place. A cue names the part by it, so that what is done to the answer as a whole
(ids, signatures) does not disturb the order.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.encoding.finish import asks
from toolwire.testing.steps import Cut, Expect, Fail, Finish, Pace, Raw, ScriptStep, Wait
from toolwire.types import Choice, Error, Message, Part, Response, Text, Usage


class Say(Struct, frozen=True):
    """Say a part: of which choice, at which place in it."""

    choice: int
    place: int


class Script(Struct, frozen=True):
    """A whole answer, the cues in their order, and what the request must say before."""

    response: Response
    cues: list[Say | Wait | Pace | Cut | Raw | Fail]
    expected: list[Expect]

    @property
    def answers(self) -> bool:
        """Whether there is an answer, and not bytes alone."""
        return bool(self.response.choices)

    @property
    def failure(self) -> Fail | None:
        """The error that is answered instead of anything else."""
        first = next((cue for cue in self.cues if not isinstance(cue, Wait | Pace)), None)
        return first if isinstance(first, Fail) else None


class _Gathered:
    """What steps have said so far."""

    def __init__(self) -> None:
        self.shell: Response | None = None
        self.parts: list[list[Part]] = []
        self.ends: list[Choice] = []
        self.usage: Usage | None = None
        self.finish: Finish | None = None
        self.cues: list[Any] = []
        self.expected: list[Expect] = []

    def take(self, step: ScriptStep) -> None:
        match step:
            case Response():
                self._take_response(step)
            case Message():
                self._say(step.parts)
            case str():
                self._say([Text(text=step)])
            case Usage():
                self.usage = step
            case Finish():
                self.finish = step
            case Expect():
                self.expected.append(step)
            case Error():
                self.cues.append(Fail(step))
            case Wait() | Pace() | Cut() | Raw() | Fail():
                self.cues.append(step)
            case _:
                self._say([step])

    def _say(self, parts: Any, choice: int = 0) -> None:
        while len(self.parts) <= choice:
            self.parts.append([])
        for part in parts:
            self.cues.append(Say(choice, len(self.parts[choice])))
            self.parts[choice].append(part)

    def _take_response(self, response: Response) -> None:
        self.shell = response
        for place, choice in enumerate(response.choices):
            self._say(choice.message.parts, place)
            self.ends = [*self.ends[:place], choice]

    def whole(self) -> Response:
        """Put the answer together."""
        shell = replace(self.shell or Response(), choices=list(self._choices()))
        return shell if self.usage is None else replace(shell, usage=self.usage)

    def _choices(self) -> Iterator[Choice]:
        wanted = self.finish is not None or self.shell is not None
        for place, parts in enumerate(self.parts or ([[]] if wanted else [])):
            usual: Any = "tool_calls" if asks(parts) else "stop"
            end = self.ends[place] if place < len(self.ends) else Choice(Message("assistant", []))
            reason = end.finish_reason or usual
            if self.finish is not None and place == 0:
                end = replace(end, stop_sequence=self.finish.stop_sequence, raw_finish_reason=None)
                reason = self.finish.reason
            yield replace(end, message=replace(end.message, content=parts), finish_reason=reason)


def script_of(steps: list[ScriptStep]) -> Script:
    """Put steps together."""
    gathered = _Gathered()
    for step in steps:
        gathered.take(step)
    return Script(gathered.whole(), gathered.cues, gathered.expected)
