"""glob, list_directory, tree and file_info: what is there, without its contents.

Rules of this file:
- What is secret is not found: no list, tree or search names it, and no link says that it leads there.
- All other names are said; a link is said with where it points, and is never followed.
- `.git` and what `.gitignore` names is not looked into unless its own path is given; glob may be told to.
- Every order is that of names; every answer is bounded, and says what it left out.
"""

import datetime as dt
import errno
import mimetypes
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

from msgspec import Struct

from toolwire.codetools.definitions import GLOB_FILES, LIST_ENTRIES, TREE_DEPTH, TREE_ENTRIES
from toolwire.codetools.ignoring import Level, is_ignored, level_of, levels_above
from toolwire.codetools.paths import (
    REASONS,
    PathRefused,
    ProjectPath,
    Workspace,
    open_root_folder,
    real_parts,
    special_file_type,
    translate_errors,
)
from toolwire.codetools.patterns import glob_test
from toolwire.codetools.spelling import escape_name
from toolwire.codetools.walking import FOLDER_ENTRIES, FolderWalk, kind_of_entry, notices
from toolwire.errors import ToolError

_KIBI = 1024
_UNITS = ("KB", "MB", "GB", "TB", "PB", "EB")
_MAGIC = frozenset("*?[{\\")
_APART = "(what is kept apart)"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# What Python 3.14 knows and 3.11 does not: a file has one type, whatever Python is used.
_KNOWN_LATER = {
    **dict.fromkeys((".js", ".mjs"), "text/javascript"),
    **dict.fromkeys((".md", ".markdown"), "text/markdown"),
    ".rst": "text/x-rst",
    ".rtf": "text/rtf",
    ".webp": "image/webp",
}
_TYPES = mimetypes.MimeTypes()
for _ending, _type in _KNOWN_LATER.items():
    _TYPES.add_type(_type, _ending)


def glob(desk: Any, pattern: str, path: str = ".", limit: int = GLOB_FILES, ignored: bool = False) -> str:
    """Find files by name."""
    workspace: Workspace = desk.workspace
    location = workspace.resolve(path)
    test = glob_test(pattern)
    if pattern.endswith("/"):
        raise ToolError("glob finds files, not folders: write name/** for all that is in one, or use tree")
    beginning, depth = _reach(pattern)
    found: list[str] = []
    with _opened_folder(workspace, location) as fd:
        walk = FolderWalk(
            fd,
            above=None if ignored else levels_above(location),
            prefix="".join(f"{name}/" for name in location.parts),
            enters=lambda folder, name: (
                folder.count("/") < depth
                and f"{folder}/"[: len(beginning)] == beginning[: len(folder) + 1]
                and not workspace.is_secret((name,))
            ),
        )
        with closing(walk.entries()) as entries:
            for entry in entries:
                if entry.kind in ("file", "link") and test(entry.path) and not workspace.is_secret((entry.name,)):
                    if len(found) == limit:
                        found.append("")
                        break
                    found.append(escape_name(workspace.display_path(location.inside(entry.path))))
    return _found(found, limit, walk, pattern)


def _found(found: list[str], limit: int, walk: FolderWalk, pattern: str) -> str:
    told = notices(walk)
    if len(found) > limit:
        told.insert(0, f"[The first {limit} files; there are more. Give a higher limit or a narrower pattern.]")
    elif not found and "/" not in pattern:
        told.insert(
            0, f"[{escape_name(pattern)} looks in this folder only; **/{escape_name(pattern)} looks in all below it.]"
        )
    if not found and walk.ignored:
        told.append("[Files that .gitignore names were left out; set ignored to find them too.]")
    lines = found[:limit] or ["No files found"]
    return "\n".join([*lines, *([""] if found and told else []), *told])


def _reach(pattern: str) -> tuple[str, float]:
    """Give the folder that a pattern begins with, and how deep below it can find something."""
    while pattern.startswith("./"):
        pattern = pattern[2:].lstrip("/")
    names = pattern.split("/")
    plain = 0
    while plain < len(names) - 1 and not _MAGIC & set(names[plain]):
        plain += 1
    beginning = "".join(f"{name}/" for name in names[:plain])
    return beginning, float("inf") if "**" in pattern or "{" in pattern else len(names) - 1


def _opened_folder(workspace: Workspace, location: ProjectPath) -> Any:
    """Open a folder; of a file, say which tool is for it."""
    if location.parts:
        mode = workspace.status(location).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISLNK(mode):
            raise PathRefused("not_a_folder", location.requested, "it is not a folder; read_file reads files")
    return workspace.open_folder(location)


