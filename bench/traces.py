"""Measure what a trace costs: on the way of a run, in rows a second, and when it is asked for again.

The way of a run is what the loop does for each call: note what became of it, and put it into the queue of
the store, whose own thread hides what is sensitive, makes the row and commits (SQLite: WAL, synchronous FULL;
both databases at their usual durability). Nothing counts that is not committed in the end. PostgreSQL is the
server of the tests; where there is none, its figures are left out, and said to be.
"""

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.traces.postgres import Unavailable, start
from toolwire import ToolCall, ToolResult, traces
from toolwire.client.exchange import ProviderConnection
from toolwire.client.tracing import Recording
from toolwire.providers import provider_of
from toolwire.traces.trace import Scope
from toolwire.waiting.results import Ran

TARGET = 50.0
QUERY_TARGET = 5.0
CALLS = 2000
ROWS = 1_000_000
QUERIES = 200


class _Resolver:
    """Says which fields are sensitive."""

    def sensitive_fields_for(self, _name: str) -> list[str]:
        return ["password"]


def calls(number: int) -> list[tuple[ToolCall, ToolResult]]:
    """Make calls as a coding agent makes them, each with another text of 500 characters as its result."""
    made = []
    for place in range(number):
        arguments = {"path": f"src/file_{place}.py", "offset": place, "limit": 200}
        call = ToolCall(f"call_{place}", "read_file", arguments)
        made.append((call, ToolResult(call.id, call.name, f"{place} " + "a line of text\n" * 33)))
    return made


def on_the_way(store: Any, pause: float) -> list[float]:
    """Give the microseconds that each of many calls takes on the way of a run, with a pause between them."""
    line = ProviderConnection(provider_of("openai", api_key="k")[0], None, None)  # type: ignore[arg-type]
    recording = Recording(Scope.of(store, "acme", "c-1"), line, _Resolver())
    spent = []
    for call, result in calls(CALLS):
        time.sleep(pause)
        ran = Ran(call, result, "ok", time.time(), 0.001)
        first = time.perf_counter()
        recording.add_records([ran])
        store.record(recording.trace_builder(call, result))
        spent.append((time.perf_counter() - first) * 1e6)
    store.flush()
    return spent


def fill(store: Any, rows: int) -> float:
    """Record many rows, and give how many a second were committed."""
    made = [
        traces.Trace.new(
            tool_name=("read_file", "bash", "grep")[place % 3],
            arguments={"path": f"src/file_{place}.py"},
            result="a line of text\n" * 5,
            result_type="ok",
            ending="ok",
            duration_ms=1.5,
            iteration=place % 25,
        )
        for place in range(1000)
    ]
    begun = time.perf_counter()
    for place in range(rows):
        like = made[place % 1000]
        # A hundred conversations at a time, 50 calls each.
        conversation = f"conversation-{place // 5000 * 100 + place % 100}"
        store.record(traces.Trace.new(like, id=None, tenant_id="acme", conversation_id=conversation))
    store.flush()
    return rows / (time.perf_counter() - begun)


def asked(store: Any, rows: int) -> dict[str, float]:
    """Give the milliseconds that questions take, as medians."""
    middle = store.count() // 2
    questions: dict[str, Callable[[int], Any]] = {
        "list by conversation": lambda number: store.traces(
            tenant="acme", conversation=f"conversation-{number * 97 % (rows // 50)}"
        ),
        "newest of a tenant": lambda _number: store.traces(tenant="acme", newest=True),
        "a page in the middle": lambda number: store.traces(after=middle + number),
        "one by its id": lambda _number: store.get("nobody's"),
        "by tool, newest": lambda _number: store.traces(tool="grep", newest=True),
    }
    found = {}
    for name, ask in questions.items():
        times = []
        for number in range(QUERIES):
            begun = time.perf_counter()
            ask(number)
            times.append((time.perf_counter() - begun) * 1000)
        found[name] = statistics.median(times)
    return found


@contextlib.contextmanager
def databases() -> Iterator[dict[str, Any]]:
    """Give a place for each database that there is."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        places: dict[str, Any] = {"SQLite": lambda name: f"sqlite:///{Path(folder) / name}.db"}
        try:
            server = start()
        except Unavailable as problem:
            print(f"  PostgreSQL is left out: {problem}")
        else:
            stack.callback(server.end)
            places["PostgreSQL"] = lambda _name: server.create().url
        yield places


def report(*, short: bool = False) -> None:
    """Print the figures of both databases."""
    rows = ROWS // 50 if short else ROWS
    print("\nTraces")
    with databases() as places:
        for name, place in places.items():
            for words, pause in (("a call each millisecond", 0.001), ("one right after the other", 0.0)):
                with traces.open(place(f"way-{pause}")) as store:
                    spent = on_the_way(store, pause)
                median, mean = statistics.median(spent), statistics.fmean(spent)
                kept = f" (target {TARGET:g}: {'met' if median <= TARGET else 'MISSED'})" if pause else ""
                print(f"  {name}: on the way of a run, {words}: {median:.1f} us, mean {mean:.1f}{kept}")
            with traces.open(place("rows")) as store:
                rate = fill(store, rows)
                print(f"    {rows:,} rows recorded: {rate:,.0f} a second")
                for question, milliseconds in asked(store, rows).items():
                    kept = "" if question != "list by conversation" else f" (target {QUERY_TARGET:g})"
                    print(f"    {question:22} {milliseconds:8.2f} ms{kept}")
                begun = time.perf_counter()
                found = store.verify()
                assert found.count == 0
                assert found.rows == rows
                print(f"    verified: {rows / (time.perf_counter() - begun):,.0f} rows a second")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer rows")
    report(short=parser.parse_args().short)
