"""The values of a request that the usage ledger and the log record.

Rules of this file:
- A model's name is recorded if the gateway has the model. Any other text in its place may be a secret.
- The session that a client names is recorded as a hash.
- A text that looks like a key is masked.
"""

import hashlib
from functools import lru_cache

from toolwire.gateway.context import RequestOutcome
from toolwire.gateway.keys import Key
from toolwire.gateway.usage_rows import UsageRow, day_of, row_id
from toolwire.scrubbing import scrub_text
from toolwire.translation.paths import RouteMatch

LONGEST = 200
"""Characters of a model's name or of a path that are recorded."""
_NAMES_MODEL = frozenset({"answer", "count", "model"})  # the actions whose path may name a model
UNKNOWN = "(unknown)"
"""Stands in a path where a client named a model that the gateway does not have."""


def recorded(text: str) -> str:
    """Return a text of a client as it may be recorded: short, printable, and without what looks like a key."""
    return _recorded(text[: 2 * LONGEST])


@lru_cache(1024)
def _recorded(text: str) -> str:
    clean = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return scrub_text(clean)[:LONGEST]


def recorded_model(outcome: RequestOutcome) -> str:
    """Return the name of the model that the client asked for. Return an empty text if the gateway has no such model."""
    return recorded(outcome.model) if outcome.model_is_known else ""


def recorded_path(path: str, endpoint: RouteMatch | None, outcome: RequestOutcome) -> str:
    """Return the path of a request, without the name of a model that the gateway does not have."""
    if endpoint is not None and endpoint.subject and endpoint.action in _NAMES_MODEL and not outcome.model_is_known:
        path = path.replace(endpoint.subject, UNKNOWN)
    return recorded(path)


def row_of(
    request: str,
    now: float,
    key: Key | None,
    wire: str,
    action: str,
    outcome: RequestOutcome,
    seconds: float,
    first_byte: float | None,
) -> UsageRow:
    """Return the row of an answered request."""
    tokens = outcome.tokens
    severities = [loss.severity for loss in outcome.losses]
    return UsageRow(
        id=row_id(now, request),
        request=request,
        time=now,
        day=day_of(now),
        key="" if key is None else key.id,
        key_name="" if key is None else key.name,
        team="" if key is None else key.team,
        user_name="" if key is None else key.user,
        session=_hash(key, outcome.session) if outcome.session else "",
        wire=wire,
        action=action,
        asked=recorded_model(outcome),
        provider=outcome.provider.partition("/")[0],
        model="" if tokens is None else recorded(outcome.provider),
        status=outcome.status,
        ending=outcome.ending,
        requests=1,
        input_tokens=0 if tokens is None else tokens.input,
        output_tokens=0 if tokens is None else tokens.output,
        cached_tokens=0 if tokens is None else tokens.cache_read,
        cache_write_tokens=0 if tokens is None else tokens.cache_write,
        cost_nano=outcome.cost,
        estimated=tokens is not None and tokens.estimated,
        seconds=seconds,
        first_byte=first_byte,
        formal_losses=severities.count("formal"),
        minor_losses=severities.count("minor"),
        semantic_losses=severities.count("semantic"),
    )


def _hash(key: Key | None, session: str) -> str:
    """Return the hash of a client's session. Sessions of two keys have different hashes."""
    owner = b"" if key is None else key.salt
    return hashlib.sha256(owner + session.encode(errors="surrogatepass")).hexdigest()[:16]
