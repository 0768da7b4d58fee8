"""Requests for a model that calls in its text: tools, calls and results become words.

Rules of this file:
- Tools stand at the end of the system prompt; calls in the text of the answers that made them; results in
  messages of the user, those that follow each other in one.
- Text in a history is text: nothing that is read from a request becomes a call.
- What was read from this very wire is written as it came; everything else is made harmless: see `writing`.
"""

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.calls import SEE_BELOW
from toolwire.encoding.ledger import Ledger, join_path, made_by, shared_spelling_of
from toolwire.encoding.repair import repair
from toolwire.encoding.tools import lose_metadata, lose_strict
from toolwire.text.overlay.text_parts import MessageWriter
from toolwire.text.tagged.call_blocks import hides_id
from toolwire.text.writing import FormatWriter
from toolwire.types import (
    Audio,
    Document,
    Image,
    Loss,
    Message,
    Opaque,
    Part,
    Request,
    ServerTool,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from toolwire.types.spelling import RequestSpelling

_FOR_SYSTEM = frozenset({"system", "developer"})
REQUIRED = "Call at least one tool in your next answer."
_NAMED = "Call at least one of these tools in your next answer: {names}."
_KINDS = {Image: "image", Document: "document", Audio: "audio"}
_PLACE = re.compile(r"messages\[(\d+)\](?:\.content\[(\d+)\])?")


def mark_as_text(request: Request, dialect: str) -> Request:
    """Return `request`, marked as read by a text format of this wire."""
    opaque = request.opaque or Opaque(dialect, {})
    spelling = replace(shared_spelling_of(opaque, opaque.dialect, RequestSpelling), is_text=True)
    return replace(request, opaque=replace(opaque, spelling=spelling))


class RequestWriter:
    """Makes words of one request's tools, calls and results. `source_indexes` say where each message came from."""

    def __init__(self, request: Request, ledger: Ledger, weaver: MessageWriter, *, compact: bool) -> None:
        self.ledger = ledger
        self.weaver = weaver
        self.writer: FormatWriter = weaver.writer
        self.compact = compact
        self.is_same_wire: bool = shared_spelling_of(request.opaque, ledger.dialect, RequestSpelling).is_text
        self.source_indexes: list[int] = []
        self._hidden_ids: set[str | None] = set()
        self._media_paths: dict[tuple[int, int], str] = {}
        self._repaired: list[Loss] = []
        self._request = request

    def write(self) -> Request:
        """Give the request in words."""
        request, context = self._request, self._request.context
        history = context.messages if self.is_same_wire else repair(context.messages, self._repaired)
        messages = self._write_messages(history)
        told: list[tuple[int, Any]] = []
        kept: list[tuple[int, Any]] = []
        for place, tool in enumerate(context.tools):
            (kept if self._is_native_tool(tool) else told).append((place, tool))
        offered, asked = self._choose_tools(told)
        system = self._system(context.system)
        if offered:
            parallel = request.parallel_tool_calls is not False
            words = self.writer.write_tools(offered, compact=self.compact, parallel=parallel)
            system, messages = append_to_system(system, messages, words)
        if asked:
            messages = _ask(messages, asked)
        context = replace(context, system=system, messages=messages, tools=[tool for _, tool in kept])
        settings: dict[str, Any] = {"tool_choice": None, "parallel_tool_calls": None} if told else {}
        return replace(request, context=context, **settings)

    def _system(self, system: Any) -> Any:
        if self.is_same_wire or not system or not self.writer.escapes_system:
            return system
        self.ledger.at = ("system",)
        if isinstance(system, str):
            return self.writer.write_quotation(system)
        return [
            replace(part, text=self.writer.write_quotation(part.text)) if type(part) is Text else part
            for part in system
        ]

    def losses(self, inner: Sequence[Loss]) -> tuple[Loss, ...]:
        """Give what could not be said, each at its place in the request as it was."""
        return (*self._repaired, *self.ledger.losses, *map(self._relocate, inner))

    def _relocate(self, loss: Loss) -> Loss:
        found = _PLACE.match(loss.path)
        if found is None or int(found[1]) >= len(self.source_indexes):
            return loss
        shown = self._media_paths.get((int(found[1]), int(found[2]))) if found[2] else None
        part = loss.path[found.end(1) + 1 : found.end()]
        place = shown or f"messages[{self.source_indexes[int(found[1])]}]{part}"
        return replace(loss, path=f"{place}{loss.path[found.end() :]}")

    def _is_native_tool(self, tool: Tool | ServerTool) -> bool:
        """Whether the wire itself says a tool: the provider's own, and one that was read from it."""
        return isinstance(tool, ServerTool) or (self.is_same_wire and made_by(tool.opaque, self.ledger.dialect))

    def _choose_tools(self, declared: list[tuple[int, Any]]) -> tuple[list[Tool], str]:
        """Say which tools are told of, and what the user asks for."""
        request, ledger = self._request, self.ledger
        ledger.at, ledger.part = (), None
        choice = request.tool_choice
        if not declared:
            return [], ""
        if choice is not None and choice.mode == "none":
            ledger.lose("tool_choice", "tool_choice", "no tool is told of", "approximated", "minor")
            return [], ""
        ledger.lose("tools", "tools", "they stand in the system prompt", "moved")
        if request.parallel_tool_calls is not None:
            ledger.lose("parallel_tool_calls", "parallel_tool_calls", "the prompt asks for it", "approximated")
        names = None if choice is None else choice.names
        offered = [(place, tool) for place, tool in declared if names is None or tool.name in names]
        if not offered:
            ledger.lose("tool_choice.names", "tool_choice", "no tool of these names is declared", severity="semantic")
            offered = declared
        for place, tool in offered:
            self._lose_tool_fields(place, tool)
        if choice is None or choice.mode == "auto":
            if names is not None:
                ledger.lose("tool_choice.names", "tool_choice", "no other tool is told of", "approximated", "minor")
            return [tool for _, tool in offered], ""
        ledger.lose("tool_choice", "tool_choice", "nothing forces a call; the user asks for it", "approximated")
        asked = REQUIRED if names is None else _NAMED.format(names=", ".join(tool.name for _, tool in offered))
        return [tool for _, tool in offered], asked

    def _lose_tool_fields(self, place: int, tool: Tool) -> None:
        """Name what a prompt does not say of a tool."""
        ledger = self.ledger
        ledger.at = ("tools", place)
        if tool.custom:
            reason = "free text stands in the argument `input`"
            ledger.lose("custom", "custom_tool", reason, "approximated")
            ledger.lose_fields(tool, "custom_tool", "parameters")
        ledger.lose_fields(tool, "custom_tool", "format")
        lose_strict(tool, ledger)
        lose_metadata(tool, ledger)
        if tool.cache is not None:
            ledger.lose("cache", "cache", "tools have no mark of their own in a prompt")
        ledger.lose_opaque(tool.opaque)
        ledger.at = ()

    def _write_messages(self, messages: Sequence[Message]) -> list[Message]:
        told: list[Message] = []
        results: list[Part] = []
        for place, message in enumerate(messages):
            self.ledger.at, self.ledger.part = ("messages", place), None
            if message.role == "tool" and not self._answers_native(message):
                if not results:
                    self.source_indexes.append(place)
                    told.append(message)
                self._write_results(message, results)
                told[-1] = Message("user", results)
                continue
            results = []
            self.source_indexes.append(place)
            told.append(self._write_message(message))
        return [_plain(message) for message in told]

    def _answers_native(self, message: Message) -> bool:
        return self.is_same_wire and made_by(message.opaque, self.ledger.dialect)

    def _write_message(self, message: Message) -> Message:
        own = made_by(message.opaque, self.ledger.dialect)
        if message.role == "assistant":
            self._hidden_ids |= {part.id for part in message.parts if type(part) is ToolCall and hides_id(part)}
            return self.weaver.weave(message, verbatim=own, keeps_native=self.is_same_wire)
        if self.is_same_wire and (own or message.role in _FOR_SYSTEM):
            return message
        if message.role in _FOR_SYSTEM and not self.writer.escapes_system:
            return message
        if type(message.content) is str:
            said = self.writer.write_quotation(message.content)
            return message if said == message.content else replace(message, content=said)
        parts = [part for place, part in enumerate(message.parts) for part in self._write_part(place, part)]
        return replace(message, content=parts)

    def _write_part(self, place: int, part: Part) -> list[Part]:
        """Tell a part of a user's message; only a request of this wire has results among them."""
        self.ledger.part = place
        match part:
            case Text():
                said = self.writer.write_quotation(part.text)
                return [part if said == part.text else replace(part, text=said)]
            case Document(text=str(text)):
                return [replace(part, text=self.writer.write_quotation(text))]
            case ToolResult():
                told: list[Part] = []
                self._write_result(part, told)
                return told
        return [part]

    def _write_results(self, message: Message, told: list[Part]) -> None:
        for place, part in enumerate(message.parts):
            self.ledger.part = place
            if type(part) is ToolResult:
                self._write_result(part, told)
            else:
                told += self._write_part(place, part)
        self.ledger.part = None
        self.ledger.lose_opaque(message.opaque)
        for field in ("tool_call_id", "name"):
            said = {getattr(part, field, None) for part in message.parts}
            if getattr(message, field) not in (None, *said):
                self.ledger.lose(field, "tool_result", "the result in the message says otherwise")

    def _write_result(self, result: ToolResult, told: list[Part]) -> None:
        """Tell a result: its words in a block, and what it shows after it."""
        words, shown = self._content_of(result)
        call_id = None if result.tool_call_id in self._hidden_ids else result.tool_call_id
        self.ledger.lose_opaque(result.opaque)
        text = self.writer.write_result(replace(result, tool_call_id=call_id, content=words))
        last = told[-1] if told else None
        if isinstance(last, Text) and last.cache is None:
            between = "" if last.text.endswith("\n") else "\n"
            told[-1] = replace(last, text=f"{last.text}{between}{text}", cache=result.cache)
        else:
            told.append(Text(text, cache=result.cache))
        at = join_path((*self.ledger.at, "content", self.ledger.part or 0))
        for place, part in shown:
            self._media_paths[len(self.source_indexes) - 1, len(told)] = f"{at}.content[{place}]"
            told.append(part)

    def _content_of(self, result: ToolResult) -> tuple[str, list[tuple[int, Part]]]:
        if isinstance(result.content, str):
            return result.content, []
        words: list[str] = []
        shown: list[tuple[int, Part]] = []
        for place, part in enumerate(result.content):
            kind = _KINDS.get(type(part))
            if isinstance(part, Text):
                words.append(part.text)
                self.ledger.lose_fields(part, "text", "citations")
                self.ledger.lose_fields(part, "cache_mark", "cache")
                self.ledger.lose_opaque(part.opaque)
            elif kind is not None:
                shown.append((place, part))
                words.append(SEE_BELOW.format(kind=kind, number=len(shown)))
            else:
                self.ledger.lose("content", "result_content", "a result in words has words and media")
        return "\n".join(words), shown


def _plain(message: Message) -> Message:
    """Give a message of one bare text as a string: every server reads that."""
    content: Any = message.content
    if message.opaque is not None or not isinstance(content, list) or len(content) != 1:
        return message
    part = content[0]
    bare = type(part) is Text and part.cache is None and part.opaque is None and not part.citations
    return replace(message, content=part.text) if bare else message


def append_to_system(system: Any, messages: list[Message], words: str) -> tuple[Any, list[Message]]:
    """Add words to the system prompt, wherever the conversation has it."""
    if not system and messages and messages[0].role in _FOR_SYSTEM:
        first = messages[0]
        return system, [replace(first, content=_added(first.content, words)), *messages[1:]]
    return _added(system, words), messages


def _added(content: Any, words: str) -> Any:
    if content is None or type(content) is str:
        return f"{content}\n\n{words}" if (content or "").strip() else words
    return [*content, Text(f"\n\n{words}" if content else words)]


def _ask(messages: list[Message], words: str) -> list[Message]:
    """Let the user ask for something, at the end."""
    if messages and messages[-1].role == "user":
        last = messages[-1]
        return [*messages[:-1], replace(last, content=_added(last.content, words))]
    return [*messages, Message("user", words)]
