"""Calls as Python writes them: `[f(a=1), g()]`, or one on each line between two marks.

Rules of this file:
- Calls in a list count when the list has ended. One that cannot be read does not take the others with it.
- A bracket that is not followed by a name and a bracket is text, at once.
- Arguments are given by name; one without a name is an error.
"""

import re
from collections.abc import Sequence
from typing import Any

from toolwire.text.cursor import Reading
from toolwire.text.heard import CUT, MALFORMED, Heard, Scene, end_broken, exits_of
from toolwire.text.python_text import calls_in, keywords_of, skim_python
from toolwire.text.rows import Row
from toolwire.text.shapes import json_calls
from toolwire.types import ToolCall

_NAME = re.compile(r"[^\W\d][\w.\-/]*")


def begins(row: Row) -> tuple[str, ...]:
    """Give the marks that a call begins with; where they stand in lines, any name may."""
    return ("[",) if row.list else ()


def read(scene: Scene, mark: str) -> Reading:
    """Read a list of calls, or the lines of a section."""
    cursor = scene.cursor
    if mark != "[":
        return (yield from _read_lines(scene))
    begin = cursor.length
    first = yield scene.find("first", "(", "[", "]", "{", '"', "'", ",", "\n\n")
    if first.mark in {"{", "]"} and not first.before.strip():
        if first.mark == "]" or scene.row.loose:
            return None
        cursor.give_back(begin)
        return (yield from json_calls.read(scene, "["))
    if first.mark != "(" or _NAME.fullmatch(first.before.strip()) is None:
        return None
    end = yield from _skim_rest()
    if end == "whole":
        return [_heard(*call) for call in calls_in(cursor.text()[begin:-1])]
    if scene.row.loose and not scene.is_offered(scene.known(first.before.strip())):
        return None
    problem = yield from end_broken(scene, scene.ends)
    text = cursor.text()[begin:]
    for closing in scene.ends:
        text = text.removesuffix(closing)
    if text.rstrip().endswith("]") and (problem != CUT or scene.whole):
        return [_heard(name, part) for name, part in _parts(text)]
    return [_unread(name, part, problem) for name, part in _parts(text)]


def _skim_rest() -> Reading:
    """Go to the end of the list whose first call has begun."""
    end = yield from skim_python("(")
    return (yield from skim_python("[")) if end == "whole" else end


def _parts(text: str) -> list[tuple[str, str]]:
    parts = calls_in(text.strip().removesuffix("]"))
    return [(name or part.partition("(")[0].strip(), part) for name, part in parts]


def _heard(name: str, part: str) -> Heard:
    if not name or _NAME.fullmatch(name) is None:
        return _unread(part.partition("(")[0].strip(), part, MALFORMED)
    try:
        return Heard(part, name, keywords_of(part))
    except ValueError as problem:
        return Heard(part, name, None, None, f"arguments: {problem}")


def _unread(name: str, part: str, problem: str) -> Heard:
    return Heard(part, name if _NAME.fullmatch(name) else None, None, None, problem)


def _read_lines(scene: Scene) -> Reading:
    """Read calls until the end of their section; each counts with its bracket."""
    closing = next(iter(exits_of(scene.row).values()))
    wanted = scene.find("line", "(", closing, near=False)
    heard: list[Heard] = []
    while True:
        begin = scene.cursor.length
        found = yield wanted
        if found.mark == closing or found.end:
            rest = found.before.strip(" \t\r\n,")
            if rest:
                heard.append(Heard(rest))
            scene.cursor.give_back(scene.cursor.length - len(found.mark))
            return heard or None
        end = yield from skim_python("(")
        text = scene.cursor.text()[begin:].strip(" \t\r\n,")
        if end == "whole":
            heard.append(_heard(text.partition("(")[0].strip(), text))
            continue
        problem = yield from end_broken(scene, (closing,))
        text = scene.cursor.text()[begin:].strip(" \t\r\n,")
        heard.append(_unread(text.partition("(")[0].strip(), text, problem))
        return heard


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Write calls: as a list, or a line each."""
    texts = []
    for call, given in calls:
        texts.append(f"{call.name}({', '.join(f'{key}={value!r}' for key, value in given.items())})")
    return [f"[{', '.join(texts)}]"] if row.list else ["\n".join(texts)]
