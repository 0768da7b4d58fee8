"""The value of an argument with marks around it: where it ends, whatever marks it contains.

Rules of this file:
- An end mark ends a value only if the next argument or the end of the call follows it. Any other end mark is text.
- A value may contain a whole end of its call. Only the end of the text shows that no later end mark belongs to the
  value, so a call with arguments waits until then. If a call lies between two possible ends, the call is broken.
- Arguments of other calls inside of a value have their own end marks, which do not end the value.
- In an answer that was cut off, the mark around a call must have ended too.
- The rest of a text is searched once, whatever it contains.
"""

import html
import re
from functools import lru_cache
from typing import Any

from toolwire.text.block_items import CUT, MALFORMED, BlockItem, ReadState, section_begins, section_ends
from toolwire.text.cursor import ReadSteps
from toolwire.text.rows import Row, bare_mark
from toolwire.text.values import property_schemas

_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_LONGEST_NAME = 256
_ARGUMENT, _END, _TEXT, _NOTHING = range(4)
_ValueEnd = tuple[str | None, str | None]
"""The result of `read_value`."""


class OpenCall:
    """A call that is being read: its marks, its name, and its arguments so far.

    `unread` is a hit that was found while something else was searched, and is handled next.
    """

    def __init__(self, state: ReadState) -> None:
        row = state.row
        self.state: ReadState = state
        self.begin, self.after_name, self.end = (bare_mark(mark) for mark in row.call)
        self.argument, self.after_key, self.after_value = (bare_mark(mark) for mark in row.argument)
        self.is_wrapped: bool = state.body_start > len(self.begin)
        self.name = ""
        self.id: str | None = None
        self.arguments: dict[str, Any] = {}
        self.schema: dict[str, Any] = {}
        self.unread: Any = None

    def properties(self) -> dict[str, Any]:
        """Return the schemas of the tool's parameters."""
        return property_schemas(self.schema, self.schema)

    def items(self, arguments: Any = None, problem: str = "") -> list[BlockItem]:
        """Return the call as the only item of its block."""
        return [BlockItem(self.state.cursor.block_text(), self.name or None, arguments, self.id, problem)]


class _Value:
    """The value that is being read.

    - `parts`: everything that was read since its begin mark.
    - `end`: its last possible end, where the end of the call follows: an index in `parts`, and the length of the block.
    - `inner_end`: the first end of a call inside of the value. `next_call`: where the end of this call was skipped.
    - `is_inner_open`: inside of an argument of another call. `has_inner_call`: another call lies behind `end`.
    """

    def __init__(self, key: str) -> None:
        self.key: str = key
        self.parts: list[str] = []
        self.end: tuple[int, int] | None = None
        self.inner_end: tuple[int, int] | None = None
        self.next_call: int | None = None
        self.skipped_end: int | None = None
        self.is_inner_open = False
        self.has_inner_call = False
        self.is_after_begin = False

    def text(self, size: int) -> str:
        """Return the first `size` parts."""
        return "".join(self.parts[:size])


def attribute_of(row: Row, header: str, index: int) -> str:
    """Return the name or key that a header contains. `index` selects the attribute of the row."""
    if not row.attributes:
        return header.strip()
    for name, *values in _ATTRIBUTE.findall(header):
        if name == row.attributes[index]:
            value = next(filter(None, values), "")
            return html.unescape(value) if "entities" in row.attributes else value
    return ""


def read_value(call: OpenCall, own_key: str) -> ReadSteps:
    """Read the value of the argument `own_key`. Return its text and the header of the next argument, if there is one.

    If the value is broken, return None and the problem, which is "" if the block has already ended.
    """
    state, value = call.state, _Value(own_key)
    search = state.find("after value", call.after_value, call.argument, call.begin)
    while not state.has_unended_value:
        hit, call.unread = call.unread or (yield search), None
        value.parts.append(hit.before)
        if hit.end:
            return _at_end_of_text(call, value, MALFORMED)
        end = yield from _read_mark(call, value, hit)
        if end is not None:
            return end
    return None, MALFORMED


def _read_mark(call: OpenCall, value: _Value, hit: Any) -> ReadSteps:
    """Read a mark inside of a value. Return the result of `read_value` if the mark ends the value."""
    size = len(value.parts)
    value.parts.append(hit.mark)
    is_after_begin, value.is_after_begin = value.is_after_begin, hit.mark == call.begin
    if hit.mark == call.begin:
        _note_begin(call, value, hit.before)
        return None
    if hit.mark == call.argument:
        header = yield from _read_header(call, value)
        if header is None:
            return None
        if is_after_begin and _is_head(call, hit.before):
            return (None, "") if _has_skipped_end(call, value) else None
        return _at_argument(call, value, size, header)
    if _in_cdata(call.state.row, value.parts[0], hit.before):
        return None
    kind, header = yield from _read_follower(call, value)
    return _at_end_mark(call, value, size, kind, header)


def _at_argument(call: OpenCall, value: _Value, size: int, header: str) -> _ValueEnd | None:
    """Return the value if the argument `header` ends it, which has no end mark. Any other argument is text."""
    if value.end is not None:
        value.is_inner_open = True
        return None
    begins_line = value.parts[size - 1].endswith("\n")
    if begins_line and not value.is_inner_open and _is_next_key(call, header, value.key):
        return value.text(size), header
    return None


