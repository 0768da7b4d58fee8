"""glob, list_directory, tree and file_info: which files and folders exist, without their contents.

Rules of this file:
- Secret files are invisible: no list, tree or search names them, and no link shows that it leads to one.
- All other names are shown. A link is shown with its target, and is never followed.
- `.git` and files that `.gitignore` names are left out, unless the caller passes their path or, for glob, asks for
  ignored files.
- Every list is sorted by name and bounded, and reports what it left out.
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
from toolwire.codetools.ignoring import Level, is_ignored, levels_above, read_level
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
from toolwire.codetools.walking import FOLDER_ENTRIES, FolderWalk, type_of_entry, walk_notices
from toolwire.errors import ToolError

_KIBI = 1024
_UNITS = ("KB", "MB", "GB", "TB", "PB", "EB")
_MAGIC = frozenset("*?[{\\")
_HIDDEN = "(hidden)"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# Python 3.14 knows these types and 3.11 does not: a file has the same type on every Python.
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
        raise ToolError("glob finds files, not folders: write name/** for all files in a folder, or use tree")
    base, depth = _search_bounds(pattern)
    paths: list[str] = []
    with _open_listed_folder(workspace, location) as fd:
        walk = FolderWalk(
            fd,
            above=None if ignored else levels_above(location),
            prefix="".join(f"{name}/" for name in location.parts),
            enters=lambda folder, name: (
                folder.count("/") < depth
                and f"{folder}/"[: len(base)] == base[: len(folder) + 1]
                and not workspace.is_secret((name,))
            ),
        )
        with closing(walk.entries()) as entries:
            for entry in entries:
                if entry.file_type in ("file", "link") and test(entry.path) and not workspace.is_secret((entry.name,)):
                    if len(paths) == limit:
                        paths.append("")
                        break
                    paths.append(escape_name(workspace.display_path(location.inside(entry.path))))
    return _render_files(paths, limit, walk, pattern)


def _render_files(paths: list[str], limit: int, walk: FolderWalk, pattern: str) -> str:
    notes = walk_notices(walk)
    if len(paths) > limit:
        notes.insert(0, f"[The first {limit} files; there are more. Give a higher limit or a narrower pattern.]")
    elif not paths and "/" not in pattern:
        name = escape_name(pattern)
        notes.insert(0, f"[{name} matches in this folder only; **/{name} also matches in the folders below it.]")
    if not paths and walk.ignored:
        notes.append("[Files that .gitignore names were left out: set ignored to find them too.]")
    lines = paths[:limit] or ["No files found"]
    return "\n".join([*lines, *([""] if paths and notes else []), *notes])


def _search_bounds(pattern: str) -> tuple[str, float]:
    """Return the folder that `pattern` begins with, and how many folders deep it can match."""
    while pattern.startswith("./"):
        pattern = pattern[2:].lstrip("/")
    names = pattern.split("/")
    count = 0
    while count < len(names) - 1 and not _MAGIC & set(names[count]):
        count += 1
    base = "".join(f"{name}/" for name in names[:count])
    return base, float("inf") if "**" in pattern or "{" in pattern else len(names) - 1


def _open_listed_folder(workspace: Workspace, location: ProjectPath) -> Any:
    """Open a folder; for a file, raise an error that names the tool for files."""
    if location.parts:
        mode = workspace.status(location).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISLNK(mode):
            raise PathRefused("not_a_folder", location.requested, "it is not a folder: use read_file for files")
    return workspace.open_folder(location)


def _read_entries(workspace: Workspace, fd: int) -> tuple[list[tuple[str, str]], bool]:
    """Return the names and types of a folder's entries that are not secret, in order, and whether these are all."""
    with os.scandir(fd) as scan:
        entries = [(entry.name, type_of_entry(entry)) for entry, _ in zip(scan, range(FOLDER_ENTRIES), strict=False)]
        is_all = next(scan, None) is None
    secret, _ = workspace.restricted_among([name for name, _ in entries])
    entries = [entry for entry in entries if entry[0] not in secret]
    entries.sort(key=lambda entry: (entry[0].casefold(), entry[0]))
    return entries, is_all


