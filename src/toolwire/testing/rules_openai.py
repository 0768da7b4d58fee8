"""The rules that both APIs of OpenAI share: error messages, tools, names and settings.

Sources: openai/openai-openapi (2026-08-21) and the types of openai 3.52.0; the error messages are those that users
report in issues (2025-03 to 2026-11).
"""

import re
from collections.abc import Iterator
from typing import Any

from toolwire.encoding.families import family_of
from toolwire.testing.rules import ErrorWording, Field, Object, Path, Rejection, bracketed, repeated

_NAME = re.compile("^[a-zA-Z0-9_-]+$", re.ASCII)
MOST_TOOLS = 128  # oh-my-openagent#2848, 2026-03-26
_COMBINED = frozenset({"oneOf", "anyOf", "allOf", "enum", "not"})  # langchainjs#9804, 2026-01-14
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# BerriAI/litellm and maximhq/bifrost#1000, 2025-12
IDENTIFIERS = {"user": Field("string", longest=64), "safety_identifier": Field("string|null", longest=128)}
SAMPLING = {"temperature": Field("number|null", least=0, most=2), "top_p": Field("number|null", least=0, most=1)}
# https://learn.microsoft.com/azure/ai-foundry/openai/how-to/reasoning (2026-11-20)
_WITHOUT_REASONING = ("frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias")
_KINDS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a decimal",
    "boolean": "a boolean",
    "object": "an object",
    "array": "an array",
    "null": "null",
}
OPENAI = ErrorWording(
    {
        "missing": "Missing required parameter: '{path}'.",
        "unknown": "Unknown parameter: '{path}'.",
        "wrong": "Invalid type for '{path}': expected {every}, but got {got} instead.",
        "one_of": "Invalid value: '{value}'. Supported values are: {with_and}.",
        "pattern": "Invalid '{path}': string does not match pattern. "
        "Expected a string that matches the pattern '{pattern}'.",
        "too_long": "Invalid '{path}': string too long. "
        "Expected a string with maximum length {most}, but got a string with length {count} instead.",
        "empty": "Invalid '{path}': empty array. "
        "Expected an array with minimum length {least}, but got an empty array instead.",
        "too_many": "Invalid '{path}': array too long. "
        "Expected an array with maximum length {most}, but got an array with length {count} instead.",
        "below": "Invalid '{path}': {number} below minimum value. "
        "Expected a value >= {least}, but got {value} instead.",
        "above": "Invalid '{path}': {number} above maximum value. Expected a value <= {most}, but got {value} instead.",
    },
    kinds=_KINDS,
    codes={
        "missing": "missing_required_parameter",
        "unknown": "unknown_parameter",
        "wrong": "invalid_type",
        **dict.fromkeys(("one_of", "pattern"), "invalid_value"),
        "too_long": "string_above_max_length",
        "empty": "empty_array",
        "too_many": "array_above_max_length",
        "below": "{number}_below_min_value",
        "above": "{number}_above_max_value",
    },
    got=_KINDS,
    join=bracketed,
)


def function_of(name_limit: int) -> Object:
    """Return the table of a declared function whose name has at most `name_limit` characters."""
    return Object("object|null: parameters", name=Field("string", required=True, pattern=_NAME, longest=name_limit))


def check_functions(functions: list[tuple[Path, dict[str, Any]]]) -> None:
    """Check the schemas of declared functions, each with its path, and that their names differ."""
    for path, function in functions:
        for reason in _schema_mistakes(function.get("parameters"), strict=function.get("strict") is True):
            text = f"Invalid schema for function '{function['name']}': {reason}"
            raise Rejection(text, bracketed((*path, "parameters")), "invalid_function_parameters")
    if (name := repeated(function["name"] for _, function in functions)) is not None:
        raise Rejection(f"Invalid 'tools': the function name '{name}' is declared twice.", "tools", "invalid_value")


def check_answer(output_format: Any, param: str, code: str | None = None) -> None:
    """Check the schema of a structured output."""
    if type(output_format) is not dict or type(output_format.get("schema")) is not dict:
        return
    for reason in _schema_mistakes(output_format["schema"], strict=output_format.get("strict") is True):
        raise Rejection(f"Invalid schema for response_format '{output_format.get('name')}': {reason}", param, code)


