"""The twelve code tools: files, a shell, search and the web, for a project folder."""

import os
from collections.abc import Callable
from typing import Unpack

from toolwire.codetools.kit import CodeToolOptions, CodeTools
from toolwire.types import ToolCall, ToolResult

__all__ = ["CodeTools", "resolver", "resolver_fn"]


def resolver(cwd: str | os.PathLike[str]) -> tuple[type[CodeTools], str | os.PathLike[str]]:
    """Return the pair of the tools and their folder that `Composition` accepts."""
    return CodeTools, cwd


def resolver_fn(cwd: str | os.PathLike[str], **options: Unpack[CodeToolOptions]) -> Callable[[ToolCall], ToolResult]:
    """Return a function that runs calls in the folder `cwd`."""
    return CodeTools(cwd, **options).resolve
