"""What a file says: its tools and its resolvers, read from the tree without importing anything.

Rules of this file:
- A tool may be spelled as this package, OpenAI, Anthropic or an MCP listing spells it; what MCP says beyond
  that is kept in the metadata, under its own name.
- What only a handler can say (its own parameters, for one) is missing here, and filled in when it is loaded.
- What may stand in a field, and what in a map, is a table. A key that is not in it is refused, with the one that
  was probably meant. A field that is null is one that is not there.
"""

from collections.abc import Callable, Collection, Container, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.declarations.imports import ImportPath, Misnamed, read_path
from toolwire.declarations.nodes import Node, Problems, below, shown, suggestion
from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.types import Cache, Opaque, Tool
from toolwire.types.conversation import SCHEMA_KEYS

_BOOLEANS = {**dict.fromkeys(("yes", "on", "y"), "true"), **dict.fromkeys(("no", "off", "n"), "false")}


class _Expected(Struct, frozen=True):
    """What a value must be: `right` says it in words, `each` what its members must be."""

    right: str
    holds: Callable[[Any], bool]
    each: "_Expected | None" = None


def _one_of(*words: str) -> _Expected:
    return _Expected(f"must be {' or '.join(words)}", lambda value: value in words)


_ANY = _Expected("must be given", lambda _: True)
_TEXT = _Expected("must be a text", lambda value: type(value) is str)
_NAME = _Expected("must be a text that is not empty", lambda value: type(value) is str and value != "")
_FLAG = _Expected("must be true or false", lambda value: type(value) is bool)
_AMOUNT = _Expected("must be a number above 0", lambda value: type(value) in (int, float) and value > 0)
_MAP = _Expected("must be a map", lambda value: type(value) is dict)
_LIST = _Expected("must be a list", lambda value: type(value) is list)
_NAMES = _Expected("must be a list of texts", lambda value: type(value) is list, _NAME)
_RENAMES = _Expected("must be a map of old names to new ones", lambda value: type(value) is dict, _NAME)
WHOLE = "a map with tools and resolvers, or a list of tools"
_FILE = {"tools": _ANY, "resolvers": _LIST}
_OF_MCP = {
    "title": _TEXT,
    "annotations": _MAP,
    "outputSchema": _MAP,
    "icons": _LIST,
    "execution": _MAP,
    "_meta": _MAP,
}
_FUNCTION = {"name": _NAME, "description": _TEXT, "strict": _FLAG, **dict.fromkeys(SCHEMA_KEYS, _MAP)}
_TOOL = {
    **_FUNCTION,
    **_OF_MCP,
    "handler": _TEXT,
    "sensitive_fields": _NAMES,
    "metadata": _MAP,
    "custom": _FLAG,
    "format": _MAP,
    "cache": _MAP,
    "cache_control": _MAP,
    "opaque": _MAP,
    "type": _one_of("function", "custom"),
    "kind": _one_of("tool"),
    "function": _MAP,
}
_METADATA = {"parallel": _FLAG, "timeout": _AMOUNT, "output_limit": _AMOUNT}
_CACHE = {"type": _one_of("ephemeral"), "ttl": _TEXT}
_OPAQUE = {"type": _one_of("opaque"), "dialect": _NAME, "value": _ANY, "spelling": _MAP}
_RESOLVER = {"resolver": _TEXT, "prefix": _NAME, "only": _NAMES, "rename": _RENAMES, "cwd": _NAME}
_REQUIRED = ("name", "description", "parameters")
_PLAIN = ("name", "description", "strict", "custom", "format")


def _check(node: Node, kind: _Expected, field: str, problems: Problems) -> bool:
    """Whether a node is what it must be; what is not becomes a problem."""
    if not kind.holds(node.value):
        problems.add(node, field, f"{kind.right}, not {shown(node.value)}{_hint(node.value, kind)}")
        return False
    if kind.each is None:
        return True
    good = [_check(member, kind.each, below(field, step), problems) for step, member in node.members()]
    return all(good)


def _hint(value: Any, kind: _Expected) -> str:
    if kind is _FLAG and type(value) is str and value.lower() in _BOOLEANS:
        return f", which is a text; write {_BOOLEANS[value.lower()]}"
    if kind in (_TEXT, _NAME) and type(value) in (int, float, bool):
        return "; put it in quotes"
    return ""


