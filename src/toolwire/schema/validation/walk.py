"""A walk through arguments that are not valid, from the outside in, along the schema that they do not fit.

Rules of this file:
- The library decides what is valid, here as elsewhere: a walk goes only where it says that something is not.
- A walk takes so many steps, goes so deep and no further; what it has found by then is told.
- Where `$ref` stands alone in a draft, what stands beside it is not looked at.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from toolwire.schema.validation.places import REFERENCES, Resources, Subschema
from toolwire.schema.validation.values import Display, Spot
from toolwire.schema.validation.wording import named, sentence

MAX_LEVELS = 100
MAX_HINTS = 20
MAX_FOLLOWED = 4
LAST = ""

Compile = Callable[[dict[str, Any]], Any]


class Ground(NamedTuple):
    """The schema that is walked along: its parts, how one of them is compiled, how many steps that takes."""

    root: Subschema
    resources: Resources
    compile: Compile
    toll: int
    ref_stands_alone: bool


class SchemaWalk:
    """One walk: what it may still cost, and what it asks the library."""

    __slots__ = ("_checks", "_ground", "_leaves", "_level", "_steps", "_tellers", "display", "hints")

    def __init__(self, tellers: Mapping[str, "Teller"], ground: Ground, display: Display, steps: int) -> None:
        self._tellers = tellers
        self._ground = ground
        self._checks: dict[str, Any] = {}
        self._leaves: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._steps = steps
        self._level = 0
        self.display = display
        self.hints = MAX_HINTS

    @property
    def tired(self) -> bool:
        """Whether there may be more to tell than the walk could reach."""
        return self._steps <= 0

    def compiled(self, place: Subschema) -> Any:
        """Compile the subschema at a place, once; none where the library does not find it."""
        if place.pointer not in self._checks:
            self._steps -= self._ground.toll
            self._checks[place.pointer] = self._ground.compile(
                {"$ref": f"{self._ground.root.base}#{quote(place.pointer)}"}
            )
        return self._checks[place.pointer]

    def fits(self, place: Subschema, value: Any) -> bool:
        """Whether a value is valid there."""
        if type(place.node) is bool:
            return place.node
        compiled = self.compiled(place)
        return compiled is None or bool(compiled.is_valid(value))

    def holds(self, keyword: str, limit: Any, value: Any, beside: Mapping[str, Any] | None = None) -> bool:
        """Whether a value is what one keyword asks for."""
        key = keyword, id(limit)
        if key not in self._leaves:
            self._leaves[key] = limit, self._ground.compile({keyword: limit, **(beside or {})})
        compiled = self._leaves[key][1]
        return compiled is None or bool(compiled.is_valid(value))

    def through(self, place: Subschema, value: Any, spot: Spot) -> Iterator[str]:
        """Tell the problems of a value that is not valid at a place."""
        node = place.node
        if node is False:
            yield sentence(spot, "is not allowed here")
            return
        if type(node) is not dict or self._steps <= 0 or self._level >= MAX_LEVELS:
            return
        self._steps -= 1
        self._level += 1
        try:
            yield from self._told(place, value, spot)
        finally:
            self._level -= 1

    def _told(self, place: Subschema, value: Any, spot: Spot) -> Iterator[str]:
        node, found = place.node, False
        keywords = {"$ref": node["$ref"]} if self._ground.ref_stands_alone and "$ref" in node else node
        for keyword, limit in keywords.items():
            tell = self._tellers.get(keyword)
            for problem in tell(self, place, keyword, limit, value, spot) if tell else ():
                found = True
                yield problem
        if not found and self._steps > 0:
            yield from self._tellers[LAST](self, place, LAST, None, value, spot)

    def into(self, place: Subschema, value: Any, spot: Spot) -> Iterator[str]:
        """Tell the problems of a value at a place; none if it is valid there."""
        if self._steps > 0 and not self.fits(place, value):
            told = False
            for problem in self.through(place, value, spot):
                told = True
                yield problem
            if not told:
                shown = self.display.value(value, spot)
                yield sentence(spot, f"{named(shown)} does not fit the schema at #{place.pointer}")

    def target(self, place: Subschema) -> Subschema:
        """Follow the references of a place that says nothing else of its type."""
        for _ in range(MAX_FOLLOWED):
            if type(place.node) is not dict or "$ref" not in place.node or "type" in place.node:
                return place
            place = next(self.targets(place), place)
        return place

    def targets(self, place: Subschema, keywords: Collection[str] = REFERENCES) -> Iterator[Subschema]:
        """Give what the references of a place mean, where they mean one thing."""
        for keyword, _, meant in self._ground.resources.meant(place):
            if keyword in keywords and len(meant) == 1:
                yield meant[0]


Teller = Callable[[SchemaWalk, Subschema, str, Any, Any, Spot], Iterator[str]]
