"""The writer of our own protocol: what every format's writer gives, in its blocks and lines."""

from collections.abc import Iterable, Sequence
from typing import Any

from toolwire.text.tagged.call_blocks import block_of
from toolwire.text.tagged.escaping import Escaper, escape_quotes, write_call, write_result
from toolwire.text.tagged.forms import PROTOCOL, Form
from toolwire.text.tagged.prompting import describe
from toolwire.text.writing import FormatWriter
from toolwire.types import Part, Text, Tool, ToolCall, ToolResult

_QUOTATION = "a line that would begin a call is marked with a backslash"


class TaggedWriter(FormatWriter):
    """Writes in the protocol; of its forms, those that are read are marked in words."""

    escapes_system = False
    has_thoughts = False

    def __init__(
        self, marks: Any, tools: Iterable[Tool] = (), ledger: Any = None, forms: tuple[Form, ...] = PROTOCOL
    ) -> None:
        super().__init__(marks, tools, ledger)
        self._forms = forms

    def write_text(self, text: str) -> str:
        """Write words of others: each line that looks like the beginning of a block is marked."""
        said = escape_quotes(text, self._forms)
        self._note(said != text)
        return said

    def write_tools(self, tools: Sequence[Tool], *, compact: bool = False, parallel: bool = True) -> str:
        """Say which tools there are, and how they are called."""
        told = self.writable_tools(tools)
        return describe(told, compact=compact, parallel=parallel) if told else ""

    def write_result(self, result: ToolResult) -> str:
        """Write what came of a call."""
        said = {"id": result.tool_call_id, "name": result.name, "is_error": result.is_error or None}
        body = {key: value for key, value in said.items() if value is not None}
        return write_result({**body, "content": self.result_text(result)})

    def write_parts(self, parts: Sequence[Part], *, verbatim: bool = False) -> str:
        """Write words and calls of an answer: a call that was read as its block, and one of another model anew."""
        if len(parts) == 1 and isinstance(parts[0], Text) and verbatim:
            return parts[0].text
        said, escaper = "", Escaper(self._forms)
        for part in parts:
            if isinstance(part, Text):
                said += escaper.feed_text(part.text)
            elif isinstance(part, ToolCall):
                block = block_of(part) or write_call(part)
                said += escaper.before_block() + (block if block.endswith("\n") else f"{block}\n")
                self._note(escaper.marks)
                escaper = Escaper(self._forms)
        said += escaper.finish()
        self._note(escaper.marks)
        last = next((part for part in reversed(parts) if isinstance(part, ToolCall) or part.text), None)  # type: ignore[union-attr]
        unended = isinstance(last, ToolCall) and not (block_of(last) or "\n").endswith("\n")
        return said.removesuffix("\n") if unended else said

    def _note(self, marks: bool) -> None:
        if marks:
            self.ledger.lose("", "quoted_fence", _QUOTATION, "approximated")
