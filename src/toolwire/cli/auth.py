"""`toolwire auth`: store, list and remove the providers' keys.

Rule: a key is never an argument, because the shell keeps arguments in its history, and it is never printed.
"""

import argparse
import getpass
import os
import sys
from typing import Any

from toolwire.cli.commands import SUMMARIES
from toolwire.cli.screen import Screen, is_terminal
from toolwire.cli.stored_keys import StoredKey, keys_file, remove_key, store_key, stored_keys
from toolwire.errors import UserError
from toolwire.providers import Provider, UnknownProvider, named


def add(commands: Any) -> None:
    """Add the command `auth`."""
    command = commands.add_parser("auth", help=SUMMARIES["auth"])
    actions = command.add_subparsers(metavar="ACTION")
    action = actions.add_parser("set", help="store the key of a provider, which is typed or piped")
    action.add_argument("provider", metavar="PROVIDER", help="the provider, such as openai")
    action.add_argument("--file", action="store_true", help="store it in a file, also if there is a keyring")
    action.set_defaults(run=_set)
    action = actions.add_parser("list", help="list the providers whose keys are stored, without the keys")
    action.set_defaults(run=_list)
    action = actions.add_parser("remove", help="delete the stored key of a provider")
    action.add_argument("provider", metavar="PROVIDER", help="the provider, such as openai")
    action.set_defaults(run=_remove)


def _provider(name: str) -> Provider:
    """Return the known provider of this name. Raise UserError if there is none, or if it takes no key."""
    preset = named(name)
    if preset is None:
        raise UnknownProvider(name)
    if not preset.env:
        raise UserError("takes no key", path=preset.name)
    return preset


def _set(options: argparse.Namespace) -> int:
    provider = _provider(options.provider)
    key = _read_key(provider.name)
    if not key or not (key.isascii() and key.isprintable()) or " " in key:
        raise UserError("that is no key: it must be one word of ASCII characters", path=provider.name)
    stored = store_key(provider.name, key, in_file=options.file)
    Screen(sys.stderr).line(f"the key of {provider.name} is stored in {_place(stored)}", "words")
    _note_variable(provider)
    return 0


def _read_key(name: str) -> str:
    if is_terminal(sys.stdin):
        return getpass.getpass(f"Key of {name} (it is not shown): ").strip()
    return sys.stdin.readline().strip()


def _place(stored: StoredKey) -> str:
    return "the keyring" if stored.place == "keyring" else str(keys_file())


def _note_variable(provider: Provider) -> None:
    variable = next((name for name in provider.env if os.environ.get(name)), None)
    if variable is not None:
        print(f"${variable} is set, and comes first", file=sys.stderr)


def _list(_options: argparse.Namespace) -> int:
    keys = stored_keys()
    width = max(map(len, keys), default=0)
    screen = Screen()
    for name, stored in sorted(keys.items()):
        preset = named(name)
        variables = () if preset is None else preset.env
        first = next((f"  (${one} is set, and comes first)" for one in variables if os.environ.get(one)), "")
        screen.line(f"{name:<{width}}  {_place(stored)}{first}", "words")
    if not keys:
        Screen(sys.stderr).line("no key is stored: toolwire auth set PROVIDER", "words")
    return 0


def _remove(options: argparse.Namespace) -> int:
    name = _provider(options.provider).name
    if not remove_key(name):
        raise UserError("there is no stored key", path=name)
    print(f"the key of {name} is removed", file=sys.stderr)
    return 0
