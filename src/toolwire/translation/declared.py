"""What a model called, as the client declared it: the way back of tools that the model's wire could not name or take.

Rules of this file:
- A tool of free text is an object with one text field where no free text is taken. Its text is told as it arrives; an
  object that says anything else makes the call a broken one, and nothing of it is left out or made up.
- A call of one of the deprecated `functions` has no id, as its client repeats it.
- A tool in a namespace, or of a wire's own, is called as its wire does; how that is spelled its declaration says.
- A name that the client's own wire does not take stands in its answer as it was declared.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.finish import cut_off
from toolwire.encoding.tools import is_escaped
from toolwire.streams.settling import is_respelled
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


class _Text:
    """The text of a call as it arrives within an object: as much as is sure, and no more where anything else comes."""

    __slots__ = ("_inside", "_left", "_told")

    def __init__(self) -> None:
        self._left = ""
        self._inside: bool | None = None
        self._told: list[str] = []

    @property
    def told(self) -> str:
        """What is sure so far."""
        return "".join(self._told)

    def feed(self, fragment: str) -> str:
        """Give the text that is sure after this fragment of the object."""
        if self._inside is False:
            return ""
        self._left += fragment
        if self._inside is None:
            begun = _OPENING.match(self._left)
            self._inside = True if begun else None if len(self._left) < _LONGEST_OPENING else False
            if begun is None:
                return ""
            self._left = self._left[begun.end() :]
        return self._read()

    def _read(self) -> str:
        written = _WORDS.match(self._left).group()  # type: ignore[union-attr]
        self._left = left = self._left[len(written) :]
        self._inside = not left or (left[0] == "\\" and len(left) < _LONGEST_ESCAPE)
        words: str = json.loads(f'"{written}"') if "\\" in written else written
        self._told.append(words)
        return words


class _Declared:
    """One tool as its client declared it."""

    def __init__(self, tool: Tool) -> None:
        self.tool: Tool = tool
        self.dialect = tool.opaque.dialect if tool.opaque is not None else ""
        self.spelling: ChatCallSpelling | ResponsesCallSpelling | None = _call_spelling(tool)
        self.is_deprecated_function = type(self.spelling) is ChatCallSpelling
        self.builtin: str | None = getattr(self.spelling, "builtin", None)

    def mark(self, opaque: Opaque | None) -> Opaque | None:
        """Return the mark of a call of this tool: the provider's, with the spelling that the declaration asks for.

        A provider that speaks the client's wire has spelled its calls itself, but for those of built-in tools.
        """
        is_own = opaque is not None and opaque.dialect == self.dialect
        if self.spelling is None or (is_own and self.builtin is None):
            return opaque
        if opaque is None or is_own:
            return Opaque("", {}, spelling=self.spelling)
        return Opaque(opaque.dialect, opaque.value, spelling=self.spelling)

    def call(self, call: ToolCall, text: _Text | None = None) -> ToolCall:
        """Give a call as the client declared its tool."""
        call = replace(call, name=self.tool.name) if call.name != self.tool.name else call
        if self.tool.custom and not call.custom:
            call = _as_text(call, text)
        if self.builtin is None:
            marked = self.mark(call.opaque)
            has_no_id = self.is_deprecated_function and marked is not call.opaque
            return replace(call, opaque=marked, id=None if has_no_id else call.id)
        problem = _problem(self.builtin, call)
        if problem is not None:
            return cut_off(replace(call, raw=argument_text(call), error=problem))
        arguments = {**_ALWAYS.get(self.builtin, {}), **call.plain_arguments}
        return replace(call, arguments=arguments, opaque=self.mark(call.opaque))


def _call_spelling(tool: Tool) -> ChatCallSpelling | ResponsesCallSpelling | None:
    """Return how the client's wire spells the calls of `tool`, or None if it spells them as those of any function."""
    match None if tool.opaque is None else tool.opaque.spelling:
        case ChatToolSpelling(is_deprecated_function=True):
            return ChatCallSpelling(is_deprecated_function=True)
        case ResponsesToolSpelling(builtin=builtin, qualified_name=name) if builtin is not None or name is not None:
            return ResponsesCallSpelling(builtin=builtin, qualified_name=name)
    return None


def _problem(builtin: str, call: ToolCall) -> str | None:
    """Return why a call cannot be written as one of this built-in tool, or None."""
    if not call.runs:
        return call.error or "cut off before it was whole"
    return None if _fits(builtin, call.plain_arguments) else f"{builtin} takes {_TAKES[builtin]}"


