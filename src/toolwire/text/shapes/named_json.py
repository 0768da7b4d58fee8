"""Calls whose name stands before their arguments: a mark, the name, another mark, one JSON object.

Rules of this file:
- A call counts with the end of its object; the mark after it may be missing. A call that ends without one has no
  arguments.
- An id that stands with the name is kept.
"""

import re
from collections.abc import Sequence
from typing import Any

from toolwire.text.cursor import Reading
from toolwire.text.heard import Heard, Scene, end_broken
from toolwire.text.json_text import skim_object
from toolwire.text.rows import Row, core
from toolwire.text.shapes import json_calls
from toolwire.text.values import json_of
from toolwire.types import ToolCall

_HEADER = re.compile(r"(?:functions\.)?(?P<name>.+?)(?::\d+)?\Z", re.DOTALL)
_LONGEST_NAME = 256


def begins(row: Row) -> tuple[str, ...]:
    """Give the marks that a call begins with."""
    return (core(row.call[0]), core(row.call[1])) if row.header == "object" else (core(row.call[0]),)


def read(scene: Scene, mark: str) -> Reading:
    """Read a name and its object; where a list follows the mark, its calls."""
    row, cursor = scene.row, scene.cursor
    if row.header == "object" and mark == core(row.call[1]):
        return (yield from _read_whole(scene))
    first = yield scene.find("list", "[", near=True)
    if first.mark == "[":
        return (yield from json_calls.read(scene, "["))
    start = cursor.length
    found = yield scene.find("after name", *_after_name(row), *_closings(row)[-1:], *scene.ends, *scene.begins)
    header = cursor.text()[start : cursor.length - len(found.mark)].strip()
    if found.mark == "{" and not header and mark:
        return (yield from json_calls.read(scene, "{"))
    if row.header == "object" and found.mark == core(row.call[1]):
        return (yield from _read_whole(scene))
    if found.end or found.mark in {*scene.ends, *scene.begins} or "\n" in header or not header:
        return None
    return (yield from _read_object(scene, header, found.mark))


def _read_object(scene: Scene, header: str, mark: str) -> Reading:
    """Read what stands after a name."""
    row, cursor = scene.row, scene.cursor
    name, call_id = _named(row, header)
    closings = _closings(row)
    last = closings[-1:]
    if mark == core(row.call_id):
        found = yield scene.find("after id", *_after_name(row)[:-1], "{")
        mark, call_id = found.mark, found.before.strip() or None
    if mark not in {"{", *last}:
        mark = (yield scene.find("object", "{", *last, near=True)).mark
    text, end = "", "whole"
    if mark == "{":
        text, end = yield from skim_object(cursor)
    elif mark not in last:
        end = "malformed"
    if end != "whole":
        return (yield from _broken(scene, name, call_id))
    if mark not in last:
        yield from _pass(scene, closings)
    return [Heard(cursor.text(), name, text, call_id)]


def _read_whole(scene: Scene) -> Reading:
    """Read an object that says all of the call."""
    scene.body = scene.cursor.length
    found = yield scene.find("object", "{", near=True)
    if found.mark != "{":
        return None
    text, end = yield from skim_object(scene.cursor)
    heard = json_calls.item_of(scene.row, text, end == "whole")[0]
    if end != "whole":
        return (yield from _broken(scene, heard.name or "", None))
    yield from _pass(scene, _closings(scene.row))
    return [heard]


def _pass(scene: Scene, after: tuple[str, ...]) -> Reading:
    """Pass the marks that close a call, where they are there."""
    wanted = scene.find("after call", *after, near=True)
    size = scene.cursor.length
    for _ in after:
        found = yield wanted
        if not found.mark:
            scene.cursor.give_back(size)
            return
        size = scene.cursor.length
        if found.mark == after[-1]:
            return


def _after_name(row: Row) -> tuple[str, ...]:
    return (*filter(None, (core(row.call[1]), core(row.call_id))), "{")


def _closings(row: Row) -> tuple[str, ...]:
    return tuple(core(mark) for mark in row.call[2:] if mark)


def _named(row: Row, header: str) -> tuple[str, str | None]:
    if row.header != "id":
        return header, None
    return _HEADER.match(header)["name"], header  # type: ignore[index]


def _broken(scene: Scene, name: str, call_id: str | None) -> Reading:
    problem = yield from end_broken(scene, [core(scene.row.call[-1]), *scene.ends])
    return [Heard(scene.cursor.text(), name, None, call_id, problem)]


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Write calls, each with its marks."""
    texts = []
    for place, (call, given) in enumerate(calls):
        name, after = call.name, row.call[1]
        if row.header == "id":
            name = call.id if _fits(call) else f"functions.{call.name}:{place}"  # type: ignore[assignment]
        elif row.call_id and call.id is not None:
            after = f"{row.call_id}{call.id}{after}"
        body = json_of(given)
        if row.header == "object":
            body = json_of({row.keys[0]: call.name, row.keys[1].split("|")[0]: given})
        texts.append(f"{row.call[0]}{name}{after}{body}{''.join(row.call[2:])}")
    return texts


def _fits(call: ToolCall) -> bool:
    found = _HEADER.match(call.id or "")
    return found is not None and found["name"] == call.name and ":" in (call.id or "") and "\n" not in (call.id or "")
