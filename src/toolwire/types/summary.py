"""A short text of a value, for people: default values and opaque data are left out, and long values are cut.

Rule: formal losses are left out, because neither a person nor a model notices them.
"""

from collections.abc import Collection
from typing import Any

from msgspec import NODEFAULT, Struct

_MAX_CHARACTERS, _MAX_ENTRIES, _MAX_DEPTH = 120, 4, 6
_MAX_LENGTH = 1_000


def summarize(value: Struct, skipped: Collection[str] = ()) -> str:
    """Return a short text of `value`, without the fields in `skipped`."""
    text = _format_struct(value, 0, skipped)
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}...)"


def _format(value: Any, depth: int) -> str:
    match value:
        case Struct() | list() | tuple() | dict() if depth >= _MAX_DEPTH:
            return "..."
        case Struct():
            return _format_struct(value, depth)
        case list() | tuple():
            entries = [_format(entry, depth + 1) for entry in value[:_MAX_ENTRIES]]
            return _join("[]" if isinstance(value, list) else "()", entries, len(value))
        case dict():
            pairs = [f"{key!r}: {_format(value[key], depth + 1)}" for key in list(value)[:_MAX_ENTRIES]]
            return _join("{}", pairs, len(value))
        case str() | bytes() if len(value) > _MAX_CHARACTERS:
            return f"{value[:_MAX_CHARACTERS]!r}... ({len(value)} characters)"
    return repr(value)


def _format_struct(value: Struct, depth: int, skipped: Collection[str] = ()) -> str:
    fields, defaults = value.__struct_fields__, value.__struct_defaults__
    default_of = dict(zip(fields[len(fields) - len(defaults) :], defaults, strict=True))
    texts = [
        f"{name}={_format(field, depth + 1)}"
        for name in fields
        if name != "opaque"
        and name not in skipped
        and not _is_default(field := _shown(name, getattr(value, name)), default_of.get(name))
    ]
    return f"{type(value).__name__}({', '.join(texts)})"


def _shown(name: str, field: Any) -> Any:
    """Return a field as it is shown: losses without the formal ones."""
    return tuple(loss for loss in field if loss.severity != "formal") if name == "losses" and field else field


def _is_default(field: Any, default: Any) -> bool:
    is_empty = field is None or field is default or field in ([], (), "", {})
    return is_empty or (default is not NODEFAULT and field == default)


def _join(brackets: str, entries: list[str], size: int) -> str:
    more = [f"... {size - len(entries)} more"] if size > len(entries) else []
    return f"{brackets[0]}{', '.join([*entries, *more])}{brackets[1]}"
