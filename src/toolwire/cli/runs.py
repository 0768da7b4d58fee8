"""`toolwire runs` and `toolwire worker`: inspect, answer and execute durable runs.

Rules of this file:
- Only `worker` executes runs. The other commands change the database, and the worker that executes the run reacts.
- On the first signal a worker finishes its current steps; on the second it exits at once.
- Control characters of a model or a tool are escaped before a line is printed.
"""

import argparse
import contextlib
import importlib
import json
import os
import signal
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from toolwire.cli.commands import SUMMARIES
from toolwire.cli.parsing import count, duration
from toolwire.cli.state_paths import default_runs
from toolwire.errors import StoreFailed, UserError
from toolwire.waiting.results import safe

_STOP_TIMEOUT = 30.0
_SHOWN = 200
_DATABASE: dict[str, Any] = {"--database": {"metavar": "URL", "help": "sqlite:///FILE or postgresql://..."}}
_ENDS = ("done", "failed", "cancelled")
_STATES = ("queued", "running", "waiting", "parked", *_ENDS, "ended")


def add(commands: Any) -> None:
    """Add the commands `worker` and `runs`."""
    worker = commands.add_parser("worker", help=SUMMARIES["worker"])
    worker.add_argument("tools", metavar="MODULE:TOOLS", help="the tools: a list, or a resolver, in a module")
    worker.add_argument("--database", **_DATABASE["--database"])
    worker.add_argument("--concurrency", type=count, default=4, metavar="N", help="how many runs at once (default: 4)")
    worker.add_argument("--queue", default="default", metavar="Q", help="the queue (default: default)")
    worker.add_argument("--lease", type=float, default=30.0, metavar="SECONDS", help=argparse.SUPPRESS)
    worker.set_defaults(run=_work)
    command = commands.add_parser("runs", help=SUMMARIES["runs"])
    actions = command.add_subparsers(required=True, metavar="WHAT")
    for name, (act, help_text, arguments) in _COMMANDS.items():
        action = actions.add_parser(name, help=help_text)
        for flag, settings in (_DATABASE | arguments).items():
            action.add_argument(flag, **settings)
        action.set_defaults(run=_act, act=act)


def _opened(options: argparse.Namespace, **more: Any) -> Any:
    from toolwire.runs import Runs  # noqa: PLC0415 - an extra, and only where it is wanted

    file = (options.database or "").removeprefix("sqlite:///")
    if not more and file != options.database and file and not Path(file).exists():
        raise UserError(f"there is no such file: {file}", path="--database")
    return Runs(options.database or default_runs(), **more)


def _tools_of(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise UserError(f"must be MODULE:TOOLS, not {name!r}", path="worker")
    sys.path.insert(0, str(Path.cwd()))
    try:
        tools = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as problem:
        raise UserError(f"cannot be loaded: {problem}", path=name) from None
    from toolwire.client.conversation import request_of  # noqa: PLC0415 - other commands need no tools

    _, resolver = request_of("-", tools=tools)  # raises if something is not a tool
    if resolver is None:
        raise UserError("has no tools that can be run", path=name)
    return tools


def _work(options: argparse.Namespace) -> int:
    stop = threading.Event()

    def stop_on_signal(_number: int, _frame: Any) -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    tools = _tools_of(options.tools)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_on_signal)
    runs = _opened(options, tools=tools, queue=options.queue, concurrency=options.concurrency, lease=options.lease)
    print(f"toolwire executes runs of queue {options.queue}, {options.concurrency} at once", flush=True)
    while runs.core.failure is None and not stop.wait(1.0):
        pass
    print("toolwire stops when the current steps have ended", file=sys.stderr, flush=True)
    with contextlib.suppress(StoreFailed):
        runs.close(_STOP_TIMEOUT)
    if runs.core.failure is not None:
        print(f"toolwire: {safe(str(runs.core.failure))}", file=sys.stderr)
    sys.stdout.flush()
    os._exit(0 if runs.core.failure is None else 1)  # a tool that hangs must not delay the exit


def _line(row: Any) -> str:
    created = datetime.fromtimestamp(row.created, UTC).isoformat(timespec="seconds")
    reason = f"  {row.reason}" if row.reason else ""
    return safe(f"{row.id}  {row.state}  {row.queue or '-'}  {created}{reason}").replace("\n", " ")


def _act(options: argparse.Namespace) -> int:
    with _opened(options) as runs:
        options.act(runs, options)
    return 0


