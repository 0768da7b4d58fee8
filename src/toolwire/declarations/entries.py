"""The tools and resolvers that a file declares, read from its tree without importing anything.

Rules of this file:
- A tool may be spelled as in this package, as for OpenAI or Anthropic, or as in an MCP listing. Further fields of MCP
  are stored in the metadata, under their own names.
- Fields that only a handler can supply, such as its parameters, are missing here, and added when it is loaded.
- The allowed fields and their values are tables. An unknown key is reported, with the key that it probably misspells.
  A field that is null counts as absent.
"""

from collections.abc import Callable, Collection, Container, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.declarations.imports import ImportPath, ImportPathError, read_path
from toolwire.declarations.nodes import Node, Problems, format_value, join_field, suggestion
from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.types import Cache, Opaque, Tool
from toolwire.types.conversation import SCHEMA_KEYS

_BOOLEANS = {**dict.fromkeys(("yes", "on", "y"), "true"), **dict.fromkeys(("no", "off", "n"), "false")}


class _Expected(Struct, frozen=True):
    """A rule for a value: `message` for errors, the check, and the expectation for its members."""

    message: str
    is_valid: Callable[[Any], bool]
    member: "_Expected | None" = None


def _one_of(*words: str) -> _Expected:
    return _Expected(f"must be {' or '.join(words)}", lambda value: value in words)


