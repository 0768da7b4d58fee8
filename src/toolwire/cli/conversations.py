"""The saved conversations of the command line, one file each, and `toolwire conversations`, which lists them.

Rules of this file:
- The files are in the user's state folder, or where `--session` says. Only their owner can read them, because tool
  results contain the contents of files.
- A file is replaced atomically, and only by the process that opened it. If another process has changed the file
  meanwhile, the conversation is written to a new file beside it.
- An id is the start time and four random letters. The beginning or the end of an id suffices if only one conversation
  matches.
"""

import argparse
import contextlib
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from toolwire.cli.commands import SUMMARIES
from toolwire.cli.screen import Screen, shorten
from toolwire.cli.state_paths import state_folder
from toolwire.client.saving import Saved, load_as, to_json, write_atomically
from toolwire.errors import ToolwireError, UserError
from toolwire.types import Message, Text
from toolwire.types.readable import readable
from toolwire.waiting.results import safe

_ID = re.compile(r"(?=.*\d)[0-9a-f-]+")
_WORDS = 60
_AROUND = 40
_LISTS = "`toolwire conversations` lists them"


@readable
class SavedConversation(Saved, frozen=True, kw_only=True):
    """A saved conversation with its project folder and how it ended. `ending` is empty while it has not ended.

    `command` is `ask` for a question without a project, and empty for `run` and `chat`.
    """

    folder: str = ""
    ending: str = ""
    command: str = ""

    @property
    def is_finished(self) -> bool:
        """True if the model has answered, so that the user has to write next."""
        messages = self.context.messages
        answered = bool(messages) and messages[-1].role == "assistant" and not messages[-1].tool_calls
        return answered and self.ending in ("", "answer", "unread_call", "refused")

    @property
    def prompts(self) -> list[str]:
        """The texts of the user's messages. The texts of attached files are paragraphs of their own."""
        return [
            "\n\n".join(part.text for part in message.parts if isinstance(part, Text))
            for message in self.context.messages
            if message.role == "user"
        ]

    @property
    def turns(self) -> int:
        """The number of the model's messages."""
        return sum(message.role == "assistant" for message in self.context.messages)


@readable
class _Beginning(msgspec.Struct):
    """The folder and the command of a saved conversation: the search for the last one reads no other field."""

    folder: str = ""
    command: str = ""


def _new_id() -> str:
    """Return a new id; ids sort by time."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"  # noqa: DTZ005 - the user's own clock


def is_id(text: str) -> bool:
    """Return True if `text` can be an id or part of one, and not a task."""
    return _ID.fullmatch(text) is not None


def _conversations_folder() -> Path:
    return state_folder("--session FILE") / "conversations"


def _newest_first() -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(_conversations_folder().glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    return []


def find(part: str, cwd: str = ".") -> Path:
    """Return the file of the conversation that `part` of an id names, or the newest task in the folder `cwd`.

    Raise UserError if none or several match.
    """
    if not part:
        folder = os.path.realpath(cwd)
        path = _newest(lambda one: one.folder == folder and one.command != "ask")
        if path is None:
            raise UserError(f"there is no conversation to continue in this folder, {folder}; {_LISTS}")
        return path
    paths = [path for path in _newest_first() if path.stem.startswith(part) or path.stem.endswith(part)]
    if len(paths) != 1:
        known = f"{len(paths)} conversations begin or end with" if paths else "there is no conversation"
        raise UserError(f"{known} {part}; {_LISTS}", path="--continue")
    return paths[0]


def find_asked() -> Path:
    """Return the file of the question that was asked last. Raise UserError if there is none."""
    path = _newest(lambda one: one.command == "ask")
    if path is None:
        raise UserError(f"nothing was asked yet, so there is nothing to continue; {_LISTS}", path="-c")
    return path


def _newest(is_meant: Callable[[_Beginning], bool]) -> Path | None:
    for path in _newest_first():
        with contextlib.suppress(OSError, msgspec.DecodeError):
            if is_meant(msgspec.json.decode(path.read_bytes(), type=_Beginning)):
                return path
    return None


def read(path: Path) -> SavedConversation:
    """Return the conversation that is saved in `path`."""
    try:
        return load_as(path.read_bytes(), SavedConversation)
    except FileNotFoundError:
        raise UserError(f"there is no conversation to continue: the file {path} does not exist") from None


class ConversationFile:
    """The file of one conversation. `is_default` is True if the file is in the state folder, under an id."""

    def __init__(self, path: Path | None = None) -> None:
        self.is_default: bool = path is None
        self.path: Path = path if path is not None else _conversations_folder() / f"{_new_id()}.json"
        self._last_written = _fingerprint(self.path)

    @property
    def new_conversation(self) -> str:
        """The conversation id for the traces of a new conversation: the file's id if it has one, else a new id."""
        return self.path.stem if self.is_default else _new_id()

    def save(self, conversation: SavedConversation) -> bool:
        """Write the conversation.

        Return False if it went to a new file, because another process had changed the old one.
        """
        if self.is_default:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unchanged = _fingerprint(self.path) == self._last_written
        if not unchanged:
            self.path = self.path.with_name(f"{_new_id()}.json")
        write(self.path, conversation)
        self._last_written = _fingerprint(self.path)
        return unchanged


