"""Write files, add to their ends, and edit them: replace text that is there exactly once.

Rules of this file:
- A whole new file is put in place of the old one, so that nobody finds half of it.
- A file that was never read here may be written over; one that changed since then is not. Text is added to
  either: what is there stays.
- What is written is what was given: no line break is added. Where the last line of a file ended in CRLF, the
  lines that are added to it do so as well.
- Everything is read and checked before anything is written. Edits are made in order; each sees what those before
  it made, and which one fails is said by its number. All edits of a call are made, or none.
- Two paths that lead to one file are one file. What changes several files goes through the journal.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from toolwire.codetools.definitions import FILE_BYTES, MAX_EDITS, WRITE_BYTES
from toolwire.codetools.files import (
    BOM,
    Desk,
    Standing,
    check_text,
    check_unchanged,
    check_writable,
    content_of,
    encoded,
    file_place,
    is_unchanged,
    key_of,
    missing,
    remember,
    sized,
    standing,
)
from toolwire.codetools.journal import Change, commit, recover
from toolwire.codetools.locks import identity, locked
from toolwire.codetools.matching import CRLF, LF, Unmatched, edit, ends_in_crlf, hint
from toolwire.codetools.paths import FileSpot, PathRefused, ProjectPath, Workspace, held, saying
from toolwire.codetools.replacing import replace, sweep
from toolwire.codetools.spelling import shown
from toolwire.errors import ToolError

HEAD = 8192
_MAX_FILES = 100
_MAX_TOTAL = 4 * FILE_BYTES


class EditRequest(Struct, frozen=True):
    """An edit that is asked for; `number` counts from 1, 0 if it is the only one of its call."""

    number: int
    path: str
    old: str
    new: str


class _EditedFile(Struct):
    spot: FileSpot
    edits: list[EditRequest]


@contextlib.contextmanager
def _changing(desk: Desk, place: ProjectPath, *, make: bool = False) -> Iterator[tuple[FileSpot, Standing | None]]:
    """Lock the folder of a file that is to be changed, and open both."""
    with (
        saying(place.given),
        desk.workspace.open_parent(place, make=make) as spot,
        locked([spot.folder], place.given) as alone,
    ):
        sweep(spot.folder, alone=alone)
        with standing(desk.workspace, spot) as found:
            yield spot, found


def _put(desk: Desk, spot: FileSpot, data: bytes, found: Standing | None, *, seen: bool = True) -> None:
    """Put a file with this content there, and note that it was seen, if it was."""
    fd = replace(spot, data, found)
    with contextlib.suppress(OSError, PathRefused):
        if seen:
            remember(desk.seen, key_of(fd, spot.place), fd, data)
    os.close(fd)


def write_file(desk: Desk, *, path: str, content: str, overwrite: bool = True) -> str:
    """Write a whole file."""
    place = file_place(desk.workspace, path, writes=True)
    data = encoded(content, "content", place, WRITE_BYTES)
    with _changing(desk, place, make=True) as (spot, found):
        notices = []
        if found is not None:
            check_replaceable(desk, found, overwrite=overwrite)
            notices = [*_lost(found, data), *_other_names(found)]
        _put(desk, spot, data, found)
    was = "a new file" if found is None else f"it had {sized(found.status.st_size)}"
    return "\n".join([f"Wrote {sized(len(data))} to {shown(path)} ({was}).", *notices])


def check_replaceable(desk: Desk, found: Standing, *, overwrite: bool) -> None:
    """Refuse to put another file in the place of one that is not to be replaced."""
    if not overwrite:
        raise PathRefused("exists", found.spot.given, "it is there already: set overwrite to replace it, or edit it")
    check_unchanged(desk.seen, found)
    check_writable(found)


def append_to_file(desk: Desk, *, path: str, content: str) -> str:
    """Add to the end of a file, or make it."""
    place = file_place(desk.workspace, path, writes=True)
    added = encoded(content, "content", place, WRITE_BYTES)
    with _changing(desk, place, make=True) as (spot, found):
        if found is None:
            _put(desk, spot, added, None)
            return f"Made {shown(path)} with {sized(len(added))}."
        data, added = appended(found, added)
        seen = is_unchanged(desk.seen, found, data)
        _put(desk, spot, data + added, found, seen=seen)
    notices = [*_continued(data, added), *_other_names(found)]
    now = f"which now has {sized(len(data) + len(added))}"
    return "\n".join([f"Added {sized(len(added))} to {shown(path)}, {now}.", *notices])


def appended(found: Standing, added: bytes) -> tuple[bytes, bytes]:
    """Give what a file holds, and what is added to it."""
    data = content_of(found)
    check_text(data, found.spot.place)
    added = _as_its_lines(added, data)
    if len(data) + len(added) > FILE_BYTES:
        reason = f"it would have more than {sized(FILE_BYTES)}: use a command of the shell (cat >>)"
        raise PathRefused("too_large", found.spot.given, reason)
    check_writable(found)
    return data, added


def _as_its_lines(added: bytes, data: bytes) -> bytes:
    """Give what is added with the line breaks of the last line that is there."""
    return added.replace(CRLF, LF).replace(LF, CRLF) if ends_in_crlf(data, len(data), len(data)) else added


def _lost(found: Standing, data: bytes) -> list[str]:
    """Say what the old file had that the new one has not, and that the reader of it was not shown."""
    old = os.pread(found.fd, HEAD, 0)
    notices = []
    if b"\r" in old and CRLF in old and LF in data and CRLF not in data:
        notices.append("[Its lines ended in CRLF; they end in LF now.]")
    if old.startswith(BOM) and not data.startswith(BOM):
        notices.append("[It began with a byte order mark; now it does not.]")
    return notices


def _continued(data: bytes, added: bytes) -> list[str]:
    if data and added and not data.endswith(LF):
        return ["[The file did not end in a line break: what was added continues its last line.]"]
    return []


def _other_names(found: Standing) -> list[str]:
    """Say that other names of a file keep what was in it."""
    count = found.status.st_nlink - 1
    if count < 1:
        return []
    return [f"[The file had {count} more name{'s' * (count > 1)} (hard links), with the old content still.]"]


def edit_file(desk: Desk, *, path: str, oldText: str, newText: str) -> str:  # noqa: N803 - the names of the schema
    """Replace one piece of text."""
    return _edit_one(desk, [EditRequest(0, path, oldText, newText)])


def multi_edit(desk: Desk, *, edits: list[dict[str, Any]], path: str | None = None) -> str:
    """Make several edits, in one file or in several."""
    wanted = wanted_of(edits, path)
    return _edit_one(desk, wanted) if len({one.path for one in wanted}) == 1 else _edit_several(desk, wanted)


def wanted_of(edits: list[dict[str, Any]], path: str | None = None) -> list[EditRequest]:
    """Say which edits are asked for; `path` is the file of those that name none."""
    if not 1 <= len(edits) <= MAX_EDITS:
        raise ToolError(f"edits: from 1 to {MAX_EDITS} are made in a call, not {len(edits)}")
    wanted = []
    for number, one in enumerate(edits, 1):
        where = one.get("path", path)
        if where is None:
            raise ToolError(f"edit {number} has no path, and the call has none: give the path of the file")
        wanted.append(EditRequest(number, where, one["oldText"], one["newText"]))
    return wanted


def edited(desk: Desk, found: Standing, edits: list[EditRequest]) -> tuple[bytes, list[int]]:
    """Make edits in memory; gives what the file will hold, and the line of each."""
    place = found.spot.place
    before = data = content_of(found)
    check_text(data, place)
    check_unchanged(desk.seen, found, data)
    lines = []
    for one in edits:
        which = f"edit {one.number}: " if one.number else ""
        try:
            made = edit(
                data,
                encoded(one.old, f"{which}oldText", place, WRITE_BYTES),
                encoded(one.new, f"{which}newText", place, WRITE_BYTES),
            )
        except Unmatched as problem:
            raise PathRefused(problem.code, place.given, which + _explained(problem, data, one)) from None
        data = made.data
        lines.append(made.line)
        if len(data) > FILE_BYTES:
            raise PathRefused("too_large", place.given, f"{which}it would have more than {sized(FILE_BYTES)}")
    if data == before:
        raise PathRefused("no_change", place.given, "together the edits change nothing")
    check_writable(found)
    return data, lines


def _explained(problem: Unmatched, data: bytes, wanted: EditRequest) -> str:
    if problem.code != "no_match":
        return str(problem)
    near = hint(data.replace(CRLF, LF).decode(), wanted.old.replace("\r\n", "\n"))
    return f"{problem}; it must be there exactly, with every space and line break. {near}".rstrip()


def _told(found: Standing, lines: list[int]) -> str:
    where = ", ".join(map(str, lines[:20])) + (" and more" if len(lines) > 20 else "")
    if len(lines) == 1:
        return f"Edited {shown(found.spot.given)} at line {where}."
    return f"Made {len(lines)} edits in {shown(found.spot.given)}, at lines {where}."


def _edit_one(desk: Desk, edits: list[EditRequest]) -> str:
    place = file_place(desk.workspace, edits[0].path, writes=True)
    with _changing(desk, place) as (spot, found):
        if found is None:
            raise missing(desk.workspace, place)
        data, lines = edited(desk, found, edits)
        _put(desk, spot, data, found)
    return "\n".join([_told(found, lines), *_other_names(found)])


def _edit_several(desk: Desk, wanted: list[EditRequest]) -> str:
    """Edit several files, by way of the journal; what is said of each is in the order of their first edits."""
    workspace = desk.workspace
    recover(workspace)
    with saying(wanted[0].path), contextlib.ExitStack() as held:
        root = held.enter_context(workspace.open_folder(workspace.place(".")))
        files = _edited_files(workspace, wanted, held)
        alone = held.enter_context(locked([root, *(file.spot.folder for file in files)], wanted[0].path))
        for file in files:
            sweep(file.spot.folder, alone=alone)
        changes, told = [], []
        for file, found in zip(files, _opened(workspace, files, held), strict=True):
            data, lines = edited(desk, found, file.edits)
            changes.append(Change(found, data))
            told += [_told(found, lines), *_other_names(found)]
        commit(workspace, root, changes)
        for change in changes:
            _note(desk, change)
    return "\n".join(told)


def _edited_files(workspace: Workspace, wanted: list[EditRequest], held: contextlib.ExitStack) -> list[_EditedFile]:
    """Open the folder of each file; edits of one file come together, however its path is spelled."""
    by_path: dict[str, _EditedFile] = {}
    by_file: dict[tuple[tuple[int, int], str], _EditedFile] = {}
    for one in wanted:
        if one.path not in by_path:
            spot = held.enter_context(workspace.open_parent(file_place(workspace, one.path, writes=True)))
            by_path[one.path] = by_file.setdefault((identity(spot.folder), spot.name), _EditedFile(spot, []))
            if len(by_path) > _MAX_FILES:
                raise ToolError(f"edits: at most {_MAX_FILES} files are changed in a call")
        by_path[one.path].edits.append(one)
    return list(by_file.values())


def _opened(workspace: Workspace, files: list[_EditedFile], held: contextlib.ExitStack) -> list[Standing]:
    """Open each file; two that are one file, under two names, are refused, and so is too much together."""
    opened: dict[tuple[int, int], Standing] = {}
    for file in files:
        found = held.enter_context(standing(workspace, file.spot))
        if found is None:
            raise missing(workspace, file.spot.place)
        other = opened.setdefault((found.status.st_dev, found.status.st_ino), found)
        if other is not found:
            reason = f"it is the same file as {shown(other.spot.given)}: use one of the two paths"
            raise PathRefused("same_file", file.spot.given, reason)
        if sum(one.status.st_size for one in opened.values()) > _MAX_TOTAL:
            raise ToolError(f"edits: files of more than {sized(_MAX_TOTAL)} together are not changed in a call")
    return list(opened.values())


def _note(desk: Desk, change: Change) -> None:
    """Note that a file that was written was seen."""
    spot = change.found.spot
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError), held(os.open(spot.name, flags, dir_fd=spot.folder)) as fd:
        remember(desk.seen, key_of(fd, spot.place), fd, change.data)
