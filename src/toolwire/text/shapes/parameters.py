"""Calls whose arguments have marks of their own and are text: tags, pairs of key and value, attributes.

Rules of this file:
- A call is complete with its own end mark. `argument_values` finds the ends of its values.
- If the end of an argument is missing, the next argument of the same tool ends it. If the end of a call was skipped and
  another call has begun, the first call is broken.
- The schema decides what a value is, unless the format declares it.
"""

import re
from collections.abc import Sequence
from typing import Any

from toolwire.text.block_items import CUT, MALFORMED, ReadState, skip_broken
from toolwire.text.cursor import ReadSteps
from toolwire.text.json_text import skip_object
from toolwire.text.rows import Row, bare_mark
from toolwire.text.shapes import json_calls
from toolwire.text.shapes.argument_values import OpenCall, attribute_of, read_value
from toolwire.text.values import (
    add_padding,
    allowed_types,
    format_value,
    parse_by_schema,
    parse_declared,
    strip_padding,
)
from toolwire.types import ToolCall

_CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_TYPES = {bool: "boolean", int: "number", float: "number", type(None): "null", list: "array"}
_TEXTS = ("string", "true")
_JSON_MARKS = ("{", "[")
_TWICE = "an argument occurs twice"


def begins(row: Row) -> tuple[str, ...]:
    """Return the marks that begin a call."""
    return (bare_mark(row.call[0]),)


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read the name and the arguments up to the end of the call."""
    if mark in _JSON_MARKS:
        return (yield from json_calls.read(state, mark))
    if state.row.json:
        hit = yield state.find("json", *_JSON_MARKS, adjacent=True)
        if hit.mark:
            return (yield from json_calls.read(state, hit.mark))
    call = OpenCall(state)
    header = yield from _read_name(call)
    if header is None:
        return None
    is_self_closing = bool(state.row.attributes) and header.rstrip().endswith("/")
    return call.items({}) if is_self_closing else (yield from _read_body(call))


def _read_body(call: OpenCall) -> ReadSteps:
    """Read what follows the name of a call."""
    state = call.state
    search = state.find("argument or end", call.argument, call.end, "{", *state.row.separators, adjacent=True)
    hit = yield search
    while hit.mark in state.row.separators:
        hit = yield search
    if hit.end:
        return call.items(None, CUT)
    if hit.mark == call.end:
        return call.items({})
    if hit.mark == "{":
        return (yield from _read_object(call))
    problem = MALFORMED if hit.mark != call.argument else (yield from _read_arguments(call))
    if problem is None:
        return call.items(call.arguments)
    if problem in {MALFORMED, _TWICE}:
        return (yield from _read_broken(call, problem))
    return call.items(None, problem or MALFORMED)


def _read_name(call: OpenCall) -> ReadSteps:
    """Read the name of a call. Return the header that contains it, or None if it has no name."""
    state, cursor, start = call.state, call.state.cursor, call.state.cursor.length
    marks = (call.after_name,) if call.after_name else (call.argument, call.end)
    hit = yield state.find("after name", *marks, *state.begins)
    header = hit.before
    if hit.end or hit.mark not in marks or "\n" in header.strip():
        return None
    if not call.after_name:
        cursor.rewind_to(start + len(header))
    call.name = attribute_of(state.row, header, 0)
    call.schema = state.schema(state.resolve_name(call.name))
    return header if call.name else None


def _read_object(call: OpenCall) -> ReadSteps:
    text, end = yield from skip_object(call.state.cursor)
    if end != "whole":
        return (yield from _read_broken(call, MALFORMED))
    search = call.state.find("end", call.end, *call.state.row.separators, adjacent=True)
    hit = yield search
    while hit.mark in call.state.row.separators:
        hit = yield search
    if hit.mark == call.end:
        return call.items(text)
    return call.items(None, CUT) if hit.end else (yield from _read_broken(call, MALFORMED))


def _read_arguments(call: OpenCall) -> ReadSteps:
    """Read the arguments up to the end of the call.

    Return the problem, "" if the block has already ended, or None if there is none.
    """
    state, row = call.state, call.state.row
    header: str | None = (yield state.find("after key", call.after_key)).before
    while header is not None:
        key, declared_type = attribute_of(row, header, 1), ""
        if row.value:
            declared_type = yield from _read_value_mark(row, state)
            if declared_type is None:
                return MALFORMED
        if not key or "\n" in key:
            return MALFORMED
        if key in call.arguments:
            return _TWICE
        text, next_header = yield from read_value(call, key)
        if text is None:
            return next_header
        call.arguments[key] = _parse_value(call, key, text, header, declared_type)
        header = next_header
    return None


def _read_value_mark(row: Row, state: ReadState) -> ReadSteps:
    """Read the mark between a key and its value. Return the type that stands before it, "" or None without a mark."""
    begin, end = row.value_type or ("", "")
    search = state.find("value", bare_mark(row.value), bare_mark(begin), adjacent=True)
    hit, declared_type = (yield search), ""
    if hit.mark and hit.mark == bare_mark(begin):
        declared_type = (yield state.find("type", bare_mark(end), bare_mark(row.value))).before.strip()
        hit = yield search
    return declared_type if hit.mark == bare_mark(row.value) else None


def _parse_value(call: OpenCall, key: str, text: str, header: str, type_before: str = "") -> Any:
    row = call.state.row
    cdata = _CDATA.fullmatch(text) if row.cdata else None
    text = cdata[1] if cdata is not None else strip_padding(text, padded=row.pad)
    declared_type = attribute_of(row, header, 2) if len(row.attributes) > 2 else ""
    schema = call.properties().get(key)
    if declared_type:
        return parse_declared(text, schema, call.schema, quoted=declared_type in _TEXTS)
    if type_before and not allowed_types(schema, call.schema):
        schema = {"type": type_before}
    return parse_by_schema(text, schema, call.schema)


def _read_broken(call: OpenCall, problem: str) -> ReadSteps:
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
