"""Which schemas validate arguments, found out when a tool is declared; what is wrong with the others, and where.

Rules of this file:
- A schema is of draft 2020-12, or of the draft that its `$schema` names. In one of 2020-12 the spellings of
  OpenAPI and of older drafts (`nullable`, a list as `items`, a null that says nothing) keep their meaning.
- Nothing that looks like a constraint is ignored: a misspelled keyword is refused, and so is one that the
  draft does not know. What resembles no keyword is an annotation, and so is `format`.
- What no value can meet is refused: it is a mistake.
- A reference that leads back to itself must have gone into the value: else nothing would ever be decided.
- What is not recursive costs as much as written out. What is recursive is decided once for each part of a value;
  there, what multiplies is what stands side by side (`allOf`, `anyOf`, ...), and it counts by its square.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.schema.document import MAX_NESTING, measure
from toolwire.schema.draft import FORMS, as_list, inside, is_number, present
from toolwire.schema.patterns import LIGHT, MAX_WEIGHT, weight
from toolwire.schema.subschemas import (
    NAMED,
    NO_BASE,
    ONE,
    ONLY_REFERRED,
    REFERENCES,
    SAME_VALUE,
    SEVERAL,
    Resources,
    Subschema,
    based,
    held,
    places,
)
from toolwire.schema.targets import CONSTRAINTS, TYPES, Schema
from toolwire.schema.wording import Display, flaw_of, weigh

_LATEST = "Draft202012Validator"
_DRAFTS: Mapping[str, str] = {
    "json-schema.org/draft/2020-12/schema": _LATEST,
    "json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "json-schema.org/draft-07/schema": "Draft7Validator",
    "json-schema.org/draft-06/schema": "Draft6Validator",
    "json-schema.org/draft-04/schema": "Draft4Validator",
}
_SINCE_2020 = frozenset({"prefixItems", "$dynamicRef"})
_SINCE_2019 = _SINCE_2020 | {
    *("unevaluatedProperties", "unevaluatedItems", "dependentRequired", "dependentSchemas"),
    *("minContains", "maxContains", "$recursiveRef"),
}
_SINCE_7 = _SINCE_2019 | {"if", "then", "else"}
_UNKNOWN_TO: Mapping[str, frozenset[str]] = {
    _LATEST: frozenset(),
    "Draft201909Validator": _SINCE_2020,
    "Draft7Validator": _SINCE_2019,
    "Draft6Validator": _SINCE_7,
    "Draft4Validator": _SINCE_7 | {"const", "contains", "propertyNames"},
}
REF_STANDS_ALONE = frozenset({"Draft7Validator", "Draft6Validator", "Draft4Validator"})
_ANNOTATIONS = frozenset(
    {"$schema", "$id", "id", "$comment", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"}
    | {"$defs", "definitions", "title", "description", "default", "example", "examples", "deprecated"}
    | {"readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType", "contentSchema", "nullable"}
    | {"propertyOrdering", "discriminator"}
)
_CONSTRAINING = (CONSTRAINTS | {"additionalItems", "dependencies", "$dynamicRef", "$recursiveRef"}) - _ANNOTATIONS
_KNOWN = _CONSTRAINING | _ANNOTATIONS | FORMS.keys()
_OPENLY_SPELLED = {keyword.lower().strip("$"): keyword for keyword in _CONSTRAINING}
_BOUNDS = (
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
    ("minContains", "maxContains"),
)
_EXCLUSIVE_BOUNDS = (
    ("exclusiveMinimum", "maximum"),
    ("minimum", "exclusiveMaximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
)
_ANYTHING = frozenset({"const", "default", "enum", "example", "examples"})
_TYPES = frozenset(TYPES)
_LOOSE = frozenset({"nullable", "dependencies", "$recursiveRef"})
_MAX_COST = 300_000
_PUBLISHED_COST = 500
_PUBLISHED = ("https://json-schema.org/draft/", "http://json-schema.org/draft-0")
_SHOWN = 80
_NEAR = 0.85
_LONGEST = 40


class Admitted(NamedTuple):
    """A schema to compile: its draft, the work it makes for each value, whether its patterns are heavy."""

    schema: Any
    draft: str
    work: int
    heavy: bool


def admit(schema: Any) -> Admitted:
    """Look over the schema of a tool's arguments, which are an object."""
    if type(schema) is not dict:
        raise InvalidSchema(f"the parameters of a tool are a JSON Schema object, not {type(schema).__name__}")
    size = measure(schema)
    if (values := weigh(schema, MAX_NESTING)) < 0:
        spot, flaw = flaw_of(schema, values, Display({}, ()), MAX_NESTING)
        raise InvalidSchema(f"{'' if spot.path else 'the schema '}{flaw}", path=spot.path)
    draft = _draft_of(schema, "")
    root = Subschema(schema, base=based(schema, NO_BASE))
    every = list(places(root))
    if draft == _LATEST and any(_is_loose(place.node) for place in every):
        root = root._replace(node=_respelled(root))
        every = list(places(root))
    _refuse_other_roots(root.node)
    refers, weights, harmless = False, [0], set[str]()
    for place in every:
        if type(place.node) is dict:
            _look_at(place.node, place.path, draft, harmless)
            refers = refers or not place.node.keys().isdisjoint(REFERENCES)
            weights += _weights(place.node, place.path)
        elif type(place.node) is not bool:
            present(place.node, place.path)
    work = _cost(every) if refers else size
    return Admitted(root.node, draft, work + sum(weights), max(weights) > LIGHT)


