"""Values that stand in a text without their type: read by the schema of the tool, and written so that they read back.

Rules of this file:
- A text stays as it is, every blank of it, where the schema says text or says nothing. No entity is decoded.
- Of several types the first that fits counts, in the order of vLLM and SGLang (read 2026-11-22): null, integer,
  number, boolean, object, array, string.
- What fits no type stays a text: the validation of arguments will say what is wrong with it.
"""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from toolwire.schema.document import pointed_at
from toolwire.text.json_text import parse_json

_ALIASES = {
    **dict.fromkeys("str text varchar char enum".split(), "string"),
    **dict.fromkeys("int int32 int64 uint long short".split(), "integer"),
    **dict.fromkeys("float float32 float64 double".split(), "number"),
    "bool": "boolean",
    "dict": "object",
    "map": "object",
    "list": "array",
    "tuple": "array",
}
_ORDER = ("null", "integer", "number", "boolean", "object", "array", "string")
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_WHOLE = re.compile(r"[+-]?[0-9]{1,4000}")
_DEEPEST = 16
_CHOICES = ("anyOf", "oneOf", "allOf")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def _resolved(schema: Any, root: Any, depth: int = 0) -> dict[str, Any]:
    """Follow a reference inside of a tool's schema."""
    if type(schema) is not dict:
        return {}
    place = pointed_at(root, schema.get("$ref")) if depth <= _DEEPEST else None
    return schema if place is None else _resolved(place, root, depth + 1)


def _alternatives(schema: Any, root: Any, until: str = "") -> Iterator[dict[str, Any]]:
    """Give a schema and its choices, each once and where its reference leads; what says `until` has no choices."""
    seen, waiting = set[int](), [schema]
    while waiting:
        node = _resolved(waiting.pop(), root)
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if node.get(until) is None:
            choices = [choice for word in _CHOICES if type(node.get(word)) is list for choice in node[word]]
            waiting += reversed(choices)


def allowed_types(schema: Any, root: Any) -> set[str]:
    """Give the types that a schema allows; none where it does not say."""
    return {kind for node in _alternatives(schema, root, "type") for kind in _types_said(node)}


def _types_said(node: dict[str, Any]) -> set[str]:
    said = node.get("type")
    if said is not None:
        names = said if type(said) is list else [said]
        types = {_ALIASES.get(str(name).lower(), str(name).lower()) for name in names}
        return types | ({"null"} if node.get("nullable") is True else set())
    listed = node["enum"] if type(node.get("enum")) is list else [node["const"]] if "const" in node else []
    return {_KINDS.get(type(value), "null") for value in listed}


def property_schemas(schema: Any, root: Any) -> dict[str, Any]:
    """Give the properties that a schema, or one of its choices, names."""
    found: dict[str, Any] = {}
    for said in _under("properties", schema, root):
        found = {**said, **found} if type(said) is dict else found
    return found


def item_schema(schema: Any, root: Any) -> Any:
    """Give the schema of what stands in a list."""
    return next(_under("items", schema, root), None)


def _under(key: str, schema: Any, root: Any) -> Iterator[Any]:
    """Give what a schema and its choices say under a key."""
    return (node[key] for node in _alternatives(schema, root) if key in node)


def parse_by_schema(text: str, schema: Any, root: Any) -> Any:
    """Read a text as the first type that it fits."""
    allowed = allowed_types(schema, root) or {"string"}
    for kind in _ORDER:
        if kind in allowed:
            try:
                return _READERS[kind](text)
            except (ValueError, KeyError, SyntaxError, MemoryError, RecursionError):
                continue
    return text


def parse_declared(text: str, schema: Any, root: Any, *, quoted: bool) -> Any:
    """Read a value of which the format says whether it is a text; where the schema allows no such thing, it counts."""
    kinds = allowed_types(schema, root)
    if quoted:
        return parse_by_schema(text, schema, root) if kinds and "string" not in kinds else text
    try:
        value = parse_json(text)
    except ValueError:
        return parse_by_schema(text, schema, root)
    return text if kinds == {"string"} else value


def _null(text: str) -> None:
    if text.strip() != "None" and text.strip().lower() != "null":
        raise ValueError


def _integer(text: str) -> int:
    if _WHOLE.fullmatch(text.strip()) is not None:
        return int(text)
    value = _number(text)
    if value != int(value):
        raise ValueError
    return value  # type: ignore[no-any-return]


def _number(text: str) -> Any:
    value = parse_json(text.strip().removeprefix("+").removesuffix("."))
    if type(value) not in {int, float}:
        raise ValueError
    return value


def _boolean(text: str) -> bool:
    return _BOOLEANS[text.strip().lower()]


def _of(kind: type) -> Any:
    def read(text: str) -> Any:
        try:
            value = parse_json(text)
        except ValueError:
            value = json.loads(json.dumps(ast.literal_eval(text.strip()), allow_nan=False))
        except TypeError:
            raise ValueError from None
        if type(value) is not kind:
            raise ValueError
        return value

    return read


_READERS: dict[str, Any] = {
    "null": _null,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "object": _of(dict),
    "array": _of(list),
    "string": str,
}


def strip_padding(text: str, *, padded: bool) -> str:
    """Take off the line break on each side of a value: of any where the format writes one, else where both are."""
    line = "\r\n" if text.startswith("\r\n") else "\n"
    if padded:
        return text.removeprefix(line).removesuffix(line)
    whole = len(text) >= 2 * len(line) and text.startswith(line) and text.endswith(line)
    return text[len(line) : -len(line)] if whole else text


def add_padding(text: str, *, always: bool) -> str:
    """Put a line break on each side of a value, where reading will take it off."""
    return f"\n{text}\n" if always or strip_padding(text, padded=False) != text else text


def format_value(value: Any) -> str:
    """Write a value as the text that it is read from."""
    return value if type(value) is str else dump_json(value)


def dump_json(value: Any) -> str:
    """Write JSON as chat templates do."""
    return json.dumps(value, ensure_ascii=False)
