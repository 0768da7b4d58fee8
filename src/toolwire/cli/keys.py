"""`toolwire keys`: create, list, show, change and revoke the keys of a gateway, in the database of its settings.

Rule: a key is printed once, alone on standard output, when it is created. It cannot be read afterwards.
"""

import argparse
import contextlib
import json
import time
from typing import Any

from toolwire.cli.commands import SUMMARIES
from toolwire.cli.parsing import require_extra
from toolwire.errors import InvalidField, UserError

_LIMITS = {
    "requests": ("60/min", "requests in a window: N/min, N/hour, N/day or N/month; a bare N is a minute"),
    "tokens": ("100000/min", "tokens in a window"),
    "budget": ("20/day", "US dollars in a window"),
}
_TEXTS = ("team", "user", "alert", "expires")
_ADMIN = "let the key read the usage of all keys, and manage keys where [admin] is on"
_NONE = "none"  # removes a setting


def add(commands: Any) -> None:
    """Add the command `keys`."""
    command = commands.add_parser("keys", help=SUMMARIES["keys"])
    actions = command.add_subparsers(metavar="ACTION")
    create = actions.add_parser("create", help="create a key, and print it once")
    create.add_argument("--name", required=True, help="the name of the key's owner, which no other key in force has")
    _add_settings(create)
    create.add_argument("--admin", action="store_true", default=None, help=f"{_ADMIN} (default: no)")
    create.set_defaults(run=_create)
    change = actions.add_parser("change", help="change the settings of a key; the word none removes a setting")
    change.add_argument("key", metavar="KEY", help="the name or the id of the key")
    change.add_argument("--name", metavar="NEW", help="a new name")
    _add_settings(change)
    change.add_argument("--admin", choices=("yes", "no"), help=_ADMIN)
    change.set_defaults(run=_change)
    listing = actions.add_parser("list", help="list the keys, and what they have spent in the windows of their limits")
    listing.add_argument("--json", action="store_true", help="print a list of JSON objects")
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


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--team", help="the team that `toolwire usage` counts the key for")
    parser.add_argument("--user", help="the person that `toolwire usage` counts the key for")
    parser.add_argument("--models", metavar="A,B/*", help="the models that the key may use (default: all)")
    for limit, (example, text) in _LIMITS.items():
        parser.add_argument(f"--{limit}", metavar=example, help=text)
    parser.add_argument("--alert", metavar="80%", help="the part of the budget that raises an alert when it is spent")
    parser.add_argument("--expires", metavar="30d", help="how long the key is valid, or until which time in ISO 8601")


def _ledger(options: argparse.Namespace) -> Any:
    with require_extra("serve", "to keep keys"):
        from toolwire.gateway import starting  # noqa: PLC0415 - an extra
    return contextlib.closing(starting.ledger_of(starting.settings_from(options.config), options.config))


def _create(options: argparse.Namespace) -> int:
    from toolwire.gateway.key_json import changed_key  # noqa: PLC0415 - of this command alone
    from toolwire.gateway.keys import mint  # noqa: PLC0415 - likewise

    now = time.time()
    text, key = mint(options.name, (), (), now, None)
    key = changed_key(key, _settings_in(options), now)
    with _ledger(options) as ledger:
        ledger.add_named(key)
    print(text)
    return 0


def _settings_in(options: argparse.Namespace) -> Any:
    """Return the settings of a key that the command line names."""
    from toolwire.gateway.key_json import KeySettings  # noqa: PLC0415 - of this command alone

    limits = {kind: _unless_none(text) for kind in _LIMITS if (text := getattr(options, kind)) is not None}
    settings: dict[str, Any] = {
        name: _unless_none(text) for name in _TEXTS if (text := getattr(options, name)) is not None
    }
    if options.name is not None:
        settings["name"] = options.name
    if options.admin is not None:
        settings["admin"] = options.admin in (True, "yes")
    if options.models is not None:
        models = [name.strip() for name in options.models.split(",") if name.strip()]
        if not models:
            raise InvalidField("models", "must name a model; without --models the key may ask for all")
        settings["models"] = None if models == [_NONE] else models
    return KeySettings(limits=limits, **settings)


def _unless_none(text: str) -> str | None:
    return None if text == _NONE else text


def _change(options: argparse.Namespace) -> int:
    from toolwire.gateway.key_json import KeySettings, changed_key  # noqa: PLC0415 - of this command alone

    settings, now = _settings_in(options), time.time()
    if settings == KeySettings(limits={}):
        raise InvalidField("settings", "are missing: name what to change, such as --budget 30/day")
    with _ledger(options) as ledger:
        key = _find(ledger, options.key)
        ledger.change(key.id, lambda before: changed_key(before, settings, now), now)
    print(f"{key.id} ({key.name}) is changed")
    return 0


def _list(options: argparse.Namespace) -> int:
    from toolwire.gateway.key_json import key_record  # noqa: PLC0415 - of this command alone

    now = time.time()
    with _ledger(options) as ledger:
        keys = ledger.listed()
        taken = ledger.taken_of(keys, now)
    records = [key_record(key, taken[key.id], now) for key in keys]
    if options.json:
        print(json.dumps(records, indent=2, ensure_ascii=False))
        return 0
    for record in records:
        print(_line_of(record))
    return 0


def _line_of(record: dict[str, Any]) -> str:
    """Return a key as a line of the list: its settings, then what counts as spent in the present windows."""
    limits = " ".join(f"{kind}={limit}" for kind, limit in record["limits"].items()) or "no limits"
    taken = " ".join(
        f"{kind}={amount:g}" if kind == "budget" else f"{kind}={amount}" for kind, amount in record["taken"].items()
    )
    owner = " ".join(f"{name}={record[name]}" for name in ("team", "user") if record[name])
    marks = [limits, f"taken {taken}" if taken else "", owner, "admin" if record["admin"] else ""]
    models = ",".join(record["models"])
    return f"{record['id']}  {record['state']:<8} {record['name']:<20} {models:<24} " + "  ".join(filter(None, marks))


def _find(ledger: Any, name: str | None) -> Any:
    """Return the key that has the given id or name. If several share the name, it is the key in force, or the last."""
    now = time.time()
    if not name:
        raise InvalidField("key", "is missing: pass the name or the id of a key")
    keys = [key for key in ledger.listed() if name in (key.id, key.name)]
    active = [key for key in keys if key.state(now) == "active"] or keys[-1:]
    if not active:
        raise UserError(f"there is no key {name!r}")
    if len(active) > 1:
        raise InvalidField("key", f"{name!r} matches several keys; use an id: {', '.join(key.id for key in active)}")
    return active[0]


def _show(options: argparse.Namespace) -> int:
    from toolwire.gateway.key_json import key_record  # noqa: PLC0415 - of this command alone

    now = time.time()
    with _ledger(options) as ledger:
        key = _find(ledger, options.key or options.name)
        taken = ledger.taken_of([key], now)[key.id]
    print(json.dumps(key_record(key, taken, now), indent=2, ensure_ascii=False))
    return 0


def _revoke(options: argparse.Namespace) -> int:
    with _ledger(options) as ledger:
        key = _find(ledger, options.key or options.name)
        ledger.revoke(key.id, time.time())
    print(f"{key.id} ({key.name}) is revoked")
    return 0
