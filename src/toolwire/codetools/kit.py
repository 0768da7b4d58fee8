"""The twelve code tools as one resolver, for one project folder.

Rules of this file:
- A tool is a function of the workspace and its arguments, in the module of its kind; the table says which.
- A tool raises `ToolError` with words that tell the model what to do next.
- The folder is the one that the tools were made for, or that `resolve(call, cwd)` names. What a session or a run says
  as its context is never taken for a folder.
"""

import importlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from msgspec.structs import replace

from toolwire.codetools.definitions import NAMES, TOOLS
from toolwire.codetools.files import Desk
from toolwire.codetools.journal import recover
from toolwire.codetools.paths import PROTECTED, SECRET, Workspace
from toolwire.errors import InvalidField, UnknownTool
from toolwire.resolvers import Handler, Resolver
from toolwire.resolvers.protocol import on_the_class
from toolwire.types import Tool, ToolCall, ToolResult
from toolwire.waiting.results import CallNote
from toolwire.waiting.steps import Ask, Emit, Work, arun, run_or_await

_FUNCTIONS = {
    "read_file": "reading",
    "write_file": "editing",
    "append_to_file": "editing",
    "edit_file": "editing",
    "multi_edit": "editing",
    "bash": "shell",
    "grep": "search",
    "glob": "listing",
    "list_directory": "listing",
    "tree": "listing",
    "file_info": "listing",
    "http_get": "web",
}
# A count that a model writes as 5.0 is an integer by its schema.
_COUNTS = frozenset(
    name
    for tool in TOOLS
    for name, schema in (tool.parameters or {})["properties"].items()
    if schema["type"] == "integer"
)
_ALIASES = {"old_text": "oldText", "new_text": "newText", "ignore_case": "ignoreCase", "maxDepth": "max_depth"}


class CodeToolOptions(TypedDict, total=False):
    """The options of single code tools."""

    sandbox: str
    """How the commands of bash are confined: `auto`, `bubblewrap` or `none`."""
    network: bool
    """Whether the commands of bash in the sandbox have the network."""
    environment: Mapping[str, str] | None
    """The variables that commands get."""
    on_output: Callable[[bytes], object] | None
    """Gets the bytes that a command of bash writes, as they arrive, in the command's thread."""
    readable: Iterable[str | os.PathLike[str]]
    """Folders that commands in the sandbox may read too."""
    allow_private: bool
    """Whether http_get may ask private addresses."""
    allow_hosts: Sequence[str] | None
    """The hosts that http_get may ask."""
    ripgrep: str | Literal[False] | None
    """The absolute path of ripgrep; False searches without it."""


OPTIONS = frozenset(CodeToolOptions.__annotations__)


