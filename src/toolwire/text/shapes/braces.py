"""Calls as `call:f{key:value}`, where a text stands between two quoting marks and anything else stands bare.

Rules of this file:
- A call counts with its closing brace; the mark after it may be missing. A quoting mark ends a text, nothing else does.
- A bare value is a number, `true`, `false`, `null`, a list or an object; else it is a text, by the schema.
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
    """Give the marks that a call begins with."""
    return (bare_mark(row.call[0]),)


def read(state: ReadState, mark: str) -> ReadSteps:
    """Read a name, and what stands between the braces."""
    del mark
    row, cursor = state.row, state.cursor
    found = yield state.find("after name", "{", "\n", bare_mark(row.call[2]), *state.begins)
    name = found.before.strip()
    if found.mark != "{" or not name:
        return None
    begin = cursor.length
    if (yield from _skim(state)):
        body = cursor.block_text()[begin:-1]
        found = yield state.find("end", bare_mark(row.call[2]), adjacent=True)
        if not found.mark:
            cursor.rewind_to(cursor.length - len(found.before))
        return [_heard(state, name, body)]
    problem = yield from skip_broken(state, (bare_mark(row.call[2]),))
    return [BlockItem(cursor.block_text(), name, None, None, problem)]


def _skim(state: ReadState) -> ReadSteps:
    """Go to the closing brace; False where there is none."""
    quote = bare_mark(state.row.quotes[0])
    outside, inside, open_ = (
        state.find("brace", quote, *"{}[]", bare_mark(state.row.call[2]), *state.begins),
        state.find("quote", quote),
        "}",
    )
    while open_:
        found = yield outside
        match found.mark:
            case "{" | "[":
                open_ += "}" if found.mark == "{" else "]"
            case "}" | "]" if open_[-1] == found.mark:
                open_ = open_[:-1]
            case mark if mark == quote:
                if (yield inside).end:
                    return False
            case _:
                return False
        if len(open_) > _DEEPEST:
            return False
    return True


def _heard(state: ReadState, name: str, body: str) -> BlockItem:
    text, schema = state.cursor.block_text(), state.schema(state.resolve_name(name))
    try:
        reader = _Bare(body + "}", bare_mark(state.row.quotes[0]), schema)
        return BlockItem(text, name, reader.entries(schema))
    except ValueError as problem:
        return BlockItem(text, name, None, None, f"arguments: {problem}")


def parse_bare(text: str, quote: str) -> Any:
    """Read one object whose texts stand between quoting marks; raises ValueError."""
    text = text.strip()
    if text[:1] != "{":
        raise ValueError("an object was expected")
    return _Bare(text[1:] + "}", quote, {}).entries({})


class _Bare:
    """Reads entries and values one after the other; raises ValueError."""

    def __init__(self, text: str, quote: str, root: Any) -> None:
        self.text: str = text
        self.quote: str = quote
        self.root: Any = root
        self.at = 0

    def _skip(self) -> None:
        self.at = _BLANK.match(self.text, self.at).end()  # type: ignore[union-attr]

    def entries(self, schema: Any) -> dict[str, Any]:
        """Read the entries of an object, until its brace."""
        made: dict[str, Any] = {}
        properties = property_schemas(schema, self.root)
        while True:
            self._skip()
            if self.text.startswith("}", self.at):
                self.at += 1
                return made
            key = self._quoted() if self.text.startswith(self.quote, self.at) else self._until(":")
            if not self.text.startswith(":", self.at) or key in made:
                raise ValueError(f"the key {key!r} has no value, or is given twice")
            self.at += 1
            made[key] = self._value(properties.get(key))

    def _until(self, mark: str) -> str:
        end = self.text.find(mark, self.at)
        if end < 0:
            raise ValueError(f"{mark!r} was expected at {self.text[self.at : self.at + 20]!r}")
        found, self.at = self.text[self.at : end].strip(), end
        return found

    def _quoted(self) -> str:
        begin = self.at + len(self.quote)
        end = self.text.find(self.quote, begin)
        if end < 0:
            raise ValueError("a text was not ended")
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
    """Write calls, each with its braces."""
    return [f"{row.call[0]}{call.name}{_written(given, row.quotes[0])}{row.call[2]}" for call, given in calls]


def _written(value: Any, quote: str) -> str:
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case dict():
            return "{" + ",".join(f"{key}:{_written(each, quote)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ",".join(_written(each, quote) for each in value) + "]"
    return dump_json(value)
