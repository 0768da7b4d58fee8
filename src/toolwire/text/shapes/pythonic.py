"""Calls as Python writes them: `[f(a=1), g()]`, or one on each line between two marks.

Rules of this file:
- Calls in a list count when the list has ended. One that cannot be read does not take the others with it.
- A bracket that is not followed by a name and a bracket is text, at once.
- Arguments are given by name; one without a name is an error.
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
    """Give the marks that a call begins with; where they stand in lines, any name may."""
    return ("[",) if row.list else ()


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read a list of calls, or the lines of a section."""
    cursor = state.cursor
    if mark != "[":
        return (yield from _read_lines(state))
    begin = cursor.length
    first = yield state.find("first", "(", "[", "]", "{", '"', "'", ",", "\n\n")
    if first.mark in {"{", "]"} and not first.before.strip():
        if first.mark == "]" or state.row.loose:
            return None
        cursor.rewind_to(begin)
        return (yield from json_calls.read(state, "["))
    if first.mark != "(" or _NAME.fullmatch(first.before.strip()) is None:
        return None
    end = yield from _skim_rest()
    if end == "whole":
        return [_heard(*call) for call in split_calls(cursor.block_text()[begin:-1])]
    if state.row.loose and not state.is_offered(state.resolve_name(first.before.strip())):
        return None
    problem = yield from skip_broken(state, state.ends)
    text = cursor.block_text()[begin:]
    for closing in state.ends:
        text = text.removesuffix(closing)
    if text.rstrip().endswith("]") and (problem != CUT or state.whole):
        return [_heard(name, part) for name, part in _parts(text)]
    return [_unread(name, part, problem) for name, part in _parts(text)]


def _skim_rest() -> ReadSteps:
    """Go to the end of the list whose first call has begun."""
    end = yield from skip_python("(")
    return (yield from skip_python("[")) if end == "whole" else end


def _parts(text: str) -> list[tuple[str, str]]:
    parts = split_calls(text.strip().removesuffix("]"))
    return [(name or part.partition("(")[0].strip(), part) for name, part in parts]


def _heard(name: str, part: str) -> BlockItem:
    if not name or _NAME.fullmatch(name) is None:
        return _unread(part.partition("(")[0].strip(), part, MALFORMED)
    try:
        return BlockItem(part, name, parse_keywords(part))
    except ValueError as problem:
        return BlockItem(part, name, None, None, f"arguments: {problem}")


def _unread(name: str, part: str, problem: str) -> BlockItem:
    return BlockItem(part, name if _NAME.fullmatch(name) else None, None, None, problem)


def _read_lines(state: ReadState) -> ReadSteps:
    """Read calls until the end of their section; each counts with its bracket."""
    closing = next(iter(section_ends(state.row).values()))
    wanted = state.find("line", "(", closing, adjacent=False)
    heard: list[BlockItem] = []
    while True:
        begin = state.cursor.length
        found = yield wanted
        if found.mark == closing or found.end:
            rest = found.before.strip(" \t\r\n,")
            if rest:
                heard.append(BlockItem(rest))
            state.cursor.rewind_to(state.cursor.length - len(found.mark))
            return heard or None
        end = yield from skip_python("(")
        text = state.cursor.block_text()[begin:].strip(" \t\r\n,")
        if end == "whole":
            heard.append(_heard(text.partition("(")[0].strip(), text))
            continue
        problem = yield from skip_broken(state, (closing,))
        text = state.cursor.block_text()[begin:].strip(" \t\r\n,")
        heard.append(_unread(text.partition("(")[0].strip(), text, problem))
        return heard


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Write calls: as a list, or a line each."""
    texts = []
    for call, given in calls:
        texts.append(f"{call.name}({', '.join(f'{key}={value!r}' for key, value in given.items())})")
    return [f"[{', '.join(texts)}]"] if row.list else ["\n".join(texts)]
