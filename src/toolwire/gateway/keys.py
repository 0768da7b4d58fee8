"""A gateway's own keys as values: how they are made, what they allow, and how a client shows one.

Rules of this file:
- A key is `tw-`, eight letters that name it, and 32 random ones. Of these only a salted hash is kept.
- A limit is a number in a window: `60/min`. Money is counted in whole billionths of a dollar.
- A client shows its key in a header, never in an address. Two keys that differ are nobody's.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from decimal import Decimal
from fnmatch import fnmatchcase

from msgspec import Struct

from toolwire.errors import InvalidField
from toolwire.gateway.errors import GatewayError
from toolwire.types.readable import readable

NANO = 1_000_000_000
WINDOWS = {"min": 60, "hour": 3600, "day": 86_400}
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_FORM = re.compile(r"tw-(?P<id>[a-z2-9]{8})[a-z2-9]{32}", re.ASCII)
_LIMIT = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,9})?)(?:/(?P<window>min|hour|day))?", re.ASCII)
_CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
_IN_QUERY = re.compile(r"(?:^|&)(?:key|api_key|api-key|x-api-key|access_token)=", re.IGNORECASE)
_WHO = "a key of this gateway is needed: Authorization: Bearer tw-..., x-api-key, api-key or x-goog-api-key"
_PROGRAM_ONLY = "this gateway accepts only the key of the program that `toolwire launch` started"


@readable
class Limit(Struct, frozen=True):
    """So much of something in a window; dollars are told in billionths."""

    kind: str
    amount: int
    window: str

    @property
    def seconds(self) -> int:
        """How long a window is."""
        return WINDOWS[self.window]

    def __str__(self) -> str:
        amount = f"{Decimal(self.amount) / NANO:f}" if self.kind == "budget" else str(self.amount)
        return f"{amount}/{self.window}"


class Key(Struct, frozen=True, kw_only=True):
    """What is kept of a key."""

    id: str
    name: str
    salt: bytes
    hash: bytes
    models: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    created: float = 0.0
    expires: float | None = None
    revoked: float | None = None

    def is_of(self, text: str) -> bool:
        """Whether a text is this key."""
        return hmac.compare_digest(self.hash, _hash(self.salt, text))

    def state(self, now: float) -> str:
        """Say whether it may be used."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"

    def may_ask(self, name: str) -> bool:
        """Whether it may ask for a model by this name."""
        return not self.models or any(fnmatchcase(name, pattern) for pattern in self.models)

    @property
    def has_budget(self) -> bool:
        """Whether it has dollars to spend, and no more."""
        return any(limit.kind == "budget" for limit in self.limits)


def limit_of(kind: str, text: str) -> Limit:
    """Read a limit such as `60/min`; without a window it is one for a minute."""
    match = _LIMIT.fullmatch(text.strip())
    if match is None or (kind != "budget" and "." in match["number"]):
        form = "20/day or 0.5/hour" if kind == "budget" else "60/min, 1000/hour or 100000/day"
        raise InvalidField(kind, f"must be a limit such as {form}, not {text!r}")
    amount = int(Decimal(match["number"]) * (NANO if kind == "budget" else 1))
    return Limit(kind, amount, match["window"] or "min")


def mint(
    name: str, models: Iterable[str], limits: Iterable[Limit], now: float, expires: float | None
) -> tuple[str, Key]:
    """Make a key: its text, which is told once, and what is kept of it."""
    if not (name.isprintable() and 0 < len(name) <= 100):
        raise InvalidField("name", "must be a text of 1 to 100 characters")
    text = "tw-" + "".join(secrets.choice(_ALPHABET) for _ in range(40))
    salt = secrets.token_bytes(16)
    made = Key(
        id=text[3:11],
        name=name,
        salt=salt,
        hash=_hash(salt, text),
        models=tuple(models),
        limits=tuple(limits),
        created=now,
        expires=expires,
    )
    return text, made


def id_in(text: str) -> str:
    """Give the id that a key's text begins with; empty where it is no key."""
    match = _FORM.fullmatch(text)
    return match["id"] if match is not None else ""


def _hash(salt: bytes, text: str) -> bytes:
    return hmac.digest(salt, text.encode(), hashlib.sha256)


def credential_in(pairs: Iterable[tuple[bytes, bytes]], query: str) -> str:
    """Return the key in a client's headers; raise `Refused` if there is none, or if there are two that differ."""
    texts = _credentials_in(pairs, query, _WHO)
    if len(texts) > 1:
        raise GatewayError("invalid_request", "two keys that differ were given; one is enough")
    return texts.pop()


def check_program_key(key: str, pairs: Iterable[tuple[bytes, bytes]], query: str) -> None:
    """Raise `Refused` unless one of the credentials in a client's headers is `key`.

    A program may send a credential of its own beside the key, such as one of its vendor that the user has stored.
    """
    texts = _credentials_in(pairs, query, _PROGRAM_ONLY)
    if not any(hmac.compare_digest(text.encode(), key.encode()) for text in texts):
        raise GatewayError("authentication", _PROGRAM_ONLY)


def _credentials_in(pairs: Iterable[tuple[bytes, bytes]], query: str, needed: str) -> set[str]:
    """Return the credentials in a client's headers; raise `Refused` if there is none, or one in the address."""
    given = [(name, value.decode("latin-1").strip()) for name, value in pairs if name in _CREDENTIALS]
    if _IN_QUERY.search(query):
        raise GatewayError("authentication", "a key must not stand in the address; " + needed)
    if not given:
        raise GatewayError("authentication", needed)
    return {_bearer(value) if name == b"authorization" else value for name, value in given}


def _bearer(value: str) -> str:
    scheme, _, text = value.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def refuse_key() -> GatewayError:
    """Refuse a key: with the same words, whatever is wrong with it."""
    return GatewayError("authentication", "this key is not known here, or no longer; " + _WHO)
