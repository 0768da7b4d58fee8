"""Adapt the reasoning settings of a request from another wire to its model.

The settings that a model accepts are known from its server's quirks, or else from its family (`families.json`).
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.families import family_of
from toolwire.encoding.ledger import Ledger
from toolwire.types import Request, Severity

# From the lowest to the highest.
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# Values of `thinking` with which a model does not think before its answer.
UNTHINKING = frozenset({"disabled", "between_tools"})
# Fields that, like effort, determine how much the model thinks.
WITH_EFFORT = frozenset({"thinking", "thinking_budget"})
# The levels of effort for a budget of tokens, on a wire that has only an effort. All models of Chat Completions and
# Responses that reason accept these. The bounds are between the budgets that Messages and generateContent use for each
# level (see `_BUDGETS` of both).
_LEVELS_BY_BUDGET = ((4096, "low"), (16384, "medium"), (float("inf"), "high"))
# The fields that ask a model to reason, each with the value that asks for no reasoning.
_REASONING: Mapping[str, Any] = {
    "thinking": "disabled",
    "thinking_budget": 0,
    "thinking_display": None,
    "effort": "none",
}
_reasoning_values = attrgetter(*_REASONING)
_NOTHING_ASKED = (None,) * len(_REASONING)


def nearest_effort(effort: str, levels: Sequence[str]) -> str:
    """Return the level that is nearest to `effort`, the higher of two. An unknown effort is returned unchanged."""
    if effort not in EFFORTS:
        return effort
    wanted = EFFORTS.index(effort)
    return min(reversed(levels), key=lambda level: abs(EFFORTS.index(level) - wanted))


def can_reason(request: Request, ledger: Ledger) -> bool | None:
    """Return True if the model of `request` can reason, or None if that is not known."""
    return family_of(request.model).reasons if ledger.quirks.reasons is None else ledger.quirks.reasons


def will_reason(request: Request, ledger: Ledger) -> bool | None:
    """Return True if the model will reason for `request`, or None if that is not known."""
    family = family_of(request.model)
    if request.effort == "none" and "none" in (family.efforts or EFFORTS):
        return False
    unasked = family.reasons_unasked is not False or request.effort is not None
    return family.reasons and unasked if ledger.quirks.reasons is None else ledger.quirks.reasons


def without_progress_notes(request: Request, ledger: Ledger) -> Request:
    """Return `request` with thinking off, if it asks for thinking only between tools and the wire cannot.

    Messages can (anthropic 2.11.0, ThinkingTypes).
    """
    if request.thinking != "between_tools" or ledger.wire.thinks_between_tools:
        return request
    detail = f"{ledger.dialect} cannot think only between tools: thinking is turned off"
    ledger.lose("thinking", "thinking", detail, "approximated", "minor")
    return replace(request, thinking="disabled")


def limit_reasoning(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Return the changed fields with which the model accepts the reasoning settings of `request`."""
    if _reasoning_values(request) != _NOTHING_ASKED and can_reason(request, ledger) is False:
        return _without_reasoning(request, ledger)
    if (request.thinking is not None or request.thinking_budget is not None) and request.effort is None:
        return _as_effort(request, ledger)
    return {}


def _without_reasoning(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Return changes that remove the reasoning settings, for a model that cannot reason."""
    asked = {field: off for field, off in _REASONING.items() if getattr(request, field) is not None}
    for field, off in asked.items():
        severity: Severity | None = "formal" if getattr(request, field) == off else None
        ledger.lose(field, field, f"{request.model} does not reason", severity=severity)
    return dict.fromkeys(asked)


def _as_effort(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Return changes that replace thinking and its budget by an effort, for a model or a wire that has only that."""
    family, budget, alone = family_of(request.model), request.thinking_budget, ledger.wire.knows_effort_alone
    if budget == 0 or request.thinking in UNTHINKING:
        return _with_thinking_off(request, ledger)
    takes_effort = can_reason(request, ledger) if alone else family.thinking_budget is False
    if not takes_effort:
        return {}
    if budget is not None and budget > 0:
        effort, field = next(level for most, level in _LEVELS_BY_BUDGET if budget < most), "thinking_budget"
    elif alone and family.reasons_unasked is False:
        effort, field = "medium", "thinking_budget" if request.thinking is None else "thinking"
    else:
        return {}
    ledger.lose(
        field, field, f"{request.model or ledger.dialect} accepts only an effort: {effort} is sent", "approximated"
    )
    thinking = None if alone else request.thinking or "adaptive"
    return {"thinking": thinking, "thinking_budget": None, "effort": effort}


def _with_thinking_off(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Return changes that send an effort instead of thinking off. A model that thinks only if asked is sent nothing."""
    family = family_of(request.model)
    fields = [field for field in WITH_EFFORT if getattr(request, field) in ("disabled", 0)]
    if family.reasons_unasked is False:
        for field in fields:
            ledger.lose(field, field, f"{request.model} reasons only if a request asks for it", severity="formal")
        return dict.fromkeys(fields)
    off = family.reasons and family.efforts and ledger.wire.knows_effort_alone
    return {**dict.fromkeys(fields), "effort": "none"} if off else {}
