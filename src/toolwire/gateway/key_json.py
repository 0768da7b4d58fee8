"""A key as JSON: how the command line and `/toolwire/keys` show it, and how its settings are parsed.

Rules of this file:
- Neither the key itself nor its hash is in the JSON.
- A value that is shown can be sent back. null removes a setting.
- An unknown field is an error, so that no setting is ignored.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from toolwire.config import seconds_of
from toolwire.errors import InvalidBody, InvalidField, listed, suggestion
from toolwire.gateway.keys import NANO, Key, Limit, alert_of, check_key, limit_of
from toolwire.types.readable import readable
from toolwire.wire.bodies import read_body

KINDS = ("requests", "tokens", "budget")


@readable
class KeySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a key that a request creates or changes. A field that is not set stays as it is."""

    name: str | UnsetType = UNSET
    team: str | UnsetType | None = UNSET
    user: str | UnsetType | None = UNSET
    admin: bool | UnsetType = UNSET
    models: list[str] | UnsetType | None = UNSET
    limits: dict[str, str | None] | UnsetType | None = UNSET
    alert: str | UnsetType | None = UNSET
    expires: str | UnsetType | None = UNSET


def read_key_settings(body: bytes) -> KeySettings:
    """Parse the body of a request. Raise `InvalidBody` or `InvalidField` if it is wrong."""
    value = read_body(body)
    if type(value) is not dict:
        raise InvalidBody('must be a JSON object, such as {"name": "ci"}', path="body")
    _check_names(value, KeySettings.__struct_fields__, "of a key that can be set")
    try:
        return msgspec.convert(value, KeySettings)
    except msgspec.ValidationError as problem:
        text, _, field = str(problem).partition(" - at `$.")
        raise InvalidBody(text, path=field.rstrip("`") or "body") from None


def _check_names(names: Iterable[str], known: Iterable[str], description: str) -> None:
    for name in names:
        if name not in known:
            raise InvalidField(repr(name[:80]), f"is no field {description}{listed(known, suggestion(name, known))}")


def changed_key(key: Key, settings: KeySettings, now: float) -> Key:
    """Return `key` with other settings. Raise `InvalidField` if one is wrong."""
    changes: dict[str, Any] = {}
    if settings.name is not UNSET:
        changes["name"] = settings.name
    if settings.team is not UNSET:
        changes["team"] = settings.team or ""
    if settings.user is not UNSET:
        changes["user"] = settings.user or ""
    if settings.admin is not UNSET:
        changes["is_admin"] = settings.admin
    if settings.models is not UNSET:
        changes["models"] = _models_of(settings.models)
    if settings.limits is not UNSET:
        changes["limits"] = _limits_of(key.limits, settings.limits)
    if settings.alert is not UNSET:
        changes["alert"] = None if settings.alert is None else alert_of(settings.alert)
    if settings.expires is not UNSET:
        changes["expires"] = None if settings.expires is None else _expires_of(settings.expires, now)
    changed = replace(key, **changes)
    check_key(changed)
    return changed


def _models_of(names: list[str] | None) -> tuple[str, ...]:
    """Return the patterns of models. `*` alone is every model, as a key without patterns may use every model."""
    if names is None or names == ["*"]:
        return ()
    if not names:
        raise InvalidField("models", 'must name a model; null or ["*"] allows every model')
    return tuple(names)


def _limits_of(limits: tuple[Limit, ...], texts: Mapping[str, str | None] | None) -> tuple[Limit, ...]:
    """Return `limits` with those of `texts` in place of the ones of the same kind."""
    if texts is None:
        return ()
    _check_names(texts, KINDS, "of limits")
    new = {limit.kind: limit for limit in limits} | {
        kind: None if text is None else limit_of(kind, text) for kind, text in texts.items()
    }
    return tuple(limit for kind in KINDS if (limit := new.get(kind)) is not None)


def _expires_of(text: str, now: float) -> float:
    """Return when a key expires: after a time such as `30d`, or at a time in ISO 8601 with its zone."""
    try:
        at = _timestamp(text) if "T" in text else now + seconds_of(text)
        _iso_time(at)
    except (ValueError, OverflowError) as problem:
        raise InvalidField("expires", str(problem)) from None
    if at <= now:
        raise InvalidField("expires", "must be more than 0 seconds from now")
    return at


def _timestamp(text: str) -> float:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"must have a zone, such as {text[:19]}Z")
    return moment.timestamp()


def key_record(key: Key, taken: Mapping[str, int], now: float) -> dict[str, Any]:
    """Return what is shown of `key`. `taken` is what counts as spent of each of its limits, by kind."""
    return {
        "id": key.id,
        "name": key.name,
        "team": key.team,
        "user": key.user,
        "admin": key.is_admin,
        "state": key.state(now),
        "models": list(key.models) or ["*"],
        "limits": {limit.kind: str(limit) for limit in key.limits},
        "taken": {limit.kind: _amount_of(limit.kind, taken.get(limit.kind, 0)) for limit in key.limits},
        "alert": None if key.alert is None else f"{key.alert}%",
        "created": _iso_time(key.created),
        "expires": _iso_time(key.expires),
        "revoked": _iso_time(key.revoked),
    }


def _amount_of(kind: str, taken: int) -> float | int:
    """Return an amount as people read it: money in dollars."""
    return taken / NANO if kind == "budget" else taken


def _iso_time(at: float | None) -> str | None:
    """Return a time in ISO 8601, to the second. Raise `ValueError` or `OverflowError` if no calendar has it."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