def _check_map(node: Node, fields: Mapping[str, _Expected], field: str, problems: Problems) -> dict[str, Node]:
    """Give the fields of a map that are as the table says; the others become problems."""
    if not _check(node, _MAP, field, problems):
        return {}
    good: dict[str, Node] = {}
    for key, inner in node.value.items():
        kind = fields.get(key)
        if kind is None:
            problems.add(inner, below(field, key), f"is not a key here; {suggestion(key, fields)}")
        elif inner.value is not None and _check(inner, kind, below(field, key), problems):
            good[key] = inner
    return good


class Entry(Struct, frozen=True):
    """One tool of a file: what the file says of it and where, what may be left out, and what runs it."""

    field: str
    node: Node
    values: dict[str, Any]
    nodes: dict[str, Node]
    spare: tuple[str, ...]
    handler: ImportPath | None
    sensitive: tuple[str, ...]

    def at(self, key: str) -> tuple[Node, str]:
        """Give the place and the name of a field; of the whole tool, if the file does not say it."""
        node = self.nodes.get(key)
        return (self.node, self.field) if node is None else (node, below(self.field, key))

    def lacking(self, own: Tool | None = None) -> list[str]:
        """List what neither the file says nor its handler."""
        there = {*self.values, *self.spare, *(name for name in _REQUIRED if getattr(own, name, None))}
        return [name for name in _REQUIRED if name not in there]


class Composed(Struct, frozen=True):
    """One resolver of a file: where to find it, and how it is wrapped."""

    field: str
    path: ImportPath
    nodes: dict[str, Node]


