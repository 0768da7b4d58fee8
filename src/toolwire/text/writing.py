"""Encode in a text format: tools, calls, results, thoughts, and whole conversations.

Rules of this file:
- Encoded calls decode to the same calls. Each block is decoded once before it is returned. A value that a format cannot
  express is a loss, and never another call.
- In ordinary text, each mark of the format gets a backslash after its first character, so that it begins nothing.
- The marks around turns come from the model's chat template. The sentences that describe tools are our own.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from toolwire.text.calls import CallBuilder
from toolwire.text.reader import FormatMarks, TextReader
from toolwire.text.rows import Row, bare_mark, turn_marks
from toolwire.text.shapes import channels, recipients
from toolwire.text.values import dump_json
from toolwire.types import (
    Context,
    Document,
    Loss,
    Message,
    Part,
    Severity,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from toolwire.types.encoded import Action

_QUOTED = "a backslash was added to a mark of the format, so that it is read as text"
_LOOSE_PATTERNS = {
    "json": r'\{(?=\s*"(?:name|parameters|arguments|function|type|id)"\s*:)',
    "pythonic": r"\[(?=\s*[^\W\d][\w.\-/]*\s*\()",
}
_PLACEHOLDERS = re.compile(r"\{(content|id|name)\}")
_TOOLS_INTRO = "You can call these tools. Each line is one of them, as JSON."
_ONE_CALL = "Call at most one of them in each answer."
_CALL_INTRO = "To call one, write this, with its name and its arguments, and nothing after it:"


class Written(Struct, frozen=True):
    """An encoded text, and what it does not express.

    >>> from toolwire import ToolCall, text
    >>> written = text.format("hermes").encode_call(ToolCall("call_1", "ping", {}))
    >>> "ping" in written.text, [loss.concept for loss in written.losses]
    (True, ['call_id'])
    """

    text: str
    losses: tuple[Loss, ...] = ()


class _LossCollector:
    """Collects losses with the path of the value that was lost."""

    def __init__(self) -> None:
        self.losses: list[Loss] = []
        self.path = ""

    def lose(
        self, path: str, concept: str, detail: str, action: Action = "dropped", severity: Severity = "semantic"
    ) -> None:
        """Add a loss at `path` below the current path."""
        full_path = ".".join(filter(None, [self.path, path])).replace(".[", "[")
        self.losses.append(Loss(full_path, concept, action, detail, severity))


@lru_cache(64)
def _escape_patterns(row: Row) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return two patterns: all marks of a format and of the turns around it, and the marks that a backslash breaks."""
    pairs = (*row.pairs, row.thinking or (), *row.also_thinking)
    turn_parts = [mark for pair in turn_marks(row.turns).values() for mark in pair]
    channel_marks = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>"] if row.shape == "channels" else []
    marks = [mark for pair in pairs for mark in pair]
    marks += [*row.call, *row.argument, row.value, row.call_id, *row.noise, *row.quotes, *turn_parts, *channel_marks]
    marks += [row.header] if row.shape == "elements" else []
    long_marks = {
        bare_mark(mark) for mark in marks if len(bare_mark(mark)) > 2 and "{" not in mark and not mark.startswith("```")
    }
    mark_pattern = "|".join(map(re.escape, sorted(long_marks, key=len, reverse=True)))
    loose_pattern = _LOOSE_PATTERNS.get(row.shape) if row.loose and not row.call else None
    breakable = "|".join(map(re.escape, (mark for mark in long_marks if "\\" not in mark)))
    return re.compile("|".join(filter(None, [mark_pattern, loose_pattern])) or "(?!)"), re.compile(breakable or "(?!)")


def escape(row: Row, text: str) -> str:
    """Add a backslash to every mark of the format in `text`, also to a mark that is part of another mark."""
    all_marks, breakable = _escape_patterns(row)
    text = all_marks.sub(_with_backslash, text)
    while (escaped := breakable.sub(_with_backslash, text)) != text:
        text = escaped
    return text


def _with_backslash(match: re.Match[str]) -> str:
    return f"{match[0][0]}\\{match[0][1:]}"


def _schema_of(value: Any) -> dict[str, Any]:
    match value:
        case dict():
            return {"type": "object", "properties": {key: _schema_of(each) for key, each in value.items()}}
        case list():
            return {"type": "array", "items": _schema_of(value[0]) if value else {}}
        case bool():
            return {"type": "boolean"}
        case int() | float():
            return {"type": "number"}
        case None:
            return {"type": "null"}
    return {"type": "string"}


