"""From what a file says to what runs: handlers and resolvers are imported, and checked against the file.

Rules of this file:
- What the file says wins over what a handler says of itself; a field is sensitive if either says so.
- A function is called with the arguments as keywords; an object's `execute` with all at once. One that cannot be
  called with what the file declares is refused before the first call.
- A handler that declares itself (`@tool`, or a `definition`) may leave the file little to say.
- What an import, a class or a resolver raises becomes a problem at its place, with what was raised as cause.
"""

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from toolwire.declarations.entries import Composed, Entry, at_schema
from toolwire.declarations.imports import ImportPath, Misnamed, import_object
from toolwire.declarations.nodes import Node, Problems, below, shown, suggestion
from toolwire.errors import InvalidField, InvalidSchema, ToolwireError
from toolwire.resolvers import filtered, prefixed, renamed
from toolwire.resolvers.functions import FunctionTool, tool
from toolwire.resolvers.handler import Handler, bind_text, handlers_of
from toolwire.resolvers.protocol import resolver_of
from toolwire.types import Tool

# Beside these a schema may have properties that its own `properties` does not name.
_ELSEWHERE = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if"})
_METHOD = "my_app.tools:toolbox.search"


class Loader:
    """Loads the entries of one file."""

    def __init__(self, problems: Problems, allow: Collection[str] | None, folder: Path | None) -> None:
        self.problems = problems
        self.allow = allow
        self.folder = folder

    def tools(self, entries: Sequence[Entry], *, handlers: bool) -> tuple[list[Tool], list[Any]]:
        """Give the tools of the entries, and what runs those that name a handler."""
        tools: list[Tool] = []
        running: list[Any] = []
        first: dict[str, Node] = {}
        for entry in entries:
            path = entry.handler if handlers else None
            declared, handler = (_tool_of(entry), None) if path is None else self._run_by(entry, path)
            if declared is None:
                continue
            if declared.name in first:
                line = first[declared.name].line
                reason = f"{shown(declared.name)} is declared twice; it stands in line {line} already"
                self.problems.add(*entry.at("name"), reason)
            first.setdefault(declared.name, entry.node)
            tools.append(declared)
            running += [] if handler is None else [handler]
        return tools, running

    def _run_by(self, entry: Entry, path: ImportPath) -> tuple[Tool | None, Any]:
        try:
            found = _read_handler(import_object(path, self.allow))
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a handler may raise anything
            self._note(problem, *entry.at("handler"))
            return None, None
        lacking = [] if found.declares else entry.lacking(found.handler.tool)
        if lacking:
            self.problems.add(entry.node, entry.field, f"needs {', '.join(lacking)}")
            return None, None
        declared = _tool_of(entry, found.handler.tool)
        node, field = entry.at("parameters")
        if found.takes is not None and "parameters" in entry.values:
            for where, reason in _misfits(found.takes, entry.values["parameters"]):
                self.problems.add(node.find(where), f"{field}.{where}", reason)
        try:
            return declared, found.running(declared, entry.sensitive)
        except InvalidSchema as problem:
            self.problems.add(*at_schema(problem, node, field, declared.name), problem)
            return declared, None

    def _note(self, problem: BaseException, node: Node, field: str) -> None:
        """Note what was raised; of our own errors, the reason alone is told, because the field is known."""
        cause: BaseException | None = problem
        match problem:
            case Misnamed():
                reason, cause = str(problem), problem.__cause__
            case InvalidField():
                reason = problem.reason
            case ToolwireError():
                reason = str(problem)
            case _:
                reason = f"raised {type(problem).__name__}: {problem}"
        self.problems.add(node, field, reason, cause)

    def resolvers(self, composed: Sequence[Composed]) -> list[Any]:
        """Give the resolvers, bound to their folders and wrapped: renamed, then filtered, then prefixed."""
        made = [self._resolver(one, place) for place, one in enumerate(composed)]
        return [one for one in made if one is not None]

    def _resolver(self, one: Composed, place: int) -> Any:
        steps: list[tuple[str, Callable[[Any, Any], Any]]] = [
            ("resolver", lambda _, __: import_object(one.path, self.allow)),
            ("cwd" if "cwd" in one.nodes else "resolver", lambda resolver, _: self._bound(resolver, one, place)),
            ("rename", renamed),
            ("only", filtered),
            ("prefix", prefixed),
        ]
        resolver: Any = None
        for key, step in steps:
            if key in one.nodes:
                resolver = self._step(step, resolver, one.nodes[key], f"{one.field}.{key}")
                if resolver is None:
                    break
        return resolver

    def _step(self, step: Callable[[Any, Any], Any], resolver: Any, node: Node, field: str) -> Any:
        """Take one step from a resolver to what wraps it."""
        before = len(self.problems.found)
        try:
            if type(node.value) is not str:
                self._check_names(node, field, [tool.name for tool in resolver.available_tools()])
            return step(resolver, node.plain()) if len(self.problems.found) == before else None
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a resolver may raise anything
            self._note(problem, node, field)
            return None

    def _check_names(self, node: Node, field: str, there: list[str]) -> None:
        for step, member in node.members():
            name = step if isinstance(step, str) else member.value
            if name not in there:
                reason = f"the resolver has no tool {shown(name)}; {suggestion(name, there)}"
                self.problems.add(member, below(field, step), reason)

    def _bound(self, resolver: Any, one: Composed, place: int) -> Any:
        """Bind a resolver to its folder, which stands relative to the file."""
        if "cwd" not in one.nodes:
            return resolver_of(resolver, f"Composition[{place}]")
        minds = inspect.isclass(resolver) and "cwd" in inspect.signature(resolver).parameters
        if not minds and not callable(getattr(resolver, "at", None)):
            raise InvalidField("cwd", "is for a class that takes a cwd, or a resolver with `at(cwd)`")
        cwd = one.nodes["cwd"].value
        return resolver_of((resolver, str(self.folder / cwd) if self.folder else cwd), f"Composition[{place}]")


