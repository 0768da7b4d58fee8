"""Calls with the name before the arguments: a mark, the name, another mark, one JSON object.

Rules of this file:
- A call is complete with the end of its object. The mark after it may be missing. A call that ends without an object
  has no arguments.
- An id beside the name is kept.
"""

import re
from collections.abc import Sequence
from typing import Any

from toolwire.text.block_items import BlockItem, ReadState, skip_broken
from toolwire.text.cursor import ReadSteps
from toolwire.text.json_text import skip_object
from toolwire.text.rows import Row, bare_mark
from toolwire.text.shapes import json_calls
from toolwire.text.values import dump_json
from toolwire.types import ToolCall

_HEADER = re.compile(r"(?:functions\.)?(?P<name>.+?)(?::\d+)?\Z", re.DOTALL)
_LONGEST_NAME = 256


def begins(row: Row) -> tuple[str, ...]:
    """Return the marks that begin a call."""
    return (bare_mark(row.call[0]), bare_mark(row.call[1])) if row.header == "object" else (bare_mark(row.call[0]),)


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read a name and its object. If a list follows the mark, read the calls of the list."""
    row, cursor = state.row, state.cursor
    if row.header == "object" and mark == bare_mark(row.call[1]):
        return (yield from _read_full_object(state))
    list_hit = yield state.find("list", "[", adjacent=True)
    if list_hit.mark == "[":
        return (yield from json_calls.read(state, "["))
    start = cursor.length
    hit = yield state.find("after name", *_after_name(row), *_closings(row)[-1:], *state.ends, *state.begins)
    header = cursor.block_text()[start : cursor.length - len(hit.mark)].strip()
    if hit.mark == "{" and not header and mark:
        return (yield from json_calls.read(state, "{"))
    if row.header == "object" and hit.mark == bare_mark(row.call[1]):
        return (yield from _read_full_object(state))
    if hit.end or hit.mark in {*state.ends, *state.begins} or "\n" in header or not header:
        return None
    return (yield from _read_object(state, header, hit.mark))


def _read_object(state: ReadState, header: str, mark: str) -> ReadSteps:
    """Read the object after a name."""
    row, cursor = state.row, state.cursor
    name, call_id = _split_header(row, header)
    closings = _closings(row)
    final_marks = closings[-1:]
    if mark == bare_mark(row.call_id):
        hit = yield state.find("after id", *_after_name(row)[:-1], "{")
        mark, call_id = hit.mark, hit.before.strip() or None
        if row.header == "id first":
            name, call_id = call_id or "", name or None
    if mark not in {"{", *final_marks}:
        mark = (yield state.find("object", "{", *final_marks, adjacent=True)).mark
    text, end = "", "whole"
    if mark == "{":
        text, end = yield from skip_object(cursor)
    elif mark not in final_marks:
        end = "malformed"
    if end != "whole":
        return (yield from _read_broken(state, name, call_id))
    if mark not in final_marks:
        yield from _skip_closings(state, closings)
    return [BlockItem(cursor.block_text(), name, text, call_id)]


def _read_full_object(state: ReadState) -> ReadSteps:
    """Read an object that contains the whole call, name included."""
    state.body_start = state.cursor.length
    hit = yield state.find("object", "{", adjacent=True)
    if hit.mark != "{":
        return None
    text, end = yield from skip_object(state.cursor)
    item = json_calls.item_of(state.row, text, end == "whole")[0]
    if end != "whole":
        return (yield from _read_broken(state, item.name or "", None))
    yield from _skip_closings(state, _closings(state.row))
    return [item]


def _skip_closings(state: ReadState, closings: tuple[str, ...]) -> ReadSteps:
    """Skip the marks that close a call, as far as they are present."""
    search = state.find("after call", *closings, adjacent=True)
    size = state.cursor.length
    for _ in closings:
        hit = yield search
        if not hit.mark:
            state.cursor.rewind_to(size)
            return
        size = state.cursor.length
        if hit.mark == closings[-1]:
            return


def _after_name(row: Row) -> tuple[str, ...]:
    return (*filter(None, (bare_mark(row.call[1]), bare_mark(row.call_id))), "{")


def _closings(row: Row) -> tuple[str, ...]:
    return tuple(bare_mark(mark) for mark in row.call[2:] if mark)


def _split_header(row: Row, header: str) -> tuple[str, str | None]:
    if row.header != "id":
        return header, None
    return _HEADER.match(header)["name"], header  # type: ignore[index]


def _read_broken(state: ReadState, name: str, call_id: str | None) -> ReadSteps:
    problem = yield from skip_broken(state, [bare_mark(state.row.call[-1]), *state.ends])
    return [BlockItem(state.cursor.block_text(), name, None, call_id, problem)]


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Return calls, each with its marks."""
    texts = []
    for index, (call, arguments) in enumerate(calls):
        name, mark_after_name = call.name, row.call[1]
        if row.header == "id":
            name = call.id if _is_usable_id(call) else f"functions.{call.name}:{index}"  # type: ignore[assignment]
        elif row.header == "id first":
            name = f"{call.id or index}{row.call_id}{call.name}"
        elif row.call_id and call.id is not None:
            mark_after_name = f"{row.call_id}{call.id}{mark_after_name}"
        body = dump_json(arguments)
        if row.header == "object":
            body = dump_json({row.keys[0]: call.name, row.keys[1].split("|")[0]: arguments})
        texts.append(f"{row.call[0]}{name}{mark_after_name}{body}{''.join(row.call[2:])}")
    return texts


def _is_usable_id(call: ToolCall) -> bool:
    match = _HEADER.match(call.id or "")
    return match is not None and match["name"] == call.name and ":" in (call.id or "") and "\n" not in (call.id or "")
