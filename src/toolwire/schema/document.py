"""A whole schema as a document: how large it is, what its references point to, and where in it a fit stands.

Rules of this file:
- A reference is followed inside the document only; nothing is fetched. An embedded `$id` opens no other one.
- Size counts JSON values, and 64 characters of text as one; what references and unions multiply, each time.
- The schemas of one request share an allowance for what is multiplied, so that many small ones cost no more than one.
"""

import re
from collections import deque
from graphlib import CycleError, TopologicalSorter
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.schema.draft import inside
from toolwire.schema.targets import Action, Note, Schema, Target

MAX_DEPTH = 100
MAX_NESTING = 256
MAX_SIZE = 100_000
_MAX_BITS = 4096
TEXT_UNIT = 64
_COMPARISONS = 20_000
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
    """Say which limit of depth a schema has passed."""
    return InvalidSchema(
        f"the schema is nested too deeply: at most {MAX_DEPTH} levels of subschemas, {MAX_NESTING} of JSON",
        path=path,
    )


class Allowance:
    """How many JSON values the schemas of one request may be multiplied by, and how often they may be compared."""

    __slots__ = ("comparisons", "values")

    def __init__(self) -> None:
        self.values: int = MAX_SIZE
        self.comparisons: int = _COMPARISONS

    def grow(self, size: int) -> None:
        """Allow more, for a schema of so many JSON values."""
        self.values += size
        self.comparisons += size

    def take(self, size: int, path: str) -> None:
        """Take so many values; refuse more than there are left."""
        self.values -= size
        if self.values < 0:
            message = f"the schemas of this request are too large together: {MAX_SIZE:,} JSON values may be written out"
            raise InvalidSchema(f"{message} for references and alternatives, and as many as they have", path=path)

    def may_compare(self) -> bool:
        """Take one comparison; False where none is left."""
        self.comparisons -= 1
        return self.comparisons >= 0


def _children(value: Any) -> tuple[list[Any], int]:
    """List the values inside a JSON value; also give the size of its own text."""
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
    """Count the JSON values of a value; refuse what is too large, too deep or not JSON."""
    size, level = 0, [value]
    for _ in range(MAX_NESTING):
        size += len(level)
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind in _SMALL or (kind is str and len(item) < TEXT_UNIT):
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
    """Every `$anchor` of a document, the first one of a name."""
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
    """Read a JSON pointer, as a URI fragment writes it."""
    return [step.replace("~1", "/").replace("~0", "~") for step in unquote(pointer).split("/")[1:]]


