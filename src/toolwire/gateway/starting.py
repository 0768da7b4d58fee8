"""Creation of a gateway from a file of settings and the environment, or from a simulated model.

Rule: errors in the settings are raised before anything listens.
"""

import contextlib
import os
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from toolwire.config import GatewaySettings, read_settings, seconds_of
from toolwire.config.settings import RecordSettings, TraceSettings, is_address, is_database_url
from toolwire.dialects import NAMES
from toolwire.errors import InvalidField, MissingExtra, ToolwireError
from toolwire.gateway.app import AllowedOrigins, Gateway
from toolwire.gateway.auditing import Audit
from toolwire.gateway.budget_alerts import BudgetAlert
from toolwire.gateway.context import CONNECTED_SECONDS, INTAKE, GatewayContext
from toolwire.gateway.intake import Intake
from toolwire.gateway.key_admin import KeyEvent
from toolwire.gateway.memory import Memory, ProcessMemory, StoredMemory
from toolwire.gateway.prefix_cache import PrefixCache
from toolwire.gateway.prices import Prices
from toolwire.gateway.recording import Recorder
from toolwire.gateway.reports import Reports
from toolwire.gateway.request_record import RequestRecord
from toolwire.gateway.routes import Routes, UpstreamNetwork, providers_of
from toolwire.providers import PROVIDERS, Provider

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_SHARES = 4  # one key may use a quarter of the memory
_SIMULATED = {
    "openai-chat": "openai",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "ollama": "ollama",
}


def settings_from(path: str | None) -> GatewaySettings:
    """Return the settings in the file `path`. Return the default settings if there is no file."""
    return GatewaySettings() if path is None else read_settings(Path(path).read_bytes(), path)


def _keys_from(settings: GatewaySettings, path: str | None) -> dict[str, str]:
    """Read the key files of the providers. Their paths are relative to the file of settings."""
    folder = Path(path).parent if path is not None else Path()
    keys = {}
    for name, provider_settings in settings.providers.items():
        if provider_settings.key_file:
            key = (folder / provider_settings.key_file).read_text(encoding="utf-8-sig", errors="replace").strip()
            if not (key.isascii() and key.isprintable() and key):
                raise InvalidField(
                    "key_file", f"{provider_settings.key_file} must hold a key, in one line", path=f"providers.{name}"
                )
            keys[name] = key
    return keys


def routes_of(settings: GatewaySettings, path: str | None, environ: Mapping[str, str] = os.environ) -> Routes:
    """Return the table of model names."""
    return Routes(settings, providers_of(settings, environ, _keys_from(settings, path)))


def check_listening(settings: GatewaySettings, address: str) -> None:
    """Raise `InvalidField` if `address` is not an address, or if the gateway would listen on a network without keys."""
    if not is_address(address):
        raise InvalidField("listen", f"must be HOST:PORT, not {address!r}", path="server")
    host = address.rpartition(":")[0].strip("[]")
    if host not in _LOOPBACK and not settings.server.needs_keys:
        raise InvalidField(
            "listen", f'is {address}: without keys (auth = "keys") only 127.0.0.1 is possible', path="server"
        )


def _memory_of(settings: GatewaySettings, path: str | None) -> Memory:
    """Return the memory: in the process, or in the database that the settings name."""
    size, seconds, share = (
        settings.memory.bytes,
        seconds_of(settings.memory.expires),
        _share_of(settings.memory.bytes, settings),
    )
    if not settings.server.database:
        return ProcessMemory(size, seconds, share=share)
    with _opening(settings.server.database, path):
        return StoredMemory(url_of_database(settings.server.database, path), size, seconds, share=share)


def _share_of(size: int, settings: GatewaySettings) -> int:
    """Return how many of `size` bytes one key may use. Without keys that is all of them."""
    return size // (_SHARES if settings.server.needs_keys else 1)