def _tool_of(entry: Entry, own: Tool | None = None) -> Tool:
    """Put together what the file says and what the handler says of itself."""
    fields = {"description": None, "parameters": None, "metadata": {}} if own is None else asdict(own)
    if entry.values.get("custom"):
        fields["parameters"] = None
    return Tool(**(fields | entry.values | {"metadata": fields["metadata"] | entry.values.get("metadata", {})}))


class _FoundHandler(Struct, frozen=True):
    """A handler that was found: how it runs, what it takes if that is known, whether it declares itself."""

    handler: Handler
    takes: dict[str, Any] | None = None
    declares: bool = True

    def running(self, declared: Tool, sensitive: Collection[str]) -> Handler:
        """Give what runs the tool that the file declares."""
        own = self.handler
        takes_text = declared.custom and self.takes is not None
        return Handler(
            declared,
            own.function,
            bind_text if takes_text else own.bind,
            sensitive=tuple(dict.fromkeys((*own.sensitive, *sensitive))),
            preview=own.preview,
            read=own.read,
        )


def _read_handler(target: Any) -> _FoundHandler:
    """Read what an import path led to."""
    if isinstance(target, FunctionTool):
        return _of_function(target, declares=True)
    if callable(getattr(target, "execute", None)) and getattr(target, "definition", None) is None:
        made: Any = target() if inspect.isclass(target) else target
        return _FoundHandler(Handler(Tool(""), made.execute), declares=False)
    if inspect.isroutine(target):
        return _of_function(tool(target), declares=False)
    several = handlers_of(target)
    if len(several) != 1:
        names = ", ".join(handler.tool.name for handler in several)
        raise InvalidField("handler", f"has several tools ({names}); name one of them, as in {_METHOD}")
    signature = getattr(target, "__signature_of_tool__", None)
    return _FoundHandler(several[0], None if signature is None else signature.parameters)


def _of_function(target: FunctionTool, *, declares: bool) -> _FoundHandler:
    if not target.bound:
        raise InvalidField("handler", f"is a method without its object; name it as in {_METHOD}")
    [handler] = handlers_of(target)
    return _FoundHandler(handler, target.signature.parameters, declares=declares)


def _misfits(takes: dict[str, Any], parameters: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Say where a function cannot be called as declared, each with its path in the parameters."""
    names, properties = takes["properties"], parameters.get("properties") or {}
    if takes.get("additionalProperties") is False:
        for name in properties:
            if name not in names:
                reason = f"the handler takes no {name}; it takes {', '.join(names) or 'nothing'}"
                yield below("properties", name), reason
    if not parameters.keys() & _ELSEWHERE:
        for name in takes.get("required", ()):
            if name not in (parameters.get("required") or []):
                yield "required", f"must have {name}, which the handler cannot do without"
