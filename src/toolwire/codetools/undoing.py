"""Undo changes of files, if nobody else has changed them since.

Rules of this file:
- A file is restored under the rules of any write: inside the project folder, through no link, in one step.
- A file whose content is not the one that the change left is not touched.
- A file that the change created is removed. Its folders stay.
- The restored content is not recorded as read: a model has to read it again before it edits it.
"""

import hashlib
import os

from msgspec import Struct

from toolwire.codetools.definitions import FILE_BYTES
from toolwire.codetools.editing import open_for_change
from toolwire.codetools.files import Desk, OpenFile, check_writable, read_all, resolve_file
from toolwire.codetools.paths import PathRefused, closing_fd
from toolwire.codetools.replacing import replace, sync
from toolwire.errors import ToolError


class Undo(Struct, frozen=True):
    """A change to take back: the path, the content to restore, and a digest of the content that the change left.

    `content` is None if the file did not exist before.
    """

    path: str
    content: bytes | None
    after: str


def content_digest(data: bytes) -> str:
    """Return a digest of a file's content."""
    return hashlib.sha256(data).hexdigest()


def current_content(desk: Desk, path: str) -> bytes | None:
    """Return the content of the file at `path`; None if there is none. Raise `PathRefused` if it cannot be read."""
    try:
        with open_for_change(desk, resolve_file(desk.workspace, path, writes=True)) as (_, file):
            return None if file is None else read_all(file.fd, FILE_BYTES + 1)
    except PathRefused as problem:
        if problem.code == "not_found":
            return None
        raise


def take_back(desk: Desk, undo: Undo) -> str:
    """Restore a file. Return an empty string, or why it was left as it is."""
    try:
        location = resolve_file(desk.workspace, undo.path, writes=True)
        with open_for_change(desk, location) as (spot, file):
            if file is None:
                return "it does not exist any more"
            problem = _problem_of(file, undo)
            if problem:
                return problem
            if undo.content is None:
                os.unlink(spot.name, dir_fd=spot.folder)
                sync(spot.folder)
            else:
                with closing_fd(replace(spot, undo.content, file)):
                    pass
    except PathRefused as refused:
        return "it does not exist any more" if refused.code == "not_found" else str(refused)
    except (ToolError, OSError) as problem:
        return str(problem)
    return ""


def _problem_of(file: OpenFile, undo: Undo) -> str:
    check_writable(file)
    if content_digest(read_all(file.fd, FILE_BYTES + 1)) != undo.after:
        return "it was changed since"
    return ""
