"""Who plays the model: a script, a function, or the echo; asked once for each request that is legal.

Rule: a script is strict. A request beyond its last turn, a turn that nobody asked for and an expectation that
does not hold are each a problem, and a simulation with problems fails at its end.
"""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from toolwire.errors import InvalidField
from toolwire.testing.echo import echo
from toolwire.testing.steps import STEPS, Player, ScriptStep, Turn
from toolwire.testing.written import read_file, read_scenario, steps_of
from toolwire.types import Request


class NoTurnLeft(Exception):
    """A script has no turn for a request."""


_Turns = Sequence[object] | Mapping[str, Any] | Callable[..., object] | os.PathLike[str] | ScriptStep


class Scenario:
    """A script of turns, or a function that gives them.

    `by="request"` plays the turns in the order of the requests. `by="round"` plays the turn that the history
    has come to, so that several conversations at once go through the same script. `repeat` begins again after
    the last turn; `complete=False` lets turns be left over.
    """

    def __init__(
        self,
        turns: Any,
        *,
        by: Literal["request", "round"] = "request",
        repeat: bool = False,
        complete: bool = True,
    ) -> None:
        if by not in ("request", "round"):
            raise InvalidField("by", f"must be 'request' or 'round', not {by!r}", path="Scenario")
        self.by: Literal["request", "round"] = by
        self.repeat: bool = repeat
        self.complete: bool = complete
        self.function: Player | None = turns if callable(turns) else None
        self.turns: list[list[ScriptStep]] = [] if callable(turns) else read_scenario(turns)[0]
        self.asked: set[int] = set()

    @classmethod
    def of(cls, source: "AnyScenario") -> "Scenario":
        """Make a scenario of whatever may stand for one; None is the echo, one step answers every request."""
        if source is None:
            return cls(echo)
        if isinstance(source, Scenario):
            return source
        if isinstance(source, str | os.PathLike):
            turns, options = read_file(source)
            return cls(turns, **options)
        if isinstance(source, Mapping) and "turns" in source:
            turns, options = read_scenario(source)
            return cls(turns, **options)
        if callable(source) or isinstance(source, list | tuple):
            return cls(source)
        if isinstance(source, (*STEPS, Mapping)):
            return cls([source], repeat=True)
        raise InvalidField("scenario", f"must be turns, a function or a file, not {type(source).__name__}")

    async def play(self, request: Request, turn: Turn) -> list[ScriptStep]:
        """Give the steps of the answer to a request."""
        if self.function is None:
            return self._scripted(turn.number if self.by == "request" else turn.round)
        answer = self.function(request, turn)
        if inspect.isawaitable(answer):
            answer = await answer
        return steps_of(answer, "the function's answer")

    def _scripted(self, place: int) -> list[ScriptStep]:
        if self.repeat and self.turns:
            place %= len(self.turns)
        self.asked.add(place)
        if place >= len(self.turns):
            raise NoTurnLeft(f"the scenario has {len(self.turns)} turns, and this asks for number {place + 1}")
        return self.turns[place]

    def left(self) -> list[str]:
        """Say which turns nobody asked for."""
        if not self.complete or self.function is not None or self.repeat:
            return []
        unasked = [place + 1 for place in range(len(self.turns)) if place not in self.asked]
        numbers = ", ".join(map(str, unasked))
        return [f"nobody asked for turn {numbers} of {len(self.turns)}"] if unasked else []


def rounds_of(request: Request) -> int:
    """Count the answers in a history; those that follow each other are one."""
    roles = [message.role for message in request.messages]
    return sum(
        role == "assistant" and before != "assistant" for before, role in zip([None, *roles], roles, strict=False)
    )


AnyScenario = Scenario | _Turns | None
