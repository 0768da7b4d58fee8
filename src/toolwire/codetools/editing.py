"""Write files, append to them and edit them; an edit replaces text that occurs exactly once.

Rules of this file:
- A new file replaces the old one in one step, so that nobody reads half of it.
- A file that was never read here may be overwritten. A file that changed since it was read may not. Text may be
  appended to either, because the existing text stays.
- The content is written as the caller passed it: no line break is added. Only if a file's last line ended in CRLF,
  appended lines end in CRLF too.
- Everything is read and checked before anything is written. Edits are applied in order, and each sees the result of
  those before it. An error names the number of the failed edit. A call applies all of its edits or none.
- Two paths that lead to one file are one file. A change of several files goes through the journal.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from toolwire.codetools.definitions import FILE_BYTES, MAX_EDITS, WRITE_BYTES
from toolwire.codetools.files import (
    BOM,
    ChangedFile,
    Desk,
    OpenFile,
    check_text,
    check_unchanged,
    check_writable,
    encode_text,
    file_key,
    format_size,
    is_unchanged,
    missing_file_error,
    open_existing,
    read_for_change,
    record_seen,
    resolve_file,
)
from toolwire.codetools.journal import FileChange, commit, recover
from toolwire.codetools.locks import identity, locked
from toolwire.codetools.matching import CRLF, LF, EditRefused, edit, ends_in_crlf, hint
from toolwire.codetools.paths import FileSpot, PathRefused, ProjectPath, Workspace, closing_fd, translate_errors
from toolwire.codetools.replacing import replace, sweep
from toolwire.codetools.spelling import escape_name
from toolwire.errors import ToolError

HEAD = 8192
_MAX_FILES = 100
_MAX_TOTAL = 4 * FILE_BYTES


class EditRequest(Struct, frozen=True):
    """A requested edit; `number` counts from 1, and is 0 if the edit is the only one of its call."""

    number: int
    path: str
    old: str
    new: str


class _EditedFile(Struct):
    """A file that is to be edited, and its edits."""

    spot: FileSpot
    edits: list[EditRequest]


def _report_change(desk: Desk, location: ProjectPath, before: bytes | None, after: bytes, *, is_new: bool) -> None:
    """Pass a change to `on_change`."""
    report = desk.options.get("on_change")
    if report is not None:
        report(ChangedFile(location, before, after, is_new))


@contextlib.contextmanager
def open_for_change(
    desk: Desk, location: ProjectPath, *, make: bool = False
) -> Iterator[tuple[FileSpot, OpenFile | None]]:
    """Lock the folder of a file that is to be changed, and yield the file's place and the open file.

    The file is None if it does not exist. With `make`, missing folders are created. Leftovers of interrupted writes are
    deleted.
    """
    with (
        translate_errors(location.requested),
        desk.workspace.open_parent(location, make=make) as spot,
        locked([spot.folder], location.requested) as is_alone,
    ):
        sweep(spot.folder, is_alone=is_alone)
        with open_existing(desk.workspace, spot) as file:
            yield spot, file


def _write_and_record(desk: Desk, spot: FileSpot, data: bytes, file: OpenFile | None, *, is_known: bool = True) -> None:
    """Replace the file with this content. Record its state, unless `is_known` is false."""
    before = None
    if file is not None and desk.options.get("on_change") is not None and file.status.st_size <= FILE_BYTES:
        before = read_for_change(file)
    fd = replace(spot, data, file)
    with contextlib.suppress(OSError, PathRefused):
        if is_known:
            record_seen(desk.seen, file_key(fd, spot.location), fd, data)
    os.close(fd)
    _report_change(desk, spot.location, before, data, is_new=file is None)


def write_file(desk: Desk, *, path: str, content: str, overwrite: bool = True) -> str:
    """Write a whole file."""
    location = resolve_file(desk.workspace, path, writes=True)
    data = encode_text(content, "content", location, WRITE_BYTES)
    with open_for_change(desk, location, make=True) as (spot, file):
        notices = []
        if file is not None:
            check_replaceable(desk, file, overwrite=overwrite)
            notices = [*_lost_format_notices(file, data), *_hard_link_notices(file)]
        _write_and_record(desk, spot, data, file)
    previous = "a new file" if file is None else f"it had {format_size(file.status.st_size)}"
    return "\n".join([f"Wrote {format_size(len(data))} to {escape_name(path)} ({previous}).", *notices])


def check_replaceable(desk: Desk, file: OpenFile, *, overwrite: bool) -> None:
    """Raise `PathRefused` if the file must not be replaced."""
    if not overwrite:
        raise PathRefused("exists", file.spot.requested, "it exists already: set overwrite to replace it, or edit it")
    check_unchanged(desk.seen, file)
    check_writable(file)


def append_to_file(desk: Desk, *, path: str, content: str) -> str:
    """Append to a file, or create it."""
    location = resolve_file(desk.workspace, path, writes=True)
    added = encode_text(content, "content", location, WRITE_BYTES)
    with open_for_change(desk, location, make=True) as (spot, file):
        if file is None:
            _write_and_record(desk, spot, added, None)
            return f"Created {escape_name(path)} with {format_size(len(added))}."
        data, added = prepare_append(file, added)
        is_known = is_unchanged(desk.seen, file, data)
        _write_and_record(desk, spot, data + added, file, is_known=is_known)
    notices = [*_continued_line_notices(data, added), *_hard_link_notices(file)]
    size = f"which now has {format_size(len(data) + len(added))}"
    return "\n".join([f"Added {format_size(len(added))} to {escape_name(path)}, {size}.", *notices])


def prepare_append(file: OpenFile, added: bytes) -> tuple[bytes, bytes]:
    """Return the file's content, and the bytes to append to it."""
    data = read_for_change(file)
    check_text(data, file.spot.location)
    added = _with_line_breaks_of(added, data)
    if len(data) + len(added) > FILE_BYTES:
        reason = f"it would have more than {format_size(FILE_BYTES)}: use a shell command (cat >>)"
        raise PathRefused("too_large", file.spot.requested, reason)
    check_writable(file)
    return data, added


