"""The page as an ASGI application.

Rules of this file:
- A request is rejected by its host and its site first, then by its sign-in, then it reaches a view.
- A view runs in a thread, because databases wait. It returns a value, which becomes HTML, or JSON with `?format=json`.
- Every answer has the same headers: nothing may run, load, frame or read the page but the page itself.
- No error shows a traceback.
"""

import asyncio
import contextlib
import hashlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from toolwire.errors import ToolwireError
from toolwire.page.access import Hosts, Rejected, SignIn, bearer_in, set_cookie
from toolwire.page.live import follow
from toolwire.page.rendering import asset, encode_json, render
from toolwire.page.shown import File, Missing, PageRequest, Redirect, Shown
from toolwire.page.sources import Sources
from toolwire.page.views import LIVE, ROUTES

_log = logging.getLogger(__name__)
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[dict[str, Any]], Awaitable[None]]
_BODY_BYTES = 48 * 1024 * 1024
_SIGN_IN_BYTES = 4096  # of a form that anybody may send
_CHECK_SECONDS = 5.0  # between two looks at the session of a page that follows the traffic
_BODY_SECONDS = 60.0
_FIELDS = 40
_FOLLOWERS = 100
_ASSETS = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_SIGN_IN, _SIGN_OUT, _LINKS, _ASSET = "/page/sign-in", "/page/sign-out", "/page/links", "/page/static/"
_METHODS = frozenset({"GET", "HEAD", "POST"})
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer, Chromium sends `Origin: null` with our own forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class PageApplication:
    """The page of some stores. Without `sign_in` everybody who reaches it may see it."""

    def __init__(self, sources: Sources, hosts: Hosts, sign_in: SignIn | None = None) -> None:
        self.sources: Sources = sources
        self.hosts: Hosts = hosts
        self.sign_in: SignIn | None = sign_in
        self.stopping: bool = False
        self.followers: int = 0

    def stop(self) -> None:
        """End the live streams, so that the server need not wait for them."""
        self.stopping = True

    @staticmethod
    def wants(scope: Mapping[str, Any]) -> bool:
        """Return True if a request is for the page: a browser's GET of `/`, or any path of the page."""
        path: str = scope["path"]
        if path == "/":
            accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
            asked = "format=json" in scope.get("query_string", b"").decode("latin-1").split("&")
            return bool(scope["method"] == "GET" and (b"text/html" in accepted or asked))
        return path == "/page" or path.startswith("/page/")

    async def __call__(self, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await _run_lifespan(receive, send)
        elif scope["type"] == "http":
            await _Exchange(self, scope, receive, send).run()
        else:
            await send({"type": "websocket.close"})


async def _run_lifespan(receive: _Receive, send: _Send) -> None:
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})


