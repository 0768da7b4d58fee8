"""The default places: conversations, traces and runs in the user's state folder, settings and keys in the other one."""

import os
from pathlib import Path

from msgspec.structs import replace

from toolwire.config import GatewaySettings
from toolwire.errors import UserError

TRACES = "TOOLWIRE_TRACES"


def state_folder(option: str) -> Path:
    """Return toolwire's folder in the user's state folder.

    Raise UserError that recommends `option` if the home folder is unknown.
    """
    return _folder("XDG_STATE_HOME", ".local/state", option)


def config_folder() -> Path:
    """Return toolwire's folder in the user's configuration folder. Raise UserError if the home folder is unknown."""
    return _folder("XDG_CONFIG_HOME", ".config", "XDG_CONFIG_HOME")


def default_runs() -> str:
    """Return the URL of the default database of runs, and create its folder."""
    return _database("runs.db", "--database sqlite:///FILE", make=True)


def default_store(*, make: bool) -> str:
    """Return the URL of the default trace store; with `make`, create its folder."""
    return os.environ.get(TRACES) or _database("traces.db", "sqlite:///FILE", make=make)


def _folder(variable: str, usual: str, remedy: str) -> Path:
    configured = Path(os.environ.get(variable, ""))
    try:
        return (configured if configured.is_absolute() else Path.home() / usual) / "toolwire"
    except RuntimeError as problem:
        raise UserError(f"your home folder is not known here: pass {remedy}") from problem


def default_records(*, make: bool) -> str:
    """Return the URL of the default database of records; with `make`, create its folder."""
    return _database("records.db", "--database sqlite:///FILE", make=make)


def with_records_file(settings: GatewaySettings) -> GatewaySettings:
    """Return a gateway's settings. If they record and name no database, the records are in the user's state folder."""
    record = settings.record
    if record is None or record.database or settings.server.database:
        return settings
    return replace(settings, record=replace(record, database=default_records(make=True)))


def _database(name: str, option: str, *, make: bool) -> str:
    folder = state_folder(option)
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{folder / name}"