_ANY = _Expected("must be given", lambda _: True)
_TEXT = _Expected("must be a text", lambda value: type(value) is str)
_NAME = _Expected("must be a text that is not empty", lambda value: type(value) is str and value != "")
_FLAG = _Expected("must be true or false", lambda value: type(value) is bool)
_AMOUNT = _Expected("must be a number above 0", lambda value: type(value) in (int, float) and value > 0)
_MAP = _Expected("must be a map", lambda value: type(value) is dict)
_LIST = _Expected("must be a list", lambda value: type(value) is list)
_NAME_LIST = _Expected("must be a list of texts", lambda value: type(value) is list, _NAME)
_RENAMES = _Expected("must be a map of old names to new ones", lambda value: type(value) is dict, _NAME)
EXPECTED_CONTENT = "a map with tools and resolvers, or a list of tools"
_FILE = {"tools": _ANY, "resolvers": _LIST}
_MCP_FIELDS = {
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
    **_MCP_FIELDS,
    "handler": _TEXT,
    "sensitive_fields": _NAME_LIST,
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
_RESOLVER = {"resolver": _TEXT, "prefix": _NAME, "only": _NAME_LIST, "rename": _RENAMES, "cwd": _NAME}
_REQUIRED = ("name", "description", "parameters")
_COPIED_FIELDS = ("name", "description", "strict", "custom", "format")


def _check(node: Node, expected: _Expected, field: str, problems: Problems) -> bool:
    """Return True if `node` is as expected. Otherwise record a problem."""
    if not expected.is_valid(node.value):
        problems.add(node, field, f"{expected.message}, not {format_value(node.value)}{_hint(node.value, expected)}")
        return False
    if expected.member is None:
        return True
    valid = [_check(member, expected.member, join_field(field, step), problems) for step, member in node.members()]
    return all(valid)


def _hint(value: Any, expected: _Expected) -> str:
    if expected is _FLAG and type(value) is str and value.lower() in _BOOLEANS:
        return f", which is a text; write {_BOOLEANS[value.lower()]}"
    if expected in (_TEXT, _NAME) and type(value) in (int, float, bool):
        return "; put it in quotes"
    return ""


def _check_map(node: Node, fields: Mapping[str, _Expected], field: str, problems: Problems) -> dict[str, Node]:
    """Return the valid fields of a map. Record a problem for each of the others."""
    if not _check(node, _MAP, field, problems):
        return {}
    valid: dict[str, Node] = {}
    for key, inner in node.value.items():
        expected = fields.get(key)
        if expected is None:
            problems.add(inner, join_field(field, key), f"is not a key here; {suggestion(key, fields)}")
        elif inner.value is not None and _check(inner, expected, join_field(field, key), problems):
            valid[key] = inner
    return valid


class Entry(Struct, frozen=True):
    """One tool of a file: the values that the file declares with their nodes, and its handler.

    `optional` are the fields that may be missing.
    """

    field: str
    node: Node
    values: dict[str, Any]
    nodes: dict[str, Node]
    optional: tuple[str, ...]
    handler: ImportPath | None
    sensitive: tuple[str, ...]

    def at(self, key: str) -> tuple[Node, str]:
        """Return the node and the name of a field, or those of the whole tool if the file does not have the field."""
        node = self.nodes.get(key)
        return (self.node, self.field) if node is None else (node, join_field(self.field, key))

    def missing_fields(self, declared: Tool | None = None) -> list[str]:
        """Return the required fields that neither the file nor the handler declares."""
        present = {*self.values, *self.optional, *(name for name in _REQUIRED if getattr(declared, name, None))}
        return [name for name in _REQUIRED if name not in present]


class ResolverEntry(Struct, frozen=True):
    """One resolver of a file: its import path, and how it is wrapped."""

    field: str
    path: ImportPath
    nodes: dict[str, Node]


class EntryReader:
    """Reads the entries of one file. If `handlers` is true, handlers will be loaded and may add missing fields."""

    def __init__(self, problems: Problems, allow: Collection[str] | None, *, handlers: bool) -> None:
        self.problems = problems
        self.allow = allow
        self.handlers = handlers

    def read(self, root: Node) -> tuple[list[Entry], list[ResolverEntry]]:
        """Read a map with tools and resolvers, a list of tools, or a map from names to tools."""
        if type(root.value) is list or _is_map_of_tools(root):
            return self._tools(root, ""), []
        if type(root.value) is not dict:
            self.problems.add(root, "", f"must be {EXPECTED_CONTENT}, not {format_value(root.value)}")
            return [], []
        valid = _check_map(root, _FILE, "", self.problems)
        tools = self._tools(valid["tools"], "tools") if "tools" in valid else []
        resolver_nodes = valid["resolvers"].value if "resolvers" in valid else []
        resolvers = [self._resolver(node, f"resolvers[{index}]") for index, node in enumerate(resolver_nodes)]
        return tools, [entry for entry in resolvers if entry is not None]

    def _tools(self, node: Node, field: str) -> list[Entry]:
        if type(node.value) is dict:
            return [self._tool(inner, join_field(field, name), name) for name, inner in node.value.items()]
        if not _check(node, _LIST, field, self.problems):
            return []
        return [self._tool(inner, join_field(field, index)) for index, inner in enumerate(node.value)]

    def _tool(self, node: Node, field: str, key: str | None = None) -> Entry:
        problems_before = len(self.problems.collected)
        nodes = _check_map(node, _TOOL, field, self.problems)
        is_foreign = "function" in nodes or "inputSchema" in nodes
        self._flatten(nodes, field)
        values = self._values(nodes, field)
        if key is not None and values.setdefault("name", key) != key:
            self.problems.add(nodes["name"], join_field(field, "name"), f"must be {format_value(key)}, as its key is")
        entry = Entry(
            field,
            node,
            values,
            nodes,
            ("description",) * is_foreign + ("parameters",) * bool(values.get("custom")),
            self._import_path(nodes["handler"], join_field(field, "handler")) if "handler" in nodes else None,
            tuple(nodes["sensitive_fields"].to_python()) if "sensitive_fields" in nodes else (),
        )
        missing = entry.missing_fields()
        if missing and len(self.problems.collected) == problems_before and not (self.handlers and entry.handler):
            hint = "; its handler may declare it, but handlers are not loaded" if entry.handler else ""
            self.problems.add(node, field, f"needs {', '.join(missing)}{hint}")
        return entry

    def _flatten(self, nodes: dict[str, Node], field: str) -> None:
        """Move the fields inside `function` to the tool, and store the schema under one name."""
        if "function" in nodes:
            function = _check_map(nodes.pop("function"), _FUNCTION, join_field(field, "function"), self.problems)
            self._report_duplicates(nodes, function, field, "function")
            nodes.update(function)
        schemas = [nodes.pop(name) for name in SCHEMA_KEYS if name in nodes]
        if schemas:
            nodes["parameters"] = schemas[0]
        if any(schema.to_python() != schemas[0].to_python() for schema in schemas):
            reason = f"must be given under one of {', '.join(SCHEMA_KEYS)}, not several"
            self.problems.add(schemas[-1], join_field(field, "parameters"), reason)

    def _report_duplicates(self, nodes: dict[str, Node], others: Container[str], field: str, other: str) -> None:
        for name, node in nodes.items():
            if name in others:
                self.problems.add(node, join_field(field, name), f"is also given in {other}; remove one of them")

    def _values(self, nodes: dict[str, Node], field: str) -> dict[str, Any]:
        """Return the fields of the tool that the file declares."""
        values = {name: nodes[name].to_python() for name in _COPIED_FIELDS if name in nodes}
        readers = {
            "parameters": self._parameters,
            "metadata": self._metadata,
            "cache": self._cache,
            "cache_control": self._cache,
            "opaque": self._opaque,
        }
        for name in filter(nodes.__contains__, readers):
            values[name] = readers[name](nodes[name], join_field(field, name))
        extra = {name: nodes[name] for name in _MCP_FIELDS if name in nodes}
        if extra:
            metadata = values.get("metadata", {})
            self._report_duplicates(extra, metadata, field, "metadata")
            values["metadata"] = metadata | {name: node.to_python() for name, node in extra.items()}
        if "cache_control" in values:
            values["cache"] = values.pop("cache_control")
        return values

    def _parameters(self, node: Node, field: str) -> Any:
        from toolwire.schema import fit  # noqa: PLC0415 - only a file with parameters needs it

        schema = node.to_python()
        try:
            fit(schema, "openai-strict")
        except SchemaRecursive:
            return schema
        except InvalidSchema as problem:
            self.problems.add(*schema_problem(problem, node, field), problem)
        return schema

    def _metadata(self, node: Node, field: str) -> Any:
        _check_map(node, {name: _METADATA.get(name, _ANY) for name in node.value}, field, self.problems)
        return node.to_python()

    def _cache(self, node: Node, field: str) -> Cache:
        valid = _check_map(node, _CACHE, field, self.problems)
        return Cache(valid["ttl"].to_python() if "ttl" in valid else None)

    def _opaque(self, node: Node, field: str) -> Opaque:
        valid = _check_map(node, _OPAQUE, field, self.problems)
        if "dialect" not in valid:
            self.problems.add(node, field, "needs a dialect")
        values = {name: inner.to_python() for name, inner in valid.items()}
        try:
            return msgspec.convert({"type": "opaque", "dialect": "", "value": None, **values}, Opaque)
        except msgspec.ValidationError as problem:
            self.problems.add(node, field, str(problem))
            return Opaque("", None)

    def _resolver(self, node: Node, field: str) -> ResolverEntry | None:
        valid = _check_map(node, _RESOLVER, field, self.problems)
        if "resolver" in valid:
            path = self._import_path(valid["resolver"], f"{field}.resolver")
            return None if path is None else ResolverEntry(field, path, valid)
        if type(node.value) is dict and "resolver" not in node.value:
            self.problems.add(node, field, "needs a resolver: an import path like my_app.tools:resolver")
        return None

    def _import_path(self, node: Node, field: str) -> ImportPath | None:
        try:
            return read_path(node.value, self.allow)
        except ImportPathError as problem:
            self.problems.add(node, field, str(problem))
            return None


def _is_map_of_tools(root: Node) -> bool:
    """Return True if this is a map from names to tools, and not a file whose key `tools` is misspelled."""
    if type(root.value) is not dict or not root.value or root.value.keys() & _FILE.keys():
        return False
    return all(type(node.value) is dict for node in root.value.values())


def schema_problem(problem: InvalidSchema, node: Node, field: str, name: str = "") -> tuple[Node, str, str]:
    """Return the node, the field and the reason of a problem inside a schema."""
    reason = str(problem).removeprefix(f"{problem.path}: ").removesuffix(f" (in the parameters of {name})")
    return node.find(problem.path), f"{field}.{problem.path}" if problem.path else field, reason