def pointed_at(root: Any, reference: Any) -> Any:
    """Give what a reference leads to inside of its document; None where it leads nowhere."""
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
    """Write one step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _definition(name: str) -> str:
    """Write the reference to a definition at the root."""
    return f"#/$defs/{pointer_step(name).replace('%', '%25')}"


class RootSchema:
    """A root schema, what its references point to, which of them a fit keeps, and what writing out the others costs."""

    __slots__ = (
        "_anchors",
        "_base",
        "_defined",
        "_found",
        "_kept",
        "_leads",
        "_sizes",
        "_spent",
        "allowance",
        "pending",
        "root",
    )

    def __init__(self, root: Schema, allowance: Allowance | None = None) -> None:
        self.root: Schema = root
        self.allowance: Allowance = Allowance() if allowance is None else allowance
        self._found: dict[str, Any] = {}
        self.pending: deque[tuple[str, str]] = deque()
        self._spent = 0
        self._sizes: dict[str, int] = {}
        self._anchors: dict[str, Any] | None = None
        base, defs = root.get("$id"), root.get("$defs")
        self._base = base.removesuffix("#") if isinstance(base, str) else ""
        self._defined = set(defs) if isinstance(defs, dict) else set()
        self._kept: dict[str, tuple[str, str]] = {}
        self._leads: dict[str, dict[str, str]] = {}

    def spend(self, size: int, path: str) -> None:
        """Count what is written out once more; refuse what would grow past the limit."""
        self._spent += size
        if self._spent > MAX_SIZE:
            raise _too_large(path)

    def open(self) -> None:
        """Count the schema itself."""
        size = measure(self.root)
        self.allowance.grow(size)
        self.spend(size, "")

    def multiply(self, size: int, path: str) -> None:
        """Count what is written out once more, and was not in the schema so often."""
        self.spend(size, path)
        self.allowance.take(size, path)

    def find(self, ref: str, path: str = "") -> Any:
        """Find the subschema that a reference points to."""
        if ref not in self._found:
            self._found[ref] = self._find(ref, path)
        return self._found[ref]

    def _find(self, ref: str, path: str) -> Any:
        fragment = ref.removeprefix(self._base) if self._base and "#" in ref else ref
        if not fragment.startswith("#"):
            raise InvalidSchema(f"$ref {ref!r} points outside the schema; move its target into $defs", path=path)
        value = self._look_up(fragment[1:])
        if not isinstance(value, dict | bool):
            raise InvalidSchema(f"$ref {ref!r} points to no schema in this document", path=path)
        return value

    def expand(self, ref: str, path: str) -> Any:
        """Find the subschema that a reference points to, and count it as written out in its place."""
        value = self.find(ref, path)
        if ref not in self._sizes:
            self._sizes[ref] = measure(value, path)
        self.multiply(self._sizes[ref], path)
        return value

    def _look_up(self, fragment: str) -> Any:
        """Find what a fragment names; None where it names nothing."""
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

    def keep(self, ref: str, site: "Site") -> str:
        """Name a reference so that it holds in the fitted schema, and remember where it leads."""
        if ref not in self._kept:
            self._kept[ref] = self._name(ref, site.path)
        goal, kept = self._kept[ref]
        if not site.soft:
            self._leads.setdefault(site.owner, {}).setdefault(goal, site.path)
        return kept

    def _name(self, ref: str, path: str) -> tuple[str, str]:
        """Give the definition that a reference leads to, and how it is written; it may have to be defined first."""
        if self.find(ref, path) is self.root:
            return _ROOT, _ROOT
        pointer = ref.partition("#")[2]
        steps = pointer_steps(pointer) if pointer.startswith("/") else [pointer]
        if steps[:-1] == ["$defs"] and steps[-1] in self._defined:
            return _definition(steps[-1]), f"#{pointer}"
        name, count = steps[-1], 1
        while name in self._defined:
            count += 1
            name = f"{steps[-1]}_{count}"
        self._defined.add(name)
        self.pending.append((name, ref))
        return _definition(name), _definition(name)

    def refuse_cycles(self, target: Target) -> None:
        """Refuse kept references that lead back to themselves in a way that the target does not follow."""
        if not self._leads:
            return
        try:
            TopologicalSorter(self._leads).prepare()
        except CycleError as problem:
            start, *cycle = reversed(problem.args[1])
            route = " -> ".join((start, *cycle))
            raise SchemaRecursive(
                f"$ref {cycle[0]!r} leads back to itself ({route}); {_allowed_cycles(target)}",
                path=inside(self._leads[start][cycle[0]], "$ref"),
            ) from None


def _allowed_cycles(target: Target) -> str:
    if not target.cycle_through:
        return f"{target.name} takes no recursive schema"
    if target.cycle_through == {"optional"}:
        return f"{target.name} follows a cycle only through properties that are not required"
    return "a cycle needs a property or an item in between"


class Site(Struct, frozen=True):
    """Where a fit stands: the target, the document, the path, and the references written out on the way.

    `owner`: the definition that it stands in. `soft`: a reference here may close a cycle.
    """

    target: Target
    document: RootSchema
    notes: list[Note]
    path: str = ""
    depth: int = 0
    trail: frozenset[str] = frozenset()
    owner: str = _ROOT
    soft: bool = False
    root: bool = False

    def below(self, step: str, passing: str = "") -> "Site":
        """Go one subschema further down; `passing` says through what."""
        return Site(
            self.target,
            self.document,
            self.notes,
            inside(self.path, step),
            self.depth + 1,
            self.trail,
            self.owner,
            self.soft or passing in self.target.cycle_through,
        )

    def defining(self, name: str) -> "Site":
        """Go to a definition."""
        return Site(self.target, self.document, self.notes, f"$defs.{name}", 1, owner=_definition(name))

    def note(self, keyword: str, action: Action, detail: str, changes: bool = True) -> None:
        """Record what became of a keyword here."""
        self.notes.append(Note(self.path, keyword, action, detail, changes))
