"""Calls in Python syntax: `[f(a=1), g()]`, or one call on each line between two marks.

Rules of this file:
- The calls of a list are complete when the list has ended. A call that cannot be parsed does not affect the others.
- A bracket that is not followed by a name and a parenthesis is text, at once.
- Arguments are keyword arguments. A positional argument is an error.
"""

import re
from collections.abc import Sequence
from typing import Any

from toolwire.text.block_items import CUT, MALFORMED, BlockItem, ReadState, section_ends, skip_broken
from toolwire.text.cursor import ReadSteps
from toolwire.text.python_text import parse_keywords, skip_python, split_calls
from toolwire.text.rows import Row
from toolwire.text.shapes import json_calls
from toolwire.types import ToolCall

_NAME = re.compile(r"[^\W\d][\w.\-/]*")


def begins(row: Row) -> tuple[str, ...]:
    """Return the marks that begin a call. In a section with one call on each line there are none."""
    return ("[",) if row.list else ()


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read a list of calls, or the lines of a section."""
    cursor = state.cursor
    if mark != "[":
        return (yield from _read_lines(state))
    begin = cursor.length
    hit = yield state.find("first", "(", "[", "]", "{", '"', "'", ",", "\n\n")
    if hit.mark in {"{", "]"} and not hit.before.strip():
        if hit.mark == "]" or state.row.loose:
            return None
        cursor.rewind_to(begin)
        return (yield from json_calls.read(state, "["))
    if hit.mark != "(" or _NAME.fullmatch(hit.before.strip()) is None:
        return None
    end = yield from _skip_rest()
    if end == "whole":
        return [_item_of(*call) for call in split_calls(cursor.block_text()[begin:-1])]
    if state.row.loose and not state.is_offered(state.resolve_name(hit.before.strip())):
        return None
    problem = yield from skip_broken(state, state.ends)
    text = cursor.block_text()[begin:]
    for closing in state.ends:
        text = text.removesuffix(closing)
    if text.rstrip().endswith("]") and (problem != CUT or state.whole):
        return [_item_of(name, part) for name, part in _parts(text)]
    return [_broken_item(name, part, problem) for name, part in _parts(text)]


def _skip_rest() -> ReadSteps:
    """Skip to the end of the list whose first call has begun."""
    end = yield from skip_python("(")
    return (yield from skip_python("[")) if end == "whole" else end


def _parts(text: str) -> list[tuple[str, str]]:
    parts = split_calls(text.strip().removesuffix("]"))
    return [(name or part.partition("(")[0].strip(), part) for name, part in parts]


def _item_of(name: str, part: str) -> BlockItem:
    if not name or _NAME.fullmatch(name) is None:
        return _broken_item(part.partition("(")[0].strip(), part, MALFORMED)
    try:
        return BlockItem(part, name, parse_keywords(part))
    except ValueError as problem:
        return BlockItem(part, name, None, None, f"arguments: {problem}")


def _broken_item(name: str, part: str, problem: str) -> BlockItem:
    return BlockItem(part, name if _NAME.fullmatch(name) else None, None, None, problem)


def _read_lines(state: ReadState) -> ReadSteps:
    """Read calls up to the end of their section. Each is complete with its closing parenthesis."""
    closing = next(iter(section_ends(state.row).values()))
    search = state.find("line", "(", closing, adjacent=False)
    items: list[BlockItem] = []
    while True:
        begin = state.cursor.length
        hit = yield search
        if hit.mark == closing or hit.end:
            text_left = hit.before.strip(" \t\r\n,")
            if text_left:
                items.append(BlockItem(text_left))
            state.cursor.rewind_to(state.cursor.length - len(hit.mark))
            return items or None
        end = yield from skip_python("(")
        text = state.cursor.block_text()[begin:].strip(" \t\r\n,")
        if end == "whole":
            items.append(_item_of(text.partition("(")[0].strip(), text))
            continue
        problem = yield from skip_broken(state, (closing,))
        text = state.cursor.block_text()[begin:].strip(" \t\r\n,")
        items.append(_broken_item(text.partition("(")[0].strip(), text, problem))
        return items


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Return calls: as one list, or one on each line."""
    texts = []
    for call, arguments in calls:
        texts.append(f"{call.name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})")
    return [f"[{', '.join(texts)}]"] if row.list else ["\n".join(texts)]
