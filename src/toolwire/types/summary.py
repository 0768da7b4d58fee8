"""A value on a few lines, for people: what is as usual is left out, what is long is cut, opaque data is not shown."""

from collections.abc import Collection
from typing import Any

from msgspec import NODEFAULT, Struct

_CHARACTERS, _ENTRIES, _DEPTH = 120, 4, 6
_WHOLE = 1_000


def summarize(value: Struct, besides: Collection[str] = ()) -> str:
    """Say what a value is; `besides` are fields that would say it again."""
    text = _struct(value, 0, besides)
    return text if len(text) <= _WHOLE else f"{text[:_WHOLE]}...)"


def _said(value: Any, depth: int) -> str:
    match value:
        case Struct() | list() | tuple() | dict() if depth >= _DEPTH:
            return "..."
        case Struct():
            return _struct(value, depth)
        case list() | tuple():
            entries = [_said(one, depth + 1) for one in value[:_ENTRIES]]
            return _joined("[]" if isinstance(value, list) else "()", entries, len(value))
        case dict():
            pairs = [f"{key!r}: {_said(value[key], depth + 1)}" for key in list(value)[:_ENTRIES]]
            return _joined("{}", pairs, len(value))
        case str() | bytes() if len(value) > _CHARACTERS:
            return f"{value[:_CHARACTERS]!r}... ({len(value)} characters)"
    return repr(value)


def _struct(value: Struct, depth: int, besides: Collection[str] = ()) -> str:
    fields, defaults = value.__struct_fields__, value.__struct_defaults__
    usual = dict(zip(fields[len(fields) - len(defaults) :], defaults, strict=True))
    said = [
        f"{name}={_said(field, depth + 1)}"
        for name in fields
        if name != "opaque" and name not in besides and not _is_usual(field := getattr(value, name), usual.get(name))
    ]
    return f"{type(value).__name__}({', '.join(said)})"


def _is_usual(field: Any, usual: Any) -> bool:
    return field is None or field is usual or field in ([], (), "", {}) or (usual is not NODEFAULT and field == usual)


def _joined(brackets: str, entries: list[str], size: int) -> str:
    more = [f"... {size - len(entries)} more"] if size > len(entries) else []
    return f"{brackets[0]}{', '.join([*entries, *more])}{brackets[1]}"
