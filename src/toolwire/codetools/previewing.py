"""A preview of a call, for the person who approves it: a diff, a command or an address.

Rules of this file:
- A diff compares the file's content with what it would become. Nothing is changed, created or recorded as seen.
- If the tool would refuse the call, the preview has the tool's own message.
- A change that is too large to compare is shown as all removed and all added lines.
"""

import contextlib
import difflib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from toolwire.codetools.definitions import FILE_BYTES, WRITE_BYTES
from toolwire.codetools.editing import EditRequest, apply_edits, check_replaceable, parse_edits, prepare_append
from toolwire.codetools.files import (
    OpenFile,
    encode_text,
    format_size,
    missing_file_error,
    open_existing,
    read_for_change,
    resolve_file,
)
from toolwire.codetools.paths import PathRefused, ProjectPath
from toolwire.codetools.spelling import escape_name
from toolwire.errors import ToolError

_AROUND = 3
_COMPARED = 2000
_Change = tuple[str, bytes | None, bytes]


def preview(desk: Any, name: str, arguments: dict[str, Any]) -> str | None:
    """Return what a call would change, run or fetch; None if the tool only reads."""
    render = _PREVIEWS.get(name)
    if render is None:
        return None
    try:
        return render(desk, **arguments)
    except (ToolError, OSError) as refused:
        return f"it would be refused: {refused}"


def _command(_desk: Any, *, command: str, timeout: float | None = None) -> str:
    return f"$ {command}" + (f"\n(for at most {timeout:g} s)" if timeout is not None else "")


def _address(_desk: Any, *, url: str, **more: Any) -> str:
    return f"GET {url}" + "".join(f"\n{name}: {json.dumps(value)}" for name, value in more.items())


def _write(desk: Any, *, path: str, content: str, overwrite: bool = True) -> str:
    location = resolve_file(desk.workspace, path, writes=True)
    data = encode_text(content, "content", location, WRITE_BYTES)
    with _opened(desk, location) as file:
        if file is not None:
            check_replaceable(desk, file, overwrite=overwrite)
            if file.status.st_size > FILE_BYTES:
                size = format_size(file.status.st_size)
                return diff((path, None, data), f"in place of a file of {size}, which is too large to compare")
        return diff((path, None if file is None else read_for_change(file), data))


def _append(desk: Any, *, path: str, content: str) -> str:
    location = resolve_file(desk.workspace, path, writes=True)
    added = encode_text(content, "content", location, WRITE_BYTES)
    with _opened(desk, location) as file:
        before, more = (None, added) if file is None else prepare_append(file, added)
    return diff((path, before, (before or b"") + more))


def _edit(desk: Any, *, path: str, oldText: str, newText: str) -> str:  # noqa: N803 - the names of the schema
    return "\n".join(map(diff, _edits(desk, [EditRequest(0, path, oldText, newText)])))


def _edit_several(desk: Any, *, edits: list[dict[str, Any]], path: str | None = None) -> str:
    return "\n".join(map(diff, _edits(desk, parse_edits(edits, path))))


def _edits(desk: Any, requests: list[EditRequest]) -> Iterator[_Change]:
    """Apply the edits of each file in memory; two spellings of a path are one file."""
    by_location: dict[Any, tuple[ProjectPath, list[EditRequest]]] = {}
    for request in requests:
        location = resolve_file(desk.workspace, request.path, writes=True)
        by_location.setdefault((location.root.path, location.parts), (location, []))[1].append(request)
    for location, edits in by_location.values():
        with _opened(desk, location) as file:
            if file is None:
                raise missing_file_error(desk.workspace, location)
            yield location.requested, read_for_change(file), apply_edits(desk, file, edits)[0]


@contextlib.contextmanager
def _opened(desk: Any, location: ProjectPath) -> Iterator[OpenFile | None]:
    """Open a file for reading, or yield None if it or its folder is missing."""
    with contextlib.ExitStack() as resources:
        try:
            spot = resources.enter_context(desk.workspace.open_parent(location))
        except PathRefused as problem:
            if problem.code != "not_found":
                raise
            yield None
            return
        yield resources.enter_context(open_existing(desk.workspace, spot))


def diff(change: _Change, note: str = "") -> str:
    """Return the removed and the added lines, with some lines around them; `note` is shown after the path."""
    path, old, new = change
    before, after = ([] if data is None else _lines(data) for data in (old, new))
    first_change = next((n for n, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    start = max(0, (min(len(before), len(after)) if first_change is None else first_change) - _AROUND)
    groups = _differences(before[start:], after[start:])
    note = note or ("a new file" if old is None else "nothing changes" if old == new else "")
    return "\n".join([f"{escape_name(path)}{f' ({note})' if note else ''}", *_numbered(groups, start)])


def _lines(data: bytes) -> list[str]:
    """Return the lines of a text; a last line without a line break is marked."""
    lines = data.decode(errors="replace").split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]}  [no line break at the end]"]


def _differences(before: list[str], after: list[str]) -> list[list[tuple[str, int, str]]]:
    """Return the differences in groups of marks, line numbers and lines."""
    while before and after and before[-1] == after[-1] and len(before) + len(after) > _COMPARED:
        before, after = before[:-1], after[:-1]
    if len(before) + len(after) > _COMPARED:
        return [[*_marked("-", before, 0), *_marked("+", after, 0)]] if before != after else []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    groups: list[list[tuple[str, int, str]]] = []
    for opcodes in matcher.get_grouped_opcodes(_AROUND):
        groups.append([])
        for operation, old, old_end, new, new_end in opcodes:
            if operation == "equal":
                groups[-1] += _marked(" ", after[new:new_end], new)
            else:
                groups[-1] += [*_marked("-", before[old:old_end], old), *_marked("+", after[new:new_end], new)]
    return groups


def _marked(mark: str, lines: Iterable[str], first: int) -> Iterator[tuple[str, int, str]]:
    return ((mark, number, line) for number, line in enumerate(lines, first + 1))


def _numbered(groups: list[list[tuple[str, int, str]]], first: int) -> Iterator[str]:
    for index, group in enumerate(groups):
        if index:
            yield "  ..."
        width = len(str(first + max(number for _, number, _ in group)))
        yield from (f"{mark} {first + number:>{width}} {line}" for mark, number, line in group)


_PREVIEWS: dict[str, Callable[..., str]] = {
    "write_file": _write,
    "append_to_file": _append,
    "edit_file": _edit,
    "multi_edit": _edit_several,
    "bash": _command,
    "http_get": _address,
}
