"""What a file says: its tools and its resolvers, read from the tree without importing anything.

Rules of this file:
- A tool may be spelled as this package, OpenAI, Anthropic or an MCP listing spells it; what MCP says beyond
  that is kept in the metadata, under its own name.
- What only a handler can say (its own parameters, for one) is missing here, and filled in when it is loaded.
"""

from collections.abc import Collection, Container
from typing import Any

from msgspec import Struct

from toolwire.declarations.fields import (
    AMOUNT,
    ANY,
    FLAG,
    LIST,
    MAP,
    NAME,
    NAMES,
    RENAMES,
    TEXT,
    check,
    check_map,
    one_of,
)
from toolwire.declarations.imports import ImportPath, Misnamed, read_path
from toolwire.declarations.nodes import Node, Problems, below, shown
from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.types import Cache, Opaque, Tool
from toolwire.types.conversation import SCHEMA_KEYS

WHOLE = "a map with tools and resolvers, or a list of tools"
FILE = {"tools": ANY, "resolvers": LIST}
OF_MCP = {
    "title": TEXT,
    "annotations": MAP,
    "outputSchema": MAP,
    "icons": LIST,
    "execution": MAP,
    "_meta": MAP,
}
FUNCTION = {"name": NAME, "description": TEXT, "strict": FLAG, **dict.fromkeys(SCHEMA_KEYS, MAP)}
TOOL = {
    **FUNCTION,
    **OF_MCP,
    "handler": TEXT,
    "sensitive_fields": NAMES,
    "metadata": MAP,
    "custom": FLAG,
    "format": MAP,
    "cache": MAP,
    "cache_control": MAP,
    "opaque": MAP,
    "type": one_of("function", "custom"),
    "kind": one_of("tool"),
    "function": MAP,
}
METADATA = {"parallel": FLAG, "timeout": AMOUNT, "output_limit": AMOUNT}
CACHE = {"type": one_of("ephemeral"), "ttl": TEXT}
OPAQUE = {"type": one_of("opaque"), "dialect": NAME, "value": ANY, "form": MAP}
RESOLVER = {"resolver": TEXT, "prefix": NAME, "only": NAMES, "rename": RENAMES, "cwd": NAME}
REQUIRED = ("name", "description", "parameters")
PLAIN = ("name", "description", "strict", "custom", "format")


class Entry(Struct, frozen=True):
    """One tool of a file: what the file says of it and where, what may be left out, and what runs it."""

    field: str
    node: Node
    said: dict[str, Any]
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
        given = {*self.said, *self.spare, *(name for name in REQUIRED if getattr(own, name, None))}
        return [name for name in REQUIRED if name not in given]


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
        good = check_map(root, FILE, "", self.problems)
        tools = self._tools(good["tools"], "tools") if "tools" in good else []
        listed = good["resolvers"].value if "resolvers" in good else []
        composed = [self._resolver(node, f"resolvers[{place}]") for place, node in enumerate(listed)]
        return tools, [one for one in composed if one is not None]

    def _tools(self, node: Node, field: str) -> list[Entry]:
        if type(node.value) is dict:
            return [self._tool(inner, below(field, name), name) for name, inner in node.value.items()]
        if not check(node, LIST, field, self.problems):
            return []
        return [self._tool(inner, below(field, place)) for place, inner in enumerate(node.value)]

    def _tool(self, node: Node, field: str, key: str | None = None) -> Entry:
        before = len(self.problems.found)
        nodes = check_map(node, TOOL, field, self.problems)
        is_loose = "function" in nodes or "inputSchema" in nodes
        self._flatten(nodes, field)
        said = self._said(nodes, field)
        if key is not None and said.setdefault("name", key) != key:
            self.problems.add(nodes["name"], below(field, "name"), f"must be {shown(key)}, as its key is")
        entry = Entry(
            field,
            node,
            said,
            nodes,
            ("description",) * is_loose + ("parameters",) * bool(said.get("custom")),
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
            inner = check_map(nodes.pop("function"), FUNCTION, below(field, "function"), self.problems)
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

    def _said(self, nodes: dict[str, Node], field: str) -> dict[str, Any]:
        """Give the fields of the tool that the file says."""
        said = {name: nodes[name].plain() for name in PLAIN if name in nodes}
        readers = {
            "parameters": self._parameters,
            "metadata": self._metadata,
            "cache": self._cache,
            "cache_control": self._cache,
            "opaque": self._opaque,
        }
        for name in filter(nodes.__contains__, readers):
            said[name] = readers[name](nodes[name], below(field, name))
        extra = {name: nodes[name] for name in OF_MCP if name in nodes}
        if extra:
            metadata = said.get("metadata", {})
            self._refuse_twice(extra, metadata, field, "metadata")
            said["metadata"] = metadata | {name: node.plain() for name, node in extra.items()}
        if "cache_control" in said:
            said["cache"] = said.pop("cache_control")
        return said

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
        check_map(node, {name: METADATA.get(name, ANY) for name in node.value}, field, self.problems)
        return node.plain()

    def _cache(self, node: Node, field: str) -> Cache:
        good = check_map(node, CACHE, field, self.problems)
        return Cache(good["ttl"].plain() if "ttl" in good else None)

    def _opaque(self, node: Node, field: str) -> Opaque:
        good = check_map(node, OPAQUE, field, self.problems)
        if "dialect" not in good:
            self.problems.add(node, field, "needs a dialect")
        said = {name: inner.plain() for name, inner in good.items()}
        return Opaque(said.get("dialect", ""), said.get("value"), said.get("form"))

    def _resolver(self, node: Node, field: str) -> Composed | None:
        good = check_map(node, RESOLVER, field, self.problems)
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
    if type(root.value) is not dict or not root.value or root.value.keys() & FILE.keys():
        return False
    return all(type(node.value) is dict for node in root.value.values())


def at_schema(problem: InvalidSchema, node: Node, field: str, name: str = "") -> tuple[Node, str, str]:
    """Give the place, the field and the reason of what is wrong inside of a schema."""
    reason = str(problem).removeprefix(f"{problem.path}: ").removesuffix(f" (in the parameters of {name})")
    return node.find(problem.path), f"{field}.{problem.path}" if problem.path else field, reason
