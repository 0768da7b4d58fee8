"""The handlers and resolvers of a file: imported, and checked against its declarations.

Rules of this file:
- The file's declarations override the handler's own. A field is sensitive if either declares it so.
- A function is called with the arguments as keywords, and an object's `execute` with all of them as a map. A handler
  that cannot be called with the declared arguments is reported before the first call.
- If a handler has its own declaration (`@tool`, or a `definition`), the file may leave out most fields.
- An exception from an import, a class or a resolver becomes a problem with a position, and is its cause.
"""

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from toolwire.declarations.entries import Entry, ResolverEntry, schema_problem
from toolwire.declarations.imports import ImportPath, ImportPathError, import_object
from toolwire.declarations.nodes import Node, Problems, format_value, join_field, suggestion
from toolwire.errors import InvalidField, InvalidSchema, ToolwireError
from toolwire.resolvers import filtered, prefixed, renamed
from toolwire.resolvers.functions import FunctionTool, tool
from toolwire.resolvers.handler import Handler, bind_text, handlers_of
from toolwire.resolvers.protocol import resolver_of
from toolwire.types import Tool

# With one of these keywords, a schema may have properties that are not in its `properties`.
_PROPERTY_SOURCES = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if"})
_METHOD_EXAMPLE = "my_app.tools:toolbox.search"


class Loader:
    """Loads the entries of one file."""

    def __init__(self, problems: Problems, allow: Collection[str] | None, folder: Path | None) -> None:
        self.problems = problems
        self.allow = allow
        self.folder = folder

    def tools(self, entries: Sequence[Entry], *, handlers: bool) -> tuple[list[Tool], list[Any]]:
        """Return the tools of the entries, and the handlers of those that name one."""
        tools: list[Tool] = []
        loaded: list[Any] = []
        first: dict[str, Node] = {}
        for entry in entries:
            path = entry.handler if handlers else None
            declared, handler = (_merge_tool(entry), None) if path is None else self._load_handler(entry, path)
            if declared is None:
                continue
            if declared.name in first:
                line = first[declared.name].line
                reason = f"{format_value(declared.name)} is declared twice; the first declaration is in line {line}"
                self.problems.add(*entry.at("name"), reason)
            first.setdefault(declared.name, entry.node)
            tools.append(declared)
            loaded += [] if handler is None else [handler]
        return tools, loaded

    def _load_handler(self, entry: Entry, path: ImportPath) -> tuple[Tool | None, Any]:
        try:
            loaded = _handler_from(import_object(path, self.allow))
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a handler may raise anything
            self._record_exception(problem, *entry.at("handler"))
            return None, None
        missing = [] if loaded.is_complete else entry.missing_fields(loaded.handler.tool)
        if missing:
            self.problems.add(entry.node, entry.field, f"needs {', '.join(missing)}")
            return None, None
        declared = _merge_tool(entry, loaded.handler.tool)
        node, field = entry.at("parameters")
        if loaded.accepts is not None and "parameters" in entry.values:
            for schema_path, reason in _mismatches(loaded.accepts, entry.values["parameters"]):
                self.problems.add(node.find(schema_path), f"{field}.{schema_path}", reason)
        try:
            return declared, loaded.handler_for(declared, entry.sensitive)
        except InvalidSchema as problem:
            self.problems.add(*schema_problem(problem, node, field, declared.name), problem)
            return declared, None

    def _record_exception(self, problem: BaseException, node: Node, field: str) -> None:
        """Record an exception. For errors of this package only the reason is recorded, as the field is known."""
        cause: BaseException | None = problem
        match problem:
            case ImportPathError():
                reason, cause = str(problem), problem.__cause__
            case InvalidField():
                reason = problem.reason
            case ToolwireError():
                reason = str(problem)
            case _:
                reason = f"raised {type(problem).__name__}: {problem}"
        self.problems.add(node, field, reason, cause)

    def resolvers(self, entries: Sequence[ResolverEntry]) -> list[Any]:
        """Return the resolvers, bound to their folders and wrapped: first renamed, then filtered, then prefixed."""
        resolvers = [self._resolver(entry, index) for index, entry in enumerate(entries)]
        return [entry for entry in resolvers if entry is not None]

    def _resolver(self, entry: ResolverEntry, index: int) -> Any:
        steps: list[tuple[str, Callable[[Any, Any], Any]]] = [
            ("resolver", lambda _, __: import_object(entry.path, self.allow)),
            (
                "cwd" if "cwd" in entry.nodes else "resolver",
                lambda resolver, _: self._bind_folder(resolver, entry, index),
            ),
            ("rename", renamed),
            ("only", filtered),
            ("prefix", prefixed),
        ]
        resolver: Any = None
        for key, step in steps:
            if key in entry.nodes:
                resolver = self._step(step, resolver, entry.nodes[key], f"{entry.field}.{key}")
                if resolver is None:
                    break
        return resolver

    def _step(self, step: Callable[[Any, Any], Any], resolver: Any, node: Node, field: str) -> Any:
        """Apply one step, which imports, binds or wraps a resolver. Return None after a problem."""
        problems_before = len(self.problems.collected)
        try:
            if type(node.value) is not str:
                self._check_names(node, field, [tool.name for tool in resolver.available_tools()])
            return step(resolver, node.to_python()) if len(self.problems.collected) == problems_before else None
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a resolver may raise anything
            self._record_exception(problem, node, field)
            return None

    def _check_names(self, node: Node, field: str, tool_names: list[str]) -> None:
        for step, member in node.members():
            name = step if isinstance(step, str) else member.value
            if name not in tool_names:
                reason = f"the resolver has no tool {format_value(name)}; {suggestion(name, tool_names)}"
                self.problems.add(member, join_field(field, step), reason)

    def _bind_folder(self, resolver: Any, entry: ResolverEntry, index: int) -> Any:
        """Bind a resolver to its folder, which is relative to the file."""
        if "cwd" not in entry.nodes:
            return resolver_of(resolver, f"Composition[{index}]")
        takes_folder = inspect.isclass(resolver) and "cwd" in inspect.signature(resolver).parameters
        if not takes_folder and not callable(getattr(resolver, "at", None)):
            raise InvalidField("cwd", "is for a class that takes a cwd, or a resolver with `at(cwd)`")
        cwd = entry.nodes["cwd"].value
        return resolver_of((resolver, str(self.folder / cwd) if self.folder else cwd), f"Composition[{index}]")


