"""Taking out the nulls by which a strict model says that an argument is absent.

Rules of this file:
- A null goes where the original schema declares the property, does not require it and does not accept null.
- Of several alternatives the one counts that fits the arguments as they are, else the first that fits without
  such nulls; one that declares every property that is given comes before one that merely allows it.
- What fits is judged by types, literals, names and bounds; patterns and the like are left to validation.
- Nulls deeper than `MAX_DEPTH` levels stay; validation will see them.
"""

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from toolwire.schema.document import MAX_DEPTH, RootSchema
from toolwire.schema.draft import as_list, is_kind, is_number, present, same
from toolwire.schema.targets import COMBINERS, OBJECT_KEYWORDS, Schema

_BOUNDS: Mapping[str, tuple[Callable[[Any], bool], Callable[[Any, Any], bool]]] = {
    "minimum": (is_number, lambda value, bound: value >= bound),
    "maximum": (is_number, lambda value, bound: value <= bound),
    "exclusiveMinimum": (is_number, lambda value, bound: value > bound),
    "exclusiveMaximum": (is_number, lambda value, bound: value < bound),
    "minLength": (lambda value: isinstance(value, str), lambda value, bound: len(value) >= bound),
    "maxLength": (lambda value: isinstance(value, str), lambda value, bound: len(value) <= bound),
    "minItems": (lambda value: isinstance(value, list), lambda value, bound: len(value) >= bound),
    "maxItems": (lambda value: isinstance(value, list), lambda value, bound: len(value) <= bound),
}


# So few names are looked through as fast as in a set that has to be made.
_FEW = 16


