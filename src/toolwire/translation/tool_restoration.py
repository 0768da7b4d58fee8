"""Restore the calls of an answer as the client declared their tools, where the model's wire had no such tools or names.

Rules of this file:
- On a wire without free-text tools, such a tool takes an object with the text under `input`. The text is emitted while
  it arrives. If the object has anything else, the call is broken, and shows all of the text that arrived.
- A call of one of the deprecated `functions` of Chat Completions has no id, because its client does not send one back.
- A call of a tool in a namespace, and a call of a built-in tool, is spelled as the tool's declaration requires.
- A tool name that the client's own wire does not allow is written in the answer as it was declared.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.finish import cut_off
from toolwire.encoding.tools import is_escaped
from toolwire.streams.call_normalizer import needs_escaping
from toolwire.types import CallDelta, CallEnd, CallStart, Choice, Event, Opaque, Request, Response, Tool, ToolCall
from toolwire.types.spelling.openai_chat import ChatCallSpelling, ChatToolSpelling
from toolwire.types.spelling.openai_responses import ResponsesCallSpelling, ResponsesToolSpelling
from toolwire.wire.arguments import CUT_OFF_SUFFIX, argument_text

_OPENING = re.compile(r'[ \t\r\n]*\{[ \t\r\n]*"input"[ \t\r\n]*:[ \t\r\n]*"')
_WORDS = re.compile(
    r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+"
)
_LONGEST_OPENING = 256
_LONGEST_ESCAPE = len(r"\ud83d\ude00")


class _FreeText:
    """The text of a free-text call, parsed from its object while it arrives. Parsing stops at anything unexpected."""

    __slots__ = ("_inside", "_pieces", "_unparsed")

    def __init__(self) -> None:
        self._unparsed = ""
        self._inside: bool | None = None
        self._pieces: list[str] = []

    @property
    def parsed(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def feed(self, fragment: str) -> str:
        """Add a fragment of the object. Return the text that it completes."""
        if self._inside is False:
            return ""
        self._unparsed += fragment
        if self._inside is None:
            opening = _OPENING.match(self._unparsed)
            self._inside = True if opening else None if len(self._unparsed) < _LONGEST_OPENING else False
            if opening is None:
                return ""
            self._unparsed = self._unparsed[opening.end() :]
        return self._read()

    def _read(self) -> str:
        escaped = _WORDS.match(self._unparsed).group()  # type: ignore[union-attr]
        self._unparsed = unparsed = self._unparsed[len(escaped) :]
        self._inside = not unparsed or (unparsed[0] == "\\" and len(unparsed) < _LONGEST_ESCAPE)
        text: str = json.loads(f'"{escaped}"') if "\\" in escaped else escaped
        self._pieces.append(text)
        return text


class _DeclaredTool:
    """A tool as the client declared it. `builtin` is its type if it is a built-in tool of Responses."""

    def __init__(self, tool: Tool) -> None:
        self.tool: Tool = tool
        self.dialect = tool.opaque.dialect if tool.opaque is not None else ""
        self.spelling: ChatCallSpelling | ResponsesCallSpelling | None = _call_spelling(tool)
        self.is_deprecated_function = type(self.spelling) is ChatCallSpelling
        self.builtin: str | None = getattr(self.spelling, "builtin", None)

    def mark(self, opaque: Opaque | None) -> Opaque | None:
        """Return the mark of a call of this tool: `opaque` with the spelling that the declaration requires.

        A provider that speaks the client's wire spells its calls itself, except those of built-in tools.
        """
        is_own = opaque is not None and opaque.dialect == self.dialect
        if self.spelling is None or (is_own and self.builtin is None):
            return opaque
        if opaque is None or is_own:
            return Opaque("", {}, spelling=self.spelling)
        return Opaque(opaque.dialect, opaque.value, spelling=self.spelling)

    def restore_call(self, call: ToolCall, text: _FreeText | None = None) -> ToolCall:
        """Return a call as the client declared the tool. `text` is its free text, if that was streamed."""
        call = replace(call, name=self.tool.name) if call.name != self.tool.name else call
        if self.tool.custom and not call.custom:
            call = _as_free_text(call, text)
        if self.builtin is None:
            marked = self.mark(call.opaque)
            has_no_id = self.is_deprecated_function and marked is not call.opaque
            return replace(call, opaque=marked, id=None if has_no_id else call.id)
        problem = _find_problem(self.builtin, call)
        if problem is not None:
            return cut_off(replace(call, raw=argument_text(call), error=problem))
        arguments = {**_CONSTANT_ARGUMENTS.get(self.builtin, {}), **call.plain_arguments}
        return replace(call, arguments=arguments, opaque=self.mark(call.opaque))


def _call_spelling(tool: Tool) -> ChatCallSpelling | ResponsesCallSpelling | None:
    """Return how the client's wire spells the calls of `tool`, or None if it spells them as those of any function."""
    match None if tool.opaque is None else tool.opaque.spelling:
        case ChatToolSpelling(is_deprecated_function=True):
            return ChatCallSpelling(is_deprecated_function=True)
        case ResponsesToolSpelling(builtin=builtin, qualified_name=name) if builtin is not None or name is not None:
            return ResponsesCallSpelling(builtin=builtin, qualified_name=name)
    return None


