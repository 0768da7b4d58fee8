"""A format as users hold it: by its name or from a table, and what it reads and writes."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from toolwire.streams.accumulation import accumulate
from toolwire.text.calls import CallBuilder, make_offer
from toolwire.text.reader import FormatMarks, TextReader, TextStream
from toolwire.text.rows import Row, resolve_row
from toolwire.text.tagged.writer import TaggedWriter
from toolwire.text.writing import FormatWriter, Written
from toolwire.types import Context, Request, Response, Tool, ToolCall, ToolResult


class Format:
    """How a model writes calls in its text, both ways. `row` is all that is known of it."""

    def __init__(self, row: Row) -> None:
        self.row: Row = row
        self.marks: FormatMarks = _marked(row) if row.template is None else FormatMarks(row)

    def __repr__(self) -> str:
        return f"<Format {self.name}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self.row.name

    def decode_stream(
        self, tools: Iterable[Any] | None = None, *, given: Iterable[str] = (), seed: str = "", thinking: bool = False
    ) -> TextStream:
        """Read a text in pieces: `feed(text)` and `close()` give events for `accumulate`.

        Only calls of `tools` are read; without them, those of any name. `given` are the texts that the model was
        given: a block that stands there is a quotation. `seed` keeps ids apart that are made for equal calls of
        different answers. With `thinking`, the text begins inside of a thought, as some templates have it.
        """
        offer = make_offer(tools)
        return TextStream(TextReader(self.marks, CallBuilder(offer, seed), offer, given, thinking=thinking))

    def decode(self, text: str, tools: Iterable[Any] | None = None, *, whole: bool = True, **settings: Any) -> Response:
        """Read a text at once; one that was cut off is not `whole`. The settings are those of `decode_stream`."""
        stream = self.decode_stream(tools, **settings)
        return accumulate([*stream.feed(text), *stream.close(whole=whole)])

    def encode_tools(self, tools: Iterable[Any]) -> Written:
        """Write what a system prompt says of tools."""
        writer, declared = self._writer(), Context(tools=list(tools)).tools
        return self._written(writer, writer.write_tools(declared))

    def encode_call(self, call: ToolCall | Mapping[str, Any], tools: Iterable[Any] = ()) -> Written:
        """Write one call."""
        return self.encode_calls([call], tools)

    def encode_calls(self, calls: Iterable[ToolCall | Mapping[str, Any]], tools: Iterable[Any] = ()) -> Written:
        """Write calls that were made together. With `tools`, what their schemas say of values is tried as well."""
        writer = self._writer(tools)
        made = [call if isinstance(call, ToolCall) else ToolCall.new(call) for call in calls]
        return self._written(writer, writer.write_calls(made))

    def encode_result(self, result: ToolResult | Mapping[str, Any]) -> Written:
        """Write what came of a call."""
        writer = self._writer()
        made = result if isinstance(result, ToolResult) else ToolResult.new(result)
        return self._written(writer, writer.write_result(made))

    def encode_context(
        self, context: Context | Request | Mapping[str, Any] | list[Any], *, ask: bool = False
    ) -> Written:
        """Write a conversation as the text that a model reads; `ask` for an answer at its end."""
        if isinstance(context, Request):
            context = context.context
        elif isinstance(context, Mapping):
            context = Context(**context)
        elif not isinstance(context, Context):
            context = Context(messages=list(context))
        writer = self._writer(context.tools)
        return self._written(writer, writer.write_context(context, ask=ask))

    def escape(self, text: str) -> str:
        """Give words in which no mark of this format begins anything."""
        return self._writer().write_text(text)

    def _writer(self, tools: Iterable[Any] = ()) -> FormatWriter:
        declared = Context(tools=list(tools)).tools
        writer = TaggedWriter if self.row.shape == "tagged" else FormatWriter
        return writer(self.marks, [tool for tool in declared if isinstance(tool, Tool)])

    def _written(self, writer: FormatWriter, text: str) -> Written:
        return Written(text, tuple(writer.ledger.losses))


@lru_cache(64)
def _marked(row: Row) -> FormatMarks:
    return FormatMarks(row)


def format(given: str | Mapping[str, Any]) -> Format:
    """Give the format of a name, or of a table like those of `formats.toml`; an unknown name is `UnknownFormat`."""
    return Format(resolve_row(given))