def _format_entry(workspace: Workspace, name: str, file_type: str, fd: int) -> str:
    """Format an entry: a folder with `/`, a link with its target, and a special file with its type."""
    if file_type == "folder":
        return f"{escape_name(name)}/"
    if file_type == "link":
        return f"{escape_name(name)} -> {_link_target(workspace, name, fd)}"
    if file_type == "other":
        with suppress(OSError):
            special = special_file_type(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
            return f"{escape_name(name)} ({special})" if special else escape_name(name)
    return escape_name(name)


def _link_target(workspace: Workspace, name: str, fd: int) -> str:
    """Return the target of the link `name` in the open folder `fd`, for display. A secret target is hidden."""
    try:
        target = os.readlink(name, dir_fd=fd)
    except OSError:
        return "?"
    return _HIDDEN if workspace.is_secret(target.split("/")) else escape_name(target)


def list_directory(desk: Any, path: str = ".", limit: int = LIST_ENTRIES) -> str:
    """List the entries of a folder."""
    location = desk.workspace.resolve(path)
    with _open_listed_folder(desk.workspace, location) as fd, translate_errors(location.requested):
        entries, is_all = _read_entries(desk.workspace, fd)
        if not entries:
            return "(empty folder)"
        lines = [_format_entry(desk.workspace, *entry, fd) for entry in entries[:limit]]
    if len(entries) > limit or not is_all:
        total = f"{len(entries):,}" if is_all else f"more than {len(entries):,}"
        lines += ["", f"[{len(lines)} of {total} entries. Give a higher limit, or find files by name with glob.]"]
    return "\n".join(lines)


class _TreeNode(Struct):
    """A folder in a tree: its path, and a row for each shown entry, with the folder below it if that is shown."""

    parts: tuple[str, ...]
    levels: list[Level]
    rows: list[tuple[str, "_TreeNode | None"]] = []
    hidden: int = 0


class _TreeBuilder:
    """Builds a tree level by level, so that the entries near the top are shown when the limit is reached."""

    def __init__(self, workspace: Workspace, location: ProjectPath, max_depth: int, max_entries: int) -> None:
        self._workspace = workspace
        self._location = location
        self._max_depth = max_depth
        self._remaining = max_entries
        self._queue: deque[_TreeNode] = deque()
        self.unreadable = self.hidden = 0

    def build(self, fd: int) -> _TreeNode:
        top = _TreeNode((), levels_above(self._location))
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

    def _fill(self, node: _TreeNode, fd: int) -> None:
        try:
            entries, _ = _read_entries(self._workspace, fd)
        except OSError:
            self.unreadable += 1
            return
        prefix_length = sum(len(name) + 1 for name in (*self._location.parts, *node.parts))
        node.levels = [*node.levels, read_level(fd, prefix_length, [name for name, _ in entries])]
        included = entries[: max(self._remaining, 0)]
        node.hidden = len(entries) - len(included)
        self.hidden += node.hidden
        self._remaining -= len(included)
        node.rows = [self._make_row(node, name, file_type, fd) for name, file_type in included]

    def _make_row(self, node: _TreeNode, name: str, file_type: str, fd: int) -> tuple[str, _TreeNode | None]:
        """Return the row of an entry; a folder to open is queued."""
        label = _format_entry(self._workspace, name, file_type, fd)
        if file_type == "file":
            try:
                label += f" ({format_short_size(os.stat(name, dir_fd=fd, follow_symlinks=False).st_size)})"
            except OSError:
                self.unreadable += 1
        if file_type != "folder" or len(node.parts) + 1 >= self._max_depth:
            return label, None
        path = "/".join((*self._location.parts, *node.parts, name))
        if name == ".git" or is_ignored(node.levels, path, is_folder=True):
            return f"{label} (ignored, not shown)", None
        below = _TreeNode((*node.parts, name), node.levels)
        self._queue.append(below)
        return label, below


def tree(desk: Any, path: str = ".", max_depth: int = TREE_DEPTH, max_entries: int = TREE_ENTRIES) -> str:
    """Show a folder and its contents as a tree."""
    location = desk.workspace.resolve(path)
    builder = _TreeBuilder(desk.workspace, location, max_depth, max_entries)
    with _open_listed_folder(desk.workspace, location) as fd:
        top = builder.build(fd)
    name = escape_name(desk.workspace.display_path(location))
    lines = [f"{name}/" if name != "/" else name, *_draw_tree(top)]
    if not top.rows:
        lines.append("(empty folder)")
    notes = []
    if builder.hidden:
        notes.append(f"[{builder.hidden:,} entries are not shown. Give a higher max_entries, or a folder as path.]")
    if builder.unreadable:
        notes.append(f"[Files or folders that could not be read: {builder.unreadable}.]")
    return "\n".join([*lines, *([""] if notes else []), *notes])


def _draw_tree(node: _TreeNode, indent: str = "") -> Iterator[str]:
    """Yield the lines of the tree. It is no deeper than the schema allows `max_depth` to be."""
    rows = node.rows
    if node.hidden:
        rows = [*rows, ("(cannot be read)" if node.hidden < 0 else f"... {node.hidden:,} more", None)]
    for number, (label, below) in enumerate(rows, 1):
        is_last = number == len(rows)
        yield f"{indent}{'└── ' if is_last else '├── '}{label}"
        if below is not None:
            yield from _draw_tree(below, indent + ("    " if is_last else "│   "))


def format_short_size(count: int) -> str:
    """Format a size: 12B, 1.5KB, 3.0MB."""
    if count < _KIBI:
        return f"{count}B"
    power = next((power for power in range(1, len(_UNITS)) if count < _KIBI ** (power + 1)), len(_UNITS))
    return f"{count / _KIBI**power:.1f}{_UNITS[power - 1]}"


def file_info(desk: Any, path: str) -> str:
    """Describe a file, folder or link."""
    workspace: Workspace = desk.workspace
    location = workspace.resolve(path)
    status = workspace.status(location)
    entry_type = _entry_type(status.st_mode)
    rows = {
        "path": escape_name(workspace.display_path(location)),
        "type": entry_type,
        "size": f"{status.st_size} bytes ({format_short_size(status.st_size)})",
        "modified": format_time(status.st_mtime_ns),
        "mode": f"{stat.S_IMODE(status.st_mode):04o} ({stat.filemode(status.st_mode)})",
    }
    if entry_type == "file":
        rows["mime"] = _guess_media_type(workspace, location)
    if entry_type == "link":
        with workspace.open_parent(location) as spot:
            rows["target"] = _link_target(workspace, spot.name, spot.folder)
        rows["leads to"] = _HIDDEN if rows["target"] == _HIDDEN else _target_type(workspace, location)
    return "\n".join(f"{name}: {value}" for name, value in rows.items())


def _entry_type(mode: int) -> str:
    names = {"a folder": "folder", "a symbolic link": "link", None: "file"}
    special = special_file_type(mode)
    return names.get(special) or str(special).removeprefix("a ")


def _target_type(workspace: Workspace, location: ProjectPath) -> str:
    try:
        fd = location.root.open(location.parts, getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC)
    except OSError as problem:
        return "nothing" if problem.errno == errno.ENOENT else REASONS.get(problem.errno or 0, ("", "?"))[1]
    try:
        return _HIDDEN if workspace.is_secret(real_parts(fd, location)) else _entry_type(os.fstat(fd).st_mode)
    finally:
        os.close(fd)


def format_time(nanoseconds: int) -> str:
    """Format a time as ISO 8601 in UTC; a time outside of the calendar is in seconds."""
    try:
        time = _EPOCH + dt.timedelta(seconds=nanoseconds // 1_000_000_000)
    except OverflowError:
        return f"{nanoseconds // 1_000_000_000} seconds since 1970-01-01T00:00:00Z"
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


def _guess_media_type(workspace: Workspace, location: ProjectPath) -> str:
    """Return the media type by the file's name, or else by the beginning of its content."""
    media_type, encoding = _TYPES.guess_type(location.parts[-1])
    if media_type is not None and encoding is None:
        return media_type
    try:
        with workspace.open_file(location) as fd:
            head = os.pread(fd, 8192, 0)
    except PathRefused:
        return "application/octet-stream"
    return "application/octet-stream" if b"\0" in head else "text/plain"
