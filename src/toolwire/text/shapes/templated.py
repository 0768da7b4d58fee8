"""A format that a Hugging Face `response_template` describes: regions with begin and end marks, and a parser for each.

Rules of this file:
- The fields `thinking`, `content` and `tool_calls` are read. Any other field, and text outside of all regions, is text.
- The opening of a region is found by its literal beginning. A call is complete when its region has closed, or, if it is
  JSON, with the end of the JSON.
- The rules were read in vLLM's copy of the reference reader (parser/chat_parsing, 994d819), 2026-11-22.
"""

import re
from collections.abc import Sequence
from typing import Any

from toolwire.text.block_items import CUT, MALFORMED, BlockItem
from toolwire.text.calls import misplaced_arguments
from toolwire.text.cursor import MarkSearch, ReadSteps
from toolwire.text.json_text import parse_json, skip_value
from toolwire.text.rows import Row
from toolwire.text.shapes.braces import parse_bare
from toolwire.text.values import dump_json, parse_by_schema, property_schemas
from toolwire.types import ToolCall

_META = re.compile(r"\\([^\w\s])|([^\\\[\](){}.*+?^$|])")
_ARGUMENTS = ("arguments", "parameters")
_HOLE = re.compile(r"\{(\w+(?:\.\w+)*)\}")


def begins(row: Row) -> tuple[str, ...]:
    """Return no marks: the template has its own."""
    del row
    return ()


class _Region:
    """One field of a template: its marks, and how its text is parsed."""

    def __init__(self, name: str, field: dict[str, Any]) -> None:
        self.name: str = name
        self.field: dict[str, Any] = field
        self.opens = _literals(field, "open")
        self.closes = _literals(field, "close")
        self.pattern = re.compile(field["open_pattern"], re.DOTALL) if "open_pattern" in field else None
        self.is_json = field.get("content") == "json" and not field.get("content_args")


def _literals(field: dict[str, Any], key: str) -> tuple[str, ...]:
    """Return the marks of `open` or `close`. For a pattern, return its literal beginning."""
    literal = field.get(key)
    if literal is not None:
        return tuple(literal) if isinstance(literal, list) else (literal,)
    pattern, index, prefix = field.get(f"{key}_pattern", ""), 0, ""
    while (match := _META.match(pattern, index)) is not None and pattern[match.end() : match.end() + 1] not in set(
        "*?{+"
    ):
        prefix, index = prefix + (match[1] or match[2]), match.end()
    return (prefix,) if prefix else ()


def run(stream: Any) -> ReadSteps:
    """Read regions until the text ends."""
    template: dict[str, Any] = stream.marks.row.template or {}
    regions = [_Region(name, field) for name, field in template.get("fields", {}).items()]
    opens = {mark: region for region in regions for mark in region.opens}
    outside, cursor = MarkSearch(opens, streams_text=True), stream.cursor
    adjacent = MarkSearch(opens, adjacent=True)
    while True:
        cursor.begin_block("")
        hit = yield adjacent
        if hit.end:
            return
        if not hit.mark:
            stream.collector.add_text(hit.before)
            hit = yield outside
            if hit.end:
                return
        yield from _read_region(stream, opens[hit.mark], hit.mark, tuple(opens))


def _read_region(stream: Any, region: _Region, mark: str, opens: tuple[str, ...]) -> ReadSteps:
    """Read a region after its opening `mark`: calls, thinking or text.

    A region of calls without a closing mark ends at the next mark in `opens`.
    """
    cursor, collector = stream.cursor, stream.collector
    cursor.begin_block(mark)
    if region.name != "tool_calls":
        stream.set_text_handler(collector.add_thought if region.name == "thinking" else collector.add_text)
        yield MarkSearch(region.closes, streams_text=True)
        stream.set_text_handler(collector.add_text)
        collector.end_part()
        return
    if region.is_json and region.pattern is None:
        json_hit = yield MarkSearch("{[", adjacent=True)
        if not json_hit.mark:
            cursor.rewind_to(len(mark))
            collector.add_text(mark)
            return
        begin = cursor.length - 1
        end = yield from skip_value(cursor, json_hit.mark)
        body = cursor.block_text()[begin:]
        hit = yield MarkSearch(region.closes, adjacent=end == "whole")
        if not hit.mark and end == "whole":
            cursor.rewind_to(begin + len(body))
        problem = {"whole": "", "cut": CUT}.get(end, MALFORMED)
        _add_calls(stream, region, body, {}, problem)
        return
    hit = yield MarkSearch(region.closes or opens)
    block = cursor.block_text().removesuffix(hit.mark) if hit.mark else cursor.block_text()
    if hit.mark and not region.closes:
        cursor.rewind_to(cursor.length - len(hit.mark))
    match = region.pattern.match(block) if region.pattern is not None else None
    if region.pattern is not None and match is None:
        collector.add_text(cursor.block_text())
        return
    body = block[match.end() if match is not None else len(mark) :]
    cut = CUT if hit.end and region.closes else ""
    _add_calls(stream, region, body, match.groupdict() if match is not None else {}, cut)


