"""Recipes: a tool that is done by a plan of other tools, instead of by a function.

Rules of this file:
- A plan has `serial` and `parallel` steps and may have `compose`; what is missing or empty is passed through.
- A step is `{tool, arguments, label}`; its arguments may be a function of what the serial steps
  before it gave, by the name of their tool.
- A step that fails is collected and stops nothing. Results keep the order of the plan.
- A recipe that raises, or gives no plan, is an error result. One that composes nothing leaves its tool to be
  run directly.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolwire.errors import InvalidField, ToolError, UnknownTool
from toolwire.resolvers.protocol import recipe_of, resolving
from toolwire.types import ToolCall, ToolResult
from toolwire.types.frozen import copied_map
from toolwire.waiting.results import describe_error, failure, result_of
from toolwire.waiting.steps import Ask, Together, Work, count_positional

_BROKEN = "Recipe evaluation error: "
_NOTHING = "No results produced."


class Step(Struct, frozen=True):
    """One call of a plan."""

    tool: str
    arguments: dict[str, Any] | Callable[[dict[str, Any]], dict[str, Any]] = {}
    label: str = ""


class Plan(Struct, frozen=True):
    """The steps of a recipe; `compose(serial_results, parallel_results, errors)` makes the result of them.

    A `compose` that takes a single argument gets the three as a map.
    """

    serial: Sequence[Step] = ()
    parallel: Sequence[Step] = ()
    compose: Callable[..., object] | None = None


class StepResult(Struct, frozen=True):
    """The result of a step."""

    tool: str
    label: str
    content: Any


class StepError(Struct, frozen=True):
    """Why a step has no result."""

    tool: str
    label: str
    reason: str


def dispatching(resolver: Any, call: ToolCall, context: Any = None) -> Work[ToolResult]:
    """Run a call: by its recipe if the resolver has one, else directly."""
    recipe = recipe_of(resolver, call.name) if call.runs else None
    if recipe is None:
        return (yield from resolving(resolver, call, context))
    try:
        planned = yield from planning(recipe, call, context)
        if isinstance(planned, RefusedPlan):
            return planned.result
        composed = yield from _follow(_plan_of(planned), resolver, context, outer_of(recipe))
    except ToolError as problem:
        return failure(call, str(problem))
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a recipe may raise anything, and the model reads it
        return failure(call, _BROKEN + describe_error(problem))
    if composed in (None, ""):
        return (yield from resolving(resolver, call, context))
    return result_of(composed, call)


class RefusedPlan(Struct, frozen=True):
    """What a recipe gives in the place of a plan, where somebody refused the call."""

    result: ToolResult


def planning(recipe: Callable[..., Any], call: ToolCall, context: Any) -> Work[Any]:
    """Ask a recipe for its plan; the recipe of a wrapped resolver says that as steps."""
    steps = getattr(recipe, "planning", None)
    if steps is not None:
        return (yield from steps(call, context))
    return (yield Ask(recipe, (copied_map(call.plain_arguments),)))


def outer_of(recipe: Any) -> Callable[[str], str | None]:
    """Give what says how a tool that a recipe names is called by whoever follows its plan."""
    return getattr(recipe, "outer", None) or _same


def _same(name: str) -> str:
    return name


def _plan_of(plan: Any) -> Plan:
    """Read a plan; a map is one as well."""
    if isinstance(plan, Plan):
        return plan
    if not isinstance(plan, Mapping):
        raise InvalidField("plan", f"must be a map or a Plan, not {type(plan).__name__}")
    unknown = sorted(set(plan) - {"serial", "parallel", "compose"})
    if unknown:
        raise InvalidField(str(unknown[0]), "must be one of serial, parallel, compose", path="plan")
    compose = plan.get("compose")
    if compose is not None and not callable(compose):
        raise InvalidField("compose", "must be a function", path="plan")
    return Plan(_steps_of(plan, "serial"), _steps_of(plan, "parallel"), compose)


def _steps_of(plan: Mapping[str, Any], phase: str) -> list[Step]:
    return [_step_of(step, f"plan.{phase}[{index}]") for index, step in enumerate(plan.get(phase) or ())]


def _step_of(step: Any, path: str) -> Step:
    match step:
        case Step():
            return step
        case {"tool": str(tool), **rest} if rest.keys() <= {"arguments", "label"}:
            arguments = rest.get("arguments") or {}
            if isinstance(arguments, dict) or callable(arguments):
                return Step(tool, arguments, str(rest.get("label") or tool))
            raise InvalidField("arguments", "must be a map, or a function of the results so far", path=path)
    raise InvalidField("step", "must be a map of tool, arguments and label", path=path)


def _follow(plan: Plan, resolver: Any, context: Any, outer: Callable[[str], str | None]) -> Work[Any]:
    serial: list[StepResult] = []
    parallel: list[StepResult] = []
    errors: list[StepError] = []
    known: dict[str, Any] = {}
    for number, step in enumerate(plan.serial, 1):
        outcome = yield from _do(step, f"dispatch_serial_{number}", known, resolver, context, outer)
        if type(outcome) is StepResult:
            known[step.tool] = outcome.content
            serial.append(outcome)
        else:
            errors.append(outcome)
    works = [
        _do(step, f"dispatch_parallel_{number}", known, resolver, context, outer)
        for number, step in enumerate(plan.parallel, 1)
    ]
    for outcome in (yield Together(works)) if works else ():
        (parallel if type(outcome) is StepResult else errors).append(outcome)
    if plan.compose is None:
        return report(serial, parallel, errors)
    outcomes = {"serial_results": serial, "parallel_results": parallel, "errors": errors}
    whole = count_positional(plan.compose) == 1
    return (yield Ask(plan.compose, (outcomes,) if whole else tuple(outcomes.values())))


def _do(
    step: Step, call_id: str, known: dict[str, Any], resolver: Any, context: Any, outer: Callable[[str], str | None]
) -> Work[Any]:
    """Do one step; what goes wrong is its error."""
    label = step.label or step.tool
    try:
        arguments = step.arguments
        if not isinstance(arguments, dict):
            arguments = yield Ask(arguments, (dict(known),))
        if not isinstance(arguments, dict):
            return StepError(step.tool, label, "its arguments are not a map")
        name = outer(step.tool)
        if name is None:
            return StepError(step.tool, label, "the tool is hidden here")
        result = yield from resolving(resolver, ToolCall(call_id, name, arguments), context)
    except UnknownTool as problem:
        return StepError(step.tool, label, str(problem))
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a step that fails is collected, and stops nothing
        return StepError(step.tool, label, describe_error(problem))
    if result.is_error:
        return StepError(step.tool, label, _words(result.content))
    return StepResult(step.tool, label, result.content)


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(getattr(part, "text", None) or f"[{type(part).__name__.lower()}]" for part in content)


def report(serial: Sequence[StepResult], parallel: Sequence[StepResult], errors: Sequence[StepError]) -> str:
    """Write the results of the steps, in Markdown."""
    parts: list[str] = []
    if serial:
        parts.append("## Sequential Results")
        parts += [f"### Step {number}: {one.label}\n\n{_words(one.content)}" for number, one in enumerate(serial, 1)]
    if parallel:
        parts.append("## Additional Results")
        parts += [f"### {one.label}\n\n{_words(one.content)}" for one in parallel]
    if errors:
        parts += ["## Errors", "\n".join(f"- **{one.label}**: {one.reason}" for one in errors)]
    return "\n\n".join(parts) or _NOTHING
