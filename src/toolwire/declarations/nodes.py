"""A text as a tree of values that know where they stand; built the same way from YAML and from JSON.

Rules of this file:
- A value in a map stands where its key stands.
- A key is text, and is given once. An alias is a copy: it counts, in size and in depth, each time it is used.
- The limits are checked while the tree is built, so that no text costs more than they allow.
"""

import re
from collections.abc import Iterable
from typing import Any, NoReturn

from msgspec import Struct

from toolwire.declarations.problems import START, Problems, TextPosition, below, shown

MAX_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 100
MAX_NODES = 200_000
MAX_DIGITS = 300
TEXT_UNIT = 64
_SURROGATE = re.compile("[\ud800-\udfff]")


class Node(Struct, frozen=True):
    """A value: text, number, boolean or None, a list of nodes, or a map to nodes."""

    value: Any
    line: int
    column: int
    size: int = 1
    height: int = 0

    def plain(self) -> Any:
        """Give the value without the places; what an alias repeats is a value of its own each time."""
        match self.value:
            case dict() as inner:
                return {key: node.plain() for key, node in inner.items()}
            case list() as inner:
                return [node.plain() for node in inner]
        return self.value

    def members(self) -> "Iterable[tuple[str | int, Node]]":
        """List the nodes inside, each with its key or its position."""
        match self.value:
            case dict() as inner:
                return list(inner.items())
            case list() as inner:
                return list(enumerate(inner))
        return []

    def find(self, path: str) -> "Node":
        """Give the node that a path of names and positions leads to, or the last one there is on the way."""
        for step, node in self.members():
            rest = path.removeprefix(f"[{step}]" if isinstance(step, int) else step)
            if rest != path and (not rest or rest[0] in ".["):
                return node.find(rest.removeprefix("."))
        return self


class Unreadable(Exception):
    """Nothing more can be read of the text; the problem has been noted."""


class _Open:
    """A list or a map that is being built."""

    __slots__ = ("anchor", "height", "key", "place", "seen", "size", "value")

    def __init__(self, value: Any, place: TextPosition, anchor: str | None) -> None:
        self.value = value
        self.place = place
        self.anchor = anchor
        self.key: tuple[str | None, TextPosition] | None = None
        self.size = 1
        self.height = 0


class Builder:
    """Takes what a reader finds, in the order of the text, and makes one tree of it."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.root: Node | None = None
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._size = 0

    def begin(self, value: "list[Any] | dict[str, Any]", place: TextPosition, anchor: str | None = None) -> None:
        """Begin a list or a map."""
        if len(self._open) >= MAX_DEPTH:
            self.stop(place, f"is nested too deeply: at most {MAX_DEPTH} levels")
        self._spend(1, place)
        self._open.append(_Open(value, place, anchor))

    def end(self) -> None:
        """End the innermost list or map."""
        done = self._open.pop()
        self._put(Node(done.value, done.place.line, done.place.column, done.size, done.height + 1), done.anchor)

    def scalar(self, value: Any, place: TextPosition, anchor: str | None = None) -> None:
        """Take a text, a number, a boolean or None."""
        size = 1
        if type(value) is str:
            size += len(value) // TEXT_UNIT
            if not value.isascii() and _SURROGATE.search(value):
                self.report(place, "has half of a surrogate pair; write the character itself")
                value = _SURROGATE.sub("\ufffd", value)
        self._spend(size, place)
        self._put(Node(value, place.line, place.column, size), anchor)

    def alias(self, name: str, place: TextPosition) -> None:
        """Take what an anchor names once more."""
        if any(above.anchor == name for above in self._open):
            self.stop(place, f"the alias *{name} stands inside of what it repeats")
        node = self._anchors.get(name)
        if node is None:
            self.stop(place, f"the alias *{name} has no anchor &{name} before it")
        if len(self._open) + node.height > MAX_DEPTH:
            self.stop(place, f"is nested too deeply: at most {MAX_DEPTH} levels, with what aliases repeat")
        self._spend(node.size, place)
        self._put(Node(node.value, place.line, place.column, node.size, node.height), None)

    @property
    def wants_key(self) -> bool:
        """Whether a key of a map comes next."""
        return bool(self._open) and type(self._open[-1].value) is dict and self._open[-1].key is None

    def report(self, place: TextPosition, reason: str) -> None:
        """Note a problem at the field that is being read."""
        self.problems.add(place, self._field(), reason)

    def stop(self, place: TextPosition, reason: str) -> NoReturn:
        """Note a problem after which nothing more can be read."""
        self.problems.add(place, self._field(), reason)
        raise Unreadable

    def _field(self) -> str:
        field = ""
        for above in self._open:
            if type(above.value) is list:
                field = below(field, len(above.value))
            elif above.key is not None:
                field = below(field, above.key[0] or "?")
        return field

    def _spend(self, size: int, place: TextPosition) -> None:
        self._size += size
        if self._size > MAX_NODES:
            self.stop(place, f"is too large: more than {MAX_NODES:,} values, with what aliases repeat")

    def _put(self, node: Node, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._open:
            self.root = node
            return
        above = self._open[-1]
        above.size += node.size
        above.height = max(above.height, node.height)
        if type(above.value) is list:
            above.value.append(node)
        elif above.key is None:
            above.key = self._key(node, above), TextPosition(node.line, node.column)
        else:
            (key, place), above.key = above.key, None
            if key is not None:
                above.value[key] = Node(node.value, place.line, place.column, node.size, node.height)

    def _key(self, node: Node, above: _Open) -> str | None:
        """Give the key, or None if it cannot be one: then its value is read, and left out."""
        place = TextPosition(node.line, node.column)
        if type(node.value) is not str:
            is_large = type(node.value) in (dict, list)
            right = "a key is a text" if is_large else f'write "{shown(node.value)}"'
            self.report(place, f"{shown(node.value)} cannot be a key; {right}")
            return None
        if node.value in above.value:
            first = above.value[node.value]
            self.report(place, f"has the key {shown(node.value)} twice; it stands in line {first.line} already")
            return None
        return node.value


def read_text(data: bytes | str, problems: Problems) -> str:
    """Give the text of a file: UTF-8, and not too large."""
    if isinstance(data, str) and len(data) <= MAX_BYTES:
        data = data.encode("utf-8", "surrogatepass")
    if isinstance(data, str) or len(data) > MAX_BYTES:
        problems.add(START, "", f"is too large: at most {MAX_BYTES:,} bytes")
        raise Unreadable
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        before = data[: problem.start].decode("utf-8", "replace")
        place = TextPosition(before.count("\n") + 1, len(before) - before.rfind("\n"))
        problems.add(place, "", f"must be UTF-8: the byte 0x{data[problem.start]:02x} is not")
        raise Unreadable from None
