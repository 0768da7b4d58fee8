"""Removes the nulls that a model sends for absent arguments under a strict schema.

In OpenAI's strict mode every property is required, so that a model can leave one out only by sending null.

Rules of this file:
- A null is removed if the original schema declares the property, does not require it and does not accept null.
- Of several alternatives, the one that matches the arguments unchanged applies, else the first that matches without
  such nulls. An alternative that declares all given properties is preferred to one that only allows them.
- Matching considers types, literals, names and bounds. Patterns and the like are left to validation.
- Nulls below `MAX_DEPTH` levels stay, and validation reports them.
"""

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from toolwire.schema.document import MAX_DEPTH, RootSchema
from toolwire.schema.draft import as_list, is_json_type, is_number, is_same_json, normalize_subschema
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


# Up to this many names, scanning the list is as fast as building a set.
_SCAN_LIMIT = 16


def prune_nulls(arguments: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Return `arguments` without the nulls that mean "absent" under `schema`: the same object if there are none.

    >>> from toolwire.schema import prune_nulls
    >>> schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    >>> prune_nulls({"city": None}, schema)
    {}
    """
    return NullPruner(schema).prune(arguments)


class NullPruner:
    """Removes the nulls that mean "absent" under one schema. The schema is analyzed only once."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    @cached_property
    def has_optional_properties(self) -> bool:
        """Return True if the schema declares an optional property at any depth."""
        return has_optional_properties(self._schema)

    @cached_property
    def _document(self) -> RootSchema:
        return RootSchema(self._schema)

    def prune(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return `arguments` without the nulls that mean "absent": the same object if there are none."""
        required = self._schema.get("required")
        known: Collection[Any] = required if isinstance(required, list) else ()  # these stay, even if they are null
        if len(known) > _SCAN_LIMIT:
            known = _required_names(self._schema)
        if not _contains_null([value for name, value in arguments.items() if value is not None or name not in known]):
            return arguments
        if not self.has_optional_properties:
            return arguments
        result: dict[str, Any] = _Pruning(self._document).prune(arguments, self._schema, 0)
        return result


def has_optional_properties(schema: Any) -> bool:
    """Return True if `schema` declares an optional property at any depth."""
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            properties = node.get("properties")
            if isinstance(properties, dict) and not properties.keys() <= _required_names(node):
                return True
            pending += node.values()
        elif isinstance(node, list):
            pending += node
    return False


def _required_names(node: Schema) -> set[str]:
    names = node.get("required")
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def _contains_null(value: Any) -> bool:
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


class _MatchMode(NamedTuple):
    """How a value is matched against a subschema.

    `closed` forbids undeclared properties. `null_is_absent` accepts null for optional properties.
    """

    closed: bool
    null_is_absent: bool


_EXACT = _MatchMode(closed=False, null_is_absent=False)
_MATCH_MODES = (_MatchMode(True, False), _MatchMode(True, True), _EXACT, _MatchMode(False, True))


class _Pruning:
    """The state of one pruning: which value matches which subschema.

    Values and subschemas are keyed by identity. They are referenced here, so that no identity is reused.
    """

    __slots__ = ("_document", "_match_results", "_normalized_nodes")

    def __init__(self, document: RootSchema) -> None:
        self._document = document
        self._normalized_nodes: dict[int, tuple[Any, Schema]] = {}
        self._match_results: dict[tuple[int, int, _MatchMode], tuple[Any, bool]] = {}

    def prune(self, value: Any, raw: Any, depth: int) -> Any:
        """Return `value` without the nulls that mean "absent"."""
        if depth > MAX_DEPTH or not isinstance(value, dict | list):
            return value
        nodes = self._applicable(value, raw, depth)
        required = set[str]().union(*map(_required_names, nodes))
        if isinstance(value, list):
            items = [self._prune_with(item, _item_schemas(nodes, index), depth) for index, item in enumerate(value)]
            return value if all(new is old for new, old in zip(items, value, strict=True)) else items
        out = {
            name: self._prune_with(item, _property_schemas(nodes, name), depth)
            for name, item in value.items()
            if item is not None or name in required or not self._means_absent(name, nodes, depth)
        }
        unchanged = len(out) == len(value) and all(out[name] is value[name] for name in out)
        return value if unchanged else out

    def _prune_with(self, value: Any, schemas: list[Any], depth: int) -> Any:
        for raw in schemas:
            value = self.prune(value, raw, depth + 1)
        return value

    def _means_absent(self, name: str, nodes: list[Schema], depth: int) -> bool:
        if not any(name in node.get("properties", ()) for node in nodes):
            return False
        return not all(self._matches(None, raw, _EXACT, depth) for raw in _property_schemas(nodes, name))

    def _normalized(self, raw: Any) -> Schema:
        key = id(raw)
        if key not in self._normalized_nodes:
            self._normalized_nodes[key] = (raw, normalize_subschema(raw, ""))
        return self._normalized_nodes[key][1]

    def _applicable(self, value: Any, raw: Any, depth: int) -> list[Schema]:
        """Return all subschemas that apply to `value`: those that apply together, and the matching alternatives."""
        nodes: list[Schema] = []
        seen: set[str] = set()
        pending = [raw]
        while pending:
            node = self._normalized(pending.pop())
            nodes.append(node)
            if (ref := node.get("$ref")) is not None and ref not in seen:
                seen.add(ref)
                pending.append(self._document.find(ref))
            pending += node.get("allOf", ())
            for keyword in ("anyOf", "oneOf"):
                pending += self._select_branch(value, node.get(keyword, ()), depth)
        return nodes

    def _select_branch(self, value: Any, branches: list[Any], depth: int) -> list[Any]:
        for mode in _MATCH_MODES:
            for branch in branches:
                if self._matches(value, branch, mode, depth):
                    return [branch]
        return []

    def _matches(self, value: Any, raw: Any, mode: _MatchMode, depth: int) -> bool:
        """Return True if `value` matches the subschema in the given mode."""
        if depth > MAX_DEPTH:
            return True
        node = self._normalized(raw)
        key = (id(value), id(node), mode)
        if key not in self._match_results:
            self._match_results[key] = (value, True)
            fits = (
                _satisfies_own_keywords(value, node)
                and self._satisfies_combiners(value, node, mode, depth + 1)
                and self._satisfies_children(value, node, mode, depth + 1)
            )
            self._match_results[key] = (value, fits)
        return self._match_results[key][1]

    def _satisfies_combiners(self, value: Any, node: Schema, mode: _MatchMode, depth: int) -> bool:
        if "$ref" in node and not self._matches(value, self._document.find(node["$ref"]), mode, depth):
            return False
        if not all(self._matches(value, raw, mode, depth) for raw in node.get("allOf", ())):
            return False
        unions = [node[keyword] for keyword in ("anyOf", "oneOf") if keyword in node]
        return all(any(self._matches(value, raw, mode, depth) for raw in union) for union in unions)

    def _satisfies_children(self, value: Any, node: Schema, mode: _MatchMode, depth: int) -> bool:
        if isinstance(value, list):
            return all(
                self._matches(item, raw, mode, depth)
                for index, item in enumerate(value)
                for raw in _item_schemas([node], index)
            )
        if not isinstance(value, dict):
            return True
        required, declared = set(node.get("required", ())), node.get("properties", {})
        if any(name not in value for name in required):
            return False
        lists_properties = COMBINERS.isdisjoint(node) or not OBJECT_KEYWORDS.isdisjoint(node)
        if mode.closed and lists_properties and not value.keys() <= declared.keys():
            return False
        return all(
            (mode.null_is_absent and item is None and name not in required) or self._matches(item, raw, mode, depth)
            for name, item in value.items()
            for raw in _property_schemas([node], name)
        )


def _property_schemas(nodes: list[Schema], name: str) -> list[Any]:
    """Return the subschemas for the property `name`, whether it is declared or an additional one."""
    declared = [node["properties"][name] for node in nodes if name in node.get("properties", ())]
    return declared + [
        node["additionalProperties"]
        for node in nodes
        if "additionalProperties" in node and name not in node.get("properties", ()) and "patternProperties" not in node
    ]


def _item_schemas(nodes: list[Schema], index: int) -> list[Any]:
    """Return the subschemas for the item at `index`, whether it belongs to the tuple or follows it."""
    schemas: list[Any] = []
    for node in nodes:
        members = node.get("prefixItems", ())
        if index < len(members):
            schemas.append(members[index])
        elif "items" in node:
            schemas.append(node["items"])
    return schemas


def _satisfies_own_keywords(value: Any, node: Schema) -> bool:
    """Return True if `value` satisfies the keywords of `node` that have no subschemas."""
    if "type" in node and not any(is_json_type(value, json_type) for json_type in as_list(node["type"])):
        return False
    if "const" in node and not is_same_json(value, node["const"]):
        return False
    if "enum" in node and not any(is_same_json(value, other) for other in node["enum"]):
        return False
    if node.get("not") in ({}, True):
        return False
    bounds = [(check, node[keyword]) for keyword, check in _BOUNDS.items() if keyword in node]
    return all(within(value, bound) for (applies, within), bound in bounds if applies(value))