def _arguments_of(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call. The free text of a custom tool is the argument `input`."""
    return {"input": call.raw or ""} if call.custom else call.arguments


class FormatWriter:
    """Encodes in one format. `ledger` collects the losses.

    With `escapes_system`, marks in a system prompt are escaped too. `has_thoughts` is True if the format has marks for
    thoughts.
    """

    escapes_system = True

    def __init__(self, marks: FormatMarks, tools: Iterable[Tool] = (), ledger: Any = None) -> None:
        self.marks: FormatMarks = marks
        self.row: Row = marks.row
        self.tools: dict[str, Tool] = {tool.name: tool for tool in tools}
        self.ledger: Any = _LossCollector() if ledger is None else ledger
        self.has_thoughts: bool = self.row.thinking is not None or self.row.shape == "channels"

    def write_text(self, text: str) -> str:
        """Return ordinary text, with the marks of the format escaped."""
        escaped = escape(self.row, text)
        if escaped != text:
            self.ledger.lose("", "quoted_mark", _QUOTED, "approximated", "minor")
        return escaped

    def write_thought(self, text: str) -> str:
        """Return a thought between its marks."""
        if self.row.shape == "channels":
            return channels.write_message(Thinking, self.write_text(text))
        if self.row.thinking is None:
            self.ledger.lose("", "thinking", f"{self.row.name} has no marks for a thought")
            return ""
        return f"{self.row.thinking[0]}{self.write_text(text)}{self.row.thinking[1]}"

    def write_calls(self, calls: Sequence[ToolCall]) -> str:
        """Return the text of consecutive calls. Calls that cannot run are written first, as ordinary text."""
        for call in calls:
            if not call.runs and not call.custom:
                self.ledger.lose("", "broken_call", "a call that cannot run is written as text", "approximated")
        broken_text = "".join(self.write_text(call.raw or "") for call in calls if not (call.runs or call.custom))
        runnable = [call for call in calls if call.runs or call.custom]
        return broken_text + self._write_checked(runnable) if runnable else broken_text

    def _write_checked(self, calls: list[ToolCall]) -> str:
        """Return calls as text, and report as losses what does not decode to the same values."""
        arguments = [_arguments_of(call) for call in calls]
        text = self._block_of(calls, arguments)
        decoded = self._decode(text, calls)
        if not _is_same(decoded, calls, arguments):
            escaped = [self._escaped(each) for each in arguments]
            text = self._block_of(calls, escaped)
            detail = "the format cannot express this value, so another value is decoded"
            decoded = self._decode(text, calls)
            if _is_same(decoded, calls, escaped):
                detail = _QUOTED
            self.ledger.lose("arguments", "arguments", detail, "approximated")
        for call, result in zip(calls, decoded, strict=False):
            if call.id is not None and result.id != call.id:
                self.ledger.lose("id", "call_id", f"{self.row.name} cannot express this id", severity="minor")
        return text

    def _escaped(self, value: Any) -> Any:
        match value:
            case str():
                return escape(self.row, value)
            case dict():
                return {key: self._escaped(each) for key, each in value.items()}
            case list():
                return [self._escaped(each) for each in value]
        return value

    def _decode(self, text: str, calls: Sequence[ToolCall]) -> list[ToolCall]:
        offer = {call.name: self.tools.get(call.name) or _tool_of(call) for call in calls}
        reader = TextReader(self.marks, CallBuilder(offer), offer)
        items = [item for item in (*reader.feed(text), *reader.close()) if item is not None]
        decoded = [item for item in items if isinstance(item, ToolCall)]
        return decoded if len(decoded) == len(items) else []

    def _block_of(self, calls: Sequence[ToolCall], arguments: Sequence[dict[str, Any]]) -> str:
        row = self.row
        texts: list[str] = self.marks.engine.write(row, list(zip(calls, arguments, strict=True)))
        if row.wrap is not None:
            texts = [f"{row.wrap[0]}{text}{row.wrap[1]}" for text in texts]
        block = row.between.join(texts)
        for begin, end in reversed(row.sections):
            block = f"{begin}{block}{end}"
        return block

    def write_result(self, result: ToolResult) -> str:
        """Return a tool result."""
        lose = self.ledger.lose
        content, template = self.result_text(result), self.row.result
        values = {"content": content, "id": result.tool_call_id or "", "name": result.name or ""}
        if "{id}" not in template and result.tool_call_id is not None:
            detail = "results have no ids, and are in the order of their calls"
            lose("tool_call_id", "call_id", detail, severity="minor")
        if "{name}" not in template and result.name is not None:
            detail = "results have no names, and are in the order of their calls"
            lose("name", "tool_result", detail, severity="minor")
        if result.is_error:
            lose("is_error", "tool_result", "a result in text has no mark for an error")
        return _PLACEHOLDERS.sub(lambda placeholder: self.write_text(values[placeholder[1]]), template)

    def result_text(self, result: ToolResult) -> str:
        """Return the text of a result. Other parts are losses."""
        if isinstance(result.content, str):
            return result.content
        for index, part in enumerate(result.content):
            if not isinstance(part, Text):
                self.ledger.lose(f"content[{index}]", "result_content", "a result in text has no media")
        return "\n".join(part.text for part in result.content if isinstance(part, Text))

    def writable_tools(self, tools: Sequence[Any]) -> list[Tool]:
        """Return the tools that a prompt can describe. Server tools are losses."""
        for index, tool in enumerate(tools):
            if not isinstance(tool, Tool):
                self.ledger.lose(f"tools[{index}]", "server_tool", "only its provider can run this tool")
        return [tool for tool in tools if isinstance(tool, Tool)]

    def write_tools(self, tools: Sequence[Any], *, compact: bool = False, parallel: bool = True) -> str:
        """Return the description of `tools` and of how to call them.

        `compact` has no effect here; only the format `tagged` has a compact description.
        """
        del compact
        listed = self.writable_tools(tools)
        if not listed:
            return ""
        lines = "\n".join(self.write_text(dump_json(tool.to_openai_format())) for tool in listed)
        example = ToolCall(None, "TOOL", {"PARAMETER": "VALUE"})
        block = self._block_of([example], [example.arguments])
        begin, end = self.row.tools
        one_call = "" if parallel else f"{_ONE_CALL}\n"
        return f"{_TOOLS_INTRO}\n{begin}{lines}{end}\n\n{one_call}{_CALL_INTRO}\n{block}"

    def write_context(self, context: Context, *, ask: bool) -> str:
        """Return a conversation. With `ask`, it ends where the model's answer begins."""
        turns = turn_marks(self.row.turns)
        if not turns:
            self.ledger.lose("", "turns", f"{self.row.name} has no marks for turns", "approximated", "minor")
        texts = []
        system = _system_text(context.system)
        tool_text = self.write_tools(context.tools)
        if system or tool_text:
            texts.append(_turn(turns, "system", "\n\n".join(filter(None, [self.write_text(system), tool_text]))))
        for index, message in enumerate(context.messages):
            self.ledger.path = f"messages[{index}]"
            role = {"developer": "system"}.get(message.role, message.role)
            texts.append(_turn(turns, role, self.write_message(message)))
        self.ledger.path = ""
        return "".join(texts) + (turns.get("assistant", ("", ""))[0] if ask else "")

    def write_message(self, message: Message) -> str:
        """Return the parts of a message, without the marks around its turn."""
        parts: Sequence[Any] = [Text(message.content)] if isinstance(message.content, str) else message.parts
        if message.role == "tool" and isinstance(message.content, str):
            parts = [ToolResult(message.tool_call_id, message.name, message.content)]
        return self._join(parts, assistant=message.role == "assistant")

    def write_quotation(self, text: str) -> str:
        """Return text that the model did not write."""
        return self.write_text(text)

    def write_parts(self, parts: Sequence[Part], *, verbatim: bool = False) -> str:
        """Return text, thoughts and calls of an answer. With `verbatim`, the text is not escaped."""
        return self._join(parts, assistant=True, verbatim=verbatim)

    def _join(self, parts: Sequence[Part], *, assistant: bool, verbatim: bool = False) -> str:
        pieces: list[str] = []
        calls: list[ToolCall] = []
        for index, part in enumerate([*parts, None]):
            if isinstance(part, ToolCall):
                calls.append(part)
                continue
            if calls:
                pieces.append((self.row.before if pieces else "") + self.write_calls(calls))
                calls = []
            if part is not None:
                pieces.append(self._part(part, index, assistant=assistant, verbatim=verbatim))
        glue = self.row.between if self.row.shape == "channels" else ""
        return glue.join(filter(None, pieces))

    def _write_answer(self, text: str) -> str:
        """Return the text of an answer, in a message of its own if the shape has messages."""
        if self.row.shape == "channels":
            return channels.write_message(Text, text)
        return recipients.write_text(text) if self.row.shape == "recipients" and text else text

    def _part(self, part: Part, index: int, *, assistant: bool, verbatim: bool) -> str:
        match part:
            case Text(text=text) | Document(text=str(text)):
                written = text if verbatim else self.write_text(text)
                return self._write_answer(written) if assistant else written
            case Thinking(text=text):
                return self.write_thought(text) if text else ""
            case ToolResult():
                return self.write_result(part)
        self.ledger.lose(
            f"content[{index}]", "content", f"text cannot express a part of type {type(part).__name__.lower()}"
        )
        return ""


def _system_text(system: Any) -> str:
    return system if isinstance(system, str) else "".join(part.text for part in system or () if isinstance(part, Text))


def _turn(turns: dict[str, tuple[str, str]], role: str, text: str) -> str:
    begin, end = turns.get(role, ("", "\n"))
    return f"{begin}{text}{end}"


def _tool_of(call: ToolCall) -> Tool:
    return Tool(call.name, parameters=_schema_of(_arguments_of(call)))


def _is_same(decoded: Sequence[ToolCall], calls: Sequence[ToolCall], arguments: Sequence[dict[str, Any]]) -> bool:
    actual = [(call.name, dump_json(call.arguments), call.runs) for call in decoded]
    return actual == [(call.name, dump_json(expected), True) for call, expected in zip(calls, arguments, strict=True)]
