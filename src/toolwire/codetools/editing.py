"""Edit files: replace text that is there exactly once; all edits of a call are made, or none.

Rules of this file:
- Everything is read and checked before anything is written, and written in one step.
- Edits are made in order; each sees what those before it made. Which one fails is said by its number.
- Two paths that lead to one file are one file. What changes several files goes through the journal.
"""

import contextlib
import os
from typing import Any

from msgspec import Struct

from toolwire.codetools.definitions import FILE_BYTES, MAX_EDITS, WRITE_BYTES
from toolwire.codetools.files import (
    Desk,
    Standing,
    check_text,
    check_unchanged,
    check_writable,
    content_of,
    encoded,
    file_place,
    key_of,
    missing,
    remember,
    sized,
    standing,
)
from toolwire.codetools.journal import Change, commit, recover
from toolwire.codetools.locks import identity, locked
from toolwire.codetools.matching import CRLF, LF, Unmatched, edit
from toolwire.codetools.nearest import hint
from toolwire.codetools.paths import FileSpot, PathRefused, Workspace, saying
from toolwire.codetools.replacing import sweep
from toolwire.codetools.spelling import shown
from toolwire.codetools.writing import changing, other_names, put
from toolwire.errors import ToolError

MAX_FILES = 100
MAX_TOTAL = 4 * FILE_BYTES


class EditRequest(Struct, frozen=True):
    """An edit that is asked for; `number` counts from 1, 0 if it is the only one of its call."""

    number: int
    path: str
    old: str
    new: str


class _EditedFile(Struct):
    """A file that is to be edited, and its edits."""

    spot: FileSpot
    edits: list[EditRequest]


def edit_file(desk: Desk, *, path: str, oldText: str, newText: str) -> str:  # noqa: N803 - the names of the schema
    """Replace one piece of text."""
    return _edit_one(desk, [EditRequest(0, path, oldText, newText)])


def multi_edit(desk: Desk, *, edits: list[dict[str, Any]], path: str | None = None) -> str:
    """Make several edits, in one file or in several."""
    wanted = wanted_of(edits, path)
    if len({one.path for one in wanted}) == 1:
        return _edit_one(desk, wanted)
    return _edit_several(desk, wanted)


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


def _edit_one(desk: Desk, edits: list[EditRequest]) -> str:
    place = file_place(desk.workspace, edits[0].path, writes=True)
    with changing(desk, place) as (spot, found):
        if found is None:
            raise missing(desk.workspace, place)
        data, lines = edited(desk, found, edits)
        put(desk, spot, data, found)
    return "\n".join([_told(found, lines), *other_names(found)])


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


def _edit_several(desk: Desk, wanted: list[EditRequest]) -> str:
    """Edit several files; what is said of each is in the order of their first edits."""
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
            check_writable(found)
            changes.append(Change(found, data))
            told += [_told(found, lines), *other_names(found)]
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
            if len(by_path) > MAX_FILES:
                raise ToolError(f"edits: at most {MAX_FILES} files are changed in a call")
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
        if sum(one.status.st_size for one in opened.values()) > MAX_TOTAL:
            raise ToolError(f"edits: files of more than {sized(MAX_TOTAL)} together are not changed in a call")
    return list(opened.values())


def _note(desk: Desk, change: Change) -> None:
    """Note that a file that was written was seen."""
    spot = change.found.spot
    with contextlib.suppress(OSError):
        fd = os.open(spot.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=spot.folder)
        try:
            remember(desk.seen, key_of(fd, spot.place), fd, change.data)
        finally:
            os.close(fd)
