"""The default places of conversations, traces and runs: the user's state folder, and not the project folder."""

import os
from pathlib import Path

from toolwire.errors import UserError

TRACES = "TOOLWIRE_TRACES"


def state_folder(option: str) -> Path:
    """Return toolwire's folder in the user's state folder.

    Raise UserError that recommends `option` if the home folder is unknown.
    """
    configured = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        home = configured if configured.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        raise UserError(f"your home folder is not known here: pass {option}") from None
    return home / "toolwire"


def default_runs() -> str:
    """Return the URL of the default database of runs, and create its folder."""
    return _database("runs.db", "--database sqlite:///FILE", make=True)


def default_store(*, make: bool) -> str:
    """Return the URL of the default trace store; with `make`, create its folder."""
    return os.environ.get(TRACES) or _database("traces.db", "sqlite:///FILE", make=make)


def _database(name: str, option: str, *, make: bool) -> str:
    folder = state_folder(option)
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{folder / name}"