@contextlib.contextmanager
def _opening(url: str, path: str | None) -> Iterator[None]:
    """Raise `InvalidField` if a database cannot be opened.

    The message does not repeat the address, which may hold a password.
    """
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError  # noqa: PLC0415 - an extra

    from toolwire.databases.file_watch import damage_of  # noqa: PLC0415 - likewise

    try:
        yield
    except (SQLAlchemyError, OSError) as problem:
        address = url_of_database(url, path)
        file = address.removeprefix("sqlite:///") if address.startswith("sqlite:") else ""
        if file and (damage := damage_of(problem, file)):
            raise InvalidField("database", f"cannot be opened: {damage}", path="server") from None
        reason = str(problem.orig).partition("\n")[0] if isinstance(problem, DBAPIError) else type(problem).__name__
        reason = problem.strerror or reason if isinstance(problem, OSError) else reason
        raise InvalidField("database", f"cannot be opened: {reason}", path="server") from None


def url_of_database(url: str, path: str | None, setting: str = "server.database") -> str:
    """Return a database's address for SQLAlchemy. The path of a file is relative to the file of settings.

    The address may be in a variable, because it may hold a password. Raises `InvalidField` with the name of the
    `setting` if the variable has no address.
    """
    from toolwire.databases.opening import with_driver  # noqa: PLC0415 - an extra

    if url.startswith("$"):
        url = _address_in(url.removeprefix("$"), setting)
    if url.startswith("sqlite:///") and path is not None and not url.startswith("sqlite:////"):
        return f"sqlite:///{Path(path).parent.resolve() / url.removeprefix('sqlite:///')}"
    return with_driver(url).render_as_string(hide_password=False)


def _address_in(variable: str, setting: str) -> str:
    """Return the address of a database in a variable. No message repeats it."""
    section, _, field = setting.partition(".")
    url = os.environ.get(variable, "").strip()
    if not url:
        raise InvalidField(field, f"names a variable, but {variable} is not set", path=section)
    if not is_database_url(url):
        reason = f"must be sqlite:///FILE or postgresql://HOST/DATABASE, and {variable} holds something else"
        raise InvalidField(field, reason, path=section)
    return url


def check_databases(settings: GatewaySettings, path: str | None) -> None:
    """Raise `InvalidField` if the address of a database is in a variable that has none. Nothing is opened."""
    for setting, url in (("server.database", settings.server.database), ("traces.url", settings.traces.url)):
        if url:
            url_of_database(url, path, setting)


def ledger_of(settings: GatewaySettings, path: str | None) -> Any:
    """Return the ledger of keys. Raise `InvalidField` if the settings name no database."""
    if not settings.server.database:
        raise InvalidField("database", "is missing: the gateway stores its keys there", path="server")
    try:
        from toolwire.gateway.ledger import LimitLedger  # noqa: PLC0415 - an extra
    except ImportError as problem:
        raise MissingExtra("SQLAlchemy", "serve", "to keep keys") from problem
    with _opening(settings.server.database, path):
        return LimitLedger(url_of_database(settings.server.database, path))


def usage_tables_of(settings: GatewaySettings, path: str | None) -> Any:
    """Return the tables of the usage ledger. Raise `InvalidField` if the settings name no database."""
    if not settings.server.database:
        detail = (
            "is missing: without it, the usage of the last 24 hours is in the gateway's process: GET /toolwire/usage"
        )
        raise InvalidField("database", detail, path="server")
    try:
        from toolwire.gateway.usage_tables import UsageTables  # noqa: PLC0415 - an extra
    except ImportError as problem:
        raise MissingExtra("SQLAlchemy", "serve", "to read usage") from problem
    with _opening(settings.server.database, path):
        return UsageTables(url_of_database(settings.server.database, path))


def _usage_of(settings: GatewaySettings, path: str | None) -> Any:
    """Return the usage ledger: in the database of the settings, or in the process."""
    from toolwire.gateway.usage_ledger import IN_PROCESS, UsageLedger  # noqa: PLC0415 - an extra
    from toolwire.gateway.usage_tables import UsageTables  # noqa: PLC0415 - likewise

    keep = settings.usage.keep
    if not settings.server.database:
        return UsageLedger(lambda: UsageTables(IN_PROCESS, sums=False), keep, in_process=True)
    tables = usage_tables_of(settings, path)
    return UsageLedger(lambda: tables, keep)


