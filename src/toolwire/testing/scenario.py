"""The player of the simulated model: a script, a function, or the echo. It is called once for each accepted request.

Rule: a script is strict. A request after its last turn, a turn that was not requested and an unmet expectation are
problems, and a simulation with problems fails at its end.
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
    """A script of turns, or a function that returns them.

    `by="request"` plays the turns in the order of the requests. `by="round"` plays the turn that the history has
    reached, so that several concurrent conversations follow the same script. `repeat` starts again after the last turn;
    `complete=False` allows turns to be left over.

    >>> from toolwire import Client
    >>> from toolwire.testing import Scenario, simulate
    >>> with simulate(Scenario(["Yes.", "No."], repeat=True)) as model:
    ...     with Client("openai", "gpt-6-sol", base_url=model.url, api_key="any") as client:
    ...         [client.run("Is it so?").content for _ in range(3)]
    ['Yes.', 'No.', 'Yes.']
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
        """Return a scenario for `source`: None is the echo, and a single step answers every request.

        Raise InvalidField for any other value.
        """
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
        """Return the steps of the answer to a request."""
        if self.function is None:
            return self._scripted_turn(turn.number if self.by == "request" else turn.round)
        answer = self.function(request, turn)
        if inspect.isawaitable(answer):
            answer = await answer
        return steps_of(answer, "the function's answer")

    def _scripted_turn(self, index: int) -> list[ScriptStep]:
        """Return the steps of turn `index`, and note that it was requested. Raise `NoTurnLeft` after the last."""
        if self.repeat and self.turns:
            index %= len(self.turns)
        self.asked.add(index)
        if index >= len(self.turns):
            raise NoTurnLeft(f"the scenario has {len(self.turns)} turns, and this is request {index + 1}")
        return self.turns[index]

    def left(self) -> list[str]:
        """Return the problem that turns were not requested, if any."""
        if not self.complete or self.function is not None or self.repeat:
            return []
        unasked = [index + 1 for index in range(len(self.turns)) if index not in self.asked]
        numbers = ", ".join(map(str, unasked))
        return [f"turn {numbers} of {len(self.turns)} was not requested"] if unasked else []


def rounds_of(request: Request) -> int:
    """Return the number of answers in a history; consecutive ones count once."""
    roles = [message.role for message in request.messages]
    return sum(
        role == "assistant" and before != "assistant" for before, role in zip([None, *roles], roles, strict=False)
    )


AnyScenario = Scenario | _Turns | None