def _at_end_mark(call: OpenCall, value: _Value, size: int, kind: int, header: str | None) -> _ValueEnd | None:
    """Return the value if the end mark behind its first `size` parts ends it. `kind` is what follows the mark."""
    if kind == _TEXT:
        return None
    if kind == _NOTHING:
        return _at_end_of_text(call, value, CUT)
    if value.is_inner_open:
        _note_inner_end(call, value, size, kind)
        return None
    if value.has_inner_call:
        return None, f"the argument {value.key!r} has several possible ends"
    if kind == _ARGUMENT or _is_settled(call):
        return value.text(size), header
    value.end = (size, call.state.cursor.length)
    return None


def _is_settled(call: OpenCall) -> bool:
    """Return True if the first end of the call is its end: it is no call, or the rest of the text has no other end."""
    state = call.state
    return state.is_scanned or not state.is_offered(state.resolve_name(call.name))


def _note_begin(call: OpenCall, value: _Value, before: str) -> None:
    """Note the begin of another call, and whether the end of this one comes before it."""
    end_mark = _end_before_marks(call.end, call.state.row).search(before)
    begin = call.state.cursor.length - len(call.begin) - len(before)
    value.skipped_end = None if end_mark is None or value.end is not None else begin + end_mark.end("end")


def _has_skipped_end(call: OpenCall, value: _Value) -> bool:
    """Note an argument of another call. Return True if this call was left without an end, and the block ends there."""
    if value.next_call is None:
        value.next_call = value.skipped_end
    if not call.state.is_scanned:
        value.is_inner_open = True
    elif value.skipped_end is not None:
        call.state.cursor.rewind_to(value.skipped_end)
        return True
    return False


def _note_inner_end(call: OpenCall, value: _Value, size: int, kind: int) -> None:
    """Note the end of an argument of another call, which may be the end of that call."""
    value.is_inner_open = kind == _ARGUMENT
    if kind == _END and value.end is not None:
        value.has_inner_call = True
    elif kind == _END and value.inner_end is None:
        value.inner_end = (size, call.state.cursor.length)


def _at_end_of_text(call: OpenCall, value: _Value, problem: str) -> _ValueEnd:
    """Return the value that ends at the best of its possible ends, now that the text has no other."""
    state = call.state
    state.is_scanned = True
    end = value.end or (value.inner_end if value.next_call is None else None)
    if end is None and value.next_call is not None:
        state.cursor.rewind_to(value.next_call)
        return None, ""
    if end is None:
        state.has_unended_value = problem == MALFORMED
        return None, problem
    is_marked = state.cursor.block_text()[end[1] :].lstrip().startswith((*state.ends, *state.begins))
    state.cursor.rewind_to(end[1])
    return (value.text(end[0]), None) if state.whole or is_marked or not call.is_wrapped else (None, CUT)


def _read_header(call: OpenCall, value: _Value) -> ReadSteps:
    """Read the header of an argument inside of a value. Return None if another mark comes first."""
    hit = yield call.state.find("header", call.after_key, call.after_value, call.argument, call.begin)
    value.parts.append(hit.before)
    if hit.mark == call.after_key:
        value.parts.append(hit.mark)
        return hit.before
    call.unread = hit._replace(before="")
    return None


def _read_follower(call: OpenCall, value: _Value) -> ReadSteps:
    """Read what follows the end mark of an argument. Return its kind, and the header if it is an argument."""
    state, parts = call.state, value.parts
    search = state.find("follower", call.argument, call.end, *state.row.separators, adjacent=True)
    hit = yield search
    parts += [hit.before, hit.mark]
    while hit.mark in state.row.separators:
        hit = yield search
        parts += [hit.before, hit.mark]
    if hit.mark == call.argument:
        header = yield from _read_header(call, value)
        return (_TEXT, None) if header is None else (_ARGUMENT, header)
    return (_END if hit.mark else _NOTHING if hit.end else _TEXT), None


def _is_head(call: OpenCall, text: str) -> bool:
    """Return True if `text` is what stands between the begin of a call and its first argument."""
    head = text.strip()
    for separator in call.state.row.separators:
        head = head.removesuffix(separator).rstrip()
    name = head.removesuffix(call.after_name)
    is_ended = not call.after_name or name != head
    return (
        is_ended and 0 < len(name) < _LONGEST_NAME and "\n" not in name and bool(attribute_of(call.state.row, name, 0))
    )


def _is_next_key(call: OpenCall, header: str, own_key: str) -> bool:
    """Return True if `header` is that of another argument of the same tool, which the call does not have yet."""
    key = attribute_of(call.state.row, header, 1)
    return key != own_key and key not in call.arguments and key in call.properties()


def _in_cdata(row: Row, first: str, last: str) -> bool:
    """Return True if a value is inside a CDATA section that has not ended."""
    return row.cdata and first.lstrip().startswith("<![CDATA[") and not last.rstrip().endswith("]]>")


@lru_cache(64)
def _end_before_marks(end: str, row: Row) -> re.Pattern[str]:
    """Return the pattern of a call's end that only section marks follow."""
    marks = "|".join(map(re.escape, (*section_begins(row), *filter(None, section_ends(row).values())))) or "(?!)"
    return re.compile(rf"(?P<end>{re.escape(end)})\s*(?:(?:{marks})\s*)*\Z")
