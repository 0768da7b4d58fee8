"""Calls in the syntax `call:f{key:value}`, where strings have quoting marks and all other values have none.

Rules of this file:
- A call is complete with its closing brace. The mark after it may be missing. Only a quoting mark ends a string.
- A value without quoting marks is a number, `true`, `false`, `null`, a list or an object. Any other value is a text,
  which the schema decides how to parse.
"""

import re
from collections.abc import Sequence
from typing import Any

from toolwire.text.block_items import BlockItem, ReadState, skip_broken
from toolwire.text.cursor import ReadSteps
from toolwire.text.rows import Row, bare_mark
from toolwire.text.values import dump_json, item_schema, parse_declared, property_schemas
from toolwire.types import ToolCall

_DEEPEST = 100
_BARE = re.compile(r"[^,}\]]*")
_BLANK = re.compile(r"[\s,]*")
_SPACE = re.compile(r"\s*")


def begins(row: Row) -> tuple[str, ...]:
    """Return the marks that begin a call."""
    return (bare_mark(row.call[0]),)


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read the name of a call, and the text between its braces."""
    del mark
    row, cursor = state.row, state.cursor
    hit = yield state.find("after name", "{", "\n", bare_mark(row.call[2]), *state.begins)
    name = hit.before.strip()
    if hit.mark != "{" or not name:
        return None
    begin = cursor.length
    if (yield from _skip_braces(state)):
        body = cursor.block_text()[begin:-1]
        hit = yield state.find("end", bare_mark(row.call[2]), adjacent=True)
        if not hit.mark:
            cursor.rewind_to(cursor.length - len(hit.before))
        return [_item_of(state, name, body)]
    problem = yield from skip_broken(state, (bare_mark(row.call[2]),))
    return [BlockItem(cursor.block_text(), name, None, None, problem)]


def _skip_braces(state: ReadState) -> ReadSteps:
    """Skip to the closing brace. Return False if there is none."""
    quote = bare_mark(state.row.quotes[0])
    outside, inside, expected = (
        state.find("brace", quote, *"{}[]", bare_mark(state.row.call[2]), *state.begins),
        state.find("quote", quote),
        "}",
    )
    while expected:
        hit = yield outside
        match hit.mark:
            case "{" | "[":
                expected += "}" if hit.mark == "{" else "]"
            case "}" | "]" if expected[-1] == hit.mark:
                expected = expected[:-1]
            case quote_mark if quote_mark == quote:
                if (yield inside).end:
                    return False
            case _:
                return False
        if len(expected) > _DEEPEST:
            return False
    return True


def _item_of(state: ReadState, name: str, body: str) -> BlockItem:
    """Return the item of a call, with the problem if its arguments cannot be parsed."""
    text, schema = state.cursor.block_text(), state.schema(state.resolve_name(name))
    try:
        parser = _BareParser(body + "}", bare_mark(state.row.quotes[0]), schema)
        return BlockItem(text, name, parser.entries(schema))
    except ValueError as problem:
        return BlockItem(text, name, None, None, f"arguments: {problem}")


def parse_bare(text: str, quote: str) -> Any:
    """Parse one object whose strings have quoting marks. Raises ValueError."""
    text = text.strip()
    if text[:1] != "{":
        raise ValueError("an object was expected")
    return _BareParser(text[1:] + "}", quote, {}).entries({})


class _BareParser:
    """Parses entries and values one after the other. Raises ValueError."""

    def __init__(self, text: str, quote: str, root: Any) -> None:
        self.text: str = text
        self.quote: str = quote
        self.root: Any = root
        self.at = 0

    def _skip(self) -> None:
        self.at = _BLANK.match(self.text, self.at).end()  # type: ignore[union-attr]

    def entries(self, schema: Any) -> dict[str, Any]:
        """Parse the entries of an object, up to its closing brace."""
        entries: dict[str, Any] = {}
        properties = property_schemas(schema, self.root)
        while True:
            self._skip()
            if self.text.startswith("}", self.at):
                self.at += 1
                return entries
            key = self._quoted() if self.text.startswith(self.quote, self.at) else self._until(":")
            if not self.text.startswith(":", self.at) or key in entries:
                raise ValueError(f"the key {key!r} has no value, or occurs twice")
            self.at += 1
            entries[key] = self._value(properties.get(key))

    def _until(self, mark: str) -> str:
        end = self.text.find(mark, self.at)
        if end < 0:
            raise ValueError(f"{mark!r} was expected at {self.text[self.at : self.at + 20]!r}")
        text, self.at = self.text[self.at : end].strip(), end
        return text

    def _quoted(self) -> str:
        begin = self.at + len(self.quote)
        end = self.text.find(self.quote, begin)
        if end < 0:
            raise ValueError("a string was not closed")
        self.at = end + len(self.quote)
        return self.text[begin:end]

    def _value(self, schema: Any) -> Any:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        if self.text.startswith(self.quote, self.at):
            return parse_declared(self._quoted(), schema, self.root, quoted=True)
        if self.text.startswith("{", self.at):
            self.at += 1
            return self.entries(schema)
        if self.text.startswith("[", self.at):
            self.at += 1
            return self._items(item_schema(schema, self.root))
        word = _BARE.match(self.text, self.at)[0]  # type: ignore[index]
        self.at += len(word)
        return parse_declared(word.strip(), schema, self.root, quoted=False)

    def _items(self, schema: Any) -> list[Any]:
        items: list[Any] = []
        while True:
            self._skip()
            if self.text.startswith("]", self.at):
                self.at += 1
                return items
            items.append(self._value(schema))


def write(row: Row, calls: Sequence[tuple[ToolCall, dict[str, Any]]]) -> list[str]:
    """Return calls, each with its braces."""
    return [f"{row.call[0]}{call.name}{_format(arguments, row.quotes[0])}{row.call[2]}" for call, arguments in calls]


def _format(value: Any, quote: str) -> str:
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case dict():
            return "{" + ",".join(f"{key}:{_format(each, quote)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ",".join(_format(each, quote) for each in value) + "]"
    return dump_json(value)
