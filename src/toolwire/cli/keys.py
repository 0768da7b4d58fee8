"""`toolwire keys`: create, list, show and revoke the keys of a gateway, in the database of its settings.

Rule: a key is printed once, alone on standard output, when it is created. It cannot be read afterwards.
"""

import argparse
import contextlib
import json
import time
from datetime import UTC, datetime
from typing import Any

from toolwire.cli.parsing import require_extra
from toolwire.errors import InvalidField, UserError

_LIMITS = {
    "requests": ("60/min", "requests in a window: N/min, N/hour, N/day or N/month; a bare N is a minute"),
    "tokens": ("100000/min", "tokens in a window"),
    "budget": ("20/day", "US dollars in a window"),
}


def add(commands: Any) -> None:
    """Add the command `keys`."""
    command = commands.add_parser("keys", help="create, list, show and revoke the keys of a gateway")
    actions = command.add_subparsers(metavar="ACTION")
    create = actions.add_parser("create", help="create a key, and print it once")
    create.add_argument("--name", required=True, help="the name of the key's owner, which no other key has")
    create.add_argument("--team", default="", help="the team that `toolwire usage` counts the key for")
    create.add_argument("--user", default="", help="the person that `toolwire usage` counts the key for")
    create.add_argument("--admin", action="store_true", help="let the key read the usage of all keys")
    create.add_argument("--models", metavar="A,B/*", help="the models that the key may use (default: all)")
    for limit, (example, text) in _LIMITS.items():
        create.add_argument(f"--{limit}", metavar=example, help=text)
    create.add_argument("--expires", metavar="30d", help="how long the key is valid")
    create.set_defaults(run=_create)
    listing = actions.add_parser("list", help="list the keys")
    listing.set_defaults(run=_list)
    for name, run, text in (
        ("show", _show, "show a key, and what it has spent"),
        ("revoke", _revoke, "revoke a key"),
    ):
        action_parser = actions.add_parser(name, help=text)
        action_parser.add_argument("key", metavar="KEY", nargs="?", help="the name or the id of the key")
        action_parser.add_argument("--name", help="the same")
        action_parser.set_defaults(run=run)
    for action in actions.choices.values():
        action.add_argument("--config", metavar="FILE", required=True, help="the gateway's file of settings")


def _ledger(options: argparse.Namespace) -> Any:
    with require_extra("serve", "to keep keys"):
        from toolwire.gateway import starting  # noqa: PLC0415 - an extra
    return contextlib.closing(starting.ledger_of(starting.settings_from(options.config), options.config))


def _create(options: argparse.Namespace) -> int:
    from toolwire.config import seconds_of  # noqa: PLC0415 - of this command alone
    from toolwire.gateway.keys import limit_of, mint  # noqa: PLC0415 - likewise

    now = time.time()
    try:
        expires = None if options.expires is None else now + seconds_of(options.expires)
        _day(expires)
    except (ValueError, OverflowError) as problem:
        raise InvalidField("expires", str(problem)) from None
    if expires is not None and expires <= now:
        raise InvalidField("expires", "must be more than 0 seconds")
    texts = {kind: getattr(options, kind) for kind in _LIMITS}
    limits = [limit_of(kind, text) for kind, text in texts.items() if text is not None]
    models = [name.strip() for name in (options.models or "").split(",") if name.strip()]
    if options.models is not None and not models:
        raise InvalidField("models", "must name a model; without --models the key may ask for all")
    of_whom: dict[str, Any] = {"team": options.team, "user": options.user, "is_admin": options.admin}
    text, key = mint(options.name, models, limits, now, expires, **of_whom)
    with _ledger(options) as ledger:
        ledger.add_named(key)
    print(text)
    return 0


def _list(options: argparse.Namespace) -> int:
    now = time.time()
    with _ledger(options) as ledger:
        keys = ledger.listed()
    for key in keys:
        limits = " ".join(f"{limit.kind}={limit}" for limit in key.limits) or "no limits"
        print(f"{key.id}  {key.state(now):<8} {key.name:<20} {','.join(key.models) or '*':<24} {limits}")
    return 0


def _find(ledger: Any, options: argparse.Namespace) -> Any:
    """Return the key that has the given id or name. If several share the name, only active keys count."""
    name = options.key or options.name
    if not name:
        raise InvalidField("key", "is missing: pass the name or the id of a key")
    keys = [key for key in ledger.listed() if name in (key.id, key.name)]
    active = [key for key in keys if key.revoked is None] or keys[-1:]
    if not active:
        raise UserError(f"there is no key {name!r}")
    if len(active) > 1:
        raise InvalidField("key", f"{name!r} matches several keys; use an id: {', '.join(key.id for key in active)}")
    return active[0]


def _show(options: argparse.Namespace) -> int:
    now = time.time()
    with _ledger(options) as ledger:
        key = _find(ledger, options)
        taken = ledger.taken(key, now)
    record = {
        "id": key.id,
        "name": key.name,
        "team": key.team,
        "user": key.user,
        "admin": key.is_admin,
        "state": key.state(now),
        "models": list(key.models) or ["*"],
        "limits": {limit.kind: str(limit) for limit in key.limits},
        "taken": {limit.kind: _amount(limit, taken[f"{limit.kind} {limit}"]) for limit in key.limits},
        "created": _day(key.created),
        "expires": _day(key.expires),
        "revoked": _day(key.revoked),
    }
    print(json.dumps(record, indent=2, ensure_ascii=False))
    return 0


def _amount(limit: Any, taken: int) -> float | int:
    from toolwire.gateway.keys import NANO  # noqa: PLC0415 - of this command alone

    return taken / NANO if limit.kind == "budget" else taken


def _day(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _revoke(options: argparse.Namespace) -> int:
    with _ledger(options) as ledger:
        key = _find(ledger, options)
        if key.revoked is None:
            ledger.revoke(key.id, time.time())
    print(f"{key.id} ({key.name}) is revoked")
    return 0
