"""Settings as TOML: one section for each table, and each value on one line."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

_FLAT_SECTIONS = frozenset({"prices"})
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_of(settings: Mapping[str, Any]) -> str:
    """Return `settings`, a map of sections that are maps of tables, as TOML."""
    lines = []
    for section, tables in settings.items():
        if section in _FLAT_SECTIONS:
            lines += [f"[{section}]", *(f"{_text(name)} = {_value(value)}" for name, value in tables.items()), ""]
            continue
        for name, table in tables.items():
            lines.append(f"[{section}.{_text(name)}]")
            lines += [f"{_key(key)} = {_value(value)}" for key, value in table.items()]
            lines.append("")
    return "\n".join(lines)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    match value:
        case dict():
            return "{ " + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case str():
            return _text(value)
    return msgspec.json.encode(value).decode()


def _text(text: str) -> str:
    """Return a text as JSON, which is TOML except for one character."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
