"""The HTTP client under streamable HTTP: one request that fails, or answers too much, costs only itself.

Rules of this file:
- A failure of the network is the error of the request that met it; the session and other requests go on.
- A body of JSON has a limit, and comes as it is: what is compressed could be any size.
"""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR

from toolwire.mcp.targets import Http, Terms

_FAREWELL = 1.0
_BAD = 400
_MISSING = 404  # the session reads it by itself: an unknown method, or a session that is no more


class _GuardedClient(httpx2.AsyncClient):
    """A client whose failures are answers, and whose answers have a limit."""

    def __init__(self, limit: int, **options: Any) -> None:
        super().__init__(**options)
        self._limit = limit

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; what cannot be sent is answered here, and a farewell is not waited for."""
        if request.method == "DELETE":
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), _FAREWELL)
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as problem:
            return _answer(request, f"cannot be reached: {_words_of(problem)}")
        kind = response.headers.get("content-type", "").lower()
        if kind.startswith("text/event-stream"):
            return response
        reason = _refusal(response, kind)
        if reason is not None:
            await response.aclose()
            return _answer(request, reason, response.status_code)
        response.stream = _Limited(response.stream, self._limit)
        return response


class _Limited(httpx2.AsyncByteStream):
    def __init__(self, body: Any, limit: int) -> None:
        self._body = body
        self._left = self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._body:
                self._left -= len(chunk)
                if self._left < 0:
                    raise httpx2.StreamError(f"the answer has more than {self._limit} bytes")
                yield chunk
        except httpx2.TransportError as problem:
            raise httpx2.StreamError(f"the answer broke off: {_words_of(problem)}") from problem

    async def aclose(self) -> None:
        await self._body.aclose()


def _words_of(problem: Exception) -> str:
    return str(problem) or type(problem).__name__


def _refusal(response: httpx2.Response, kind: str) -> str | None:
    """Say why a response is not read; one that says nothing but its status is told in words."""
    if response.headers.get("content-encoding", "identity") != "identity":
        return "answered with a compressed body, which nobody asked for"
    if response.status_code < _BAD or response.status_code == _MISSING or kind.startswith("application/json"):
        return None
    return f"answered {response.status_code} {response.reason_phrase}".rstrip()


def _answer(request: httpx2.Request, reason: str, status: int = 502) -> httpx2.Response:
    """Answer a request with an error that the session gives to the one who waits for it."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INTERNAL_ERROR, "message": reason}}
    headers = {"content-type": "application/json"}
    return httpx2.Response(max(status, _BAD), headers=headers, content=json.dumps(error).encode(), request=request)


@contextlib.asynccontextmanager
async def http_streams(target: Http, terms: Terms) -> AsyncIterator[tuple[Any, Any]]:
    """Give the streams of messages from a server and to it; calls have their own limits of time."""
    timeout = httpx2.Timeout(terms.connect_timeout, read=None)
    headers = {"accept-encoding": "identity", **target.headers}
    async with (
        _GuardedClient(terms.max_message, timeout=timeout, headers=headers) as client,
        streamable_http_client(target.url, http_client=client, max_sse_event_size=terms.max_message) as streams,
    ):
        yield streams
