"""Calls whose arguments stand in marks of their own, each a text: tags, keys and values, attributes.

Rules of this file:
- A call counts when its own end has come. What stands between an argument's marks is its value, other marks too.
- Where the end of an argument is missing, the next one of the tool ends it; where the end of a call was passed and
  another call has begun, the first is broken.
- The schema says what a value is, unless the format does.
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
    """Give the marks that a call begins with."""
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
        self.given: dict[str, Any] = {}
        self.schema: dict[str, Any] = {}

    def properties(self) -> dict[str, Any]:
        return property_schemas(self.schema, self.schema)

    def heard(self, arguments: Any = None, problem: str = "") -> list[BlockItem]:
        return [BlockItem(self.state.cursor.block_text(), self.name or None, arguments, self.id, problem)]


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read a name, and arguments until the end of the call."""
    del mark
    call = _Call(state)
    if (yield from _read_name(call)) is None:
        return None
    wanted = state.find("argument or end", call.argument, call.end, "{", *state.row.separators, adjacent=True)
    while True:
        found = yield wanted
        if found.mark in state.row.separators:
            continue
        if found.end:
            return call.heard(None, CUT)
        if found.mark == call.end:
            return call.heard(call.given)
        if found.mark == "{" and not call.given:
            return (yield from _read_object(call))
        if found.mark != call.argument:
            return (yield from _broken(call, MALFORMED))
        problem = yield from _read_arguments(call)
        if problem is not None:
            return (yield from _broken(call, problem)) if problem else call.heard(None, MALFORMED)


def _read_name(call: _Call) -> ReadSteps:
    state, cursor, start = call.state, call.state.cursor, call.state.cursor.length
    marks = (call.after_name,) if call.after_name else (call.argument, call.end)
    found = yield state.find("after name", *marks, *state.begins)
    header = found.before
    if found.end or found.mark not in marks or "\n" in header.strip():
        return None
    if not call.after_name:
        cursor.rewind_to(start + len(header))
    call.name = _attribute(state.row, header, 0)
    call.schema = state.schema(state.resolve_name(call.name))
    return call.name or None


def _attribute(row: Row, header: str, place: int) -> str:
    """Give a name or a key from what stands where it does."""
    if not row.attributes:
        return header.strip()
    for name, *values in _ATTRIBUTE.findall(header):
        if name == row.attributes[place]:
            value = next(filter(None, values), "")
            return html.unescape(value) if "entities" in row.attributes else value
    return ""


def _read_object(call: _Call) -> ReadSteps:
    text, end = yield from skip_object(call.state.cursor)
    if end != "whole":
        return (yield from _broken(call, MALFORMED))
    found = yield call.state.find("end", call.end, adjacent=True)
    if found.mark == call.end:
        return call.heard(text)
    return call.heard(None, CUT) if found.end else (yield from _broken(call, MALFORMED))


def _read_arguments(call: _Call) -> ReadSteps:
    """Read an argument, and those that follow without its end; give what is wrong, `""` where the block is over."""
    state, row = call.state, call.state.row
    header: str | None = (yield state.find("after key", call.after_key)).before
    while header is not None:
        key = _attribute(row, header, 1)
        if row.value:
            found = yield state.find("value", bare_mark(row.value), adjacent=True)
            if not found.mark:
                return MALFORMED
        if not key or "\n" in key:
            return MALFORMED
        if key in call.given:
            return f"the argument {key!r} is given twice"
        text, following = yield from _read_value(call, key)
        if text is None:
            return following
        call.given[key] = _value(call, key, text, header)
        header = following
    return None


def _read_value(call: _Call, own: str) -> ReadSteps:
    """Read a value; with it, the key of an argument that ended it. Where it is broken, give None and why."""
    state, cursor, parts, left = call.state, call.state.cursor, [], None
    wanted = state.find("after value", call.after_value, call.argument, call.begin)
    while not state.has_unended_value:
        found = yield wanted
        if found.end:
            state.has_unended_value = True
            break
        parts.append(found.before)
        if found.mark == call.after_value and not _in_cdata(state.row, parts):
            return "".join(parts), None
        if found.mark == call.begin:
            passed = _passed(call.end, state.row).search(found.before)
            begin = cursor.length - len(found.mark) - len(found.before)
            left = begin + passed.end("end") if passed is not None else None
            parts.append(found.mark)
            continue
        if found.mark == call.after_value:
            parts.append(found.mark)
            continue
        if left is not None and len(parts[-1]) < _LONGEST_NAME:
            cursor.rewind_to(left)
            return None, ""
        header = yield state.find("after key", call.after_key)
        key = _attribute(state.row, header.before, 1)
        if key != own and key not in call.given and key in call.properties() and parts[-1].endswith("\n"):
            return "".join(parts), header.before
        parts += [found.mark, header.before, header.mark]
        left = None
    return None, MALFORMED


def _in_cdata(row: Row, parts: list[str]) -> bool:
    """Whether a value stands in CDATA that has not ended."""
    return row.cdata and parts[0].lstrip().startswith("<![CDATA[") and not parts[-1].rstrip().endswith("]]>")


@lru_cache(64)
def _passed(end: str, row: Row) -> re.Pattern[str]:
    """MarkSearch a call's end with nothing but marks of sections after it."""
    marks = "|".join(map(re.escape, (*section_begins(row), *filter(None, section_ends(row).values())))) or "(?!)"
    return re.compile(rf"(?P<end>{re.escape(end)})\s*(?:(?:{marks})\s*)*\Z")


def _value(call: _Call, key: str, text: str, header: str) -> Any:
    row = call.state.row
    cdata = _CDATA.fullmatch(text) if row.cdata else None
    text = cdata[1] if cdata is not None else strip_padding(text, padded=row.pad)
    said = _attribute(row, header, 2) if len(row.attributes) > 2 else ""
    schema = call.properties().get(key)
    if said:
        return parse_declared(text, schema, call.schema, quoted=said in _TEXTS)
    return parse_by_schema(text, schema, call.schema)


def _broken(call: _Call, problem: str) -> ReadSteps:
    ended = yield from skip_broken(call.state, (call.end, *call.state.ends))
    return call.heard(None, CUT if ended == CUT else problem)


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Write calls, each with its marks."""
    texts = []
    for place, (call, given) in enumerate(calls):
        inner = "".join(_argument(row, key, value) for key, value in given.items())
        head = _head(row, 0, call.name) + row.header.replace("{index}", str(place))
        texts.append(f"{row.call[0]}{head}{row.call[1]}{inner}{row.call[2]}")
    return texts


def _argument(row: Row, key: str, value: Any) -> str:
    head = _head(row, 1, key)
    if len(row.attributes) > 2:
        kind = "string" if type(value) is str else _TYPES.get(type(value), "object")
        word = kind if row.attributes[2] == "type" else str(type(value) is str).lower()
        head += f' {row.attributes[2]}="{word}"'
    text = add_padding(format_value(value), always=row.pad)
    return f"{row.argument[0]}{head}{row.argument[1]}{row.value}{text}{row.argument[2]}"


def _head(row: Row, place: int, name: str) -> str:
    if not row.attributes:
        return name
    if "entities" in row.attributes:
        name = name.replace("&", "&amp;").replace('"', "&quot;")
    return f' {row.attributes[place]}="{name}"'
