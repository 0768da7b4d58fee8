"""`approve=` is the same in `generate` and in `Runs`: a function, True or False, or the names of tools."""

from pathlib import Path
from typing import Any

import pytest

from tests.client.faces import FACES, lead
from toolwire import AgentResolver, Message, Runs, ToolCall, ToolResult, execute, tool
from toolwire.client.settings import ClientOptions
from toolwire.errors import InvalidField
from toolwire.testing import simulate

PAID: list[int] = []


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    PAID.append(amount)
    return f"paid {amount}"


@tool
def look() -> str:
    """Look at the order."""
    return "it costs 5"


LOOK, PAY = ToolCall(None, "look", {}), ToolCall(None, "pay", {"amount": 5})
WAITING: list[Any] = [True, ["pay"], ("pay",), {"pay"}]
FREE: list[Any] = [False, None, [], ["look"], lambda _call, _preview: True]


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("approve", WAITING)
def test_a_run_ends_with_the_calls_that_need_approval(approve: Any, face: str, *, shown: bool) -> None:
    PAID.clear()
    with simulate([[PAY], ["Done."]], strict=False) as model:
        done = lead(face, "openai", model.url, "Pay.", shown=shown, tools=[look, pay], approve=approve).done
        assert (done.ending, [call.name for call in done.calls], PAID) == ("calls", ["pay"], [])
        assert done.reason == "approval is needed: pay"
        results = execute(done.calls, AgentResolver([look, pay]))
        history = [*done.history, *(Message("tool", [result]) for result in results)]
        more = lead(face, "openai", model.url, messages=history, tools=[look, pay], approve=approve).done
    assert (PAID, more.ending, more.content) == ([5], "answer", "Done.")


@pytest.mark.parametrize("approve", FREE)
def test_a_call_that_needs_none_runs_at_once(approve: Any) -> None:
    PAID.clear()
    last = [["Done."]]
    with simulate([[PAY], *last], strict=False) as model:
        done = lead("sync", "openai", model.url, "Pay.", tools=[look, pay], approve=approve).done
    assert (PAID, done.ending) == ([5], "answer")


def test_of_one_answer_all_calls_run_or_none() -> None:
    PAID.clear()
    with simulate([[LOOK], [LOOK, PAY]]) as model:
        done = lead("sync", "openai", model.url, "Pay.", tools=[look, pay], approve=["pay"]).done
    results = [part.content for message in done.messages for part in message.parts if isinstance(part, ToolResult)]
    assert (results, [call.name for call in done.calls], PAID) == (["it costs 5"], ["look", "pay"], [])


def test_durable_runs_take_the_same(tmp_path: Path) -> None:
    """An answer that comes before the run has begun to wait is not lost."""
    with Runs(f"sqlite:///{tmp_path}/runs.db") as runs:
        for approve in (*FREE, *WAITING):
            PAID.clear()
            with simulate([[PAY], ["Done."]]) as model:
                options: ClientOptions = {"base_url": model.url, "api_key": "x"}
                run = runs.start("Pay.", "openai", "m", tools=[look, pay], approve=approve, options=options)
                if approve in WAITING:
                    while not run.waiting:
                        assert run.state in ("queued", "running", "waiting")
                    run.answer(run.waiting[0].call_id)
                assert (run.result(20).content, PAID) == ("Done.", [5])
        with pytest.raises(InvalidField, match="did you mean pay"):
            runs.start("Pay.", "openai", "m", tools=[pay], approve=["payy"], options={"api_key": "x"})