def _schema_mistakes(schema: Any, *, strict: bool) -> Iterator[str]:
    """Yield the reasons why a schema is not valid for arguments."""
    if not schema:
        return
    schema_type = schema.get("type")
    if schema_type != "object":
        named = "None" if schema_type is None else schema_type
        yield f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{named}\"'."
    if not _COMBINED.isdisjoint(schema):
        yield "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
    if "properties" not in schema:
        yield "In context=(), object schema missing properties."
    if strict:
        yield from _strict_mistakes(schema, ())


def _strict_mistakes(schema: Any, context: tuple[str, ...], depth: int = 0) -> Iterator[str]:
    """Yield the reasons why a schema is not a strict one (OpenAI's guide to structured outputs, 2026-11)."""
    if type(schema) is not dict or depth > 100:
        return
    properties = schema.get("properties")
    if schema.get("type") == "object" or type(properties) is dict:
        if schema.get("additionalProperties") is not False:
            yield f"In context={context}, 'additionalProperties' is required to be supplied and to be false."
        required = schema.get("required")
        names = list(properties) if type(properties) is dict else []
        lacking = [name for name in names if type(required) is not list or name not in required]
        if lacking:
            yield (
                f"In context={context}, 'required' is required to be supplied and to be an array including "
                f"every key in properties. Missing '{lacking[0]}'."
            )
    for key in ("properties", "$defs", "definitions"):
        members = schema.get(key)
        for name, member in members.items() if type(members) is dict else ():
            yield from _strict_mistakes(member, (*context, key, name), depth + 1)
    yield from _strict_mistakes(schema.get("items"), (*context, "items"), depth + 1)
    choices = schema.get("anyOf")
    for index, member in enumerate(choices if type(choices) is list else ()):
        yield from _strict_mistakes(member, (*context, "anyOf", str(index)), depth + 1)


def check_choice(
    body: dict[str, Any], forced: str | None, names: set[str], *, any_tool: bool, of_tools: tuple[str, ...]
) -> None:
    """Check the tool choice, if there is any; `forced` is the tool that it forces."""
    choice = body.get("tool_choice")
    for key in of_tools:
        is_set = body.get(key) is not None and not (key == "tool_choice" and choice in ("none", "auto"))
        if is_set and not any_tool:
            raise Rejection(f"'{key}' is only allowed when 'tools' are specified.", key)
    modes = ("none", "auto", "required")
    if type(choice) is str and choice not in modes:
        raise OPENAI.unknown_value("one_of", ("tool_choice",), choice, modes)
    if forced is not None and forced not in names:
        raise Rejection(f"Tool choice '{forced}' not found in 'tools' parameter.", "tool_choice")


def check_sampling(body: dict[str, Any], model: str, effort: Any) -> None:
    """Check the effort, and that a reasoning model gets no sampling parameters.

    Users report these rejections (as of 2026-11-20).
    """
    if effort is not None and effort not in _EFFORTS:
        raise OPENAI.unknown_value("one_of", ("reasoning_effort",), effort, _EFFORTS)
    family = family_of(model)
    if effort is not None and family.efforts and effort not in family.efforts:
        known = ", ".join(f"'{one}'" for one in family.efforts)
        text = (
            f"Unsupported value: '{effort}' is not supported with the '{model}' model. Supported values are: {known}."
        )
        raise Rejection(text, "reasoning.effort", "unsupported_value")
    for key, supported in (("stop", family.stop), ("parallel_tool_calls", family.parallel_tool_calls)):
        if body.get(key) is not None and supported is False:
            raise _unsupported(key)
    if effort == "none" or not family.reasons or (effort is None and family.reasons_unasked is False):
        return
    for key in SAMPLING:
        if body.get(key) not in (None, 1):
            message = f"Unsupported value: '{key}' does not support {body[key]} with this model. "
            raise Rejection(f"{message}Only the default (1) value is supported.", key, "unsupported_value")
    for key in _WITHOUT_REASONING:
        if body.get(key):
            raise _unsupported(key)


def _unsupported(key: str) -> Rejection:
    return Rejection(f"Unsupported parameter: '{key}' is not supported with this model.", key, "unsupported_parameter")


def mentions_json(value: Any) -> bool:
    """Return True if any text of a value contains the word JSON."""
    pending = [value]
    while pending:
        item = pending.pop()
        if type(item) is str and "json" in item.lower():
            return True
        pending += item.values() if type(item) is dict else item if type(item) is list else ()
    return False
