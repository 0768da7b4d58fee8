"""Calls as JSON objects: one after a mark, several in a list, or bare.

Rules of this file:
- A call counts with the end of its object; in a list, with the end of the list. What stands around may be missing.
- An object of a list that is none does not take the others with it.
- Where JSON stands bare, only what begins like a call is looked at: other JSON is text, at once. Where any name
  may be called, JSON without arguments is text too. JSON that is too deep is text as far as it was read, once.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from toolwire.text.block_items import CUT, MALFORMED, BlockItem, ReadState, section_ends, skip_broken
from toolwire.text.calls import misplaced_arguments
from toolwire.text.cursor import ReadSteps
from toolwire.text.json_text import parse_json, raw_fields, skip_value, split_items
from toolwire.text.python_text import parse_python, skip_python
from toolwire.text.rows import Row
from toolwire.text.values import dump_json
from toolwire.types import ToolCall

_CALL_KEYS = ("function", "type")


def begins(row: Row) -> tuple[str, ...]:
    """Give the marks that a call begins with."""
    return row.call[:1] if row.call else ("{", "[")


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read the object or the list that a mark begins."""
    row, cursor = state.row, state.cursor
    opening, begin = mark[-1], cursor.length - 1
    if row.many is False and opening == "[" and not row.list:
        return None
    bare = row.loose and not row.call
    if bare and opening == "[":
        found = yield state.find("object", "{", adjacent=True)
        if found.mark != "{":
            return None
        cursor.rewind_to(cursor.length - 1)
    if row.quotes == ("'",):
        end = yield from skip_python(opening)
    else:
        end = yield from skip_value(cursor, opening, _first_keys(row) if bare and opening == "{" else None)
    if end == "whole":
        heard = _heard_in(row, cursor.block_text()[begin:], opening)
        says = state.offer is not None or any(each.arguments is not None for each in heard)
        return heard if says or not bare else None
    if bare and end == "deep":
        return [BlockItem(cursor.block_text())]
    if bare and end == "malformed" and _name_in(row, cursor.block_text()) is None:
        return None
    cut = end == "cut" and not (opening == "[" and state.ends_with("]"))
    more = () if row.wrap is not None or opening == "[" else _first_marks(row)
    problem = yield from skip_broken(state, _ends(row), more)
    if problem == CUT and not cut and opening == "[" and "]" in cursor.block_text()[begin:]:
        cursor.rewind_to(cursor.block_text().rindex("]") + 1)
        problem = MALFORMED
    text = cursor.block_text()
    if opening == "[" and problem != CUT and not cut:
        return [heard for item, whole in _items(row, text[begin:]) for heard in item_of(row, item, whole)]
    return _broken(row, text, opening, problem)


def _first_marks(row: Row) -> tuple[str, ...]:
    """Give what the next object begins with, where objects stand one after the other."""
    return tuple(f'{{"{key}"' for key in row.keys[0].split("|"))


def _ends(row: Row) -> tuple[str, ...]:
    return tuple(section_ends(row).values())


def _first_keys(row: Row) -> frozenset[str]:
    return frozenset((*"|".join(row.keys).split("|"), *_CALL_KEYS))


def _heard_in(row: Row, text: str, opening: str) -> list[BlockItem]:
    if opening == "{":
        return list(item_of(row, text, True))
    if row.quotes:
        try:
            return [_object(row, item, repr(item)) for item in parse_python(text)]
        except ValueError:
            pass
    return [heard for item, whole in _items(row, text) for heard in item_of(row, item, whole)]


def _pythonic(row: Row, text: str) -> BlockItem:
    try:
        value = parse_python(text)
    except ValueError:
        return _broken(row, text, "{", MALFORMED)[0]
    return _object(row, value, text)


def _object(row: Row, value: Any, text: str) -> BlockItem:
    if type(value) is not dict:
        return BlockItem(text)
    name = next((value[key] for key in row.keys[0].split("|") if type(value.get(key)) is str), None)
    arguments: Any = next((value[key] for key in row.keys[1].split("|") if key in value), {})
    return BlockItem(text, name, arguments, None, _misplaced(row, value) if name is not None else "")


