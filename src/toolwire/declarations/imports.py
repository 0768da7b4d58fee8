"""Import paths, `module:attribute`: validated before anything is imported.

Rules of this file:
- Loading handlers runs code: the modules that a file names are imported. `allow` restricts which modules may be
  imported. It and the rules for paths protect against accidents, and are not a sandbox.
- A path is absolute, has no name that begins with `__`, and does not lead through one module into another.
- The modules in `_PRIVILEGED` can access the whole machine. They are imported only if `allow` names them.
"""

import importlib
import inspect
from collections.abc import Collection
from types import ModuleType
from typing import Any

from msgspec import Struct

from toolwire.errors import did_you_mean

_PRIVILEGED = frozenset(
    "builtins code ctypes importlib marshal multiprocessing nt os pickle posix pty runpy shutil signal"
    " subprocess sys".split()
)
_EXPECTED = "must be an import path like my_app.tools:search"


class ImportPathError(Exception):
    """An import path that cannot be used. The message gives the reason."""


class ImportPath(Struct, frozen=True):
    """The location of an object: its module, and the attributes that lead to it."""

    module: str
    attributes: tuple[str, ...]


def read_path(text: str, allow: Collection[str] | None) -> ImportPath:
    """Parse an import path. Raise `ImportPathError` if it is malformed or not allowed."""
    module, colon, attributes = text.partition(":")
    names = [*module.split("."), *attributes.split(".")]
    if not colon or not all(name.isidentifier() for name in names):
        raise ImportPathError(f"{_EXPECTED}, not {text[:100]!r}")
    if any(name.startswith("__") for name in names):
        raise ImportPathError(f"has a name that begins with __: {text[:100]!r}")
    _check_allowed(module, allow)
    return ImportPath(module, tuple(attributes.split(".")))


def _check_allowed(module: str, allow: Collection[str] | None) -> None:
    if allow is None:
        if module.partition(".")[0] in _PRIVILEGED:
            raise ImportPathError(f"the module {module} can access the whole machine; add it to allow to import it")
    elif not any(module == prefix or module.startswith(f"{prefix}.") for prefix in allow):
        raise ImportPathError(f"the module {module} is not allowed; allowed: {', '.join(sorted(allow)) or 'none'}")


def import_object(path: ImportPath, allow: Collection[str] | None) -> Any:
    """Import the object at a path. Raise `ImportPathError` if that fails."""
    try:
        target: Any = importlib.import_module(path.module)
    except (Exception, SystemExit) as problem:
        raise ImportPathError(f"cannot import {path.module}: {_why_not(path.module, problem)}") from problem
    import_text = path.module
    for name in path.attributes:
        target = _attribute(target, name, import_text)
        import_text = f"{import_text}:{name}" if import_text == path.module else f"{import_text}.{name}"
        if isinstance(target, ModuleType) and not target.__name__.startswith(f"{path.module}."):
            raise ImportPathError(
                f"{import_text} is the module {target.__name__}; name that module itself if it is meant"
            )
    if target is None:
        raise ImportPathError(f"{import_text} is None")
    _check_home(target, allow)
    return target


def _why_not(module: str, problem: BaseException) -> str:
    if isinstance(problem, ModuleNotFoundError) and f"{module}.".startswith(f"{problem.name}."):
        return f"there is no module {problem.name}"
    return f"{type(problem).__name__}: {problem}"


def _attribute(owner: Any, name: str, import_text: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        known = [attribute for attribute in dir(owner) if not attribute.startswith("_")]
        raise ImportPathError(f"{import_text} has no {name}{did_you_mean(name, known)}") from None
    except Exception as problem:
        raise ImportPathError(
            f"{import_text} raised an error for {name}: {type(problem).__name__}: {problem}"
        ) from problem


def _check_home(target: Any, allow: Collection[str] | None) -> None:
    """Reject a function or class that was defined in a module that is not allowed."""
    if inspect.isroutine(target) or inspect.isclass(target):
        module = getattr(inspect.unwrap(target), "__module__", None)
        if isinstance(module, str):
            _check_allowed(module, allow)
