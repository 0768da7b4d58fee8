"""An MCP server over streamable HTTP: who may connect, and how much a client can occupy.

Rules of this file:
- By default only this machine is served, with its own hosts and origins. Beyond that, the hosts must be listed.
- A client has a session, so that it can cancel a call. Newer clients have none, and cancel by disconnecting.
- Connections and sessions have limits, and idle ones are ended. A request has to arrive completely in time.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolwire.errors import InvalidField
from toolwire.mcp.targets import HttpLimits

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SHUTDOWN_SECONDS = 2
_BACKLOG = 512


async def serve_http(
    server: Any,
    address: tuple[str, int],
    hosts: Collection[str] | None,
    ready: Callable[[str], None] | None,
    limits: HttpLimits,
) -> None:
    """Serve the official server until this task is cancelled."""
    security = _security_of(address[0], hosts)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=address[0],
        transport_security=security,
        max_sessions=limits.sessions,
        session_idle_timeout=limits.idle_seconds,
    )
    options: dict[str, Any] = {"log_config": None, "access_log": False, "timeout_graceful_shutdown": _SHUTDOWN_SECONDS}
    options |= {"http": partial(_BoundedConnection, limits), "ws": "none"}
    with contextlib.closing(_listen(*address)) as listener:
        web: Any = uvicorn.Server(uvicorn.Config(app, lifespan="on", **options))
        web.capture_signals = contextlib.nullcontext
        serving = asyncio.create_task(web.serve(sockets=[listener]))
        try:
            if ready is not None:
                ready(_url_of(listener))
            await asyncio.shield(serving)
        finally:
            web.should_exit = True
            await asyncio.wait([serving])


class _BoundedConnection(H11Protocol):
    """A connection that ends if there are too many, or if a request does not arrive completely in time."""

    def __init__(self, limits: HttpLimits, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            transport.abort()
        else:
            self._keep_time()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_time()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._keep_time()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._keep_time()

    def _keep_time(self) -> None:
        """Run the request timer while a request is awaited. Idle connections have a limit of their own."""
        cycle = self.cycle
        awaited = cycle is None or cycle.more_body or (cycle.response_complete and not self.timeout_keep_alive_task)
        if not awaited:
            self._stop_time()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self._limits.request_seconds, self.transport.abort)

    def _stop_time(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Its protocol is named, so that asyncio sets TCP_NODELAY on its connections."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=listener.detach())


def _url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


def _security_of(host: str, hosts: Collection[str] | None) -> TransportSecuritySettings:
    """Return the hosts and origins that are answered: a page in a browser must not reach the tools.

    Raise InvalidField if `hosts` is missing for an address beyond this machine.
    """
    if isinstance(hosts, str) or (hosts is None and host not in _LOOPBACK):
        raise InvalidField(
            "hosts", "must list the names by which clients reach the server, as HOST:PORT", path="mcp.serve"
        )
    names = [name for host_name in _LOOPBACK for name in _with_ports(host_name)] if host in _LOOPBACK else []
    names += hosts or ()
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
    return TransportSecuritySettings(allowed_hosts=names, allowed_origins=origins)


def _with_ports(host: str) -> tuple[str, str]:
    name = f"[{host}]" if ":" in host else host
    return name, f"{name}:*"
