"""Encode requests for a model that writes calls in its text: tools, calls and results become text.

Rules of this file:
- Tools are described at the end of the system prompt. Calls are written in the text of the assistant message that made
  them. Results become user messages; consecutive results share one message.
- Text in a history stays text: nothing that is read from a request becomes a call.
- Text that was read from the same wire is written unchanged. All other text is escaped by `FormatWriter`.
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
_MEDIA_NAMES = {Image: "image", Document: "document", Audio: "audio"}
_MESSAGE_PATH = re.compile(r"messages\[(\d+)\](?:\.content\[(\d+)\])?")


def mark_as_text(request: Request, dialect: str) -> Request:
    """Return `request`, marked as read by a text format of this wire."""
    opaque = request.opaque or Opaque(dialect, {})
    spelling = replace(shared_spelling_of(opaque, opaque.dialect, RequestSpelling), is_text=True)
    return replace(request, opaque=replace(opaque, spelling=spelling))


class RequestWriter:
    """Writes the tools, calls and results of one request as text.

    - `is_same_wire`: the request was read by a text format of this wire.
    - `source_indexes`: for each written message, the index of the message that it came from.
    """

    def __init__(self, request: Request, ledger: Ledger, message_writer: MessageWriter, *, compact: bool) -> None:
        self.ledger = ledger
        self.message_writer = message_writer
        self.writer: FormatWriter = message_writer.writer
        self.compact = compact
        self.is_same_wire: bool = shared_spelling_of(request.opaque, ledger.dialect, RequestSpelling).is_text
        self.source_indexes: list[int] = []
        self._hidden_ids: set[str | None] = set()
        self._media_paths: dict[tuple[int, int], str] = {}
        self._repaired: list[Loss] = []
        self._request = request

    def write(self) -> Request:
        """Return the request with its tools, calls and results as text."""
        request, context = self._request, self._request.context
        history = context.messages if self.is_same_wire else repair(context.messages, self._repaired)
        messages = self._write_messages(history)
        described: list[tuple[int, Any]] = []
        native: list[tuple[int, Any]] = []
        for index, tool in enumerate(context.tools):
            (native if self._is_native_tool(tool) else described).append((index, tool))
        offered, demand = self._choose_tools(described)
        system = self._escape_system(context.system)
        if offered:
            parallel = request.parallel_tool_calls is not False
            text = self.writer.write_tools(offered, compact=self.compact, parallel=parallel)
            system, messages = append_to_system(system, messages, text)
        if demand:
            messages = _append_demand(messages, demand)
        context = replace(context, system=system, messages=messages, tools=[tool for _, tool in native])
        settings: dict[str, Any] = {"tool_choice": None, "parallel_tool_calls": None} if described else {}
        return replace(request, context=context, **settings)

    def _escape_system(self, system: Any) -> Any:
        if self.is_same_wire or not system or not self.writer.escapes_system:
            return system
        self.ledger.path = ("system",)
        if isinstance(system, str):
            return self.writer.write_quotation(system)
        return [
            replace(part, text=self.writer.write_quotation(part.text)) if type(part) is Text else part
            for part in system
        ]

    def losses(self, inner: Sequence[Loss]) -> tuple[Loss, ...]:
        """Return all losses, with the paths of the original request. `inner` are those of the wire's encoder."""
        return (*self._repaired, *self.ledger.losses, *map(self._relocate, inner))

    def _relocate(self, loss: Loss) -> Loss:
        match = _MESSAGE_PATH.match(loss.path)
        if match is None or int(match[1]) >= len(self.source_indexes):
            return loss
        media_path = self._media_paths.get((int(match[1]), int(match[2]))) if match[2] else None
        part = loss.path[match.end(1) + 1 : match.end()]
        path = media_path or f"messages[{self.source_indexes[int(match[1])]}]{part}"
        return replace(loss, path=f"{path}{loss.path[match.end() :]}")

    def _is_native_tool(self, tool: Tool | ServerTool) -> bool:
        """Return True if the wire itself declares the tool: a server tool, or a tool that was read from this wire."""
        return isinstance(tool, ServerTool) or (self.is_same_wire and made_by(tool.opaque, self.ledger.dialect))

    def _choose_tools(self, declared: list[tuple[int, Any]]) -> tuple[list[Tool], str]:
        """Return the tools to describe, and the sentence that asks for a call, if the request requires one."""
        request, ledger = self._request, self.ledger
        ledger.path, ledger.part_index = (), None
        choice = request.tool_choice
        if not declared:
            return [], ""
        if choice is not None and choice.mode == "none":
            ledger.lose("tool_choice", "tool_choice", "the prompt describes no tool", "approximated", "minor")
            return [], ""
        ledger.lose("tools", "tools", "the tools are described in the system prompt", "moved")
        if request.parallel_tool_calls is not None:
            ledger.lose(
                "parallel_tool_calls",
                "parallel_tool_calls",
                "the server cannot limit the number of calls: the prompt asks for it",
                "approximated",
            )
        names = None if choice is None else choice.names
        offered = [(index, tool) for index, tool in declared if names is None or tool.name in names]
        if not offered:
            detail = "no tool with these names is declared, so all tools are described"
            ledger.lose("tool_choice.names", "tool_choice", detail, severity="semantic")
            offered = declared
        for index, tool in offered:
            self._lose_tool_fields(index, tool)
        if choice is None or choice.mode == "auto":
            if names is not None:
                ledger.lose(
                    "tool_choice.names", "tool_choice", "the prompt describes no other tool", "approximated", "minor"
                )
            return [tool for _, tool in offered], ""
        ledger.lose("tool_choice", "tool_choice", "a call cannot be forced; a user message asks for it", "approximated")
        demand = REQUIRED if names is None else _NAMED.format(names=", ".join(tool.name for _, tool in offered))
        return [tool for _, tool in offered], demand

    def _lose_tool_fields(self, index: int, tool: Tool) -> None:
        """Report the fields of a tool that a prompt does not express."""
        ledger = self.ledger
        ledger.path = ("tools", index)
        if tool.custom:
            reason = "a prompt has only objects: the free text is sent as the argument `input`"
            ledger.lose("custom", "custom_tool", reason, "approximated")
            ledger.lose_fields(tool, "custom_tool", "parameters")
        ledger.lose_fields(tool, "custom_tool", "format")
        lose_strict(tool, ledger)
        lose_metadata(tool, ledger)
        if tool.cache is not None:
            ledger.lose("cache", "cache", "tools in a prompt have no cache marks of their own")
        ledger.lose_opaque(tool.opaque)
        ledger.path = ()

    def _write_messages(self, messages: Sequence[Message]) -> list[Message]:
        written: list[Message] = []
        results: list[Part] = []
        for index, message in enumerate(messages):
            self.ledger.path, self.ledger.part_index = ("messages", index), None
            if message.role == "tool" and not self._answers_native(message):
                if not results:
                    self.source_indexes.append(index)
                    written.append(message)
                self._write_results(message, results)
                written[-1] = Message("user", results)
                continue
            results = []
            self.source_indexes.append(index)
            written.append(self._write_message(message))
        return [_plain(message) for message in written]

    def _answers_native(self, message: Message) -> bool:
        return self.is_same_wire and made_by(message.opaque, self.ledger.dialect)

    def _write_message(self, message: Message) -> Message:
        is_own = made_by(message.opaque, self.ledger.dialect)
        if message.role == "assistant":
            self._hidden_ids |= {part.id for part in message.parts if type(part) is ToolCall and hides_id(part)}
            return self.message_writer.write(message, verbatim=is_own, keeps_native=self.is_same_wire)
        if self.is_same_wire and (is_own or message.role in _FOR_SYSTEM):
            return message
        if message.role in _FOR_SYSTEM and not self.writer.escapes_system:
            return message
        if type(message.content) is str:
            text = self.writer.write_quotation(message.content)
            return message if text == message.content else replace(message, content=text)
        parts = [part for index, part in enumerate(message.parts) for part in self._write_part(index, part)]
        return replace(message, content=parts)

    def _write_part(self, index: int, part: Part) -> list[Part]:
        """Return a part of a user message as text. Only requests of this wire have results among them."""
        self.ledger.part_index = index
        match part:
            case Text():
                text = self.writer.write_quotation(part.text)
                return [part if text == part.text else replace(part, text=text)]
            case Document(text=str(document_text)):
                return [replace(part, text=self.writer.write_quotation(document_text))]
            case ToolResult():
                written: list[Part] = []
                self._write_result(part, written)
                return written
        return [part]

    def _write_results(self, message: Message, written: list[Part]) -> None:
        for index, part in enumerate(message.parts):
            self.ledger.part_index = index
            if type(part) is ToolResult:
                self._write_result(part, written)
            else:
                written += self._write_part(index, part)
        self.ledger.part_index = None
        self.ledger.lose_opaque(message.opaque)
        for field in ("tool_call_id", "name"):
            values = {getattr(part, field, None) for part in message.parts}
            if getattr(message, field) not in (None, *values):
                self.ledger.lose(field, "tool_result", "the result in the message has another value")

    def _write_result(self, result: ToolResult, written: list[Part]) -> None:
        """Write a result: its text in a block, and its media after the block."""
        content, media = self._content_of(result)
        call_id = None if result.tool_call_id in self._hidden_ids else result.tool_call_id
        self.ledger.lose_opaque(result.opaque)
        text = self.writer.write_result(replace(result, tool_call_id=call_id, content=content))
        previous = written[-1] if written else None
        if isinstance(previous, Text) and previous.cache is None:
            separator = "" if previous.text.endswith("\n") else "\n"
            written[-1] = replace(previous, text=f"{previous.text}{separator}{text}", cache=result.cache)
        else:
            written.append(Text(text, cache=result.cache))
        path = join_path((*self.ledger.path, "content", self.ledger.part_index or 0))
        for index, part in media:
            self._media_paths[len(self.source_indexes) - 1, len(written)] = f"{path}.content[{index}]"
            written.append(part)

    def _content_of(self, result: ToolResult) -> tuple[str, list[tuple[int, Part]]]:
        """Return the text of a result, and its media with their indexes."""
        if isinstance(result.content, str):
            return result.content, []
        texts: list[str] = []
        media: list[tuple[int, Part]] = []
        for index, part in enumerate(result.content):
            media_name = _MEDIA_NAMES.get(type(part))
            if isinstance(part, Text):
                texts.append(part.text)
                self.ledger.lose_fields(part, "text", "citations")
                self.ledger.lose_fields(part, "cache_mark", "cache")
                self.ledger.lose_opaque(part.opaque)
            elif media_name is not None:
                media.append((index, part))
                texts.append(SEE_BELOW.format(kind=media_name, number=len(media)))
            else:
                self.ledger.lose("content", "result_content", "a result in text can only have text and media")
        return "\n".join(texts), media