_TAKES = {
    "apply_patch": "`type` (create_file, update_file, delete_file), `path` and, but for delete_file, `diff`: strings",
    "shell": "`commands`, a list of strings",
    "local_shell": "`command`, a list of strings",
}
# What such a call always says, beside what its model does (openai 3.52.0, LocalShellCallAction).
_ALWAYS: dict[str, dict[str, Any]] = {"local_shell": {"type": "exec", "env": {}}}


def _fits(kind: str, arguments: dict[str, Any]) -> bool:
    """Whether arguments have what a tool of a wire's own cannot be called without."""
    match kind, arguments:
        case "apply_patch", {"type": "create_file" | "update_file", "path": str(), "diff": str()}:
            return True
        case "apply_patch", {"type": "delete_file", "path": str()}:
            return True
        case ("shell", {"commands": list(words)}) | ("local_shell", {"command": list(words)}):
            return all(type(word) is str for word in words)
    return kind not in _TAKES


def _as_text(call: ToolCall, text: _Text | None) -> ToolCall:
    """Give the text of a call that has it in an object; one that has anything else is broken, and shows it."""
    arguments = call.plain_arguments
    if call.runs and arguments.keys() == {"input"} and type(arguments["input"]) is str:
        return replace(call, arguments={}, raw=arguments["input"], custom=True)
    written = argument_text(call)
    if text is None or not text.told:
        text = _Text()
        text.feed(written)
    problem = call.error or "a tool of free text takes an object with the text under `input`, and nothing else"
    return cut_off(replace(call, raw=(text.told or written) + CUT_OFF_SUFFIX, custom=True, error=problem))


class Returning:
    """The way back of one answer to the client whose request it answers; `names` stand in it as they were declared."""

    def __init__(self, declared: Mapping[str, _Declared]) -> None:
        self._declared = declared
        self.names: tuple[str, ...] = tuple(one.tool.name for one in declared.values() if not is_escaped(one.tool))
        self._open: dict[int, tuple[_Declared, _Text | None]] = {}

    def response(self, response: Response) -> Response:
        """Give a response with its calls as the client declared them."""
        return replace(response, choices=[self._choice(choice) for choice in response.choices])

    def _choice(self, choice: Choice) -> Choice:
        content = choice.message.content
        if type(content) is str:
            return choice
        parts = [self.call(part) if type(part) is ToolCall else part for part in content]  # type: ignore[union-attr]
        return replace(choice, message=replace(choice.message, content=parts))

    def call(self, call: ToolCall) -> ToolCall:
        """Give a call as the client declared its tool."""
        declared = self._declared.get(call.name)
        return call if declared is None else declared.call(call)

    def events(self, event: Event) -> list[Event]:
        """Give an event of a stream as the client declared what it tells of; text waits until it is sure."""
        if isinstance(event, CallStart):
            return [self._start(event)]
        if isinstance(event, CallDelta | CallEnd) and event.key in self._open:
            return self._go_on(event, *self._open[event.key])
        return [event]

    def _start(self, event: CallStart) -> CallStart:
        declared = self._declared.get(event.name)
        if declared is None:
            return event
        tool = declared.tool
        self._open[event.key] = declared, _Text() if tool.custom and not event.custom else None
        custom = event.custom or tool.custom
        return replace(event, name=tool.name, custom=custom, opaque=declared.mark(event.opaque))

    def _go_on(self, event: CallDelta | CallEnd, declared: _Declared, text: _Text | None) -> list[Event]:
        if isinstance(event, CallDelta):
            words = event.fragment if text is None else text.feed(event.fragment)
            return [] if declared.builtin is not None or not words else [replace(event, fragment=words)]
        del self._open[event.key]
        call = declared.call(event.call, text)
        last = "" if text is None else _after(text.told, call.raw or "")
        return [*([CallDelta(event.key, last)] if last else []), replace(event, call=call)]


def _after(told: str, whole: str) -> str:
    return whole[len(told) :] if whole.startswith(told) else ""


def returning(request: Request) -> Returning | None:
    """Say how an answer to this request comes back to its client; None where it may come as it is."""
    declared: dict[str, _Declared] = {}
    for tool in request.tools:
        if type(tool) is Tool and _comes_back_otherwise(tool):
            declared[tool.name] = _Declared(tool)
    return Returning(declared) if declared else None


def is_minded(tool: Any) -> bool:
    """Whether an answer's calls of a tool are read by its declaration."""
    return type(tool) is Tool and bool(tool.strict or _comes_back_otherwise(tool))


def _comes_back_otherwise(tool: Tool) -> bool:
    """Return True if a call of `tool` from another wire has to be changed for the client."""
    return tool.custom or is_respelled(tool.name) or _call_spelling(tool) is not None
