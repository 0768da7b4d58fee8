"""The form of an answer on the command line: a JSON Schema in a file, inline, or in short.

A short schema is names with types: `name, age int, tags list, bio: in one sentence`. A type is str (the default), int,
float, bool or list. A colon begins the description, which reaches to the next comma or line end.
"""

import re
from pathlib import Path
from typing import Any

import msgspec

from toolwire.errors import UserError, did_you_mean

_TYPES: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "list": {"type": "array", "items": {"type": "string"}},
}
_NAME = re.compile(r"[^\W\d]\w*")


def read_schema(text: str) -> dict[str, Any]:
    """Return the JSON Schema that `text` is, names as a file, or spells in short. Raise UserError if it is none."""
    if text.lstrip().startswith("{"):
        return _parse(text.encode(errors="surrogateescape"), "--schema")
    if text.endswith(".json") or (len(text) < 256 and Path(text).is_file()):
        return _parse(Path(text).read_bytes(), text)
    fields = [_field(entry) for entry in re.split(r"[,\n]", text) if entry.strip()]
    if not fields:
        raise UserError("is empty: pass a file, or names as in 'name, age int'", path="--schema")
    names = [name for name, _ in fields]
    if len(set(names)) < len(names):
        raise UserError(f"names {next(name for name in names if names.count(name) > 1)} twice", path="--schema")
    return {"type": "object", "properties": dict(fields), "required": names, "additionalProperties": False}


def _parse(data: bytes, path: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise UserError(f"is no JSON Schema: {problem}", path=path) from None


def _field(entry: str) -> tuple[str, dict[str, Any]]:
    head, colon, description = entry.partition(":")
    words = head.split()
    if not words or not _NAME.fullmatch(words[0]) or len(words) > 2:
        file = f"; there is no file {entry.strip()}" if re.search(r"[./]", entry) else ""
        raise UserError(f"{entry.strip()!r} is not a name with a type, as in 'age int'{file}", path="--schema")
    name, field_type = words[0], words[1] if words[1:] else "str"
    if field_type not in _TYPES:
        hint = did_you_mean(field_type, _TYPES) or f"; the types are {', '.join(_TYPES)}"
        raise UserError(f"{name} has the type {field_type!r}{hint}", path="--schema")
    return name, {
        **_TYPES[field_type],
        **({"description": description.strip()} if colon and description.strip() else {}),
    }
