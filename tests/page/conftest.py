"""The page of some stores, in this process."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.page.samples import fill
from toolwire import Trace, records, tool, traces
from toolwire.client.settings import ClientOptions
from toolwire.page import Hosts, PageApplication, Sources
from toolwire.records import Record
from toolwire.runs import Runs
from toolwire.testing import simulate
from toolwire.types import ToolCall


@tool
def look(order: int) -> str:
    """Look at an order."""
    return f"order {order}: 2 chairs, 118.00 EUR, not paid"


@tool
def pay(order: int, amount: float) -> str:
    """Pay an order."""
    return f"order {order} was paid with {amount}"


@pytest.fixture
def sources() -> Sources:
    return Sources(where="test")


@pytest.fixture
def page(sources: Sources) -> PageApplication:
    return PageApplication(sources, Hosts())


@pytest.fixture
def recorded(sources: Sources, tmp_path: Path) -> Iterator[list[Record]]:
    with records.open(f"sqlite:///{tmp_path}/records.db") as store:
        sources.records = store
        yield fill(store)


@pytest.fixture
def traced(sources: Sources, tmp_path: Path) -> Iterator[traces.Store]:
    with traces.open(f"sqlite:///{tmp_path}/traces.db") as store:
        for index in range(30):
            failed = index % 10 == 9
            store.record(
                Trace.new(
                    tool_name="bash" if index % 3 else "read_file",
                    arguments={"command": f"ls {index}"},
                    result={"content": "3 passed"},
                    result_type="error" if failed else "ok",
                    ending="denied" if failed else "ok",
                    duration_ms=10.0 + index,
                    iteration=index,
                    conversation_id=f"conv-{index // 10}",
                )
            )
        store.flush()
        sources.traces = store
        yield store


@pytest.fixture
def waiting_run(sources: Sources, tmp_path: Path) -> Iterator[str]:
    """A run that waits for the approval of a call, and its model, which goes on after it."""
    script = [ToolCall("call_1", "look", {"order": 17}), ToolCall("call_2", "pay", {"order": 17, "amount": 118.0})]
    with simulate([*script, "Order 17 is paid."]) as model, Runs(f"sqlite:///{tmp_path}/runs.db") as runs:
        options: ClientOptions = {"base_url": model.url}
        run = runs.start(
            "Pay order 17.", "ollama", "m", id="order-17", tools=[look, pay], approve=["pay"], options=options
        )
        until = time.monotonic() + 30
        while run.state != "waiting" and time.monotonic() < until:
            time.sleep(0.05)
        sources.runs = runs
        yield run.id
        if run.waiting:
            run.answer("call_2")
        run.result(30)
