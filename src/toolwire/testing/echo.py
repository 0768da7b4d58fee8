"""What the simulated model says when nobody wrote a scenario: enough to try things out.

Rules of this file:
- It says what it was told, or what the tools gave.
- A tool that is named, or the first one where it is asked to "call" or to "use" one, is called; an object in
  the text is its arguments, else they are made from its schema.
- "fail 429" fails with that status.
"""

import json
import re
from typing import Any

from toolwire.encoding.errors import kind_of_status
from toolwire.testing.examples import example
from toolwire.testing.expecting import results_of, words_of
from toolwire.testing.scenario import Turn
from toolwire.testing.steps import Fail, ScriptStep
from toolwire.types import Error, Request, Text, Thinking, Tool, ToolCall
from toolwire.wire.arguments import format_arguments

_FAIL = re.compile(r"\bfail (?:with )?([45][0-9]{2})\b", re.IGNORECASE)
_ASKS = re.compile(r"\b(?:call|use)\b", re.IGNORECASE)


def echo(request: Request, turn: Turn) -> list[ScriptStep]:
    """Answer a request."""
    del turn
    if results := results_of(request.messages):
        said = [f"{name or 'A tool'} gave: {words_of(result)}" for name, result in results]
        return [Text(text="\n".join(said))]
    text = next((message.text for message in reversed(request.messages) if message.role == "user"), "")
    if (found := _FAIL.search(text)) is not None:
        status = int(found[1])
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
    """Call the tools that are asked for."""
    tools = [tool for tool in request.tools if isinstance(tool, Tool)]
    choice = request.tool_choice
    if choice is not None and choice.names:
        tools = [tool for tool in tools if tool.name in choice.names]
    if not tools or (choice is not None and choice.mode == "none"):
        return []
    named = [tool for tool in tools if re.search(rf"(?<!\w){re.escape(tool.name)}(?!\w)", text)]
    forced = choice is not None and choice.mode == "required"
    wanted = named or (tools[:1] if forced or _ASKS.search(text) else [])
    given = _object_in(text)
    return [_call(tool, text, given) for tool in wanted]


def _call(tool: Tool, text: str, given: dict[str, Any] | None) -> ToolCall:
    if tool.custom:
        return ToolCall(None, tool.name, raw=text, custom=True)
    made = example(tool.parameters or {})
    return ToolCall(None, tool.name, given if given is not None else made if type(made) is dict else {})


def _object_in(text: str) -> dict[str, Any] | None:
    start = text.find("{")
    if start < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start:])
    except (ValueError, RecursionError):
        return None
    return value if type(value) is dict else None
