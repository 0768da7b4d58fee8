"""The answers of the simulated model without a scenario: enough to try things out.

Rules of this file:
- It repeats the user's text, or the results of the tools.
- It calls a tool that the text names, or the first one if the text contains "call" or "use". A JSON object in the text
  is its arguments. Otherwise they are generated from the schema: the smallest ones, always the same.
- Values that a schema names are used first: a constant, a default, an example, the first of an enumeration.
- "fail 429" fails with that status.
"""

import json
import re
from typing import Any

from toolwire.encoding.errors import kind_of_status
from toolwire.schema.document import resolve_pointer
from toolwire.testing.steps import Fail, ScriptStep, Turn, result_text, results_of
from toolwire.types import Error, Request, Text, Thinking, Tool, ToolCall
from toolwire.wire.arguments import format_arguments

_FAIL = re.compile(r"\bfail (?:with )?([45][0-9]{2})\b", re.IGNORECASE)
_ASKS = re.compile(r"\b(?:call|use)\b", re.IGNORECASE)

_DEEPEST = 20
_TEXTS = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "a@example.org",
    "uri": "https://example.org",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
}


def echo(request: Request, turn: Turn) -> list[ScriptStep]:
    """Return the steps of the answer to a request."""
    del turn
    if results := results_of(request.messages):
        lines = [f"{name or 'A tool'} returned: {result_text(result)}" for name, result in results]
        return [Text(text="\n".join(lines))]
    last_user_message = next((message for message in reversed(request.messages) if message.role == "user"), None)
    # The last text is the user's own: programs put their reminders before it.
    text = (
        ""
        if last_user_message is None
        else next((part.text for part in reversed(last_user_message.parts) if isinstance(part, Text)), "")
    )
    if (match := _FAIL.search(text)) is not None:
        status = int(match[1])
        return [Fail(Error(kind_of_status(status), "Failing, as you asked.", status))]
    thought: list[ScriptStep] = [Thinking(text=f"The user says: {text}")] if _thinks(request) else []
    calls = _calls(request, text)
    if calls:
        return [*thought, *calls]
    if request.output is not None and request.output.kind != "text":
        return [*thought, Text(text=format_arguments(example(request.output.schema or {"type": "object"})))]
    return [*thought, Text(text=f"You said: {text}")]


def _thinks(request: Request) -> bool:
    return request.thinking not in (None, "disabled") or request.effort not in (None, "none")


def _calls(request: Request, text: str) -> list[ScriptStep]:
    tools = [tool for tool in request.tools if isinstance(tool, Tool)]
    choice = request.tool_choice
    if choice is not None and choice.names:
        tools = [tool for tool in tools if tool.name in choice.names]
    if not tools or (choice is not None and choice.mode == "none"):
        return []
    named = [tool for tool in tools if re.search(rf"(?<!\w){re.escape(tool.name)}(?!\w)", text)]
    forced = choice is not None and choice.mode == "required"
    chosen = named or (tools[:1] if forced or _ASKS.search(text) else [])
    arguments = _object_in(text)
    return [_call(tool, text, arguments) for tool in chosen]


def _call(tool: Tool, text: str, arguments: dict[str, Any] | None) -> ToolCall:
    if tool.custom:
        return ToolCall(None, tool.name, raw=text, custom=True)
    values = example(tool.plain_parameters or {}) if arguments is None else arguments
    return ToolCall(None, tool.name, values if type(values) is dict else {})


def _object_in(text: str) -> dict[str, Any] | None:
    start = text.find("{")
    if start < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start:])
    except (ValueError, RecursionError):
        return None
    return value if type(value) is dict else None


def example(schema: Any, root: Any = None, depth: int = 0) -> Any:
    """Return a value that fits a schema."""
    root = schema if root is None else root
    if type(schema) is not dict or depth > _DEEPEST:
        return {} if depth == 0 else None
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if type(schema.get(key)) is list and schema[key]:
            return schema[key][0]
    if (target := resolve_pointer(root, schema.get("$ref"))) is not None:
        return example(target, root, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if type(schema.get(key)) is list and schema[key] and "properties" not in schema:
            return example(schema[key][0], root, depth + 1)
    return _of_kind(schema, root, depth)


def _of_kind(schema: dict[str, Any], root: Any, depth: int) -> Any:
    value_type = schema.get("type", "object" if "properties" in schema or depth == 0 else "string")
    value_type = (
        next((word for word in value_type if word != "null"), "null")
        if type(value_type) is list and value_type
        else value_type
    )
    match str(value_type).lower():
        case "object":
            properties, required = schema.get("properties"), schema.get("required")
            known = properties if type(properties) is dict else {}
            names = [name for name in (required if type(required) is list else known) if type(name) is str]
            return {name: example(known.get(name, {}), root, depth + 1) for name in names}
        case "array":
            least = schema.get("minItems", 0)
            inner = example(schema.get("items", {}), root, depth + 1)
            return [inner] * min(least, _DEEPEST) if type(least) is int else []
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
    text = _TEXTS.get(str(schema.get("format")), "example")
    least, most = schema.get("minLength", 0), schema.get("maxLength", len(text))
    if type(least) is int and len(text) < least:
        text = (text * (min(least, 1000) // len(text) + 1))[:least]
    return text[:most] if type(most) is int and "format" not in schema else text
