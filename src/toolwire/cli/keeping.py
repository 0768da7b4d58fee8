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


def usual_runs(*, make: bool = False) -> str:
    """Give the address of the usual database of runs; its folder may be made."""
    folder = state_folder("--database sqlite:///FILE")
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{folder / 'runs.db'}"


def usual_store(*, make: bool = False) -> str:
    """Give the address of the usual store of traces; its folder may be made."""
    if configured := os.environ.get(TRACES):
        return configured
    folder = state_folder("sqlite:///FILE")
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{folder / 'traces.db'}"
