"""The gateway's own keys: how they are made, what they allow, and how a client sends one.

Rules of this file:
- A key is `tw-`, an id of eight letters, and 32 random letters. The gateway stores only a salted hash.
- A limit is a number in a window: `60/min`. Money is counted in whole billionths of a dollar.
- A client sends its key in a header, never in an address. Two different keys in one request are an error.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase

from msgspec import Struct

from toolwire.errors import InvalidField, UserError
from toolwire.gateway.errors import GatewayError
from toolwire.types.readable import readable

NANO = 1_000_000_000
_FIXED_WINDOWS = {"min": 60, "hour": 3600, "day": 86_400}
_LONGEST_MONTH = 31
_LONGEST_NAME = 100
_LONGEST_MODEL = 256
_MOST_MODELS = 1000
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_KEY_PATTERN = re.compile(r"tw-(?P<id>[a-z2-9]{8})[a-z2-9]{32}", re.ASCII)
_ALERT = re.compile(r"(?P<percent>[1-9]\d?|100)%", re.ASCII)
_LIMIT = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,9})?)(?:/(?P<window>min|hour|day|month))?", re.ASCII)
_CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
_KEY_IN_QUERY = re.compile(r"(?:^|&)(?:key|api_key|api-key|x-api-key|access_token)=", re.IGNORECASE)
_KEY_NEEDED = "a key of this gateway is needed: Authorization: Bearer tw-..., x-api-key, api-key or x-goog-api-key"
_PROGRAM_ONLY = "this gateway accepts only the key of the program that `toolwire launch` started"


class KeyConflict(InvalidField):
    """A change of a key that the other keys do not allow: a name that is taken, or the last admin key."""


class AdminRevoked(UserError):
    """The admin key of a change is no longer in force, or no longer an admin key."""


@readable
class Limit(Struct, frozen=True):
    """A limit: an amount of requests, tokens or money in a window. Money is in billionths of a dollar.

    A window is a full minute, hour or day of UTC, or a calendar month of UTC, as the bills of providers are.
    """

    kind: str
    amount: int
    window: str

    def window_at(self, now: float) -> tuple[int, int]:
        """Return the seconds at which the window of a time begins and ends."""
        if self.window == "month":
            first = datetime.fromtimestamp(now, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            next_first = (first + timedelta(days=_LONGEST_MONTH)).replace(day=1)
            return int(first.timestamp()), int(next_first.timestamp())
        seconds = _FIXED_WINDOWS[self.window]
        start = int(now // seconds) * seconds
        return start, start + seconds

    def __str__(self) -> str:
        amount = f"{Decimal(self.amount) / NANO:f}" if self.kind == "budget" else str(self.amount)
        return f"{amount}/{self.window}"


class Key(Struct, frozen=True, kw_only=True):
    """A key of a client, as the database stores it: with a hash instead of its text."""

    id: str
    name: str
    salt: bytes
    hash: bytes
    team: str = ""
    user: str = ""
    is_admin: bool = False
    models: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    alert: int | None = None  # the percentage of the budget that raises an alert when it is spent
    created: float = 0.0
    expires: float | None = None
    revoked: float | None = None

    def is_of(self, text: str) -> bool:
        """Return True if `text` is this key."""
        return hmac.compare_digest(self.hash, _hash(self.salt, text))

    def state(self, now: float) -> str:
        """Return `active`, `expired` or `revoked`."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"

    def may_ask(self, name: str) -> bool:
        """Return True if the key may use a model by this name."""
        return not self.models or any(fnmatchcase(name, pattern) for pattern in self.models)

    @property
    def budget(self) -> Limit | None:
        """The key's limit of money."""
        return next((limit for limit in self.limits if limit.kind == "budget"), None)

    @property
    def has_budget(self) -> bool:
        """True if the key has a limit of money."""
        return self.budget is not None


def limit_of(kind: str, text: str) -> Limit:
    """Parse a limit such as `60/min`. Without a window it is a limit per minute. Raise `InvalidField` if it is none."""
    match = _LIMIT.fullmatch(text.strip())
    if match is None or (kind != "budget" and "." in match["number"]):
        examples = (
            "300/month, 20/day or 0.5/hour" if kind == "budget" else "60/min, 1000/hour, 100000/day or 1000000/month"
        )
        raise InvalidField(kind, f"must be a limit such as {examples}, not {text!r}")
    amount = int(Decimal(match["number"]) * (NANO if kind == "budget" else 1))
    return Limit(kind, amount, match["window"] or "min")


