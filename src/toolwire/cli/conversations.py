"""The conversations that the command line keeps, one file for each, and `toolwire conversations`, which lists them.

Rules of this file:
- They lie among the user's own files, or where `--session` says. Only their owner may read them: results hold what
  files hold.
- A file is replaced whole or not at all, and only by the run that it is of. Where somebody else has written it since,
  what is to be kept goes into a new file beside it.
- An id is the time of the beginning and four letters; a part of it that only one has will do.
"""

import argparse
import contextlib
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from toolwire.cli.keeping import state_folder
from toolwire.cli.screen import shortened
from toolwire.client.saving import Saved, load_as, written
from toolwire.errors import ToolwireError, UserError
from toolwire.types.readable import readable
from toolwire.waiting.results import safe

_ID = re.compile(r"(?=.*\d)[0-9a-f-]+")
_WORDS = 60
_LISTS = "`toolwire conversations` lists them"


@readable
class Kept(Saved, frozen=True, kw_only=True):
    """A conversation, the project folder that it is about, and how it ended; it may not have ended yet."""

    folder: str = ""
    ending: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether the model has answered, so that it is for the user to go on."""
        messages = self.context.messages
        answered = bool(messages) and messages[-1].role == "assistant" and not messages[-1].tool_calls
        return answered and self.ending in ("", "answer", "refused")

    @property
    def prompts(self) -> list[str]:
        """What the user said."""
        return [message.text for message in self.context.messages if message.role == "user"]

    @property
    def turns(self) -> int:
        """How often the model has answered."""
        return sum(message.role == "assistant" for message in self.context.messages)


@readable
class _Beginning(msgspec.Struct):
    """What is read of a file to find it."""

    folder: str = ""


def _new_id() -> str:
    """Make an id that sorts by time."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"  # noqa: DTZ005 - the user's own clock


def is_id(text: str) -> bool:
    """Whether this may be an id or a part of one, and not what is to be done."""
    return _ID.fullmatch(text) is not None


def _folder_of_all() -> Path:
    return state_folder("--session FILE") / "conversations"


def _newest_first() -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(_folder_of_all().glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    return []


def found(part: str, cwd: str) -> Path:
    """Find a conversation by its id, or the last one of a folder."""
    if not part:
        folder = os.path.realpath(cwd)
        for path in _newest_first():
            with contextlib.suppress(OSError, msgspec.DecodeError):
                if msgspec.json.decode(path.read_bytes(), type=_Beginning).folder == folder:
                    return path
        raise UserError(f"there is no conversation to continue in this folder, {folder}; {_LISTS}")
    paths = [path for path in _newest_first() if path.stem.startswith(part) or path.stem.endswith(part)]
    if len(paths) != 1:
        known = f"{len(paths)} conversations begin or end with" if paths else "there is no conversation"
        raise UserError(f"{known} {part}; {_LISTS}", path="--continue")
    return paths[0]


def read(path: Path) -> Kept:
    """Read a conversation, to go on with it."""
    try:
        return load_as(path.read_bytes(), Kept)
    except FileNotFoundError:
        raise UserError(f"there is no conversation to continue: {path} is not there") from None


class Place:
    """The file of one conversation."""

    def __init__(self, path: Path | None = None) -> None:
        self.own: bool = path is None
        self.path: Path = path if path is not None else _folder_of_all() / f"{_new_id()}.json"
        self._seen = _mark(self.path)

    @property
    def new_conversation(self) -> str:
        """The id in traces of a conversation that begins here: that of its file, where the file has one."""
        return self.path.stem if self.own else _new_id()

    def keep(self, kept: Kept) -> bool:
        """Write the conversation; whether that was where it was before."""
        if self.own:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        stays = _mark(self.path) == self._seen
        if not stays:
            self.path = self.path.with_name(f"{_new_id()}.json")
        write(self.path, kept)
        self._seen = _mark(self.path)
        return stays


def _mark(path: Path) -> tuple[int, int, int] | None:
    """Tell one state of a file from another; None where there is none."""
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_mtime_ns, found.st_size
    return None


def write(path: Path, kept: Kept) -> None:
    """Write a conversation to a file, whole or not at all."""
    data = written(kept).encode()
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


def add(commands: Any) -> None:
    """Add the command of this file."""
    command = commands.add_parser(
        "conversations", help="list the conversations that `run --continue ID` can continue, newest first"
    )
    command.add_argument("--cwd", help="only those of this project folder")
    command.add_argument("--json", action="store_true", help="one JSON object to a line")
    command.set_defaults(run=_list)


def _list(options: argparse.Namespace) -> int:
    wanted = None if options.cwd is None else os.path.realpath(options.cwd)
    for path, kept in _readable(_newest_first()):
        if wanted in (None, kept.folder):
            row = _row(path, kept)
            print(msgspec.json.encode(row).decode() if options.json else safe(_line(row)))
    return 0


def _readable(paths: list[Path]) -> Iterator[tuple[Path, Kept]]:
    for path in paths:
        try:
            yield path, read(path)
        except (OSError, ToolwireError) as problem:
            print(f"toolwire: {path}: {safe(str(problem))}", file=sys.stderr)


def _row(path: Path, kept: Kept) -> dict[str, Any]:
    when = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
    first = shortened(" ".join(kept.prompts[0].split()), _WORDS) if kept.prompts else ""
    model = f"{kept.provider}/{kept.model}"
    return {
        "id": path.stem,
        "when": when.isoformat(" ", "minutes")[:16],
        "model": model,
        "turns": kept.turns,
        "folder": kept.folder,
        "ending": kept.ending,
        "words": first,
    }


def _line(row: dict[str, Any]) -> str:
    turns = f"{row['turns']} turn{'s' if row['turns'] != 1 else ''}"
    return f"{row['id']}  {row['when']}  {row['folder']}  {row['model']}  {turns}  {row['words']}"
