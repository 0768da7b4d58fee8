"""The check of a schema when its tool is declared: it may be compiled, or is rejected with path and reason.

Rules of this file:
- A schema is of draft 2020-12, or of the draft that its `$schema` names. In a 2020-12 schema, the spellings of
  OpenAPI and of older drafts (`nullable`, a list as `items`, a null keyword) keep their meaning.
- Nothing that looks like a constraint is ignored. A misspelled keyword is rejected, and so is a keyword that the
  draft does not know. A keyword that resembles no known one is an annotation, and so is `format`.
- A schema that no value can satisfy is rejected, because it is a mistake.
- A reference that leads back to itself must pass through a property or an item. Otherwise validation never ends.
- Without recursion, the work for a value is the size of the schema with its references written out. A recursive
  subschema is evaluated once for each part of a value. There the work is the square of the number of subschemas
  that apply to the same value (`allOf`, `anyOf`, ...).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.schema.document import MAX_NESTING, measure
from toolwire.schema.draft import KEYWORD_CHECKS, as_list, is_number, join_path, normalize_subschema
from toolwire.schema.patterns import LIGHT, MAX_WEIGHT, pattern_weight
from toolwire.schema.subschemas import (
    NO_BASE,
    NOT_APPLIED,
    REFERENCES,
    SAME_VALUE,
    SCHEMA_LIST,
    SCHEMA_MAP,
    SINGLE_SCHEMA,
    Resources,
    Subschema,
    child_subschemas,
    resolve_base,
    walk_subschemas,
)
from toolwire.schema.targets import CONSTRAINTS, TYPES, Schema
from toolwire.schema.wording import Display, count_values, describe_flaw

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
REF_IGNORES_SIBLINGS = frozenset({"Draft7Validator", "Draft6Validator", "Draft4Validator"})
_ANNOTATIONS = frozenset(
    {"$schema", "$id", "id", "$comment", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"}
    | {"$defs", "definitions", "title", "description", "default", "example", "examples", "deprecated"}
    | {"readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType", "contentSchema", "nullable"}
    | {"propertyOrdering", "discriminator"}
)
_CONSTRAINING = (CONSTRAINTS | {"additionalItems", "dependencies", "$dynamicRef", "$recursiveRef"}) - _ANNOTATIONS
_KNOWN = _CONSTRAINING | _ANNOTATIONS | KEYWORD_CHECKS.keys()
_BY_PLAIN_NAME = {keyword.lower().strip("$"): keyword for keyword in _CONSTRAINING}
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
_VALUE_KEYWORDS = frozenset({"const", "default", "enum", "example", "examples"})
_TYPES = frozenset(TYPES)
_OLDER_KEYWORDS = frozenset({"nullable", "dependencies", "$recursiveRef"})
_MAX_COST = 300_000
_METASCHEMA_COST = 500
_METASCHEMA_URIS = ("https://json-schema.org/draft/", "http://json-schema.org/draft-0")
_MAX_SHOWN = 80
_SIMILARITY = 0.85
_MAX_COMPARED = 40


class Admitted(NamedTuple):
    """A schema that may be compiled: its draft, its `work` for one value, and whether its patterns are heavy."""

    schema: Any
    draft: str
    work: int
    heavy: bool


def admit(schema: Any) -> Admitted:
    """Check the schema of a tool's arguments and return it ready to compile.

    Raises `InvalidSchema` if it is ill-formed, unsatisfiable or too large, and `SchemaRecursive` for an endless cycle.
    """
    if type(schema) is not dict:
        raise InvalidSchema(f"the parameters of a tool are a JSON Schema object, not {type(schema).__name__}")
    size = measure(schema)
    if (values := count_values(schema, MAX_NESTING)) < 0:
        location, flaw = describe_flaw(schema, values, Display({}, ()), MAX_NESTING)
        raise InvalidSchema(f"{'' if location.path else 'the schema '}{flaw}", path=location.path)
    draft = _draft_of(schema, "")
    root = Subschema(schema, base=resolve_base(schema, NO_BASE))
    subschemas = list(walk_subschemas(root))
    if draft == _LATEST and any(_is_older_spelling(subschema.node) for subschema in subschemas):
        root = root._replace(node=_modernized(root))
        subschemas = list(walk_subschemas(root))
    _reject_non_object_roots(root.node)
    has_references, weights, harmless = False, [0], set[str]()
    for subschema in subschemas:
        if type(subschema.node) is dict:
            _check_subschema(subschema.node, subschema.path, draft, harmless)
            has_references = has_references or not subschema.node.keys().isdisjoint(REFERENCES)
            weights += _pattern_weights(subschema.node, subschema.path)
        elif type(subschema.node) is not bool:
            normalize_subschema(subschema.node, subschema.path)
    work = _cost(subschemas) if has_references else size
    return Admitted(root.node, draft, work + sum(weights), max(weights) > LIGHT)


def _draft_of(schema: Schema, path: str) -> str:
    uri = schema.get("$schema")
    if uri is None:
        return _LATEST
    if isinstance(uri, str):
        draft = _DRAFTS.get(uri.removesuffix("#").partition("://")[2])
        if draft is not None:
            return draft
    names = ", ".join(f"https://{name}" for name in _DRAFTS)
    raise InvalidSchema(
        f"unknown draft {str(uri)[:_MAX_SHOWN]!r}; known drafts are {names}", path=join_path(path, "$schema")
    )


def _reject_non_object_roots(schema: Schema) -> None:
    """Raise `InvalidSchema` if no object can satisfy the root of `schema`."""
    if not _may_be_object(schema):
        types = " or ".join(map(str, as_list(schema["type"])))
        raise InvalidSchema(f"the parameters of a tool are an object, not {types}; make it a property", path="type")
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list) and branches and not any(map(_may_be_object, branches)):
            raise InvalidSchema("the parameters of a tool are an object; no alternative is one", path=keyword)


def _may_be_object(schema: Any) -> bool:
    if type(schema) is not dict:
        return schema is not False
    type_ = schema.get("type", "object")
    return type_ == "object" or (isinstance(type_, list) and "object" in type_)


def _is_older_spelling(node: Any) -> bool:
    """Return True if `node` uses a spelling of OpenAPI or of an older draft."""
    if type(node) is not dict:
        return False
    if not node.keys().isdisjoint(_OLDER_KEYWORDS):
        return True
    types = node.get("type", "object")
    if not all(isinstance(type_, str) and type_ in _TYPES for type_ in as_list(types)):
        return True
    tuple_ = type(node.get("items")) is list or node.get("allOf") == []
    exclusive = type(node.get("exclusiveMinimum")) is bool or type(node.get("exclusiveMaximum")) is bool
    return tuple_ or exclusive or None in [node[key] for key in node.keys() - _VALUE_KEYWORDS]


def _modernized(subschema: Subschema) -> Any:
    """Return the schema with every subschema in the spelling of draft 2020-12."""
    node = normalize_subschema(subschema.node, subschema.path) if _is_older_spelling(subschema.node) else subschema.node
    if type(node) is not dict:
        return node
    return {key: _modernized_member(subschema, key, value) for key, value in node.items()}


def _modernized_member(subschema: Subschema, keyword: str, value: Any) -> Any:
    if keyword in SCHEMA_MAP and type(value) is dict:
        return {
            name: node if type(node) is list else _modernized(subschema.below(keyword, name, node))
            for name, node in value.items()
        }
    if keyword in SCHEMA_LIST and type(value) is list:
        return [_modernized(subschema.below(keyword, index, node)) for index, node in enumerate(value)]
    if keyword in SINGLE_SCHEMA and type(value) is dict:
        return _modernized(subschema.below(keyword, None, value))
    return value


def _check_subschema(node: Schema, path: str, draft: str, harmless: set[str]) -> None:
    """Raise `InvalidSchema` if the subschema is ill-formed, misspelled or unsatisfiable.

    `harmless` collects the unknown keywords that resemble no known keyword, so that each is compared only once.
    """
    normalize_subschema(node, path)
    for keyword in node.keys() - _KNOWN - harmless:
        if intended := _similar_keyword(keyword):
            raise InvalidSchema(
                f"{keyword!r} is not a keyword and would be ignored; did you mean {intended!r}?",
                path=join_path(path, keyword),
            )
        harmless.add(keyword)
    if path and "$schema" in node:
        _draft_of(node, path)
    if unknown := sorted(node.keys() & _UNKNOWN_TO[draft]):
        raise InvalidSchema(
            f"the draft that $schema names does not know {unknown[0]!r} and would ignore it; "
            "leave $schema out, or name draft 2020-12",
            path=join_path(path, unknown[0]),
        )
    for low, high in _BOUNDS:
        if low in node and high in node and node[low] > node[high]:
            raise InvalidSchema(f"{low} {node[low]} is above {high} {node[high]}", path=join_path(path, low))
    for low, high in _EXCLUSIVE_BOUNDS:
        if is_number(node.get(low)) and is_number(node.get(high)) and node[low] >= node[high]:
            raise InvalidSchema(
                f"{low} {node[low]} leaves nothing below {high} {node[high]}", path=join_path(path, low)
            )


def _similar_keyword(keyword: str) -> str:
    """Return the known keyword that `keyword` probably misspells, or an empty text for an annotation."""
    if keyword.startswith(("x-", "X-")) or len(keyword) > _MAX_COMPARED:
        return ""
    plain = keyword.replace("_", "").replace("-", "").lower().strip("$")
    if plain in _BY_PLAIN_NAME:
        return _BY_PLAIN_NAME[plain]
    return next(iter(get_close_matches(keyword, _CONSTRAINING, 1, _SIMILARITY)), "")


def _pattern_weights(node: Schema, path: str) -> list[int]:
    """Return the weights of the patterns in `node`. Raise `InvalidSchema` if one is too heavy."""
    patterns = [("pattern", node["pattern"])] if "pattern" in node else []
    patterns += (("patternProperties", pattern) for pattern in node.get("patternProperties", ()))
    weights = [pattern_weight(pattern) for _, pattern in patterns]
    for (keyword, pattern), heavy in zip(patterns, weights, strict=True):
        if heavy > MAX_WEIGHT:
            raise InvalidSchema(
                f"the pattern {pattern[:_MAX_SHOWN]!r} repeats too much: more than {MAX_WEIGHT:,} characters, "
                "once it is written out",
                path=join_path(path, keyword),
            )
    return weights


_Edges = dict[int, list[int]]


class _Graph:
    """The subschemas of a schema, by identity, and the edges between them.

    `applied` has the subschemas that a subschema applies, `same_value` those that it applies to its own value.
    """

    __slots__ = ("applied", "own_size", "same_value", "subschemas")

    def __init__(self, subschemas: Sequence[Subschema]) -> None:
        resources = Resources(subschemas)
        self.subschemas: dict[int, Subschema] = {}
        self.own_size: Counter[int] = Counter()
        self.applied: _Edges = {}
        self.same_value: _Edges = {}
        pending = list(subschemas)
        while pending:
            subschema = pending.pop()
            if id(subschema.node) not in self.subschemas and type(subschema.node) is dict:
                pending += self._register(subschema, resources)

    def _register(self, subschema: Subschema, resources: Resources) -> list[Subschema]:
        """Register a subschema, and return the subschemas that it references.

        A referenced subschema may lie below a keyword that is not known to contain one.
        """
        node_id, applied, same_value = id(subschema.node), [], []
        self.subschemas[node_id] = subschema
        self.own_size[node_id] = 1 + len(subschema.node)
        for keyword in subschema.node.keys() & {"enum", "const"}:
            self.own_size[node_id] += measure(subschema.node[keyword])
        for keyword, below in child_subschemas(subschema):
            if type(below.node) is dict and keyword not in NOT_APPLIED:
                applied.append(id(below.node))
                if keyword in SAME_VALUE:
                    same_value.append(id(below.node))
        referenced = []
        for keyword, ref, candidates in resources.resolve_references(subschema):
            if not candidates:
                self.own_size[node_id] += _external_cost(ref, keyword, subschema)
            referenced += [other for other in candidates if type(other.node) is dict]
        targets = [id(other.node) for other in referenced]
        self.applied[node_id], self.same_value[node_id] = applied + targets, same_value + targets
        return referenced


def _external_cost(ref: str, keyword: str, subschema: Subschema) -> int:
    """Return the cost of a reference to a metaschema, which the library knows. Reject any other external reference."""
    if ref.startswith(_METASCHEMA_URIS):
        return _METASCHEMA_COST
    path = join_path(subschema.path, keyword)
    if ref.startswith("#"):
        raise InvalidSchema(f"{ref!r} points to no schema in this document", path=path)
    raise InvalidSchema(
        f"{ref!r} points outside the schema, and references are not fetched; move its target into $defs",
        path=path,
    )


def _cost(subschemas: Sequence[Subschema]) -> int:
    """Return the work for each part of a value. Raise an error if it is infinite or too large."""
    graph = _Graph(subschemas)
    multiplicity = _same_value_counts(graph)
    total: dict[int, int] = {}
    for members in _strong_components(graph.applied):
        cycle = set(members)
        spent = 0
        for member in members:
            spent += graph.own_size[member]
            spent += sum(total[other] for other in graph.applied[member] if other not in cycle)
        if len(members) > 1 or members[0] in graph.applied[members[0]]:
            spent += max(multiplicity[member] for member in members) ** 2
        if spent > _MAX_COST:
            raise InvalidSchema(
                f"the schema multiplies: more than {_MAX_COST:,} steps for one value, once what it refers to"
                " is written out",
                path=graph.subschemas[members[0]].path,
            )
        total.update(dict.fromkeys(members, spent))
    return total[id(subschemas[0].node)]


def _same_value_counts(graph: _Graph) -> dict[int, int]:
    """Count, for each subschema, the subschemas that are evaluated on the same value because of it."""
    counts: dict[int, int] = {}
    try:
        order = list(
            TopologicalSorter(
                {node_id: set(same_value) for node_id, same_value in graph.same_value.items()}
            ).static_order()
        )
    except CycleError as cycle:
        *path, _ = cycle.args[1]
        names = [f"#{graph.subschemas[step].pointer}" for step in reversed(path)]
        subschema = graph.subschemas[path[-1]]
        raise SchemaRecursive(
            f"a reference leads back to itself without going into the value ({' -> '.join(names)}); "
            "a cycle needs a property or an item in between",
            path=subschema.path,
        ) from None
    for node_id in order:
        counts[node_id] = min(1 + sum(counts[other] for other in graph.same_value[node_id]), _MAX_COST)
    return counts


def _strong_components(edges: _Edges) -> Iterable[list[int]]:
    """Return the strongly connected components of the graph, successors first."""
    order = _postorder(edges, edges)
    backwards: _Edges = {node: [] for node in edges}
    for node, others in edges.items():
        for other in others:
            backwards[other].append(node)
    visited: set[int] = set()
    components = [_postorder(backwards, [start], visited) for start in reversed(order) if start not in visited]
    return reversed(components)


def _postorder(edges: _Edges, starts: Iterable[int], visited: set[int] | None = None) -> list[int]:
    """Walk depth-first from `starts`, and return the reached nodes, successors first."""
    visited = set() if visited is None else visited
    order = []
    for start in starts:
        if start in visited:
            continue
        visited.add(start)
        stack = [(start, iter(edges[start]))]
        while stack:
            node, successors = stack[-1]
            for other in successors:
                if other not in visited:
                    visited.add(other)
                    stack.append((other, iter(edges[other])))
                    break
            else:
                order.append(node)
                stack.pop()
    return order