def _fingerprint(path: Path) -> tuple[int, int, int] | None:
    """Return values that change when the file changes; None if there is no file."""
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_ino, status.st_mtime_ns, status.st_size
    return None


def write(path: Path, conversation: SavedConversation) -> None:
    """Write a conversation to `path` atomically."""
    write_atomically(path, to_json(conversation))


def add(commands: Any) -> None:
    """Add the command `conversations`."""
    command = commands.add_parser("conversations", help=SUMMARIES["conversations"])
    _add_options(command)
    command.set_defaults(run=_list)
    actions = command.add_subparsers(metavar="[search]")
    search = actions.add_parser("search", help="list those in which all of these words occur, with the place")
    search.add_argument("words", nargs="+", metavar="WORD", help="a word, or several in quotes, in any case")
    _add_options(search)
    search.set_defaults(run=_search)


def _add_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--cwd", default=argparse.SUPPRESS, help="only those of this project folder")
    command.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one JSON object to a line")


def _list(options: argparse.Namespace) -> int:
    screen = _list_screen()
    for path, conversation in _of_folder(options, _newest_first()):
        _print(screen, _row(path, conversation), options)
    return 0


def _list_screen() -> Screen:
    """Return the screen of a list: on a terminal, a long line continues on the next one, indented."""
    screen = Screen()
    screen.margin = "    "
    return screen


def _of_folder(options: argparse.Namespace, paths: list[Path]) -> Iterator[tuple[Path, SavedConversation]]:
    cwd = getattr(options, "cwd", None)
    folder = None if cwd is None else os.path.realpath(cwd)
    for path, conversation in _read_all(paths):
        if folder in (None, conversation.folder):
            yield path, conversation


def _print(screen: Screen, row: dict[str, Any], options: argparse.Namespace, *places: str) -> None:
    if getattr(options, "json", False):
        screen.write_raw(msgspec.json.encode({**row, "places": places} if places else row).decode() + "\n")
    else:
        screen.line(_line(row), "words")
        for place in places:
            screen.line(f"    {place}", "words")
    if screen.problem is not None:
        raise screen.problem


def _search(options: argparse.Namespace) -> int:
    """Print each conversation that has all words, with the first place of each word. Return 1 if there is none."""
    words = [word.casefold() for word in options.words]
    screen, any_found = _list_screen(), False
    for path, conversation in _of_folder(options, [path for path in _newest_first() if _may_have(path, words)]):
        texts = [text for message in conversation.context.messages for text in _texts(message)]
        places = [_place(texts, word) for word in words]
        if all(places):
            any_found = True
            _print(screen, _row(path, conversation), options, *dict.fromkeys(filter(None, places)))
    if not any_found:
        print(f"no conversation has {' and '.join(map(repr, options.words))}", file=sys.stderr)
    return 0 if any_found else 1


def _texts(message: Message) -> list[str]:
    """Return the texts of a message: its words or results, and its calls with their arguments."""
    calls = [f"{call.name} {msgspec.json.encode(call.arguments).decode()}" for call in message.tool_calls]
    return [message.text, *calls]


def _may_have(path: Path, words: list[str]) -> bool:
    """Return False if the bytes of a file show that a word is not in it: most files need not be parsed then."""
    with contextlib.suppress(OSError):
        data = path.read_bytes().lower()
        return all(word.encode() in data for word in words if word.isascii() and word.isalnum())
    return True


def _place(texts: list[str], word: str) -> str | None:
    """Return the surroundings of `word` in the first text that has it."""
    for text in texts:
        line = " ".join(text.split())
        index = line.casefold().find(word)
        if index >= 0:
            begin = max(0, index - _AROUND)
            end = index + len(word) + _AROUND
            return f"{'...' if begin else ''}{line[begin:end]}{'...' if end < len(line) else ''}"
    return None


def _read_all(paths: list[Path]) -> Iterator[tuple[Path, SavedConversation]]:
    for path in paths:
        try:
            yield path, read(path)
        except (OSError, ToolwireError) as problem:
            print(f"toolwire: {path}: {safe(str(problem))}", file=sys.stderr)


def _row(path: Path, conversation: SavedConversation) -> dict[str, Any]:
    when = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
    first = shorten(" ".join(conversation.prompts[0].split()), _WORDS) if conversation.prompts else ""
    model = f"{conversation.provider}/{conversation.model}"
    return {
        "id": path.stem,
        "when": when.isoformat(" ", "minutes")[:16],
        "model": model,
        "turns": conversation.turns,
        "folder": conversation.folder,
        "ending": conversation.ending,
        "words": first,
        "command": conversation.command or "run",
    }


def _line(row: dict[str, Any]) -> str:
    turns = f"{row['turns']} turn{'s' if row['turns'] != 1 else ''}"
    return f"{row['id']}  {row['when']}  {row['folder']}  {row['model']}  {turns}  {row['words']}"
