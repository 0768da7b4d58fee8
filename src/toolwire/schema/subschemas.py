"""The subschemas of a schema, and the targets of its references.

Rules of this file:
- Only the keywords in the tables contain subschemas. The value of `const` is never one, whatever it looks like.
- A reference is resolved inside the schema only: by pointer, by anchor or by `$id`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urldefrag, urljoin

from toolwire.schema.document import pointer_step, pointer_steps
from toolwire.schema.draft import join_path

SINGLE_SCHEMA = frozenset(
    {"additionalProperties", "additionalItems", "contains", "contentSchema", "else", "if", "items", "not"}
    | {"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
SCHEMA_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
SCHEMA_MAP = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})
_SCHEMA_KEYWORDS = SINGLE_SCHEMA | SCHEMA_LIST | SCHEMA_MAP
SAME_VALUE = frozenset({"allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"})
NOT_APPLIED = frozenset({"$defs", "definitions", "contentSchema"})
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
NO_BASE = "https://toolwire.invalid/arguments"


class Subschema(NamedTuple):
    """A subschema, with its readable `path`, its JSON `pointer`, and the `base` URI of its references."""

    node: Any
    path: str = ""
    pointer: str = ""
    base: str = NO_BASE

    def below(self, keyword: str, step: str | int | None, node: Any) -> "Subschema":
        """Return the subschema that `keyword` contains, at `step` if there are several."""
        path = join_path(self.path, keyword)
        pointer = f"{self.pointer}/{keyword}"
        if step is not None:
            path = f"{path}[{step}]" if isinstance(step, int) else f"{path}.{step}"
            pointer = f"{pointer}/{pointer_step(str(step))}"
        return Subschema(node, path, pointer, resolve_base(node, self.base))


def resolve_base(node: Any, base: str) -> str:
    """Return the base URI for the references in `node`: its own `$id` if it has one, else `base`."""
    if type(node) is not dict:
        return base
    own_id = node.get("$id")
    return _join_uri(base, own_id) if isinstance(own_id, str) and not own_id.startswith("#") else base


def _join_uri(base: str, uri: str) -> str:
    try:
        return urldefrag(urljoin(base, uri)).url
    except ValueError:
        return uri


def child_subschemas(subschema: Subschema) -> Iterator[tuple[str, Subschema]]:
    """Yield the direct subschemas of `subschema`, each with the keyword that contains it."""
    for keyword, value in subschema.node.items():
        if keyword not in _SCHEMA_KEYWORDS:
            continue
        if keyword in SCHEMA_MAP:
            if type(value) is dict:
                for name, node in value.items():
                    if type(node) is not list:
                        yield keyword, subschema.below(keyword, name, node)
        elif type(value) is list:
            for index, node in enumerate(value):
                yield keyword, subschema.below(keyword, index, node)
        elif keyword in SINGLE_SCHEMA:
            yield keyword, subschema.below(keyword, None, value)


def walk_subschemas(root: Subschema) -> Iterator[Subschema]:
    """Yield `root` and all subschemas inside it, parents first."""
    pending = [root]
    while pending:
        subschema = pending.pop()
        yield subschema
        if type(subschema.node) is dict:
            pending += [below for _, below in child_subschemas(subschema)][::-1]


class Resources:
    """The possible reference targets of a schema, by `$id`, by anchor and by pointer."""

    __slots__ = ("_anchors", "_by_uri", "_dynamic", "_recursive")

    def __init__(self, subschemas: Sequence[Subschema]) -> None:
        root = subschemas[0]
        self._by_uri: dict[str, Subschema] = {NO_BASE: root, root.base: root}
        self._anchors: dict[tuple[str, str], Subschema] = {}
        self._dynamic: dict[str, list[Subschema]] = {}
        self._recursive: list[Subschema] = []
        for subschema in subschemas:
            if type(subschema.node) is dict:
                self._register(subschema)

    def _register(self, subschema: Subschema) -> None:
        node: Mapping[str, Any] = subschema.node
        own_id = node.get("$id", node.get("id"))
        if isinstance(own_id, str):
            if own_id.startswith("#"):
                self._anchors.setdefault((subschema.base, own_id[1:]), subschema)
            else:
                self._by_uri.setdefault(subschema.base, subschema)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := node.get(keyword), str):
                self._anchors.setdefault((subschema.base, name), subschema)
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(name, []).append(subschema)
        if node.get("$recursiveAnchor") is True:
            self._recursive.append(subschema)

    def find(self, ref: str, base: str) -> Subschema | None:
        """Return the subschema that `ref` points to, or None if this schema has no such subschema."""
        target, _, fragment = ref.partition("#")
        start = self._by_uri.get(_join_uri(base, target) if target else base)
        if start is None or not fragment:
            return start
        if not fragment.startswith("/"):
            return self._anchors.get((start.base, fragment))
        return _follow_pointer(start, pointer_steps(fragment))

    def resolve_references(self, subschema: Subschema) -> Iterator[tuple[str, str, list[Subschema]]]:
        """Yield the references of `subschema`: keyword, text, and all possible targets.

        A dynamic reference may have several targets.
        """
        for keyword in REFERENCES:
            ref = subschema.node.get(keyword)
            if not isinstance(ref, str):
                continue
            target = self.find(ref, subschema.base)
            dynamic: list[Subschema] = []
            if keyword == "$dynamicRef":
                dynamic = self._dynamic.get(ref.partition("#")[2], [])
            elif keyword == "$recursiveRef":
                dynamic = self._recursive
            candidates = [target] if target is not None else []
            yield keyword, ref, candidates + [candidate for candidate in dynamic if candidate is not target]


def _follow_pointer(start: Subschema, steps: list[str]) -> Subschema | None:
    node, path, pointer, base = start
    for step in steps:
        if type(node) is dict and step in node:
            node, path = node[step], join_path(path, step)
        elif type(node) is list and step.isascii() and step.isdigit() and int(step[:9]) < len(node):
            node, path = node[int(step)], f"{path}[{step}]"
        else:
            return None
        pointer, base = f"{pointer}/{pointer_step(step)}", resolve_base(node, base)
    return Subschema(node, path, pointer, base) if type(node) is dict or type(node) is bool else None