class EntryReader:
    """Reads the entries of one file; `handlers` says that handlers may still fill in what is missing."""

    def __init__(self, problems: Problems, allow: Collection[str] | None, *, handlers: bool) -> None:
        self.problems = problems
        self.allow = allow
        self.handlers = handlers

    def read(self, root: Node) -> tuple[list[Entry], list[Composed]]:
        """Read a map with tools and resolvers, a list of tools, or a map from names to tools."""
        if type(root.value) is list or _is_by_name(root):
            return self._tools(root, ""), []
        if type(root.value) is not dict:
            self.problems.add(root, "", f"must be {WHOLE}, not {shown(root.value)}")
            return [], []
        good = _check_map(root, _FILE, "", self.problems)
        tools = self._tools(good["tools"], "tools") if "tools" in good else []
        listed = good["resolvers"].value if "resolvers" in good else []
        composed = [self._resolver(node, f"resolvers[{index}]") for index, node in enumerate(listed)]
        return tools, [one for one in composed if one is not None]

    def _tools(self, node: Node, field: str) -> list[Entry]:
        if type(node.value) is dict:
            return [self._tool(inner, below(field, name), name) for name, inner in node.value.items()]
        if not _check(node, _LIST, field, self.problems):
            return []
        return [self._tool(inner, below(field, index)) for index, inner in enumerate(node.value)]

    def _tool(self, node: Node, field: str, key: str | None = None) -> Entry:
        before = len(self.problems.found)
        nodes = _check_map(node, _TOOL, field, self.problems)
        is_loose = "function" in nodes or "inputSchema" in nodes
        self._flatten(nodes, field)
        values = self._values(nodes, field)
        if key is not None and values.setdefault("name", key) != key:
            self.problems.add(nodes["name"], below(field, "name"), f"must be {shown(key)}, as its key is")
        entry = Entry(
            field,
            node,
            values,
            nodes,
            ("description",) * is_loose + ("parameters",) * bool(values.get("custom")),
            self._path(nodes["handler"], below(field, "handler")) if "handler" in nodes else None,
            tuple(nodes["sensitive_fields"].plain()) if "sensitive_fields" in nodes else (),
        )
        lacking = entry.lacking()
        if lacking and len(self.problems.found) == before and not (self.handlers and entry.handler):
            why = "; its handler may say so, but handlers are not loaded" if entry.handler else ""
            self.problems.add(node, field, f"needs {', '.join(lacking)}{why}")
        return entry

    def _flatten(self, nodes: dict[str, Node], field: str) -> None:
        """Bring the fields to one spelling: none inside of `function`, and one name for the schema."""
        if "function" in nodes:
            inner = _check_map(nodes.pop("function"), _FUNCTION, below(field, "function"), self.problems)
            self._refuse_twice(nodes, inner, field, "function")
            nodes.update(inner)
        schemas = [nodes.pop(name) for name in SCHEMA_KEYS if name in nodes]
        if schemas:
            nodes["parameters"] = schemas[0]
        if any(schema.plain() != schemas[0].plain() for schema in schemas):
            reason = f"must be given under one of {', '.join(SCHEMA_KEYS)}, not several"
            self.problems.add(schemas[-1], below(field, "parameters"), reason)

    def _refuse_twice(self, nodes: dict[str, Node], others: Container[str], field: str, where: str) -> None:
        for name, node in nodes.items():
            if name in others:
                self.problems.add(node, below(field, name), f"is given in {where} too; say it once")

    def _values(self, nodes: dict[str, Node], field: str) -> dict[str, Any]:
        """Give the fields of the tool that the file says."""
        values = {name: nodes[name].plain() for name in _PLAIN if name in nodes}
        readers = {
            "parameters": self._parameters,
            "metadata": self._metadata,
            "cache": self._cache,
            "cache_control": self._cache,
            "opaque": self._opaque,
        }
        for name in filter(nodes.__contains__, readers):
            values[name] = readers[name](nodes[name], below(field, name))
        extra = {name: nodes[name] for name in _OF_MCP if name in nodes}
        if extra:
            metadata = values.get("metadata", {})
            self._refuse_twice(extra, metadata, field, "metadata")
            values["metadata"] = metadata | {name: node.plain() for name, node in extra.items()}
        if "cache_control" in values:
            values["cache"] = values.pop("cache_control")
        return values

    def _parameters(self, node: Node, field: str) -> Any:
        from toolwire.schema import fit  # noqa: PLC0415 - only a file with parameters needs it

        schema = node.plain()
        try:
            fit(schema, "openai-strict")
        except SchemaRecursive:
            return schema
        except InvalidSchema as problem:
            self.problems.add(*at_schema(problem, node, field), problem)
        return schema

    def _metadata(self, node: Node, field: str) -> Any:
        _check_map(node, {name: _METADATA.get(name, _ANY) for name in node.value}, field, self.problems)
        return node.plain()

    def _cache(self, node: Node, field: str) -> Cache:
        good = _check_map(node, _CACHE, field, self.problems)
        return Cache(good["ttl"].plain() if "ttl" in good else None)

    def _opaque(self, node: Node, field: str) -> Opaque:
        good = _check_map(node, _OPAQUE, field, self.problems)
        if "dialect" not in good:
            self.problems.add(node, field, "needs a dialect")
        values = {name: inner.plain() for name, inner in good.items()}
        try:
            return msgspec.convert({"type": "opaque", "dialect": "", "value": None, **values}, Opaque)
        except msgspec.ValidationError as problem:
            self.problems.add(node, field, str(problem))
            return Opaque("", None)

    def _resolver(self, node: Node, field: str) -> Composed | None:
        good = _check_map(node, _RESOLVER, field, self.problems)
        if "resolver" in good:
            path = self._path(good["resolver"], f"{field}.resolver")
            return None if path is None else Composed(field, path, good)
        if type(node.value) is dict and "resolver" not in node.value:
            self.problems.add(node, field, "needs a resolver: an import path like my_app.tools:resolver")
        return None

    def _path(self, node: Node, field: str) -> ImportPath | None:
        try:
            return read_path(node.value, self.allow)
        except Misnamed as problem:
            self.problems.add(node, field, str(problem))
            return None


def _is_by_name(root: Node) -> bool:
    """Whether this is a map from names to tools, and not a file whose `tools` are misspelled."""
    if type(root.value) is not dict or not root.value or root.value.keys() & _FILE.keys():
        return False
    return all(type(node.value) is dict for node in root.value.values())


def at_schema(problem: InvalidSchema, node: Node, field: str, name: str = "") -> tuple[Node, str, str]:
    """Give the place, the field and the reason of what is wrong inside of a schema."""
    reason = str(problem).removeprefix(f"{problem.path}: ").removesuffix(f" (in the parameters of {name})")
    return node.find(problem.path), f"{field}.{problem.path}" if problem.path else field, reason
