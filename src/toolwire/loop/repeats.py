"""Whether a run goes around in a circle: the same calls with the same results, one turn after the other.

Rule: a turn is told by its names, arguments and results; ids do not count.
"""

import json
from collections.abc import Sequence

from toolwire.types import ToolCall, ToolResult


def circle(seen: Sequence[str], limit: int, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str | None:
    """Say what repeats itself, if the last turns did so `limit` times: alone, in pairs, or as errors."""
    if limit < 2:
        return None
    for length in (1, 2):
        last = seen[-limit * length :]
        rounds = [last[n : n + length] for n in range(0, len(last), length)]
        if len(rounds) == limit and len(set(rounds[0])) == length and all(one == rounds[0] for one in rounds):
            return _told(calls, results, limit)
    errors = [_errors_of(one) for one in seen[-limit:]]
    if len(errors) == limit and errors[0] and len(set(errors)) == 1:
        return f"tool error repeated {limit}+ times: {_words(results)}"
    return None


def fingerprint(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
    """Say in a text what was called and what came of it; ids do not count."""
    said = [
        [
            call.name,
            call.arguments,
            call.raw if call.error or call.custom else None,
            repr(result.content),
            result.is_error,
        ]
        for call, result in zip(calls, results, strict=True)
    ]
    return json.dumps(said, sort_keys=True, default=repr)


def _errors_of(fingerprint: str) -> str:
    """Give the errors of a turn, if there were nothing but errors."""
    said = json.loads(fingerprint)
    return json.dumps([[one[0], one[3]] for one in said]) if said and all(one[4] for one in said) else ""


def _words(results: Sequence[ToolResult]) -> str:
    return "; ".join(str(result.content)[:200] for result in results if result.is_error)


def _told(calls: Sequence[ToolCall], results: Sequence[ToolResult], limit: int) -> str:
    names = ", ".join(dict.fromkeys(call.name for call in calls))
    errors = _words(results)
    return f"{names} had the same result {limit} times{f': {errors}' if errors else ''}"
