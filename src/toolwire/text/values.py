"""Values that a text holds without their type: parsed by the tool's schema, and formatted so that they parse back.

Rules of this file:
- A text is unchanged, including its white space, if the schema allows a string or does not name a type. No entity is
  decoded.
- Of several allowed types the first that parses wins, in the order of vLLM and SGLang (read 2026-11-22): null, integer,
  number, boolean, object, array, string.
- A value that fits no allowed type stays a text. The validation of arguments then reports the error.
"""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from toolwire.schema.document import resolve_pointer
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


def _resolve_ref(schema: Any, root: Any, depth: int = 0) -> dict[str, Any]:
    """Follow a `$ref` inside of a tool's schema."""
    if type(schema) is not dict:
        return {}
    target = resolve_pointer(root, schema.get("$ref")) if depth <= _DEEPEST else None
    return schema if target is None else _resolve_ref(target, root, depth + 1)


def _alternatives(schema: Any, root: Any, until: str = "") -> Iterator[dict[str, Any]]:
    """Yield a schema and its alternatives (`anyOf`, `oneOf`, `allOf`), each once, with references resolved.

    A schema that has the key `until` hides its own alternatives.
    """
    seen, waiting = set[int](), [schema]
    while waiting:
        node = _resolve_ref(waiting.pop(), root)
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if node.get(until) is None:
            choices = [choice for keyword in _CHOICES if type(node.get(keyword)) is list for choice in node[keyword]]
            waiting += reversed(choices)


def allowed_types(schema: Any, root: Any) -> set[str]:
    """Return the types that a schema allows, or an empty set if it names none."""
    return {name for node in _alternatives(schema, root, "type") for name in _types_named(node)}


def _types_named(node: dict[str, Any]) -> set[str]:
    declared = node.get("type")
    if declared is not None:
        names = declared if type(declared) is list else [declared]
        types = {_ALIASES.get(str(name).lower(), str(name).lower()) for name in names}
        return types | ({"null"} if node.get("nullable") is True else set())
    values = node["enum"] if type(node.get("enum")) is list else [node["const"]] if "const" in node else []
    return {_KINDS.get(type(value), "null") for value in values}


def property_schemas(schema: Any, root: Any) -> dict[str, Any]:
    """Return the properties that `schema` and its alternatives declare. The first declaration of a name counts."""
    properties: dict[str, Any] = {}
    for declared in _values_of_key("properties", schema, root):
        properties = {**declared, **properties} if type(declared) is dict else properties
    return properties


def item_schema(schema: Any, root: Any) -> Any:
    """Return the schema of a list's items, or None."""
    return next(_values_of_key("items", schema, root), None)


def _values_of_key(key: str, schema: Any, root: Any) -> Iterator[Any]:
    """Yield the values of `key` in a schema and its alternatives."""
    return (node[key] for node in _alternatives(schema, root) if key in node)


def parse_by_schema(text: str, schema: Any, root: Any) -> Any:
    """Parse `text` as the first allowed type that it fits."""
    allowed = allowed_types(schema, root) or {"string"}
    for name in _ORDER:
        if name in allowed:
            try:
                return _READERS[name](text)
            except (ValueError, KeyError, SyntaxError, MemoryError, RecursionError):
                continue
    return text


def parse_declared(text: str, schema: Any, root: Any, *, quoted: bool) -> Any:
    """Parse a value for which the format declares whether it is a string (`quoted`).

    If the schema does not allow the declared type, the schema wins.
    """
    types = allowed_types(schema, root)
    if quoted:
        return parse_by_schema(text, schema, root) if types and "string" not in types else text
    try:
        value = parse_json(text)
    except ValueError:
        return parse_by_schema(text, schema, root)
    return text if types == {"string"} else value


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


def _reader_of(expected_type: type) -> Any:
    def read(text: str) -> Any:
        try:
            value = parse_json(text)
        except ValueError:
            value = json.loads(json.dumps(ast.literal_eval(text.strip()), allow_nan=False))
        except TypeError:
            raise ValueError from None
        if type(value) is not expected_type:
            raise ValueError
        return value

    return read


_READERS: dict[str, Any] = {
    "null": _null,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "object": _reader_of(dict),
    "array": _reader_of(list),
    "string": str,
}


def strip_padding(text: str, *, padded: bool) -> str:
    """Remove the line break on each side of a value.

    With `padded`, the format always writes line breaks, and any is removed.
    Otherwise they are removed only if both are there.
    """
    line = "\r\n" if text.startswith("\r\n") else "\n"
    if padded:
        return text.removeprefix(line).removesuffix(line)
    has_both = len(text) >= 2 * len(line) and text.startswith(line) and text.endswith(line)
    return text[len(line) : -len(line)] if has_both else text


def add_padding(text: str, *, always: bool) -> str:
    """Add a line break on each side of a value, if `always`, or if decoding would remove its own."""
    return f"\n{text}\n" if always or strip_padding(text, padded=False) != text else text


def format_value(value: Any) -> str:
    """Return `value` as the text that it is parsed from."""
    return value if type(value) is str else dump_json(value)


def dump_json(value: Any) -> str:
    """Return `value` as JSON in the style of chat templates."""
    return json.dumps(value, ensure_ascii=False)
