"""The user's own tools on the command line: `--tool MODULE:NAME`.

A module is imported from the current folder or from Python's path. `FILE.py:NAME` is accepted too.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from toolwire.errors import UserError, listed, suggestion

_EXAMPLE = "--tool MODULE:NAME, as in --tool weather:get_weather"


def chosen_tools(options: argparse.Namespace) -> list[Any]:
    """Return the tools of `--tool` and `--mcp`."""
    tools: list[Any] = [own_tool(name) for name in options.tool]
    if options.mcp:
        from toolwire.cli.settings_file import mcp_resolvers, user_settings  # noqa: PLC0415 - only where it is wanted

        tools += mcp_resolvers(options.mcp, user_settings().mcp)
    return tools


def own_tool(text: str) -> Any:
    """Return the function, class or resolver that `text` names. Raise UserError if it cannot be imported."""
    module_name, _, name = text.rpartition(":")
    if not module_name or not name.isidentifier():
        raise UserError(f"{text!r} names no tool: {_EXAMPLE}", path="--tool")
    path = Path(module_name)
    folder = str(path.parent.resolve() if path.suffix == ".py" else Path.cwd())
    module = _import(path.stem if path.suffix == ".py" else module_name, folder)
    try:
        return getattr(module, name)
    except AttributeError:
        known = [one for one in vars(module) if not one.startswith("_")]
        names = listed(known, suggestion(name, known))
        raise UserError(f"{module_name} has no {name}{names}", path="--tool") from None


def _import(name: str, folder: str) -> Any:
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name not in (name, name.partition(".")[0]):
            raise UserError(f"{name} needs {problem.name}, which is not installed", path="--tool") from None
        raise UserError(f"there is no module {name}, neither in {folder} nor in Python's path", path="--tool") from None
    except Exception as problem:
        raise UserError(f"{name} cannot be imported: {type(problem).__name__}: {problem}", path="--tool") from problem
    finally:
        sys.path.remove(folder)
