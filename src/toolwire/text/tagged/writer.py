"""The writer of our own protocol: what every format's writer gives, in its blocks and lines."""

from collections.abc import Iterable, Sequence
from typing import Any

from toolwire.text.tagged.forms import PROTOCOL, Form
from toolwire.text.tagged.keeping import block_of
from toolwire.text.tagged.prompting import describe
from toolwire.text.tagged.writing import Escaper, escape_quotes, write_call, write_result
from toolwire.text.writing import FormatWriter
from toolwire.types import Part, Text, Tool, ToolCall, ToolResult

_QUOTATION = "a line that would begin a call is marked with a backslash"


class TaggedWriter(FormatWriter):
    """Writes in the protocol; of its forms, those that are read are marked in words."""

    quotes_system = False
    thinks = False

    def __init__(
        self, marked: Any, tools: Iterable[Tool] = (), losing: Any = None, forms: tuple[Form, ...] = PROTOCOL
    ) -> None:
        super().__init__(marked, tools, losing)
        self._forms = forms

    def words(self, text: str) -> str:
        """Write words of others: each line that looks like the beginning of a block is marked."""
        said = escape_quotes(text, self._forms)
        self._note(said != text)
        return said

    def telling(self, tools: Sequence[Tool], *, compact: bool = False, parallel: bool = True) -> str:
        """Say which tools there are, and how they are called."""
        told = self.declared(tools)
        return describe(told, compact=compact, parallel=parallel) if told else ""

    def result(self, result: ToolResult) -> str:
        """Write what came of a call."""
        said = {"id": result.tool_call_id, "name": result.name, "is_error": result.is_error or None}
        body = {key: value for key, value in said.items() if value is not None}
        return write_result({**body, "content": self.content_of(result)})

    def weave(self, parts: Sequence[Part], *, verbatim: bool = False) -> str:
        """Write words and calls of an answer: a call that was read as its block, and one of another model anew."""
        if len(parts) == 1 and isinstance(parts[0], Text) and verbatim:
            return parts[0].text
        said, escaper = "", Escaper(self._forms)
        for part in parts:
            if isinstance(part, Text):
                said += escaper.say(part.text)
            elif isinstance(part, ToolCall):
                block = block_of(part) or write_call(part)
                said += escaper.before_block() + (block if block.endswith("\n") else f"{block}\n")
                self._note(escaper.marked)
                escaper = Escaper(self._forms)
        said += escaper.end()
        self._note(escaper.marked)
        last = next((part for part in reversed(parts) if isinstance(part, ToolCall) or part.text), None)  # type: ignore[union-attr]
        unended = isinstance(last, ToolCall) and not (block_of(last) or "\n").endswith("\n")
        return said.removesuffix("\n") if unended else said

    def _note(self, marked: bool) -> None:
        if marked:
            self.losing.lose("", "quoted_fence", _QUOTATION, "approximated")