def _add_calls(stream: Any, region: _Region, body: str, captured: dict[str, Any], problem: str) -> None:
    """Add the calls of a region."""
    text, state = stream.cursor.block_text(), stream.state
    name = captured.get("name")
    try:
        value = (
            _content(body, region.field, state.schema(state.resolve_name(name)) if name else {})
            if not problem
            else None
        )
        calls = _transform(region.field, value, captured) if not problem else None
    except (ValueError, LookupError, TypeError):
        problem, calls = MALFORMED, None
    if calls is None:
        match = re.search(rf'"{_name_key(region.field)}"\s*:\s*"([^"\\\n]+)"', body)
        stream.add_items([BlockItem(text, name or (match[1] if match else None), problem=problem)], text)
        return
    items = [_call_of(each, text) for each in (calls if isinstance(calls, list) else [calls])]
    stream.add_items(items, text)


def _name_key(field: dict[str, Any]) -> str:
    """Return the key of the content that holds the tool's name."""
    shape = field.get("transform") or {}
    hole = _HOLE.fullmatch(str((shape.get("function") or shape).get("name", "{name}")))
    return re.escape(hole[1].rpartition(".")[2]) if hole is not None else "name"


def _content(text: str, field: dict[str, Any], schema: dict[str, Any]) -> Any:
    options = field.get("content_args") or {}
    match field.get("content", "text"):
        case "json" if options.get("string_delims"):
            return parse_bare(text, options["string_delims"][0][0])
        case "json":
            return parse_json(text.strip())
        case "xml-inline":
            matches = re.finditer(options["tag_pattern"], text, re.DOTALL)
            properties = property_schemas(schema, schema)
            return {
                each["key"]: parse_by_schema(each["value"], properties.get(each["key"]), schema) for each in matches
            }
    return text.strip()


def _transform(field: dict[str, Any], value: Any, captured: dict[str, Any]) -> Any:
    """Arrange the parsed content as the template's `transform` describes."""
    shape = field.get("transform")
    if shape is None:
        return value
    if field.get("transform_each"):
        return [_fill(shape, {**captured, **each}) for each in value]
    return _fill(shape, {**captured, "content": value})


def _fill(shape: Any, values: dict[str, Any]) -> Any:
    match shape:
        case dict():
            return {key: _fill(each, values) for key, each in shape.items()}
        case list():
            return [_fill(each, values) for each in shape]
        case str() if (hole := _HOLE.fullmatch(shape)) is not None:
            value: Any = values
            for key in hole[1].split("."):
                value = value[key]
            return value
    return shape


def _call_of(call: Any, text: str) -> BlockItem:
    inner = call.get("function", call) if isinstance(call, dict) else {}
    name = inner.get("name")
    key = next((key for key in _ARGUMENTS if key in inner), None)
    problem = misplaced_arguments(inner, _ARGUMENTS, ("name", "id", "type")) if key is None and name else ""
    arguments = {} if key is None else inner[key]
    return BlockItem(
        text, name if isinstance(name, str) else None, arguments, call.get("id") if name else None, problem
    )


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Return calls as JSON between the marks of the region. `FormatWriter` reports what does not decode to the same."""
    region = _Region("tool_calls", (row.template or {}).get("fields", {}).get("tool_calls", {}))
    begin, end = (region.opens or ("",))[0], (region.closes or ("",))[0]
    return [f"{begin}{dump_json({'name': call.name, 'arguments': arguments})}{end}" for call, arguments in calls]