def prune_nulls(arguments: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Delete the nulls that mean "absent" under the original schema; the same object if there are none."""
    return NullPruner(schema).prune(arguments)


class NullPruner:
    """Deletes the nulls that mean "absent" under one schema; what it takes to read the schema is done once."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    @cached_property
    def lets_out(self) -> bool:
        """Whether the schema declares, at any depth, a property that it does not require."""
        return lets_out(self._schema)

    @cached_property
    def _document(self) -> RootSchema:
        return RootSchema(self._schema)

    def prune(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Delete the nulls of some arguments; the same object if there are none."""
        required = self._schema.get("required")
        known: Collection[Any] = required if isinstance(required, list) else ()  # it stays, null or not
        if len(known) > _FEW:
            known = _required(self._schema)
        if not _holds_null([value for name, value in arguments.items() if value is not None or name not in known]):
            return arguments
        if not self.lets_out:
            return arguments
        pruned: dict[str, Any] = _Pruning(self._document).pruned(arguments, self._schema, 0)
        return pruned


def lets_out(schema: Any) -> bool:
    """Whether a schema declares, at any depth, a property that it does not require."""
    left = [schema]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            properties = node.get("properties")
            if isinstance(properties, dict) and not properties.keys() <= _required(node):
                return True
            left += node.values()
        elif isinstance(node, list):
            left += node
    return False


def _required(node: Schema) -> set[str]:
    names = node.get("required")
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def _holds_null(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            if item is None:
                return True
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
        if not below:
            return False
        level = below
    return False


class _Reading(NamedTuple):
    """A way to read a value: whether no extra property is allowed, and whether a null may mean "absent"."""

    closed: bool
    null_is_absent: bool


_AS_IT_IS = _Reading(closed=False, null_is_absent=False)
_READINGS = (_Reading(True, False), _Reading(True, True), _AS_IT_IS, _Reading(False, True))


class _Pruning:
    """One pruning: what has been found out about which value under which subschema.

    Both are remembered by identity, and held, so that no identity is used twice.
    """

    __slots__ = ("_document", "_fits", "_views")

    def __init__(self, document: RootSchema) -> None:
        self._document = document
        self._views: dict[int, tuple[Any, Schema]] = {}
        self._fits: dict[tuple[int, int, _Reading], tuple[Any, bool]] = {}

    def pruned(self, value: Any, raw: Any, depth: int) -> Any:
        """Take out the nulls that mean "absent"."""
        if depth > MAX_DEPTH or not isinstance(value, dict | list):
            return value
        nodes = self._applying(value, raw, depth)
        required = set[str]().union(*map(_required, nodes))
        if isinstance(value, list):
            items = [self._pruned_by(item, _of_item(nodes, index), depth) for index, item in enumerate(value)]
            return value if all(new is old for new, old in zip(items, value, strict=True)) else items
        out = {
            name: self._pruned_by(item, _of_property(nodes, name), depth)
            for name, item in value.items()
            if item is not None or name in required or not self._means_absent(name, nodes, depth)
        }
        unchanged = len(out) == len(value) and all(out[name] is value[name] for name in out)
        return value if unchanged else out

    def _pruned_by(self, value: Any, schemas: list[Any], depth: int) -> Any:
        for raw in schemas:
            value = self.pruned(value, raw, depth + 1)
        return value

    def _means_absent(self, name: str, nodes: list[Schema], depth: int) -> bool:
        if not any(name in node.get("properties", ()) for node in nodes):
            return False
        return not all(self._accepts(None, raw, _AS_IT_IS, depth) for raw in _of_property(nodes, name))

    def _view(self, raw: Any) -> Schema:
        key = id(raw)
        if key not in self._views:
            self._views[key] = (raw, present(raw, ""))
        return self._views[key][1]

    def _applying(self, value: Any, raw: Any, depth: int) -> list[Schema]:
        """Every subschema that speaks about a value: what holds at once, and the alternative that fits."""
        nodes: list[Schema] = []
        seen: set[str] = set()
        pending = [raw]
        while pending:
            node = self._view(pending.pop())
            nodes.append(node)
            if (ref := node.get("$ref")) is not None and ref not in seen:
                seen.add(ref)
                pending.append(self._document.find(ref))
            pending += node.get("allOf", ())
            for keyword in ("anyOf", "oneOf"):
                pending += self._chosen(value, node.get(keyword, ()), depth)
        return nodes

    def _chosen(self, value: Any, branches: list[Any], depth: int) -> list[Any]:
        for reading in _READINGS:
            for branch in branches:
                if self._accepts(value, branch, reading, depth):
                    return [branch]
        return []

    def _accepts(self, value: Any, raw: Any, reading: _Reading, depth: int) -> bool:
        """Whether a value fits a subschema, read in one of the ways."""
        if depth > MAX_DEPTH:
            return True
        node = self._view(raw)
        key = (id(value), id(node), reading)
        if key not in self._fits:
            self._fits[key] = (value, True)
            fits = (
                _fits_alone(value, node)
                and self._fits_combined(value, node, reading, depth + 1)
                and self._fits_inside(value, node, reading, depth + 1)
            )
            self._fits[key] = (value, fits)
        return self._fits[key][1]

    def _fits_combined(self, value: Any, node: Schema, reading: _Reading, depth: int) -> bool:
        if "$ref" in node and not self._accepts(value, self._document.find(node["$ref"]), reading, depth):
            return False
        if not all(self._accepts(value, raw, reading, depth) for raw in node.get("allOf", ())):
            return False
        unions = [node[keyword] for keyword in ("anyOf", "oneOf") if keyword in node]
        return all(any(self._accepts(value, raw, reading, depth) for raw in union) for union in unions)

    def _fits_inside(self, value: Any, node: Schema, reading: _Reading, depth: int) -> bool:
        if isinstance(value, list):
            return all(
                self._accepts(item, raw, reading, depth)
                for index, item in enumerate(value)
                for raw in _of_item([node], index)
            )
        if not isinstance(value, dict):
            return True
        required, declared = set(node.get("required", ())), node.get("properties", {})
        if any(name not in value for name in required):
            return False
        speaks = COMBINERS.isdisjoint(node) or not OBJECT_KEYWORDS.isdisjoint(node)
        if reading.closed and speaks and not value.keys() <= declared.keys():
            return False
        return all(
            (reading.null_is_absent and item is None and name not in required)
            or self._accepts(item, raw, reading, depth)
            for name, item in value.items()
            for raw in _of_property([node], name)
        )


def _of_property(nodes: list[Schema], name: str) -> list[Any]:
    """List the subschemas of a property, by its name or as an extra one."""
    named = [node["properties"][name] for node in nodes if name in node.get("properties", ())]
    return named + [
        node["additionalProperties"]
        for node in nodes
        if "additionalProperties" in node and name not in node.get("properties", ()) and "patternProperties" not in node
    ]


def _of_item(nodes: list[Schema], index: int) -> list[Any]:
    """List the subschemas of an item, by its place in a tuple or as one of the rest."""
    schemas: list[Any] = []
    for node in nodes:
        members = node.get("prefixItems", ())
        if index < len(members):
            schemas.append(members[index])
        elif "items" in node:
            schemas.append(node["items"])
    return schemas


def _fits_alone(value: Any, node: Schema) -> bool:
    """Whether a value fits what a subschema says without further subschemas."""
    if "type" in node and not any(is_kind(value, kind) for kind in as_list(node["type"])):
        return False
    if "const" in node and not same(value, node["const"]):
        return False
    if "enum" in node and not any(same(value, other) for other in node["enum"]):
        return False
    if node.get("not") in ({}, True):
        return False
    bounded = [(check, node[keyword]) for keyword, check in _BOUNDS.items() if keyword in node]
    return all(within(value, bound) for (applies, within), bound in bounded if applies(value))
