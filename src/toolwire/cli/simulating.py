"""`toolwire simulate`: a simulated model on this machine, for any client to talk to.

Rule: each request that was answered is one line, and so is each thing that was not as the scenario wants it.
"""

import argparse
import contextlib
import sys
import time
from typing import Any

from toolwire.dialects import ALIASES, NAMES
from toolwire.errors import ScenarioFailed

_PORT = 8377
_BASES = {"openai-chat": "/v1", "openai-responses": "/v1"}
_BLINK = 0.05


def add(commands: Any) -> None:
    """Add the command of this file."""
    command = commands.add_parser("simulate", help="serve a simulated model that speaks all dialects, until Ctrl-C")
    command.add_argument("scenario", nargs="?", help="a YAML or JSON file of turns (default: an echo)")
    command.add_argument("--port", type=int, default=_PORT, help=f"where to listen; 0 is any (default: {_PORT})")
    command.add_argument("--dialect", choices=[*NAMES, *ALIASES], help="show the address of this one alone")
    command.add_argument("--lenient", action="store_true", help="refuse nothing that can be read")
    command.add_argument("--requests", type=int, metavar="N", help="stop after so many requests")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until it is enough; 1 if the scenario was not kept to."""
    from toolwire.testing.server import simulate  # noqa: PLC0415 - other commands need no server

    try:
        with simulate(options.scenario, port=options.port, strict=not options.lenient, clock=time.time) as model:
            _introduce(model.url, options.dialect)
            with contextlib.suppress(KeyboardInterrupt):
                _report(model, options.requests)
    except ScenarioFailed as problem:
        print(f"toolwire: {problem}", file=sys.stderr)
        return 1
    return 0


def _introduce(url: str, wanted: str | None) -> None:
    chosen = ALIASES.get(wanted, wanted) if wanted is not None else None
    for name in NAMES:
        if chosen in (None, name):
            print(f"{name:<17} {url}{_BASES.get(name, '')}", flush=True)


def _report(model: Any, enough: int | None) -> None:
    """Write a line for each request, in their order, when it is over."""
    reported = 0
    while enough is None or reported < enough:
        if reported < len(model.requests) and model.requests[reported].over.is_set():
            _tell(model.requests[reported])
            reported += 1
        else:
            time.sleep(_BLINK)


def _tell(received: Any) -> None:
    turn = "" if received.turn is None else f" turn {received.turn + 1}"
    why = f": {received.refused.message.strip()}" if received.refused is not None else ""
    left = ", the client left" if received.gone else ""
    print(f"{received.method} {received.path} {received.status}{turn}{left}{why}", flush=True)
