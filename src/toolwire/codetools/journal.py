"""Change several files together: all of them or none, even if the process is killed on the way.

Rules of this file:
- First a note of the plan is written into the project folder, then the new files beside the old ones, and each old
  file gets a second name. When all of that is on the disk, the note is renamed: from then on the change is committed.
- Then each new file replaces the old one. At the end the second names and the note are removed.
- A committed note that is found later is finished if possible, and else undone. A note that was only planned is
  undone.
- A file or an empty folder that has the note's name and is not a note is removed. A folder with contents is renamed.
- A note is not trusted: it only names files. Each file is compared with the digest in the note before it is moved,
  and is written under the same rules as any file.
"""

import contextlib
import hashlib
import logging
import os
import re

import msgspec
from msgspec import Struct

from toolwire.codetools.definitions import FILE_BYTES
from toolwire.codetools.files import OpenFile, read_all, resolve_file
from toolwire.codetools.locks import identity, locked
from toolwire.codetools.paths import READ, FileSpot, PathRefused, Workspace, closing_fd, translate_errors
from toolwire.codetools.replacing import check_not_replaced, confirm, create, fill, remove, reread, sync
from toolwire.errors import ToolError
from toolwire.types.readable import readable

PLANNED = ".toolwire-journal.new"
COMMITTED = ".toolwire-journal"
_STAGED_NAME = re.compile(r"\.toolwire-[0-9a-f]{16}-[0-9]{1,4}\.(staged|old)")
RECOVERY_WAIT = 1.0
_UNDONE = "could neither be finished nor undone; the tools try again when they next start"
_IN_THE_WAY = (
    f"an earlier change of several files is unfinished, its note {COMMITTED} exists: try again later, "
    "and remove the note if no other program is using it"
)
logger: logging.Logger = logging.getLogger("toolwire")


class FileChange(Struct, frozen=True):
    """A file, and its new content."""

    file: OpenFile
    data: bytes

    @property
    def spot(self) -> FileSpot:
        """The location of the file."""
        return self.file.spot


@readable
class _NoteEntry(Struct, frozen=True):
    """An entry of the note: the path, the names beside it, and digests of the old and the new content.

    The path is relative to the project folder, or absolute in another root. Its bytes are written as Latin-1, because
    JSON cannot contain every file name.
    """

    path: str
    staged: str
    kept: str
    before: str
    after: str


class _EntryState(Struct, frozen=True):
    """How far an entry got: the digest of the file at its path, and whether the two files beside it are intact."""

    spot: FileSpot
    entry: _NoteEntry
    current: str | None
    is_staged_intact: bool
    is_backup_intact: bool


