"""Recipes: a tool that is run as a plan of other tools, instead of by a function.

Rules of this file:
- A plan has `serial` and `parallel` steps, and optionally `compose`. Missing or empty parts are skipped.
- A step is `{tool, arguments, label}`. Its arguments may be a function of the results of the serial steps so far, by
  the name of their tool.
- A failing step is recorded as an error and stops nothing. Results keep the order of the plan.
- A recipe that raises, or returns no plan, is an error result. If a recipe composes nothing, its tool is run directly.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolwire.errors import InvalidField, ToolError, UnknownTool
from toolwire.resolvers.protocol import recipe_of, resolving
from toolwire.types import ToolCall, ToolResult
from toolwire.types.frozen import copy_map
from toolwire.waiting.results import describe_error, failure, result_of
from toolwire.waiting.steps import Ask, Together, Work, count_positional

_RECIPE_ERROR = "Recipe evaluation error: "
_NOTHING = "No results produced."


class Step(Struct, frozen=True):
    """One call of a plan.

    >>> from toolwire import Step
    >>> first = Step("search", {"query": "owls"}, "Overview")
    >>> second = Step("read", lambda results: {"text": results["search"].content})
    >>> (first.label, second.tool)
    ('Overview', 'read')
    """

    tool: str
    arguments: dict[str, Any] | Callable[[dict[str, Any]], dict[str, Any]] = {}
    label: str = ""


class Plan(Struct, frozen=True):
    """The steps of a recipe. `compose(serial_results, parallel_results, errors)` builds the result from them.

    A `compose` with a single parameter receives the three as a map.

    >>> from toolwire import AgentResolver, Plan, Step, ToolCall, execute
    >>> def search(query: str) -> str:
    ...     return f"found {query}"
    >>> def research(topic: str) -> str:
    ...     return "run by its recipe"
    >>> def plan(arguments):
    ...     step = Step("search", {"query": arguments["topic"]}, "Overview")
    ...     return Plan(serial=[step], compose=lambda serial, parallel, errors: serial[0].content)
    >>> resolver = AgentResolver([search, research], recipes={"research": plan})
    >>> execute([ToolCall("call_1", "research", {"topic": "owls"})], resolver)[0].content
    'found owls'
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
    """The reason why a step has no result."""

    tool: str
    label: str
    reason: str


def dispatching(resolver: Any, call: ToolCall, context: Any = None) -> Work[ToolResult]:
    """Run `call` as steps, with `context`: by its recipe if `resolver` has one, else directly."""
    recipe = recipe_of(resolver, call.name) if call.runs else None
    if recipe is None:
        return (yield from resolving(resolver, call, context))
    try:
        planned = yield from plan_steps(recipe, call, context)
        if isinstance(planned, RefusedPlan):
            return planned.result
        composed = yield from _run_plan(_plan_of(planned), resolver, context, name_mapping(recipe))
    except ToolError as problem:
        return failure(call, str(problem))
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a recipe may raise anything, and the model reads it
        return failure(call, _RECIPE_ERROR + describe_error(problem))
    if composed in (None, ""):
        return (yield from resolving(resolver, call, context))
    return result_of(composed, call)


class RefusedPlan(Struct, frozen=True):
    """The result of a recipe in place of a plan, if the call was refused."""

    result: ToolResult


def plan_steps(recipe: Callable[..., Any], call: ToolCall, context: Any) -> Work[Any]:
    """Return the plan of a recipe, as steps. The recipe of a wrapped resolver is a generator itself."""
    steps = getattr(recipe, "planning", None)
    if steps is not None:
        return (yield from steps(call, context))
    return (yield Ask(recipe, (copy_map(call.plain_arguments),)))


def name_mapping(recipe: Any) -> Callable[[str], str | None]:
    """Return the function that maps the tool names of a recipe to the names that the resolver uses."""
    return getattr(recipe, "outer", None) or _same


def _same(name: str) -> str:
    return name


def _plan_of(plan: Any) -> Plan:
    """Validate a plan. A map is accepted as well."""
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


def _run_plan(plan: Plan, resolver: Any, context: Any, outer: Callable[[str], str | None]) -> Work[Any]:
    serial: list[StepResult] = []
    parallel: list[StepResult] = []
    errors: list[StepError] = []
    results_by_tool: dict[str, Any] = {}
    for number, step in enumerate(plan.serial, 1):
        outcome = yield from _run_step(step, f"dispatch_serial_{number}", results_by_tool, resolver, context, outer)
        if type(outcome) is StepResult:
            results_by_tool[step.tool] = outcome.content
            serial.append(outcome)
        else:
            errors.append(outcome)
    parallel_steps = [
        _run_step(step, f"dispatch_parallel_{number}", results_by_tool, resolver, context, outer)
        for number, step in enumerate(plan.parallel, 1)
    ]
    for outcome in (yield Together(parallel_steps)) if parallel_steps else ():
        (parallel if type(outcome) is StepResult else errors).append(outcome)
    if plan.compose is None:
        return report(serial, parallel, errors)
    outcomes = {"serial_results": serial, "parallel_results": parallel, "errors": errors}
    takes_map = count_positional(plan.compose) == 1
    return (yield Ask(plan.compose, (outcomes,) if takes_map else tuple(outcomes.values())))


def _run_step(
    step: Step,
    call_id: str,
    results_by_tool: dict[str, Any],
    resolver: Any,
    context: Any,
    outer: Callable[[str], str | None],
) -> Work[Any]:
    """Run one step. A failure is returned as its error."""
    label = step.label or step.tool
    try:
        arguments = step.arguments
        if not isinstance(arguments, dict):
            arguments = yield Ask(arguments, (dict(results_by_tool),))
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
        return StepError(step.tool, label, _text_of(result.content))
    return StepResult(step.tool, label, result.content)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(getattr(part, "text", None) or f"[{type(part).__name__.lower()}]" for part in content)


def report(serial: Sequence[StepResult], parallel: Sequence[StepResult], errors: Sequence[StepError]) -> str:
    """Format the results of the `serial` and `parallel` steps, and the `errors` of those that failed, as Markdown.

    >>> from toolwire.resolvers import StepResult, report
    >>> print(report([StepResult("search", "Overview", "found owls")], [], []))
    ## Sequential Results
    <BLANKLINE>
    ### Step 1: Overview
    <BLANKLINE>
    found owls
    """
    parts: list[str] = []
    if serial:
        parts.append("## Sequential Results")
        parts += [f"### Step {number}: {one.label}\n\n{_text_of(one.content)}" for number, one in enumerate(serial, 1)]
    if parallel:
        parts.append("## Additional Results")
        parts += [f"### {one.label}\n\n{_text_of(one.content)}" for one in parallel]
    if errors:
        parts += ["## Errors", "\n".join(f"- **{one.label}**: {one.reason}" for one in errors)]
    return "\n\n".join(parts) or _NOTHING
