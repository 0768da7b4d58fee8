"""A client of the page in this process: what a browser sends, without a browser."""

import asyncio
import json
from typing import Any
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from toolwire.page import PageApplication


class Reply(Struct, frozen=True):
    """An answer: its status, its headers and its body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


HEADERS = {"host": "127.0.0.1:8080", "accept": "text/html"}


def ask(
    page: PageApplication,
    url: str,
    *,
    method: str = "GET",
    form: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    """Send one request to the page."""
    parts = urlsplit(url)
    body = urlencode(form, errors="surrogatepass").encode() if form is not None else b""
    given = {**HEADERS, **(headers or {})}
    scope = {
        "type": "http",
        "method": "POST" if form is not None else method,
        "path": parts.path,
        "query_string": parts.query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "scheme": "http",
    }
    sent: list[dict[str, Any]] = []
    bodies = [body]

    async def receive() -> dict[str, Any]:
        if not bodies:
            await asyncio.Event().wait()  # the browser stays
        return {"type": "http.request", "body": bodies.pop()}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(page(scope, receive, send))
    start = sent[0]
    found = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Reply(start["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))
