"""Recipes: plans of other tools, their order, what fails in them, and what is made of it."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from toolwire import AgentResolver, Plan, Step, ToolCall, ToolResult, aio, execute, tool
from toolwire.resolvers import StepError, StepResult, dispatching
from toolwire.waiting.steps import arun, run


@tool
def say(text: str = "") -> str:
    """Say."""
    return f"said {text}"


@tool
def fail(why: str = "no reason") -> str:
    """Fail."""
    raise ValueError(why)


@tool
async def later(text: str = "") -> str:
    """Say later."""
    await asyncio.sleep(0.001)
    return f"later {text}"


@tool
def study(topic: str = "") -> str:
    """Study directly."""
    return f"studied {topic}"


CALL = ToolCall("c1", "study", {"topic": "owls"})
Recipe = Callable[[dict[str, Any]], Any]


def results(recipe: Recipe) -> list[ToolResult]:
    """Run a recipe in sync and in async code; both give the same."""
    resolver = AgentResolver([say, fail, later, study], recipes={"study": recipe})
    found = run(dispatching(resolver, CALL)), asyncio.run(arun(dispatching(resolver, CALL)))
    assert found[0] == found[1]
    return list(found)


def content(recipe: Recipe) -> Any:
    return results(recipe)[0].content


def step(name: str, label: str = "", /, **arguments: Any) -> dict[str, Any]:
    return {"tool": name, "arguments": arguments, "label": label}


@pytest.mark.row("R002-33", "R002-35", "I-14", "4.3.6")
def test_a_recipe_is_followed_instead_of_the_tool() -> None:
    text = content(
        lambda arguments: {
            "serial": [step("say", "First", text=arguments["topic"]), step("later", "Second", text="b")],
            "parallel": [step("say", "Third", text="c"), step("later", "Fourth", text="d")],
        }
    )
    assert text == (
        "## Sequential Results\n\n### Step 1: First\n\nsaid owls\n\n### Step 2: Second\n\nlater b\n\n"
        "## Additional Results\n\n### Third\n\nsaid c\n\n### Fourth\n\nlater d"
    )


@pytest.mark.row("R002-34")
def test_without_a_recipe_the_tool_is_run() -> None:
    resolver = AgentResolver([study])
    assert run(dispatching(resolver, CALL)).content == "studied owls"


@pytest.mark.row("I-10")
def test_arguments_may_be_made_of_earlier_results() -> None:
    text = content(
        lambda _: {
            "serial": [
                step("say", "1", text="a"),
                {"tool": "later", "arguments": lambda known: {"text": known["say"] + "!"}, "label": "2"},
            ],
            "parallel": [{"tool": "say", "arguments": lambda known: {"text": str(sorted(known))}, "label": "3"}],
            "compose": lambda serial, parallel, _errors: [one.content for one in (*serial, *parallel)],
        }
    )
    assert text == '["said a","later said a!","said [\'later\', \'say\']"]'


@pytest.mark.row("I-11", "I-12", "I-14")
def test_an_error_is_collected_and_stops_nothing() -> None:
    text = content(
        lambda _: {
            "serial": [step("fail", "Bad", why="x"), step("say", "Good", text="y")],
            "parallel": [
                step("fail", "Worse", why="z"),
                step("nobody", "Unknown"),
                step("say", "Fine", text="w"),
            ],
        }
    )
    assert text == (
        "## Sequential Results\n\n### Step 1: Good\n\nsaid y\n\n"
        "## Additional Results\n\n### Fine\n\nsaid w\n\n"
        "## Errors\n\n- **Bad**: Tool execution failed: x\n- **Worse**: Tool execution failed: z\n"
        "- **Unknown**: Unknown tool: nobody; available: say, fail, later, study"
    )


@pytest.mark.row("I-11")
def test_arguments_that_cannot_be_made_are_an_error_of_their_step() -> None:
    text = content(
        lambda _: {
            "serial": [
                {"tool": "say", "arguments": lambda known: known["nothing"], "label": "Bad"},
                {"tool": "say", "arguments": lambda _known: 3, "label": "Odd"},
                step("say", "Good", text="y"),
            ]
        }
    )
    assert "### Step 1: Good\n\nsaid y" in text
    assert "- **Bad**: KeyError: 'nothing'\n- **Odd**: its arguments are not a map" in text


@pytest.mark.row("I-12")
def test_parallel_steps_run_at_the_same_time_and_keep_their_order() -> None:
    barrier = threading.Barrier(3, timeout=10)

    @tool
    def meet(name: str, wait: float) -> str:
        """Meet."""
        barrier.wait()
        time.sleep(wait)
        return name

    plan = {
        "parallel": [step("meet", name=name, wait=wait) for name, wait in (("a", 0.02), ("b", 0.01), ("c", 0.0))],
        "compose": lambda _serial, parallel, _errors: "".join(one.content for one in parallel),
    }
    resolver = AgentResolver([meet, study], recipes={"study": lambda _: plan})
    assert run(dispatching(resolver, CALL)).content == "abc"
    assert asyncio.run(arun(dispatching(resolver, CALL))).content == "abc"


@pytest.mark.row("I-13")
def test_steps_have_ids_of_their_own() -> None:
    seen = []

    class Noting(AgentResolver):
        def resolving(self, call: ToolCall, context: Any = None) -> Any:
            seen.append(call.id)
            return super().resolving(call, context)

    plan = {"serial": [step("say"), step("say")], "parallel": [step("say"), step("say")]}
    run(dispatching(Noting([say, study], recipes={"study": lambda _: plan}), CALL))
    assert sorted(map(str, seen)) == [
        "dispatch_parallel_1",
        "dispatch_parallel_2",
        "dispatch_serial_1",
        "dispatch_serial_2",
    ]


@pytest.mark.row("I-14")
def test_compose_gets_results_and_errors() -> None:
    plan = {
        "serial": [step("say", "A", text="a")],
        "parallel": [step("say", "B", text="b"), step("fail", "C")],
    }
    wanted = (
        [StepResult("say", "A", "said a")],
        [StepResult("say", "B", "said b")],
        [StepError("fail", "C", "Tool execution failed: no reason")],
    )
    seen: list[Any] = []

    def compose(serial_results: Any, parallel_results: Any, errors: Any) -> str:
        seen.append((serial_results, parallel_results, errors))
        return "done"

    def whole(found: dict[str, Any]) -> str:
        seen.append((found["serial_results"], found["parallel_results"], found["errors"]))
        return "done"

    for made in (compose, whole):
        seen.clear()
        full = {**plan, "compose": made}
        assert content(lambda _, full=full: full) == "done"  # type: ignore[misc]
        assert seen == [wanted, wanted]


@pytest.mark.parametrize("plan", [{}, {"serial": None}, {"serial": [], "parallel": None}, Plan()])
@pytest.mark.row("I-17", "I-14")
def test_empty_phases_pass_through(plan: Any) -> None:
    assert content(lambda _: plan) == "No results produced."


@pytest.mark.parametrize("nothing", [None, ""])
@pytest.mark.row("I-15")
def test_composing_nothing_runs_the_tool(nothing: Any) -> None:
    assert content(lambda _: {"compose": lambda *_found: nothing}) == "studied owls"


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (lambda arguments: arguments["missing"], "KeyError: 'missing'"),
        (lambda _: {"compose": lambda *_found: 1 / 0}, "division by zero"),
        (lambda _: 3, "plan must be a map or a Plan, not int"),
        (lambda _: {"serail": []}, "plan: serail must be one of serial, parallel, compose"),
        (
            lambda _: {"serial": [{"name": "say"}]},
            r"plan.serial[0]: step must be a map of tool, arguments and label",
        ),
        (
            lambda _: {"parallel": [{"tool": "say", "arguments": 3}]},
            "plan.parallel[0]: arguments must be a map",
        ),
        (lambda _: {"compose": "text"}, "plan: compose must be a function"),
    ],
)
@pytest.mark.row("I-15")
def test_a_recipe_that_raises_or_gives_no_plan_is_an_error_result(recipe: Recipe, message: str) -> None:
    result = results(recipe)[0]
    assert result.is_error
    assert str(result.content).startswith("Recipe evaluation error: ")
    assert message in str(result.content)


def test_a_plan_may_be_written_with_types_and_recipes_may_be_async() -> None:
    async def recipe(arguments: dict[str, Any]) -> Plan:
        await asyncio.sleep(0)
        return Plan(serial=[Step("say", {"text": arguments["topic"]}, "One")])

    assert content(recipe) == "## Sequential Results\n\n### Step 1: One\n\nsaid owls"


@pytest.mark.row("I-16")
def test_a_batch_of_recipes_and_plain_calls_keeps_its_order() -> None:
    resolver = AgentResolver([say, fail, later, study], recipes={"study": lambda _: {"serial": [step("say", "S")]}})
    calls = [
        ToolCall("1", "say", {"text": "a"}),
        ToolCall("2", "study", {}),
        ToolCall("3", "later", {"text": "b"}),
        ToolCall("4", "study", {}),
    ]
    wanted = [("1", "said a"), ("2", "## Sequential"), ("3", "later b"), ("4", "## Sequential")]
    for found in (execute(calls, resolver), asyncio.run(aio.execute(calls, resolver))):
        assert [
            (result.tool_call_id, str(result.content)[: len(start)])
            for result, (_, start) in zip(found, wanted, strict=True)
        ] == wanted
