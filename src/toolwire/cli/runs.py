"""`toolwire runs` and `toolwire worker`: runs that survive, looked at, answered, and led.

Rules of this file:
- Nothing here leads a run but `worker`; what is asked of a run is done by whoever leads it.
- A worker that is told to stop ends its present steps first; told again, it goes at once.
- A line that is shown holds no control character of a model or a tool.
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

from toolwire.cli.keeping import usual_runs
from toolwire.cli.parsing import count, duration
from toolwire.errors import StoreFailed, UserError
from toolwire.waiting.results import safe

_STOPPING = 30.0
_SHOWN = 200
_DATABASE: dict[str, Any] = {"--database": {"metavar": "URL", "help": "sqlite:///FILE or postgresql://..."}}
_ENDS = ("done", "failed", "cancelled")
_STATES = ("queued", "running", "waiting", "parked", *_ENDS, "ended")


def add(commands: Any) -> None:
    """Add the commands of this file."""
    worker = commands.add_parser("worker", help="lead the runs of a queue, until a signal says stop")
    worker.add_argument("tools", metavar="MODULE:TOOLS", help="the tools: a list, or a resolver, in a module")
    worker.add_argument("--database", **_DATABASE["--database"])
    worker.add_argument("--concurrency", type=count, default=4, metavar="N", help="how many runs at once (default: 4)")
    worker.add_argument("--queue", default="default", metavar="Q", help="the queue (default: default)")
    worker.add_argument("--lease", type=float, default=30.0, metavar="SECONDS", help=argparse.SUPPRESS)
    worker.set_defaults(run=_work)
    command = commands.add_parser("runs", help="list, show, cancel, answer, resume, limit and prune runs that survive")
    kinds = command.add_subparsers(required=True, metavar="WHAT")
    for name, (act, words, arguments) in _COMMANDS.items():
        kind = kinds.add_parser(name, help=words)
        for flag, more in (_DATABASE | arguments).items():
            kind.add_argument(flag, **more)
        kind.set_defaults(run=_act, act=act)


def _opened(options: argparse.Namespace, **more: Any) -> Any:
    from toolwire.runs import Runs  # noqa: PLC0415 - an extra, and only where it is wanted

    file = (options.database or "").removeprefix("sqlite:///")
    if not more and file != options.database and file and not Path(file).exists():
        raise UserError(f"there is no such file: {file}", path="--database")
    return Runs(options.database or usual_runs(), **more)


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

    _, resolver = request_of("-", tools=tools)  # which says what is no tool
    if resolver is None:
        raise UserError("has no tools that can be run", path=name)
    return tools


def _work(options: argparse.Namespace) -> int:
    stop = threading.Event()

    def hear(_number: int, _frame: Any) -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    tools = _tools_of(options.tools)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, hear)
    runs = _opened(options, tools=tools, queue=options.queue, concurrency=options.concurrency, lease=options.lease)
    print(f"toolwire works at {options.queue}, {options.concurrency} runs at once", flush=True)
    while runs.core.failure is None and not stop.wait(1.0):
        pass
    print("toolwire stops when the present steps have ended", file=sys.stderr, flush=True)
    with contextlib.suppress(StoreFailed):
        runs.close(_STOPPING)
    if runs.core.failure is not None:
        print(f"toolwire: {safe(str(runs.core.failure))}", file=sys.stderr)
    sys.stdout.flush()
    os._exit(0 if runs.core.failure is None else 1)  # a tool that hangs keeps nobody


def _line(row: Any) -> str:
    begun = datetime.fromtimestamp(row.created, UTC).isoformat(timespec="seconds")
    said = f"  {row.reason}" if row.reason else ""
    return safe(f"{row.id}  {row.state}  {row.queue or '-'}  {begun}{said}").replace("\n", " ")


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
        print(f"{offset}  {safe(_said(event))[:_SHOWN]}")


def _said(event: Any) -> str:
    words = getattr(event, "content", None) or getattr(event, "message", None) or ""
    calls = ", ".join(f"{call.name} {json.dumps(call.arguments)}" for call in getattr(event, "tool_calls", ()))
    return " ".join(f"{type(event).__name__}: {calls or words}".split())


def _cancel(runs: Any, options: argparse.Namespace) -> None:
    """End a run, and say beside it what became of that."""
    run = runs.run(options.id)
    before = run.state
    run.cancel()
    if before in _ENDS:
        print(safe(f"{run.id} had ended before: {before}"), file=sys.stderr)
    elif run.state not in _ENDS:
        print(safe(f"{run.id} is {run.state}: who leads it is told to end it"), file=sys.stderr)


def _answer(runs: Any, options: argparse.Namespace) -> None:
    runs.run(options.id).answer(options.call, (options.reason or False) if options.no else True)


def _resume(runs: Any, options: argparse.Namespace) -> None:
    run = runs.run(options.id)
    if run.state != "parked":
        raise UserError(f"is not parked, but {run.state}", path=run.id)
    run.resume()


def _limit(runs: Any, options: argparse.Namespace) -> None:
    limits = runs.limit(options.provider, at_once=options.at_once, per_minute=options.per_minute)
    for name, figures in limits.items():
        said = (f"{value} {what.replace('_', ' ')}" for what, value in figures.items() if value is not None)
        print(safe(f"{name}: {', '.join(said)}"))


def _prune(runs: Any, options: argparse.Namespace) -> None:
    print(f"{runs.prune(options.older)} runs are removed")


def _seconds(text: str) -> float:
    seconds = duration(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: give 90m, 2h, 7d")
    return seconds


_ID: dict[str, Any] = {"id": {"metavar": "ID"}}
_COMMANDS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "list": (
        _list,
        "list runs, the newest first",
        {
            "--state": {"choices": _STATES, "metavar": "STATE", "help": ", ".join(_STATES)},
            "--limit": {"type": count, "default": 100, "metavar": "N"},
            "--json": {"action": "store_true", "help": "a JSON object to a line"},
        },
    ),
    "show": (
        _show,
        "show what happened in a run",
        _ID
        | {
            "--after": {"type": int, "default": 0, "metavar": "OFFSET"},
            "--follow": {"action": "store_true", "help": "wait for what comes"},
        },
    ),
    "cancel": (_cancel, "end a run", _ID),
    "answer": (
        _answer,
        "approve a call that waits, or say no",
        _ID
        | {
            "call": {"metavar": "CALL"},
            "--no": {"action": "store_true", "help": "do not approve it"},
            "--reason": {"help": "why not; the model reads it"},
        },
    ),
    "resume": (_resume, "have a run that is parked led again", _ID),
    "limit": (
        _limit,
        "limit the questions to a provider, for all workers of a database; show all limits",
        {
            "provider": {"metavar": "PROVIDER", "nargs": "?", "help": "without figures, its limit is taken away"},
            "--at-once": {"type": count, "metavar": "N", "help": "how many may be open"},
            "--per-minute": {"type": count, "metavar": "N", "help": "how many in any 60 seconds"},
        },
    ),
    "prune": (
        _prune,
        "remove runs that have ended",
        {"--older": {"type": _seconds, "default": 30 * 86_400.0, "metavar": "30d", "help": "begun before so long"}},
    ),
}
