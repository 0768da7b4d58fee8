"""The forms in which a known secret reappears: as it is, escaped, encoded, or turned around."""

import base64
import html
import json
from collections.abc import Collection, Iterator
from urllib.parse import quote, quote_plus

from toolwire.scrubbing.masks import LONG, SHORTEST

MOST = 1000


class TooMany(Exception):
    """More secrets than can be searched for."""


def forms_of(secrets: Collection[str]) -> list[str]:
    """List every form of the secrets, the longest first; what is too short to be told apart is left out."""
    if len(secrets) > MOST:
        raise TooMany(f"{len(secrets)} secrets; at most {MOST} can be searched for")
    found = {form for secret in secrets for form in _forms(secret)}
    return sorted(found, key=lambda form: (-len(form), form))


def _forms(secret: str) -> Iterator[str]:
    if len(secret) < SHORTEST:
        return
    yield from (
        secret,
        repr(secret)[1:-1],
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    )
    if len(secret) < LONG:
        return
    data = secret.encode(errors="surrogatepass")
    escaped = quote(data, safe="")
    yield from (
        secret[::-1],
        data.hex(),
        data.hex().upper(),
        html.escape(secret),
        json.dumps(json.dumps(secret))[3:-3],
    )
    yield from (escaped, escaped.lower(), quote(data), quote_plus(data))
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode()
        rest = (before + len(data)) % 3
        inner = text[(0, 2, 3)[before] : len(text) - (0, 3, 2)[rest]]
        yield from (inner, inner.replace("+", "-").replace("/", "_"))
