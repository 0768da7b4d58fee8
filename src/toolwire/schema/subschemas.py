"""Where subschemas stand in a schema, and which of them a reference means.

Rules of this file:
- A keyword that is in no table holds no subschema, whatever it looks like: what is below `const` is a value.
- A reference stays inside the schema. What it means there is found by pointer, by anchor or by `$id`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urldefrag, urljoin

from toolwire.schema.document import pointer_step, pointer_steps
from toolwire.schema.draft import inside

ONE = frozenset(
    {"additionalProperties", "additionalItems", "contains", "contentSchema", "else", "if", "items", "not"}
    | {"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
SEVERAL = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
NAMED = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})
_HOLDERS = ONE | SEVERAL | NAMED
SAME_VALUE = frozenset({"allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"})
ONLY_REFERRED = frozenset({"$defs", "definitions", "contentSchema"})
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
NO_BASE = "https://toolwire.invalid/arguments"


class Subschema(NamedTuple):
    """A subschema: where it stands, as a path and as a pointer, and what its references start from."""

    node: Any
    path: str = ""
    pointer: str = ""
    base: str = NO_BASE

    def below(self, keyword: str, step: str | int | None, node: Any) -> "Subschema":
        """Go to a subschema that a keyword holds."""
        path = inside(self.path, keyword)
        pointer = f"{self.pointer}/{keyword}"
        if step is not None:
            path = f"{path}[{step}]" if isinstance(step, int) else f"{path}.{step}"
            pointer = f"{pointer}/{pointer_step(str(step))}"
        return Subschema(node, path, pointer, based(node, self.base))


def based(node: Any, base: str) -> str:
    """Say what the references of a subschema start from: its own `$id`, if it has one."""
    if type(node) is not dict:
        return base
    own = node.get("$id")
    return _joined(base, own) if isinstance(own, str) and not own.startswith("#") else base


def _joined(base: str, uri: str) -> str:
    try:
        return urldefrag(urljoin(base, uri)).url
    except ValueError:
        return uri


def held(place: Subschema) -> Iterator[tuple[str, Subschema]]:
    """Give the subschemas that the keywords of one hold, each with its keyword."""
    for keyword, value in place.node.items():
        if keyword not in _HOLDERS:
            continue
        if keyword in NAMED:
            if type(value) is dict:
                for name, node in value.items():
                    if type(node) is not list:
                        yield keyword, place.below(keyword, name, node)
        elif type(value) is list:
            for index, node in enumerate(value):
                yield keyword, place.below(keyword, index, node)
        elif keyword in ONE:
            yield keyword, place.below(keyword, None, value)


def places(root: Subschema) -> Iterator[Subschema]:
    """Give a schema and every subschema of it, each before those inside it."""
    waiting = [root]
    while waiting:
        place = waiting.pop()
        yield place
        if type(place.node) is dict:
            waiting += [below for _, below in held(place)][::-1]


class Resources:
    """What references may mean in a schema: its parts by `$id`, by anchor and by pointer."""

    __slots__ = ("_anchors", "_by_uri", "_dynamic", "_recursive")

    def __init__(self, every: Sequence[Subschema]) -> None:
        root = every[0]
        self._by_uri: dict[str, Subschema] = {NO_BASE: root, root.base: root}
        self._anchors: dict[tuple[str, str], Subschema] = {}
        self._dynamic: dict[str, list[Subschema]] = {}
        self._recursive: list[Subschema] = []
        for place in every:
            if type(place.node) is dict:
                self._enter(place)

    def _enter(self, place: Subschema) -> None:
        node: Mapping[str, Any] = place.node
        own = node.get("$id", node.get("id"))
        if isinstance(own, str):
            if own.startswith("#"):
                self._anchors.setdefault((place.base, own[1:]), place)
            else:
                self._by_uri.setdefault(place.base, place)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := node.get(keyword), str):
                self._anchors.setdefault((place.base, name), place)
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(name, []).append(place)
        if node.get("$recursiveAnchor") is True:
            self._recursive.append(place)

    def find(self, ref: str, base: str) -> Subschema | None:
        """Find the subschema that a reference means; none when there is no such subschema here."""
        target, _, fragment = ref.partition("#")
        start = self._by_uri.get(_joined(base, target) if target else base)
        if start is None or not fragment:
            return start
        if not fragment.startswith("/"):
            return self._anchors.get((start.base, fragment))
        return _walked(start, pointer_steps(fragment))

    def meant(self, place: Subschema) -> Iterator[tuple[str, str, list[Subschema]]]:
        """Give the references of a subschema: keyword, text, and each subschema that may be meant."""
        for keyword in REFERENCES:
            ref = place.node.get(keyword)
            if not isinstance(ref, str):
                continue
            found = self.find(ref, place.base)
            others: list[Subschema] = []
            if keyword == "$dynamicRef":
                others = self._dynamic.get(ref.partition("#")[2], [])
            elif keyword == "$recursiveRef":
                others = self._recursive
            known = [found] if found is not None else []
            yield keyword, ref, known + [other for other in others if other is not found]


def _walked(start: Subschema, steps: list[str]) -> Subschema | None:
    node, path, pointer, base = start
    for step in steps:
        if type(node) is dict and step in node:
            node, path = node[step], inside(path, step)
        elif type(node) is list and step.isascii() and step.isdigit() and int(step[:9]) < len(node):
            node, path = node[int(step)], f"{path}[{step}]"
        else:
            return None
        pointer, base = f"{pointer}/{pointer_step(step)}", based(node, base)
    return Subschema(node, path, pointer, base) if type(node) is dict or type(node) is bool else None
