"""The results of a fit, and the place in a schema where it stands.

Rule: a path is written as in a loss: names joined by dots, positions in brackets; the root is the empty path.
"""

from graphlib import CycleError, TopologicalSorter

from msgspec import Struct
from msgspec.structs import replace

from toolwire.errors import SchemaRecursive
from toolwire.schema.document import RootSchema, pointer_step, pointer_steps
from toolwire.schema.targets import Action, Schema, Target

ROOT = "#"


class Note(Struct, frozen=True):
    """One thing that a fitted schema says otherwise: where, which keyword, and what became of it.

    `dropped`: it is gone. `described`: it stands in the description. `approximated`: it is said nearly so.
    """

    path: str
    keyword: str
    action: Action
    detail: str


class Fitted(Struct, frozen=True):
    """A schema that a target understands, and what had to be said otherwise for it."""

    schema: Schema
    notes: tuple[Note, ...] = ()


class References:
    """The references that a fitted schema keeps: their names, what is still to define, which lead where."""

    __slots__ = ("_defined", "_document", "_edges", "_kept", "_places", "pending")

    def __init__(self, document: RootSchema) -> None:
        self._document = document
        defs = document.root.get("$defs")
        self._defined = set(defs) if isinstance(defs, dict) else set()
        self._kept: dict[str, tuple[str, str]] = {}
        self._edges: dict[str, list[str]] = {}
        self._places: dict[tuple[str, str], str] = {}
        self.pending: list[tuple[str, str]] = []

    def keep(self, ref: str, site: "Site") -> str:
        """Name a reference so that it holds in the fitted schema, and remember where it leads."""
        if ref not in self._kept:
            self._kept[ref] = self._name(ref, site.path)
        goal, kept = self._kept[ref]
        if not site.soft:
            self._edges.setdefault(site.owner, []).append(goal)
            self._places.setdefault((site.owner, goal), site.path)
        return kept

    def _name(self, ref: str, path: str) -> tuple[str, str]:
        if self._document.find(ref, path) is self._document.root:
            return ROOT, ROOT
        pointer = ref.partition("#")[2]
        steps = pointer_steps(pointer) if pointer.startswith("/") else [pointer]
        if steps[:-1] == ["$defs"] and steps[-1] in self._defined:
            return definition(steps[-1]), f"#{pointer}"
        name, count = steps[-1], 1
        while name in self._defined:
            count += 1
            name = f"{steps[-1]}_{count}"
        self._defined.add(name)
        self.pending.append((name, ref))
        return definition(name), definition(name)

    def refuse_cycles(self, target: Target) -> None:
        """Refuse references that lead back to themselves in a way that the target does not follow."""
        try:
            TopologicalSorter(self._edges).prepare()
        except CycleError as found:
            start, *cycle = reversed(found.args[1])
            path = self._places[start, cycle[0]]
            route = " -> ".join((start, *cycle))
            raise SchemaRecursive(
                f"$ref {cycle[0]!r} leads back to itself ({route}); {_allowed_cycles(target)}",
                path=f"{path}.$ref" if path else "$ref",
            ) from None


def definition(name: str) -> str:
    """Write the reference to a definition at the root."""
    return f"#/$defs/{pointer_step(name)}"


def _allowed_cycles(target: Target) -> str:
    if not target.cycle_through:
        return f"{target.name} takes no recursive schema"
    if target.cycle_through == {"optional"}:
        return f"{target.name} follows a cycle only through properties that are not required"
    return "a cycle needs a property or an item in between"


class Site(Struct, frozen=True):
    """Where a fit stands: the target, the document, the path, and the references written out on the way."""

    target: Target
    document: RootSchema
    references: References
    notes: list[Note]
    path: str = ""
    depth: int = 0
    trail: frozenset[str] = frozenset()
    owner: str = ROOT
    soft: bool = False
    root: bool = False

    def below(self, step: str, passing: str = "") -> "Site":
        """Go one subschema further down; `passing` says through what."""
        return Site(
            self.target,
            self.document,
            self.references,
            self.notes,
            f"{self.path}.{step}" if self.path else step,
            self.depth + 1,
            self.trail,
            self.owner,
            self.soft or passing in self.target.cycle_through,
        )

    def defining(self, name: str) -> "Site":
        """Go to a definition."""
        owner, path = definition(name), f"$defs.{name}"
        return Site(self.target, self.document, self.references, self.notes, path, 1, owner=owner)

    def expanding(self, trail: frozenset[str]) -> "Site":
        """Stay here, with the references that were written out on the way."""
        return replace(self, trail=trail)

    def note(self, keyword: str, action: Action, detail: str) -> None:
        """Record what became of a keyword here."""
        self.notes.append(Note(self.path, keyword, action, detail))
