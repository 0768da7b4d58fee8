"""What both APIs of OpenAI mind in the same way: how mistakes are told, tools, names and settings."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from toolwire.encoding.families import family_of
from toolwire.testing.strictness.asked import Rejection
from toolwire.testing.strictness.shapes import Words, bracketed, fits, kind_of, objects, twice

NAME = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)
PATTERN = "^[a-zA-Z0-9_-]+$"
MOST_TOOLS = 128
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_ARTICLES = {"integer": "an integer", "object": "an object", "array": "an array", "number": "a decimal"}


def missing(path: str) -> Rejection:
    """Say that a parameter is missing."""
    return Rejection(f"Missing required parameter: '{path}'.", path, "missing_required_parameter")


def unknown(at: str, key: str) -> Rejection:
    """Say that a parameter is unknown."""
    path = bracketed(at, key)
    return Rejection(f"Unknown parameter: '{path}'.", path, "unknown_parameter")


def wrong(path: str, kinds: str, value: Any) -> Rejection:
    """Say that a value is of the wrong kind."""
    wanted = [_article(kind) for kind in kinds.split("|")]
    expected = wanted[0] if len(wanted) == 1 else f"one of {', '.join(wanted[:-1])} or {wanted[-1]}"
    message = f"Invalid type for '{path}': expected {expected}, but got {_article(kind_of(value))} instead."
    return Rejection(message, path, "invalid_type")


def _article(kind: str) -> str:
    return _ARTICLES.get(kind, "null" if kind == "null" else f"a {kind}")


def invalid(path: str, value: Any, supported: Iterable[str]) -> Rejection:
    """Say which values there are."""
    *most, last = [f"'{word}'" for word in supported]
    listed = f"{', '.join(most)}, and {last}" if most else last
    return Rejection(f"Invalid value: '{value}'. Supported values are: {listed}.", path, "invalid_value")


def too_long(path: str, text: str, limit: int) -> Rejection:
    """Say that a text is too long."""
    message = (
        f"Invalid '{path}': string too long. Expected a string with maximum length {limit}, "
        f"but got a string with length {len(text)} instead."
    )
    return Rejection(message, path, "string_above_max_length")


def array_length(path: str, count: int, least: int, most: int | None) -> Iterator[Rejection]:
    """Say that a list is too short or too long."""
    if count < least:
        message = f"Invalid '{path}': empty array. Expected an array with minimum length {least}, but got an "
        yield Rejection(f"{message}empty array instead.", path, "empty_array")
    if most is not None and count > most:
        message = f"Invalid '{path}': array too long. Expected an array with maximum length {most}, but got "
        yield Rejection(f"{message}an array with length {count} instead.", path, "array_above_max_length")


def bounds(path: str, value: Any, least: float, most: float | None = None) -> Iterator[Rejection]:
    """Say that a number is out of its bounds."""
    if not fits(value, "number"):
        return
    kind = "integer" if type(value) is int and type(least) is int else "decimal"
    if value < least:
        message = f"Invalid '{path}': {kind} below minimum value. Expected a value >= {least}, but got {value} "
        yield Rejection(f"{message}instead.", path, f"{kind}_below_min_value")
    if most is not None and value > most:
        message = f"Invalid '{path}': {kind} above maximum value. Expected a value <= {most}, but got {value} "
        yield Rejection(f"{message}instead.", path, f"{kind}_above_max_value")


WORDS = Words(missing, unknown, wrong, bracketed)


def check_name(path: str, name: str, limit: int) -> Iterator[Rejection]:
    """Check the name of a tool."""
    if not NAME.fullmatch(name):
        message = f"Invalid '{path}': string does not match pattern. Expected a string that matches the pattern "
        yield Rejection(f"{message}'{PATTERN}'.", path, "invalid_value")
    if len(name) > limit:
        yield too_long(path, name, limit)


def check_functions(functions: list[tuple[str, dict[str, Any]]], limit: int) -> Iterator[Rejection]:
    """Check declared functions, each with its path: names, and schemas."""
    for path, function in functions:
        if "name" not in function:
            yield missing(f"{path}.name")
            return
        if not fits(function["name"], "string"):
            yield wrong(f"{path}.name", "string", function["name"])
            return
        yield from check_name(f"{path}.name", function["name"], limit)
        parameters = function.get("parameters")
        if parameters is not None and type(parameters) is not dict:
            yield wrong(f"{path}.parameters", "object", parameters)
            return
        yield from _check_schema(function, f"{path}.parameters")
    if (name := twice(function["name"] for _, function in functions)) is not None:
        yield Rejection(f"Invalid 'tools': the function name '{name}' is declared twice.", "tools", "invalid_value")


def _check_schema(function: dict[str, Any], path: str) -> Iterator[Rejection]:
    schema = function.get("parameters")
    if not schema:
        return
    says = f"Invalid schema for function '{function['name']}': "
    kind = schema.get("type")
    if kind != "object" and "$ref" not in schema and "anyOf" not in schema:
        given = "None" if kind is None else kind
        message = f"{says}schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{given}\"'."
        yield Rejection(message, path, "invalid_function_parameters")
    if function.get("strict") is True:
        for reason in strict_faults(schema, ()):
            yield Rejection(says + reason, path, "invalid_function_parameters")


def strict_faults(schema: Any, context: tuple[str, ...], depth: int = 0) -> Iterator[str]:
    """Say what keeps a schema from being a strict one."""
    if type(schema) is not dict or depth > 100:
        return
    properties = schema.get("properties")
    if schema.get("type") == "object" or type(properties) is dict:
        names = list(properties) if type(properties) is dict else []
        if schema.get("additionalProperties") is not False:
            yield f"In context={context}, 'additionalProperties' is required to be supplied and to be false."
        required = schema.get("required")
        lacking = [name for name in names if type(required) is not list or name not in required]
        if lacking:
            yield (
                f"In context={context}, 'required' is required to be supplied and to be an array including "
                f"every key in properties. Missing '{lacking[0]}'."
            )
    for key in ("properties", "$defs", "definitions"):
        inner = schema.get(key)
        for name, member in inner.items() if type(inner) is dict else ():
            yield from strict_faults(member, (*context, key, name), depth + 1)
    yield from strict_faults(schema.get("items"), (*context, "items"), depth + 1)
    for place, member in objects(schema.get("anyOf")):
        yield from strict_faults(member, (*context, "anyOf", str(place)), depth + 1)


def check_choice(body: dict[str, Any], named: str | None, names: set[str]) -> Iterator[Rejection]:
    """Check the choice among the tools; `named` is the tool that it forces."""
    for key in ("tool_choice", "parallel_tool_calls"):
        given = body.get(key) is not None and not (key == "tool_choice" and body[key] in ("none", "auto"))
        if given and not body.get("tools"):
            yield Rejection(f"'{key}' is only allowed when 'tools' are specified.", key)
    choice = body.get("tool_choice")
    if type(choice) is str and choice not in ("none", "auto", "required"):
        yield invalid("tool_choice", choice, ("none", "auto", "required"))
    if named is not None and named not in names:
        yield Rejection(f"Tool choice '{named}' not found in 'tools' parameter.", "tool_choice")


def check_sampling(body: dict[str, Any], model: str, effort: Any) -> Iterator[Rejection]:
    """Check sampling: its bounds, and that a model which reasons takes none."""
    yield from bounds("temperature", body.get("temperature"), 0, 2)
    yield from bounds("top_p", body.get("top_p"), 0, 1)
    if effort is not None and effort not in EFFORTS:
        yield invalid("reasoning_effort", effort, EFFORTS)
    family = family_of(model)
    if effort == "none" or not family.reasons or (effort is None and family.reasons_unasked is False):
        return
    for key in ("temperature", "top_p"):
        if body.get(key) not in (None, 1):
            message = f"Unsupported value: '{key}' does not support {body[key]} with this model. "
            yield Rejection(f"{message}Only the default (1) value is supported.", key, "unsupported_value")


def says_json(value: Any) -> bool:
    """Whether the word JSON stands in any text of a value."""
    left = [value]
    while left:
        here = left.pop()
        if type(here) is str and "json" in here.lower():
            return True
        if type(here) is dict:
            left += here.values()
        elif type(here) is list:
            left += here
    return False
