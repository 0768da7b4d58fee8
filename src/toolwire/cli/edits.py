"""The edits of a conversation: shown by `/diff`, and taken back by `/undo`.

Rules of this file:
- The code tools report each file that they have written. The changes of a command of bash are not
  known here, and stay.
- `/undo` takes back the edits of the last prompt that has edits. The next `/undo` takes back those before.
- A file that somebody else has changed since is left as it is, and named.
- The edits are kept beside the conversation, so that they can be taken back after it was continued. Only their owner
  can read them. Old edits are dropped if they become too large together.
"""

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from toolwire.codetools.files import ChangedFile, Desk
from toolwire.codetools.paths import PathRefused
from toolwire.codetools.previewing import diff
from toolwire.codetools.undoing import Undo, content_digest, current_content, take_back
from toolwire.types.readable import readable

_MAX_BYTES = 32 * 1024 * 1024


class Edit(Struct, frozen=True):
    """A file that was written: its path, its content before, and digests of both contents.

    `before` is None if the file was new, or if `is_lost`: its old content was too large to be kept.
    """

    path: str
    before: bytes | None
    before_digest: str
    after_digest: str
    is_lost: bool = False


class _PromptEdits(Struct):
    """The edits that the model made after one prompt, and how many commands it ran."""

    edits: list[Edit] = []
    commands: int = 0


@readable
class _Kept(Struct):
    """The file of a conversation's edits: those of each prompt, and the notes that the model has not received yet."""

    prompts: list[_PromptEdits] = []
    notes: list[str] = []


class UndoReport(Struct):
    """The result of an undo: the paths that were restored or removed, and those that were left, with the reason."""

    restored: list[str] = []
    removed: list[str] = []
    left: list[tuple[str, str]] = []
    commands: int = 0


class EditLog:
    """The edits of one conversation, and the `notes` about undone edits, which the next prompt contains."""

    def __init__(self) -> None:
        self.prompts: list[_PromptEdits] = [_PromptEdits()]
        self.notes: list[str] = []
        self._path: Path | None = None
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Forget all edits; those of the present file stay in it. `open` names the next file."""
        self.prompts, self.notes, self._path = [_PromptEdits()], [], None

    def begin_prompt(self) -> None:
        """Count the next edits as those of a new prompt."""
        if self.prompts[-1].edits or self.prompts[-1].commands:
            self.prompts.append(_PromptEdits())

    def record(self, change: ChangedFile) -> None:
        """Record a file that a tool has written."""
        location = change.location
        root = location.root.path.rstrip("/")
        is_lost = change.before is None and not change.is_new
        before = "" if change.before is None else content_digest(change.before)
        edit = Edit(f"{root}/{location.path}", change.before, before, content_digest(change.after), is_lost)
        with self._lock:
            self.prompts[-1].edits.append(edit)
            self._drop_old()

    def record_command(self) -> None:
        """Record that a command runs, whose changes are not known."""
        with self._lock:
            self.prompts[-1].commands += 1

    def undo(self, desk: Desk) -> UndoReport | None:
        """Undo the edits of the last prompt that has edits, and return a report; None without edits."""
        while self.prompts and not self.prompts[-1].edits:
            self.prompts.pop()
        if not self.prompts:
            self.prompts = [_PromptEdits()]
            return None
        last = self.prompts.pop()
        self.prompts.append(_PromptEdits())
        report = UndoReport(commands=last.commands)
        for path in dict.fromkeys(edit.path for edit in last.edits):
            edits = [edit for edit in last.edits if edit.path == path]
            self._undo_file(desk, _relative(path, desk), edits, report)
        if paths := [*report.restored, *report.removed]:
            self.notes.append(f"The user took back your last edits of: {', '.join(paths)}")
        self.save()
        return report

    def _undo_file(self, desk: Desk, path: str, edits: list[Edit], report: UndoReport) -> None:
        first = len(edits) - 1
        while first and edits[first].before_digest == edits[first - 1].after_digest and not edits[first].is_lost:
            first -= 1
        if edits[first].is_lost:
            report.left.append((path, "its content before was too large to be kept"))
            return
        problem = take_back(desk, Undo(path, edits[first].before, edits[-1].after_digest))
        if problem:
            report.left.append((path, problem))
            return
        (report.removed if edits[first].before is None else report.restored).append(path)
        if first:
            report.left.append((path, "edits before somebody else changed it were not taken back"))

    def differences(self, desk: Desk) -> Iterator[str]:
        """Yield a diff for each file that was edited: from its content before the first edit to the present one."""
        first: dict[str, Edit] = {}
        for prompt in self.prompts:
            for edit in prompt.edits:
                first.setdefault(edit.path, edit)
        for path, edit in first.items():
            name = _relative(path, desk)
            try:
                content = current_content(desk, name)
            except PathRefused as refused:
                yield str(refused)
                continue
            if edit.is_lost:
                yield f"{name} (its content before was too large to be kept)"
            elif content is None:
                yield from [f"{name} (it does not exist any more)"] if edit.before is not None else []
            elif content != edit.before:
                yield diff((name, edit.before, content))

    def open(self, path: Path) -> None:
        """Read the edits that are kept in the file `path`, and keep them there from now on."""
        self._path = path
        with contextlib.suppress(OSError, msgspec.DecodeError):
            kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
            self.prompts, self.notes = kept.prompts or [_PromptEdits()], kept.notes

    def save(self) -> None:
        """Keep the edits in their file. Raise OSError if that fails."""
        if self._path is None or not (self._path.exists() or any(prompt.edits for prompt in self.prompts)):
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=self._path.parent)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(_Kept(self.prompts, self.notes)))
        Path(temporary).replace(self._path)

    def _drop_old(self) -> None:
        sizes = [sum(len(edit.before or b"") for edit in prompt.edits) for prompt in self.prompts]
        while len(self.prompts) > 1 and sum(sizes) > _MAX_BYTES:
            self.prompts.pop(0)
            sizes.pop(0)


def _relative(path: str, desk: Desk) -> str:
    """Return a path as the tools take it: from the project folder, or absolute in another root."""
    root = desk.workspace.cwd.path.rstrip("/")
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else path
