"""Calls whose arguments have marks of their own and are text: tags, pairs of key and value, attributes.

Rules of this file:
- A call is complete with its own end mark. The text between an argument's marks is its value, even if it contains other
  marks.
- If the end of an argument is missing, the next argument of the same tool ends it. If the end of a call was skipped and
  another call has begun, the first call is broken.
- The schema decides what a value is, unless the format declares it.
"""

import html
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from toolwire.text.block_items import CUT, MALFORMED, BlockItem, ReadState, section_begins, section_ends, skip_broken
from toolwire.text.cursor import ReadSteps
from toolwire.text.json_text import skip_object
from toolwire.text.rows import Row, bare_mark
from toolwire.text.values import (
    add_padding,
    format_value,
    parse_by_schema,
    parse_declared,
    property_schemas,
    strip_padding,
)
from toolwire.types import ToolCall

_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_TYPES = {bool: "boolean", int: "number", float: "number", type(None): "null", list: "array"}
_TEXTS = ("string", "true")
_LONGEST_NAME = 256


def begins(row: Row) -> tuple[str, ...]:
    """Return the marks that begin a call."""
    return (bare_mark(row.call[0]),)


class _Call:
    """A call that is being read: its marks, its name, and its arguments so far."""

    def __init__(self, state: ReadState) -> None:
        row = state.row
        self.state: ReadState = state
        self.begin, self.after_name, self.end = (bare_mark(mark) for mark in row.call)
        self.argument, self.after_key, self.after_value = (bare_mark(mark) for mark in row.argument)
        self.name = ""
        self.id: str | None = None
        self.arguments: dict[str, Any] = {}
        self.schema: dict[str, Any] = {}

    def properties(self) -> dict[str, Any]:
        """Return the schemas of the tool's parameters."""
        return property_schemas(self.schema, self.schema)

    def items(self, arguments: Any = None, problem: str = "") -> list[BlockItem]:
        """Return the call as the only item of its block."""
        return [BlockItem(self.state.cursor.block_text(), self.name or None, arguments, self.id, problem)]


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read the name and the arguments up to the end of the call."""
    del mark
    call = _Call(state)
    if (yield from _read_name(call)) is None:
        return None
    search = state.find("argument or end", call.argument, call.end, "{", *state.row.separators, adjacent=True)
    while True:
        hit = yield search
        if hit.mark in state.row.separators:
            continue
        if hit.end:
            return call.items(None, CUT)
        if hit.mark == call.end:
            return call.items(call.arguments)
        if hit.mark == "{" and not call.arguments:
            return (yield from _read_object(call))
        if hit.mark != call.argument:
            return (yield from _read_broken(call, MALFORMED))
        problem = yield from _read_arguments(call)
        if problem is not None:
            return (yield from _read_broken(call, problem)) if problem else call.items(None, MALFORMED)


def _read_name(call: _Call) -> ReadSteps:
    state, cursor, start = call.state, call.state.cursor, call.state.cursor.length
    marks = (call.after_name,) if call.after_name else (call.argument, call.end)
    hit = yield state.find("after name", *marks, *state.begins)
    header = hit.before
    if hit.end or hit.mark not in marks or "\n" in header.strip():
        return None
    if not call.after_name:
        cursor.rewind_to(start + len(header))
    call.name = _attribute(state.row, header, 0)
    call.schema = state.schema(state.resolve_name(call.name))
    return call.name or None


def _attribute(row: Row, header: str, index: int) -> str:
    """Return the name or key that a header contains. `index` selects the attribute of the row."""
    if not row.attributes:
        return header.strip()
    for name, *values in _ATTRIBUTE.findall(header):
        if name == row.attributes[index]:
            value = next(filter(None, values), "")
            return html.unescape(value) if "entities" in row.attributes else value
    return ""


def _read_object(call: _Call) -> ReadSteps:
    text, end = yield from skip_object(call.state.cursor)
    if end != "whole":
        return (yield from _read_broken(call, MALFORMED))
    hit = yield call.state.find("end", call.end, adjacent=True)
    if hit.mark == call.end:
        return call.items(text)
    return call.items(None, CUT) if hit.end else (yield from _read_broken(call, MALFORMED))


def _read_arguments(call: _Call) -> ReadSteps:
    """Read an argument, and the arguments that follow it without an end mark between them.

    Return the problem, "" if the block has already ended, or None if there is none.
    """
    state, row = call.state, call.state.row
    header: str | None = (yield state.find("after key", call.after_key)).before
    while header is not None:
        key = _attribute(row, header, 1)
        if row.value:
            hit = yield state.find("value", bare_mark(row.value), adjacent=True)
            if not hit.mark:
                return MALFORMED
        if not key or "\n" in key:
            return MALFORMED
        if key in call.arguments:
            return f"the argument {key!r} occurs twice"
        text, next_header = yield from _read_value(call, key)
        if text is None:
            return next_header
        call.arguments[key] = _parse_value(call, key, text, header)
        header = next_header
    return None


def _read_value(call: _Call, own_key: str) -> ReadSteps:
    """Read a value. Return its text, and the header of the next argument if that argument ended the value.

    If the value is broken, return None and the problem.
    """
    state, cursor, parts, next_call = call.state, call.state.cursor, [], None
    search = state.find("after value", call.after_value, call.argument, call.begin)
    while not state.has_unended_value:
        hit = yield search
        if hit.end:
            state.has_unended_value = True
            break
        parts.append(hit.before)
        if hit.mark == call.after_value and not _in_cdata(state.row, parts):
            return "".join(parts), None
        if hit.mark == call.begin:
            end_mark = _end_before_marks(call.end, state.row).search(hit.before)
            begin = cursor.length - len(hit.mark) - len(hit.before)
            next_call = begin + end_mark.end("end") if end_mark is not None else None
            parts.append(hit.mark)
            continue
        if hit.mark == call.after_value:
            parts.append(hit.mark)
            continue
        if next_call is not None and len(parts[-1]) < _LONGEST_NAME:
            cursor.rewind_to(next_call)
            return None, ""
        header = yield state.find("after key", call.after_key)
        key = _attribute(state.row, header.before, 1)
        if key != own_key and key not in call.arguments and key in call.properties() and parts[-1].endswith("\n"):
            return "".join(parts), header.before
        parts += [hit.mark, header.before, header.mark]
        next_call = None
    return None, MALFORMED


def _in_cdata(row: Row, parts: list[str]) -> bool:
    """Return True if a value is inside a CDATA section that has not ended."""
    return row.cdata and parts[0].lstrip().startswith("<![CDATA[") and not parts[-1].rstrip().endswith("]]>")


@lru_cache(64)
def _end_before_marks(end: str, row: Row) -> re.Pattern[str]:
    """Return the pattern of a call's end that only section marks follow."""
    marks = "|".join(map(re.escape, (*section_begins(row), *filter(None, section_ends(row).values())))) or "(?!)"
    return re.compile(rf"(?P<end>{re.escape(end)})\s*(?:(?:{marks})\s*)*\Z")


