"""A transport without a network: it gives the answers that it was made with, and keeps what was sent."""

import json
from typing import Any

from toolwire.wire.transport import HttpRequest


class Canned:
    """Sends nothing; both faces of it are one."""

    def __init__(self, *bodies: dict[str, Any]) -> None:
        self.status, self.headers = 200, {"content-type": "application/json"}
        self.bodies, self.left = [json.dumps(body).encode() for body in bodies], b""
        self.sent: list[HttpRequest] = []

    def send(self, request: HttpRequest, _timeouts: Any, _stop: Any = None) -> "Canned":
        """Keep the request, and give the next answer."""
        self.sent.append(request)
        self.left = self.bodies.pop(0)
        return self

    def read(self) -> bytes:
        """Give the body, and then its end."""
        given, self.left = self.left, b""
        return given

    def finish(self) -> None:
        """Let go."""

    async def asend(self, request: HttpRequest, timeouts: Any, stop: Any = None) -> "Canned":
        """Keep the request, and give the next answer."""
        return self.send(request, timeouts, stop)

    async def aread(self) -> bytes:
        """Give the body, and then its end."""
        return self.read()

    async def afinish(self) -> None:
        """Let go."""

    close, aclose = finish, afinish