def _with_line_breaks_of(added: bytes, data: bytes) -> bytes:
    """Return `added` with the line breaks of the last line of `data`."""
    return added.replace(CRLF, LF).replace(LF, CRLF) if ends_in_crlf(data, len(data), len(data)) else added


def _lost_format_notices(file: OpenFile, data: bytes) -> list[str]:
    """Return notices of line breaks and a byte order mark that the new content no longer has.

    The model never saw them, because `read_file` does not show them.
    """
    old = os.pread(file.fd, HEAD, 0)
    notices = []
    if b"\r" in old and CRLF in old and LF in data and CRLF not in data:
        notices.append("[Its lines ended in CRLF; they end in LF now.]")
    if old.startswith(BOM) and not data.startswith(BOM):
        notices.append("[It began with a byte order mark; now it does not.]")
    return notices


def _continued_line_notices(data: bytes, added: bytes) -> list[str]:
    """Return a notice if the appended text continues the last line."""
    if data and added and not data.endswith(LF):
        return ["[The file did not end in a line break: the added text continues its last line.]"]
    return []


def _hard_link_notices(file: OpenFile) -> list[str]:
    """Return a notice that the file's other hard links still have the old content."""
    count = file.status.st_nlink - 1
    if count < 1:
        return []
    return [f"[The file had {count} more name{'s' * (count > 1)} (hard links), which still have the old content.]"]


def edit_file(desk: Desk, *, path: str, oldText: str, newText: str) -> str:  # noqa: N803 - the names of the schema
    """Replace one piece of text."""
    return _edit_one(desk, [EditRequest(0, path, oldText, newText)])


def multi_edit(desk: Desk, *, edits: list[dict[str, Any]], path: str | None = None) -> str:
    """Apply several edits, to one file or to several."""
    requests = parse_edits(edits, path)
    return (
        _edit_one(desk, requests) if len({request.path for request in requests}) == 1 else _edit_several(desk, requests)
    )


def parse_edits(edits: list[dict[str, Any]], path: str | None = None) -> list[EditRequest]:
    """Return the requested edits; `path` is the file of each edit that has no path."""
    if not 1 <= len(edits) <= MAX_EDITS:
        raise ToolError(f"edits: a call makes from 1 to {MAX_EDITS} edits, not {len(edits)}")
    requests = []
    for number, item in enumerate(edits, 1):
        file_path = item.get("path", path)
        if file_path is None:
            raise ToolError(f"edit {number} has no path, and the call has none: give the path of the file")
        requests.append(EditRequest(number, file_path, item["oldText"], item["newText"]))
    return requests


def apply_edits(desk: Desk, file: OpenFile, edits: list[EditRequest]) -> tuple[bytes, list[int]]:
    """Apply edits in memory; return the file's new content and the line of each edit."""
    location = file.spot.location
    original = data = read_for_change(file)
    check_text(data, location)
    check_unchanged(desk.seen, file, data)
    lines = []
    for request in edits:
        prefix = f"edit {request.number}: " if request.number else ""
        try:
            result = edit(
                data,
                encode_text(request.old, f"{prefix}oldText", location, WRITE_BYTES),
                encode_text(request.new, f"{prefix}newText", location, WRITE_BYTES),
            )
        except EditRefused as problem:
            raise PathRefused(problem.code, location.requested, prefix + _explain(problem, data, request)) from None
        data = result.data
        lines.append(result.line)
        if len(data) > FILE_BYTES:
            raise PathRefused(
                "too_large", location.requested, f"{prefix}the file would have more than {format_size(FILE_BYTES)}"
            )
    if data == original:
        raise PathRefused("no_change", location.requested, "together the edits change nothing")
    check_writable(file)
    return data, lines


