"""Measure what it costs to get from a decoded call to its validated execution, beside peers doing the same.

The function does nothing, so that what is measured is everything around it: finding the tool, validating the
arguments, binding them, making the result. Every call has arguments that were never seen before. Peers get
the same function and arguments in the shape that they decode calls to.
"""

import asyncio
import itertools
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from toolwire import AgentResolver, ToolCall, execute, session_tools

ROUNDS = 15
COUNT = 300
TARGET = 10.0
_numbers = itertools.count()
Arguments = list[dict[str, Any]]


def no_op(city: str, days: int = 3, unit: str = "celsius") -> str:
    """Do nothing."""
    del city, days, unit
    return ""


async def async_no_op(city: str, days: int = 3, unit: str = "celsius") -> str:
    """Do nothing."""
    del city, days, unit
    return ""


def fresh() -> Arguments:
    """Make arguments that were never seen before."""
    return [{"city": f"Tokyo {next(_numbers)}", "days": next(_numbers) % 9} for _ in range(COUNT)]


def calls_of(arguments: Arguments, name: str) -> list[ToolCall]:
    """Make decoded calls."""
    return [ToolCall(f"call_{place}", name, given) for place, given in enumerate(arguments)]


def spent(work: Callable[[Any], Any], samples: list[Any]) -> float:
    """Give the microseconds that one sample costs."""
    begin = time.perf_counter()
    for sample in samples:
        work(sample)
    return (time.perf_counter() - begin) / len(samples) * 1e6


def median(measure: Callable[[], float]) -> float:
    """Give the median over rounds."""
    measure()
    return statistics.median(measure() for _ in range(ROUNDS))


def in_loop(work: Callable[[Any], Awaitable[Any]], samples: list[Any]) -> float:
    """Give the microseconds that one sample costs in a running event loop."""

    async def main() -> float:
        begin = time.perf_counter()
        for sample in samples:
            await work(sample)
        return (time.perf_counter() - begin) / len(samples) * 1e6

    return asyncio.run(main())


def ours() -> dict[str, Callable[[], float]]:
    """Give our ways to run a call, in sync and in async code."""
    resolver = AgentResolver([no_op, async_no_op])
    _, session = session_tools.prepare(resolver, ["no_op"], {"user": "abc"})
    return {
        "a function, resolver.resolve": lambda: spent(resolver.resolve, calls_of(fresh(), "no_op")),
        "a function, session": lambda: spent(session, calls_of(fresh(), "no_op")),
        "a function, execute of one call": lambda: spent(
            lambda call: execute([call], session), calls_of(fresh(), "no_op")
        ),
        "an async function, resolver.aresolve": lambda: in_loop(resolver.aresolve, calls_of(fresh(), "async_no_op")),
        "a function in a thread, resolver.aresolve": lambda: in_loop(resolver.aresolve, calls_of(fresh(), "no_op")),
    }


def peers() -> dict[str, Callable[[], float]]:
    """Give the peers that are installed."""
    found: dict[str, Callable[[], float]] = {}
    for make in (_pydantic_ai, _langchain):
        try:
            found |= make()
        except ImportError as problem:
            print(f"  a peer is not here: {problem}")
    return found


def _pydantic_ai() -> dict[str, Callable[[], float]]:
    from pydantic_ai import FunctionToolset, RunContext  # noqa: PLC0415 - only where it is installed
    from pydantic_ai.messages import ToolCallPart  # noqa: PLC0415 - only where it is installed
    from pydantic_ai.models.test import TestModel  # noqa: PLC0415 - only where it is installed
    from pydantic_ai.tool_manager import ToolManager  # noqa: PLC0415 - only where it is installed
    from pydantic_ai.usage import RunUsage  # noqa: PLC0415 - only where it is installed

    context = RunContext(deps=None, model=TestModel(), usage=RunUsage(), run_step=1)
    manager = asyncio.run(ToolManager(FunctionToolset([no_op, async_no_op])).for_run_step(context))

    def parts(name: str) -> list[Any]:
        return [ToolCallPart(name, given, f"call_{place}") for place, given in enumerate(fresh())]

    return {
        "pydantic-ai, a function": lambda: in_loop(manager.handle_call, parts("no_op")),
        "pydantic-ai, an async function": lambda: in_loop(manager.handle_call, parts("async_no_op")),
    }


def _langchain() -> dict[str, Callable[[], float]]:
    from langchain_core.tools import tool  # noqa: PLC0415 - only where it is installed

    plain, waiting = tool(no_op), tool(async_no_op)

    def calls(name: str) -> list[dict[str, Any]]:
        return [
            {"name": name, "args": given, "id": f"call_{place}", "type": "tool_call"}
            for place, given in enumerate(fresh())
        ]

    return {
        "langchain, a function": lambda: spent(plain.invoke, calls("no_op")),
        "langchain, an async function": lambda: in_loop(waiting.ainvoke, calls("async_no_op")),
    }


def report() -> None:
    """Print what each way costs on top of calling the function."""
    print(f"\na decoded call to its validated execution, us on top of calling a no-op; target at most {TARGET}")
    base = median(lambda: spent(lambda given: no_op(**given), fresh()))
    own = {name: median(measure) - base for name, measure in ours().items()}
    others = {name: median(measure) - base for name, measure in peers().items()}
    for name, cost in {**own, **others}.items():
        print(f"  {name:<42} {cost:7.2f} us")
    kinds = (
        ("a function", "a function, resolver.resolve"),
        ("an async function", "an async function, resolver.aresolve"),
    )
    for kind, name in kinds:
        for peer, cost in others.items():
            if peer.endswith(f", {kind}"):
                print(f"  {peer.split(',')[0]} / ours, {kind}: {cost / own[name]:.1f}")
