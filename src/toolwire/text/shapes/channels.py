"""Messages that say in their head for whom they are: a tool, the user, or nobody, which is a thought.

Rules of this file:
- The mark after a call is where the model stops, so it may be missing: a call counts with the end of its object.
- A message for a tool that was not offered is words, with its head. What stands outside of messages is words.
"""

import re
from collections.abc import Sequence
from typing import Any

from toolwire.text.block_items import CUT, MALFORMED, BlockItem
from toolwire.text.cursor import MarkSearch, ReadSteps
from toolwire.text.json_text import skip_object
from toolwire.text.rows import Row
from toolwire.text.values import dump_json
from toolwire.types import Text, ToolCall

_START, _CHANNEL, _MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_OUTSIDE = MarkSearch((_START, _CHANNEL, *_ENDS), streams_text=True)
_HEAD = MarkSearch((_MESSAGE, _START, *_ENDS))
_BODY = MarkSearch((*_ENDS, _START, _CHANNEL), streams_text=True)
_OBJECT = MarkSearch(("{", *_ENDS, _START, _CHANNEL), adjacent=True)
_REST = MarkSearch((*_ENDS, _START, _CHANNEL))
_AFTER = MarkSearch((*_ENDS, _START, _CHANNEL), adjacent=True)
_TO = re.compile(r"(?:^|[\s>])to=(\S+?)(?=<\||\s|\Z)")
_THOUGHT = re.compile(r"(?:^|\s|>)analysis\b")


def begins(row: Row) -> tuple[str, ...]:
    """Give the marks that a message begins with."""
    del row
    return (_START, _CHANNEL)


def run(stream: Any) -> ReadSteps:
    """Read messages until the text ends."""
    cursor, collector = stream.cursor, stream.collector
    while True:
        cursor.begin_block("")
        found = yield _AFTER
        if found.end:
            return
        if found.mark in _ENDS:
            continue
        if not found.mark:
            collector.add_text(found.before)
            found = yield _OUTSIDE
            if found.end:
                return
            if found.mark in _ENDS:
                collector.add_text(found.mark)
                continue
        yield from _read_message(stream, found.mark)


def _read_message(stream: Any, mark: str) -> ReadSteps:
    cursor, collector = stream.cursor, stream.collector
    cursor.begin_block(mark)
    head = yield _HEAD
    if head.mark != _MESSAGE:
        if head.mark:
            cursor.rewind_to(cursor.length - len(head.mark))
        collector.add_text(cursor.block_text())
        return
    to = _TO.search(head.before)
    if to is not None and to[1].strip() not in {"user", "assistant", "self"}:
        yield from _read_call(stream, to[1])
        return
    stream.set_text_handler(collector.add_thought if _THOUGHT.search(head.before) else collector.add_text)
    cursor.begin_block("")
    found = yield _BODY
    stream.set_text_handler(collector.add_text)
    collector.end_part()
    if found.mark in {_START, _CHANNEL}:
        cursor.begin_block(found.mark)
        cursor.rewind_to(0)


def _read_call(stream: Any, name: str) -> ReadSteps:
    cursor = stream.cursor
    found = yield _OBJECT
    heard = BlockItem("", name)
    if found.mark == "{":
        text, end = yield from skip_object(cursor)
        heard = BlockItem("", name, text, None, {"whole": "", "cut": CUT}.get(end, MALFORMED))
        found = yield _AFTER if end == "whole" else _REST
    elif not found.mark:
        found = yield _REST
        words = found.before.strip()
        heard = BlockItem("", name, None, None, (CUT if found.end else MALFORMED) if words or found.end else "")
    elif found.end:
        heard = BlockItem("", name, None, None, CUT)
    if found.mark in {_START, _CHANNEL}:
        cursor.rewind_to(cursor.length - len(found.mark))
    block = cursor.block_text()
    stream.add_items([BlockItem(block, heard.name, heard.arguments, None, heard.problem)], block)


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Write calls, a message each."""
    return [f"{row.call[0]}{call.name}{row.call[1]}{dump_json(given)}{row.call[2]}" for call, given in calls]


def write_words(kind: type, text: str) -> str:
    """Write words or a thought as a message of their own."""
    channel = "final" if kind is Text else "analysis"
    return f"{_CHANNEL}{channel}{_MESSAGE}{text}{_ENDS[0]}"
