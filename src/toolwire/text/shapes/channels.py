"""Harmony messages: a header names the recipient, which is a tool, the user, or nobody (for a thought).

Rules of this file:
- Models stop at the mark after a call, so it may be missing. A call is complete with the end of its object.
- A message to a tool that was not offered is text, with its header. Text outside of messages is text.
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
_RECIPIENT = re.compile(r"(?:^|[\s>])to=(\S+?)(?=<\||\s|\Z)")
_ANALYSIS = re.compile(r"(?:^|\s|>)analysis\b")


def begins(row: Row) -> tuple[str, ...]:
    """Return the marks that begin a message."""
    del row
    return (_START, _CHANNEL)


def run(stream: Any) -> ReadSteps:
    """Read messages until the text ends."""
    cursor, collector = stream.cursor, stream.collector
    while True:
        cursor.begin_block("")
        hit = yield _AFTER
        if hit.end:
            return
        if hit.mark in _ENDS:
            continue
        if not hit.mark:
            collector.add_text(hit.before)
            hit = yield _OUTSIDE
            if hit.end:
                return
            if hit.mark in _ENDS:
                collector.add_text(hit.mark)
                continue
        yield from _read_message(stream, hit.mark)


def _read_message(stream: Any, mark: str) -> ReadSteps:
    cursor, collector = stream.cursor, stream.collector
    cursor.begin_block(mark)
    head = yield _HEAD
    if head.mark != _MESSAGE:
        if head.mark:
            cursor.rewind_to(cursor.length - len(head.mark))
        collector.add_text(cursor.block_text())
        return
    recipient = _RECIPIENT.search(head.before)
    if recipient is not None and recipient[1].strip() not in {"user", "assistant", "self"}:
        yield from _read_call(stream, recipient[1])
        return
    stream.set_text_handler(collector.add_thought if _ANALYSIS.search(head.before) else collector.add_text)
    cursor.begin_block("")
    hit = yield _BODY
    stream.set_text_handler(collector.add_text)
    collector.end_part()
    if hit.mark in {_START, _CHANNEL}:
        cursor.begin_block(hit.mark)
        cursor.rewind_to(0)


def _read_call(stream: Any, name: str) -> ReadSteps:
    cursor = stream.cursor
    hit = yield _OBJECT
    item = BlockItem("", name)
    if hit.mark == "{":
        text, end = yield from skip_object(cursor)
        item = BlockItem("", name, text, None, {"whole": "", "cut": CUT}.get(end, MALFORMED))
        hit = yield _AFTER if end == "whole" else _REST
    elif not hit.mark:
        hit = yield _REST
        text_before = hit.before.strip()
        item = BlockItem("", name, None, None, (CUT if hit.end else MALFORMED) if text_before or hit.end else "")
    elif hit.end:
        item = BlockItem("", name, None, None, CUT)
    if hit.mark in {_START, _CHANNEL}:
        cursor.rewind_to(cursor.length - len(hit.mark))
    block = cursor.block_text()
    stream.add_items([BlockItem(block, item.name, item.arguments, None, item.problem)], block)


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Return calls, each as a message."""
    return [f"{row.call[0]}{call.name}{row.call[1]}{dump_json(arguments)}{row.call[2]}" for call, arguments in calls]


def write_message(part_type: type, text: str) -> str:
    """Return text or a thought as a message of its own."""
    channel = "final" if part_type is Text else "analysis"
    return f"{_CHANNEL}{channel}{_MESSAGE}{text}{_ENDS[0]}"
