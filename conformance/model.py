"""The simulated model of the suites: it does what their prompts ask for, always in the same way.

Rules of this file:
- It answers the results of tools with words. If it must call again, it calls a tool that was not called before.
- It calls a forced tool, a tool that the text names, and each tool that fits the text; one call for each city.
- It writes what the schema of an answer wants, and JSON if the system prompt wants it.
- It thinks if the request asks for thinking.
- The prompt decides, never the suite: no case of a suite has a name here.
"""

import json
import re
from typing import Any

from toolwire.encoding.errors import kind_of_status
from toolwire.testing import Cut, Fail, Turn
from toolwire.testing.echo import example
from toolwire.types import Error, Image, Message, Request, Text, Thinking, Tool, ToolCall, ToolResult

_CITIES = re.compile(r"\b(?:San Francisco|Paris|Tokyo|Oslo|Boston)\b")
_FAIL = re.compile(r"\bfail with ([45][0-9]{2})\b")
_QUOTED = re.compile(r"[`'\"]([^`'\"\s]+)[`'\"]")
_STOPS = frozenset("the and for what with use tool call answer please".split())


def answer(request: Request, turn: Turn) -> list[Any]:
    """Return the steps of the answer to a request."""
    del turn
    text = _last_text(request)
    if (failing := _FAIL.search(text)) is not None:
        status = int(failing[1])
        return [Fail(Error(kind_of_status(status), "Failing, as the prompt asks.", status))]
    steps: list[Any] = [Thinking(text="The question is easy.")] if _thinks(request) else []
    if "break off" in text:
        return [*steps, Text(text="One, two, three, four,"), Cut()]
    if calls := _calls(request, text):
        return [*steps, *calls]
    return [*steps, Text(text=_words(request, text))]


def _thinks(request: Request) -> bool:
    """Return True if the request asks for thoughts; a budget alone does not show them."""
    shown = request.thinking_display not in (None, "omitted")
    return shown or request.thinking not in (None, "disabled") or request.effort not in (None, "none")


def _last_text(request: Request) -> str:
    users = [message for message in request.messages if message.role == "user"]
    return " ".join(part.text for part in users[-1].parts if isinstance(part, Text)) if users else ""


def _system_text(request: Request) -> str:
    system = request.system or ""
    return system if isinstance(system, str) else " ".join(part.text for part in system if isinstance(part, Text))


def _results(request: Request) -> list[ToolResult]:
    """Return the results after the last answer of the model, or none if the user wrote after them."""
    results: list[ToolResult] = []
    for message in request.messages:
        in_message = [part for part in message.parts if isinstance(part, ToolResult)]
        if message.role == "assistant" or (not in_message and _has_text(message)):
            results = []
        results += in_message
    return results


def _has_text(message: Message) -> bool:
    return any(isinstance(part, Text | Image) for part in message.parts)


def _calls(request: Request, text: str) -> list[ToolCall]:
    choice = request.tool_choice
    tools = [tool for tool in request.tools if isinstance(tool, Tool)]
    if choice is not None and choice.names:
        tools = [tool for tool in tools if tool.name in choice.names]
    forced = (choice is not None and choice.mode == "required") or "by calling a tool" in text
    if not tools or (choice is not None and choice.mode == "none") or (_results(request) and not forced):
        return []
    if _results(request):
        chosen = [tool for tool in tools if tool.name not in _called(request)][:1] or tools[:1]
    else:
        chosen = [tool for tool in tools if _fits(tool, text)] or (tools[:1] if forced else [])
    return [call for tool in chosen for call in _calls_of(tool, text)]


def _called(request: Request) -> set[str]:
    """Return the names of the tools that the history has called."""
    parts = [part for message in request.messages for part in message.parts]
    return {part.name for part in parts if isinstance(part, ToolCall)}


def _fits(tool: Tool, text: str) -> bool:
    """Return True if the text names the tool, or shares a word of four letters with its name or its description."""
    words = set(re.findall(r"[a-z]{4,}", text.lower())) - _STOPS
    tool_words = set(re.findall(r"[a-z]{4,}", f"{tool.name} {tool.description or ''}".lower().replace("_", " ")))
    return tool.name in text or bool(words & tool_words)


def _calls_of(tool: Tool, text: str) -> list[ToolCall]:
    if tool.custom:
        return [ToolCall(None, tool.name, raw=text, custom=True)]
    schema = tool.plain_parameters or {}
    known = schema.get("properties") or {}
    city_name = next((name for name in ("city", "location") if name in known), None)
    cities = list(dict.fromkeys(_CITIES.findall(text)))
    values = _filled(schema, text)
    if city_name is None or not cities:
        return [ToolCall(None, tool.name, values)]
    return [ToolCall(None, tool.name, values | {city_name: city}) for city in cities]


def _filled(schema: dict[str, Any], text: str) -> dict[str, Any]:
    """Return arguments for a schema: numbers and quoted words of the text where they fit."""
    values = example(schema)
    if type(values) is not dict:
        return {}
    known = schema.get("properties") or {}
    numbers = re.findall(r"(?<![\w.])-?\d+(?!\w|\.\d)", text)
    quoted = re.findall(r"'([^']+)'|\"([^\"]+)\"", text)
    for name in values:
        value_type = (known.get(name) or {}).get("type")
        if value_type in ("integer", "number", "INTEGER", "NUMBER") and numbers:
            values[name] = int(numbers[0])
        elif value_type in ("string", "STRING") and quoted and values[name] == "example":
            values[name] = quoted[0][0] or quoted[0][1]
    return values


def _words(request: Request, text: str) -> str:
    output = request.output
    if output is not None and output.schema:
        return json.dumps(example(output.schema))
    if "JSON" in _system_text(request) or (output is not None and output.kind == "json"):
        return json.dumps(dict.fromkeys(_QUOTED.findall(text), "example") or {"answer": "example"})
    images = sum(isinstance(part, Image) for message in request.messages for part in message.parts)
    seen = f" I see {images} image." if images else ""
    if results := _results(request):
        return " ".join(f"The result is {_words_of(result)}." for result in results) + seen
    return f"You said: {text or 'nothing'}.{seen}"


def _words_of(result: ToolResult) -> str:
    content = result.content
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return json.dumps(content, ensure_ascii=False)
    return " ".join(part.text if isinstance(part, Text) else f"an {type(part).__name__.lower()}" for part in content)