def gateway_of(routes: Routes, settings: GatewaySettings, path: str | None = None, address: str = "") -> Gateway:
    """Return the gateway for these routes and settings."""
    try:
        from toolwire.gateway.accounts import Accounts  # noqa: PLC0415 - an extra
        from toolwire.gateway.metrics import Metrics, record_metrics, spans  # noqa: PLC0415 - an extra
        from toolwire.gateway.upstream import Uplink  # noqa: PLC0415 - an extra
    except ImportError as problem:
        raise MissingExtra(str(problem.name), "serve", "to serve the gateway") from problem
    accounts = Accounts(ledger_of(settings, path)) if settings.server.needs_keys else None
    prices = Prices(settings.prices)
    upstream_network = upstream_of(settings, path)
    context = GatewayContext(
        routes, Uplink(upstream_network), _memory_of(settings, path), Reports(), prices, accounts=accounts
    )
    context.connected = ProcessMemory(
        settings.memory.bytes, CONNECTED_SECONDS, share=_share_of(settings.memory.bytes, settings)
    )
    context.translations = PrefixCache(settings.translation_cache.bytes)
    context.intake = Intake(INTAKE, _share_of(INTAKE, settings))
    context.proxy = upstream_network.proxy
    context.usage = _usage_of(settings, path)
    context.audit = _audit_of(settings.traces, path, lambda: gateway.context.recorded_secrets())  # noqa: PLW0108 - they change with a reload
    context.recorder = _recorder_of(settings.record, settings, path, lambda: gateway.context)
    host = (address or settings.server.listen).rpartition(":")[0].strip("[]")
    hosts, origins = (tuple(map(str.lower, names)) for names in (settings.server.hosts, settings.server.origins))
    allowed_origins = AllowedOrigins(hosts, origins, host in _LOOPBACK)
    gateway = Gateway(context, allowed_origins=allowed_origins, log=_log)
    gateway.websocket, gateway.admin, gateway.log_event = settings.server.websocket, settings.admin.on, _log
    metrics = Metrics(lambda: gateway.context.routes.providers, lambda: gateway.running)
    metrics.others.append(context.usage.collect)
    if context.recorder is not None:
        metrics.others.append(partial(record_metrics, context.recorder.counts))
    gateway.shows_usage = settings.admin.on or not settings.server.needs_keys
    gateway.metrics, gateway.observers = metrics.render, [metrics.observe, *filter(None, [spans()])]
    if accounts is not None:
        accounts.alerts.observers += [_log, metrics.observe_alert]
    return gateway


def _audit_of(trace_settings: TraceSettings, path: str | None, keys: Callable[[], list[str]]) -> Audit | None:
    """Return the audit trace if the settings name a store. `TOOLWIRE_TRACES_KEY` is the key of its chain."""
    if not trace_settings.url:
        return None
    try:
        from toolwire.traces.store import open as open_store  # noqa: PLC0415 - an extra
    except ImportError as problem:
        raise MissingExtra(str(problem.name), "traces", "to record calls") from problem
    url, key = url_of_database(trace_settings.url, path, "traces.url"), os.environ.get("TOOLWIRE_TRACES_KEY")
    return Audit(open_store(url, key=key, failing=trace_settings.failing), keys, stops=trace_settings.failing == "stop")


def _recorder_of(
    record: RecordSettings | None, settings: GatewaySettings, path: str | None, context: Callable[[], GatewayContext]
) -> Recorder | None:
    """Return the recorder of exchanges if the settings have the section `[record]`."""
    if record is None:
        return None
    try:
        from toolwire.records.store import open as open_records  # noqa: PLC0415 - an extra
    except ImportError as problem:
        raise MissingExtra(str(problem.name), "serve", "to record exchanges") from problem
    url = records_url(settings, path)
    store = open_records(url, bytes=record.bytes, expires=seconds_of(record.expires), process=True)
    return Recorder(store, lambda: context().recorded_secrets(), lambda: context().routes, bodies=record.bodies)


