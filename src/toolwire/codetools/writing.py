"""Write a file, or add to its end.

Rules of this file:
- Both put a whole new file in place of the old one, so that nobody finds half of it.
- A file that was never read here may be written over; one that changed since then is not. Text is added to
  either: what is there stays.
- What is written is what was given: no line break is added. Where the last line of a file ended in CRLF, the
  lines that are added to it do so as well.
"""

import contextlib
import os
from collections.abc import Iterator

from toolwire.codetools.definitions import FILE_BYTES, WRITE_BYTES
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
    remember,
    sized,
    standing,
)
from toolwire.codetools.locks import locked
from toolwire.codetools.matching import CRLF, LF, ends_in_crlf
from toolwire.codetools.paths import FileSpot, PathRefused, ProjectPath, saying
from toolwire.codetools.replacing import replace, sweep
from toolwire.codetools.spelling import shown

HEAD = 8192


@contextlib.contextmanager
def changing(desk: Desk, place: ProjectPath, *, make: bool = False) -> Iterator[tuple[FileSpot, Standing | None]]:
    """Lock the folder of a file that is to be changed, and open both."""
    with (
        saying(place.given),
        desk.workspace.open_parent(place, make=make) as spot,
        locked([spot.folder], place.given) as alone,
    ):
        sweep(spot.folder, alone=alone)
        with standing(desk.workspace, spot) as found:
            yield spot, found


def put(desk: Desk, spot: FileSpot, data: bytes, found: Standing | None, *, seen: bool = True) -> None:
    """Put a file with this content there, and note that it was seen, if it was."""
    if found is not None:
        check_writable(found)
    fd = replace(spot, data, found)
    with contextlib.suppress(OSError, PathRefused):
        if seen:
            remember(desk.seen, key_of(fd, spot.place), fd, data)
    os.close(fd)


def write_file(desk: Desk, *, path: str, content: str, overwrite: bool = True) -> str:
    """Write a whole file."""
    place = file_place(desk.workspace, path, writes=True)
    data = encoded(content, "content", place, WRITE_BYTES)
    with changing(desk, place, make=True) as (spot, found):
        if found is not None and not overwrite:
            raise PathRefused("exists", path, "it is there already: set overwrite to replace it, or edit it")
        notices = []
        if found is not None:
            check_unchanged(desk.seen, found)
            notices = [*_lost(found, data), *other_names(found)]
        put(desk, spot, data, found)
    was = "a new file" if found is None else f"it had {sized(found.status.st_size)}"
    return "\n".join([f"Wrote {sized(len(data))} to {shown(path)} ({was}).", *notices])


def append_to_file(desk: Desk, *, path: str, content: str) -> str:
    """Add to the end of a file, or make it."""
    place = file_place(desk.workspace, path, writes=True)
    added = encoded(content, "content", place, WRITE_BYTES)
    with changing(desk, place, make=True) as (spot, found):
        if found is None:
            put(desk, spot, added, None)
            return f"Made {shown(path)} with {sized(len(added))}."
        data = content_of(found)
        check_text(data, place)
        seen = is_unchanged(desk.seen, found, data)
        added = as_its_lines(added, data)
        if len(data) + len(added) > FILE_BYTES:
            reason = f"it would have more than {sized(FILE_BYTES)}: use a command of the shell (cat >>)"
            raise PathRefused("too_large", path, reason)
        put(desk, spot, data + added, found, seen=seen)
    notices = [*_continued(data, added), *other_names(found)]
    now = f"which now has {sized(len(data) + len(added))}"
    return "\n".join([f"Added {sized(len(added))} to {shown(path)}, {now}.", *notices])


def as_its_lines(added: bytes, data: bytes) -> bytes:
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


def other_names(found: Standing) -> list[str]:
    """Say that other names of a file keep what was in it."""
    count = found.status.st_nlink - 1
    if count < 1:
        return []
    return [f"[The file had {count} more name{'s' * (count > 1)} (hard links), with the old content still.]"]
