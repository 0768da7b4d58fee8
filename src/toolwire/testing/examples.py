"""A value that fits a schema, for a model that has nothing to say: the smallest one, always the same.

Rule: what a schema names is used first: a constant, a default, an example, the first of an enumeration.
"""

from typing import Any

DEEPEST = 20
TEXTS = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "a@example.org",
}
TEXTS |= {"uri": "https://example.org", "uuid": "00000000-0000-4000-8000-000000000000", "ipv4": "192.0.2.1"}


def example(schema: Any, root: Any = None, depth: int = 0) -> Any:
    """Make a value of a schema."""
    root = schema if root is None else root
    if type(schema) is not dict or depth > DEEPEST:
        return {} if depth == 0 else None
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if type(schema.get(key)) is list and schema[key]:
            return schema[key][0]
    if (target := _referred(schema.get("$ref"), root)) is not None:
        return example(target, root, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if type(schema.get(key)) is list and schema[key] and "properties" not in schema:
            return example(schema[key][0], root, depth + 1)
    return _of_kind(schema, root, depth)


def _of_kind(schema: dict[str, Any], root: Any, depth: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema or depth == 0 else "string")
    kind = next((word for word in kind if word != "null"), "null") if type(kind) is list and kind else kind
    match str(kind).lower():
        case "object":
            properties, required = schema.get("properties"), schema.get("required")
            known = properties if type(properties) is dict else {}
            names = [name for name in (required if type(required) is list else known) if type(name) is str]
            return {name: example(known.get(name, {}), root, depth + 1) for name in names}
        case "array":
            least = schema.get("minItems", 0)
            inner = example(schema.get("items", {}), root, depth + 1)
            return [inner] * min(least, DEEPEST) if type(least) is int else []
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return True
        case "null":
            return None
    return _text(schema)


def _number(schema: dict[str, Any]) -> Any:
    least, most = schema.get("minimum", 1), schema.get("maximum", 1)
    above: Any = schema.get("exclusiveMinimum")
    if type(above) in (int, float):
        return above + 1
    return least if "minimum" in schema else min(1, most) if type(most) in (int, float) else 1


def _text(schema: dict[str, Any]) -> str:
    word = TEXTS.get(str(schema.get("format")), "example")
    least, most = schema.get("minLength", 0), schema.get("maxLength", len(word))
    if type(least) is int and len(word) < least:
        word = (word * (min(least, 1000) // len(word) + 1))[:least]
    return word[:most] if type(most) is int and "format" not in schema else word


def _referred(reference: Any, root: Any) -> Any:
    if type(reference) is not str or not reference.startswith("#/"):
        return None
    for step in reference[2:].split("/"):
        root = root.get(step.replace("~1", "/").replace("~0", "~")) if type(root) is dict else None
    return root
