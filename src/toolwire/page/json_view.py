"""A JSON body as lines of HTML, with marks at the paths of its losses.

Rules of this file:
- A short value stands on one line. Long lists, schemas and long strings are folded, and open without a script.
- A value with a mark is never inside of a fold that is closed.
- The number of lines and of characters is limited. What is not shown is counted, and the raw body has it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup, escape
from msgspec import Struct

from toolwire.waiting.results import safe

Path = tuple[str | int, ...]
_INLINE = 68
_STRING = 600
_REST = 20_000
_LINES = 3000
_CHARACTERS = 300_000  # of long strings, in one body
_BRIEF = 120
_DEPTH = 24
_FEW = 6
_FOLDED = frozenset({"input_schema", "parameters", "schema", "parametersJsonSchema", "responseJsonSchema"})
_ALL_FOLDED = frozenset({"tools", "functionDeclarations"})
_CONTAINERS = (dict, list)


class Mark(Struct, frozen=True):
    """A loss at its place on one side: its number, what happened, how much it matters, and the sentence."""

    number: int
    action: str
    severity: str
    detail: str
    struck: bool = False
    has_other: bool = False


class Ghost(Struct, frozen=True):
    """A place where the other side has something, and this side has nothing."""

    number: int
    name: str
    severity: str


def show_json(
    value: Any, marks: Mapping[Path, Sequence[Mark]] | None = None, ghosts: Sequence[Ghost] = (), *, side: str = "s"
) -> Markup:
    """Return `value` as lines of HTML. `side` begins the ids of its marks."""
    lines = _Lines(marks or {}, side)
    lines.write("", value, (), 0, "", ghosts)
    if lines.hidden:
        lines.out.append(f'<div class="ln more">… {lines.hidden:,} more values: the raw body has them</div>')
    return Markup("".join(lines.out))  # noqa: S704 - every piece is escaped below


class _Lines:
    """The lines of one body."""

    def __init__(self, marks: Mapping[Path, Sequence[Mark]], side: str) -> None:
        self.out: list[str] = []
        self.hidden = 0
        self._marks, self._side = marks, side
        self._other = "t" if side == "s" else "s"
        self._above = {path[:length] for path in marks for length in range(len(path) + 1)}
        self._left, self._characters = _LINES, _CHARACTERS

    def write(self, key: str, value: Any, path: Path, depth: int, end: str, ghosts: Sequence[Ghost] = ()) -> None:
        """Write one value with its key, and its marks."""
        if self._left <= 0 and path not in self._above:
            self.hidden += 1
            return
        marks = self._marks.get(path, ())
        if marks:
            words = f"{marks[0].severity} {'struck' if marks[0].struck else 'kept'}"
            numbers = " ".join(str(mark.number) for mark in marks)
            self.out.append(f'<div class="mark {words}" data-loss="{numbers}" id="{self._side}{marks[0].number}">')
        if type(value) in _CONTAINERS and value and (ghosts or not self._is_short(value, path)):
            self._write_container(key, value, path, depth, end, ghosts)
        elif type(value) is str and len(value) > _STRING:
            self._line(depth, key + self._long_string(value) + end)
        else:
            self._line(depth, key + (_inline(value) if depth < _DEPTH else _elided(value)) + end)
        for mark in marks:
            self._write_mark(mark, depth)
        if marks:
            self.out.append("</div>")

    def _line(self, depth: int, html: str) -> None:
        self._left -= 1
        self.out.append(f'<div class="ln i{min(depth, _DEPTH)}">{html}</div>')

    def _long_string(self, value: str) -> str:
        """Return a long string: its beginning, and a fold with the rest of it, as far as the body's share allows."""
        head = value[: _STRING if self._characters > 0 else _BRIEF]
        rest = value[len(head) :][: min(_REST, max(0, self._characters))]
        self._characters -= len(head) + len(rest)
        gone = len(value) - len(head) - len(rest)
        hidden = f"… {gone:,} more: the raw body has them" if gone else ""
        words = f"… {len(value) - len(head):,} characters"
        begin = _text(json.dumps(head, ensure_ascii=False)[:-1])
        if not rest:
            return f'{begin}<i>{words}</i>"'
        shown = _text(json.dumps(rest, ensure_ascii=False)[1:-1])
        return f'{begin}<details class="rest"><summary>{words}</summary>{shown}{hidden}</details>"'

    def _write_mark(self, mark: Mark, depth: int) -> None:
        link = f' <a href="#{self._other}{mark.number}">other side</a>' if mark.has_other else ""
        words = f"<b>{_text(mark.action)}</b>: {_text(mark.detail)} ({_text(mark.severity)})"
        self.out.append(f'<div class="why i{min(depth, _DEPTH)}">{words}{link}</div>')

    def _write_container(self, key: str, value: Any, path: Path, depth: int, end: str, ghosts: Sequence[Ghost]) -> None:
        first, last = ("{", "}") if type(value) is dict else ("[", "]")
        if depth >= _DEPTH:
            self._line(depth, f"{key}{_elided(value)}{end}")
            return
        folded = (
            path
            and path not in self._above
            and (path[-1] in _FOLDED or (path[-1] in _ALL_FOLDED and type(value) is list and len(value) > 1))
        )
        if folded:
            summary = f"{key}{first} <i>… {len(value)}</i> {last}{end}"
            self.out.append(f'<details class="fold"><summary class="ln i{depth}">{summary}</summary>')
        self._line(depth, f"{key}{first}")
        if type(value) is dict:
            self._write_members(value, path, depth + 1, bool(ghosts))
        else:
            self._write_items(value, path, depth + 1)
        for ghost in ghosts:
            self._line(
                depth + 1,
                f'<span class="ghost {ghost.severity}" data-loss="{ghost.number}">'
                f'<a href="#{self._other}{ghost.number}">{_text(ghost.name)}</a> was not sent</span>',
            )
        self._line(depth, f"{last}{end}")
        if folded:
            self.out.append("</details>")

    def _write_members(self, value: dict[str, Any], path: Path, depth: int, more: bool) -> None:
        final = len(value) - 1
        for index, (key, one) in enumerate(value.items()):
            name = f'<span class="k">{_text(json.dumps(key[:200], ensure_ascii=False))}</span>: '
            self.write(name, one, (*path, key), depth, "" if index == final and not more else ",")

    def _write_items(self, value: list[Any], path: Path, depth: int) -> None:
        final = len(value) - 1
        for is_folded, indices in groupby(range(len(value)), lambda index: self._folds(value, path, index)):
            run = list(indices)
            if is_folded:
                words = f"… {len(run)} item{'' if len(run) == 1 else 's'}"
                self.out.append(f'<details class="fold"><summary class="ln i{depth}"><i>{words}</i></summary>')
            for index in run:
                self.write("", value[index], (*path, index), depth, "" if index == final else ",")
            if is_folded:
                self.out.append("</details>")

    def _folds(self, value: list[Any], path: Path, index: int) -> bool:
        """Return True if an item of a list is folded: all tools, and the middle of a long list."""
        if path in self._above and (*path, index) in self._above:
            return False
        if path and path[-1] in _ALL_FOLDED:
            return path in self._above and len(value) > 1
        return len(value) > _FEW and 0 < index < len(value) - 2

    def _is_short(self, value: Any, path: Path) -> bool:
        """Return True if a container stands on one line, and has no mark inside."""
        if path and path in self._above and path not in self._marks:
            return False
        return len(value) <= _INLINE // 4 and _length(value, _INLINE) <= _INLINE


