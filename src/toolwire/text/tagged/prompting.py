"""What a model is told, so that it can call tools in its text.

Rules of this file:
- The prompt begins with the caller's own, word for word. The same tools give the same text, in their order.
- No line of a tool's description can be taken for the beginning of a block.
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
    """Give a system prompt that ends with how to call these tools; without a tool, the prompt as it was.

    `compact` tells each tool in one line, without its schema.
    """
    declared = [tool for tool in Context(tools=list(tools)).tools if not isinstance(tool, ServerTool)]
    said = base or ""
    if not declared:
        return said
    told = describe(declared, compact=compact, parallel=parallel)
    return f"{said}\n\n{told}" if said.strip() else told


def describe(tools: Iterable[Tool], *, compact: bool = False, parallel: bool = True) -> str:
    """Say how to call tools, and which there are."""
    instructions = _INSTRUCTIONS if parallel else f"{_INSTRUCTIONS}\n{_ONE_CALL}"
    if compact:
        return "\n".join([instructions, "", _HEADING, *map(_signature, tools)])
    return "\n\n".join([instructions, _LONG_HEADING, *map(_entry, tools)])


def _schema_of(tool: Tool) -> dict[str, Any]:
    """Give the schema of a tool's parameters; free text stands in the one parameter `input`."""
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
    """Tell a tool in one line: `name(path: string, limit?: integer) - what it does`."""
    schema = _schema_of(tool)
    properties, required = schema.get("properties"), schema.get("required")
    needed = required if type(required) is list else []
    given = properties.items() if type(properties) is dict else ()
    told = [f"{name}{'' if name in needed else '?'}: {_kind(value)}" for name, value in given]
    first = _SENTENCE.match(tool.description or "")
    said = first[1] if first is not None else tool.description or ""
    return _line(f"- {tool.name}({', '.join(told)})" + (f" - {said}" if said else ""))


def _kind(schema: Any) -> str:
    if type(schema) is not dict:
        return "any"
    if type(schema.get("enum")) is list:
        return " | ".join(write_json(value).decode() for value in schema["enum"])
    kind = schema.get("type")
    if type(kind) is list:
        return " | ".join(map(str, kind))
    return kind if type(kind) is str else "any"


def _line(text: str) -> str:
    return " ".join(text.split())