def records_url(settings: GatewaySettings, path: str | None) -> str:
    """Return the address of the database of records. Raise `InvalidField` if the settings name no database.

    It is the one of `[record]`. Otherwise it is the gateway's own PostgreSQL, or `records.db` beside its SQLite file: a
    file of their own, because one process at a time writes to a file.
    """
    named = "" if settings.record is None else settings.record.database
    if named:
        return url_of_database(named, path, "record.database")
    if not settings.server.database:
        raise InvalidField("database", "is missing: the gateway stores its records there", path="record")
    own = url_of_database(settings.server.database, path)
    return f"{own.rpartition('/')[0]}/records.db" if own.startswith("sqlite:") else own


def upstream_of(
    settings: GatewaySettings, path: str | None, environ: Mapping[str, str] = os.environ
) -> UpstreamNetwork:
    """Return how to connect to providers. The proxy may be in a variable, because its address may hold a password."""
    upstream_settings = settings.upstream
    proxy, variable = upstream_settings.proxy, upstream_settings.proxy.removeprefix("$")
    if upstream_settings.proxy.startswith("$"):
        if not environ.get(variable):
            raise InvalidField("proxy", f"the variable {variable} is not set", path="upstream")
        proxy = environ[variable]
        if not proxy.startswith(("http://", "https://")):
            raise InvalidField(
                "proxy", f"must be http://HOST:PORT, and {variable} holds something else", path="upstream"
            )
    file = (
        str((Path(path).parent if path is not None else Path()) / upstream_settings.ca_file)
        if upstream_settings.ca_file
        else ""
    )
    try:
        trusted = ssl.create_default_context() if file else None
        if trusted is not None:
            trusted.load_verify_locations(file)
    except (OSError, ssl.SSLError) as problem:
        raise InvalidField("ca_file", f"{file} cannot be read as certificates: {problem}", path="upstream") from None
    return UpstreamNetwork(proxy, frozenset(upstream_settings.direct) | _LOOPBACK, trusted)


def reload(gateway: Gateway, path: str | None) -> bool:
    """Read the settings and the key files again. If they are wrong, log the problem, change nothing, and return False.

    The address, the keys of clients and the stores do not change.
    """
    try:
        settings = settings_from(path)
        routes = routes_of(settings, path)
        upstream_network = upstream_of(settings, path)
    except (ToolwireError, OSError) as problem:
        _log({"settings": "refused; the old ones are in force", "problem": str(problem)})
        return False
    gateway.renew(routes, Prices(settings.prices), upstream_network)
    has_keys = gateway.context.accounts is not None
    gateway.admin, gateway.shows_usage = settings.admin.on and has_keys, settings.admin.on or not has_keys
    _log({"settings": "read anew", "providers": len(routes.providers), "routes": len(settings.routes)})
    return True


def _log(record: RequestRecord | KeyEvent | BudgetAlert | dict[str, Any]) -> None:
    """Write a line of the log. If it cannot be written, requests are answered all the same."""
    with contextlib.suppress(OSError):
        sys.stderr.write(msgspec.json.encode(record).decode() + "\n")
        sys.stderr.flush()


@contextlib.contextmanager
def simulated(scenario: Any = None) -> Iterator[dict[str, Provider]]:
    """Yield providers with a simulated model, one for each wire."""
    from toolwire.testing.server import simulate  # noqa: PLC0415 - other gateways need no simulated model

    with simulate(scenario, strict=False, clock=time.time) as model:
        yield {
            name: PROVIDERS[name].with_options(
                base_url=model.url, api_key="simulated", paths=(), headers={}, base_url_env=None
            )
            for name in (_SIMULATED[dialect] for dialect in NAMES)
        }
