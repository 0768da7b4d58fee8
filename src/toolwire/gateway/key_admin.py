"""Keys over HTTP: an admin key creates, lists, shows, changes and revokes keys under `/toolwire/keys`.

Rules of this file:
- Every change is made in one transaction, which also checks that the admin key is still in force.
- A new key is in the response that creates it, and nowhere else.
- Web pages are rejected, whatever their origin. A cookie is never a credential.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, Struct, field

from toolwire.errors import InvalidField, UserError, listed, suggestion
from toolwire.gateway.accounts import Accounts
from toolwire.gateway.errors import GatewayError
from toolwire.gateway.key_json import changed_key, key_record, read_key_settings
from toolwire.gateway.keys import AdminRevoked, Key, KeyConflict, invalid_key, mint
from toolwire.gateway.ledger import LimitLedger

PATH = "/toolwire/keys"
MAX_BODY = 64 * 1024
_ID = re.compile(r"[a-z2-9]{8}", re.ASCII)
_NUMBER = re.compile(r"\d{1,4}", re.ASCII)
_PAGE = 100
_MOST = 1000
_PARAMETERS = ("after", "limit")
_CONFLICT = 409
_write = msgspec.json.Encoder().encode


class KeyEvent(Struct, frozen=True, kw_only=True):
    """A change of a key over HTTP, as a line of the log. `by` is the id of the admin key that made it."""

    time: str
    event: str
    key: str
    key_name: str
    by: str
    by_name: str


class _Reply(Struct):
    """The response to a request of an admin key."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def is_admin_path(path: str) -> bool:
    """Return True if `path` is one of `/toolwire/keys`."""
    return path == PATH or path.startswith(f"{PATH}/")


def check_no_page(headers: Mapping[str, str]) -> None:
    """Raise `GatewayError` if a browser sent the request for a web page."""
    if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
        raise GatewayError("permission", "web pages cannot manage keys: send no Origin", 403)


def methods_of(path: str) -> tuple[str, ...]:
    """Return the methods of a path of `/toolwire/keys`. Raise `GatewayError` if there is no such path."""
    if path == PATH:
        return ("GET", "HEAD", "POST")
    if not _ID.fullmatch(path.removeprefix(f"{PATH}/")):
        raise GatewayError("not_found", f"there is nothing at {path[:200]}: a key is at {PATH}/ID")
    return ("GET", "HEAD", "PATCH", "DELETE")


class KeyAdmin:
    """The keys of a gateway as the key `admin` manages them. `log` receives each change."""

    def __init__(self, accounts: Accounts, admin: Key, log: Callable[[KeyEvent], None]) -> None:
        self._accounts, self._admin, self._log = accounts, admin, log

    async def answer(self, method: str, path: str, query: str, body: bytes) -> _Reply:
        """Answer a request to `path`, whose `method` is one of its methods."""
        identity = path.removeprefix(PATH).removeprefix("/")
        try:
            match method:
                case "POST":
                    return await self._create(body)
                case "PATCH":
                    return await self._change(identity, body)
                case "DELETE":
                    return await self._revoke(identity)
                case _:
                    return await (self._show(identity) if identity else self._list(query))
        except KeyConflict as problem:
            raise GatewayError("invalid_request", str(problem), _CONFLICT) from None
        except AdminRevoked:
            raise invalid_key() from None
        except UserError as problem:
            raise GatewayError("invalid_request", str(problem)) from None

    async def _create(self, body: bytes) -> _Reply:
        settings, now = read_key_settings(body), self._accounts.now
        if settings.name is UNSET:
            raise InvalidField("name", "is missing")
        text, key = mint(settings.name, (), (), now, None)
        key = changed_key(key, settings, now)
        await self._accounts.run(lambda ledger: ledger.add_named(key, by=self._admin.id))
        self._note("key_created", key)
        reply = {"key": text, **key_record(key, {}, now)}
        return _Reply(_write(reply), 201, {"location": f"{PATH}/{key.id}"})

    async def _list(self, query: str) -> _Reply:
        after, most = _page_of(query)
        now = self._accounts.now

        def read(ledger: LimitLedger) -> tuple[list[Key], dict[str, dict[str, int]]]:
            keys = ledger.page(after, most + 1)
            return keys, ledger.taken_of(keys[:most], now)

        keys, taken = await self._accounts.run(read)
        records = [key_record(key, taken[key.id], now) for key in keys[:most]]
        return _Reply(_write({"keys": records, "next": records[-1]["id"] if len(keys) > most else None}))

    async def _show(self, identity: str) -> _Reply:
        return _Reply(_write(await self._record(await self._accounts.run(lambda ledger: ledger.find(identity)))))

    async def _record(self, key: Key | None) -> dict[str, Any]:
        """Return what is shown of `key`. Raise `GatewayError` if it is None."""
        if key is None:
            raise GatewayError("not_found", "there is no key with this id")
        now = self._accounts.now
        taken = await self._accounts.run(lambda ledger: ledger.taken_of([key], now))
        return key_record(key, taken[key.id], now)

    async def _change(self, identity: str, body: bytes) -> _Reply:
        settings, now = read_key_settings(body), self._accounts.now

        def change(ledger: LimitLedger) -> Key | None:
            return ledger.change(identity, lambda key: changed_key(key, settings, now), now, by=self._admin.id)

        return await self._changed("key_changed", await self._accounts.run(change))

    async def _revoke(self, identity: str) -> _Reply:
        now = self._accounts.now
        key = await self._accounts.run(lambda ledger: ledger.revoke(identity, now, by=self._admin.id))
        return await self._changed("key_revoked", key)

    async def _changed(self, event: str, key: Key | None) -> _Reply:
        """Put a change into force in this process, log it, and return the key."""
        if key is not None:
            self._accounts.forget(key.id)
            self._note(event, key)
        return _Reply(_write(await self._record(key)))

    def _note(self, event: str, key: Key) -> None:
        by = self._admin
        moment = self._accounts.time_in_utc()
        self._log(KeyEvent(time=moment, event=event, key=key.id, key_name=key.name, by=by.id, by_name=by.name))


def _page_of(query: str) -> tuple[str, int]:
    """Return the id after which a list begins, and how many keys it has at most."""
    parameters = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=100))
    for name in parameters:
        if name not in _PARAMETERS:
            hint = listed(_PARAMETERS, suggestion(name, _PARAMETERS))
            raise InvalidField(repr(name[:80]), f"is no parameter of a list of keys{hint}")
    limit = parameters.get("limit", str(_PAGE))
    if not (_NUMBER.fullmatch(limit) and 1 <= int(limit) <= _MOST):
        raise InvalidField("limit", f"must be a number from 1 to {_MOST}")
    after = parameters.get("after", "")
    if after and not _ID.fullmatch(after):
        raise InvalidField("after", "must be the id of a key")
    return after, int(limit)
