"""Messages that say in their head for whom they are: a tool, the user, or nobody, which is a thought.

Rules of this file:
- The mark after a call is where the model stops, so it may be missing: a call counts with the end of its object.
- A message for a tool that was not offered is words, with its head. What stands outside of messages is words.
"""

import re
from collections.abc import Sequence
from typing import Any

from toolwire.text.cursor import Find, Reading
from toolwire.text.heard import CUT, MALFORMED, Heard
from toolwire.text.json_text import skim_object
from toolwire.text.rows import Row
from toolwire.text.values import json_of
from toolwire.types import Text, ToolCall

_START, _CHANNEL, _MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_OUTSIDE = Find((_START, _CHANNEL, *_ENDS), tells=True)
_HEAD = Find((_MESSAGE, _START, *_ENDS))
_BODY = Find((*_ENDS, _START, _CHANNEL), tells=True)
_OBJECT = Find(("{", *_ENDS, _START, _CHANNEL), near=True)
_REST = Find((*_ENDS, _START, _CHANNEL))
_AFTER = Find((*_ENDS, _START, _CHANNEL), near=True)
_TO = re.compile(r"(?:^|[\s>])to=(\S+?)(?=<\||\s|\Z)")
_THOUGHT = re.compile(r"(?:^|\s|>)analysis\b")


def begins(row: Row) -> tuple[str, ...]:
    """Give the marks that a message begins with."""
    del row
    return (_START, _CHANNEL)


def run(stream: Any) -> Reading:
    """Read messages until the text ends."""
    cursor, teller = stream.cursor, stream.teller
    while True:
        cursor.begin("")
        found = yield _AFTER
        if found.end:
            return
        if found.mark in _ENDS:
            continue
        if not found.mark:
            teller.say(found.before)
            found = yield _OUTSIDE
            if found.end:
                return
            if found.mark in _ENDS:
                teller.say(found.mark)
                continue
        yield from _read_message(stream, found.mark)


def _read_message(stream: Any, mark: str) -> Reading:
    cursor, teller = stream.cursor, stream.teller
    cursor.begin(mark)
    head = yield _HEAD
    if head.mark != _MESSAGE:
        if head.mark:
            cursor.give_back(cursor.length - len(head.mark))
        teller.say(cursor.text())
        return
    to = _TO.search(head.before)
    if to is not None and to[1].strip() not in {"user", "assistant", "self"}:
        yield from _read_call(stream, to[1])
        return
    stream.tells(teller.think if _THOUGHT.search(head.before) else teller.say)
    cursor.begin("")
    found = yield _BODY
    stream.tells(teller.say)
    teller.end_part()
    if found.mark in {_START, _CHANNEL}:
        cursor.begin(found.mark)
        cursor.give_back(0)


def _read_call(stream: Any, name: str) -> Reading:
    cursor = stream.cursor
    found = yield _OBJECT
    heard = Heard("", name)
    if found.mark == "{":
        text, end = yield from skim_object(cursor)
        heard = Heard("", name, text, None, {"whole": "", "cut": CUT}.get(end, MALFORMED))
        found = yield _AFTER if end == "whole" else _REST
    elif not found.mark:
        found = yield _REST
        words = found.before.strip()
        heard = Heard("", name, None, None, (CUT if found.end else MALFORMED) if words or found.end else "")
    elif found.end:
        heard = Heard("", name, None, None, CUT)
    if found.mark in {_START, _CHANNEL}:
        cursor.give_back(cursor.length - len(found.mark))
    block = cursor.text()
    stream.tell_heard([Heard(block, heard.name, heard.arguments, None, heard.problem)], block)


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Write calls, a message each."""
    return [f"{row.call[0]}{call.name}{row.call[1]}{json_of(given)}{row.call[2]}" for call, given in calls]


def write_words(kind: type, text: str) -> str:
    """Write words or a thought as a message of their own."""
    channel = "final" if kind is Text else "analysis"
    return f"{_CHANNEL}{channel}{_MESSAGE}{text}{_ENDS[0]}"
