"""A process that leads a run of many calls, and is killed in the middle.

Each effect is a line in a file of its tool, written and synced before the call ends. With `VICTIM_ASKS`, a person is
asked about each payment, and says yes as soon as the run waits.
"""

import importlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.runs.scripted import given, turns
from toolwire import CallKey, Happened, NotYet, Run, Runs, ToolResult, checkable, tool
from toolwire.runs import failpoints
from toolwire.runs.failpoints import failpoint

TURNS = 4
_folder = Path()


def write(name: str, line: str) -> None:
    """Have an effect."""
    with (_folder / name).open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def lines(folder: Path, name: str) -> list[str]:
    """List the effects of a tool."""
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


@tool(effects="none", parallel=True)
def look(at_: str) -> str:
    """Look at something."""
    write("look", at_)
    failpoint("in-call")
    return f"seen {at_}"


@tool(effects="idempotent")
def note(what: str, key: CallKey) -> str:
    """Note something, once for each key."""
    write("tried", what)
    if key not in [line.split()[0] for line in lines(_folder, "note")]:
        write("note", f"{key} {what}")
    failpoint("in-call")
    return f"noted {what}"


@tool
def pay(order: str) -> str:
    """Pay an order."""
    write("pay", order)
    time.sleep(float(os.environ.get("VICTIM_PAUSE", "0")))
    failpoint("in-call")
    return f"paid {order}"


def probe(key: CallKey) -> Any:
    """Say whether something was sent."""
    sent = [line for line in lines(_folder, "send") if line.startswith(key)]
    return Happened(f"sent {sent[0].split()[1]}") if sent else NotYet()


@tool(effects=checkable(probe))
def send(what: str, key: CallKey) -> str:
    """Send something."""
    write("send", f"{key} {what}")
    failpoint("in-call")
    return f"sent {what}"


@tool(effects="none")
def careless(order: str) -> str:
    """Pay without saying that it has effects: the control."""
    write("careless", order)
    failpoint("in-call")
    return f"paid {order}"


def turn(number: int) -> list[tuple[str, dict[str, Any]]]:
    """Give the calls of a turn."""
    name = str(number)
    return [
        ("look", {"at_": f"{name}a"}),
        ("look", {"at_": f"{name}b"}),
        ("note", {"what": name}),
        ("pay", {"order": name}),
        ("send", {"what": name}),
        ("careless", {"order": name}),
    ]


TOOLS: list[Any] = [look, note, pay, send, careless]
SAY = turns(*[turn(number) for number in range(TURNS)], "all is done")


def agree(run: Run) -> None:
    """Approve what is asked about."""
    while True:
        for question in run.waiting if run.state == "waiting" else ():
            run.answer(question.call_id)
        time.sleep(0.02)


def main(url: str, name: str, folder: str) -> None:
    """Lead the run to its end, and say what it gave; the environment says where it is killed."""
    global _folder  # noqa: PLW0603 - tools have no other way to know
    _folder = Path(folder)
    importlib.reload(failpoints)
    asks: dict[str, Any] = {"approve": ["pay"]} if os.environ.get("VICTIM_ASKS") else {}
    with Runs(url, lease=2.0) as runs:
        run = runs.start("Do it all.", tools=TOOLS, id=name, **asks, **given(SAY))
        if asks:
            threading.Thread(target=agree, args=(run,), daemon=True).start()
        done = run.result(60)
        sys.stdout.write(f"{done.ending} {done.content}\n")
        for message in done.messages:
            for part in message.parts:
                if isinstance(part, ToolResult):
                    sys.stdout.write(f"{part.name} {part.content}".replace("\n", " ") + "\n")
