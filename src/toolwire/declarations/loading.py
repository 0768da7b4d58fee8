"""From what a file says to what runs: handlers and resolvers are imported, and checked against the file.

Rules of this file:
- What the file says wins over what a handler says of itself; a field is sensitive if either says so.
- What an import, a class or a resolver raises becomes a problem at its place, with what was raised as cause.
"""

import inspect
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from toolwire.declarations.entries import Composed, Entry, at_schema
from toolwire.declarations.imports import ImportPath, Misnamed, import_object
from toolwire.declarations.nodes import Node, Problems, below, shown, suggestion
from toolwire.errors import InvalidField, InvalidSchema, ToolwireError
from toolwire.types import Tool


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
            runs = handlers and entry.handler is not None
            declared, handler = self._run_by(entry) if runs else (self._tool(entry), None)
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

    def _tool(self, entry: Entry, own: Tool | None = None) -> Tool:
        """Put together what the file says and what the handler says of itself."""
        said = {"description": None, "parameters": None, "metadata": {}} if own is None else asdict(own)
        said["metadata"] |= entry.said.get("metadata", {})
        if entry.said.get("custom"):
            said["parameters"] = None
        return Tool(**(said | entry.said | {"metadata": said["metadata"]}))

    def _run_by(self, entry: Entry) -> tuple[Tool | None, Any]:
        from toolwire.declarations.handling import misfits, read_handler  # noqa: PLC0415 - only what runs needs it

        node, field = entry.at("handler")
        handler = self._imported(entry.handler, node, field)
        if handler is None:
            return None, None
        try:
            found = read_handler(handler)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a handler may raise anything
            self.problems.add(node, field, reason_of(problem), problem)
            return None, None
        lacking = [] if found.declares else entry.lacking(found.handler.tool)
        if lacking:
            self.problems.add(entry.node, entry.field, f"needs {', '.join(lacking)}")
            return None, None
        declared = self._tool(entry, found.handler.tool)
        node, field = entry.at("parameters")
        if found.takes is not None and "parameters" in entry.said:
            for path, reason in misfits(found.takes, entry.said["parameters"]):
                self.problems.add(node.find(path), f"{field}.{path}", reason)
        try:
            return declared, found.running(declared, entry.sensitive)
        except InvalidSchema as problem:
            self.problems.add(*at_schema(problem, node, field, declared.name), problem)
            return declared, None

    def _imported(self, path: ImportPath | None, node: Node, field: str) -> Any:
        if path is None:
            return None
        try:
            return import_object(path, self.allow)
        except Misnamed as problem:
            self.problems.add(node, field, str(problem), problem.__cause__)
            return None

    def resolvers(self, composed: Sequence[Composed]) -> list[Any]:
        """Give the resolvers, bound to their folders and wrapped: renamed, then filtered, then prefixed."""
        made = [self._resolver(one, place) for place, one in enumerate(composed)]
        return [one for one in made if one is not None]

    def _resolver(self, one: Composed, place: int) -> Any:
        from toolwire.resolvers import filtered, prefixed, renamed  # noqa: PLC0415 - only what runs needs it

        found = self._imported(one.path, one.nodes["resolver"], f"{one.field}.resolver")
        steps: dict[str, Callable[[Any, Any], Any]] = {
            "cwd" if "cwd" in one.nodes else "resolver": lambda given, _: self._bound(given, one, place),
            "rename": renamed,
            "only": filtered,
            "prefix": prefixed,
        }
        for key, step in steps.items():
            if found is not None and key in one.nodes:
                found = self._step(step, found, one.nodes[key], f"{one.field}.{key}")
        return found

    def _step(self, step: Callable[[Any, Any], Any], found: Any, node: Node, field: str) -> Any:
        """Take one step from a resolver to what wraps it."""
        before = len(self.problems.found)
        try:
            if type(node.value) is not str:
                self._check_names(node, field, [tool.name for tool in found.available_tools()])
            return step(found, node.plain()) if len(self.problems.found) == before else None
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a resolver may raise anything
            self.problems.add(node, field, reason_of(problem), problem)
            return None

    def _check_names(self, node: Node, field: str, there: list[str]) -> None:
        """Note each name that a resolver does not have."""
        for step, member in node.members():
            name = step if isinstance(step, str) else member.value
            if name not in there:
                reason = f"the resolver has no tool {shown(name)}; {suggestion(name, there)}"
                self.problems.add(member, below(field, step), reason)

    def _bound(self, found: Any, one: Composed, place: int) -> Any:
        """Bind a resolver to its folder, which stands relative to the file."""
        from toolwire.resolvers.composition import HERE, bound_to  # noqa: PLC0415 - only what runs needs it

        if "cwd" not in one.nodes:
            return bound_to(found, HERE, place)
        minds = inspect.isclass(found) and "cwd" in inspect.signature(found).parameters
        if not minds and not callable(getattr(found, "at", None)):
            raise InvalidField("cwd", "is for a class that takes a cwd, or a resolver with `at(cwd)`")
        cwd = one.nodes["cwd"].value
        return bound_to(found, str(self.folder / cwd) if self.folder else cwd, place)


def reason_of(problem: BaseException) -> str:
    """Say what was raised; of our own errors, the reason alone, because the field is known."""
    match problem:
        case InvalidField():
            return problem.reason
        case ToolwireError():
            return str(problem)
    return f"raised {type(problem).__name__}: {problem}"