def _parse_value(call: _Call, key: str, text: str, header: str) -> Any:
    row = call.state.row
    cdata = _CDATA.fullmatch(text) if row.cdata else None
    text = cdata[1] if cdata is not None else strip_padding(text, padded=row.pad)
    declared_type = _attribute(row, header, 2) if len(row.attributes) > 2 else ""
    schema = call.properties().get(key)
    if declared_type:
        return parse_declared(text, schema, call.schema, quoted=declared_type in _TEXTS)
    return parse_by_schema(text, schema, call.schema)


def _read_broken(call: _Call, problem: str) -> ReadSteps:
    end_problem = yield from skip_broken(call.state, (call.end, *call.state.ends))
    return call.items(None, CUT if end_problem == CUT else problem)


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Return calls, each with its marks."""
    texts = []
    for index, (call, arguments) in enumerate(calls):
        inner = "".join(_argument(row, key, value) for key, value in arguments.items())
        head = _head(row, 0, call.name) + row.header.replace("{index}", str(index))
        texts.append(f"{row.call[0]}{head}{row.call[1]}{inner}{row.call[2]}")
    return texts


def _argument(row: Row, key: str, value: Any) -> str:
    head = _head(row, 1, key)
    if len(row.attributes) > 2:
        type_name = "string" if type(value) is str else _TYPES.get(type(value), "object")
        attribute = type_name if row.attributes[2] == "type" else str(type(value) is str).lower()
        head += f' {row.attributes[2]}="{attribute}"'
    text = add_padding(format_value(value), always=row.pad)
    return f"{row.argument[0]}{head}{row.argument[1]}{row.value}{text}{row.argument[2]}"


def _head(row: Row, index: int, name: str) -> str:
    if not row.attributes:
        return name
    if "entities" in row.attributes:
        name = name.replace("&", "&amp;").replace('"', "&quot;")
    return f' {row.attributes[index]}="{name}"'
