"""Import paths, `module:attribute`: checked before anything is imported, and told with what went wrong.

Rules of this file:
- Who loads handlers runs code: the modules that a file names are imported. `allow` narrows which may be; it
  and the rules on paths guard against accidents, and are no sandbox.
- A path is absolute, has no name that begins with `__`, and does not go through one module into another.
- The modules of `_BY_NAME_ONLY` reach the whole machine: they are imported only where `allow` names them.
"""

import importlib
import inspect
from collections.abc import Collection
from types import ModuleType
from typing import Any

from msgspec import Struct

from toolwire.errors import did_you_mean

_BY_NAME_ONLY = frozenset(
    "builtins code ctypes importlib marshal multiprocessing nt os pickle posix pty runpy shutil signal"
    " subprocess sys".split()
)
_SHAPE = "must be an import path like my_app.tools:search"


class Misnamed(Exception):
    """An import path that leads nowhere; the message says why."""


class ImportPath(Struct, frozen=True):
    """Where to find an object: a module, and the attributes that lead to it."""

    module: str
    attributes: tuple[str, ...]


def read_path(written: str, allow: Collection[str] | None) -> ImportPath:
    """Read an import path that may be imported."""
    module, colon, attributes = written.partition(":")
    names = [*module.split("."), *attributes.split(".")]
    if not colon or not all(name.isidentifier() for name in names):
        raise Misnamed(f"{_SHAPE}, not {written[:100]!r}")
    if any(name.startswith("__") for name in names):
        raise Misnamed(f"has a name that begins with __: {written[:100]!r}")
    _check_allowed(module, allow)
    return ImportPath(module, tuple(attributes.split(".")))


def _check_allowed(module: str, allow: Collection[str] | None) -> None:
    if allow is None:
        if module.partition(".")[0] in _BY_NAME_ONLY:
            raise Misnamed(f"the module {module} reaches the whole machine; allow must name it")
    elif not any(module == prefix or module.startswith(f"{prefix}.") for prefix in allow):
        raise Misnamed(f"the module {module} is not allowed; allowed: {', '.join(sorted(allow)) or 'none'}")


def import_object(path: ImportPath, allow: Collection[str] | None) -> Any:
    """Import the object that a path names."""
    try:
        target: Any = importlib.import_module(path.module)
    except (Exception, SystemExit) as problem:
        raise Misnamed(f"cannot import {path.module}: {_why_not(path.module, problem)}") from problem
    way = path.module
    for name in path.attributes:
        target = _attribute(target, name, way)
        way = f"{way}:{name}" if way == path.module else f"{way}.{name}"
        if isinstance(target, ModuleType) and not target.__name__.startswith(f"{path.module}."):
            raise Misnamed(f"{way} is the module {target.__name__}; name that module itself if it is meant")
    if target is None:
        raise Misnamed(f"{way} is None")
    _check_home(target, allow)
    return target


def _why_not(module: str, problem: BaseException) -> str:
    if isinstance(problem, ModuleNotFoundError) and f"{module}.".startswith(f"{problem.name}."):
        return f"there is no module {problem.name}"
    return f"{type(problem).__name__}: {problem}"


def _attribute(owner: Any, name: str, way: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        known = [one for one in dir(owner) if not one.startswith("_")]
        raise Misnamed(f"{way} has no {name}{did_you_mean(name, known)}") from None
    except Exception as problem:
        raise Misnamed(f"{way} cannot give {name}: {type(problem).__name__}: {problem}") from problem


def _check_home(target: Any, allow: Collection[str] | None) -> None:
    """Refuse a function or class that comes from a module which may not be imported itself."""
    if inspect.isroutine(target) or inspect.isclass(target):
        home = getattr(inspect.unwrap(target), "__module__", None)
        if isinstance(home, str):
            _check_allowed(home, allow)
