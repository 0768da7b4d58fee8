"""Tools and resolvers that are declared in YAML or JSON files.

Rules of this file:
- All problems of a file are reported together, each with its line, column and field.
- Nothing is imported before the whole file is known to be well-formed. With `handlers=False`, nothing is imported.
- A file whose handlers are loaded runs code, like any module. `allow` lists the modules that it may name.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from msgspec import Struct

from toolwire.declarations.entries import EXPECTED_CONTENT, EntryReader
from toolwire.declarations.formats import read_file, read_tree
from toolwire.declarations.nodes import Problem, Problems
from toolwire.errors import InvalidField, UserError
from toolwire.types import Tool

__all__ = ["Declared", "Problem", "load", "loads"]


class Declared(Struct, frozen=True):
    """The content of a file of declarations: its tools, their handlers, and its resolvers."""

    name: str
    tools: list[Tool]
    handlers: list[Any] = []
    resolvers: list[Any] = []
    loaded: bool = True

    def resolver(self) -> Any:
        """Return one resolver for the file: first its own tools, then its resolvers in their order.

        Raises `UserError` if the file was loaded with `handlers=False`.
        """
        from toolwire.resolvers import AgentResolver, Composition  # noqa: PLC0415 - only what runs needs it

        if not self.loaded:
            raise UserError("has no resolver: it was loaded with handlers=False", path=self.name)
        file_tools = AgentResolver(tools=self.handlers)
        return Composition([file_tools, *self.resolvers]) if self.resolvers else file_tools


def load(path: str | os.PathLike[str], *, handlers: bool = True, allow: Collection[str] | None = None) -> Declared:
    """Load the file of declarations at `path`: `.yaml`, `.yml` or `.json`.

    `allow` lists the modules that may be imported, each with all its submodules. None allows every module that the
    program can import, except those that can access the whole machine, such as `os`. A `cwd` in the file is relative to
    the file. With `handlers=False` nothing is imported. Raises `DeclarationError` with all problems of the file.

    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from toolwire import declarations
    >>> file = Path(tempfile.mkdtemp(), "tools.json")
    >>> ping = {"name": "ping", "description": "Ping.", "parameters": {"type": "object"}}
    >>> size = file.write_text(json.dumps({"tools": [ping]}))
    >>> [tool.name for tool in declarations.load(file, handlers=False).tools]
    ['ping']
    """
    file, problems = Path(path), Problems(os.fspath(path))
    data = read_file(file, problems)
    return _load(data, problems, handlers=handlers, allow=allow, folder=file.absolute().parent)


def loads(
    text: str | bytes,
    *,
    name: str = "tools.yaml",
    handlers: bool = True,
    allow: Collection[str] | None = None,
) -> Declared:
    """Load declarations from `text`. The ending of `name` selects YAML or JSON.

    `handlers`, `allow` and the errors are those of `load`.

    >>> import json
    >>> from toolwire import ToolCall, declarations
    >>> parameters = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    >>> tool = {"name": "dedent", "description": "Dedent.", "handler": "textwrap:dedent", "parameters": parameters}
    >>> declared = declarations.loads(json.dumps({"tools": [tool]}), name="tools.json")
    >>> declared.resolver().resolve(ToolCall("call_1", "dedent", {"text": "  owls"})).content
    'owls'
    """
    return _load(text, Problems(name), handlers=handlers, allow=allow, folder=None)


def _load(
    data: str | bytes,
    problems: Problems,
    *,
    handlers: bool,
    allow: Collection[str] | None,
    folder: Path | None,
) -> Declared:
    from toolwire.declarations.loading import Loader  # noqa: PLC0415 - only what runs needs the resolvers

    if isinstance(allow, str):
        raise InvalidField("allow", "must be a list of modules, not one text")
    root = read_tree(data, problems, EXPECTED_CONTENT)
    entries, resolver_entries = EntryReader(problems, allow, handlers=handlers).read(root)
    problems.raise_collected()
    loader = Loader(problems, allow, folder)
    tools, loaded_handlers = loader.tools(entries, handlers=handlers)
    resolvers = loader.resolvers(resolver_entries) if handlers else []
    problems.raise_collected()
    return Declared(problems.name, tools, loaded_handlers, resolvers, handlers)