class CodeTools(Resolver):
    """The code tools of a project folder; `tools` selects some of them by name, else there are all twelve.

    `roots` are further folders for the tools, by absolute paths. `covered` are files, by absolute paths, that no tool
    reads, writes, finds or moves, such as a store of traces. `CodeToolOptions` has the options of single tools.
    """

    def __init__(
        self,
        cwd: str | os.PathLike[str] = ".",
        *,
        roots: Iterable[str | os.PathLike[str]] = (),
        tools: Collection[str] | None = None,
        protected: Iterable[str] = PROTECTED,
        secret: Iterable[str] = SECRET,
        covered: Iterable[str | os.PathLike[str]] = (),
        **options: Unpack[CodeToolOptions],
    ) -> None:
        unknown = sorted(options.keys() - OPTIONS) or sorted(set(tools or ()) - set(NAMES))
        if unknown:
            known = ", ".join(sorted(OPTIONS if unknown[0] in options else NAMES))
            raise InvalidField(unknown[0], f"is not known; there are: {known}", path="CodeTools")
        self._wanted = NAMES if tools is None else tuple(tools)
        self._kept: dict[str, tuple[Any, ...]] = {
            "protected": tuple(protected),
            "secret": tuple(secret),
            "covered": tuple(covered),
        }
        self._roots = tuple(roots)
        self._elsewhere: dict[str, CodeTools] = {}
        self.workspace: Workspace = Workspace(cwd, self._roots, **self._kept)
        recover(self.workspace)
        self.desk: Desk = Desk(self.workspace, dict(options))
        self._handlers = {
            tool.name: Handler(tool, _function_of(tool.name), self._bound)
            for tool in TOOLS
            if tool.name in self._wanted
        }

    def at(self, cwd: str | os.PathLike[str]) -> "CodeTools":
        """Give the tools for another folder; for the same folder, give the same object again."""
        path = os.path.abspath(cwd)
        if path not in self._elsewhere:
            options: dict[str, Any] = {**self._kept, **self.desk.options}
            self._elsewhere[path] = CodeTools(path, roots=self._roots, tools=self._wanted, **options)
        return self._elsewhere[path]

    def cover_files(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Keep further files from the tools, by absolute paths, in this folder and every other one."""
        more = tuple(path for path in paths if path not in self._kept["covered"])
        self._kept["covered"] += more
        self.workspace.cover(more)
        for kit in self._elsewhere.values():
            kit.cover_files(more)

    @property
    def sandbox(self) -> str:
        """How commands are confined: "bubblewrap" or "none"; "refused" if they do not run."""
        return str(importlib.import_module("toolwire.codetools.sandbox").in_force(self.desk.options))

    def preview(self, call: ToolCall, context: Any = None) -> str | None:
        """Show what a call would change, run or fetch; None if it only reads."""
        del context
        if call.name not in self._handlers:
            return None
        if problems := self.problems(call):
            return f"it would be refused: {'; '.join(problems)}"
        call = replace(call, arguments=_with_own_names(call.plain_arguments))
        module = importlib.import_module("toolwire.codetools.previewing")
        return module.preview(self.desk, call.name, call.plain_arguments)  # type: ignore[no-any-return]

    def problems(self, call: ToolCall, context: Any = None) -> list[str]:
        """Say why a call would not be run, as far as its arguments tell; nothing if it would."""
        del context
        handler = self._handlers.get(call.name)
        if handler is None:
            return []
        return handler.problems(replace(call, arguments=_with_own_names(call.plain_arguments)))

    @on_the_class
    def available_tools(self) -> list[Tool]:
        """List the tools."""
        return [handler.tool for handler in self._handlers.values()]

    @on_the_class
    def resolve(self, call: ToolCall, cwd: object = None) -> ToolResult:
        """Run a call in a folder, or in that of the tools, and give its result."""
        return run_or_await(self._in(cwd).resolving(call))

    @on_the_class
    async def aresolve(self, call: ToolCall, cwd: object = None) -> ToolResult:
        """Run a call without blocking the event loop, and give its result."""
        return await arun(self._in(cwd).resolving(call))

    def _bound(self, arguments: dict[str, Any], _context: Any) -> tuple[tuple[Desk], dict[str, Any]]:
        return (self.desk,), {name: int(value) if name in _COUNTS else value for name, value in arguments.items()}

    def _in(self, cwd: object) -> "CodeTools":
        return self.at(cwd) if isinstance(cwd, str | os.PathLike) else self

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        """Run a call, as steps."""
        handler = self._handlers.get(call.name)
        if handler is None:
            raise UnknownTool(call.name, self._handlers)
        if call.name == "bash":
            yield Emit(CallNote(sandbox=(yield Ask(lambda: self.sandbox))))
        return (yield from handler.resolving(replace(call, arguments=_with_own_names(call.plain_arguments)), context))


def _function_of(name: str) -> Callable[..., Any]:
    """Give the function of a tool; its module is imported when it is called first."""

    def run(desk: Desk, **arguments: Any) -> Any:
        module = importlib.import_module(f"toolwire.codetools.{_FUNCTIONS[name]}")
        return getattr(module, name)(desk, **arguments)

    return run


def _with_own_names(value: Any) -> Any:
    """Read the other spelling of a parameter, where its own is not there."""
    match value:
        case dict():
            return {
                _ALIASES[key] if key in _ALIASES and _ALIASES[key] not in value else key: _with_own_names(inner)
                for key, inner in value.items()
            }
        case list():
            return [_with_own_names(inner) for inner in value]
    return value
