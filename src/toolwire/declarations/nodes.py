"""The content of a file as a tree of values with positions, and the problems of the file.

Rules of this file:
- A problem reads `tools.yaml:7:5: tools[0].parameters: must be a map, not 5`: file, line, column, field, and what is
  expected. All problems of a file are reported together.
- The tree is the same for YAML and JSON. The position of a value in a map is the position of its key.
- A key is text, and occurs once. An alias is a copy, which counts in size and depth each time it is used.
- The limits are checked while the tree is built, so that no file can cost more than they allow.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from msgspec import Struct

from toolwire.errors import DeclarationError, did_you_mean

MAX_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 100
_MAX_NODES = 200_000
MAX_DIGITS = 300
_TEXT_UNIT = 64
_MAX_PROBLEMS = 100
_MAX_VALUE = 80
_MAX_FIELD = 200
_MAX_REASON = 1000
_SIMPLE_KEY = re.compile(r"[^\s.\[\]\"':]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


class TextPosition(Struct, frozen=True, gc=False):
    """A position in a text. Lines and columns start at 1."""

    line: int
    column: int


START = TextPosition(1, 1)


class Problem(Struct, frozen=True):
    """One problem of a file: file name, position, field, reason, and the exception that caused it, if any."""

    name: str
    line: int
    column: int
    field: str
    reason: str
    cause: BaseException | None = None

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        return f"{self.name}:{self.line}:{self.column}: {field}{self.reason}"


class Problems:
    """The problems of one file, in the order in which they were found."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.collected: list[Problem] = []

    def add(self, position: Any, field: str, reason: str, cause: BaseException | None = None) -> None:
        """Record a problem at `position`, which has a line and a column.

        Raises `DeclarationError` after the maximum number of problems.
        """
        is_last = len(self.collected) + 1 == _MAX_PROBLEMS
        text = shorten(reason, _MAX_REASON) + " (no more problems are looked for)" * is_last
        self.collected.append(
            Problem(self.name, position.line, position.column, shorten(field, _MAX_FIELD), text, cause)
        )
        if is_last:
            self.raise_collected()

    def stop(self, position: Any, field: str, reason: str, cause: BaseException | None = None) -> NoReturn:
        """Record a problem after which reading cannot continue, and raise `DeclarationError`."""
        self.add(position, field, reason, cause)
        self.raise_collected()
        raise AssertionError

    def raise_collected(self) -> None:
        """Raise `DeclarationError` if there are problems."""
        if self.collected:
            ordered = sorted(self.collected, key=lambda problem: (problem.line, problem.column))
            cause = next((problem.cause for problem in ordered if problem.cause is not None), None)
            raise DeclarationError(ordered) from cause


def join_field(field: str, step: str | int) -> str:
    """Return the name of the field `step` below `field`."""
    if isinstance(step, int):
        return f"{field}[{step}]"
    if not _SIMPLE_KEY.fullmatch(step):
        return f"{field}[{format_value(step)}]"
    return f"{field}.{step}" if field else step


def format_value(value: Any) -> str:
    """Write a value as it would be written in the file, shortened."""
    match value:
        case dict():
            return "a map"
        case list():
            return "a list"
    return shorten(json.dumps(value, ensure_ascii=False), _MAX_VALUE)


def shorten(text: str, limit: int) -> str:
    """Cut `text` after `limit` characters."""
    return text if len(text) <= limit else f"{text[:limit]}..."


def suggestion(word: str, known: Iterable[str]) -> str:
    """Suggest the known word that `word` probably misspells, or list the known words."""
    words = sorted(known)
    if similar := did_you_mean(word, words):
        return similar.removeprefix("; ")
    return f"known: {', '.join(words[:20])}{', ...' if len(words) > 20 else ''}" if words else "there are none"


class Node(Struct):
    """A value with its position: text, number, boolean or None, a list of nodes, or a map of nodes."""

    value: Any
    line: int
    column: int
    size: int = 1
    height: int = 0

    def to_python(self) -> Any:
        """Return the value without positions. Each use of an alias is a separate copy."""
        match self.value:
            case dict() as members:
                return {key: node.to_python() for key, node in members.items()}
            case list() as members:
                return [node.to_python() for node in members]
        return self.value

    def members(self) -> "Iterable[tuple[str | int, Node]]":
        """Return the nodes directly inside, each with its key or index."""
        match self.value:
            case dict() as content:
                return list(content.items())
            case list() as content:
                return list(enumerate(content))
        return []

    def find(self, path: str) -> "Node":
        """Return the node at a path of names and indexes, or the last existing node on that path."""
        for step, node in self.members():
            remaining = path.removeprefix(f"[{step}]" if isinstance(step, int) else step)
            if remaining != path and (not remaining or remaining[0] in ".["):
                return node.find(remaining.removeprefix("."))
        return self

    def with_position(self, position: "TextPosition | Node") -> "Node":
        """Return the same value at another position."""
        return Node(self.value, position.line, position.column, self.size, self.height)


