"""Measure what a durable step costs, beside the bare engine and a peer, and how many bytes a run keeps.

A turn is a question, which is answered at once, and a call of a tool that does nothing. Bare DBOS does the same two
steps without a conversation, in its usual way (pickled, its own journal mode); the peer is pydantic-ai with its
integration of DBOS, in the environment of the peers. PostgreSQL is the server of the tests. What is not there is left
out, and said to be. Each has a process of its own; of three runs, the median is given.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.runs.scripted import given, turns
from tests.traces.postgres import Unavailable, start
from toolwire import Runs, tool
from toolwire.databases.opening import with_driver

TURNS = (10, 100, 300)
TIMES = 3
SIZE = 2500
HERE = Path(__file__).resolve()
PEERS = HERE.parent.parent / ".venv-peers" / "bin" / "python"


NAMES = {"durable": "toolwire", "peer": "pydantic-ai", "bare": "bare DBOS"}


@tool(effects="none")
def quote(number: int) -> str:
    """Give a text of a few kilobytes."""
    return f"{number} " + "lorem ipsum dolor sit " * (SIZE // 22)


def durable(url: str, number: int) -> tuple[float, int]:
    """Lead a run of many turns; give the milliseconds of a step, and the bytes of the last history."""
    said = given(turns(*[[("quote", {"number": turn})] for turn in range(number)], "done"))
    with Runs(url) as runs:
        runs.start("Hi.", **given(turns("hi"))).result(60)
        begun = time.perf_counter()
        done = runs.start("Quote.", tools=[quote], limits={"turns": number + 1}, **said).result(600)
        seconds = time.perf_counter() - begun
    assert done.turns == number + 1
    history = len(str(said["options"]["transport"].asked[-1]["messages"]))
    return 1000 * seconds / (2 * number), history


def bare(url: str, number: int) -> float:
    """Do as many steps with DBOS alone; give the milliseconds of a step."""
    from dbos import DBOS  # noqa: PLC0415 - only here

    DBOS(config={"name": "bare", "system_database_url": url, "log_level": "CRITICAL"})

    @DBOS.workflow()
    def work() -> int:
        for turn in range(2 * number):
            DBOS.run_step({"name": "step"}, lambda turn=turn: "lorem ipsum dolor sit " * (SIZE // 22 // 2) + str(turn))
        return number

    DBOS.launch()
    work()
    begun = time.perf_counter()
    work()
    seconds = time.perf_counter() - begun
    DBOS.destroy()
    return 1000 * seconds / (2 * number)


def size_of(url: str) -> int:
    """Count the bytes of texts and outputs in a database."""
    engine = sa.create_engine(with_driver(url))
    schema = None if url.startswith("sqlite") else "dbos"
    own = [("toolwire_texts", "text", None), ("toolwire_runs", "spec", None), ("toolwire_calls", "arguments", None)]
    own = own if sa.inspect(engine).has_table("toolwire_runs") else []
    engines = [(table, "output", schema) for table in ("operation_outputs", "workflow_status", "workflow_output")]
    found = 0
    with engine.connect() as connection:
        for table, column, where in own + engines:
            length: Any = sa.func.sum(sa.func.length(sa.column(column)))
            found += connection.execute(sa.select(length).select_from(sa.table(table, schema=where))).scalar() or 0
    engine.dispose()
    return int(found)


def apart(what: str, url: str, number: int) -> list[float]:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "bench.runs", "--apart", what, url, str(number)]
    if what == "peer":
        command = [str(PEERS), str(HERE.with_name("durable.py")), url, str(number), str(SIZE)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(one) for one in said.stdout.split()]


def measured(what: str, fresh: Any, number: int) -> tuple[float, float, int]:
    """Give the milliseconds of a step, the bytes of the last history where they are known, and those that are kept."""
    urls = [fresh() for _ in range(TIMES)]
    figures = [apart(what, url, number) for url in urls]
    return statistics.median(one[0] for one in figures), figures[-1][-1], size_of(urls[-1])


def report(name: str, fresh: Any) -> None:
    """Print the figures of a database."""
    contestants = ["durable", *(["peer"] if PEERS.exists() else [])]
    for number in TURNS:
        history = 0.0
        for what in contestants:
            step, told, kept = measured(what, fresh, number)
            history = told if what == "durable" else history
            said = f"{step:>8.2f} ms a step {kept:>10,} bytes kept {kept / history:>6.2f} x history"
            print(f"{name:<12}{NAMES[what]:<12}{number:>5} turns {said}", flush=True)
    step = measured("bare", fresh, TURNS[1])[0]
    print(f"{name:<12}{NAMES['bare']:<12}{TURNS[1]:>5} turns {step:>8.2f} ms a step", flush=True)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apart", nargs=3, default=None)
    options = parser.parse_args()
    if options.apart:
        what, url, number = options.apart
        print(*(durable(url, int(number)) if what == "durable" else [bare(url, int(number))]))
        return
    if not PEERS.exists():
        print(f"no peer: {PEERS} is not there (make .venv-peers/.peers)")
    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(100))
        report("sqlite", lambda: f"sqlite:///{Path(folder) / f'{next(names)}.db'}")
    try:
        server = start()
    except Unavailable as problem:
        print(f"no PostgreSQL: {problem}")
        return
    try:
        report("postgresql", lambda: server.create().url)
    finally:
        server.end()


if __name__ == "__main__":
    main()