def _explain(refused: EditRefused, data: bytes, request: EditRequest) -> str:
    if refused.code != "no_match":
        return str(refused)
    similar = hint(data.replace(CRLF, LF).decode(), request.old.replace("\r\n", "\n"))
    return f"{refused}; it must match exactly, with every space and line break. {similar}".rstrip()


def _describe_edits(file: OpenFile, lines: list[int]) -> str:
    numbers = ", ".join(map(str, lines[:20])) + (" and more" if len(lines) > 20 else "")
    if len(lines) == 1:
        return f"Edited {escape_name(file.spot.requested)} at line {numbers}."
    return f"Made {len(lines)} edits in {escape_name(file.spot.requested)}, at lines {numbers}."


def _edit_one(desk: Desk, edits: list[EditRequest]) -> str:
    location = resolve_file(desk.workspace, edits[0].path, writes=True)
    with open_for_change(desk, location) as (spot, file):
        if file is None:
            raise missing_file_error(desk.workspace, location)
        data, lines = apply_edits(desk, file, edits)
        _write_and_record(desk, spot, data, file)
    return "\n".join([_describe_edits(file, lines), *_hard_link_notices(file)])


def _edit_several(desk: Desk, requests: list[EditRequest]) -> str:
    """Edit several files through the journal; the answer lists them in the order of their first edits."""
    workspace = desk.workspace
    recover(workspace)
    with translate_errors(requests[0].path), contextlib.ExitStack() as resources:
        root = resources.enter_context(workspace.open_folder(workspace.resolve(".")))
        files = _group_by_file(workspace, requests, resources)
        is_alone = resources.enter_context(
            locked([root, *(edited_file.spot.folder for edited_file in files)], requests[0].path)
        )
        for edited_file in files:
            sweep(edited_file.spot.folder, is_alone=is_alone)
        changes, contents, summaries = [], [], []
        for edited_file, file in zip(files, _open_files(workspace, files, resources), strict=True):
            data, lines = apply_edits(desk, file, edited_file.edits)
            changes.append(FileChange(file, data))
            contents.append(read_for_change(file))
            summaries += [_describe_edits(file, lines), *_hard_link_notices(file)]
        commit(workspace, root, changes)
        for change, before in zip(changes, contents, strict=True):
            _record_change(desk, change)
            _report_change(desk, change.spot.location, before, change.data, is_new=False)
    return "\n".join(summaries)


def _group_by_file(
    workspace: Workspace, requests: list[EditRequest], resources: contextlib.ExitStack
) -> list[_EditedFile]:
    """Open the folder of each file. Group the edits by file, however the path is spelled."""
    by_path: dict[str, _EditedFile] = {}
    by_file: dict[tuple[tuple[int, int], str], _EditedFile] = {}
    for request in requests:
        if request.path not in by_path:
            spot = resources.enter_context(workspace.open_parent(resolve_file(workspace, request.path, writes=True)))
            by_path[request.path] = by_file.setdefault((identity(spot.folder), spot.name), _EditedFile(spot, []))
            if len(by_path) > _MAX_FILES:
                raise ToolError(f"edits: a call changes at most {_MAX_FILES} files")
        by_path[request.path].edits.append(request)
    return list(by_file.values())


def _open_files(workspace: Workspace, files: list[_EditedFile], resources: contextlib.ExitStack) -> list[OpenFile]:
    """Open each file.

    Raise an error if two paths are hard links of one file, or if the files are too large together.
    """
    opened: dict[tuple[int, int], OpenFile] = {}
    for edited_file in files:
        file = resources.enter_context(open_existing(workspace, edited_file.spot))
        if file is None:
            raise missing_file_error(workspace, edited_file.spot.location)
        same_file = opened.setdefault((file.status.st_dev, file.status.st_ino), file)
        if same_file is not file:
            reason = f"it is the same file as {escape_name(same_file.spot.requested)}: use one of the two paths"
            raise PathRefused("same_file", edited_file.spot.requested, reason)
        if sum(file.status.st_size for file in opened.values()) > _MAX_TOTAL:
            raise ToolError(f"edits: a call changes files of at most {format_size(_MAX_TOTAL)} together")
    return list(opened.values())


def _record_change(desk: Desk, change: FileChange) -> None:
    """Record the state of a written file."""
    spot = change.file.spot
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError), closing_fd(os.open(spot.name, flags, dir_fd=spot.folder)) as fd:
        record_seen(desk.seen, file_key(fd, spot.location), fd, change.data)
