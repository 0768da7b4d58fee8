"""The items that an engine reads from a block, the state that engines share, and recovery from a malformed block.

Rules of this file:
- A block ends at its own end mark, or where another block begins: a malformed block does not swallow its neighbours.
- In a malformed block, an end mark counts only if another block, or the end of the text, follows it.
"""

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from toolwire.text.cursor import Cursor, MarkSearch, ReadSteps
from toolwire.text.rows import Row, bare_mark
from toolwire.types import Tool


class BlockItem(Struct, frozen=True):
    """One item of a block: a call with its text, or plain text if `name` is None.

    `arguments` are an object or the JSON text of one. `problem` is the reason if they could not be read.
    """

    text: str
    name: str | None = None
    arguments: Any = None
    id: str | None = None
    problem: str = ""

    @property
    def is_cut(self) -> bool:
        """Return True if the text ended before the call did."""
        return self.problem == CUT


CUT = "the text ended before the call did"
MALFORMED = "the call is malformed"


class ReadState(Struct):
    """The state that the engines share: the row of the format, the cursor, and the tools that were offered.

    - `begins` and `ends`: the marks at which a block begins and ends.
    - `searches`: the searches that were built so far, by key.
    - `body_start`: the index in the block at which the current call begins, after its opening marks.
    - `has_unended_value`: the text ended inside a value, so no later value has an end either.
    - `is_scanned`: the whole text is known, and no end mark in it belongs to an earlier call.
    - `whole`: the answer was not cut off.
    """

    row: Row
    cursor: Cursor
    offer: Any
    begins: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    searches: dict[str, MarkSearch] = {}
    body_start: int = 1
    has_unended_value: bool = False
    is_scanned: bool = False
    whole: bool = True

    def ends_with(self, mark: str) -> bool:
        """Return True if the text ends with `mark` and was not cut off."""
        return self.cursor.ended and self.whole and self.cursor.block_text().rstrip().endswith(mark)

    def find(self, key: str, *marks: str, adjacent: bool = False) -> MarkSearch:
        """Return the search for `marks`, built once for each `key`."""
        search = self.searches.get(key)
        if search is None:
            search = self.searches[key] = MarkSearch(marks, adjacent=adjacent)
        return search

    def tool(self, name: str) -> Tool | None:
        """Return the offered tool `name` if its declaration is known."""
        return None if self.offer is None else self.offer.get(name)

    def is_offered(self, name: str) -> bool:
        """Return True if the tool `name` may be called."""
        return self.offer is None or name in self.offer

    def resolve_name(self, name: str) -> str:
        """Return the offered name for `name`. Some models write the namespace `functions.` before it."""
        return name if name in (self.offer or ()) else name.removeprefix("functions.")

    def schema(self, name: str) -> dict[str, Any]:
        """Return the parameter schema of the tool `name`, or an empty schema."""
        tool = self.tool(name)
        return tool.parameters or {} if tool is not None else {}


def section_begins(row: Row) -> tuple[str, ...]:
    """Return the marks that begin a section."""
    return tuple(bare_mark(begin) for begin, _ in row.pairs)


def section_ends(row: Row) -> dict[str, str]:
    """Return the end mark of each section, by its begin mark."""
    return {bare_mark(begin): bare_mark(end) for begin, end in row.pairs if end}


def skip_broken(state: ReadState, ends: Iterable[str], more: tuple[str, ...] = ()) -> ReadSteps:
    """Skip to the end of a malformed block. Return the problem: the call is malformed, or the text ended inside it.

    `ends` are the end marks of the block. `more` are begin marks in addition to those of the format.
    """
    cursor, end_marks, begins = state.cursor, tuple(end for end in ends if end), (*state.begins, *more)
    end_index = _end_inside(cursor.block_text(), state.body_start, end_marks, begins, at_end=False)
    if end_index is not None:
        cursor.rewind_to(end_index)
        return MALFORMED
    hit = yield state.find(f"broken {end_marks} {more}", *end_marks, *begins)
    if hit.end:
        end_index = _end_inside(cursor.block_text(), state.body_start, end_marks, begins, at_end=True)
        if end_index is not None and end_index < cursor.length:
            cursor.rewind_to(end_index)
        return CUT if end_index is None else MALFORMED
    if hit.mark not in end_marks:
        cursor.rewind_to(cursor.length - len(hit.mark))
    return MALFORMED


def _end_inside(text: str, start: int, ends: tuple[str, ...], begins: tuple[str, ...], *, at_end: bool) -> int | None:
    """Return the index at which the block ends within the text that was already read, or None."""
    pattern = _end_pattern(ends, begins)
    if pattern is None:
        return None
    for match in pattern.finditer(text, start):
        if match["last"] is None:
            return match.end("end") if match["end"] is not None else match.start("begin")
        if at_end:
            return match.end("end")
    return None


def _end_pattern(ends: tuple[str, ...], begins: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return the pattern of an end mark that another mark follows, or of a begin mark with a call after it."""
    if not ends and not begins:
        return None
    end = "|".join(map(re.escape, ends)) or "(?!)"
    begin = "|".join(map(re.escape, begins)) or "(?!)"
    next_mark = "|".join(map(re.escape, [*begins, *ends])) or "(?!)"
    call_start = r"""[{\[<"\w]"""
    return re.compile(rf"(?P<end>{end})\s*(?:(?={next_mark})|(?P<last>\Z))|(?P<begin>{begin})(?=\s*{call_start})")
