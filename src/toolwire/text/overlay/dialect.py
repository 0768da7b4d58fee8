"""A dialect over a wire whose model writes its calls in its text, in a text format.

Rules of this file:
- It has the interface of every dialect. Its name is that of the wire, because the bodies are the wire's.
- It keeps no state between two bodies. The offered tools are passed when it is created.
- With `native`, the server describes the tools to the model itself, and only answers are read.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from toolwire.dialects import Dialect, dialect
from toolwire.encoding.ledger import Ledger, Wire
from toolwire.encoding.quirks import PLAIN, Quirks
from toolwire.text.calls import CallBuilder, make_offer
from toolwire.text.format import Format
from toolwire.text.format import format as _format
from toolwire.text.overlay.requests import RequestWriter, mark_as_text
from toolwire.text.overlay.responses import ResponseReader, write_response
from toolwire.text.overlay.stream_decoder import Decoder
from toolwire.text.overlay.stream_encoder import Encoder
from toolwire.text.overlay.text_parts import MessageWriter
from toolwire.text.quoting import GivenTexts
from toolwire.text.reader import TextReader
from toolwire.text.tagged.blocks import scanner_for
from toolwire.text.tagged.call_blocks import BlockReader
from toolwire.text.tagged.forms import forms_of
from toolwire.text.tagged.writer import TaggedWriter
from toolwire.text.usual_forms import ChainReader, UsualForms
from toolwire.text.writing import FormatWriter
from toolwire.types import Encoded, Error, ErrorReply, Request, Response, Tool


class TextDialect:
    """A dialect whose tools, calls and results are text."""

    def __init__(
        self,
        inner: Dialect,
        text_format: Format | UsualForms,
        tools: list[Any] | None,
        readers: tuple[str, ...],
        *,
        native: bool,
        compact: bool,
        given: GivenTexts,
        earlier: Collection[str],
    ) -> None:
        self.DIALECT = inner.DIALECT
        self.TRAITS = inner.TRAITS
        self.SETTING_PATHS = inner.SETTING_PATHS
        self.decode_error: Callable[..., Error] = inner.decode_error
        self.encode_error: Callable[[Error], ErrorReply] = inner.encode_error
        self.native = native
        self._usual = text_format if isinstance(text_format, UsualForms) else None
        self.format: Format = _format("tagged") if isinstance(text_format, UsualForms) else text_format
        self._tagged = self.format.row.shape == "tagged"
        self._inner = inner
        self._compact = compact
        self._given = given
        self._readers = readers
        self._offer = make_offer(tools)
        self._forms = forms_of(readers) if tools is None or tools else ()
        self._wire = Wire(inner.DIALECT)
        appends_calls = native and self._tagged
        self._reader = ResponseReader(
            inner.DIALECT, self._make_reader, self._offer, appends_calls=appends_calls, earlier=earlier
        )

    def _make_reader(self, builder: CallBuilder) -> Any:
        """Return the reader of one text."""
        if not self._tagged:
            return TextReader(self.format.marks, builder, self._offer, self._given)
        scanner = scanner_for(self._offer, self._readers, self._given)
        reader = BlockReader(scanner, builder, self._offer, appends_calls=self.native)
        if self._usual is None:
            return reader
        return ChainReader(reader, self._usual.stages(builder, self._offer, self._given))

    def _message_writer(self, ledger: Ledger, tools: Iterable[Any] = ()) -> MessageWriter:
        declared = [tool for tool in tools if isinstance(tool, Tool)]
        if self._tagged:
            return MessageWriter(ledger, TaggedWriter(self.format.marks, declared, ledger, self._forms))
        return MessageWriter(ledger, FormatWriter(self.format.marks, declared, ledger))

    def decode_request(self, body: dict[str, Any], path: str = "") -> Request:
        """Decode a request body. Its texts stay texts, even if they look like calls."""
        return mark_as_text(self._inner.decode_request(body, path), self.DIALECT)

    def encode_request(self, request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Encode a request, with tools, calls and results in text. Return the body and the losses."""
        if self.native:
            return self._inner.encode_request(request, quirks, **settings)
        ledger = Ledger(self._wire)
        writer = RequestWriter(request, ledger, self._message_writer(ledger, request.tools), compact=self._compact)
        encoded = self._inner.encode_request(writer.write(), quirks, **settings)
        return Encoded(encoded.path, encoded.body, writer.losses(encoded.losses))

    def decode_response(self, body: dict[str, Any]) -> Response:
        """Decode a response body, and the calls in its texts."""
        return self._reader.read(self._inner.decode_response(body))

    def encode_response(self, response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Encode a response, with its calls in its texts. Return the body and the losses."""
        if self.native:
            return self._inner.encode_response(response, quirks, **settings)
        ledger = Ledger(self._wire, of="response")
        written = write_response(response, self._message_writer(ledger))
        encoded = self._inner.encode_response(written, quirks, **settings)
        return Encoded(encoded.path, encoded.body, (*ledger.losses, *encoded.losses))

    def decode_stream(self) -> Any:
        """Return a decoder for a stream, and for the calls in its texts."""
        return Decoder(self._inner.decode_stream(), self._reader)

    def encode_stream(self, quirks: Quirks = PLAIN, **settings: Any) -> Any:
        """Return an encoder for a stream, which writes its calls in its texts."""
        inner = self._inner.encode_stream(quirks, **settings)
        return inner if self.native else Encoder(inner, self._message_writer(Ledger(self._wire, of="response")))


def over(
    wire: str | Dialect,
    tools: Iterable[Any] | None = None,
    *,
    format: str | Format | UsualForms | dict[str, Any] = "tagged",  # noqa: A002 - the public name
    readers: Iterable[str] = (),
    native: bool = False,
    compact: bool = False,
    given: Iterable[str] = (),
    earlier: Collection[str] = frozenset(),
) -> TextDialect:
    """Return a dialect for a model that writes its calls in its text, over the wire `wire`.

    - `tools`: only calls of these tools are read. None accepts any name.
    - `format`: the name of a text format, or its table. `UsualForms(model)`, with `native`, stands for all formats in
      which a local server's model may write.
    - `native`: requests are sent in the wire's own way. Calls that the model writes in its text are still read.
    - `given`: the input texts of the model (`texts_given(request)`). A block that repeats one of them is a quotation
      and not a call.
    - `earlier`: the ids of the conversation's earlier calls. No derived id repeats one of them.
    - `readers`, for the format `tagged`: further forms of calls that are read.
    - `compact`, for the format `tagged`: each tool is described in one line.

    >>> from toolwire import text
    >>> wire = text.over("openai-chat", ["get_time"], format="hermes")
    >>> call = text.format("hermes").encode_call({"name": "get_time", "arguments": {"zone": "UTC"}}).text
    >>> answer = wire.decode_response({"choices": [{"message": {"role": "assistant", "content": call}}]})
    >>> answer.tool_calls[0].arguments
    {'zone': 'UTC'}
    """
    text_format = format if isinstance(format, Format | UsualForms) else _format(format)
    reader_names, offered = tuple(readers), None if tools is None else list(tools)
    return TextDialect(
        dialect(wire),
        text_format,
        offered,
        reader_names,
        native=native,
        compact=compact,
        given=GivenTexts(given),
        earlier=earlier,
    )
