"""A gateway made of a file of settings and the environment, or of a simulated model alone.

Rule: what is wrong with the settings is said before anything listens.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from toolwire.config import GatewaySettings, read_settings, seconds_of
from toolwire.config.settings import InvalidSettings
from toolwire.dialects import NAMES
from toolwire.errors import InvalidField, MissingExtra
from toolwire.gateway.app import Gateway
from toolwire.gateway.memory import Memory, ProcessMemory, StoredMemory
from toolwire.gateway.reports import Reports
from toolwire.gateway.routes import Routes, providers_of
from toolwire.gateway.way import Tools
from toolwire.providers import PROVIDERS, Provider

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_SIMULATED = {
    "openai-chat": "openai",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "ollama": "ollama",
}


def settings_from(path: str | None) -> GatewaySettings:
    """Read a file of settings; without one, nothing is said otherwise."""
    if path is None:
        return GatewaySettings()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidSettings(path, ["is not UTF-8"]) from None
    return read_settings(text, path)


def _keys_from(settings: GatewaySettings, path: str | None) -> dict[str, str]:
    """Read the keys that stand in files of their own, found from where the settings are."""
    near = Path(path).parent if path is not None else Path()
    return {
        name: (near / said.key_file).read_text(encoding="utf-8").strip()
        for name, said in settings.providers.items()
        if said.key_file
    }


def routes_of(settings: GatewaySettings, path: str | None, environ: Mapping[str, str] = os.environ) -> Routes:
    """Make the table of model names."""
    return Routes(settings, providers_of(settings, environ, _keys_from(settings, path)))


def check_listening(settings: GatewaySettings, address: str) -> None:
    """Refuse to be open to a network without keys."""
    host = address.rpartition(":")[0].strip("[]")
    if host not in _LOOPBACK and settings.server.auth != "keys":
        raise InvalidField(
            "listen", f'is {address}: without keys (auth = "keys") only 127.0.0.1 is listened on', path="server"
        )


def _memory_of(settings: GatewaySettings, path: str | None) -> Memory:
    """Make the memory: in the process, or in the database that is named."""
    size, seconds = settings.memory.bytes, seconds_of(settings.memory.expires)
    if not settings.server.database:
        return ProcessMemory(size, seconds)
    return StoredMemory(url_of_database(settings.server.database, path), size, seconds)


def url_of_database(url: str, path: str | None) -> str:
    """Give a database's address as SQLAlchemy wants it; a file is found from where the settings are."""
    if url.startswith("sqlite:///") and path is not None and not url.startswith("sqlite:////"):
        return f"sqlite:///{Path(path).parent.resolve() / url.removeprefix('sqlite:///')}"
    scheme, mark, rest = url.partition("://")
    return f"postgresql+psycopg{mark}{rest}" if scheme in ("postgresql", "postgres") else url


def gateway_of(routes: Routes, settings: GatewaySettings, path: str | None = None, *, loopback: bool = True) -> Gateway:
    """Make a gateway."""
    try:
        from toolwire.gateway.upstream import Uplink  # noqa: PLC0415 - an extra
    except ImportError as problem:
        raise MissingExtra("aiohttp", "serve the gateway", "serve") from problem
    tools = Tools(routes, Uplink(), _memory_of(settings, path), Reports())
    gateway = Gateway(tools, loopback=loopback, seen=_log)
    gateway.websocket = settings.server.websocket
    return gateway


def _log(record: dict[str, Any]) -> None:
    sys.stderr.write(json.dumps(record) + "\n")
    sys.stderr.flush()


@contextlib.contextmanager
def simulated(scenario: Any = None) -> Iterator[dict[str, Provider]]:
    """Give providers whose model is simulated, one for each wire, while this lasts."""
    from toolwire.testing.server import simulate  # noqa: PLC0415 - other gateways need no simulated model

    with simulate(scenario, strict=False) as model:
        yield {
            name: PROVIDERS[name].with_options(
                base_url=model.url, api_key="simulated", paths=(), headers={}, base_url_env=None
            )
            for name in (_SIMULATED[dialect] for dialect in NAMES)
        }