class _Exchange:
    """One request and its answer."""

    def __init__(self, page: PageApplication, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        self.page, self.scope, self._receive, self._asgi_send = page, scope, receive, send
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        self.query = _fields(scope.get("query_string", b""))
        self.wants_json = self.query.get("format") == "json" or self.path == _LINKS
        self.secure = scope.get("scheme") == "https" or self.headers.get("x-forwarded-proto") == "https"
        self.started = False
        self.user = ""

    async def run(self) -> None:
        """Answer the request."""
        try:
            await self._answer()
        except Rejected as rejection:
            await self._show_problem(rejection.status, rejection.reason)
        except Missing as missing:
            await self._show_problem(404, str(missing))
        except ToolwireError as problem:
            await self._show_problem(400, str(problem))
        except Exception:  # noqa: BLE001 - the browser gets an error page
            _log.exception("the page failed at %s", self.path)
            await self._show_problem(500, "the page failed; its log says why")

    async def _answer(self) -> None:
        self.page.hosts.check(self.method, self.headers)
        if self.method not in _METHODS:
            raise Rejected(405, f"{self.method[:20]} is no method of this page")
        if self.path.startswith(_ASSET):
            await self._send_asset(self.path.removeprefix(_ASSET))
        elif self.path == _LINKS:
            await self._make_link()
        elif self.path == _SIGN_IN:
            await self._sign_in()
        else:
            await self._check_sign_in()
            await self._show_view()

    async def _check_sign_in(self) -> None:
        if self.page.sign_in is None:
            return
        self.user = await self.page.sign_in.check_session(self.headers)
        if self.path == _SIGN_OUT and self.method == "POST":
            self.page.sign_in.end_session(self.headers)
            self.user = ""
            raise Rejected(401, "you have signed out")

    async def _make_link(self) -> None:
        """Answer an admin's key with a link that works once."""
        if self.page.sign_in is None or self.method != "POST":
            raise Rejected(404, "there is nothing here")
        token = await self.page.sign_in.make_link_for(bearer_in(self.headers))
        await self._send(200, encode_json({"path": f"{_SIGN_IN}?link={token}"}), "application/json")

    async def _sign_in(self) -> None:
        """Show the button of a link, or use the link up."""
        if self.page.sign_in is None:
            await self._redirect("/")
            return
        if self.method != "POST":
            link = self.query.get("link", "")
            await self._show(Shown("sign_in.html", "Sign in", {"problem": None}, {"link": link}))
            return
        form = _fields(await self._read(_SIGN_IN_BYTES))
        cookie = await self.page.sign_in.use_link(form.get("link", ""))
        await self._redirect("/", {"set-cookie": set_cookie(cookie, secure=self.secure)})

    async def _show_view(self) -> None:
        is_home = self.path in ("/", "/page", "/page/")
        path = self.page.sources.home() if is_home else self.path
        form = _fields(await self._read(_BODY_BYTES)) if self.method == "POST" else {}
        if path == LIVE:
            await self._follow(PageRequest("GET", path, self.query, last_event=self.headers.get("last-event-id", "")))
            return
        for pattern, methods, view in ROUTES:
            match = re.fullmatch(pattern, path)
            if match is not None:
                if self.method not in methods and not (self.method == "HEAD" and "GET" in methods):
                    raise Rejected(405, f"{self.method} is no method of this page")
                request = PageRequest(self.method, path, self.query, form, match.groups())
                await self._send_result(await asyncio.to_thread(view, self.page.sources, request))
                return
        raise Missing(f"there is nothing at {path[:200]}")

    async def _send_result(self, result: Shown | File | Redirect) -> None:
        match result:
            case Shown():
                await self._show(result)
            case Redirect():
                await self._redirect(result.to)
            case File():
                name = re.sub(r"[^\w.-]", "_", result.name, flags=re.ASCII)
                more = {"content-disposition": f'attachment; filename="{name}"'} if name else {}
                sandbox = {"content-security-policy": f"{HEADERS['content-security-policy']}; sandbox"}
                await self._send(200, result.data, result.media_type, sandbox | more)

    async def _follow(self, request: PageRequest) -> None:
        """Send new rows as server-sent events, until the browser leaves or the server stops."""
        page = self.page
        if page.followers >= _FOLLOWERS:
            raise Rejected(503, "too many pages follow the traffic: close one of them")
        page.followers += 1
        left = asyncio.ensure_future(self._wait_for_end())
        try:
            await self._start(200, "text/event-stream; charset=utf-8", {"x-accel-buffering": "no"})
            checked = time.monotonic()
            async for data in follow(page.sources, request):
                if left.done() or page.stopping:
                    break
                if time.monotonic() - checked > _CHECK_SECONDS:
                    await self._check_sign_in()
                    checked = time.monotonic()
                if data:
                    await self._asgi_send({"type": "http.response.body", "body": data, "more_body": True})
        except Rejected:
            _log.info("a page that followed the traffic is not signed in any more")
        finally:
            page.followers -= 1
            left.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await left
        await self._asgi_send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _wait_for_end(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue

    async def _read(self, most: int) -> bytes:
        """Read a form of at most `most` bytes, within the limit of its time."""
        pieces, total = [], 0
        async with asyncio.timeout(_BODY_SECONDS):
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise Rejected(400, "the form did not arrive whole")
                pieces.append(message.get("body", b""))
                total += len(pieces[-1])
                if total > most:
                    raise Rejected(413, f"this is longer than {most:,} bytes")
                if not message.get("more_body"):
                    return b"".join(pieces)

    async def _show_problem(self, status: int, reason: str) -> None:
        """Show an error as a page. Without a sign-in it has no menu, and says how to get in."""
        if self.started:
            return
        template = "sign_in.html" if status == 401 else "problem.html"
        cookie = {"set-cookie": set_cookie("", secure=self.secure)} if status == 401 else {}
        shown = Shown(template, "Sign in" if cookie else "Problem", {"problem": reason}, {"link": ""}, status)
        await self._show(shown, cookie)

    async def _show(self, shown: Shown, more: dict[str, str] | None = None) -> None:
        if self.wants_json:
            await self._send(shown.status, encode_json(shown.data), "application/json", more)
            return
        signed_in = self.page.sign_in is None or bool(self.user)
        text = await asyncio.to_thread(render, shown.template, self._values(shown, signed_in))
        data = text.encode("utf-8", "replace")
        await self._send(shown.status, data, "text/html; charset=utf-8", more)

    def _values(self, shown: Shown, signed_in: bool) -> dict[str, Any]:
        json_query = urlencode({**self.query, "format": "json"})
        return {
            **shown.extra,
            "data": shown.data,
            "title": shown.title,
            "menu": self.page.sources.menu() if signed_in else [],
            "path": self.path,
            "where": self.page.sources.where if signed_in else "",
            "user": self.user,
            "version": _asset_version(),
            "json_url": f"?{json_query}",
            "query": self.query,
            "part": self.query.get("part", ""),
            "status": shown.status,
        }

    async def _send_asset(self, name: str) -> None:
        if name not in _ASSETS or self.method == "POST":
            raise Missing("there is no such file")
        fresh = {"cache-control": "public, max-age=31536000, immutable"} if "v" in self.query else {}
        await self._send(200, asset(name), _ASSETS[name], fresh)

    async def _redirect(self, to: str, more: dict[str, str] | None = None) -> None:
        await self._send(303, b"", "text/plain; charset=utf-8", {"location": to, **(more or {})})

    async def _send(self, status: int, data: bytes, media_type: str, more: dict[str, str] | None = None) -> None:
        await self._start(status, media_type, {"content-length": str(len(data)), **(more or {})})
        await self._asgi_send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else data})

    async def _start(self, status: int, media_type: str, more: dict[str, str]) -> None:
        headers = {"content-type": media_type, "cache-control": "no-store", **HEADERS, **more}
        self.started = True
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self._asgi_send({"type": "http.response.start", "status": status, "headers": raw})


def _asset_version() -> str:
    return hashlib.sha256(b"".join(asset(name) for name in _ASSETS)).hexdigest()[:12]


def _fields(data: bytes) -> dict[str, str]:
    """Return the fields of a query or a form. A name that comes twice has its last value."""
    try:
        pairs = parse_qsl(data.decode("latin-1"), keep_blank_values=True, max_num_fields=_FIELDS, errors="replace")
    except ValueError:
        raise Rejected(400, f"more than {_FIELDS} fields") from None
    return dict(pairs)
