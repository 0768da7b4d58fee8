"""Calls whose arguments are elements, which may be nested. Every mark begins with the same prefix.

Rules of this file:
- A call is complete with its own end mark. An element that contains elements is an object. It is a list if the schema
  declares one, or if all its children are named `item` and the schema does not declare an object. A name that occurs
  several times in an object has the list of its values.
- The schema decides what a text is parsed as.
"""

from collections.abc import Sequence
from typing import Any

from toolwire.text.block_items import CUT, MALFORMED, BlockItem, ReadState
from toolwire.text.cursor import ReadSteps
from toolwire.text.rows import Row, bare_mark
from toolwire.text.values import allowed_types, format_value, item_schema, parse_by_schema, property_schemas
from toolwire.types import ToolCall

_DEEPEST = 100
_ITEM = "item"


def begins(row: Row) -> tuple[str, ...]:
    """Return the marks that begin a call."""
    return (bare_mark(row.call[0]),)


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read the name of a call, and everything up to its end mark."""
    del mark
    row, cursor = state.row, state.cursor
    hit = yield state.find("after name", ">", "\n", *state.begins)
    name = hit.before.strip().strip("\"'")
    if hit.mark != ">" or not name:
        return None
    hit = yield state.find("end", bare_mark(row.call[2]), *state.begins)
    if hit.mark != bare_mark(row.call[2]):
        if hit.mark:
            cursor.rewind_to(cursor.length - len(hit.mark))
        return [BlockItem(cursor.block_text(), name, None, None, CUT if hit.end else MALFORMED)]
    schema = state.schema(state.resolve_name(name))
    try:
        children = _Elements(hit.before, row.header).all()
        arguments = _object_of(children, schema, schema)
    except ValueError as problem:
        return [BlockItem(cursor.block_text(), name, None, None, str(problem))]
    return [BlockItem(cursor.block_text(), name, arguments)]


class _Elements:
    """Parses elements one after the other. Raises ValueError if there is none."""

    def __init__(self, text: str, prefix: str) -> None:
        self.text: str = text
        self.prefix: str = prefix
        self.at = 0

    def all(self) -> list[tuple[str, Any]]:
        """Parse every element of a call."""
        children, text = self.inside("", 0)
        if text.strip():
            raise ValueError(f"there is text between the arguments: {text.strip()[:40]!r}")
        return children

    def inside(self, name: str, depth: int) -> tuple[list[tuple[str, Any]], str]:
        """Parse the content of an element up to its end: its child elements, and the text between them."""
        if depth > _DEEPEST:
            raise ValueError("the elements are nested too deeply")
        children: list[tuple[str, Any]] = []
        text = ""
        close, opening = f"{self.prefix}</{name}>", f"{self.prefix}<"
        while True:
            begin = self.text.find(self.prefix, self.at)
            if begin < 0 and not name:
                return children, text + self.text[self.at :]
            text += self.text[self.at : begin]
            if name and self.text.startswith(close, begin):
                self.at = begin + len(close)
                return children, text
            end = self.text.find(">", begin + len(opening))
            if begin < 0 or end < 0 or not self.text.startswith(opening, begin):
                raise ValueError(f"the end of <{name}> was expected")
            child = self.text[begin + len(opening) : end]
            if not child or child.startswith("/"):
                raise ValueError(f"<{child}> was not expected in <{name}>")
            self.at = end + 1
            grandchildren, inner_text = self.inside(child, depth + 1)
            children.append((child, grandchildren or inner_text))


def _value_of(value: Any, schema: Any, root: Any) -> Any:
    types = allowed_types(schema, root)
    if type(value) is str:
        if not value and "string" not in types and types & {"array", "object"}:
            return [] if "array" in types else {}
        return parse_by_schema(value, schema, root)
    if "array" in types or ("object" not in types and {name for name, _ in value} == {_ITEM}):
        return [_value_of(child, item_schema(schema, root), root) for _, child in value]
    return _object_of(value, schema, root)


def _object_of(children: list[tuple[str, Any]], schema: Any, root: Any) -> dict[str, Any]:
    properties, values_by_name = property_schemas(schema, root), {}
    for name in dict.fromkeys(name for name, _ in children):
        values = [_value_of(child, properties.get(name), root) for each, child in children if each == name]
        values_by_name[name] = values[0] if len(values) == 1 else values
    return values_by_name


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Return calls, each with its elements."""
    return [
        f'{row.call[0]}"{call.name}"{row.call[1]}{_format(arguments, row.header)}{row.call[2]}'
        for call, arguments in calls
    ]


def _format(value: Any, prefix: str) -> str:
    match value:
        case dict():
            return "".join(_element(prefix, name, each) for name, each in value.items())
        case list():
            return "".join(_element(prefix, _ITEM, each) for each in value)
    return format_value(value)


def _element(prefix: str, name: str, value: Any) -> str:
    return f"{prefix}<{name}>{_format(value, prefix)}{prefix}</{name}>"