def alert_of(text: str) -> int:
    """Parse a part of a budget such as `80%`. Raise `InvalidField` if it is none."""
    match = _ALERT.fullmatch(text.strip())
    if match is None:
        raise InvalidField("alert", f"must be a part of the budget from 1% to 100%, such as 80%, not {text!r}")
    return int(match["percent"])


def mint(
    name: str,
    models: Iterable[str],
    limits: Iterable[Limit],
    now: float,
    expires: float | None,
    *,
    team: str = "",
    user: str = "",
    is_admin: bool = False,
) -> tuple[str, Key]:
    """Make a key. Return its text, which is printed once, and the part to store.

    `team` and `user` are for the reports of usage. A key with `is_admin` may read what concerns all keys.
    """
    text = "tw-" + "".join(secrets.choice(_ALPHABET) for _ in range(40))
    salt = secrets.token_bytes(16)
    key = Key(
        id=text[3:11],
        name=name,
        salt=salt,
        hash=_hash(salt, text),
        team=team,
        user=user,
        is_admin=is_admin,
        models=tuple(models),
        limits=tuple(limits),
        created=now,
        expires=expires,
    )
    check_key(key)
    return text, key


def check_key(key: Key) -> None:
    """Raise `InvalidField` if a value of `key` is not possible."""
    if not (key.name.isprintable() and 0 < len(key.name) <= _LONGEST_NAME):
        raise InvalidField("name", f"must be a text of 1 to {_LONGEST_NAME} characters")
    for field, text in (("team", key.team), ("user", key.user)):
        if not (text.isprintable() and len(text) <= _LONGEST_NAME):
            raise InvalidField(field, f"must be a printable text of at most {_LONGEST_NAME} characters")
    if len(key.models) > _MOST_MODELS:
        raise InvalidField("models", f"must be at most {_MOST_MODELS} names")
    for model in key.models:
        if not (0 < len(model) <= _LONGEST_MODEL and min(model) > " "):
            raise InvalidField("models", f"must be names of 1 to {_LONGEST_MODEL} characters, without white space")
    if key.alert is not None and not key.has_budget:
        raise InvalidField("alert", "needs a budget, such as 20/day: it is a part of it")


def id_in(text: str) -> str:
    """Return the id in a key's text. Return an empty text if it is no key."""
    match = _KEY_PATTERN.fullmatch(text)
    return match["id"] if match is not None else ""


def _hash(salt: bytes, text: str) -> bytes:
    return hmac.digest(salt, text.encode(), hashlib.sha256)


def credential_in(pairs: Iterable[tuple[bytes, bytes]], query: str) -> str:
    """Return the key in a client's headers. Raise `GatewayError` if there is none, or if two differ."""
    texts = _credentials_in(pairs, query, _KEY_NEEDED)
    if len(texts) > 1:
        raise GatewayError("invalid_request", "the request has two different keys; send one")
    return texts.pop()


def check_program_key(key: str, pairs: Iterable[tuple[bytes, bytes]], query: str) -> None:
    """Raise `GatewayError` unless one of the credentials in a client's headers is `key`.

    A program may send a credential of its own beside the key, such as one of its vendor that the user has stored.
    """
    texts = _credentials_in(pairs, query, _PROGRAM_ONLY)
    if not any(hmac.compare_digest(text.encode(), key.encode()) for text in texts):
        raise GatewayError("authentication", _PROGRAM_ONLY)


def _credentials_in(pairs: Iterable[tuple[bytes, bytes]], query: str, needed: str) -> set[str]:
    """Return the credentials in a client's headers.

    Raise `GatewayError` if there is none, or if one is in the address.
    """
    credentials = [(name, value.decode("latin-1").strip()) for name, value in pairs if name in _CREDENTIALS]
    if _KEY_IN_QUERY.search(query):
        raise GatewayError("authentication", "a key must not be in the address; " + needed)
    if not credentials:
        raise GatewayError("authentication", needed)
    return {_bearer(value) if name == b"authorization" else value for name, value in credentials}


def _bearer(value: str) -> str:
    scheme, _, text = value.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def invalid_key() -> GatewayError:
    """Return the error for a key that is not valid. Its text is the same for every reason."""
    return GatewayError("authentication", "this key is unknown, expired or revoked; " + _KEY_NEEDED)
