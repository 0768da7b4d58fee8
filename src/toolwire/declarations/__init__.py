"""Tools and resolvers declared in files, YAML or JSON, and loaded safely.

Rules of this file:
- All problems of a file are told at once, each with its line, column and field.
- Nothing is imported before the whole file is known to be well formed; with `handlers=False`, nothing at all.
- A file whose handlers are loaded runs code, like any module; `allow` says which modules it may name.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from msgspec import Struct

from toolwire.declarations.entries import WHOLE, EntryReader
from toolwire.declarations.formats import read_file, read_tree
from toolwire.declarations.nodes import Problem, Problems
from toolwire.errors import InvalidField, UserError
from toolwire.types import Tool

__all__ = ["Declared", "Problem", "load", "loads"]


class Declared(Struct, frozen=True):
    """The content of a file of declarations: its tools, their handlers, and the resolvers that it composes."""

    name: str
    tools: list[Tool]
    handlers: list[Any] = []
    resolvers: list[Any] = []
    loaded: bool = True

    def resolver(self) -> Any:
        """Give one resolver of it all: the file's own tools first, then its resolvers in their order."""
        from toolwire.resolvers import AgentResolver, Composition  # noqa: PLC0415 - only what runs needs it

        if not self.loaded:
            raise UserError("has no resolver: it was loaded with handlers=False", path=self.name)
        own = AgentResolver(tools=self.handlers)
        return Composition([own, *self.resolvers]) if self.resolvers else own


def load(path: str | os.PathLike[str], *, handlers: bool = True, allow: Collection[str] | None = None) -> Declared:
    """Load a file of declarations: `.yaml`, `.yml` or `.json`.

    `allow` lists the modules that may be imported, each with all below it; None allows whatever the program
    can import, but for modules that reach the whole machine, such as `os`. A `cwd` is relative to the file.
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
    """Load declarations from text; the ending of the name says whether it is YAML or JSON."""
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
    root = read_tree(data, problems, WHOLE)
    entries, composed = EntryReader(problems, allow, handlers=handlers).read(root)
    problems.refuse()
    loader = Loader(problems, allow, folder)
    tools, running = loader.tools(entries, handlers=handlers)
    resolvers = loader.resolvers(composed) if handlers else []
    problems.refuse()
    return Declared(problems.name, tools, running, resolvers, handlers)