def _draft_of(schema: Schema, path: str) -> str:
    named = schema.get("$schema")
    if named is None:
        return _LATEST
    if isinstance(named, str):
        known = _DRAFTS.get(named.removesuffix("#").partition("://")[2])
        if known is not None:
            return known
    names = ", ".join(f"https://{name}" for name in _DRAFTS)
    raise InvalidSchema(
        f"unknown draft {str(named)[:_SHOWN]!r}; known drafts are {names}", path=inside(path, "$schema")
    )


def _refuse_other_roots(schema: Schema) -> None:
    """Refuse parameters that no object can meet."""
    if not _may_be_object(schema):
        kinds = " or ".join(map(str, as_list(schema["type"])))
        raise InvalidSchema(f"the parameters of a tool are an object, not {kinds}; make it a property", path="type")
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list) and branches and not any(map(_may_be_object, branches)):
            raise InvalidSchema("the parameters of a tool are an object; no alternative is one", path=keyword)


def _may_be_object(schema: Any) -> bool:
    if type(schema) is not dict:
        return schema is not False
    kind = schema.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _is_loose(node: Any) -> bool:
    """Whether a subschema is spelled as OpenAPI or an older draft spells it."""
    if type(node) is not dict:
        return False
    if not node.keys().isdisjoint(_LOOSE):
        return True
    kinds = node.get("type", "object")
    if not all(isinstance(kind, str) and kind in _TYPES for kind in as_list(kinds)):
        return True
    tuple_ = type(node.get("items")) is list or node.get("allOf") == []
    exclusive = type(node.get("exclusiveMinimum")) is bool or type(node.get("exclusiveMaximum")) is bool
    return tuple_ or exclusive or None in [node[key] for key in node.keys() - _ANYTHING]


def _respelled(place: Subschema) -> Any:
    """Write a schema in the words of draft 2020-12, wherever it is spelled otherwise."""
    node = present(place.node, place.path) if _is_loose(place.node) else place.node
    if type(node) is not dict:
        return node
    return {key: _respelled_below(place, key, value) for key, value in node.items()}


def _respelled_below(place: Subschema, keyword: str, value: Any) -> Any:
    if keyword in NAMED and type(value) is dict:
        return {
            name: node if type(node) is list else _respelled(place.below(keyword, name, node))
            for name, node in value.items()
        }
    if keyword in SEVERAL and type(value) is list:
        return [_respelled(place.below(keyword, index, node)) for index, node in enumerate(value)]
    if keyword in ONE and type(value) is dict:
        return _respelled(place.below(keyword, None, value))
    return value


def _look_at(node: Schema, path: str, draft: str, harmless: set[str]) -> None:
    """Reject one subschema that is ill-formed, misspelled or cannot be met.

    `harmless` collects the unknown keywords of the schema that resemble no known one: each is compared once.
    """
    present(node, path)
    for keyword in node.keys() - _KNOWN - harmless:
        if meant := _resembled(keyword):
            raise InvalidSchema(
                f"{keyword!r} is not a keyword and would be ignored; did you mean {meant!r}?",
                path=inside(path, keyword),
            )
        harmless.add(keyword)
    if path and "$schema" in node:
        _draft_of(node, path)
    if unknown := sorted(node.keys() & _UNKNOWN_TO[draft]):
        raise InvalidSchema(
            f"the draft that $schema names does not know {unknown[0]!r} and would ignore it; "
            "leave $schema out, or name draft 2020-12",
            path=inside(path, unknown[0]),
        )
    for low, high in _BOUNDS:
        if low in node and high in node and node[low] > node[high]:
            raise InvalidSchema(f"{low} {node[low]} is above {high} {node[high]}", path=inside(path, low))
    for low, high in _EXCLUSIVE_BOUNDS:
        if is_number(node.get(low)) and is_number(node.get(high)) and node[low] >= node[high]:
            raise InvalidSchema(f"{low} {node[low]} leaves nothing below {high} {node[high]}", path=inside(path, low))


def _resembled(keyword: str) -> str:
    """Find the keyword that a word was probably meant for; none for an annotation."""
    if keyword.startswith(("x-", "X-")) or len(keyword) > _LONGEST:
        return ""
    plain = keyword.replace("_", "").replace("-", "").lower().strip("$")
    if plain in _OPENLY_SPELLED:
        return _OPENLY_SPELLED[plain]
    return next(iter(get_close_matches(keyword, _CONSTRAINING, 1, _NEAR)), "")