class _Open(Struct):
    """An unfinished list or map. `key` waits for its value; its own value is None if it is not a valid key."""

    node: Node
    anchor: str | None
    key: Node | None = None


class Builder:
    """Builds a tree from the values that a reader finds, in the order of the text."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.root: Node | None = None
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._size = 0

    def begin(self, value: "list[Any] | dict[str, Any]", position: TextPosition, anchor: str | None = None) -> None:
        """Begin a list or a map."""
        if len(self._open) >= MAX_DEPTH:
            self.stop(position, f"is nested too deeply: at most {MAX_DEPTH} levels")
        self._count(1, position)
        self._open.append(_Open(Node(value, position.line, position.column, height=1), anchor))

    def end(self) -> None:
        """End the innermost list or map."""
        finished = self._open.pop()
        self._attach(finished.node, finished.anchor)

    def scalar(self, value: Any, position: TextPosition, anchor: str | None = None) -> None:
        """Add a text, a number, a boolean or None."""
        size = 1
        if type(value) is str:
            size += len(value) // _TEXT_UNIT
            if not value.isascii() and _SURROGATE.search(value):
                self.report(position, "has half of a surrogate pair; write the character itself")
                value = _SURROGATE.sub("\ufffd", value)
        self._count(size, position)
        self._attach(Node(value, position.line, position.column, size), anchor)

    def alias(self, name: str, position: TextPosition) -> None:
        """Add a copy of the value that the anchor `name` marks."""
        if any(container.anchor == name for container in self._open):
            self.stop(position, f"the alias *{name} is inside the value that it repeats")
        node = self._anchors.get(name)
        if node is None:
            self.stop(position, f"the alias *{name} has no anchor &{name} before it")
        if len(self._open) + node.height > MAX_DEPTH:
            self.stop(position, f"is nested too deeply: at most {MAX_DEPTH} levels, with what aliases repeat")
        self._count(node.size, position)
        self._attach(node.with_position(position))

    @property
    def wants_key(self) -> bool:
        """Return True if the next value is a key of a map."""
        return bool(self._open) and type(self._open[-1].node.value) is dict and self._open[-1].key is None

    def report(self, position: TextPosition | Node, reason: str) -> None:
        """Record a problem at the current field."""
        self.problems.add(position, self._field(), reason)

    def stop(self, position: TextPosition, reason: str) -> NoReturn:
        """Record a problem after which reading cannot continue, and raise `DeclarationError`."""
        self.problems.stop(position, self._field(), reason)

    def _field(self) -> str:
        field = ""
        for container in self._open:
            if type(container.node.value) is list:
                field = join_field(field, len(container.node.value))
            elif container.key is not None:
                field = join_field(field, container.key.value or "?")
        return field

    def _count(self, size: int, position: TextPosition) -> None:
        self._size += size
        if self._size > _MAX_NODES:
            self.stop(position, f"is too large: more than {_MAX_NODES:,} values, with what aliases repeat")

    def _attach(self, node: Node, anchor: str | None = None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._open:
            self.root = node
            return
        container = self._open[-1]
        parent = container.node
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)
        if type(parent.value) is list:
            parent.value.append(node)
        elif container.key is None:
            container.key = node if self._is_key(node, parent) else Node(None, node.line, node.column)
        else:
            key, container.key = container.key, None
            if key.value is not None:
                parent.value[key.value] = node.with_position(key)

    def _is_key(self, node: Node, parent: Node) -> bool:
        """Return True if a node can be a key. The value of an invalid key is read and dropped."""
        if type(node.value) is not str:
            is_container = type(node.value) in (dict, list)
            advice = "a key is a text" if is_container else f'write "{format_value(node.value)}"'
            self.report(node, f"{format_value(node.value)} cannot be a key; {advice}")
            return False
        if node.value in parent.value:
            first = parent.value[node.value]
            self.report(node, f"has the key {format_value(node.value)} twice; it stands in line {first.line} already")
            return False
        return True
