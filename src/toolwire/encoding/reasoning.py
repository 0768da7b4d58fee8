"""Which models reason, how hard, and how a request from another wire says that to them.

What a model takes comes from its server's quirks, or else from what is known of its family (`families.json`).
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.families import family_of
from toolwire.encoding.ledger import Ledger
from toolwire.types import Request, Severity

# From the least to the most.
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# Values of `thinking` with which a model does not think.
UNTHINKING = frozenset({"disabled", "between_tools"})
# Fields that say how much to think, as effort does.
WITH_EFFORT = frozenset({"thinking", "thinking_budget"})
# A budget of tokens becomes a level on a wire that knows no other word than effort: one that all models of Chat
# Completions and Responses that reason take, in the middle of what Messages and generateContent give for it (see
# `_BUDGETS` of both).
_LEVELS = ((4096, "low"), (16384, "medium"), (float("inf"), "high"))
# What asks a model to reason, and the values that ask for none of it.
_REASONING: Mapping[str, Any] = {
    "thinking": "disabled",
    "thinking_budget": 0,
    "thinking_display": None,
    "effort": "none",
}
_wishes = attrgetter(*_REASONING)
_NO_WISHES = (None,) * len(_REASONING)


def nearest_effort(effort: str, levels: Sequence[str]) -> str:
    """Return the level of `levels` that is nearest to `effort`, the higher of two; an unknown effort stays as it is."""
    if effort not in EFFORTS:
        return effort
    meant = EFFORTS.index(effort)
    return min(reversed(levels), key=lambda level: abs(EFFORTS.index(level) - meant))


def can_reason(request: Request, ledger: Ledger) -> bool | None:
    """Return whether the model of `request` can reason; None if neither its server nor its family says."""
    return family_of(request.model).reasons if ledger.quirks.reasons is None else ledger.quirks.reasons


def will_reason(request: Request, ledger: Ledger) -> bool | None:
    """Return whether the model reasons when it gets `request`; None if neither its server nor its family says."""
    family = family_of(request.model)
    if request.effort == "none" and "none" in (family.efforts or EFFORTS):
        return False
    unasked = family.reasons_unasked is not False or request.effort is not None
    return family.reasons and unasked if ledger.quirks.reasons is None else ledger.quirks.reasons


def without_progress_notes(request: Request, ledger: Ledger) -> Request:
    """Return `request` with thinking off where Messages only thinks between tools (anthropic 2.11.0, ThinkingTypes)."""
    if request.thinking != "between_tools" or ledger.wire.thinks_between_tools:
        return request
    ledger.lose("thinking", "thinking", f"{ledger.dialect} tells nothing between tools", "approximated", "minor")
    return replace(request, thinking="disabled")


def limit_reasoning(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Return the fields to change so that the model takes what `request` says of reasoning."""
    if _wishes(request) != _NO_WISHES and can_reason(request, ledger) is False:
        return _without_reasoning(request, ledger)
    if (request.thinking is not None or request.thinking_budget is not None) and request.effort is None:
        return _as_effort(request, ledger)
    return {}


def _without_reasoning(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Leave out all that asks a model to reason that cannot."""
    asked = {field: none for field, none in _REASONING.items() if getattr(request, field) is not None}
    for field, none in asked.items():
        severity: Severity | None = "formal" if getattr(request, field) == none else None
        ledger.lose(field, field, f"{request.model} does not reason", severity=severity)
    return dict.fromkeys(asked)


def _as_effort(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Say as an effort how much to think, where the model takes no number of tokens and no other word for it."""
    family, budget, alone = family_of(request.model), request.thinking_budget, ledger.wire.knows_effort_alone
    if budget == 0 or request.thinking in UNTHINKING:
        return _without_nothing(request, ledger)
    levelled = can_reason(request, ledger) if alone else family.thinking_budget is False
    if not levelled:
        return {}
    if budget is not None and budget > 0:
        effort, field = next(level for most, level in _LEVELS if budget < most), "thinking_budget"
    elif alone and family.reasons_unasked is False:
        effort, field = "medium", "thinking_budget" if request.thinking is None else "thinking"
    else:
        return {}
    ledger.lose(field, field, f"said as effort {effort}", "approximated")
    thinking = None if alone else request.thinking or "adaptive"
    return {"thinking": thinking, "thinking_budget": None, "effort": effort}


def _without_nothing(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Leave out that a model is not to think, where it does so only when it is asked to, or say it as an effort."""
    family = family_of(request.model)
    fields = [field for field in WITH_EFFORT if getattr(request, field) in ("disabled", 0)]
    if family.reasons_unasked is False:
        for field in fields:
            ledger.lose(field, field, f"{request.model} reasons only where it is asked to", severity="formal")
        return dict.fromkeys(fields)
    off = family.reasons and family.efforts and ledger.wire.knows_effort_alone
    return {**dict.fromkeys(fields), "effort": "none"} if off else {}