def _weights(node: Schema, path: str) -> list[int]:
    """Weigh the patterns of a subschema; refuse those that repeat too much."""
    patterns = [("pattern", node["pattern"])] if "pattern" in node else []
    patterns += (("patternProperties", pattern) for pattern in node.get("patternProperties", ()))
    weights = [weight(pattern) for _, pattern in patterns]
    for (keyword, pattern), heavy in zip(patterns, weights, strict=True):
        if heavy > MAX_WEIGHT:
            raise InvalidSchema(
                f"the pattern {pattern[:_SHOWN]!r} repeats too much: more than {MAX_WEIGHT:,} characters, "
                "once it is written out",
                path=inside(path, keyword),
            )
    return weights


_Edges = dict[int, list[int]]


class _Graph:
    """The subschemas of a schema, and which of them each asks: about the same value, and at all."""

    __slots__ = ("asked", "own", "places", "same")

    def __init__(self, every: Sequence[Subschema]) -> None:
        resources = Resources(every)
        self.places: dict[int, Subschema] = {}
        self.own: Counter[int] = Counter()
        self.asked: _Edges = {}
        self.same: _Edges = {}
        waiting = list(every)
        while waiting:
            place = waiting.pop()
            if id(place.node) not in self.places and type(place.node) is dict:
                waiting += self._enter(place, resources)

    def _enter(self, place: Subschema, resources: Resources) -> list[Subschema]:
        """Enter a subschema; give those that it refers to, which may stand where nobody looks for one."""
        here, asked, same = id(place.node), [], []
        self.places[here] = place
        self.own[here] = 1 + len(place.node)
        for keyword in place.node.keys() & {"enum", "const"}:
            self.own[here] += measure(place.node[keyword])
        for keyword, below in held(place):
            if type(below.node) is dict and keyword not in ONLY_REFERRED:
                asked.append(id(below.node))
                if keyword in SAME_VALUE:
                    same.append(id(below.node))
        referred = []
        for keyword, ref, meant in resources.meant(place):
            if not meant:
                self.own[here] += _published(ref, keyword, place)
            referred += [other for other in meant if type(other.node) is dict]
        targets = [id(other.node) for other in referred]
        self.asked[here], self.same[here] = asked + targets, same + targets
        return referred


def _published(ref: str, keyword: str, place: Subschema) -> int:
    """Say what a reference costs that the library knows by itself; refuse any other."""
    if ref.startswith(_PUBLISHED):
        return _PUBLISHED_COST
    where = inside(place.path, keyword)
    if ref.startswith("#"):
        raise InvalidSchema(f"{ref!r} points to no schema in this document", path=where)
    raise InvalidSchema(
        f"{ref!r} points outside the schema, and references are not fetched; move its target into $defs",
        path=where,
    )


def _cost(every: Sequence[Subschema]) -> int:
    """Count the work for each part of a value; refuse what never ends, and what would take too long."""
    graph = _Graph(every)
    side_by_side = _side_by_side(graph)
    total: dict[int, int] = {}
    for members in _components(graph.asked):
        inside = set(members)
        spent = 0
        for member in members:
            spent += graph.own[member]
            spent += sum(total[other] for other in graph.asked[member] if other not in inside)
        if len(members) > 1 or members[0] in graph.asked[members[0]]:
            spent += max(side_by_side[member] for member in members) ** 2
        if spent > _MAX_COST:
            raise InvalidSchema(
                f"the schema multiplies: more than {_MAX_COST:,} steps for one value, once what it refers to"
                " is written out",
                path=graph.places[members[0]].path,
            )
        total.update(dict.fromkeys(members, spent))
    return total[id(every[0].node)]


def _side_by_side(graph: _Graph) -> dict[int, int]:
    """Count the subschemas that are asked about the same value, each time that one is."""
    counts: dict[int, int] = {}
    try:
        order = list(TopologicalSorter({here: set(same) for here, same in graph.same.items()}).static_order())
    except CycleError as found:
        *route, _ = found.args[1]
        names = [f"#{graph.places[step].pointer}" for step in reversed(route)]
        place = graph.places[route[-1]]
        raise SchemaRecursive(
            f"a reference leads back to itself without going into the value ({' -> '.join(names)}); "
            "a cycle needs a property or an item in between",
            path=place.path,
        ) from None
    for here in order:
        counts[here] = min(1 + sum(counts[other] for other in graph.same[here]), _MAX_COST)
    return counts


def _components(edges: _Edges) -> Iterable[list[int]]:
    """Give the sets of nodes that lead to each other, each after those that it leads to."""
    order = _finished(edges, edges)
    backwards: _Edges = {here: [] for here in edges}
    for here, others in edges.items():
        for other in others:
            backwards[other].append(here)
    seen: set[int] = set()
    found = [_finished(backwards, [start], seen) for start in reversed(order) if start not in seen]
    return reversed(found)


def _finished(edges: _Edges, starts: Iterable[int], seen: set[int] | None = None) -> list[int]:
    """Walk from some nodes in depth; give what was reached, each node after those that it leads to."""
    seen = set() if seen is None else seen
    order = []
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        trail = [(start, iter(edges[start]))]
        while trail:
            here, rest = trail[-1]
            for other in rest:
                if other not in seen:
                    seen.add(other)
                    trail.append((other, iter(edges[other])))
                    break
            else:
                order.append(here)
                trail.pop()
    return order
