"""The twelve code tools as one resolver, for one project folder.

Rules of this file:
- A tool is a function of the workspace and its arguments; the table `_FUNCTIONS` names its module.
- A tool raises `ToolError` with a message that tells the model how to continue.
- The folder is the one that the tools were made for, or the one that `resolve(call, cwd)` names. The context of a
  session or a run is never used as a folder.
"""

import importlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from msgspec.structs import replace

from toolwire.codetools.definitions import NAMES, TOOLS
from toolwire.codetools.files import ChangedFile, Desk
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
# JSON Schema accepts 5.0 as an integer, and models write it: these arguments become int.
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
    """Whether the commands of bash have network access in the sandbox."""
    environment: Mapping[str, str] | None
    """Environment variables for the commands of bash."""
    on_output: Callable[[bytes], object] | None
    """Called with the output of a command of bash while it arrives, in the command's thread."""
    on_change: Callable[[ChangedFile], object] | None
    """Called with each file that a tool has written, in the call's thread. A command of bash is not observed."""
    readable: Iterable[str | os.PathLike[str]]
    """Further folders that commands in the sandbox may read."""
    allow_private: bool
    """Whether http_get may fetch from private addresses."""
    allow_hosts: Sequence[str] | None
    """The only hosts that http_get may fetch from; None allows all."""
    ripgrep: str | Literal[False] | None
    """The absolute path of ripgrep; False searches without it."""


OPTIONS = frozenset(CodeToolOptions.__annotations__)


class CodeTools(Resolver):
    """The code tools of the project folder `cwd`. `tools` selects some of them by name; the default is all twelve.

    `roots` are further folders for the tools, as absolute paths. `covered` are files, as absolute paths, that no tool
    reads, writes, finds or moves, such as a trace store. `CodeToolOptions` has the options of single tools.

    >>> import tempfile
    >>> from toolwire import CodeTools, ToolCall
    >>> tools = CodeTools(tempfile.mkdtemp(), tools=["read_file", "write_file"])
    >>> tools.resolve(ToolCall("call_1", "write_file", {"path": "a.txt", "content": "Hello"})).content
    'Wrote 5 bytes to a.txt (a new file).'
    >>> tools.resolve(ToolCall("call_2", "read_file", {"path": "../secret"})).content
    '../secret: it leads out of the project folder'
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
        self._tool_names = NAMES if tools is None else tuple(tools)
        self._path_options: dict[str, tuple[Any, ...]] = {
            "protected": tuple(protected),
            "secret": tuple(secret),
            "covered": tuple(covered),
        }
        self._roots = tuple(roots)
        self._other_folders: dict[str, CodeTools] = {}
        self.workspace: Workspace = Workspace(cwd, self._roots, **self._path_options)
        recover(self.workspace)
        self.desk: Desk = Desk(self.workspace, dict(options))
        self._handlers = {
            tool.name: Handler(tool, _load_function(tool.name), self._bind_arguments)
            for tool in TOOLS
            if tool.name in self._tool_names
        }

    def at(self, cwd: str | os.PathLike[str]) -> "CodeTools":
        """Return the tools for another folder; for the same folder, return the same object again."""
        path = os.path.abspath(cwd)
        if path not in self._other_folders:
            options: dict[str, Any] = {**self._path_options, **self.desk.options}
            self._other_folders[path] = CodeTools(path, roots=self._roots, tools=self._tool_names, **options)
        return self._other_folders[path]

    def cover_files(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Cover further files, by absolute paths, in this folder and in every folder of `at`."""
        new_paths = tuple(path for path in paths if path not in self._path_options["covered"])
        self._path_options["covered"] += new_paths
        self.workspace.cover(new_paths)
        for kit in self._other_folders.values():
            kit.cover_files(new_paths)

    @property
    def sandbox(self) -> str:
        """The level that commands run at: "bubblewrap" or "none"; "refused" if they cannot run."""
        return str(importlib.import_module("toolwire.codetools.sandbox").in_force(self.desk.options))

    def preview(self, call: ToolCall, context: Any = None) -> str | None:
        """Return what a call would change, run or fetch; None if it only reads."""
        del context
        if call.name not in self._handlers:
            return None
        if problems := self.problems(call):
            return f"it would be refused: {'; '.join(problems)}"
        call = replace(call, arguments=_rename_aliases(call.plain_arguments))
        module = importlib.import_module("toolwire.codetools.previewing")
        return module.preview(self.desk, call.name, call.plain_arguments)  # type: ignore[no-any-return]

    def problems(self, call: ToolCall, context: Any = None) -> list[str]:
        """Return the reasons why a call would be refused, as far as its arguments show; [] if there are none."""
        del context
        handler = self._handlers.get(call.name)
        if handler is None:
            return []
        return handler.problems(replace(call, arguments=_rename_aliases(call.plain_arguments)))

    @on_the_class
    def available_tools(self) -> list[Tool]:
        """Return the tools."""
        return [handler.tool for handler in self._handlers.values()]

    @on_the_class
    def resolve(self, call: ToolCall, cwd: object = None) -> ToolResult:
        """Run a call in the folder `cwd`, or in that of the tools, and return its result."""
        return run_or_await(self._tools_for(cwd).resolving(call))

    @on_the_class
    async def aresolve(self, call: ToolCall, cwd: object = None) -> ToolResult:
        """Run a call without blocking the event loop, and return its result."""
        return await arun(self._tools_for(cwd).resolving(call))

    def _bind_arguments(self, arguments: dict[str, Any], _context: Any) -> tuple[tuple[Desk], dict[str, Any]]:
        return (self.desk,), {name: int(value) if name in _COUNTS else value for name, value in arguments.items()}

    def _tools_for(self, cwd: object) -> "CodeTools":
        return self.at(cwd) if isinstance(cwd, str | os.PathLike) else self

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        """Run a call, as steps."""
        handler = self._handlers.get(call.name)
        if handler is None:
            raise UnknownTool(call.name, self._handlers)
        if call.name == "bash":
            yield Emit(CallNote(sandbox=(yield Ask(lambda: self.sandbox))))
        return (yield from handler.resolving(replace(call, arguments=_rename_aliases(call.plain_arguments)), context))


def _load_function(name: str) -> Callable[..., Any]:
    """Return the function of a tool; its module is imported on the first call."""

    def run(desk: Desk, **arguments: Any) -> Any:
        module = importlib.import_module(f"toolwire.codetools.{_FUNCTIONS[name]}")
        return getattr(module, name)(desk, **arguments)

    return run


def _rename_aliases(value: Any) -> Any:
    """Rename parameters that have another spelling, unless the own name is present too."""
    match value:
        case dict():
            return {
                _ALIASES[key] if key in _ALIASES and _ALIASES[key] not in value else key: _rename_aliases(inner)
                for key, inner in value.items()
            }
        case list():
            return [_rename_aliases(inner) for inner in value]
    return value