def _length(value: Any, most: int) -> int:
    """Return how many characters `value` takes on one line, or more than `most`."""
    if type(value) is str:
        return len(value) + 2
    if type(value) is dict:
        total = 2
        for key, one in value.items():
            total += len(key) + 6 + _length(one, most - total)
            if total > most:
                break
        return total
    if type(value) is list:
        total = 2
        for one in value:
            total += 2 + _length(one, most - total)
            if total > most:
                break
        return total
    return 8


def _text(value: str) -> str:
    return str(escape(safe(value)))


def _inline(value: Any) -> str:
    """Return a value on one line."""
    if type(value) is dict:
        members = (
            f'<span class="k">{_text(json.dumps(key, ensure_ascii=False))}</span>: {_inline(one)}'
            for key, one in value.items()
        )
        return "{" + ", ".join(members) + "}"
    if type(value) is list:
        return "[" + ", ".join(map(_inline, value)) + "]"
    return _text(json.dumps(value, ensure_ascii=False, default=str))


def _elided(value: Any) -> str:
    if type(value) is dict:
        return "{}" if not value else f"{{ <i>… {len(value)}</i> }}"
    if type(value) is list:
        return "[]" if not value else f"[ <i>… {len(value)}</i> ]"
    return _inline(value)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the paths and values that are not containers. It uses no recursion, because bodies may be deep."""
    pending = [(path, value)]
    while pending:
        here, one = pending.pop()
        if type(one) is dict:
            pending += [((*here, key), inner) for key, inner in one.items()]
        elif type(one) is list:
            pending += [((*here, index), inner) for index, inner in enumerate(one)]
        else:
            yield here, one