def _entries(workspace: Workspace, fd: int) -> tuple[list[tuple[str, str]], bool]:
    """Read the names and kinds of what a folder has and is no secret, in the order of names; whether these are all."""
    with os.scandir(fd) as scan:
        found = [(entry.name, kind_of_entry(entry)) for entry, _ in zip(scan, range(FOLDER_ENTRIES), strict=False)]
        is_all = next(scan, None) is None
    secret, _ = workspace.restricted_among([name for name, _ in found])
    found = [entry for entry in found if entry[0] not in secret]
    found.sort(key=lambda entry: (entry[0].casefold(), entry[0]))
    return found, is_all


def _label(workspace: Workspace, name: str, kind: str, fd: int) -> str:
    """Say an entry: a folder with `/`, a link with where it points, what is no file with what it is."""
    if kind == "folder":
        return f"{escape_name(name)}/"
    if kind == "link":
        return f"{escape_name(name)} -> {_target(workspace, name, fd)}"
    if kind == "other":
        with suppress(OSError):
            special = special_file_type(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
            return f"{escape_name(name)} ({special})" if special else escape_name(name)
    return escape_name(name)


def _target(workspace: Workspace, name: str, fd: int) -> str:
    try:
        target = os.readlink(name, dir_fd=fd)
    except OSError:
        return "?"
    return _APART if workspace.is_secret(target.split("/")) else escape_name(target)


def list_directory(desk: Any, path: str = ".", limit: int = LIST_ENTRIES) -> str:
    """List what is in a folder."""
    location = desk.workspace.resolve(path)
    with _opened_folder(desk.workspace, location) as fd, translate_errors(location.requested):
        entries, is_all = _entries(desk.workspace, fd)
        if not entries:
            return "(empty folder)"
        lines = [_label(desk.workspace, *entry, fd) for entry in entries[:limit]]
    if len(entries) > limit or not is_all:
        total = f"{len(entries):,}" if is_all else f"more than {len(entries):,}"
        lines += ["", f"[{len(lines)} of {total} entries. Give a higher limit, or find files by name with glob.]"]
    return "\n".join(lines)


class _ShownFolder(Struct):
    """A folder of a tree: its path, and a row for each entry that is shown, with what is shown below it."""

    parts: tuple[str, ...]
    levels: list[Level]
    rows: list[tuple[str, "_ShownFolder | None"]] = []
    hidden: int = 0


class _Growth:
    """A tree as it grows, level by level, so that what is near the top is there when the limit is met."""

    def __init__(self, workspace: Workspace, location: ProjectPath, max_depth: int, max_entries: int) -> None:
        self._workspace = workspace
        self._location = location
        self._max_depth = max_depth
        self._left = max_entries
        self._queue: deque[_ShownFolder] = deque()
        self.unreadable = self.unseen = 0

    def grown(self, fd: int) -> _ShownFolder:
        top = _ShownFolder((), levels_above(self._location))
        self._fill(top, fd)
        while self._queue:
            node = self._queue.popleft()
            try:
                below = open_root_folder(self._location.root, (*self._location.parts, *node.parts), os.O_NOFOLLOW)
            except OSError:
                self.unreadable += 1
                node.hidden = -1
                continue
            with below as inner:
                self._fill(node, inner)
        return top

    def _fill(self, node: _ShownFolder, fd: int) -> None:
        try:
            entries, _ = _entries(self._workspace, fd)
        except OSError:
            self.unreadable += 1
            return
        start = sum(len(name) + 1 for name in (*self._location.parts, *node.parts))
        node.levels = [*node.levels, level_of(fd, start, [name for name, _ in entries])]
        kept = entries[: max(self._left, 0)]
        node.hidden = len(entries) - len(kept)
        self.unseen += node.hidden
        self._left -= len(kept)
        node.rows = [self._row(node, name, kind, fd) for name, kind in kept]

    def _row(self, node: _ShownFolder, name: str, kind: str, fd: int) -> tuple[str, _ShownFolder | None]:
        """Say an entry; a folder that is to be looked into is queued."""
        label = _label(self._workspace, name, kind, fd)
        if kind == "file":
            try:
                label += f" ({size_of(os.stat(name, dir_fd=fd, follow_symlinks=False).st_size)})"
            except OSError:
                self.unreadable += 1
        if kind != "folder" or len(node.parts) + 1 >= self._max_depth:
            return label, None
        path = "/".join((*self._location.parts, *node.parts, name))
        if name == ".git" or is_ignored(node.levels, path, is_folder=True):
            return f"{label} (ignored, not shown)", None
        below = _ShownFolder((*node.parts, name), node.levels)
        self._queue.append(below)
        return label, below


def tree(desk: Any, path: str = ".", max_depth: int = TREE_DEPTH, max_entries: int = TREE_ENTRIES) -> str:
    """Show a folder and what is in it as a tree."""
    location = desk.workspace.resolve(path)
    growth = _Growth(desk.workspace, location, max_depth, max_entries)
    with _opened_folder(desk.workspace, location) as fd:
        top = growth.grown(fd)
    name = escape_name(desk.workspace.display_path(location))
    lines = [f"{name}/" if name != "/" else name, *_drawn(top)]
    if not top.rows:
        lines.append("(empty folder)")
    told = []
    if growth.unseen:
        told.append(f"[{growth.unseen:,} entries are not shown. Give a higher max_entries, or a folder as path.]")
    if growth.unreadable:
        told.append(f"[Files or folders that could not be read: {growth.unreadable}.]")
    return "\n".join([*lines, *([""] if told else []), *told])


def _drawn(node: _ShownFolder, indent: str = "") -> Iterator[str]:
    """Draw the branches; they are no deeper than the schema lets `max_depth` be."""
    rows = node.rows
    if node.hidden:
        rows = [*rows, ("(cannot be read)" if node.hidden < 0 else f"... {node.hidden:,} more", None)]
    for number, (label, below) in enumerate(rows, 1):
        is_last = number == len(rows)
        yield f"{indent}{'└── ' if is_last else '├── '}{label}"
        if below is not None:
            yield from _drawn(below, indent + ("    " if is_last else "│   "))


def size_of(count: int) -> str:
    """Say a size: 12B, 1.5KB, 3.0MB."""
    if count < _KIBI:
        return f"{count}B"
    power = next((power for power in range(1, len(_UNITS)) if count < _KIBI ** (power + 1)), len(_UNITS))
    return f"{count / _KIBI**power:.1f}{_UNITS[power - 1]}"


def file_info(desk: Any, path: str) -> str:
    """Say what a path is."""
    workspace: Workspace = desk.workspace
    location = workspace.resolve(path)
    status = workspace.status(location)
    kind = _kind(status.st_mode)
    rows = {
        "path": escape_name(workspace.display_path(location)),
        "type": kind,
        "size": f"{status.st_size} bytes ({size_of(status.st_size)})",
        "modified": moment(status.st_mtime_ns),
        "mode": f"{stat.S_IMODE(status.st_mode):04o} ({stat.filemode(status.st_mode)})",
    }
    if kind == "file":
        rows["mime"] = _mime(workspace, location)
    if kind == "link":
        with workspace.open_parent(location) as spot:
            rows["target"] = _target(workspace, spot.name, spot.folder)
        rows["leads to"] = _APART if rows["target"] == _APART else _leads_to(workspace, location)
    return "\n".join(f"{name}: {value}" for name, value in rows.items())


def _kind(mode: int) -> str:
    names = {"a folder": "folder", "a symbolic link": "link", None: "file"}
    kind = special_file_type(mode)
    return names.get(kind) or str(kind).removeprefix("a ")


def _leads_to(workspace: Workspace, location: ProjectPath) -> str:
    try:
        fd = location.root.open(location.parts, getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC)
    except OSError as problem:
        return "nothing" if problem.errno == errno.ENOENT else REASONS.get(problem.errno or 0, ("", "?"))[1]
    try:
        return _APART if workspace.is_secret(real_parts(fd, location)) else _kind(os.fstat(fd).st_mode)
    finally:
        os.close(fd)


def moment(nanoseconds: int) -> str:
    """Say a moment in ISO 8601, in UTC; one that no calendar has is said in seconds."""
    try:
        made = _EPOCH + dt.timedelta(seconds=nanoseconds // 1_000_000_000)
    except OverflowError:
        return f"{nanoseconds // 1_000_000_000} seconds since 1970-01-01T00:00:00Z"
    return made.isoformat(timespec="seconds").replace("+00:00", "Z")


def _mime(workspace: Workspace, location: ProjectPath) -> str:
    """Guess the type from the name, and else from the beginning of the file."""
    known, encoding = _TYPES.guess_type(location.parts[-1])
    if known is not None and encoding is None:
        return known
    try:
        with workspace.open_file(location) as fd:
            head = os.pread(fd, 8192, 0)
    except PathRefused:
        return "application/octet-stream"
    return "application/octet-stream" if b"\0" in head else "text/plain"
