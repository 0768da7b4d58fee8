"""Patterns that end in time: a linear engine where it will do, and a limit on the work where it will not.

Rules of this file:
- A pattern is first read by the engine that never goes back. Look-around and back-references need the other
  one, which stops after a number of steps; a text that takes more is refused, never let through.
- What a pattern repeats is weighed: a heavy one meets only so much text in one validation.
"""

import re
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema_rs import FancyRegexOptions, RegexOptions

LIGHT = 100
MAX_WORK = 30_000_000
MAX_WEIGHT = 100_000
_SIZE = 10_000_000
_STEPS = 10_000
_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\(|\)|\{(\d{0,9})(?:,(\d{0,9}))?\}|[\s\S]", re.DOTALL)


def weight(pattern: str) -> int:
    """Count the single characters that a pattern looks for, once its repetitions are written out."""
    groups: list[int] = [0]
    last = 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if text == "(":
            groups.append(0)
            last = 0
        elif text == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif token[1] or token[2]:
            times = max(int(token[1] or 0), int(token[2] or 0))
            groups[-1] += last * max(times - 1, 0)
            last = min(last * max(times, 1), 10 * MAX_WEIGHT)
        elif text not in "^$|*+?":
            last = 1
            groups[-1] += 1
    return min(sum(groups), 10 * MAX_WEIGHT)


def linear() -> "RegexOptions":
    """Give the engine that takes a time proportional to the text."""
    from jsonschema_rs import RegexOptions  # noqa: PLC0415 - loaded with the first schema

    return RegexOptions(size_limit=_SIZE, dfa_size_limit=_SIZE)


def stepping() -> "FancyRegexOptions":
    """Give the engine that knows look-around and back-references, and stops after a number of steps."""
    from jsonschema_rs import FancyRegexOptions  # noqa: PLC0415 - loaded with the first schema

    return FancyRegexOptions(backtrack_limit=_STEPS, size_limit=_SIZE, dfa_size_limit=_SIZE)


class Meter:
    """The work that patterns have made of the texts of one validation."""

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent: int = 0

    @property
    def over(self) -> bool:
        """Whether it was more than is allowed."""
        return self.spent > MAX_WORK


METER: ContextVar[Meter | None] = ContextVar("METER", default=None)


class MeteredPattern:
    """The keyword `pattern`, where its work has to be counted."""

    __slots__ = ("_steps", "_validator", "_weight")

    def __init__(self, _parent: dict[str, Any], pattern: Any, _path: list[str | int]) -> None:
        from jsonschema_rs import Draft202012Validator, ValidationError  # noqa: PLC0415 - loaded by now

        self._weight = weight(pattern)
        self._steps = False
        try:
            self._validator = Draft202012Validator({"pattern": pattern}, pattern_options=linear())
        except ValidationError:
            self._validator = Draft202012Validator({"pattern": pattern}, pattern_options=stepping())
            self._steps = True

    def validate(self, value: Any) -> None:
        """Refuse a text that does not match, or that would take too long."""
        if type(value) is not str:
            return
        meter = METER.get() or Meter()
        meter.spent += len(value) * (self._weight + (len(value) // 2 if self._steps else 0))
        if meter.over:
            raise ValueError("too much text for a pattern")
        if self._validator.is_valid(value):
            return
        if self._steps and self._gave_up(value):
            meter.spent = MAX_WORK + 1
        raise ValueError("no match")

    def _gave_up(self, value: str) -> bool:
        """Whether the engine stopped before it knew; what does not match may stand below a `not`."""
        from jsonschema_rs import ValidationErrorKind  # noqa: PLC0415 - loaded by now

        error = next(self._validator.iter_errors(value))
        return not isinstance(error.kind, ValidationErrorKind.Pattern)
