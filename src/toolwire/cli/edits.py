"""The edits of an agent in a chat: what each answer has changed, so that `/undo` and `/diff` know it.

Rules of this file:
- Only the tools that edit files are followed. The changes of a command are not known here.
- A file that was changed after the answer is not taken back, because that would lose the change.
"""

import difflib
from pathlib import Path

from msgspec import Struct

from toolwire.cli.permissions import EDITS
from toolwire.types import ToolCall

_LONGEST = 4 * 1024 * 1024


class _Edit(Struct):
    """The content of one file before an answer and after it; None if there was no file."""

    before: bytes | None
    after: bytes | None = None


class Edits:
    """The edits in a project folder, by answer."""

    def __init__(self, folder: str) -> None:
        self.folder: Path = Path(folder).resolve()
        self._answers: list[dict[Path, _Edit]] = []
        self._first: dict[Path, bytes | None] = {}

    def begin(self) -> None:
        """Begin an answer."""
        self._answers.append({})

    def note(self, call: ToolCall) -> None:
        """Keep the file that `call` is about to change."""
        path = call.arguments.get("path")
        if call.name not in EDITS or not isinstance(path, str) or not self._answers:
            return
        file = (self.folder / path).resolve()
        if file in self._answers[-1] or not file.is_relative_to(self.folder) or _is_long(file):
            return
        content = _read(file)
        self._answers[-1][file] = _Edit(content)
        self._first.setdefault(file, content)

    def end(self) -> None:
        """End an answer: keep what it has made of its files. An answer without edits is forgotten."""
        edits = self._answers.pop()
        for file, edit in edits.items():
            edit.after = _read(file)
        changed = {file: edit for file, edit in edits.items() if edit.after != edit.before}
        if changed:
            self._answers.append(changed)

    def undo(self) -> tuple[list[str], list[str]]:
        """Restore the files that the last answer with edits has changed.

        Return the files that were taken back, and the reason for each one that stays as it is.
        """
        restored: list[str] = []
        kept: list[str] = []
        for file, edit in self._answers.pop().items() if self._answers else ():
            name = file.relative_to(self.folder).as_posix()
            try:
                if _read(file) != edit.after:
                    kept.append(f"{name} was changed since then, and stays as it is")
                else:
                    _restore(file, edit.before)
                    restored.append(name)
            except OSError as problem:
                kept.append(f"{name} stays as it is: {problem.strerror or problem}")
        return restored, kept

    def diff(self) -> list[str]:
        """Return the difference between the files now and before their first edit, as lines of a unified diff."""
        lines: list[str] = []
        for file, before in sorted(self._first.items()):
            name = file.relative_to(self.folder).as_posix()
            old, new = (_lines(content) for content in (before, _read(file)))
            lines += difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm="")
        return lines


def _restore(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink(missing_ok=True)
    else:
        file.write_bytes(content)


def _read(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _is_long(file: Path) -> bool:
    return file.is_file() and file.stat().st_size > _LONGEST


def _lines(content: bytes | None) -> list[str]:
    return [] if content is None else content.decode(errors="replace").splitlines()
