"""A format that Hugging Face's `response_template` describes: regions with an opening and a close, each with a parser.

Rules of this file:
- Fields `thinking`, `content` and `tool_calls` are read. Another field, and what stands in none, is words.
- A region's opening is looked for by its literal beginning. A call counts when its region was closed, or
  where it is JSON with the end of it.
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
    """Give no marks: the template has its own."""
    del row
    return ()


class _Region:
    """One field of a template: what it begins and ends with, and what is made of its text."""

    def __init__(self, name: str, field: dict[str, Any]) -> None:
        self.name: str = name
        self.field: dict[str, Any] = field
        self.opens = _literals(field, "open")
        self.closes = _literals(field, "close")
        self.pattern = re.compile(field["open_pattern"], re.DOTALL) if "open_pattern" in field else None
        self.is_json = field.get("content") == "json" and not field.get("content_args")


def _literals(field: dict[str, Any], key: str) -> tuple[str, ...]:
    given = field.get(key)
    if given is not None:
        return tuple(given) if isinstance(given, list) else (given,)
    pattern, at, found = field.get(f"{key}_pattern", ""), 0, ""
    while (match := _META.match(pattern, at)) is not None and pattern[match.end() : match.end() + 1] not in set("*?{+"):
        found, at = found + (match[1] or match[2]), match.end()
    return (found,) if found else ()


def run(stream: Any) -> ReadSteps:
    """Read regions until the text ends."""
    template: dict[str, Any] = stream.marks.row.template or {}
    regions = [_Region(name, field) for name, field in template.get("fields", {}).items()]
    opens = {mark: region for region in regions for mark in region.opens}
    outside, cursor = MarkSearch(opens, streams_text=True), stream.cursor
    near = MarkSearch(opens, adjacent=True)
    while True:
        cursor.begin_block("")
        found = yield near
        if found.end:
            return
        if not found.mark:
            stream.collector.add_text(found.before)
            found = yield outside
            if found.end:
                return
        yield from _read_region(stream, opens[found.mark], found.mark, tuple(opens))


def _read_region(stream: Any, region: _Region, mark: str, opens: tuple[str, ...]) -> ReadSteps:
    cursor, collector = stream.cursor, stream.collector
    cursor.begin_block(mark)
    if region.name != "tool_calls":
        stream.set_text_handler(collector.add_thought if region.name == "thinking" else collector.add_text)
        yield MarkSearch(region.closes, streams_text=True)
        stream.set_text_handler(collector.add_text)
        collector.end_part()
        return
    if region.is_json and region.pattern is None:
        first = yield MarkSearch("{[", adjacent=True)
        if not first.mark:
            cursor.rewind_to(len(mark))
            collector.add_text(mark)
            return
        begin = cursor.length - 1
        end = yield from skip_value(cursor, first.mark)
        body = cursor.block_text()[begin:]
        found = yield MarkSearch(region.closes, adjacent=end == "whole")
        if not found.mark and end == "whole":
            cursor.rewind_to(begin + len(body))
        problem = {"whole": "", "cut": CUT}.get(end, MALFORMED)
        _tell(stream, region, body, {}, problem)
        return
    found = yield MarkSearch(region.closes or opens)
    block = cursor.block_text().removesuffix(found.mark) if found.mark else cursor.block_text()
    if found.mark and not region.closes:
        cursor.rewind_to(cursor.length - len(found.mark))
    opening = region.pattern.match(block) if region.pattern is not None else None
    if region.pattern is not None and opening is None:
        collector.add_text(cursor.block_text())
        return
    body = block[opening.end() if opening is not None else len(mark) :]
    cut = CUT if found.end and region.closes else ""
    _tell(stream, region, body, opening.groupdict() if opening is not None else {}, cut)


def _tell(stream: Any, region: _Region, body: str, captured: dict[str, Any], problem: str) -> None:
    """Tell the calls of a region."""
    text, state = stream.cursor.block_text(), stream.state
    name = captured.get("name")
    try:
        value = (
            _content(body, region.field, state.schema(state.resolve_name(name)) if name else {})
            if not problem
            else None
        )
        made = _transformed(region.field, value, captured) if not problem else None
    except (ValueError, LookupError, TypeError):
        problem, made = MALFORMED, None
    if made is None:
        found = re.search(rf'"{_name_key(region.field)}"\s*:\s*"([^"\\\n]+)"', body)
        stream.add_items([BlockItem(text, name or (found[1] if found else None), problem=problem)], text)
        return
    items = [_call_of(each, text) for each in (made if isinstance(made, list) else [made])]
    stream.add_items(items, text)


def _name_key(field: dict[str, Any]) -> str:
    """Say under which key of the content the name stands."""
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
            found = re.finditer(options["tag_pattern"], text, re.DOTALL)
            properties = property_schemas(schema, schema)
            return {each["key"]: parse_by_schema(each["value"], properties.get(each["key"]), schema) for each in found}
    return text.strip()


def _transformed(field: dict[str, Any], value: Any, captured: dict[str, Any]) -> Any:
    """Put what was read where the template wants it."""
    shape = field.get("transform")
    if shape is None:
        return value
    if field.get("transform_each"):
        return [_filled(shape, {**captured, **each}) for each in value]
    return _filled(shape, {**captured, "content": value})


def _filled(shape: Any, values: dict[str, Any]) -> Any:
    match shape:
        case dict():
            return {key: _filled(each, values) for key, each in shape.items()}
        case list():
            return [_filled(each, values) for each in shape]
        case str() if (hole := _HOLE.fullmatch(shape)) is not None:
            value: Any = values
            for key in hole[1].split("."):
                value = value[key]
            return value
    return shape


def _call_of(made: Any, text: str) -> BlockItem:
    inner = made.get("function", made) if isinstance(made, dict) else {}
    name = inner.get("name")
    key = next((key for key in _ARGUMENTS if key in inner), None)
    problem = misplaced_arguments(inner, _ARGUMENTS, ("name", "id", "type")) if key is None and name else ""
    arguments = {} if key is None else inner[key]
    return BlockItem(
        text, name if isinstance(name, str) else None, arguments, made.get("id") if name else None, problem
    )


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Write calls as JSON between the region's marks; what reads back otherwise will be a loss."""
    region = _Region("tool_calls", (row.template or {}).get("fields", {}).get("tool_calls", {}))
    begin, end = (region.opens or ("",))[0], (region.closes or ("",))[0]
    return [f"{begin}{dump_json({'name': call.name, 'arguments': given})}{end}" for call, given in calls]
