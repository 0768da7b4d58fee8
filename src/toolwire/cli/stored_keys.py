"""The providers' keys that `toolwire auth` stores: in the system's keyring, or in a file that only its user can read.

Rules of this file:
- A variable of the environment comes first. A stored key is sent to the provider's own server only.
- The file lists the providers whose keys are in the keyring, because a keyring cannot be listed.
- A file that other users can read is rejected, with the command that mends it.
"""

import contextlib
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from toolwire.cli.state_paths import config_folder
from toolwire.client.saving import write_atomically
from toolwire.errors import UserError
from toolwire.providers import PROVIDERS, Provider, named, put_key
from toolwire.types.readable import readable

_SERVICE = "toolwire"
_OTHERS = 0o077


@readable
class StoredKey(Struct, frozen=True, omit_defaults=True):
    """Where the key of a provider is; `key` is empty if it is in the keyring."""

    place: Literal["keyring", "file"]
    key: str = ""

    def __repr__(self) -> str:
        return f"StoredKey({self.place!r})"


def keys_file() -> Path:
    """Return the file of stored keys, which may not exist."""
    return config_folder() / "keys.json"


def stored_keys() -> dict[str, StoredKey]:
    """Return where the keys are, by provider. Raise UserError if other users can read the file."""
    path = keys_file()
    try:
        mode, data = path.stat().st_mode, path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    if mode & _OTHERS:
        raise UserError(f"other users can read it: chmod 600 {path}", path=str(path))
    try:
        return msgspec.json.decode(data, type=dict[str, StoredKey])
    except (msgspec.DecodeError, UnicodeError) as problem:
        raise UserError(f"is not a file of keys: {problem}", path=str(path)) from None


def _write(keys: dict[str, StoredKey]) -> None:
    path = keys_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(keys), indent=2).decode() + "\n")


def store_key(provider: str, key: str, *, in_file: bool) -> StoredKey:
    """Store the key of `provider`, in the keyring if there is one, and return where it is."""
    keys, ring = stored_keys(), None if in_file else _keyring()
    if ring is None:
        _forget(provider, keys)
        keys[provider] = StoredKey("file", key)
    else:
        try:
            ring.set_password(_SERVICE, provider, key)
        except Exception as problem:  # any backend has its own
            raise UserError(f"cannot store it: {problem}; --file stores it in a file", path="keyring") from problem
        keys[provider] = StoredKey("keyring")
    _write(keys)
    return keys[provider]


def remove_key(provider: str) -> bool:
    """Delete the stored key of `provider`. Return False if there is none."""
    keys = stored_keys()
    if provider not in keys:
        return False
    _forget(provider, keys)
    del keys[provider]
    _write(keys)
    return True


def _forget(provider: str, keys: dict[str, StoredKey]) -> None:
    """Delete the key of `provider` from the keyring, if it is there."""
    stored = keys.get(provider)
    if stored is not None and stored.place == "keyring" and (ring := _keyring()) is not None:
        with contextlib.suppress(Exception):  # it may have been deleted there
            ring.delete_password(_SERVICE, provider)


def stored_key(provider: Provider) -> str | None:
    """Return the stored key of `provider`, or of a provider with the same variables; None if there is none."""
    keys = stored_keys()
    alike = [preset.name for preset in PROVIDERS.values() if preset.env and preset.env == provider.env]
    name = next((one for one in (provider.name, *alike) if one in keys), None)
    if name is None:
        return None
    if keys[name].place == "file":
        return keys[name].key
    ring = _keyring()
    try:
        key: str | None = None if ring is None else ring.get_password(_SERVICE, name)
    except Exception as problem:
        raise UserError(f"cannot read the key of {name}: {problem}", path="keyring") from problem
    if key is None:
        raise UserError(f"has no key of {name}: toolwire auth set {name}", path="keyring")
    return key


def use_stored_keys() -> None:
    """Use the stored keys in this process, for the providers whose variables are not set."""
    for name in stored_keys():
        preset = named(name)
        if preset is not None and preset.lacks_key() and preset.placed().base_url == preset.base_url:
            for alike in PROVIDERS.values():
                if alike.env == preset.env:
                    put_key(alike.name, stored_key(preset))


def _keyring() -> Any:
    """Return the module `keyring` if it is installed and has a store; None otherwise."""
    try:
        keyring = import_module("keyring")  # optional, and slow to import
    except ImportError:
        return None
    return keyring if keyring.get_keyring().priority > 0 else None
