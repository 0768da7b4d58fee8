"""What a format says, written: tools, calls, results, thoughts, and a whole conversation.

Rules of this file:
- What is written reads back as what it was. Each block is read once more before it is given; what a format cannot say
  is a loss, never another call.
- In words that are no call, each mark of the format gets a backslash after its first character: it begins nothing.
- What stands around the turns comes from the model's template; the sentences that tell of tools are ours.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from toolwire.text.calls import CallBuilder
from toolwire.text.reader import FormatMarks, TextReader
from toolwire.text.rows import Row, bare_mark, turn_marks
from toolwire.text.shapes import channels
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

_QUOTED = "a mark of the format is marked with a backslash"
_LOOSE = {
    "json": r'\{(?=\s*"(?:name|parameters|arguments|function|type|id)"\s*:)',
    "pythonic": r"\[(?=\s*[^\W\d][\w.\-/]*\s*\()",
}
_PLACES = re.compile(r"\{(content|id|name)\}")
_TELLING = "You can call these tools. Each line is one of them, as JSON."
_ONE_CALL = "Call at most one of them in each answer."
_CALLING = "To call one, write this, with its name and its arguments, and nothing after it:"


class Written(Struct, frozen=True):
    """A text, and what it does not say."""

    text: str
    losses: tuple[Loss, ...] = ()


class _LossCollector:
    """Collects what a text does not say, with the place where it stood."""

    def __init__(self) -> None:
        self.losses: list[Loss] = []
        self.path = ""

    def lose(
        self, path: str, concept: str, detail: str, action: Action = "dropped", severity: Severity = "semantic"
    ) -> None:
        """Note a loss at the present place."""
        where = ".".join(filter(None, [self.path, path])).replace(".[", "[")
        self.losses.append(Loss(where, concept, action, detail, severity))


@lru_cache(64)
def _escaping(row: Row) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of the marks of a format and of the turns around it, and of those that a backslash breaks."""
    pairs = (*row.pairs, row.thinking or ())
    turns = [mark for pair in turn_marks(row.turns).values() for mark in pair]
    channel = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>"] if row.shape == "channels" else []
    given = [mark for pair in pairs for mark in pair]
    given += [*row.call, *row.argument, row.value, row.call_id, *row.noise, *row.quotes, *turns, *channel]
    given += [row.header] if row.shape == "elements" else []
    marks = {
        bare_mark(mark) for mark in given if len(bare_mark(mark)) > 2 and "{" not in mark and not mark.startswith("```")
    }
    found = "|".join(map(re.escape, sorted(marks, key=len, reverse=True)))
    loose = _LOOSE.get(row.shape) if row.loose and not row.call else None
    plain = "|".join(map(re.escape, (mark for mark in marks if "\\" not in mark)))
    return re.compile("|".join(filter(None, [found, loose])) or "(?!)"), re.compile(plain or "(?!)")


def escape(row: Row, text: str) -> str:
    """Let no mark of the format stand in words, nor one that is a part of another mark."""
    pattern, marks = _escaping(row)
    text = pattern.sub(_broken, text)
    while (broken := marks.sub(_broken, text)) != text:
        text = broken
    return text


def _broken(found: re.Match[str]) -> str:
    return f"{found[0][0]}\\{found[0][1:]}"


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
    """Give the arguments of a call; free text stands in the argument `input`."""
    return {"input": call.raw or ""} if call.custom else call.arguments


