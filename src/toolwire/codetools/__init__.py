"""The twelve code tools: files, a shell, search and the web, for a project folder."""

import os
from collections.abc import Callable
from typing import Unpack

from toolwire.codetools.kit import CodeToolOptions, CodeTools
from toolwire.types import ToolCall, ToolResult

__all__ = ["CodeTools", "resolver", "resolver_fn"]


def resolver(cwd: str | os.PathLike[str]) -> tuple[type[CodeTools], str | os.PathLike[str]]:
    """Return the pair of `CodeTools` and the folder `cwd`, which `Composition`, `execute` and `generate` accept.

    >>> import tempfile
    >>> from toolwire import Composition, resolver
    >>> tools = Composition([resolver(tempfile.mkdtemp())]).available_tools()
    >>> len(tools)
    12
    """
    return CodeTools, cwd


def resolver_fn(cwd: str | os.PathLike[str], **options: Unpack[CodeToolOptions]) -> Callable[[ToolCall], ToolResult]:
    """Return a function that runs calls of the code tools in the folder `cwd`. `options` are those of `CodeTools`.

    >>> import tempfile
    >>> from toolwire import ToolCall, execute, resolver_fn
    >>> run = resolver_fn(tempfile.mkdtemp())
    >>> run(ToolCall("call_1", "write_file", {"path": "a.txt", "content": "Hello"})).content
    'Wrote 5 bytes to a.txt (a new file).'
    """
    return CodeTools(cwd, **options).resolve
