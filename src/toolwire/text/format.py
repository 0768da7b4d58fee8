"""A text format as users hold it: created by name or from a table, to decode and encode calls in text."""

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
    """A text format, which decodes and encodes tool calls. `row` holds its rules.

    >>> from toolwire import text
    >>> hermes = text.format("hermes")
    >>> call = hermes.encode_call({"name": "get_time", "arguments": {"zone": "UTC"}}).text
    >>> hermes.decode(call, ["get_time"]).tool_calls[0].arguments
    {'zone': 'UTC'}
    """

    def __init__(self, row: Row) -> None:
        self.row: Row = row
        self.marks: FormatMarks = _marked(row) if row.template is None else FormatMarks(row)

    def __repr__(self) -> str:
        return f"<Format {self.name}>"

    @property
    def name(self) -> str:
        """The name of the format."""
        return self.row.name

    def decode_stream(
        self, tools: Iterable[Any] | None = None, *, given: Iterable[str] = (), seed: str = "", thinking: bool = False
    ) -> TextStream:
        """Return a decoder for text that arrives in pieces: `feed(text)` and `close()` return events for `accumulate`.

        - `tools`: only calls of these tools are decoded. None accepts any name.
        - `given`: the input texts of the model. A block that repeats one of them is a quotation and not a call.
        - `seed`: makes the derived call ids of this answer differ from those of other answers.
        - `thinking`: the text begins inside a thought, because the chat template already wrote the opening mark.
        """
        offer = make_offer(tools)
        return TextStream(TextReader(self.marks, CallBuilder(offer, seed), offer, given, thinking=thinking))

    def decode(self, text: str, tools: Iterable[Any] | None = None, *, whole: bool = True, **settings: Any) -> Response:
        """Decode a complete text. Pass `whole=False` if the answer was cut off.

        The other settings are those of `decode_stream`.
        """
        stream = self.decode_stream(tools, **settings)
        return accumulate([*stream.feed(text), *stream.close(whole=whole)])

    def encode_tools(self, tools: Iterable[Any]) -> Written:
        """Return the text of a system prompt that describes `tools` and how to call them."""
        writer, declared = self._writer(), Context(tools=list(tools)).tools
        return self._written(writer, writer.write_tools(declared))

    def encode_call(self, call: ToolCall | Mapping[str, Any], tools: Iterable[Any] = ()) -> Written:
        """Return the text of one call. `tools` are as in `encode_calls`."""
        return self.encode_calls([call], tools)

    def encode_calls(self, calls: Iterable[ToolCall | Mapping[str, Any]], tools: Iterable[Any] = ()) -> Written:
        """Return the text of calls that were made together.

        If `tools` are passed, the calls are checked to decode to the same values under the schemas of these tools.
        """
        writer = self._writer(tools)
        parsed = [call if isinstance(call, ToolCall) else ToolCall.new(call) for call in calls]
        return self._written(writer, writer.write_calls(parsed))

    def encode_result(self, result: ToolResult | Mapping[str, Any]) -> Written:
        """Return the text of a tool result."""
        writer = self._writer()
        parsed = result if isinstance(result, ToolResult) else ToolResult.new(result)
        return self._written(writer, writer.write_result(parsed))

    def encode_context(
        self, context: Context | Request | Mapping[str, Any] | list[Any], *, ask: bool = False
    ) -> Written:
        """Return a conversation as the prompt of a model.

        With `ask=True`, the prompt ends where the model's answer begins.
        """
        if isinstance(context, Request):
            context = context.context
        elif isinstance(context, Mapping):
            context = Context(**context)
        elif not isinstance(context, Context):
            context = Context(messages=list(context))
        writer = self._writer(context.tools)
        return self._written(writer, writer.write_context(context, ask=ask))

    def escape(self, text: str) -> str:
        """Return `text` with every mark of this format escaped, so that none of it is decoded as a call."""
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


def format(name_or_table: str | Mapping[str, Any]) -> Format:
    """Return the text format with this name, or the format that a table like those of `formats.toml` describes.

    Raises `UnknownFormat` if the name is not known.
    """
    return Format(resolve_row(name_or_table))
