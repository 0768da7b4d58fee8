"""Harmony messages: a header names the recipient, which is a tool, the user, or nobody (for a thought).

Rules of this file:
- Models stop at the mark after a call, so it may be missing. A call is complete with the end of its object.
- A prompt ends in `<|start|>assistant`, so a text may begin inside of a header: with its role, with its recipient, or
  with its channel.
- A recipient without the namespace `functions.` is a tool of harmony's own, such as `python`. Its message, and that of
  a custom tool, may be raw text: it is the only text parameter of the tool, and ends with the message.
- A message to a tool that was not offered is text, with its header. If gpt-oss was trained with the tool, the message
  is a broken call (https://github.com/openai/harmony, docs/format.md). Text outside of messages is text.
"""

import re
from collections.abc import Sequence
from typing import Any

from toolwire.text.block_items import CUT, MALFORMED, BlockItem, ReadState
from toolwire.text.cursor import MarkSearch, PatternSearch, ReadSteps
from toolwire.text.json_text import raw_fields, skip_object
from toolwire.text.rows import Row
from toolwire.text.values import allowed_types, dump_json, property_schemas
from toolwire.types import Text, ToolCall

_START, _CHANNEL, _MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_ROLE, _TO, _CONSTRAIN = "assistant", "to=", "<|constrain|>"
_FIRST = MarkSearch((_ROLE, _TO), adjacent=True)
_AFTER_ROLE = MarkSearch((_TO, _CHANNEL, _MESSAGE, _CONSTRAIN), adjacent=True)
_AFTER_NAME = PatternSearch(r"[\s<]")
_AFTER_RECIPIENT = MarkSearch((_CHANNEL, _MESSAGE, _CONSTRAIN, "json", "code"), adjacent=True)
_OUTSIDE = MarkSearch((_START, _CHANNEL, *_ENDS), streams_text=True)
_HEAD = MarkSearch((_MESSAGE, _START, *_ENDS))
_BODY = MarkSearch((*_ENDS, _START, _CHANNEL), streams_text=True)
_OBJECT = MarkSearch(("{", *_ENDS, _START, _CHANNEL), adjacent=True)
_REST = MarkSearch((*_ENDS, _START, _CHANNEL))
_AFTER = MarkSearch((*_ENDS, _START, _CHANNEL), adjacent=True)
_RECIPIENT = re.compile(r"(?:^|[\s>])to=(\S+?)(?=<\||\s|\Z)")
_NAMESPACE = "functions."
_TRAINED_TOOL = re.compile(r"python|browser\.\w+|container\.\w+")
_NOT_OFFERED = "the tool was not offered; its messages have no namespace `functions.`, so it is one of the model's own"
_UNUSED = re.compile(r"<\|start\|>\s*(?:assistant\s*)?(?:<\|channel\|>\s*\w*)?|<\|channel\|>\s*\w*")
_ANALYSIS = re.compile(r"(?:^|\s|>)analysis\b")


def begins(row: Row) -> tuple[str, ...]:
    """Return the marks that begin a message."""
    del row
    return (_START, _CHANNEL)


def run(stream: Any) -> ReadSteps:
    """Read messages until the text ends."""
    cursor, collector = stream.cursor, stream.collector
    yield from _read_first(stream)
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


def _read_first(stream: Any) -> ReadSteps:
    """Read the message whose header began in the prompt. Other text is read again as usual."""
    cursor = stream.cursor
    cursor.begin_block("")
    hit = yield _FIRST
    if hit.mark == _ROLE:
        hit = yield _AFTER_ROLE
    if hit.mark == _TO:
        name = yield _AFTER_NAME
        if name.mark:
            cursor.rewind_to(cursor.length - 1)
        hit = (yield _AFTER_RECIPIENT) if name.mark and name.before else name
    if not hit.mark or hit.mark in {_ROLE, _TO}:
        cursor.rewind_to(0)
        return
    cursor.rewind_to(cursor.length - len(hit.mark))
    yield from _read_header(stream)


def _read_message(stream: Any, mark: str) -> ReadSteps:
    stream.cursor.begin_block(mark)
    yield from _read_header(stream)


def _read_header(stream: Any) -> ReadSteps:
    """Read the header of a message up to its end, and then the message."""
    cursor, collector = stream.cursor, stream.collector
    end = yield _HEAD
    header = cursor.block_text().removesuffix(end.mark)
    recipient = _RECIPIENT.search(header)
    name = recipient[1] if recipient is not None and recipient[1] not in {"user", "assistant", "self"} else ""
    if end.mark != _MESSAGE:
        if end.mark:
            cursor.rewind_to(cursor.length - len(end.mark))
        block = cursor.block_text()
        if end.end and _UNUSED.fullmatch(block) is not None:
            return
        is_cut = end.end and recipient is not None and recipient.end() < len(header)
        stream.add_items([BlockItem(block, name or None, None, None, CUT) if is_cut else BlockItem(block)], block)
        return
    if name:
        yield from _read_call(stream, name)
        return
    stream.set_text_handler(collector.add_thought if _ANALYSIS.search(header) else collector.add_text)
    cursor.begin_block("")
    hit = yield _BODY
    stream.set_text_handler(collector.add_text)
    collector.end_part()
    if hit.mark in {_START, _CHANNEL}:
        cursor.begin_block(hit.mark)
        cursor.rewind_to(0)


def _raw_parameter(state: ReadState, name: str) -> str | None:
    """Return the parameter that is the raw text of a message to the tool `name`, or None if the message is JSON."""
    tool = state.tool(state.resolve_name(name))
    if tool is None or (name.startswith(_NAMESPACE) and not tool.custom):
        return None
    if tool.custom:
        return "input"
    schema = tool.parameters or {}
    properties = property_schemas(schema, schema)
    is_text = len(properties) == 1 and allowed_types(next(iter(properties.values())), schema) <= {"string"}
    return next(iter(properties)) if is_text else None


def _read_raw(stream: Any, name: str, parameter: str) -> ReadSteps:
    """Read a message of raw text. A text that begins like an object is JSON, unless the tool is custom."""
    hit = yield from _read_rest(stream)
    tool, text = stream.state.tool(stream.state.resolve_name(name)), hit.before.strip()
    is_json = text[:1] == "{" and (not tool.custom or (raw_fields(text) or {}).keys() == {parameter})
    arguments = hit.before if is_json else {parameter: hit.before}
    block = stream.cursor.block_text()
    problem = CUT if hit.end and not stream.whole else ""
    stream.add_items([BlockItem(block, name, arguments, None, problem)], block)


def _read_rest(stream: Any) -> ReadSteps:
    """Read up to the end of the message. Return the hit."""
    hit = yield _REST
    if hit.mark in {_START, _CHANNEL}:
        stream.cursor.rewind_to(stream.cursor.length - len(hit.mark))
    return hit


def _read_unoffered(stream: Any, name: str) -> ReadSteps:
    """Read a message to a tool of the model's own that was not offered: a call that cannot run."""
    yield from _read_rest(stream)
    block = stream.cursor.block_text()
    if stream.given.contains(block):
        stream.collector.add_text(block)
        return
    error = stream.collector.builder.make_error("unknown_tool", _NOT_OFFERED, block, name)
    stream.collector.add_call(error.as_call())


def _read_call(stream: Any, name: str) -> ReadSteps:
    cursor, state = stream.cursor, stream.state
    if _TRAINED_TOOL.fullmatch(name) is not None and not state.is_offered(name):
        yield from _read_unoffered(stream, name)
        return
    parameter = _raw_parameter(state, name)
    if parameter is not None:
        yield from _read_raw(stream, name, parameter)
        return
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
