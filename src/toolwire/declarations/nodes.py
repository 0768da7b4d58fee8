"""A text as a tree of values that know where they stand, and what is wrong with it, each thing with its place.

Rules of this file:
- A problem reads `tools.yaml:7:5: tools[0].parameters: must be a map, not 5`: file, line, column, field, and
  what would be right. All of them are told at once.
- The tree is built the same way from YAML and from JSON. A value in a map stands where its key stands.
- A key is text, and is given once. An alias is a copy: it counts, in size and in depth, each time it is used.
- The limits are checked while the tree is built, so that no text costs more than they allow.
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
_MAX_SHOWN = 80
_MAX_FIELD = 200
_MAX_REASON = 1000
_PLAIN_KEY = re.compile(r"[^\s.\[\]\"':]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


class TextPosition(Struct, frozen=True, gc=False):
    """Where something stands in a text; lines and columns are counted from 1."""

    line: int
    column: int


START = TextPosition(1, 1)


class Problem(Struct, frozen=True):
    """One thing that is wrong: its file, its place, its field, the reason, and the exception if there was one."""

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
        self.found: list[Problem] = []

    def add(self, place: Any, field: str, reason: str, cause: BaseException | None = None) -> None:
        """Note a problem; `place` has a line and a column. One too many ends it: nobody would read more."""
        is_last = len(self.found) + 1 == _MAX_PROBLEMS
        told = brief(reason, _MAX_REASON) + " (no more problems are looked for)" * is_last
        self.found.append(Problem(self.name, place.line, place.column, brief(field, _MAX_FIELD), told, cause))
        if is_last:
            self.refuse()

    def stop(self, place: Any, field: str, reason: str, cause: BaseException | None = None) -> NoReturn:
        """Note a problem after which nothing more can be read, and raise all that was found."""
        self.add(place, field, reason, cause)
        self.refuse()
        raise AssertionError

    def refuse(self) -> None:
        """Raise what was found, if anything was."""
        if self.found:
            told = sorted(self.found, key=lambda problem: (problem.line, problem.column))
            cause = next((problem.cause for problem in told if problem.cause is not None), None)
            raise DeclarationError(told) from cause


def below(field: str, step: str | int) -> str:
    """Write the name of a field one step further down."""
    if isinstance(step, int):
        return f"{field}[{step}]"
    if not _PLAIN_KEY.fullmatch(step):
        return f"{field}[{shown(step)}]"
    return f"{field}.{step}" if field else step


def shown(value: Any) -> str:
    """Write a value as the file would, briefly."""
    match value:
        case dict():
            return "a map"
        case list():
            return "a list"
    return brief(json.dumps(value, ensure_ascii=False), _MAX_SHOWN)


def brief(text: str, limit: int) -> str:
    """Cut a text where nobody would read on."""
    return text if len(text) <= limit else f"{text[:limit]}..."


def suggestion(word: str, known: Iterable[str]) -> str:
    """Say which known word was probably meant, or which there are."""
    words = sorted(known)
    if near := did_you_mean(word, words):
        return near.removeprefix("; ")
    return f"known: {', '.join(words[:20])}{', ...' if len(words) > 20 else ''}" if words else "there are none"


class Node(Struct):
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

    def moved_to(self, place: "TextPosition | Node") -> "Node":
        """Give the same value at another place."""
        return Node(self.value, place.line, place.column, self.size, self.height)


class _Open(Struct):
    """A list or a map that is being built; `key` waits for its value, and is None inside if it cannot be one."""

    node: Node
    anchor: str | None
    key: Node | None = None


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
        self._open.append(_Open(Node(value, place.line, place.column, height=1), anchor))

    def end(self) -> None:
        """End the innermost list or map."""
        done = self._open.pop()
        self._put(done.node, done.anchor)

    def scalar(self, value: Any, place: TextPosition, anchor: str | None = None) -> None:
        """Take a text, a number, a boolean or None."""
        size = 1
        if type(value) is str:
            size += len(value) // _TEXT_UNIT
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
        self._put(node.moved_to(place))

    @property
    def wants_key(self) -> bool:
        """Whether a key of a map comes next."""
        return bool(self._open) and type(self._open[-1].node.value) is dict and self._open[-1].key is None

    def report(self, place: TextPosition | Node, reason: str) -> None:
        """Note a problem at the field that is being read."""
        self.problems.add(place, self._field(), reason)

    def stop(self, place: TextPosition, reason: str) -> NoReturn:
        """Note a problem after which nothing more can be read, and raise all that was found."""
        self.problems.stop(place, self._field(), reason)

    def _field(self) -> str:
        field = ""
        for above in self._open:
            if type(above.node.value) is list:
                field = below(field, len(above.node.value))
            elif above.key is not None:
                field = below(field, above.key.value or "?")
        return field

    def _spend(self, size: int, place: TextPosition) -> None:
        self._size += size
        if self._size > _MAX_NODES:
            self.stop(place, f"is too large: more than {_MAX_NODES:,} values, with what aliases repeat")

    def _put(self, node: Node, anchor: str | None = None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._open:
            self.root = node
            return
        above = self._open[-1]
        whole = above.node
        whole.size += node.size
        whole.height = max(whole.height, node.height + 1)
        if type(whole.value) is list:
            whole.value.append(node)
        elif above.key is None:
            above.key = node if self._is_key(node, whole) else Node(None, node.line, node.column)
        else:
            key, above.key = above.key, None
            if key.value is not None:
                whole.value[key.value] = node.moved_to(key)

    def _is_key(self, node: Node, whole: Node) -> bool:
        """Whether a node can be a key; the value of one that cannot is read, and left out."""
        if type(node.value) is not str:
            is_large = type(node.value) in (dict, list)
            right = "a key is a text" if is_large else f'write "{shown(node.value)}"'
            self.report(node, f"{shown(node.value)} cannot be a key; {right}")
            return False
        if node.value in whole.value:
            first = whole.value[node.value]
            self.report(node, f"has the key {shown(node.value)} twice; it stands in line {first.line} already")
            return False
        return True