def digest(data: bytes) -> str:
    """Return a digest of `data`."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def commit(workspace: Workspace, root: int, changes: list[FileChange]) -> None:
    """Change files together; their folders and the project folder `root` are open and locked.

    Raise `PathRefused` if an earlier change is unfinished. If this change fails, undo it and raise the error.
    """
    path = changes[0].spot.requested
    if _is_there(root, COMMITTED) or _is_there(root, PLANNED):
        raise PathRefused("busy", path, _IN_THE_WAY)
    entries = [_make_entry(workspace, change, number) for number, change in enumerate(changes)]
    spots = list({identity(change.spot.folder): change.spot for change in changes}.values())
    try:
        with translate_errors(path):
            _write(root, PLANNED, msgspec.json.encode(entries), None)
            for change, entry in zip(changes, entries, strict=True):
                _stage_files(change, entry)
            for spot in spots:
                sync(spot.folder)
            os.rename(PLANNED, COMMITTED, src_dir_fd=root, dst_dir_fd=root)
            sync(root)
            for change, entry in zip(changes, entries, strict=True):
                check_not_replaced(change.spot, change.file)
                _move(change.spot.folder, entry.staged, change.spot.name)
    except BaseException:
        _undo_interrupted(root, changes, entries)
        raise
    try:
        for spot in spots:
            confirm(spot)
        for change in changes:
            os.close(reread(change.spot, change.data))
    finally:
        _remove_traces(root, [(change.spot.folder, entry) for change, entry in zip(changes, entries, strict=True)])


def _make_entry(workspace: Workspace, change: FileChange, number: int) -> _NoteEntry:
    location = change.spot.location
    path = location.path if location.root is workspace.cwd else f"{location.root.path.rstrip('/')}/{location.path}"
    stem = f".toolwire-{os.urandom(8).hex()}-{number}"
    old_digest = digest(read_all(change.file.fd, FILE_BYTES))
    latin_path = os.fsencode(path).decode("latin-1")
    return _NoteEntry(latin_path, f"{stem}.staged", f"{stem}.old", old_digest, digest(change.data))


def _stage_files(change: FileChange, entry: _NoteEntry) -> None:
    """Write the new file beside the old one, and give the old one a second name, or else copy it."""
    folder, name = change.spot.folder, change.spot.name
    _write(folder, entry.staged, change.data, change.file)
    try:
        os.link(name, entry.kept, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError:
        _write(folder, entry.kept, read_all(change.file.fd, FILE_BYTES), change.file)


def _write(folder: int, name: str, data: bytes, old: OpenFile | None) -> None:
    """Write a new file under an unused name."""
    with closing_fd(create(folder, name, 0o600)) as fd:
        fill(fd, data, old)


def _sync_all(folders: list[int]) -> None:
    for folder in {identity(folder): folder for folder in folders}.values():
        sync(folder)


def _move(folder: int, source: str, target: str) -> None:
    os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)


def _undo_interrupted(root: int, changes: list[FileChange], entries: list[_NoteEntry]) -> None:
    """Undo an interrupted change; if that fails, the note stays for the next start."""
    states = [_inspect_entry(change.spot, entry) for change, entry in zip(changes, entries, strict=True)]
    try:
        _restore_old(states)
    except OSError as problem:
        raise ToolError(f"edits: the change {_UNDONE} ({problem.strerror})") from None
    _remove_traces(root, [(state.spot.folder, state.entry) for state in states])


def _restore_old(states: list[_EntryState]) -> None:
    changed = [state for state in states if state.current == state.entry.after and state.is_backup_intact]
    for state in changed:
        _move(state.spot.folder, state.entry.kept, state.spot.name)
    _sync_all([state.spot.folder for state in changed])


def _install_new(states: list[_EntryState]) -> None:
    for state in states:
        if state.current == state.entry.before:
            _move(state.spot.folder, state.entry.staged, state.spot.name)
    _sync_all([state.spot.folder for state in states])


def _remove_traces(root: int, entries: list[tuple[int, _NoteEntry]]) -> None:
    for folder, entry in entries:
        remove(folder, entry.staged)
        remove(folder, entry.kept)
    remove(root, PLANNED)
    remove(root, COMMITTED)


def recover(workspace: Workspace) -> list[str]:
    """Finish or undo a change of several files that a killed process left; return messages of what was done.

    It is called when the tools of a folder start, and before each change of several files. If there is nothing to do,
    it costs two look-ups. It never raises.
    """
    messages: list[str] = []
    with contextlib.suppress(OSError, PathRefused), workspace.open_folder(workspace.resolve(".")) as root:
        for name in (COMMITTED, PLANNED):
            if _is_there(root, name):
                try:
                    messages += _recover_note(workspace, root, name)
                except OSError as problem:
                    messages.append(f"a change of several files {_UNDONE}: {problem.strerror}")
    for message in messages:
        logger.warning("%s", message)
    return messages


def _recover_note(workspace: Workspace, root: int, name: str) -> list[str]:
    """Finish or undo the change of a note; do nothing if another process is working on it."""
    with contextlib.ExitStack() as resources:
        entries = _read_note(root, name)
        targets = [
            (spot, entry) for entry in entries if (spot := _open_folder(workspace, entry, resources)) is not None
        ]
        try:
            resources.enter_context(locked([root, *(spot.folder for spot, _ in targets)], name, RECOVERY_WAIT))
        except PathRefused:
            return []
        if not _is_there(root, name) or _read_note(root, name) != entries:
            return []
        states = [_inspect_entry(spot, entry) for spot, entry in targets]
        message = _finish_or_undo(states, committed=name == COMMITTED)
        for state in states:
            remove(state.spot.folder, state.entry.staged)
            remove(state.spot.folder, state.entry.kept)
        _remove_note(root, name)
        sync(root)
        return [message]


def _remove_note(root: int, name: str) -> None:
    """Remove a note, or a folder of its name: otherwise no further change would be possible."""
    remove(root, name)
    if _is_there(root, name):
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=root)
    if _is_there(root, name):
        _move(root, name, f".toolwire-aside-{os.urandom(8).hex()}")


def _finish_or_undo(states: list[_EntryState], *, committed: bool) -> str:
    """Finish or undo a change; a file that was changed since then stays as it is."""
    paths = ", ".join(state.entry.path.encode("latin-1").decode("utf-8", "backslashreplace") for state in states)
    if not states:
        return "a note of a change of several files had no usable entries and was removed"
    if not committed:
        return f"a change of several files was not committed, and was discarded: {paths}"
    if all(state.is_staged_intact for state in states if state.current == state.entry.before):
        _install_new(states)
        return f"a change of several files was finished: {paths}"
    if all(state.is_backup_intact for state in states if state.current == state.entry.after):
        _restore_old(states)
        return f"a change of several files was undone: {paths}"
    return f"a change of several files can be neither finished nor undone, check: {paths}"


def _read_note(root: int, name: str) -> list[_NoteEntry]:
    """Read a note; return no entries if it is unreadable or not a note of these tools."""
    try:
        entries = msgspec.json.decode(_read(root, name), type=list[_NoteEntry])
    except (OSError, msgspec.DecodeError):
        return []
    return [entry for entry in entries if all(map(_STAGED_NAME.fullmatch, (entry.staged, entry.kept)))]


def _open_folder(workspace: Workspace, entry: _NoteEntry, resources: contextlib.ExitStack) -> FileSpot | None:
    """Open the folder of an entry; return None if it is gone or must not be written."""
    try:
        location = resolve_file(workspace, os.fsdecode(entry.path.encode("latin-1")), writes=True)
        return resources.enter_context(workspace.open_parent(location))
    except (PathRefused, UnicodeError):
        return None


def _inspect_entry(spot: FileSpot, entry: _NoteEntry) -> _EntryState:
    current, staged, kept = (_digest_at(spot.folder, one) for one in (spot.name, entry.staged, entry.kept))
    return _EntryState(spot, entry, current, staged == entry.after, kept == entry.before)


def _digest_at(folder: int, name: str) -> str | None:
    try:
        return digest(_read(folder, name))
    except OSError:
        return None


def _read(folder: int, name: str) -> bytes:
    with closing_fd(os.open(name, READ | os.O_NOFOLLOW, dir_fd=folder)) as fd:
        return read_all(fd, FILE_BYTES + 1)


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
