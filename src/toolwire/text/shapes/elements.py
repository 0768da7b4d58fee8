"""Calls whose arguments are elements, which may be nested. Every mark begins with the same prefix.

Rules of this file:
- A call is complete with its own end mark. Marks inside of a text are text: if the schema declares a text, its end mark
  counts only if another element or the end of the parent follows. As in `argument_values`, only the end of the whole
  text shows that no later end of the call belongs to it, and a call between two possible ends makes the call broken.
- An element that contains elements is an object. It is a list if the schema
  declares one, or if all its children are named `item` and the schema does not declare an object. A name that occurs
  several times in an object has the list of its values.
- The schema decides what a text is parsed as.
"""

import re
from collections.abc import Sequence
from typing import Any

from toolwire.text.block_items import CUT, MALFORMED, BlockItem, ReadState
from toolwire.text.cursor import Cursor, ReadSteps
from toolwire.text.rows import Row, bare_mark
from toolwire.text.values import allowed_types, format_value, item_schema, parse_by_schema, property_schemas
from toolwire.types import ToolCall

_DEEPEST = 100
_MOST_ENDS = 16
_BLANK = re.compile(r"\s*")
_ITEM = "item"


def begins(row: Row) -> tuple[str, ...]:
    """Return the marks that begin a call."""
    return (bare_mark(row.call[0]),)


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read the name of a call, and everything up to its end mark."""
    del mark
    hit = yield state.find("after name", ">", "\n", *state.begins)
    name = hit.before.strip().strip("\"'")
    if hit.mark != ">" or not name:
        return None
    return (yield from _read_body(state, name))


def _read_body(state: ReadState, name: str) -> ReadSteps:
    """Read up to the last end mark that can belong to the call. The search of the rest of a text is done once."""
    cursor, begin, end_mark = state.cursor, bare_mark(state.row.call[0]), bare_mark(state.row.call[2])
    search = state.find("end", end_mark, *state.begins)
    is_settled = state.is_scanned or not state.is_offered(state.resolve_name(name))
    ends, start = _Ends(name), cursor.length
    while ends.tries < _MOST_ENDS:
        hit = yield search
        if hit.end:
            break
        if hit.mark != end_mark:
            ends.add_begin(cursor.length - len(hit.mark), is_call=hit.mark == begin)
            if is_settled:
                break
        elif ends.close_inner():
            continue
        elif ends.has_inner:
            return [BlockItem(cursor.block_text(), name, None, None, "the call has several possible ends")]
        else:
            ends.add(cursor.length, *_parse_body(state, name, cursor.block_text()[start : -len(end_mark)]))
            if is_settled:
                break
    state.is_scanned = state.is_scanned or not is_settled
    return [ends.choose(cursor)]


def _parse_body(state: ReadState, name: str, body: str) -> tuple[dict[str, Any] | None, str]:
    """Return the arguments of a call, or None and the problem."""
    schema = state.schema(state.resolve_name(name))
    try:
        children = _Elements(body, state.row.header, schema, state.begins).all()
        return _object_of(children, schema, schema), ""
    except ValueError as problem:
        return None, str(problem)


class _Ends:
    """The possible ends of a call.

    - `best`: the last end whose elements could be parsed, else the first end. The length of the block there, the
      arguments, and the problem.
    - `next_begin`: where another call begins. `has_inner`: another call lies behind `best`.
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.best: tuple[int, dict[str, Any] | None, str] | None = None
        self.next_begin: int | None = None
        self.section: int | None = None
        self.depth = 0
        self.tries = 0
        self.has_inner = False

    def add_begin(self, index: int, *, is_call: bool) -> None:
        """Note the begin of another call, or of a section."""
        if not is_call:
            self.section = index if self.section is None else self.section
            return
        self.depth += 1
        if self.next_begin is None:
            self.next_begin = index if self.section is None else self.section

    def close_inner(self) -> bool:
        """Return True if an end mark closes another call."""
        if not self.depth:
            return False
        self.depth -= 1
        self.has_inner = self.has_inner or (self.best is not None and self.best[1] is not None)
        return True

    def add(self, length: int, arguments: dict[str, Any] | None, problem: str) -> None:
        """Note a possible end."""
        self.tries += 1
        if self.best is None or arguments is not None:
            self.best = (length, arguments, problem)

    def choose(self, cursor: Cursor) -> BlockItem:
        """Return the call with the best end, and read on after it."""
        length, arguments, problem = self.best or (self.next_begin, None, CUT if self.next_begin is None else MALFORMED)
        if length is not None:
            cursor.rewind_to(length)
        return BlockItem(cursor.block_text(), self.name, arguments, None, problem)


class _Elements:
    """Parses elements one after the other. Raises ValueError if there is none."""

    def __init__(self, text: str, prefix: str, root: Any = None, begins: tuple[str, ...] = ()) -> None:
        self.text: str = text
        self.prefix: str = prefix
        self.root: Any = root or {}
        self.begins: tuple[str, ...] = begins
        self.at = 0

    def all(self) -> list[tuple[str, Any]]:
        """Parse every element of a call."""
        children, text = self.inside("", 0, self.root)
        if text.strip():
            raise ValueError(f"there is text between the arguments: {text.strip()[:40]!r}")
        return children

    def inside(self, name: str, depth: int, schema: Any) -> tuple[list[tuple[str, Any]], str]:
        """Parse the content of an element up to its end: its child elements, and the text between them."""
        if depth > _DEEPEST:
            raise ValueError("the elements are nested too deeply")
        children: list[tuple[str, Any]] = []
        text, properties = "", property_schemas(schema, self.root)
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
            child_schema = properties.get(child, item_schema(schema, self.root) if child == _ITEM else None)
            if allowed_types(child_schema, self.root) == {"string"}:
                grandchildren, inner_text = list[tuple[str, Any]](), self._text_of(child, name)
            else:
                grandchildren, inner_text = self.inside(child, depth + 1, child_schema)
            children.append((child, grandchildren or inner_text))

    def _text_of(self, name: str, parent: str) -> str:
        """Read the text of an element up to an end mark that another element, or the end of its parent, follows."""
        begin, close = self.at, f"{self.prefix}</{name}>"
        opening, parent_close = f"{self.prefix}<", f"{self.prefix}</{parent}>"
        while (end := self.text.find(close, self.at)) >= 0:
            self.at = end + len(close)
            after = _BLANK.match(self.text, self.at).end()  # type: ignore[union-attr]
            is_closed = self.text.startswith(parent_close, after) if parent else after == len(self.text)
            is_element = self.text.startswith(opening, after) and self.text[
                after + len(opening) : after + len(opening) + 1
            ] not in {"/", ""}
            if is_closed or (is_element and not self.text.startswith(self.begins, after)):
                return self.text[begin:end]
        raise ValueError(f"the end of <{name}> was expected")


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