def _list(runs: Any, options: argparse.Namespace) -> None:
    for row in runs.list(options.state, options.limit):
        print(json.dumps(asdict(row)) if options.json else _line(row))


def _show(runs: Any, options: argparse.Namespace) -> None:
    run = runs.run(options.id)
    print(f"{run.id}  {run.state}  {safe(run.reason)}".rstrip())
    for question in run.waiting:
        print(safe(f"waits: {question.call_id}  {question.tool} {question.arguments}"))
    for offset, event in run.events(options.after, wait=options.follow):
        print(f"{offset}  {safe(_describe_event(event))[:_SHOWN]}")


def _describe_event(event: Any) -> str:
    text = getattr(event, "content", None) or getattr(event, "message", None) or ""
    calls = ", ".join(f"{call.name} {json.dumps(call.arguments)}" for call in getattr(event, "tool_calls", ()))
    return " ".join(f"{type(event).__name__}: {calls or text}".split())


def _cancel(runs: Any, options: argparse.Namespace) -> None:
    """Cancel a run. Print a note if it had ended before, or has not ended yet."""
    run = runs.run(options.id)
    before = run.state
    run.cancel()
    if before in _ENDS:
        print(safe(f"{run.id} had already ended: {before}"), file=sys.stderr)
    elif run.state not in _ENDS:
        print(safe(f"{run.id} is {run.state}: the worker that executes it will cancel it"), file=sys.stderr)


def _answer(runs: Any, options: argparse.Namespace) -> None:
    runs.run(options.id).answer(options.call, (options.reason or False) if options.no else True)


def _resume(runs: Any, options: argparse.Namespace) -> None:
    run = runs.run(options.id)
    if run.state != "parked":
        raise UserError(f"is {run.state}: only a parked run can be resumed", path=run.id)
    run.resume()


def _limit(runs: Any, options: argparse.Namespace) -> None:
    limits = runs.limit(options.provider, at_once=options.at_once, per_minute=options.per_minute)
    for name, limit in limits.items():
        values = (f"{value} {unit.replace('_', ' ')}" for unit, value in limit.items() if value is not None)
        print(safe(f"{name}: {', '.join(values)}"))


def _prune(runs: Any, options: argparse.Namespace) -> None:
    print(f"{runs.prune(options.older)} runs are removed")


def _seconds(text: str) -> float:
    seconds = duration(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration: pass 90m, 2h or 7d")
    return seconds


_ID: dict[str, Any] = {"id": {"metavar": "ID", "help": "the run, as `toolwire runs list` prints it"}}
_COMMANDS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "list": (
        _list,
        "list runs, the newest first",
        {
            "--state": {"choices": _STATES, "metavar": "STATE", "help": ", ".join(_STATES)},
            "--limit": {"type": count, "default": 100, "metavar": "N", "help": "how many at most (default: 100)"},
            "--json": {"action": "store_true", "help": "a JSON object to a line"},
        },
    ),
    "show": (
        _show,
        "show what happened in a run",
        _ID
        | {
            "--after": {"type": int, "default": 0, "metavar": "OFFSET", "help": "only events after this number"},
            "--follow": {"action": "store_true", "help": "wait for further events"},
        },
    ),
    "cancel": (_cancel, "cancel a run", _ID),
    "answer": (
        _answer,
        "approve or reject a call that waits for approval",
        _ID
        | {
            "call": {"metavar": "CALL", "help": "the id of the call, as `toolwire runs show` prints it"},
            "--no": {"action": "store_true", "help": "reject the call"},
            "--reason": {"help": "why it is rejected; sent to the model"},
        },
    ),
    "resume": (_resume, "resume a parked run", _ID),
    "limit": (
        _limit,
        "limit the requests to a provider, for all workers of a database; show all limits",
        {
            "provider": {"metavar": "PROVIDER", "nargs": "?", "help": "without numbers, its limit is removed"},
            "--at-once": {"type": count, "metavar": "N", "help": "the most concurrent requests"},
            "--per-minute": {"type": count, "metavar": "N", "help": "the most requests in any 60 seconds"},
        },
    ),
    "prune": (
        _prune,
        "delete runs that have ended",
        {
            "--older": {
                "type": _seconds,
                "default": 30 * 86_400.0,
                "metavar": "30d",
                "help": "only runs that were created longer ago",
            }
        },
    ),
}
