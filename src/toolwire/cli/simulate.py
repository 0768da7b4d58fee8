"""`toolwire simulate`: a simulated model on this machine, for any client.

Rule: each answered request is reported on one line, and so is each deviation from the scenario.
"""

import argparse
import contextlib
import sys
import time
from typing import Any

from toolwire.cli.commands import SUMMARIES
from toolwire.dialects import ALIASES, NAMES
from toolwire.errors import ScenarioFailed

_PORT = 8377
_BASES = {"openai-chat": "/v1", "openai-responses": "/v1"}
_POLL_SECONDS = 0.05


def add(commands: Any) -> None:
    """Add the command `simulate`."""
    command = commands.add_parser("simulate", help=SUMMARIES["simulate"])
    command.add_argument("scenario", nargs="?", help="a YAML or JSON file of turns (default: an echo)")
    command.add_argument("--port", type=int, default=_PORT, help=f"the port; 0 is any free one (default: {_PORT})")
    command.add_argument("--dialect", choices=[*NAMES, *ALIASES], help="print the address of this dialect only")
    command.add_argument("--lenient", action="store_true", help="accept every request that can be parsed")
    command.add_argument("--requests", type=int, metavar="N", help="stop after so many requests")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C or the number of requests is reached. Return 1 if the requests deviated from the scenario."""
    from toolwire.testing.server import simulate  # noqa: PLC0415 - other commands need no server

    try:
        with simulate(options.scenario, port=options.port, strict=not options.lenient, clock=time.time) as model:
            _print_addresses(model.url, options.dialect)
            with contextlib.suppress(KeyboardInterrupt):
                _report(model, options.requests)
    except ScenarioFailed as problem:
        print(f"toolwire: {problem}", file=sys.stderr)
        return 1
    return 0


def _print_addresses(url: str, dialect: str | None) -> None:
    """Print the address of the simulated model for each dialect, or for `dialect` alone."""
    chosen = ALIASES.get(dialect, dialect) if dialect is not None else None
    for name in NAMES:
        if chosen in (None, name):
            print(f"{name:<17} {url}{_BASES.get(name, '')}", flush=True)


def _report(model: Any, limit: int | None) -> None:
    """Print a line for each finished request, in their order."""
    reported = 0
    while limit is None or reported < limit:
        if reported < len(model.requests) and model.requests[reported].over.is_set():
            _print_request(model.requests[reported])
            reported += 1
        else:
            time.sleep(_POLL_SECONDS)


def _print_request(received: Any) -> None:
    turn = "" if received.turn is None else f" turn {received.turn + 1}"
    why = f": {received.refused.message.strip()}" if received.refused is not None else ""
    note = ", the client left" if received.gone else ""
    print(f"{received.method} {received.path} {received.status}{turn}{note}{why}", flush=True)
