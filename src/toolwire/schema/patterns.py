"""Regular expressions with bounded run time: a linear engine where possible, and a work limit where not.

Rules of this file:
- A pattern is compiled by the linear engine if possible. Look-around and back-references need the backtracking
  engine, which stops after a number of steps. A text that would need more steps is rejected, never accepted.
- A pattern is weighed by its repetitions. Heavy patterns may process only a limited amount of text per validation.
"""

import re
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema_rs import FancyRegexOptions, RegexOptions

LIGHT = 100
MAX_WORK = 30_000_000
MAX_WEIGHT = 100_000
_MAX_COMPILED_SIZE = 10_000_000
_MAX_BACKTRACKS = 10_000
_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\(|\)|\{(\d{0,9})(?:,(\d{0,9}))?\}|[\s\S]", re.DOTALL)


def pattern_weight(pattern: str) -> int:
    """Count the single characters that `pattern` matches once its repetitions are written out."""
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


def linear_engine() -> "RegexOptions":
    """Return the options of the engine whose run time is proportional to the text."""
    from jsonschema_rs import RegexOptions  # noqa: PLC0415 - loaded with the first schema

    return RegexOptions(size_limit=_MAX_COMPILED_SIZE, dfa_size_limit=_MAX_COMPILED_SIZE)


def backtracking_engine() -> "FancyRegexOptions":
    """Return the options of the engine with look-around and back-references, which stops after a number of steps."""
    from jsonschema_rs import FancyRegexOptions  # noqa: PLC0415 - loaded with the first schema

    return FancyRegexOptions(
        backtrack_limit=_MAX_BACKTRACKS, size_limit=_MAX_COMPILED_SIZE, dfa_size_limit=_MAX_COMPILED_SIZE
    )


class Meter:
    """Counts the work of all patterns in one validation."""

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent: int = 0

    @property
    def over(self) -> bool:
        """Return True if the work limit was exceeded."""
        return self.spent > MAX_WORK


METER: ContextVar[Meter | None] = ContextVar("METER", default=None)


class MeteredPattern:
    """An implementation of the keyword `pattern` that counts its work. It is used for heavy patterns only."""

    __slots__ = ("_backtracks", "_validator", "_weight")

    def __init__(self, _parent: dict[str, Any], pattern: Any, _path: list[str | int]) -> None:
        from jsonschema_rs import Draft202012Validator, ValidationError  # noqa: PLC0415 - loaded by now

        self._weight = pattern_weight(pattern)
        self._backtracks = False
        try:
            self._validator = Draft202012Validator({"pattern": pattern}, pattern_options=linear_engine())
        except ValidationError:
            self._validator = Draft202012Validator({"pattern": pattern}, pattern_options=backtracking_engine())
            self._backtracks = True

    def validate(self, value: Any) -> None:
        """Raise `ValueError` if `value` does not match, or would take too long."""
        if type(value) is not str:
            return
        meter = METER.get() or Meter()
        meter.spent += len(value) * (self._weight + (len(value) // 2 if self._backtracks else 0))
        if meter.over:
            raise ValueError("too much text for a pattern")
        if self._validator.is_valid(value):
            return
        if self._backtracks and self._hit_step_limit(value):
            meter.spent = MAX_WORK + 1
        raise ValueError("no match")

    def _hit_step_limit(self, value: str) -> bool:
        """Return True if the engine stopped before it had a result.

        Such a text must not count as "no match", because the pattern may be below a `not`.
        """
        from jsonschema_rs import ValidationErrorKind  # noqa: PLC0415 - loaded by now

        error = next(self._validator.iter_errors(value))
        return not isinstance(error.kind, ValidationErrorKind.Pattern)