def _merge_tool(entry: Entry, handler_tool: Tool | None = None) -> Tool:
    """Merge the declarations of the file with the handler's own."""
    fields = {"description": None, "parameters": None, "metadata": {}} if handler_tool is None else asdict(handler_tool)
    if entry.values.get("custom"):
        fields["parameters"] = None
    return Tool(**(fields | entry.values | {"metadata": fields["metadata"] | entry.values.get("metadata", {})}))


class _LoadedHandler(Struct, frozen=True):
    """An imported handler.

    `accepts` is the schema of its parameters, if it is known. `is_complete` is True if it has its own declaration.
    """

    handler: Handler
    accepts: dict[str, Any] | None = None
    is_complete: bool = True

    def handler_for(self, declared: Tool, sensitive: Collection[str]) -> Handler:
        """Return the handler for the tool that the file declares."""
        handler = self.handler
        takes_text = declared.custom and self.accepts is not None
        return Handler(
            declared,
            handler.function,
            bind_text if takes_text else handler.bind,
            sensitive=tuple(dict.fromkeys((*handler.sensitive, *sensitive))),
            preview=handler.preview,
            read=handler.read,
        )


def _handler_from(target: Any) -> _LoadedHandler:
    """Return the handler of an imported object."""
    if isinstance(target, FunctionTool):
        return _function_handler(target, is_complete=True)
    if callable(getattr(target, "execute", None)) and getattr(target, "definition", None) is None:
        instance: Any = target() if inspect.isclass(target) else target
        return _LoadedHandler(Handler(Tool(""), instance.execute), is_complete=False)
    if inspect.isroutine(target):
        return _function_handler(tool(target), is_complete=False)
    handlers = handlers_of(target)
    if len(handlers) != 1:
        names = ", ".join(handler.tool.name for handler in handlers)
        raise InvalidField("handler", f"has several tools ({names}); name one of them, as in {_METHOD_EXAMPLE}")
    signature = getattr(target, "__signature_of_tool__", None)
    return _LoadedHandler(handlers[0], None if signature is None else signature.parameters)


def _function_handler(target: FunctionTool, *, is_complete: bool) -> _LoadedHandler:
    if not target.bound:
        raise InvalidField("handler", f"is a method without its object; name it as in {_METHOD_EXAMPLE}")
    [handler] = handlers_of(target)
    return _LoadedHandler(handler, target.signature.parameters, is_complete=is_complete)


def _mismatches(accepts: dict[str, Any], parameters: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the reasons why a function cannot be called as declared, each with the path in the parameters."""
    accepted, properties = accepts["properties"], parameters.get("properties") or {}
    if accepts.get("additionalProperties") is False:
        for name in properties:
            if name not in accepted:
                reason = f"the handler does not accept {name}; it accepts {', '.join(accepted) or 'nothing'}"
                yield join_field("properties", name), reason
    if not parameters.keys() & _PROPERTY_SOURCES:
        for name in accepts.get("required", ()):
            if name not in (parameters.get("required") or []):
                yield "required", f"must have {name}, which the handler requires"
