"""Who may see the page: host names, other sites, links that work once, and sessions.

Rules of this file:
- A request with a host name that is not ours, or that another site caused, is rejected before anything else.
- A link works once and for ten minutes. Opening it shows a button, because mail programs and chat programs open links
  on their own; the button uses it up.
- A session is a cookie that no script can read and that no other site can send. Only hashes of links and of cookies are
  stored. A session ends after twelve hours, or when its key is revoked.
"""

import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

_COOKIE = "toolwire_page"
_LINK_SECONDS = 600.0
_SESSION_SECONDS = 12 * 3600.0
_MOST_LINKS = 100
_MOST_SESSIONS = 1000
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_OWN_SITES = frozenset({"", "none", "same-origin"})
_READING = frozenset({"GET", "HEAD"})


class Rejected(Exception):
    """A request that gets no page: its HTTP status, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status: int = status
        self.reason: str = reason


class Hosts(Struct, frozen=True):
    """The host names of the page: those of this machine if it listens on loopback, those of the settings, or any."""

    names: tuple[str, ...] = ()
    loopback: bool = True

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Raise `Rejected` for a host name that is not ours, and for a request that another site caused."""
        host = headers.get("host", "").lower()
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if not name or not (name in self.names or (self.loopback and name in _LOOPBACK) or self._is_any):
            raise Rejected(421, f"this page does not answer to the host {host[:100]!r}: see [page] hosts")
        origin = headers.get("origin", "").lower()
        if origin and origin.partition("://")[2] != host:
            raise Rejected(403, "this page does not answer to other sites")
        if headers.get("sec-fetch-site", "").lower() not in _OWN_SITES:
            raise Rejected(403, "another site led here: open the page by its address")
        if method not in _READING and not origin and headers.get("sec-fetch-site") is None and "cookie" in headers:
            raise Rejected(403, "the browser did not send where this form comes from")

    @property
    def _is_any(self) -> bool:
        return not self.loopback and not self.names


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


class _Ticket(Struct, frozen=True):
    """A link or a session: when it ends, and the credential that it stands for."""

    ends: float
    credential: str


class SignIn:
    """The links and the sessions of one process.

    `check` returns the name of an admin's key from its text, and raises for any other text. It is asked again on each
    request, so that a revoked key ends its sessions.
    """

    def __init__(
        self, check: Callable[[str], Awaitable[str]] | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self._check, self._now = check, now
        self._links: dict[bytes, _Ticket] = {}
        self._sessions: dict[bytes, _Ticket] = {}

    def make_link(self, credential: str = "") -> str:
        """Return the token of a new link for a key. Without a key it is for whoever started the server."""
        token = secrets.token_urlsafe(32)
        self._store(self._links, token, _Ticket(self._now() + _LINK_SECONDS, credential), _MOST_LINKS)
        return token

    async def make_link_for(self, credential: str) -> str:
        """Return the token of a new link for an admin's key. Raise `Rejected` for any other key."""
        if self._check is None:
            raise Rejected(404, "there are no keys here")
        await self._check(credential)
        return self.make_link(credential)

    def _store(self, tickets: dict[bytes, _Ticket], token: str, ticket: _Ticket, most: int) -> None:
        now = self._now()
        for key in [key for key, one in tickets.items() if one.ends <= now]:
            del tickets[key]
        while len(tickets) >= most:
            del tickets[next(iter(tickets))]
        tickets[_hash(token)] = ticket

    async def use_link(self, token: str) -> str:
        """Use a link up. Return the cookie of the session. Raise `Rejected` if the link was used, or is too old."""
        ticket = self._links.pop(_hash(token), None)
        if ticket is None or ticket.ends <= self._now():
            raise Rejected(403, "this link was used, or is older than ten minutes: ask for another one")
        if self._check is not None and ticket.credential:
            await self._check(ticket.credential)
        cookie = secrets.token_urlsafe(32)
        self._store(self._sessions, cookie, _Ticket(self._now() + _SESSION_SECONDS, ticket.credential), _MOST_SESSIONS)
        return cookie

    async def check_session(self, headers: Mapping[str, str]) -> str:
        """Return the name of the key that is signed in. Raise `Rejected` if there is none."""
        ticket = self._sessions.get(_hash(_cookie_in(headers)))
        if ticket is None or ticket.ends <= self._now():
            raise Rejected(401, "you are not signed in")
        return await self._check(ticket.credential) if self._check is not None and ticket.credential else "you"

    def end_session(self, headers: Mapping[str, str]) -> None:
        """End a session."""
        self._sessions.pop(_hash(_cookie_in(headers)), None)


def _cookie_in(headers: Mapping[str, str]) -> str:
    """Return the cookie of the page, or an empty text."""
    for pair in headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == _COOKIE:
            return value
    return ""


def set_cookie(value: str, *, secure: bool, seconds: float = _SESSION_SECONDS) -> str:
    """Return the header that sets the cookie, or deletes it."""
    end = f"Max-Age={seconds:.0f}" if value else "Max-Age=0"
    return f"{_COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; {end}{'; Secure' if secure else ''}"


def bearer_in(headers: Mapping[str, str]) -> str:
    """Return the key in the header `authorization`, or an empty text."""
    scheme, _, text = headers.get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""
