"""What a call would do, for whoever is asked whether it may: a diff, a command, an address.

Rules of this file:
- A diff is of what the file holds and what it would hold; nothing is changed, made or noted as seen.
- What the tool would refuse is said in the tool's own words.
- A change that is too large to compare is shown as all that goes and all that comes.
"""

import contextlib
import difflib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from toolwire.codetools.definitions import FILE_BYTES, WRITE_BYTES
from toolwire.codetools.editing import EditRequest, appended, check_replaceable, edited, wanted_of
from toolwire.codetools.files import Standing, content_of, encoded, file_place, missing, sized, standing
from toolwire.codetools.paths import PathRefused, ProjectPath
from toolwire.codetools.spelling import shown
from toolwire.errors import ToolError

_AROUND = 3
_COMPARED = 2000
_Change = tuple[str, bytes | None, bytes]


def preview(desk: Any, name: str, arguments: dict[str, Any]) -> str | None:
    """Say what a call would do; None where it only reads."""
    say = _PREVIEWS.get(name)
    if say is None:
        return None
    try:
        return say(desk, **arguments)
    except (ToolError, OSError) as problem:
        return f"it would be refused: {problem}"


def _command(_desk: Any, *, command: str, timeout: float | None = None) -> str:
    return f"$ {command}" + (f"\n(for at most {timeout:g} s)" if timeout is not None else "")


def _address(_desk: Any, *, url: str, **more: Any) -> str:
    return f"GET {url}" + "".join(f"\n{name}: {json.dumps(value)}" for name, value in more.items())


def _write(desk: Any, *, path: str, content: str, overwrite: bool = True) -> str:
    place = file_place(desk.workspace, path, writes=True)
    data = encoded(content, "content", place, WRITE_BYTES)
    with _opened(desk, place) as found:
        if found is not None:
            check_replaceable(desk, found, overwrite=overwrite)
            if found.status.st_size > FILE_BYTES:
                size = sized(found.status.st_size)
                return diff((path, None, data), f"in place of a file of {size}, which is too large to compare")
        return diff((path, None if found is None else content_of(found), data))


def _append(desk: Any, *, path: str, content: str) -> str:
    place = file_place(desk.workspace, path, writes=True)
    added = encoded(content, "content", place, WRITE_BYTES)
    with _opened(desk, place) as found:
        before, more = (None, added) if found is None else appended(found, added)
    return diff((path, before, (before or b"") + more))


def _edit(desk: Any, *, path: str, oldText: str, newText: str) -> str:  # noqa: N803 - the names of the schema
    return "\n".join(map(diff, _edits(desk, [EditRequest(0, path, oldText, newText)])))


def _edit_several(desk: Any, *, edits: list[dict[str, Any]], path: str | None = None) -> str:
    return "\n".join(map(diff, _edits(desk, wanted_of(edits, path))))


def _edits(desk: Any, wanted: list[EditRequest]) -> Iterator[_Change]:
    """Make the edits of each file in memory; paths that are spelled in two ways lead to one file."""
    places: dict[Any, tuple[ProjectPath, list[EditRequest]]] = {}
    for one in wanted:
        place = file_place(desk.workspace, one.path, writes=True)
        places.setdefault((place.root.path, place.parts), (place, []))[1].append(one)
    for place, edits in places.values():
        with _opened(desk, place) as found:
            if found is None:
                raise missing(desk.workspace, place)
            yield place.given, content_of(found), edited(desk, found, edits)[0]


@contextlib.contextmanager
def _opened(desk: Any, place: ProjectPath) -> Iterator[Standing | None]:
    """Open a file, if it is there and its folder is."""
    with contextlib.ExitStack() as held:
        try:
            spot = held.enter_context(desk.workspace.open_parent(place))
        except PathRefused as problem:
            if problem.code != "not_found":
                raise
            yield None
            return
        yield held.enter_context(standing(desk.workspace, spot))


def diff(change: _Change, words: str = "") -> str:
    """Write what goes and what comes, with some lines around it; a file that is not there has no lines."""
    path, old, new = change
    before, after = ([] if data is None else _lines(data) for data in (old, new))
    same = next((n for n, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    first = max(0, (min(len(before), len(after)) if same is None else same) - _AROUND)
    told = _differences(before[first:], after[first:])
    words = words or ("a new file" if old is None else "nothing changes" if old == new else "")
    return "\n".join([f"{shown(path)}{f' ({words})' if words else ''}", *_numbered(told, first)])


def _lines(data: bytes) -> list[str]:
    """Give the lines of a text; a last one that has no line break says so."""
    lines = data.decode(errors="replace").split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]}  [no line break at the end]"]


def _differences(before: list[str], after: list[str]) -> list[list[tuple[str, int, str]]]:
    """Find what differs: groups of marks, line numbers and lines."""
    while before and after and before[-1] == after[-1] and len(before) + len(after) > _COMPARED:
        before, after = before[:-1], after[:-1]
    if len(before) + len(after) > _COMPARED:
        return [[*_marked("-", before, 0), *_marked("+", after, 0)]] if before != after else []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    groups: list[list[tuple[str, int, str]]] = []
    for opcodes in matcher.get_grouped_opcodes(_AROUND):
        groups.append([])
        for kind, old, old_end, new, new_end in opcodes:
            if kind == "equal":
                groups[-1] += _marked(" ", after[new:new_end], new)
            else:
                groups[-1] += [*_marked("-", before[old:old_end], old), *_marked("+", after[new:new_end], new)]
    return groups


def _marked(mark: str, lines: Iterable[str], first: int) -> Iterator[tuple[str, int, str]]:
    return ((mark, number, line) for number, line in enumerate(lines, first + 1))


def _numbered(groups: list[list[tuple[str, int, str]]], first: int) -> Iterator[str]:
    for place, group in enumerate(groups):
        if place:
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
