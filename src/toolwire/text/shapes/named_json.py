"""Calls whose name stands before their arguments: a mark, the name, another mark, one JSON object.

Rules of this file:
- A call counts with the end of its object; the mark after it may be missing. A call that ends without one has no
  arguments.
- An id that stands with the name is kept.
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
    """Give the marks that a call begins with."""
    return (bare_mark(row.call[0]), bare_mark(row.call[1])) if row.header == "object" else (bare_mark(row.call[0]),)


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read a name and its object; where a list follows the mark, its calls."""
    row, cursor = state.row, state.cursor
    if row.header == "object" and mark == bare_mark(row.call[1]):
        return (yield from _read_whole(state))
    first = yield state.find("list", "[", adjacent=True)
    if first.mark == "[":
        return (yield from json_calls.read(state, "["))
    start = cursor.length
    found = yield state.find("after name", *_after_name(row), *_closings(row)[-1:], *state.ends, *state.begins)
    header = cursor.block_text()[start : cursor.length - len(found.mark)].strip()
    if found.mark == "{" and not header and mark:
        return (yield from json_calls.read(state, "{"))
    if row.header == "object" and found.mark == bare_mark(row.call[1]):
        return (yield from _read_whole(state))
    if found.end or found.mark in {*state.ends, *state.begins} or "\n" in header or not header:
        return None
    return (yield from _read_object(state, header, found.mark))


def _read_object(state: ReadState, header: str, mark: str) -> ReadSteps:
    """Read what stands after a name."""
    row, cursor = state.row, state.cursor
    name, call_id = _named(row, header)
    closings = _closings(row)
    last = closings[-1:]
    if mark == bare_mark(row.call_id):
        found = yield state.find("after id", *_after_name(row)[:-1], "{")
        mark, call_id = found.mark, found.before.strip() or None
    if mark not in {"{", *last}:
        mark = (yield state.find("object", "{", *last, adjacent=True)).mark
    text, end = "", "whole"
    if mark == "{":
        text, end = yield from skip_object(cursor)
    elif mark not in last:
        end = "malformed"
    if end != "whole":
        return (yield from _broken(state, name, call_id))
    if mark not in last:
        yield from _pass(state, closings)
    return [BlockItem(cursor.block_text(), name, text, call_id)]


def _read_whole(state: ReadState) -> ReadSteps:
    """Read an object that says all of the call."""
    state.body_start = state.cursor.length
    found = yield state.find("object", "{", adjacent=True)
    if found.mark != "{":
        return None
    text, end = yield from skip_object(state.cursor)
    heard = json_calls.item_of(state.row, text, end == "whole")[0]
    if end != "whole":
        return (yield from _broken(state, heard.name or "", None))
    yield from _pass(state, _closings(state.row))
    return [heard]


def _pass(state: ReadState, after: tuple[str, ...]) -> ReadSteps:
    """Pass the marks that close a call, where they are there."""
    wanted = state.find("after call", *after, adjacent=True)
    size = state.cursor.length
    for _ in after:
        found = yield wanted
        if not found.mark:
            state.cursor.rewind_to(size)
            return
        size = state.cursor.length
        if found.mark == after[-1]:
            return


def _after_name(row: Row) -> tuple[str, ...]:
    return (*filter(None, (bare_mark(row.call[1]), bare_mark(row.call_id))), "{")


def _closings(row: Row) -> tuple[str, ...]:
    return tuple(bare_mark(mark) for mark in row.call[2:] if mark)


def _named(row: Row, header: str) -> tuple[str, str | None]:
    if row.header != "id":
        return header, None
    return _HEADER.match(header)["name"], header  # type: ignore[index]


def _broken(state: ReadState, name: str, call_id: str | None) -> ReadSteps:
    problem = yield from skip_broken(state, [bare_mark(state.row.call[-1]), *state.ends])
    return [BlockItem(state.cursor.block_text(), name, None, call_id, problem)]


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Write calls, each with its marks."""
    texts = []
    for place, (call, given) in enumerate(calls):
        name, after = call.name, row.call[1]
        if row.header == "id":
            name = call.id if _fits(call) else f"functions.{call.name}:{place}"  # type: ignore[assignment]
        elif row.call_id and call.id is not None:
            after = f"{row.call_id}{call.id}{after}"
        body = dump_json(given)
        if row.header == "object":
            body = dump_json({row.keys[0]: call.name, row.keys[1].split("|")[0]: given})
        texts.append(f"{row.call[0]}{name}{after}{body}{''.join(row.call[2:])}")
    return texts


def _fits(call: ToolCall) -> bool:
    found = _HEADER.match(call.id or "")
    return found is not None and found["name"] == call.name and ":" in (call.id or "") and "\n" not in (call.id or "")
