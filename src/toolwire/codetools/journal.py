"""Change several files together: all of them or none, also when the process is killed on the way.

Rules of this file:
- First a note of what is planned is written into the project folder, then the new files beside the old ones,
  and each old one gets a second name. When that is on the disk, the note is renamed: then the change holds.
- Then each new file takes the place of the old one; then the second names and the note are taken away.
- A note that is found later is finished if it can be, and else undone; one that was only planned is undone.
- What stands at the place of a note and is none is taken away; a folder with something in it gets another name.
- A note is trusted with nothing: it only says which file, and each is compared with what the note says of its
  content before it is moved, and is written under the same rules as any file.
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
from toolwire.codetools.replacing import check_still, confirm, create, fill, remove, reread, sync
from toolwire.errors import ToolError
from toolwire.types.readable import readable

PLANNED = ".toolwire-journal.new"
COMMITTED = ".toolwire-journal"
_OURS = re.compile(r"\.toolwire-[0-9a-f]{16}-[0-9]{1,4}\.(staged|old)")
SOON = 1.0
_UNDONE = "could neither be finished nor undone; the tools try again when they next start"
_IN_THE_WAY = (
    f"an earlier change of several files is not finished, its note {COMMITTED} is there: try again later, "
    "and take the note away if nothing else is at work"
)
logger: logging.Logger = logging.getLogger("toolwire")


class Change(Struct, frozen=True):
    """What a file that is there will hold."""

    found: OpenFile
    data: bytes

    @property
    def spot(self) -> FileSpot:
        """Where the file is."""
        return self.found.spot


@readable
class _Change(Struct, frozen=True):
    """A change in the note: the path, the names beside it, and what the file holds before and after, hashed.

    The path is relative to the project folder, or that of another root from the top; its bytes are written as
    Latin-1, so that each path can be said.
    """

    path: str
    staged: str
    kept: str
    before: str
    after: str


class Stand(Struct, frozen=True):
    """How far an entry came: what is at its path, and which of the names beside it are still good."""

    spot: FileSpot
    entry: _Change
    now: str | None
    staged: bool
    kept: bool


def digest(data: bytes) -> str:
    """Name content."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def commit(workspace: Workspace, root: int, changes: list[Change]) -> None:
    """Make changes together; the folders, and that of the project, `root`, are open and locked."""
    requested = changes[0].spot.requested
    if _is_there(root, COMMITTED) or _is_there(root, PLANNED):
        raise PathRefused("busy", requested, _IN_THE_WAY)
    entries = [_entry(workspace, change, number) for number, change in enumerate(changes)]
    spots = list({identity(change.spot.folder): change.spot for change in changes}.values())
    try:
        with translate_errors(requested):
            _write(root, PLANNED, msgspec.json.encode(entries), None)
            for change, entry in zip(changes, entries, strict=True):
                _stage(change, entry)
            for spot in spots:
                sync(spot.folder)
            os.rename(PLANNED, COMMITTED, src_dir_fd=root, dst_dir_fd=root)
            sync(root)
            for change, entry in zip(changes, entries, strict=True):
                check_still(change.spot, change.found)
                _move(change.spot.folder, entry.staged, change.spot.name)
    except BaseException:
        _take_back(root, changes, entries)
        raise
    try:
        for spot in spots:
            confirm(spot)
        for change in changes:
            os.close(reread(change.spot, change.data))
    finally:
        _clean(root, [(change.spot.folder, entry) for change, entry in zip(changes, entries, strict=True)])


def _entry(workspace: Workspace, change: Change, number: int) -> _Change:
    location = change.spot.location
    path = location.path if location.root is workspace.cwd else f"{location.root.path.rstrip('/')}/{location.path}"
    name = f".toolwire-{os.urandom(8).hex()}-{number}"
    before = digest(read_all(change.found.fd, FILE_BYTES))
    latin = os.fsencode(path).decode("latin-1")
    return _Change(latin, f"{name}.staged", f"{name}.old", before, digest(change.data))


def _stage(change: Change, entry: _Change) -> None:
    """Write the new file beside the old one, and give the old one its second name, or copy it."""
    folder, name = change.spot.folder, change.spot.name
    _write(folder, entry.staged, change.data, change.found)
    try:
        os.link(name, entry.kept, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError:
        _write(folder, entry.kept, read_all(change.found.fd, FILE_BYTES), change.found)


def _write(folder: int, name: str, data: bytes, old: OpenFile | None) -> None:
    """Write a new file, by a name that nobody has."""
    with closing_fd(create(folder, name, 0o600)) as fd:
        fill(fd, data, old)


def _sync_all(folders: list[int]) -> None:
    for folder in {identity(folder): folder for folder in folders}.values():
        sync(folder)


def _move(folder: int, source: str, target: str) -> None:
    os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)


