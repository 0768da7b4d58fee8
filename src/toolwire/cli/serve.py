"""`toolwire serve`: run the gateway until a signal.

Rule: wrong settings are reported before anything listens; `--check` only reports them.
"""

import argparse
import contextlib
import functools
import sys
import tempfile
from typing import Any

from msgspec.structs import replace

from toolwire.cli.commands import SUMMARIES
from toolwire.cli.parsing import require_extra
from toolwire.cli.state_paths import with_records_file
from toolwire.config import GatewaySettings, RecordSettings


def add(commands: Any) -> None:
    """Add the command `serve`."""
    command = commands.add_parser("serve", help=SUMMARIES["serve"])
    command.add_argument("--config", metavar="FILE", help="a file of settings (default: none)")
    command.add_argument("--listen", metavar="HOST:PORT", help="where to listen; port 0 is any free port")
    command.add_argument("--check", action="store_true", help="check that the settings are valid, and exit")
    command.add_argument("--simulate", action="store_true", help="answer with a simulated model; needs no key")
    command.add_argument("--quiet", action="store_true", help="do not log requests")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the gateway until a signal."""
    with require_extra("serve", "to serve the gateway"):
        from toolwire.gateway import serving, starting  # noqa: PLC0415 - an extra
        from toolwire.gateway.routes import Routes  # noqa: PLC0415 - likewise
    settings = starting.settings_from(options.config)
    settings = with_records_file(settings) if not options.check else settings
    address = options.listen or settings.server.listen
    starting.check_listening(settings, address)
    starting.upstream_of(settings, options.config)
    starting.check_databases(settings, options.config)
    has_page = settings.page.on or (options.simulate and not settings.server.needs_keys)
    with contextlib.ExitStack() as stack:
        if options.simulate and has_page and settings.record is None:
            settings = _with_passing_records(settings, stack)
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
        if has_page:
            with require_extra("serve", "to show the page"):
                from toolwire.page.mounting import mount  # noqa: PLC0415 - other gateways have no page
            mount(gateway, settings, options.config, _address_of(opened.getsockname()), stack)
        reload_settings = None if options.simulate else functools.partial(starting.reload, gateway, options.config)
        max_connections = settings.server.connections
        serving.serve(
            gateway,
            opened,
            lambda: _print_startup(opened.getsockname(), routes, gateway),
            reload=reload_settings,
            connections=max_connections,
        )
    return 0


def _with_passing_records(settings: GatewaySettings, stack: contextlib.ExitStack) -> GatewaySettings:
    """Return the settings of a gateway that shows what it records, and deletes it when it stops."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="toolwire-records-"))
    return replace(settings, record=RecordSettings(database=f"sqlite:///{folder}/records.db"))


def _address_of(socket_address: tuple[Any, ...]) -> str:
    host = f"[{socket_address[0]}]" if ":" in socket_address[0] else socket_address[0]
    return f"{host}:{socket_address[1]}"


def _print_startup(socket_address: tuple[Any, ...], routes: Any, gateway: Any) -> None:
    """Print the address that the gateway listens at, and on standard error its providers."""
    url = f"http://{_address_of(socket_address)}"
    print(f"toolwire serves {url}", flush=True)
    if gateway.page is not None:
        way_in = "" if gateway.context.accounts is None else f"; a link: TOOLWIRE_KEY=tw-... toolwire view {url}"
        print(f"page: {url}/{way_in}", file=sys.stderr, flush=True)
    providers = ", ".join(routes.providers) or "none: set a provider's key, or pass a file by --config"
    print(f"providers: {providers}", file=sys.stderr, flush=True)
