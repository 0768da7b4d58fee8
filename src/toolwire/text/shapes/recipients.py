"""Messages that begin with their recipient on a line of its own: a tool, or `all` for text.

Rules of this file:
- The prompt ends with the mark before a recipient, so a text may begin with the recipient itself.
- A recipient is a tool if an object follows its line. A call is complete with the end of its object.
- A message to a tool that was not offered is text, with its mark. So is a mark without a recipient.
"""

from collections.abc import Sequence
from typing import Any

from toolwire.text.block_items import CUT, MALFORMED, BlockItem
from toolwire.text.cursor import MarkSearch, PatternSearch, ReadSteps
from toolwire.text.json_text import skip_object
from toolwire.text.rows import Row
from toolwire.text.values import dump_json
from toolwire.types import ToolCall

_MARK, _ALL = ">>>", "all"
_FIRST = MarkSearch((_MARK,), adjacent=True)
_OUTSIDE = MarkSearch((_MARK,), streams_text=True)
_NEXT = MarkSearch((_MARK,))
_AFTER_NAME = PatternSearch(r"[\s{>]")
_OBJECT = MarkSearch("{", adjacent=True)


def begins(row: Row) -> tuple[str, ...]:
    """Return the mark that begins a message."""
    del row
    return (_MARK,)


def run(stream: Any) -> ReadSteps:
    """Read messages until the text ends."""
    cursor = stream.cursor
    cursor.begin_block("")
    first = yield _FIRST
    if not first.mark:
        cursor.rewind_to(0)
    yield from _read_message(stream, first.mark)
    while True:
        hit = yield _OUTSIDE
        if hit.end:
            return
        cursor.begin_block(hit.mark)
        yield from _read_message(stream, hit.mark)


def _read_message(stream: Any, mark: str) -> ReadSteps:
    """Read a recipient, and its object if it is a tool. Other text is read again as text."""
    cursor = stream.cursor
    start = cursor.length
    hit = yield _AFTER_NAME
    if hit.mark == "\n" and hit.before == _ALL:
        return
    name, brace = hit.before, hit
    if name and hit.mark in {"\n", "\r"}:
        brace = yield _OBJECT
    if name and brace.mark == "{":
        yield from _read_call(stream, name)
        return
    if hit.end and not name and mark:
        return
    cursor.rewind_to(start)
    stream.collector.add_text(cursor.block_text())


def _read_call(stream: Any, name: str) -> ReadSteps:
    cursor = stream.cursor
    text, end = yield from skip_object(cursor)
    if end != "whole":
        hit = yield _NEXT
        if hit.mark:
            cursor.rewind_to(cursor.length - len(hit.mark))
    block = cursor.block_text()
    problem = {"whole": "", "cut": CUT}.get(end, MALFORMED)
    stream.add_items([BlockItem(block, name, text, None, problem)], block)


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Return calls, each as a message."""
    del row
    return [f"{_MARK}{call.name}\n{dump_json(arguments)}" for call, arguments in calls]


def write_text(text: str) -> str:
    """Return text as a message of its own."""
    return f"{_MARK}{_ALL}\n{text}"
