"""What a reading makes of a block, before it is known whether it is a call; and where a broken block ends.

Rules of this file:
- A block ends at its own end, or where another begins: what is broken does not take its siblings with it.
- A mark inside of what is broken counts as its end only if a block, or the end of the text, follows.
"""

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from toolwire.text.cursor import Cursor, MarkSearch, ReadSteps
from toolwire.text.rows import Row, bare_mark
from toolwire.types import Tool


class BlockItem(Struct, frozen=True):
    """A part of a block: a call with its text, or words, where there is no name.

    `arguments` are an object, or the JSON text of one. `problem` says why they cannot be given.
    """

    text: str
    name: str | None = None
    arguments: Any = None
    id: str | None = None
    problem: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether the text ended before the call did."""
        return self.problem == CUT


CUT = "the text ended before the call did"
MALFORMED = "the call is malformed"


class ReadState(Struct):
    """Where a shape reads: the row of its format, its marks, the cursor, and the tools that were offered.

    `body` is where the present call begins in its block, after its marks. `unended` says that no value ends any more,
    `whole` that the text was not cut off.
    """

    row: Row
    cursor: Cursor
    offer: Any
    begins: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    searches: dict[str, MarkSearch] = {}
    body_start: int = 1
    has_unended_value: bool = False
    whole: bool = True

    def ends_with(self, mark: str) -> bool:
        """Whether the text ends with a mark, and was not cut off."""
        return self.cursor.ended and self.whole and self.cursor.block_text().rstrip().endswith(mark)

    def find(self, key: str, *marks: str, adjacent: bool = False) -> MarkSearch:
        """Give what is looked for, made once."""
        made = self.searches.get(key)
        if made is None:
            made = self.searches[key] = MarkSearch(marks, adjacent=adjacent)
        return made

    def tool(self, name: str) -> Tool | None:
        """Give an offered tool, if its declaration is known."""
        return None if self.offer is None else self.offer.get(name)

    def is_offered(self, name: str) -> bool:
        """Whether a tool may be called."""
        return self.offer is None or name in self.offer

    def resolve_name(self, name: str) -> str:
        """Give a name as it was offered; models put a namespace before it."""
        return name if name in (self.offer or ()) else name.removeprefix("functions.")

    def schema(self, name: str) -> dict[str, Any]:
        """Give the schema of a tool's parameters."""
        tool = self.tool(name)
        return tool.parameters or {} if tool is not None else {}


def section_begins(row: Row) -> tuple[str, ...]:
    """Give the marks that begin a section."""
    return tuple(bare_mark(begin) for begin, _ in row.pairs)


def section_ends(row: Row) -> dict[str, str]:
    """Give the end of each section by its beginning."""
    return {bare_mark(begin): bare_mark(end) for begin, end in row.pairs if end}


def skip_broken(state: ReadState, ends: Iterable[str], more: tuple[str, ...] = ()) -> ReadSteps:
    """Go to the end of a broken block, and say what is wrong: it is malformed, or the text ended in it."""
    cursor, known, begins = state.cursor, tuple(end for end in ends if end), (*state.begins, *more)
    inside = _end_inside(cursor.block_text(), state.body_start, known, begins, at_end=False)
    if inside is not None:
        cursor.rewind_to(inside)
        return MALFORMED
    found = yield state.find(f"broken {known} {more}", *known, *begins)
    if found.end:
        inside = _end_inside(cursor.block_text(), state.body_start, known, begins, at_end=True)
        if inside is not None and inside < cursor.length:
            cursor.rewind_to(inside)
        return CUT if inside is None else MALFORMED
    if found.mark not in known:
        cursor.rewind_to(cursor.length - len(found.mark))
    return MALFORMED


def _end_inside(text: str, body: int, ends: tuple[str, ...], begins: tuple[str, ...], *, at_end: bool) -> int | None:
    """MarkSearch where the block ends inside of what was taken."""
    pattern = _inside(ends, begins)
    if pattern is None:
        return None
    for match in pattern.finditer(text, body):
        if match["last"] is None:
            return match.end("end") if match["end"] is not None else match.start("begin")
        if at_end:
            return match.end("end")
    return None


def _inside(ends: tuple[str, ...], begins: tuple[str, ...]) -> re.Pattern[str] | None:
    if not ends and not begins:
        return None
    end = "|".join(map(re.escape, ends)) or "(?!)"
    begin = "|".join(map(re.escape, begins)) or "(?!)"
    opens = "|".join(map(re.escape, [*begins, *ends])) or "(?!)"
    body = r"""[{\[<"\w]"""
    return re.compile(rf"(?P<end>{end})\s*(?:(?={opens})|(?P<last>\Z))|(?P<begin>{begin})(?=\s*{body})")