class FormatWriter:
    """Writes in one format. `ledger` collects the losses.

    With `escapes_system`, marks in a system prompt are escaped too; `has_thoughts` says that it has marks for a thought.
    """

    escapes_system = True

    def __init__(self, marks: FormatMarks, tools: Iterable[Tool] = (), ledger: Any = None) -> None:
        self.marks: FormatMarks = marks
        self.row: Row = marks.row
        self.tools: dict[str, Tool] = {tool.name: tool for tool in tools}
        self.ledger: Any = _LossCollector() if ledger is None else ledger
        self.has_thoughts: bool = self.row.thinking is not None or self.row.shape == "channels"

    def write_text(self, text: str) -> str:
        """Write words that are no call."""
        said = escape(self.row, text)
        if said != text:
            self.ledger.lose("", "quoted_mark", _QUOTED, "approximated", "minor")
        return said

    def write_thought(self, text: str) -> str:
        """Write a thought."""
        if self.row.shape == "channels":
            return channels.write_words(Thinking, self.write_text(text))
        if self.row.thinking is None:
            self.ledger.lose("", "thinking", f"{self.row.name} has no marks for a thought")
            return ""
        return f"{self.row.thinking[0]}{self.write_text(text)}{self.row.thinking[1]}"

    def write_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write calls that follow each other; those that cannot be run are told in words."""
        for call in calls:
            if not call.runs and not call.custom:
                self.ledger.lose("", "broken_call", "a call that cannot be run is told in words", "approximated")
        broken = "".join(self.write_text(call.raw or "") for call in calls if not (call.runs or call.custom))
        whole = [call for call in calls if call.runs or call.custom]
        return broken + self._checked(whole) if whole else broken

    def _checked(self, calls: list[ToolCall]) -> str:
        """Write calls, and say what of them does not read back."""
        arguments = [_arguments_of(call) for call in calls]
        text = self._block(calls, arguments)
        read = self._read(text, calls)
        if not _same(read, calls, arguments):
            escaped = [self._escaped(each) for each in arguments]
            text, said = self._block(calls, escaped), "another value is read than the format can say"
            read = self._read(text, calls)
            if _same(read, calls, escaped):
                said = _QUOTED
            self.ledger.lose("arguments", "arguments", said, "approximated")
        for call, back in zip(calls, read, strict=False):
            if call.id is not None and back.id != call.id:
                self.ledger.lose("id", "call_id", f"{self.row.name} says no id of this kind", severity="minor")
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

    def _read(self, text: str, calls: Sequence[ToolCall]) -> list[ToolCall]:
        offer = {call.name: self.tools.get(call.name) or _tool_of(call) for call in calls}
        listener = TextReader(self.marks, CallBuilder(offer), offer)
        found = [item for item in (*listener.feed(text), *listener.close()) if item is not None]
        read = [item for item in found if isinstance(item, ToolCall)]
        return read if len(read) == len(found) else []

    def _block(self, calls: Sequence[ToolCall], arguments: Sequence[dict[str, Any]]) -> str:
        row = self.row
        texts: list[str] = self.marks.engine.write(row, list(zip(calls, arguments, strict=True)))
        if row.wrap is not None:
            texts = [f"{row.wrap[0]}{text}{row.wrap[1]}" for text in texts]
        block = row.between.join(texts)
        for begin, end in reversed(row.sections):
            block = f"{begin}{block}{end}"
        return block

    def write_result(self, result: ToolResult) -> str:
        """Write what came of a call."""
        lose = self.ledger.lose
        content, template = self.result_text(result), self.row.result
        values = {"content": content, "id": result.tool_call_id or "", "name": result.name or ""}
        if "{id}" not in template and result.tool_call_id is not None:
            lose("tool_call_id", "call_id", "results are told in the order of their calls", severity="minor")
        if "{name}" not in template and result.name is not None:
            lose("name", "tool_result", "results are told in the order of their calls", severity="minor")
        if result.is_error:
            lose("is_error", "tool_result", "a result in words is not marked as an error")
        return _PLACES.sub(lambda place: self.write_text(values[place[1]]), template)

    def result_text(self, result: ToolResult) -> str:
        """Give the words of a result."""
        if isinstance(result.content, str):
            return result.content
        for place, part in enumerate(result.content):
            if not isinstance(part, Text):
                self.ledger.lose(f"content[{place}]", "result_content", "a result in words has no media")
        return "\n".join(part.text for part in result.content if isinstance(part, Text))

    def writable_tools(self, tools: Sequence[Any]) -> list[Tool]:
        """Give the tools that can be told of."""
        for place, tool in enumerate(tools):
            if not isinstance(tool, Tool):
                self.ledger.lose(f"tools[{place}]", "server_tool", "only its provider can run it")
        return [tool for tool in tools if isinstance(tool, Tool)]

    def write_tools(self, tools: Sequence[Any], *, compact: bool = False, parallel: bool = True) -> str:
        """Say which tools there are, and how they are called; a format has no `compact` way."""
        del compact
        told = self.writable_tools(tools)
        if not told:
            return ""
        lines = "\n".join(self.write_text(dump_json(tool.to_openai_format())) for tool in told)
        example = ToolCall(None, "TOOL", {"PARAMETER": "VALUE"})
        block = self._block([example], [example.arguments])
        begin, end = self.row.tools
        one = "" if parallel else f"{_ONE_CALL}\n"
        return f"{_TELLING}\n{begin}{lines}{end}\n\n{one}{_CALLING}\n{block}"

    def write_context(self, context: Context, *, ask: bool) -> str:
        """Write a conversation."""
        turns = turn_marks(self.row.turns)
        if not turns:
            self.ledger.lose("", "turns", f"{self.row.name} names no marks of turns", "approximated", "minor")
        texts = []
        system = _words_of(context.system)
        told = self.write_tools(context.tools)
        if system or told:
            texts.append(_turn(turns, "system", "\n\n".join(filter(None, [self.write_text(system), told]))))
        for place, message in enumerate(context.messages):
            self.ledger.path = f"messages[{place}]"
            role = {"developer": "system"}.get(message.role, message.role)
            texts.append(_turn(turns, role, self.write_message(message)))
        self.ledger.path = ""
        return "".join(texts) + (turns.get("assistant", ("", ""))[0] if ask else "")

    def write_message(self, message: Message) -> str:
        """Write the parts of a message, without what stands around its turn."""
        parts: Sequence[Any] = [Text(message.content)] if isinstance(message.content, str) else message.parts
        if message.role == "tool" and isinstance(message.content, str):
            parts = [ToolResult(message.tool_call_id, message.name, message.content)]
        return self._join(parts, assistant=message.role == "assistant")

    def write_quotation(self, text: str) -> str:
        """Write words of others."""
        return self.write_text(text)

    def write_parts(self, parts: Sequence[Part], *, verbatim: bool = False) -> str:
        """Write words, thoughts and calls of an answer; words that are `verbatim` are not looked at."""
        return self._join(parts, assistant=True, verbatim=verbatim)

    def _join(self, parts: Sequence[Part], *, assistant: bool, verbatim: bool = False) -> str:
        pieces: list[str] = []
        calls: list[ToolCall] = []
        for place, part in enumerate([*parts, None]):
            if isinstance(part, ToolCall):
                calls.append(part)
                continue
            if calls:
                pieces.append((self.row.before if pieces else "") + self.write_calls(calls))
                calls = []
            if part is not None:
                pieces.append(self._part(part, place, assistant=assistant, verbatim=verbatim))
        glue = self.row.between if self.row.shape == "channels" else ""
        return glue.join(filter(None, pieces))

    def _part(self, part: Part, place: int, *, assistant: bool, verbatim: bool) -> str:
        match part:
            case Text(text=text) | Document(text=str(text)):
                said = text if verbatim else self.write_text(text)
                return channels.write_words(Text, said) if assistant and self.row.shape == "channels" else said
            case Thinking(text=text):
                return self.write_thought(text) if text else ""
            case ToolResult():
                return self.write_result(part)
        self.ledger.lose(f"content[{place}]", "content", f"{type(part).__name__.lower()} is not said in words")
        return ""


def _words_of(system: Any) -> str:
    return system if isinstance(system, str) else "".join(part.text for part in system or () if isinstance(part, Text))


def _turn(turns: dict[str, tuple[str, str]], role: str, text: str) -> str:
    begin, end = turns.get(role, ("", "\n"))
    return f"{begin}{text}{end}"


def _tool_of(call: ToolCall) -> Tool:
    return Tool(call.name, parameters=_schema_of(_arguments_of(call)))


def _same(read: Sequence[ToolCall], calls: Sequence[ToolCall], arguments: Sequence[dict[str, Any]]) -> bool:
    told = [(call.name, dump_json(call.arguments), call.runs) for call in read]
    return told == [(call.name, dump_json(given), True) for call, given in zip(calls, arguments, strict=True)]
