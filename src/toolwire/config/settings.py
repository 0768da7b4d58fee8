"""The settings of a gateway as values, parsed from TOML. An error lists every problem with its place.

Rules of this file:
- An unknown key is an error, with a suggestion of a similar one. Sections of other commands are ignored.
- A key is never in the file. The file names a variable (`$NAME`) or a key file.
- This module is pure: it reads no variable and no file.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from toolwire.dialects import ALIASES, NAMES
from toolwire.errors import UserError, did_you_mean
from toolwire.types.readable import readable

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TIME = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_PROXY = re.compile(r"https?://[\w.:\[\]-]+/?", re.ASCII)
_PORT = re.compile(r"\d{1,5}", re.ASCII)
_LAST_PORT = 65535
_STORE = re.compile(r"sqlite:///.|postgres(ql)?(\+psycopg)?://.")
_BASE_URL = re.compile(r"https?://[^/\s]\S*", re.IGNORECASE)
_VARIABLE = re.compile(r"\$[A-Za-z_]\w*", re.ASCII)
_HOST = re.compile(r"[\w.-]+|\[[\da-f:.]+\]", re.ASCII | re.IGNORECASE)
_ORIGIN = re.compile(r"[a-z][a-z\d+.-]*://[^/\s]+|null", re.ASCII | re.IGNORECASE)
_TOKEN = re.compile(r"[!#$%&'*+.^`|~\w-]+", re.ASCII)
_FOREIGN_SECTIONS = frozenset({"cli", "mcp"})
_STEP = r"[@A-Za-z0-9][\w.:@+-]*"
_PROVIDER_NAME = re.compile(_STEP, re.ASCII)
_PRICED = re.compile(rf"{_STEP}/[\w@.:+*/-]+", re.ASCII)
MODEL_NAME = re.compile(rf"{_STEP}(?:/{_STEP})*", re.ASCII)


class InvalidSettings(UserError):
    """Settings that cannot be used. `problems` lists each problem with its place."""

    def __init__(self, where: str, problems: list[str]) -> None:
        self.problems: tuple[str, ...] = tuple(problems)
        super().__init__(f"{where}: " + "; ".join(problems))


class ServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The address of the gateway, its database, who may send requests, and if WebSockets are possible."""

    listen: str = "127.0.0.1:8080"
    database: str = ""
    auth: Literal["", "none", "keys"] = ""
    hosts: list[str] = []
    origins: list[str] = []
    connections: int = 4096
    websocket: bool = True

    @property
    def needs_keys(self) -> bool:
        """True if a client needs a key. The default is True with a database, which stores the keys."""
        return self.auth == "keys" or (not self.auth and bool(self.database))


class AdminSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """If an admin key may create, list, change and revoke keys over HTTP, and only an admin key may read metrics."""

    on: bool = False


class UsageSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How long the usage ledger stores one row for each request. Sums by day are stored forever."""

    keep: str = "90d"


class UpstreamSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How to connect to providers: a proxy, hosts without it, and authorities in addition to those of the system."""

    proxy: str = ""
    direct: list[str] = []
    ca_file: str = ""


class ProviderSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A server: a known one with some changes, another one `like` a known one, or one of your own."""

    like: str = ""
    dialect: str = ""
    base_url: str = ""
    key: str = ""
    key_file: str = ""
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    quirks: dict[str, Any] = {}
    capabilities: dict[str, bool] = {}
    format: str = ""
    completions: Literal["", "/v1/completions", "/completion"] = ""


class TargetSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A model at a provider, and its weight among targets that share a route."""

    model: str
    weight: float = 0


class RouteSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A name that clients use, and the providers that serve it, in order."""

    to: list[str | TargetSettings]
    strict: bool = False
    format: str = ""
    on_context: str = ""
    cache: Literal["on", "off"] = "on"
    continue_: bool = field(default=False, name="continue")


class MemorySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How many bytes of earlier turns are stored, and for how long."""

    bytes: int = 67_108_864
    expires: str = "24h"


class TranslationCacheSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How many bytes of translated conversations are cached, so that a longer request costs only its new messages."""

    bytes: int = 33_554_432


class TraceSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the calls of models are recorded, and whether requests are refused while they cannot be recorded."""

    url: str = ""
    failing: Literal["continue", "stop"] = "continue"


class RecordSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How exchanges are recorded: with or without their bodies, for how long, in how many bytes, and where."""

    bodies: bool = True
    expires: str = "7d"
    bytes: int = 1_073_741_824
    database: str = ""


class PageSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """If a browser gets a page at `/`, the names of a reverse proxy, and a database of durable runs to show."""

    on: bool = False
    hosts: list[str] = []
    runs: str = ""


class PriceSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars for a million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_long: float | None = None


class GatewaySettings(Struct, frozen=True, kw_only=True):
    """The sections of a file of settings."""

    server: ServerSettings = ServerSettings()
    admin: AdminSettings = AdminSettings()
    usage: UsageSettings = UsageSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    providers: dict[str, ProviderSettings] = {}
    routes: dict[str, RouteSettings] = {}
    memory: MemorySettings = MemorySettings()
    translation_cache: TranslationCacheSettings = TranslationCacheSettings()
    traces: TraceSettings = TraceSettings()
    record: RecordSettings | None = None
    page: PageSettings = PageSettings()
    prices: dict[str, PriceSettings] = {}


_SECTIONS: dict[str, Any] = {
    "server": ServerSettings,
    "admin": AdminSettings,
    "usage": UsageSettings,
    "upstream": UpstreamSettings,
    "providers": dict[str, ProviderSettings],
    "routes": dict[str, RouteSettings],
    "memory": MemorySettings,
    "translation_cache": TranslationCacheSettings,
    "traces": TraceSettings,
    "record": RecordSettings,
    "page": PageSettings,
    "prices": dict[str, PriceSettings],
}
_OPTIONAL = ("record",)  # sections that turn something on by being there
for _section in _SECTIONS.values():
    readable(_section)


def read_settings(text: str | bytes, where: str = "toolwire.toml") -> GatewaySettings:
    """Parse a file of settings. Raise `InvalidSettings` with all problems."""
    try:  # Notepad writes a byte order mark
        tables = tomllib.loads(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidSettings(where, ["is not UTF-8"]) from None
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise InvalidSettings(where, [f"is not TOML: {problem}"]) from None
    problems = [
        _unknown(name, [*_SECTIONS, *_FOREIGN_SECTIONS])
        for name in tables.keys() - _SECTIONS.keys() - _FOREIGN_SECTIONS
    ]
    sections = {
        name: read_section(name, section, tables.get(name, {}), problems) for name, section in _SECTIONS.items()
    }
    sections |= {name: None for name in _OPTIONAL if name not in tables}
    settings = None if problems else GatewaySettings(**sections)
    problems += [] if settings is None else _problems(settings)
    if problems or settings is None:
        raise InvalidSettings(where, sorted(problems))
    return settings


def read_section(path: str, expected: Any, value: Any, problems: list[str]) -> Any:
    """Return the value of a section, entry by entry for a section of names. Add what is wrong to `problems`."""
    if isinstance(value, dict) and not isinstance(expected, type):
        return {
            name: read_section(f"{path}.{name}", expected.__args__[-1], one, problems) for name, one in value.items()
        }
    try:
        return msgspec.convert(value, expected)
    except msgspec.ValidationError as problem:
        problems.append(_describe(path, str(problem), expected))


def _unknown(name: str, known: list[str]) -> str:
    return f"{name} is not a section{_hint(name, known)}"


def _hint(name: str, known: list[str]) -> str:
    return did_you_mean(name, known) or f"; there are: {', '.join(known)}"


def _describe(section: str, problem: str, expected: Any) -> str:
    """Return where a value is wrong, and a suggestion."""
    text, _, inner = problem.partition(" - at `$")
    path = section + inner.rstrip("`").replace("[...]", ".*")
    if match := re.search(r"unknown field `(\w+)`", text):
        known = [one.encode_name for one in msgspec.structs.fields(TargetSettings if path.endswith("]") else expected)]
        return f"{path}.{match[1]} is not a setting{_hint(match[1], known)}"
    if text.startswith("Invalid enum value"):
        choices = next(one.type.__args__ for one in msgspec.structs.fields(expected) if path.endswith(f".{one.name}"))
        return f"{path} must be one of {', '.join(map(repr, filter(None, choices)))}: {text}"
    return f"{path}: {text}"


def is_address(text: str) -> bool:
    """Return True if `text` is HOST:PORT with a valid port."""
    host, _, port = text.rpartition(":")
    return bool(host) and _PORT.fullmatch(port) is not None and int(port) <= _LAST_PORT


def _problems(settings: GatewaySettings) -> Iterator[str]:
    """Yield the problems that single values do not show."""
    yield from _problems_of_storage("memory", settings.memory.expires, settings.memory.bytes)
    if settings.record is not None:
        yield from _problems_of_storage("record", settings.record.expires, settings.record.bytes, least=1_048_576)
    yield from _problems_of_time("usage.keep", settings.usage.keep)
    if settings.translation_cache.bytes < 0:
        yield f"translation_cache.bytes must be 0 or more, not {settings.translation_cache.bytes}"
    yield from _problems_of_server(settings.server, settings.admin)
    yield from _problems_of_page(settings.page, needs_keys=settings.server.needs_keys)
    for path, url, file in (
        ("server.database", settings.server.database, "toolwire.db"),
        ("traces.url", settings.traces.url, "traces.db"),
        ("record.database", "" if settings.record is None else settings.record.database, "records.db"),
        ("page.runs", settings.page.runs, "runs.db"),
    ):
        if url and not (is_database_url(url) or _VARIABLE.fullmatch(url)):
            yield f'{path} must be "sqlite:///{file}" or "postgresql://HOST/DATABASE", or name a variable ("$NAME")'
    proxy = settings.upstream.proxy
    if proxy and not (proxy.startswith("$") or _PROXY.fullmatch(proxy)):
        yield 'upstream.proxy must be http://HOST:PORT, or name a variable ("$NAME") where it holds a password'
    for name, provider in settings.providers.items():
        yield from _problems_of_provider(f"providers.{name}", provider)
    for name, price in settings.prices.items():
        yield from _problems_of_price(f"prices.{name}", price)
    for name, route in settings.routes.items():
        yield from _problems_of_route(f"routes.{name}", route, settings.routes)


def _problems_of_price(path: str, price: PriceSettings) -> Iterator[str]:
    if not _PRICED.fullmatch(path.removeprefix("prices.")):
        yield f"{path} must be named PROVIDER/MODEL, in its provider's words; * stands for any part of MODEL"
    if any(one is not None and not 0 <= one < 1e9 for one in msgspec.structs.astuple(price)):
        yield f"{path} must be dollars for a million tokens, 0 or more"


def is_database_url(url: str) -> bool:
    """Return True if `url` is the address of a database that can be opened."""
    try:
        return _STORE.match(url) is not None and (url.startswith("sqlite:") or urlsplit(url).port != 0)
    except ValueError:
        return False


def _problems_of_time(path: str, text: str) -> Iterator[str]:
    try:
        if not seconds_of(text):
            yield f"{path} must be longer than nothing"
    except ValueError as problem:
        yield f"{path} {problem}"


def _problems_of_storage(section: str, expires: str, size: int, least: int = 0) -> Iterator[str]:
    """Yield the problems of a section that says how many bytes are stored, and for how long."""
    yield from _problems_of_time(f"{section}.expires", expires)
    if size < least:
        yield f"{section}.bytes must be {least} or more, not {size}"


def _problems_of_page(page: PageSettings, *, needs_keys: bool) -> Iterator[str]:
    if page.hosts and not needs_keys:
        yield "page.hosts needs keys (server.database): without them everybody who reaches the proxy sees the page"
    for index, text in enumerate(page.hosts):
        if not _HOST.fullmatch(text):
            yield f'page.hosts[{index}] must be a name without scheme and port, as "models.example.com", not {text!r}'


def _problems_of_server(server: ServerSettings, admin: AdminSettings) -> Iterator[str]:
    if not is_address(server.listen):
        yield f"server.listen must be HOST:PORT, not {server.listen!r}"
    if server.auth == "keys" and not server.database:
        yield 'server.auth = "keys" needs server.database, where the keys are kept'
    if admin.on and not server.needs_keys:
        yield "admin.on needs keys, and so server.database: only an admin key can use it"
    if server.connections < 1:
        yield f"server.connections must be 1 or more, not {server.connections}"
    for name, pattern, example in (
        ("hosts", _HOST, 'a name without scheme and port, such as "models.example.com"'),
        ("origins", _ORIGIN, 'as a browser sends it, such as "https://app.example.com" without a path'),
    ):
        for index, text in enumerate(getattr(server, name)):
            if not pattern.fullmatch(text):
                yield f"server.{name}[{index}] must be {example}, not {text!r}"


def _problems_of_provider(path: str, provider: ProviderSettings) -> Iterator[str]:
    if not _PROVIDER_NAME.fullmatch(path.removeprefix("providers.")):
        yield f"{path}: a provider's name must be letters, digits and ._:@+-, because clients write NAME/MODEL"
    if provider.key and not _VARIABLE.fullmatch(provider.key):
        yield f'{path}.key must name a variable ("$NAME"): put the key itself into this variable, not into the file'
    if provider.key and provider.key_file:
        yield f"{path} has both key and key_file: remove one of them"
    if provider.dialect and provider.dialect not in (*NAMES, *ALIASES):
        yield f"{path}.dialect is not a dialect: {provider.dialect!r}{_hint(provider.dialect, [*NAMES])}"
    if provider.dialect and not provider.base_url:
        yield f"{path}.base_url is missing: a provider with a dialect needs its address"
    if provider.base_url and not (is_base_url(provider.base_url) or _VARIABLE.fullmatch(provider.base_url)):
        yield f'{path}.base_url must be like https://host/path, or name a variable ("$NAME")'
    for name in provider.headers:
        if not _TOKEN.fullmatch(name):
            yield f"{path}.headers: {name!r} is not the name of a header"


def is_base_url(text: str) -> bool:
    """Return True if `text` can be the address of a provider."""
    return _BASE_URL.fullmatch(text) is not None


def _problems_of_route(path: str, route: RouteSettings, routes: Mapping[str, RouteSettings]) -> Iterator[str]:
    stars = path.count("*")
    if stars > 1:
        yield f"{path}: a route's name may have one * only"
    if not route.to:
        yield f'{path}.to must name a model, as in ["PROVIDER/MODEL"]'
    for index, target in enumerate(route.to):
        model = target if isinstance(target, str) else target.model
        provider, slash, name = model.partition("/")
        if not slash or not MODEL_NAME.fullmatch(f"{provider}/{name.replace('*', 'x')}"):
            yield f"{path}.to[{index}] must be PROVIDER/MODEL, not {model!r}"
        elif "*" in name and not (stars == name.count("*") == 1):
            yield f"{path}.to[{index}] has a * that stands for no text: only a route with one * in its name can have it"
        if not isinstance(target, str) and not 0 <= target.weight < 1e9:
            yield f"{path}.to[{index}].weight must be 0 or more, not {target.weight:g}"
    if route.on_context and (route.on_context not in routes or "*" in route.on_context):
        yield f"{path}.on_context names no route: {route.on_context!r}"


def seconds_of(text: str) -> float:
    """Return the seconds of a time such as `24h`. Raise `ValueError` for any other text."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"must be a time such as 30s, 15m, 24h or 7d, not {text!r}")
    return float(match[1]) * _UNITS[match[2]]
