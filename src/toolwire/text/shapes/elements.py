"""Calls whose arguments are elements named after them, which may nest: each mark begins with the same prefix.

Rules of this file:
- A call counts when its own end has come. An element with elements in it is an object, or a list where the schema
  says so, or where a name comes again.
- The schema says what a text is.
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
    """Give the marks that a call begins with."""
    return (bare_mark(row.call[0]),)


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read a name, and everything until the end of the call."""
    del mark
    row, cursor = state.row, state.cursor
    found = yield state.find("after name", ">", "\n", *state.begins)
    name = found.before.strip().strip("\"'")
    if found.mark != ">" or not name:
        return None
    found = yield state.find("end", bare_mark(row.call[2]), *state.begins)
    if found.mark != bare_mark(row.call[2]):
        if found.mark:
            cursor.rewind_to(cursor.length - len(found.mark))
        return [BlockItem(cursor.block_text(), name, None, None, CUT if found.end else MALFORMED)]
    schema = state.schema(state.resolve_name(name))
    try:
        children = _Elements(found.before, row.header).all()
        arguments = _object_of(children, schema, schema)
    except ValueError as problem:
        return [BlockItem(cursor.block_text(), name, None, None, str(problem))]
    return [BlockItem(cursor.block_text(), name, arguments)]


class _Elements:
    """Reads elements one after the other; raises ValueError where there is none."""

    def __init__(self, text: str, prefix: str) -> None:
        self.text: str = text
        self.prefix: str = prefix
        self.at = 0

    def all(self) -> list[tuple[str, Any]]:
        """Read every element of a call."""
        children, words = self.inside("", 0)
        if words.strip():
            raise ValueError(f"words stand among the arguments: {words.strip()[:40]!r}")
        return children

    def inside(self, name: str, depth: int) -> tuple[list[tuple[str, Any]], str]:
        """Read what stands in an element, until its end: elements, and the words beside them."""
        if depth > _DEEPEST:
            raise ValueError("too deep")
        children: list[tuple[str, Any]] = []
        words = ""
        close, opening = f"{self.prefix}</{name}>", f"{self.prefix}<"
        while True:
            begin = self.text.find(self.prefix, self.at)
            if begin < 0 and not name:
                return children, words + self.text[self.at :]
            words += self.text[self.at : begin]
            if name and self.text.startswith(close, begin):
                self.at = begin + len(close)
                return children, words
            end = self.text.find(">", begin + len(opening))
            if begin < 0 or end < 0 or not self.text.startswith(opening, begin):
                raise ValueError(f"an end of <{name}> was expected")
            inner = self.text[begin + len(opening) : end]
            if not inner or inner.startswith("/"):
                raise ValueError(f"<{inner}> was not expected in <{name}>")
            self.at = end + 1
            below, said = self.inside(inner, depth + 1)
            children.append((inner, below or said))


def _value_of(value: Any, schema: Any, root: Any) -> Any:
    kinds = allowed_types(schema, root)
    if type(value) is str:
        if not value and "string" not in kinds and kinds & {"array", "object"}:
            return [] if "array" in kinds else {}
        return parse_by_schema(value, schema, root)
    if "array" in kinds or ("object" not in kinds and {name for name, _ in value} == {_ITEM}):
        return [_value_of(child, item_schema(schema, root), root) for _, child in value]
    return _object_of(value, schema, root)


def _object_of(children: list[tuple[str, Any]], schema: Any, root: Any) -> dict[str, Any]:
    properties, made = property_schemas(schema, root), {}
    for name in dict.fromkeys(name for name, _ in children):
        values = [_value_of(child, properties.get(name), root) for each, child in children if each == name]
        made[name] = values[0] if len(values) == 1 else values
    return made


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Write calls, each with its elements."""
    return [
        f'{row.call[0]}"{call.name}"{row.call[1]}{_written(given, row.header)}{row.call[2]}' for call, given in calls
    ]


def _written(value: Any, prefix: str) -> str:
    match value:
        case dict():
            return "".join(_element(prefix, name, each) for name, each in value.items())
        case list():
            return "".join(_element(prefix, _ITEM, each) for each in value)
    return format_value(value)


def _element(prefix: str, name: str, value: Any) -> str:
    return f"{prefix}<{name}>{_written(value, prefix)}{prefix}</{name}>"
