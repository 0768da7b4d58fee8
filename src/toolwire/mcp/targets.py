"""The settings of MCP clients and servers: addresses, timeouts and limits, as plain values."""

import importlib.util
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from msgspec import Struct

from toolwire.errors import InvalidField, MissingExtra
from toolwire.scrubbing import LONG, scrub_text, secrets_of
from toolwire.waiting.results import safe

MAX_MESSAGE = 16 * 1024 * 1024
_SECRET = ("*token", "*key", "*secret", "*password", "*auth*", "*credential*", "*cookie*")


def own_version() -> str:
    """Return the version of this package; "0" for a source tree that is not installed."""
    try:
        return version("toolwire")
    except PackageNotFoundError:
        return "0"


def need_official(purpose: str) -> None:
    """Raise MissingExtra unless the official package is installed."""
    try:
        package = importlib.util.find_spec("mcp")
    except ValueError:
        package = None
    if package is None:
        raise MissingExtra("mcp", "mcp", purpose)


def _hide_secrets(text: str, values: dict[str, str]) -> str:
    """Return a server's text without terminal control characters and without the secrets in `values`."""
    secrets = secrets_of(values, _SECRET)
    return safe(scrub_text(text, [*secrets, *(word for one in secrets for word in one.split() if len(word) >= LONG)]))


class Stdio(Struct, frozen=True):
    """A server that is started as a process, and uses its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None

    @property
    def label(self) -> str:
        """The server's name in messages, without its environment, which may hold secrets."""
        return f"MCP server {self.command!r}"

    def safe_text(self, text: str) -> str:
        """Return the server's `text` without control characters and secrets."""
        return _hide_secrets(text, self.env)

    def __repr__(self) -> str:
        return f"<{self.label}>"


class Http(Struct, frozen=True):
    """A server that is reached by streamable HTTP."""

    url: str
    headers: dict[str, str] = {}

    @property
    def label(self) -> str:
        """The server's name in messages, without headers, user and query, which may hold secrets."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return f"MCP server {urlunsplit((parts.scheme, host, parts.path, '', ''))}"

    def safe_text(self, text: str) -> str:
        """Return the server's `text` without control characters and secrets."""
        parts = urlsplit(self.url)
        return _hide_secrets(
            text, {**self.headers, **dict(parse_qsl(parts.query)), "url password": parts.password or ""}
        )

    def __repr__(self) -> str:
        return f"<{self.label}>"


class Terms(Struct, frozen=True):
    """The time limits and sizes of a connection to a server.

    `timeout` (of a call) and `connect_timeout` (of the handshake and a listing) are seconds, `max_message` is bytes.
    With `parallel`, calls of one turn may run at the same time.
    """

    timeout: float | None = 300.0
    connect_timeout: float = 30.0
    max_message: int = MAX_MESSAGE
    parallel: bool = False


class HttpLimits(Struct, frozen=True):
    """The limits of a server over HTTP: connections, sessions, and how long clients may hold them.

    A connection over `connections` is closed at once, and so is one on which a request is not complete after
    `request_seconds`. A session over `sessions` is refused (503). A session without a request for `idle_seconds` ends.
    """

    connections: int = 500
    request_seconds: float = 30.0
    sessions: int = 1000
    idle_seconds: float = 1800.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) > 0:
                raise InvalidField(name, "must be more than 0", path="mcp.HttpLimits")
