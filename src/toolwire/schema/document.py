"""A whole schema as a document: its size, the targets of its references, and the position of the fitting inside it.

Rules of this file:
- References are resolved inside the document only, and nothing is fetched. An embedded `$id` starts no new document.
- The size is the number of JSON values, and 64 characters of text count as one. What references and unions multiply
  is counted each time.
- The schemas of one request share an allowance for multiplied values, so that many small schemas cost no more than
  one large one.
"""

import re
from collections import deque
from graphlib import CycleError, TopologicalSorter
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.schema.draft import join_path
from toolwire.schema.targets import Action, Note, Schema, Target

MAX_DEPTH = 100
MAX_NESTING = 256
MAX_SIZE = 100_000
_MAX_BITS = 4096
TEXT_UNIT = 64
_MAX_COMPARISONS = 20_000
_ROOT = "#"
_ONLY_TEXT = frozenset({str})
_SMALL = (bool, float, type(None))
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


def _too_large(path: str) -> InvalidSchema:
    return InvalidSchema(
        f"the schema is too large: more than {MAX_SIZE:,} JSON values, once its references are written out",
        path=path,
    )


def too_deep(path: str) -> InvalidSchema:
    """Return the error for a schema that exceeds the limit of depth."""
    return InvalidSchema(
        f"the schema is nested too deeply: at most {MAX_DEPTH} levels of subschemas, {MAX_NESTING} of JSON",
        path=path,
    )


class Allowance:
    """How much the schemas of one request may grow: the JSON values that are written again, and the comparisons."""

    __slots__ = ("comparisons", "values")

    def __init__(self) -> None:
        self.values: int = MAX_SIZE
        self.comparisons: int = _MAX_COMPARISONS

    def grow(self, size: int) -> None:
        """Increase the allowance for a schema of `size` JSON values."""
        self.values += size
        self.comparisons += size

    def take(self, size: int, path: str) -> None:
        """Use up `size` values. Raise `InvalidSchema` if fewer are left."""
        self.values -= size
        if self.values < 0:
            message = f"the schemas of this request are too large together: {MAX_SIZE:,} JSON values may be written out"
            raise InvalidSchema(f"{message} for references and alternatives, and as many as they have", path=path)

    def try_compare(self) -> bool:
        """Use up one comparison. Return False if none is left."""
        self.comparisons -= 1
        return self.comparisons >= 0


def _children(value: Any) -> tuple[list[Any], int]:
    """Return the values directly inside a JSON value, and the size of its own text."""
    if isinstance(value, dict):
        if not _ONLY_TEXT.issuperset(map(type, value)) and not all(isinstance(key, str) for key in value):
            raise InvalidSchema("the schema is not JSON: every key must be a string")
        return list(value.values()), sum(map(len, value)) // TEXT_UNIT
    if isinstance(value, list):
        return value, 0
    if isinstance(value, str):
        return [], len(value) // TEXT_UNIT
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise InvalidSchema(f"the schema holds an integer of more than {_MAX_BITS:,} bits")
    if value is None or isinstance(value, bool | int | float):
        return [], 0
    raise InvalidSchema(f"the schema is not JSON: it holds a value of type {type(value).__name__}")


def measure(value: Any, path: str = "") -> int:
    """Return the number of JSON values in `value`. Raise `InvalidSchema` if it is too large, too deep or not JSON."""
    size, level = 0, [value]
    for _ in range(MAX_NESTING):
        size += len(level)
        below: list[Any] = []
        for item in level:
            value_type = type(item)
            if value_type in _SMALL or (value_type is str and len(item) < TEXT_UNIT):
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


def _anchors(root: Schema) -> dict[str, Any]:
    """Return the subschemas of a document by `$anchor`. The first one of a name counts."""
    anchors: dict[str, Any] = {}
    level: list[Any] = [root]
    while level:
        for value in level:
            for keyword in ("$anchor", "$dynamicAnchor") if isinstance(value, dict) else ():
                if isinstance(name := value.get(keyword), str):
                    anchors.setdefault(name, value)
        level = [child for value in level for child in _children(value)[0]]
    return anchors


def pointer_steps(pointer: str) -> list[str]:
    """Split a JSON pointer that is written as a URI fragment into its steps."""
    return [step.replace("~1", "/").replace("~0", "~") for step in unquote(pointer).split("/")[1:]]


def resolve_pointer(root: Any, reference: Any) -> Any:
    """Return the value that `reference` points to inside `root`, or None if it points to nothing there."""
    if type(reference) is not str or not reference.startswith("#"):
        return None
    for step in pointer_steps(reference[1:]):
        match root:
            case dict():
                root = root.get(step)
            case list() if step.isdecimal() and int(step) < len(root):
                root = root[int(step)]
            case _:
                return None
    return root