def item_of(row: Row, text: str, whole: bool) -> list[BlockItem]:
    """Read one object."""
    if row.quotes:
        return [_pythonic(row, text)]
    fields = raw_fields(text) if whole else None
    if fields is None:
        return _broken(row, text, "{", MALFORMED)
    if row.keys[0] == "*":
        if len(fields) != 1:
            return [BlockItem(text)]
        return [BlockItem(text, *next(iter(fields.items())))]
    if "name" not in fields and "function" in fields and fields["function"][:1] == "{":
        fields = {**fields, **(raw_fields(fields["function"]) or {})}
    name = _text_under(fields, row.keys[0])
    if name is None:
        return [BlockItem(text)]
    arguments: str | None = next((fields[key] for key in row.keys[1].split("|") if key in fields), None)
    if arguments is not None and arguments[:1] == '"':
        arguments = _text_under({"text": arguments}, "text")
    call_id = _text_under(fields, row.keys[2]) if len(row.keys) > 2 else None
    return [BlockItem(text, name, arguments, call_id, _misplaced(row, fields))]


def _misplaced(row: Row, fields: dict[str, Any]) -> str:
    """Say that there are no arguments, but something that may be them."""
    keys = row.keys[1].split("|")
    if any(key in fields for key in keys):
        return ""
    return misplaced_arguments(fields, keys, {"id", *_CALL_KEYS, *"|".join(row.keys).split("|")})


def _text_under(fields: dict[str, Any], keys: str) -> str | None:
    for key in keys.split("|"):
        if fields.get(key, "")[:1] == '"':
            try:
                return str(parse_json(fields[key]))
            except ValueError:
                return None
    return None


def _name_in(row: Row, text: str) -> str | None:
    """MarkSearch the name of a call that is no JSON."""
    if row.keys[0] == "*":
        found = re.search(r"""\{\s*["']([^"'\\\n]+)["']\s*:\s*\{""", text)
        return found[1] if found else None
    found = re.search(rf"""["'](?:{row.keys[0]})["']\s*:\s*["']([^"'\\\n]+)["']""", text)
    return found[1] if found else None


def _items(row: Row, text: str) -> list[tuple[str, bool]]:
    """Split a list that may be broken into its objects."""
    if row.keys[0] == "*":
        begin = r"""\{\s*"[^"]+"\s*:\s*\{"""
    else:
        begin = rf"""\{{\s*["'](?:{"|".join(_first_keys(row))})["']\s*:"""
    begins = re.compile(begin)
    if not row.quotes:
        return split_items(text, begins)
    places = [found.start() for found in begins.finditer(text)]
    items = [text[place:end].rstrip(" \n,") for place, end in pairwise([*places, len(text)])]
    return [(item.removesuffix("]") if item.endswith("}]") else item, True) for item in items]


def _broken(row: Row, text: str, opening: str, problem: str) -> list[BlockItem]:
    """Give the calls of a text that is no JSON, none of which can be run."""
    if opening == "{":
        return [BlockItem(text, _name_in(row, text), None, None, problem)]
    items = _items(row, text) or [(text, False)]
    return [BlockItem(item, _name_in(row, item), None, None, problem) for item, _ in items]


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Write calls: each as an object, or all as one list."""
    items = [_written(row, call, given, place) for place, (call, given) in enumerate(calls)]
    texts = [repr(item) if row.quotes else dump_json(item) for item in items]
    if row.list:
        inner = f"{row.between or ', '}".join(texts)
        return [f"{row.call[0] if row.call else '['}{inner}]"]
    return texts


def _written(row: Row, call: ToolCall, arguments: dict[str, Any], place: int) -> dict[str, Any]:
    if row.keys[0] == "*":
        return {call.name: arguments}
    name, given = row.keys[0].split("|")[0], row.keys[1].split("|")[0]
    item: dict[str, Any] = {}
    if row.call_id:
        item[row.call_id] = call.id if call.id is not None else str(place)
    return {**item, name: call.name, given: arguments}
