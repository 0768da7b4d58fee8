"""Processes that begin runs: `begins.py together|many|listens URL ...`.

`together URL GATE NUMBER SERVER` starts run after run at the moments of a gate, as its twin does.
`many URL NUMBER SERVER` starts many runs, and waits.
`listens URL ID AFTER` prints what happens in a run.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolwire import Runs


def asked(base_url: str) -> dict[str, Any]:
    """Give what a run is started with."""
    return {"provider": "openai", "model": "m", "options": {"api_key": "any", "base_url": base_url}}


def together(url: str, gate: str, number: str, base_url: str) -> None:
    """Start each run when its file is there, and wait for its end."""
    with Runs(url) as runs:
        Path(gate, f"ready-{time.monotonic_ns()}").touch()
        for one in range(int(number)):
            while not Path(gate, str(one)).exists():
                time.sleep(0.0005)
            run = runs.start("Go.", id=f"run-{one}", **asked(base_url))
            sys.stdout.write(f"{run.id} {run.result(60).content}\n")
            sys.stdout.flush()


def many(url: str, number: str, base_url: str) -> None:
    """Start runs."""
    with Runs(url) as runs:
        started = [runs.start("Go.", id=f"run-{one}", **asked(base_url)) for one in range(int(number))]
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        for run in started:
            run.result(300)


def listens(url: str, name: str, after: str) -> None:
    """Print the events of a run, as they come."""
    with Runs(url) as runs:
        for offset, event in runs.run(name).events(int(after)):
            sys.stdout.write(f"{offset} {event!r}\n")
            sys.stdout.flush()


WHAT: dict[str, Callable[..., None]] = {"together": together, "many": many, "listens": listens}

if __name__ == "__main__":
    WHAT[sys.argv[1]](*sys.argv[2:])