def pointer_step(name: str) -> str:
    """Escape `name` as one step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _definition_pointer(name: str) -> str:
    """Return the reference to the definition `name` at the root."""
    return f"#/$defs/{pointer_step(name).replace('%', '%25')}"


class RootSchema:
    """A root schema with the targets of its references, and the cost of writing them out."""

    __slots__ = (
        "_anchors",
        "_base",
        "_definition_names",
        "_edges",
        "_kept_references",
        "_sizes",
        "_spent",
        "_targets",
        "allowance",
        "pending",
        "root",
    )

    def __init__(self, root: Schema, allowance: Allowance | None = None) -> None:
        self.root: Schema = root
        self.allowance: Allowance = Allowance() if allowance is None else allowance
        self._targets: dict[str, Any] = {}
        self.pending: deque[tuple[str, str]] = deque()
        self._spent = 0
        self._sizes: dict[str, int] = {}
        self._anchors: dict[str, Any] | None = None
        base, defs = root.get("$id"), root.get("$defs")
        self._base = base.removesuffix("#") if isinstance(base, str) else ""
        self._definition_names = set(defs) if isinstance(defs, dict) else set()
        self._kept_references: dict[str, tuple[str, str]] = {}
        self._edges: dict[str, dict[str, str]] = {}

    def spend(self, size: int, path: str) -> None:
        """Count `size` values as written. Raise `InvalidSchema` if the schema grows past the limit."""
        self._spent += size
        if self._spent > MAX_SIZE:
            raise _too_large(path)

    def count_root(self) -> None:
        """Count the schema itself."""
        size = measure(self.root)
        self.allowance.grow(size)
        self.spend(size, "")

    def multiply(self, size: int, path: str) -> None:
        """Count `size` values that are written more often than they occur in the schema."""
        self.spend(size, path)
        self.allowance.take(size, path)

    def find(self, ref: str, path: str = "") -> Any:
        """Return the subschema that `ref` points to. Raise `InvalidSchema` if there is none in this document."""
        if ref not in self._targets:
            self._targets[ref] = self._resolve(ref, path)
        return self._targets[ref]

    def _resolve(self, ref: str, path: str) -> Any:
        fragment = ref.removeprefix(self._base) if self._base and "#" in ref else ref
        if not fragment.startswith("#"):
            raise InvalidSchema(f"$ref {ref!r} points outside the schema; move its target into $defs", path=path)
        value = self._find_fragment(fragment[1:])
        if not isinstance(value, dict | bool):
            raise InvalidSchema(f"$ref {ref!r} points to no schema in this document", path=path)
        return value

    def expand(self, ref: str, path: str) -> Any:
        """Return the subschema that `ref` points to, and count it as written out in place of the reference."""
        value = self.find(ref, path)
        if ref not in self._sizes:
            self._sizes[ref] = measure(value, path)
        self.multiply(self._sizes[ref], path)
        return value

    def _find_fragment(self, fragment: str) -> Any:
        """Return the value at `fragment`, or None if there is none."""
        if fragment and not fragment.startswith("/"):
            if self._anchors is None:
                self._anchors = _anchors(self.root)
            return self._anchors.get(fragment)
        value: Any = self.root
        for step in pointer_steps(fragment):
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
                value = value[int(step)]
            else:
                return None
        return value

    def keep_reference(self, ref: str, site: "Site") -> str:
        """Return the reference that the fitted schema uses for `ref`, and record the edge for `reject_cycles`."""
        if ref not in self._kept_references:
            self._kept_references[ref] = self._define(ref, site.path)
        definition, reference = self._kept_references[ref]
        if not site.cycle_allowed:
            self._edges.setdefault(site.owner, {}).setdefault(definition, site.path)
        return reference

    def _define(self, ref: str, path: str) -> tuple[str, str]:
        """Return the definition that `ref` points to, and the reference to it. A missing definition is scheduled."""
        if self.find(ref, path) is self.root:
            return _ROOT, _ROOT
        pointer = ref.partition("#")[2]
        steps = pointer_steps(pointer) if pointer.startswith("/") else [pointer]
        if steps[:-1] == ["$defs"] and steps[-1] in self._definition_names:
            return _definition_pointer(steps[-1]), f"#{pointer}"
        name, count = steps[-1], 1
        while name in self._definition_names:
            count += 1
            name = f"{steps[-1]}_{count}"
        self._definition_names.add(name)
        self.pending.append((name, ref))
        return _definition_pointer(name), _definition_pointer(name)

    def reject_cycles(self, target: Target) -> None:
        """Raise `SchemaRecursive` if the kept references form a cycle that the target does not support."""
        if not self._edges:
            return
        try:
            TopologicalSorter(self._edges).prepare()
        except CycleError as problem:
            start, *cycle = reversed(problem.args[1])
            cycle_text = " -> ".join((start, *cycle))
            raise SchemaRecursive(
                f"$ref {cycle[0]!r} leads back to itself ({cycle_text}); {_cycle_rule(target)}",
                path=join_path(self._edges[start][cycle[0]], "$ref"),
            ) from None


def _cycle_rule(target: Target) -> str:
    if not target.cycle_through:
        return f"{target.name} does not support recursive schemas"
    if target.cycle_through == {"optional"}:
        return f"{target.name} supports a cycle only through properties that are not required"
    return "a cycle needs a property or an item in between"


class Site(Struct, frozen=True):
    """The position of a fitting: target, document, path, and the references that were expanded on the way.

    `owner` is the definition that contains it. If `cycle_allowed`, a reference here may close a cycle.
    """

    target: Target
    document: RootSchema
    notes: list[Note]
    path: str = ""
    depth: int = 0
    expanded: frozenset[str] = frozenset()
    owner: str = _ROOT
    cycle_allowed: bool = False
    root: bool = False

    def below(self, step: str, through: str = "") -> "Site":
        """Return the position one subschema further down.

        `through` is the kind of member that contains it, as in `Target.cycle_through`.
        """
        return Site(
            self.target,
            self.document,
            self.notes,
            join_path(self.path, step),
            self.depth + 1,
            self.expanded,
            self.owner,
            self.cycle_allowed or through in self.target.cycle_through,
        )

    def defining(self, name: str) -> "Site":
        """Return the position of the definition `name`."""
        return Site(self.target, self.document, self.notes, f"$defs.{name}", 1, owner=_definition_pointer(name))

    def note(self, keyword: str, action: Action, detail: str, changes: bool = True) -> None:
        """Record what happened to `keyword` here."""
        self.notes.append(Note(self.path, keyword, action, detail, changes))
