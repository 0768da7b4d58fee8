"""Calls as JSON objects: one after a mark, several in a list, or without any mark.

Rules of this file:
- A call is complete with the end of its object, and in a list with the end of the list. Marks around it may be missing.
- A malformed object in a list does not affect the others.
- Without a mark, only JSON that begins like a call is read. Other JSON is text at once. If any name may be called, JSON
  without arguments is text too. JSON that is nested too deeply is text, as far as it was read.
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
    """Return the marks that begin a call."""
    return row.call[:1] if row.call else ("{", "[")


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read the object or the list that begins with `mark`."""
    row, cursor = state.row, state.cursor
    opening, begin = mark[-1], cursor.length - 1
    if row.many is False and opening == "[" and not row.list:
        return None
    is_unmarked = row.loose and not row.call
    if is_unmarked and opening == "[":
        hit = yield state.find("object", "{", adjacent=True)
        if hit.mark != "{":
            return None
        cursor.rewind_to(cursor.length - 1)
    if row.quotes == ("'",):
        end = yield from skip_python(opening)
    else:
        end = yield from skip_value(cursor, opening, _first_keys(row) if is_unmarked and opening == "{" else None)
    if end == "whole":
        items = _items_of(row, cursor.block_text()[begin:], opening)
        has_calls = state.offer is not None or any(each.arguments is not None for each in items)
        return items if has_calls or not is_unmarked else None
    if is_unmarked and end == "deep":
        return [BlockItem(cursor.block_text())]
    if is_unmarked and end == "malformed" and _name_in(row, cursor.block_text()) is None:
        return None
    is_cut = end == "cut" and not (opening == "[" and state.ends_with("]"))
    next_begins = () if row.wrap is not None or opening == "[" else _first_marks(row)
    problem = yield from skip_broken(state, _ends(row), next_begins)
    if problem == CUT and not is_cut and opening == "[" and "]" in cursor.block_text()[begin:]:
        cursor.rewind_to(cursor.block_text().rindex("]") + 1)
        problem = MALFORMED
    text = cursor.block_text()
    if opening == "[" and problem != CUT and not is_cut:
        return [
            each for item, is_complete in _split_list(row, text[begin:]) for each in item_of(row, item, is_complete)
        ]
    return _broken_items(row, text, opening, problem)


def _first_marks(row: Row) -> tuple[str, ...]:
    """Return the beginnings of the next object, for objects that follow each other."""
    return tuple(f'{{"{key}"' for key in row.keys[0].split("|"))


def _ends(row: Row) -> tuple[str, ...]:
    return tuple(section_ends(row).values())


def _first_keys(row: Row) -> frozenset[str]:
    return frozenset((*"|".join(row.keys).split("|"), *_CALL_KEYS))


def _items_of(row: Row, text: str, opening: str) -> list[BlockItem]:
    if opening == "{":
        return list(item_of(row, text, True))
    if row.quotes:
        try:
            return [_item_from(row, item, repr(item)) for item in parse_python(text)]
        except ValueError:
            pass
    return [each for item, is_complete in _split_list(row, text) for each in item_of(row, item, is_complete)]


def _python_item(row: Row, text: str) -> BlockItem:
    try:
        value = parse_python(text)
    except ValueError:
        return _broken_items(row, text, "{", MALFORMED)[0]
    return _item_from(row, value, text)


def _item_from(row: Row, value: Any, text: str) -> BlockItem:
    if type(value) is not dict:
        return BlockItem(text)
    name = next((value[key] for key in row.keys[0].split("|") if type(value.get(key)) is str), None)
    arguments: Any = next((value[key] for key in row.keys[1].split("|") if key in value), {})
    return BlockItem(text, name, arguments, None, _misplaced(row, value) if name is not None else "")


def item_of(row: Row, text: str, is_complete: bool) -> list[BlockItem]:
    """Return the items of one object: a call, or its text if it is not a call."""
    if row.quotes:
        return [_python_item(row, text)]
    fields = raw_fields(text) if is_complete else None
    if fields is None:
        return _broken_items(row, text, "{", MALFORMED)
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
    """Return a message if the arguments are missing and an unknown key may hold them."""
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
    """Return the name of a call in malformed JSON, or None."""
    if row.keys[0] == "*":
        match = re.search(r"""\{\s*["']([^"'\\\n]+)["']\s*:\s*\{""", text)
        return match[1] if match else None
    match = re.search(rf"""["'](?:{row.keys[0]})["']\s*:\s*["']([^"'\\\n]+)["']""", text)
    return match[1] if match else None


def _split_list(row: Row, text: str) -> list[tuple[str, bool]]:
    """Split a list, which may be malformed, into its objects."""
    if row.keys[0] == "*":
        pattern = r"""\{\s*"[^"]+"\s*:\s*\{"""
    else:
        pattern = rf"""\{{\s*["'](?:{"|".join(_first_keys(row))})["']\s*:"""
    object_start = re.compile(pattern)
    if not row.quotes:
        return split_items(text, object_start)
    starts = [match.start() for match in object_start.finditer(text)]
    items = [text[start:end].rstrip(" \n,") for start, end in pairwise([*starts, len(text)])]
    return [(item.removesuffix("]") if item.endswith("}]") else item, True) for item in items]


def _broken_items(row: Row, text: str, opening: str, problem: str) -> list[BlockItem]:
    """Return the calls of a text that is not valid JSON. None of them can run."""
    if opening == "{":
        return [BlockItem(text, _name_in(row, text), None, None, problem)]
    items = _split_list(row, text) or [(text, False)]
    return [BlockItem(item, _name_in(row, item), None, None, problem) for item, _ in items]


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Return calls: each as an object, or all of them as one list."""
    items = [_fields_of_call(row, call, arguments, index) for index, (call, arguments) in enumerate(calls)]
    texts = [repr(item) if row.quotes else dump_json(item) for item in items]
    if row.list:
        inner = f"{row.between or ', '}".join(texts)
        return [f"{row.call[0] if row.call else '['}{inner}]"]
    return texts


def _fields_of_call(row: Row, call: ToolCall, arguments: dict[str, Any], index: int) -> dict[str, Any]:
    if row.keys[0] == "*":
        return {call.name: arguments}
    name_key, arguments_key = row.keys[0].split("|")[0], row.keys[1].split("|")[0]
    item: dict[str, Any] = {}
    if row.call_id:
        item[row.call_id] = call.id if call.id is not None else str(index)
    return {**item, name_key: call.name, arguments_key: arguments}