def _take_back(root: int, changes: list[Change], entries: list[_Change]) -> None:
    """Undo what was done of a change; what cannot be undone stays in the note for the next start."""
    stands = [_stand(change.spot, entry) for change, entry in zip(changes, entries, strict=True)]
    try:
        _go_back(stands)
    except OSError as problem:
        raise ToolError(f"edits: the change {_UNDONE} ({problem.strerror})") from None
    _clean(root, [(stand.spot.folder, stand.entry) for stand in stands])


def _go_back(stands: list[Stand]) -> None:
    moved = [stand for stand in stands if stand.now == stand.entry.after and stand.kept]
    for stand in moved:
        _move(stand.spot.folder, stand.entry.kept, stand.spot.name)
    _sync_all([stand.spot.folder for stand in moved])


def _go_on(stands: list[Stand]) -> None:
    for stand in stands:
        if stand.now == stand.entry.before:
            _move(stand.spot.folder, stand.entry.staged, stand.spot.name)
    _sync_all([stand.spot.folder for stand in stands])


def _clean(root: int, entries: list[tuple[int, _Change]]) -> None:
    for folder, entry in entries:
        remove(folder, entry.staged)
        remove(folder, entry.kept)
    remove(root, PLANNED)
    remove(root, COMMITTED)


def recover(workspace: Workspace) -> list[str]:
    """Finish or undo a change of several files that a killed process left; says what was done.

    It is called when the tools of a folder are started, and before each such change. It costs two look-ups
    where there is nothing to do, and never raises.
    """
    done: list[str] = []
    with contextlib.suppress(OSError, PathRefused), workspace.open_folder(workspace.resolve(".")) as root:
        for name in (COMMITTED, PLANNED):
            if _is_there(root, name):
                try:
                    done += _recovered(workspace, root, name)
                except OSError as problem:
                    done.append(f"a change of several files {_UNDONE}: {problem.strerror}")
    for message in done:
        logger.warning("%s", message)
    return done


def _recovered(workspace: Workspace, root: int, name: str) -> list[str]:
    """Finish or undo what a note says; nothing where another process is at it."""
    with contextlib.ExitStack() as resources:
        entries = _noted(root, name)
        opened = [(spot, entry) for entry in entries if (spot := _opened(workspace, entry, resources)) is not None]
        try:
            resources.enter_context(locked([root, *(spot.folder for spot, _ in opened)], name, SOON))
        except PathRefused:
            return []
        if not _is_there(root, name) or _noted(root, name) != entries:
            return []
        stands = [_stand(spot, entry) for spot, entry in opened]
        message = _resolved(stands, committed=name == COMMITTED)
        for stand in stands:
            remove(stand.spot.folder, stand.entry.staged)
            remove(stand.spot.folder, stand.entry.kept)
        _clear(root, name)
        sync(root)
        return [message]


def _clear(root: int, name: str) -> None:
    """Free the place of a note: no change could ever be made again if a folder could hold it."""
    remove(root, name)
    if _is_there(root, name):
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=root)
    if _is_there(root, name):
        _move(root, name, f".toolwire-aside-{os.urandom(8).hex()}")


def _resolved(stands: list[Stand], *, committed: bool) -> str:
    """Finish a change, or undo it; what somebody changed since then stays."""
    paths = ", ".join(stand.entry.path.encode("latin-1").decode("utf-8", "backslashreplace") for stand in stands)
    if not stands:
        return "a note of a change of several files said nothing that could be done"
    if not committed:
        return f"a change of several files was not begun, and is forgotten: {paths}"
    if all(stand.staged for stand in stands if stand.now == stand.entry.before):
        _go_on(stands)
        return f"a change of several files was finished: {paths}"
    if all(stand.kept for stand in stands if stand.now == stand.entry.after):
        _go_back(stands)
        return f"a change of several files was undone: {paths}"
    return f"a change of several files can be neither finished nor undone, look at: {paths}"


def _noted(root: int, name: str) -> list[_Change]:
    """Read a note; one that cannot be read was never used, or is none of ours."""
    try:
        entries = msgspec.json.decode(_read(root, name), type=list[_Change])
    except (OSError, msgspec.DecodeError):
        return []
    return [entry for entry in entries if all(map(_OURS.fullmatch, (entry.staged, entry.kept)))]


def _opened(workspace: Workspace, entry: _Change, resources: contextlib.ExitStack) -> FileSpot | None:
    """Open the folder of an entry; None if it is gone, or may not be written."""
    try:
        location = resolve_file(workspace, os.fsdecode(entry.path.encode("latin-1")), writes=True)
        return resources.enter_context(workspace.open_parent(location))
    except (PathRefused, UnicodeError):
        return None


def _stand(spot: FileSpot, entry: _Change) -> Stand:
    now, staged, kept = (_digest_at(spot.folder, one) for one in (spot.name, entry.staged, entry.kept))
    return Stand(spot, entry, now, staged == entry.after, kept == entry.before)


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