def _find_problem(builtin: str, call: ToolCall) -> str | None:
    """Return why a call cannot be written as one of this built-in tool, or None."""
    if not call.runs:
        return call.error or "cut off before it was whole"
    return (
        None
        if _has_required_arguments(builtin, call.plain_arguments)
        else f"{builtin} takes {_REQUIRED_ARGUMENTS[builtin]}"
    )


_REQUIRED_ARGUMENTS = {
    "apply_patch": "`type` (create_file, update_file, delete_file), `path` and, but for delete_file, `diff`: strings",
    "shell": "`commands`, a list of strings",
    "local_shell": "`command`, a list of strings",
}
# Arguments that every such call has, and that the model does not write (openai 3.52.0, LocalShellCallAction).
_CONSTANT_ARGUMENTS: dict[str, dict[str, Any]] = {"local_shell": {"type": "exec", "env": {}}}


def _has_required_arguments(builtin: str, arguments: dict[str, Any]) -> bool:
    """Return True if `arguments` have the required arguments of a built-in tool."""
    match builtin, arguments:
        case "apply_patch", {"type": "create_file" | "update_file", "path": str(), "diff": str()}:
            return True
        case "apply_patch", {"type": "delete_file", "path": str()}:
            return True
        case ("shell", {"commands": list(words)}) | ("local_shell", {"command": list(words)}):
            return all(type(word) is str for word in words)
    return builtin not in _REQUIRED_ARGUMENTS


def _as_free_text(call: ToolCall, text: _FreeText | None) -> ToolCall:
    """Return a call whose object has only `input` as a free-text call, and any other call as a broken one."""
    arguments = call.plain_arguments
    if call.runs and arguments.keys() == {"input"} and type(arguments["input"]) is str:
        return replace(call, arguments={}, raw=arguments["input"], custom=True)
    escaped = argument_text(call)
    if text is None or not text.parsed:
        text = _FreeText()
        text.feed(escaped)
    problem = call.error or "a tool of free text takes an object with the text under `input`, and nothing else"
    return cut_off(replace(call, raw=(text.parsed or escaped) + CUT_OFF_SUFFIX, custom=True, error=problem))


class ToolRestorer:
    """Restores the calls of one answer. `names` are the tool names that its encoder must not escape."""

    def __init__(self, tools: Mapping[str, _DeclaredTool]) -> None:
        self._tools = tools
        self.names: tuple[str, ...] = tuple(one.tool.name for one in tools.values() if not is_escaped(one.tool))
        self._open: dict[int, tuple[_DeclaredTool, _FreeText | None]] = {}

    def restore_response(self, response: Response) -> Response:
        """Return a response with its calls as the client declared their tools."""
        return replace(response, choices=[self._choice(choice) for choice in response.choices])

    def _choice(self, choice: Choice) -> Choice:
        content = choice.message.content
        if type(content) is str:
            return choice
        parts = [self.restore_call(part) if type(part) is ToolCall else part for part in content]  # type: ignore[union-attr]
        return replace(choice, message=replace(choice.message, content=parts))

    def restore_call(self, call: ToolCall) -> ToolCall:
        """Return a call as the client declared its tool."""
        tool = self._tools.get(call.name)
        return call if tool is None else tool.restore_call(call)

    def restore_events(self, event: Event) -> list[Event]:
        """Return the events of a stream that `event` becomes for the client. A free text is parsed while it arrives."""
        if isinstance(event, CallStart):
            return [self._start(event)]
        if isinstance(event, CallDelta | CallEnd) and event.key in self._open:
            return self._continue(event, *self._open[event.key])
        return [event]

    def _start(self, event: CallStart) -> CallStart:
        declared = self._tools.get(event.name)
        if declared is None:
            return event
        tool = declared.tool
        self._open[event.key] = declared, _FreeText() if tool.custom and not event.custom else None
        custom = event.custom or tool.custom
        return replace(event, name=tool.name, custom=custom, opaque=declared.mark(event.opaque))

    def _continue(self, event: CallDelta | CallEnd, declared: _DeclaredTool, text: _FreeText | None) -> list[Event]:
        """Continue or end a call. The arguments of a built-in tool are emitted at its end only."""
        if isinstance(event, CallDelta):
            fragment = event.fragment if text is None else text.feed(event.fragment)
            return [] if declared.builtin is not None or not fragment else [replace(event, fragment=fragment)]
        del self._open[event.key]
        call = declared.restore_call(event.call, text)
        remainder = "" if text is None else _remainder(text.parsed, call.raw or "")
        return [*([CallDelta(event.key, remainder)] if remainder else []), replace(event, call=call)]


def _remainder(parsed: str, text: str) -> str:
    """Return the part of `text` that follows the text that was emitted already."""
    return text[len(parsed) :] if text.startswith(parsed) else ""


def tool_restorer(request: Request) -> ToolRestorer | None:
    """Return a restorer for the answer to a request, or None if its calls need no change."""
    tools: dict[str, _DeclaredTool] = {}
    for tool in request.tools:
        if type(tool) is Tool and _has_other_calls(tool):
            tools[tool.name] = _DeclaredTool(tool)
    return ToolRestorer(tools) if tools else None


def affects_answers(tool: Any) -> bool:
    """Return True if the declaration of a tool is needed to read the calls of an answer."""
    return type(tool) is Tool and bool(tool.strict or _has_other_calls(tool))


def _has_other_calls(tool: Tool) -> bool:
    """Return True if a call of `tool` from another wire has to be changed for the client."""
    return tool.custom or needs_escaping(tool.name) or _call_spelling(tool) is not None
