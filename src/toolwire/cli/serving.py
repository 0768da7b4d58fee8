"""`toolwire serve`: the gateway, until a signal says stop.

Rule: what is wrong is said before anything listens; `--check` says it and goes.
"""

import argparse
import contextlib
import functools
import sys
from typing import Any

from toolwire.cli.parsing import wanting


def add(commands: Any) -> None:
    """Add the command of this file."""
    command = commands.add_parser("serve", help="serve any client of the five wires with any model, until Ctrl-C")
    command.add_argument("--config", metavar="FILE", help="a file of settings (default: none)")
    command.add_argument("--listen", metavar="HOST:PORT", help="where to listen; port 0 is any")
    command.add_argument("--check", action="store_true", help="say whether the settings are right, and stop")
    command.add_argument("--simulate", action="store_true", help="answer with a simulated model; needs no key")
    command.add_argument("--quiet", action="store_true", help="write no line for each request")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until it is enough."""
    with wanting("serve", "to serve the gateway"):
        from toolwire.gateway import serving, starting  # noqa: PLC0415 - an extra
        from toolwire.gateway.routes import Routes  # noqa: PLC0415 - likewise
    settings = starting.settings_from(options.config)
    address = options.listen or settings.server.listen
    starting.check_listening(settings, address)
    starting.upstream_of(settings, options.config)
    with contextlib.ExitStack() as stack:
        if options.simulate:
            routes = Routes(settings, stack.enter_context(starting.simulated()), "openai")
        else:
            routes = starting.routes_of(settings, options.config)
        if options.check:
            print(f"{options.config or 'no file'}: {len(routes.providers)} providers, {len(settings.routes)} routes")
            return 0
        gateway = starting.gateway_of(routes, settings, options.config, address)
        if options.quiet:
            gateway.log = None
        opened = serving.listen(address)
        again = None if options.simulate else functools.partial(starting.reload, gateway, options.config)
        most = settings.server.connections
        serving.serve(gateway, opened, lambda: _introduce(opened.getsockname(), routes), reload=again, connections=most)
    return 0


def _introduce(name: tuple[Any, ...], routes: Any) -> None:
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    print(f"toolwire serves http://{host}:{name[1]}", flush=True)
    known = ", ".join(routes.providers) or "none: set a provider's key, or name a file by --config"
    print(f"providers: {known}", file=sys.stderr, flush=True)