def _plain(message: Message) -> Message:
    """Return a message of one plain text with a string as its content, which every server accepts."""
    content: Any = message.content
    if message.opaque is not None or not isinstance(content, list) or len(content) != 1:
        return message
    part = content[0]
    is_plain = type(part) is Text and part.cache is None and part.opaque is None and not part.citations
    return replace(message, content=part.text) if is_plain else message


def append_to_system(system: Any, messages: list[Message], text: str) -> tuple[Any, list[Message]]:
    """Append `text` to the system prompt, wherever the conversation has it."""
    if not system and messages and messages[0].role in _FOR_SYSTEM:
        first = messages[0]
        return system, [replace(first, content=_append(first.content, text)), *messages[1:]]
    return _append(system, text), messages


def _append(content: Any, text: str) -> Any:
    if content is None or type(content) is str:
        return f"{content}\n\n{text}" if (content or "").strip() else text
    return [*content, Text(f"\n\n{text}" if content else text)]


def _append_demand(messages: list[Message], text: str) -> list[Message]:
    """Append `text` to the last user message, or as a new one."""
    if messages and messages[-1].role == "user":
        last_message = messages[-1]
        return [*messages[:-1], replace(last_message, content=_append(last_message.content, text))]
    return [*messages, Message("user", text)]
