"""Where conversations and traces are kept: among the user's own files, and not in the project folder."""

import os
from pathlib import Path

from toolwire.errors import UserError

TRACES = "TOOLWIRE_TRACES"


def state_folder(option: str) -> Path:
    """Give the folder of what is kept from run to run; `option` says how to do without it."""
    configured = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        home = configured if configured.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        raise UserError(f"your home folder is not known here: pass {option}, to keep it there") from None
    return home / "toolwire"


def usual_runs() -> str:
    """Give the address of the usual database of runs, and make its folder."""
    return _database("runs.db", "--database sqlite:///FILE", make=True)


def usual_store(*, make: bool) -> str:
    """Give the address of the usual store of traces; its folder may be made."""
    return os.environ.get(TRACES) or _database("traces.db", "sqlite:///FILE", make=make)


def _database(name: str, option: str, *, make: bool) -> str:
    folder = state_folder(option)
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{folder / name}"
