"""What the simulated model says when nobody wrote a scenario: enough to try things out.

Rules of this file:
- It says what it was told, or what the tools gave.
- A tool that is named, or the first one where it is asked to "call" or to "use" one, is called; an object in
  the text is its arguments, else they are made from its schema: the smallest ones, always the same.
- What a schema names is used first: a constant, a default, an example, the first of an enumeration.
- "fail 429" fails with that status.
"""

import json
import re
from typing import Any

from toolwire.encoding.errors import kind_of_status
from toolwire.schema.document import resolve_pointer
from toolwire.testing.steps import Fail, ScriptStep, Turn, results_of, words_of
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
    """Answer a request."""
    del turn
    if results := results_of(request.messages):
        lines = [f"{name or 'A tool'} gave: {words_of(result)}" for name, result in results]
        return [Text(text="\n".join(lines))]
    asked = next((message for message in reversed(request.messages) if message.role == "user"), None)
    # The last text is what the user has typed: programs put their own reminders before it.
    text = "" if asked is None else next((part.text for part in reversed(asked.parts) if isinstance(part, Text)), "")
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
    wanted = named or (tools[:1] if forced or _ASKS.search(text) else [])
    arguments = _object_in(text)
    return [_call(tool, text, arguments) for tool in wanted]


def _call(tool: Tool, text: str, arguments: dict[str, Any] | None) -> ToolCall:
    if tool.custom:
        return ToolCall(None, tool.name, raw=text, custom=True)
    made = example(tool.plain_parameters or {}) if arguments is None else arguments
    return ToolCall(None, tool.name, made if type(made) is dict else {})


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
    """Make a value of a schema."""
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
    word = _TEXTS.get(str(schema.get("format")), "example")
    least, most = schema.get("minLength", 0), schema.get("maxLength", len(word))
    if type(least) is int and len(word) < least:
        word = (word * (min(least, 1000) // len(word) + 1))[:least]
    return word[:most] if type(most) is int and "format" not in schema else word
