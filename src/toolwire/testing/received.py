"""What came in, kept for a test to look at.

Rule: headers hold keys, so they are never shown.
"""

import threading
from collections.abc import Mapping
from typing import Any

from toolwire.types import Error, Loss, Request


class Received:
    """One request: as it came, what it means, and what became of it.

    `request` is the body as a canonical value, or None where it is none. `status` is what was answered,
    `response` its body where that was sent whole, `losses` what its wire could not say, `refused` why if the
    server refused the request. `sent` counts the bytes of the body that went out, and `gone` says
    that the client left before the end; both are final when `over` is set.
    """

    def __init__(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> None:
        self.method = method
        self.path = path
        self.query = dict(query)
        self.headers = dict(headers)
        self.raw = b""
        self.body: Any = None
        self.dialect: str | None = None
        self.request: Request | None = None
        self.turn: int | None = None
        self.status: int | None = None
        self.refused: Error | None = None
        self.response: Any = None
        self.losses: tuple[Loss, ...] = ()
        self.sent = 0
        self.gone = False
        self.over = threading.Event()

    def __repr__(self) -> str:
        return f"<Received {self.method} {self.path} {self.status or 'unanswered'}>"
