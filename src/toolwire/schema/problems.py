"""What is wrong with arguments that are not valid: a walk from the outside in, along the schema that they do not fit.

Rules of this file:
- The library decides what is valid, here as elsewhere: a walk goes only where it says that something is not.
- A walk takes so many steps, goes so deep and no further; what it has found by then is told.
- Problems come in the order of the schema, each told where it lies; each keyword has its row in the table.
- Where `$ref` stands alone in a draft, what stands beside it is not looked at.
- Of alternatives, the problems of the closest one are told. Closest is what has the right type, then what has the
  right literals (`kind: circle`), then what has the fewest problems. Alternatives that are nothing but types or
  literals are told as one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import quote

from toolwire.schema.draft import as_list
from toolwire.schema.subschemas import REFERENCES, SAME_VALUE, Resources, Subschema, held
from toolwire.schema.wording import (
    WORDS,
    Display,
    Spot,
    counted,
    form,
    mismatch,
    missing_field,
    named,
    sentence,
    unknown_field,
)

_MAX_LEVELS = 100
_MAX_HINTS = 20
_MAX_FOLLOWED = 4
_MAX_EXPLORED = 4
_LEVELS = 4
_MOST_NAMES = 1000
_UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})


class Ground(NamedTuple):
    """The schema that is walked along: its parts, how one of them is compiled, how many steps that takes."""

    root: Subschema
    resources: Resources
    compile: Callable[[dict[str, Any]], Any]
    toll: int
    ref_stands_alone: bool


class _Asked(NamedTuple):
    """What one keyword of a subschema asks of a value, and where the value stands."""

    place: Subschema
    keyword: str
    limit: Any
    value: Any
    spot: Spot

    def below(self, step: str | int | None, node: Any) -> Subschema:
        return self.place.below(self.keyword, step, node)


class SchemaWalk:
    """One walk: what it may still cost, and what it asks the library."""

    __slots__ = ("_checks", "_ground", "_leaves", "_level", "_steps", "display", "hints")

    def __init__(self, ground: Ground, display: Display, steps: int) -> None:
        self._ground = ground
        self._checks: dict[str, Any] = {}
        self._leaves: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._steps = steps
        self._level = 0
        self.display: Display = display
        self.hints: int = _MAX_HINTS

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
        if type(node) is not dict or self._steps <= 0 or self._level >= _MAX_LEVELS:
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
            kind, tell = _TELLERS.get(keyword, _NOTHING_TO_TELL)
            for problem in tell(self, _Asked(place, keyword, limit, value, spot)) if isinstance(value, kind) else ():
                found = True
                yield problem
        if not found and self._steps > 0:
            yield from _unevaluated(self, place, value, spot)

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
        for _ in range(_MAX_FOLLOWED):
            if type(place.node) is not dict or "$ref" not in place.node or "type" in place.node:
                return place
            place = next(self.targets(place), place)
        return place

    def targets(self, place: Subschema, keywords: Collection[str] = REFERENCES) -> Iterator[Subschema]:
        """Give what the references of a place mean, where they mean one thing."""
        for keyword, _, meant in self._ground.resources.meant(place):
            if keyword in keywords and len(meant) == 1:
                yield meant[0]


def _leaf(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    _, keyword, limit, value, spot = asked
    beside = {}
    if keyword in ("minimum", "maximum"):
        exclusive = f"exclusive{keyword.capitalize()}"
        beside = {exclusive: True} if asked.place.node.get(exclusive) is True else {}
    elif keyword.startswith("exclusive") and isinstance(limit, bool):
        return
    if not walk.holds(keyword, limit, value, beside):
        yield mismatch(keyword, limit, value, spot, walk.display)


def _required(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    for name in asked.limit:
        if name not in asked.value:
            yield missing_field(walk.display.below(asked.spot, name, declared=True))


def _dependent(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    """Tell what a field that is there needs beside it: other fields by name, or a form of the whole."""
    for cause, needed in asked.limit.items():
        for name in needed if cause in asked.value and type(needed) is list else ():
            if name not in asked.value:
                yield missing_field(walk.display.below(asked.spot, name, declared=True), f"needed beside {cause}")
    for cause, node in asked.limit.items() if asked.keyword != "dependentRequired" else ():
        if cause in asked.value and type(node) is not list:
            yield from walk.into(asked.below(cause, node), asked.value, asked.spot)


def _properties(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    for name, node in asked.limit.items():
        if name in asked.value:
            field = walk.display.below(asked.spot, name, declared=True)
            yield from walk.into(asked.below(name, node), asked.value[name], field)


def _pattern_properties(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    for pattern, node in asked.limit.items():
        for name, value in asked.value.items():
            if walk.holds("pattern", pattern, name):
                yield from walk.into(asked.below(pattern, node), value, walk.display.below(asked.spot, name))


def _additional_properties(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    node = asked.place.node
    known, patterns = node.get("properties", {}), node.get("patternProperties", {})
    for name, value in asked.value.items():
        if name in known or any(walk.holds("pattern", pattern, name) for pattern in patterns):
            continue
        if asked.limit is False:
            yield _unknown(walk, name, asked.spot, known)
        else:
            yield from walk.into(asked.below(None, asked.limit), value, walk.display.below(asked.spot, name))


def _unknown(walk: SchemaWalk, name: str, spot: Spot, known: Iterable[str]) -> str:
    """Tell of an unknown field; only for the first of many is it looked for what was meant."""
    walk.hints -= 1
    return unknown_field(name, spot, known, walk.display, hint=walk.hints >= 0)


def _property_names(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    below = asked.below(None, asked.limit)
    for name in asked.value:
        if not walk.fits(below, name):
            field = walk.display.below(asked.spot, name)
            yield from walk.into(below, name, Spot(f"name {field.path}", field.secret))


def _items(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    place, keyword, limit, value, spot = asked
    if type(limit) is list:
        for index, (node, item) in enumerate(zip(limit, value, strict=False)):
            yield from walk.into(asked.below(index, node), item, spot.item(index))
        return
    members = place.node.get("items") if keyword == "additionalItems" else place.node.get("prefixItems")
    first = len(members) if type(members) is list else 0
    if keyword == "additionalItems" and type(members) is not list:
        return
    if limit is False and len(value) > first:
        got = walk.display.count(len(value), value, spot)
        yield sentence(spot, f"expected at most {counted(first, 'item')}, got {got}")
        return
    below = asked.below(None, limit)
    for index, item in enumerate(islice(value, first, None), first):
        yield from walk.into(below, item, spot.item(index))


def _contains(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    place, _, limit, value, spot = asked
    least, most = place.node.get("minContains", 1), place.node.get("maxContains")
    below = asked.below(None, limit)
    count = sum(walk.fits(below, item) for item in value)
    if count < least:
        bound = f"at least {counted(least, 'item')}"
    elif most is not None and count > most:
        bound = f"at most {counted(most, 'item')}"
    else:
        return
    got = walk.display.count(count, value, spot)
    yield sentence(spot, f"expected {bound} of this form: {form(limit)}; got {got}")


def _all_of(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    for index, node in enumerate(asked.limit):
        yield from walk.into(asked.below(index, node), asked.value, asked.spot)


def _not(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    if walk.fits(asked.below(None, asked.limit), asked.value):
        shown = walk.display.value(asked.value, asked.spot)
        yield sentence(asked.spot, f"{named(shown)} is excluded: it must not be {form(asked.limit)}")


def _if(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    place, _, limit, value, spot = asked
    branch = "then" if walk.fits(asked.below(None, limit), value) else "else"
    if branch in place.node:
        yield from walk.into(place.below(branch, None, place.node[branch]), value, spot)


def _reference(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    for target in walk.targets(asked.place, (asked.keyword,)):
        yield from walk.into(target, asked.value, asked.spot)


def _unevaluated(walk: SchemaWalk, place: Subschema, value: Any, spot: Spot) -> Iterator[str]:
    """Ask the library which fields or items nothing else has looked at."""
    from jsonschema_rs import ValidationError, ValidationErrorKind  # noqa: PLC0415 - loaded by now

    compiled = None if _UNEVALUATED.isdisjoint(place.node) else walk.compiled(place)
    if compiled is None:
        return
    try:
        compiled.validate(value)
    except ValidationError as error:
        match error.kind:
            case ValidationErrorKind.UnevaluatedProperties(unexpected=names):
                known = list(islice(_known_names(walk, place, _LEVELS), _MOST_NAMES))
                yield from (_unknown(walk, name, spot, known) for name in names)
            case ValidationErrorKind.UnevaluatedItems(unexpected=places):
                allowed = counted(len(value) - len(places), "item")
                got = walk.display.count(len(value), value, spot)
                yield sentence(spot, f"expected no more than the {allowed} that the schema knows, got {got}")


def _known_names(walk: SchemaWalk, place: Subschema, levels: int) -> Iterator[str]:
    """Give the fields that a place, its alternatives and its references declare."""
    if type(place.node) is not dict or levels == 0:
        return
    yield from place.node.get("properties", {})
    for keyword, below in held(place):
        if keyword in SAME_VALUE - {"not"}:
            yield from _known_names(walk, below, levels - 1)
    for target in walk.targets(place):
        yield from _known_names(walk, target, levels - 1)


def _alternatives(walk: SchemaWalk, asked: _Asked) -> Iterator[str]:
    _, keyword, limit, value, spot = asked
    branches = [asked.below(index, node) for index, node in enumerate(limit)]
    fitting = [index for index, branch in enumerate(branches, 1) if walk.fits(branch, value)]
    if not fitting:
        yield from _closest(walk, branches, value, spot)
    elif keyword == "oneOf" and len(fitting) > 1:
        which = " and ".join(map(str, fitting[:5]))
        shown = walk.display.value(value, spot)
        yield sentence(spot, f"{named(shown)} fits alternatives {which} of {len(limit)}; exactly one may fit")


def _closest(walk: SchemaWalk, branches: list[Subschema], value: Any, spot: Spot) -> Iterator[str]:
    """Tell what keeps a value from the closest alternative."""
    plain = [walk.target(branch) for branch in branches]
    typed = [branch for branch in plain if _has_type(walk, branch, value)]
    if not typed:
        yield _types_in_one(walk, plain, value, spot)
        return
    literals = _literals_in_one(walk, typed, value)
    if literals is not None:
        yield mismatch("enum", literals, value, spot, walk.display)
        return
    wrong = [_wrong_fields(walk, branch, value) for branch in typed]
    if common := next(iter(name for name in wrong[0] if all(name in each for each in wrong[1:])), None):
        allowed = [literal for each in wrong for literal in each[common]]
        below = walk.display.below(spot, common, declared=True)
        yield mismatch("enum", allowed, value[common], below, walk.display)
        return
    fewest = min(map(len, wrong))
    nearest = [branch for branch, each in zip(typed, wrong, strict=True) if len(each) == fewest]
    told = [list(islice(walk.into(branch, value, spot), _MAX_EXPLORED)) for branch in nearest[:_MAX_EXPLORED]]
    best = min((each for each in told if each), key=len, default=[])
    several = f" (the closest of {len(branches)} alternatives)" if len(nearest) > 1 else ""
    yield from (f"{problem}{several}" for problem in best)


def _has_type(walk: SchemaWalk, branch: Subschema, value: Any) -> bool:
    node = branch.node
    if type(node) is not dict:
        return False
    return "type" not in node or walk.holds("type", node["type"], value)


def _types_in_one(walk: SchemaWalk, branches: list[Subschema], value: Any, spot: Spot) -> str:
    names: dict[str, None] = {}
    for branch in branches:
        kinds = branch.node.get("type", []) if type(branch.node) is dict else []
        names.update(dict.fromkeys(as_list(kinds)))
    return mismatch("type", list(names) or ["nothing"], value, spot, walk.display)


def _literals_of(node: Any) -> list[Any] | None:
    if type(node) is not dict:
        return None
    if "const" in node:
        return [node["const"]]
    return node["enum"] if type(node.get("enum")) is list else None


def _literals_in_one(walk: SchemaWalk, branches: list[Subschema], value: Any) -> list[Any] | None:
    """Join the literals of alternatives that are nothing else."""
    if type(value) in (dict, list):
        return None
    joined: list[Any] = []
    for branch in branches:
        literals = _literals_of(branch.node)
        if literals is None or walk.holds("enum", literals, value):
            return None
        joined += literals
    return joined


def _wrong_fields(walk: SchemaWalk, branch: Subschema, value: Any) -> dict[str, list[Any]]:
    """Find the fields whose literal says that another alternative was meant."""
    wrong: dict[str, list[Any]] = {}
    properties = branch.node.get("properties")
    if type(value) is dict and type(properties) is dict:
        for name, node in properties.items():
            literals = _literals_of(node) if name in value else None
            if literals is not None and not walk.holds("enum", literals, value[name]):
                wrong[name] = literals
    return wrong


_Teller = Callable[[SchemaWalk, _Asked], Iterator[str]]
_NOTHING_TO_TELL: tuple[type, _Teller] = (object, lambda _walk, _asked: iter(()))
_TELLERS: Mapping[str, tuple[type, _Teller]] = {
    **dict.fromkeys(WORDS, (object, _leaf)),
    "required": (dict, _required),
    "dependentRequired": (dict, _dependent),
    "dependentSchemas": (dict, _dependent),
    "dependencies": (dict, _dependent),
    "properties": (dict, _properties),
    "patternProperties": (dict, _pattern_properties),
    "additionalProperties": (dict, _additional_properties),
    "propertyNames": (dict, _property_names),
    "items": (list, _items),
    "prefixItems": (list, _items),
    "additionalItems": (list, _items),
    "contains": (list, _contains),
    "allOf": (object, _all_of),
    "anyOf": (object, _alternatives),
    "oneOf": (object, _alternatives),
    "not": (object, _not),
    "if": (object, _if),
    "$ref": (object, _reference),
    "$dynamicRef": (object, _reference),
    "$recursiveRef": (object, _reference),
}
