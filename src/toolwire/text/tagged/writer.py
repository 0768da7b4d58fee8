"""The encoder of our own protocol: the interface of `FormatWriter`, with blocks and lines of the protocol."""

from collections.abc import Iterable, Sequence
from typing import Any

from toolwire.text.tagged.call_blocks import block_of
from toolwire.text.tagged.escaping import Escaper, escape_quotes, write_call, write_result
from toolwire.text.tagged.forms import PROTOCOL, Form
from toolwire.text.tagged.prompting import describe
from toolwire.text.writing import FormatWriter
from toolwire.types import Part, Text, Tool, ToolCall, ToolResult

_QUOTATION = "a backslash was added to a line that would begin a call"


class TaggedWriter(FormatWriter):
    """Encodes in the protocol. Lines that would begin one of `forms` are escaped in text."""

    escapes_system = False

    def __init__(
        self, marks: Any, tools: Iterable[Tool] = (), ledger: Any = None, forms: tuple[Form, ...] = PROTOCOL
    ) -> None:
        super().__init__(marks, tools, ledger)
        self._forms = forms

    def write_text(self, text: str) -> str:
        """Return text that others wrote, with every line escaped that looks like the beginning of a block."""
        escaped = escape_quotes(text, self._forms)
        self._note_escaping(escaped != text)
        return escaped

    def write_tools(self, tools: Sequence[Tool], *, compact: bool = False, parallel: bool = True) -> str:
        """Return the description of `tools` and of how to call them."""
        listed = self.writable_tools(tools)
        return describe(listed, compact=compact, parallel=parallel) if listed else ""

    def write_result(self, result: ToolResult) -> str:
        """Return a tool result."""
        fields = {"id": result.tool_call_id, "name": result.name, "is_error": result.is_error or None}
        body = {key: value for key, value in fields.items() if value is not None}
        return write_result({**body, "content": self.result_text(result)})

    def write_parts(self, parts: Sequence[Part], *, verbatim: bool = False) -> str:
        """Return text and calls of an answer. A call keeps the block that it was read from; other calls are encoded."""
        if len(parts) == 1 and isinstance(parts[0], Text) and verbatim:
            return parts[0].text
        text, escaper = "", Escaper(self._forms)
        for part in parts:
            if isinstance(part, Text):
                text += escaper.feed_text(part.text)
            elif isinstance(part, ToolCall):
                block = block_of(part) or write_call(part)
                text += escaper.before_block() + (block if block.endswith("\n") else f"{block}\n")
                self._note_escaping(escaper.has_escaped)
                escaper = Escaper(self._forms)
        text += escaper.finish()
        self._note_escaping(escaper.has_escaped)
        last = next((part for part in reversed(parts) if isinstance(part, ToolCall) or part.text), None)  # type: ignore[union-attr]
        is_unended = isinstance(last, ToolCall) and not (block_of(last) or "\n").endswith("\n")
        return text.removesuffix("\n") if is_unended else text

    def _note_escaping(self, escaped: bool) -> None:
        if escaped:
            self.ledger.lose("", "quoted_fence", _QUOTATION, "approximated")
