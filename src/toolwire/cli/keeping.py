"""Where conversations and traces are kept: among the user's own files, and not in the project folder.

Rules of this file:
- A file is replaced whole or not at all, and only its owner may read it: results hold what files hold.
- What cannot be kept stops nothing; who asked is told.
"""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from toolwire.client.saving import Saved, load, save
from toolwire.errors import UserError
from toolwire.types import Context

TRACES = "TOOLWIRE_TRACES"


def state_folder(option: str) -> Path:
    """Give the folder of what is kept from run to run; `option` says how to do without it."""
    told = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        home = told if told.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        raise UserError(f"nobody knows your home folder here: say {option}, to keep it there") from None
    return home / "toolwire"


def place_of(cwd: str) -> Path:
    """Give the file of the conversation of a project folder."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(cwd))).hexdigest()[:16]
    return state_folder("--session FILE") / f"{name}.json"


def usual_store(*, make: bool = False) -> str:
    """Give the address of the usual store of traces; its folder may be made."""
    if told := os.environ.get(TRACES):
        return told
    folder = state_folder("sqlite:///FILE")
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{folder / 'traces.db'}"


def keep(
    path: Path, context: Context, provider: str | None, model: str | None, conversation: str | None = None
) -> None:
    """Write a conversation."""
    data = save(context, provider, model, conversation).encode()
    fd, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        Path(made).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(made).unlink()
        raise


def kept(path: Path, where: str) -> Saved:
    """Read a conversation, to go on with it."""
    try:
        return load(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"there is no conversation to go on with {where}: {path} is not there") from None
