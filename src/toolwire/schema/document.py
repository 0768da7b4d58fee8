"""A whole schema as a document: how large it is, and what its references point to.

Rules of this file:
- A reference is followed inside the document only; nothing is fetched. An embedded `$id` opens no other one.
- Size counts JSON values, and 64 characters of text as one; what references and unions multiply, each time.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from toolwire.errors import InvalidSchema
from toolwire.schema.targets import Schema

MAX_DEPTH = 100
MAX_NESTING = 256
MAX_SIZE = 100_000
MAX_BITS = 4096
TEXT_UNIT = 64
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


def _too_large(path: str) -> InvalidSchema:
    return InvalidSchema(
        f"the schema is too large: more than {MAX_SIZE:,} JSON values, once what it refers to is written out",
        path=path,
    )


def too_deep(path: str) -> InvalidSchema:
    """Say which limit of depth a schema has passed."""
    return InvalidSchema(
        f"the schema is nested too deeply: at most {MAX_DEPTH} levels of subschemas, {MAX_NESTING} of JSON",
        path=path,
    )


def _children(value: Any) -> tuple[list[Any], int]:
    """List the values inside a JSON value; also give the size of its own text."""
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise InvalidSchema("the schema is not JSON: every key must be a string")
        return list(value.values()), sum(map(len, value)) // TEXT_UNIT
    if isinstance(value, list):
        return value, 0
    if isinstance(value, str):
        return [], len(value) // TEXT_UNIT
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise InvalidSchema(f"the schema holds an integer of more than {MAX_BITS:,} bits")
    if value is None or isinstance(value, bool | int | float):
        return [], 0
    raise InvalidSchema(f"the schema is not JSON: it holds a value of type {type(value).__name__}")


def measure(value: Any, path: str = "") -> int:
    """Count the JSON values of a value; refuse what is too large, too deep or not JSON."""
    size, level = 0, [value]
    for _ in range(MAX_NESTING):
        size += len(level)
        below: list[Any] = []
        for item in level:
            if type(item) is str and len(item) < TEXT_UNIT:
                continue
            children, text = _children(item)
            below += children
            size += text
            if size + len(below) > MAX_SIZE:
                raise _too_large(path)
        if not below:
            return size
        level = below
    raise too_deep(path)


def _values(root: Any) -> Iterator[Any]:
    level = [root]
    while level:
        yield from level
        level = [child for item in level for child in _children(item)[0]]


def _anchors(root: Schema) -> dict[str, Any]:
    """Every `$anchor` of a document, the first one of a name."""
    found: dict[str, Any] = {}
    for value in _values(root):
        if isinstance(value, dict):
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := value.get(keyword), str):
                    found.setdefault(name, value)
    return found


def _step(value: Any, key: str) -> tuple[bool, Any]:
    if isinstance(value, dict) and key in value:
        return True, value[key]
    if isinstance(value, list) and _INDEX.fullmatch(key) and int(key) < len(value):
        return True, value[int(key)]
    return False, None


def pointer_steps(pointer: str) -> list[str]:
    """Read a JSON pointer, as a URI fragment writes it."""
    return [step.replace("~1", "/").replace("~0", "~") for step in unquote(pointer).split("/")[1:]]


def pointer_step(name: str) -> str:
    """Write one step of a JSON pointer in a URI fragment."""
    escaped = name.replace("~", "~0").replace("/", "~1")
    return escaped.replace("%", "%25")


class RootSchema:
    """A root schema, what its references point to, and how much writing them out has cost so far."""

    __slots__ = ("_anchors", "_base", "_sizes", "_spent", "root")

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._spent = 0
        self._sizes: dict[str, int] = {}
        self._anchors: dict[str, Any] | None = None
        base = root.get("$id")
        self._base = base.removesuffix("#") if isinstance(base, str) else ""

    def spend(self, size: int, path: str) -> None:
        """Count what is written out once more; refuse what would grow past the limit."""
        self._spent += size
        if self._spent > MAX_SIZE:
            raise _too_large(path)

    def find(self, ref: str, path: str = "") -> Any:
        """Find the subschema that a reference points to."""
        fragment = ref.removeprefix(self._base) if self._base and "#" in ref else ref
        if not fragment.startswith("#"):
            raise InvalidSchema(f"$ref {ref!r} points outside of the schema; move what it names into $defs", path=path)
        found, value = self._look_up(fragment[1:])
        if not found or not isinstance(value, dict | bool):
            raise InvalidSchema(f"$ref {ref!r} points to no schema in this document", path=path)
        return value

    def expand(self, ref: str, path: str) -> Any:
        """Find the subschema that a reference points to, and count it as written out in its place."""
        value = self.find(ref, path)
        if ref not in self._sizes:
            self._sizes[ref] = measure(value, path)
        self.spend(self._sizes[ref], path)
        return value

    def _look_up(self, fragment: str) -> tuple[bool, Any]:
        if fragment and not fragment.startswith("/"):
            if self._anchors is None:
                self._anchors = _anchors(self.root)
            return fragment in self._anchors, self._anchors.get(fragment)
        value: Any = self.root
        for step in pointer_steps(fragment):
            found, value = _step(value, step)
            if not found:
                return False, None
        return True, value
