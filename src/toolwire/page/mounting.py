"""The page of a gateway: which stores it shows, and who may see it.

Rules of this file:
- Only stores that the settings name are shown, never those of the user who started the gateway.
- A gateway with keys shows its page to admin keys. A gateway without keys listens on this machine only.
"""

import contextlib
import time
from typing import Any

from toolwire import records
from toolwire.config import GatewaySettings, seconds_of
from toolwire.gateway.accounts import Accounts
from toolwire.gateway.app import Gateway
from toolwire.gateway.errors import GatewayError
from toolwire.gateway.starting import records_url, url_of_database, usage_tables_of
from toolwire.gateway.usage_queries import query_of
from toolwire.page.access import Hosts, Rejected, SignIn
from toolwire.page.app import PageApplication
from toolwire.page.opening import open_runs, open_traces
from toolwire.page.sources import Sources


def mount(
    gateway: Gateway, settings: GatewaySettings, path: str | None, address: str, stack: contextlib.ExitStack
) -> None:
    """Mount the page into a gateway. `path` is the file of settings, and the stack closes what was opened."""
    sources = Sources(all_views=True, where=address)
    if settings.record is not None:
        url, seconds = records_url(settings, path), seconds_of(settings.record.expires)
        sources.records = _closed_by(stack, records.open(url, bytes=None, expires=seconds))
    if settings.server.database:
        sources.usage = _usage_reader(_closed_by(stack, usage_tables_of(settings, path)))
    if settings.traces.url:
        sources.traces = _closed_by(stack, open_traces(url_of_database(settings.traces.url, path)))
    if settings.page.runs:
        sources.runs = _closed_by(stack, open_runs(url_of_database(settings.page.runs, path)))
    accounts = gateway.context.accounts
    names = tuple(name.lower() for name in (*settings.page.hosts, *settings.server.hosts))
    hosts = Hosts(names, gateway.allowed_origins.loopback)
    gateway.page = PageApplication(sources, hosts, None if accounts is None else SignIn(_admin_check(accounts)))


def _usage_reader(tables: Any) -> Any:
    """Return a function that returns the sums of the usage ledger by some columns, from a time such as `7d` ago."""

    def read(by: tuple[str, ...], since: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = tables.sums(query_of(",".join(by), since, "", {}, time.time()))
        return found

    return read


def _closed_by(stack: contextlib.ExitStack, store: Any) -> Any:
    return stack.enter_context(contextlib.closing(store))


def _admin_check(accounts: Accounts) -> Any:
    """Return a function that returns the name of an admin's key, and rejects any other text."""

    async def check(credential: str) -> str:
        try:
            key = await accounts.key(credential)
        except GatewayError as rejection:
            raise Rejected(rejection.error.status or 401, str(rejection)) from None
        if not key.is_admin:
            raise Rejected(403, "the page needs an admin key: `toolwire keys create --admin` makes one")
        return key.name

    return check
