"""The system prompt that teaches a model to call tools in its text.

Rules of this file:
- The prompt begins with the caller's own prompt, unchanged. The same tools in the same order produce the same text.
- No line of a tool's description can be mistaken for the beginning of a block.
"""

import re
from collections.abc import Iterable
from typing import Any

from toolwire.text.tagged.escaping import escape_quotes
from toolwire.text.tagged.forms import END, FENCE
from toolwire.types import Context, ServerTool, Tool
from toolwire.types.encoded import write_json

_INSTRUCTIONS = f"""\
# Tools

You can call tools. To call one, write a block of three parts, each beginning on a line of its own: an opening
fence, one JSON object, and a closing fence. For example:

{FENCE}
{{"name": "TOOL_NAME", "arguments": {{"PARAMETER": "VALUE"}}}}
{END}

Rules:
- One block is one call. For several calls, write several blocks.
- A fence begins its line, and nothing else stands on that line. A block inside of code or of a quotation
  calls nothing.
- The block holds one JSON object and nothing else: "name" is one of the tools below, "arguments" fits its
  parameters. "id" may name the call; it is optional.
- When you have written your blocks, stop. The results come in the next message, each in a block that begins
  with ~~~tool_result. Never write such a block yourself.
- A line with a backslash before its fence is a quotation of a fence: it calls nothing."""
_ONE_CALL = "- Call at most one tool in each answer."
_HEADING = "The tools:"
_LONG_HEADING = "The tools, each with its description and the JSON Schema of its parameters:"
_SENTENCE = re.compile(r"(.+?[.!?])(?:\s|$)", re.DOTALL)


def augment_system_prompt(
    base: str | None,
    tools: Iterable[Any],
    *,
    compact: bool = False,
    parallel: bool = True,
) -> str:
    """Return `base` with instructions on how to call `tools` at its end. Without tools, return `base`.

    - `compact`: describe each tool in one line, without its schema.
    - `parallel`: pass False to ask for at most one call in each answer.

    >>> from toolwire import Tool, tool_calls
    >>> prompt = tool_calls.augment_system_prompt("Be brief.", [Tool("ping", "Ping.", {"type": "object"})])
    >>> prompt.startswith("Be brief."), "ping" in prompt
    (True, True)
    """
    declared = [tool for tool in Context(tools=list(tools)).tools if not isinstance(tool, ServerTool)]
    prompt = base or ""
    if not declared:
        return prompt
    instructions = describe(declared, compact=compact, parallel=parallel)
    return f"{prompt}\n\n{instructions}" if prompt.strip() else instructions


def describe(tools: Iterable[Tool], *, compact: bool = False, parallel: bool = True) -> str:
    """Return the instructions on how to call tools, and the list of tools."""
    instructions = _INSTRUCTIONS if parallel else f"{_INSTRUCTIONS}\n{_ONE_CALL}"
    if compact:
        return "\n".join([instructions, "", _HEADING, *map(_signature, tools)])
    return "\n\n".join([instructions, _LONG_HEADING, *map(_entry, tools)])


def _schema_of(tool: Tool) -> dict[str, Any]:
    """Return the parameter schema of a tool. The free text of a custom tool is the parameter `input`."""
    if tool.custom:
        return {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    return tool.plain_parameters if tool.plain_parameters is not None else {"type": "object", "properties": {}}


def _entry(tool: Tool) -> str:
    lines = [f"## {_line(tool.name)}"]
    if tool.description:
        lines.append(escape_quotes(tool.description))
    lines.append(f"Parameters: {write_json(_schema_of(tool)).decode()}")
    return "\n".join(lines)


def _signature(tool: Tool) -> str:
    """Return a tool in one line: `name(path: string, limit?: integer) - what it does`."""
    schema = _schema_of(tool)
    properties, required = schema.get("properties"), schema.get("required")
    required_names = required if type(required) is list else []
    entries = properties.items() if type(properties) is dict else ()
    parameters = [f"{name}{'' if name in required_names else '?'}: {_type_text(value)}" for name, value in entries]
    sentence = _SENTENCE.match(tool.description or "")
    summary = sentence[1] if sentence is not None else tool.description or ""
    return _line(f"- {tool.name}({', '.join(parameters)})" + (f" - {summary}" if summary else ""))


def _type_text(schema: Any) -> str:
    if type(schema) is not dict:
        return "any"
    if type(schema.get("enum")) is list:
        return " | ".join(write_json(value).decode() for value in schema["enum"])
    type_name = schema.get("type")
    if type(type_name) is list:
        return " | ".join(map(str, type_name))
    return type_name if type(type_name) is str else "any"


def _line(text: str) -> str:
    return " ".join(text.split())
