"""Arguments inside of a wrapper: `{"arguments": {"city": "Paris"}}` for a tool that has no parameter `arguments`.

Rules of this file:
- Models write the wrapper because calls are shown to them as JSON with such a key. vLLM unwraps it for DeepSeek V3.2
  and MiniCPM5 (tests/tool_parsers of 0.33).
- A wrapper is removed only if the tool does not declare it, and declares everything inside of it.
- Any other wrapper is reported with the remedy. A tool that accepts any key keeps it.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from toolwire.text.json_text import parse_json
from toolwire.text.values import parse_by_schema, property_schemas
from toolwire.types import Tool, ToolCall

_WRAPPERS = frozenset({"arguments", "parameters", "input", "properties"})
_NEVER_A_PARAMETER = frozenset({"arguments", "parameters"})


def unwrap_call(call: ToolCall, tool: Tool | None, text: str, *, is_typed: bool = True) -> ToolCall:
    """Return `call` without a wrapper around its arguments, or as a call that cannot run. `text` is what was read.

    `tool` is the declaration of the tool, or None if it is not known. Without `is_typed`, the format writes every value
    as text, so the tool's schema decides the types of the values inside of the wrapper.
    """
    if call.custom or not call.runs:
        return call
    arguments, problem = _unwrap(call.plain_arguments, tool)
    if problem:
        return replace(call, arguments={}, raw=text, error=problem)
    if arguments is not None and tool is not None and not is_typed:
        arguments = _typed(arguments, tool.parameters or {})
    return call if arguments is None else replace(call, arguments=arguments, raw=None)


def _unwrap(arguments: Mapping[str, Any], tool: Tool | None) -> tuple[dict[str, Any] | None, str]:
    """Return the arguments inside of a wrapper, or the problem. None and "" mean that there is no wrapper."""
    key, value = next(iter(arguments.items())) if len(arguments) == 1 else ("", None)
    inner = _object_in(value) if key in _WRAPPERS else None
    if inner is None:
        return None, ""
    if tool is None:
        remedy = "pass the tools with their parameters to have them unwrapped"
        return None, _remedy(key, remedy) if key in _NEVER_A_PARAMETER else ""
    properties = _declared_properties(tool.parameters or {})
    if properties is None or key in properties:
        return None, ""
    if inner.keys() <= properties.keys():
        return inner, ""
    return None, _remedy(key, f"write {{...}} instead of {{{key!r}: {{...}}}}")


def _typed(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return `arguments` with each text parsed as the type that `schema` declares."""
    properties = property_schemas(schema, schema)
    return {
        key: parse_by_schema(value, properties.get(key), schema) if type(value) is str else value
        for key, value in arguments.items()
    }


def _remedy(key: str, remedy: str) -> str:
    return f"the arguments are inside of {key!r}, which is not a parameter of the tool: {remedy}"


def _object_in(value: Any) -> dict[str, Any] | None:
    """Return the object that a wrapper contains, also as JSON text, or None."""
    if type(value) is str and value.lstrip()[:1] == "{":
        try:
            value = parse_json(value)
        except ValueError:
            return None
    return value if type(value) is dict else None


def _declared_properties(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the properties of a tool's parameters, or None if the tool accepts others too."""
    properties = property_schemas(schema, schema)
    is_open = schema.get("additionalProperties") not in (None, False) or "patternProperties" in schema
    is_declared = bool(properties) or "properties" in schema or schema.get("additionalProperties") is False
    return None if is_open or not is_declared else properties
