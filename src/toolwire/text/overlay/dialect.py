"""A dialect over a dialect: the same wire, to a model that writes its calls in its text, in a format.

Rules of this file:
- It has what every dialect has, under the same names. Its name is the wire's, for the bodies are the wire's.
- It keeps nothing from one body to the next: which tools were offered, it is told when it is made.
- With `native`, the server tells of the tools itself, and only answers are read.
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
from toolwire.text.writing import FormatWriter
from toolwire.types import Encoded, Error, ErrorReply, Request, Response, Tool


class TextDialect:
    """A wire whose tools, calls and results are words."""

    def __init__(
        self,
        inner: Dialect,
        form: Format,
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
        self.format = form
        self._tagged = form.row.shape == "tagged"
        self._inner = inner
        self._compact = compact
        self._given = given
        self._readers = readers
        self._offer = make_offer(tools)
        self._forms = forms_of(readers) if tools is None or tools else ()
        self._wire = Wire(inner.DIALECT)
        late = native and self._tagged
        self._reader = ResponseReader(
            inner.DIALECT, self._make_reader, self._offer, appends_calls=late, earlier=earlier
        )

    def _make_reader(self, builder: CallBuilder) -> Any:
        """Give what hears one text."""
        if not self._tagged:
            return TextReader(self.format.marks, builder, self._offer, self._given)
        scanner = scanner_for(self._offer, self._readers, self._given)
        return BlockReader(scanner, builder, self._offer, late=self.native)

    def _weaver(self, ledger: Ledger, tools: Iterable[Any] = ()) -> MessageWriter:
        declared = [tool for tool in tools if isinstance(tool, Tool)]
        if self._tagged:
            return MessageWriter(ledger, TaggedWriter(self.format.marks, declared, ledger, self._forms))
        return MessageWriter(ledger, FormatWriter(self.format.marks, declared, ledger))

    def decode_request(self, body: dict[str, Any], path: str = "") -> Request:
        """Read a request's body; its texts are texts, whatever stands in them."""
        return mark_as_text(self._inner.decode_request(body, path), self.DIALECT)

    def encode_request(self, request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Write a request's body, with tools, calls and results in words, and say what it cannot hold."""
        if self.native:
            return self._inner.encode_request(request, quirks, **settings)
        ledger = Ledger(self._wire)
        telling = RequestWriter(request, ledger, self._weaver(ledger, request.tools), compact=self._compact)
        encoded = self._inner.encode_request(telling.write(), quirks, **settings)
        return Encoded(encoded.path, encoded.body, telling.losses(encoded.losses))

    def decode_response(self, body: dict[str, Any]) -> Response:
        """Read a response's body, and the calls in its texts."""
        return self._reader.read(self._inner.decode_response(body))

    def encode_response(self, response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Write a response's body, with its calls in its texts, and say what it cannot hold."""
        if self.native:
            return self._inner.encode_response(response, quirks, **settings)
        ledger = Ledger(self._wire, of="response")
        told = write_response(response, self._weaver(ledger))
        encoded = self._inner.encode_response(told, quirks, **settings)
        return Encoded(encoded.path, encoded.body, (*ledger.losses, *encoded.losses))

    def decode_stream(self) -> Any:
        """Read a stream, and the calls in its texts."""
        return Decoder(self._inner.decode_stream(), self._reader)

    def encode_stream(self, quirks: Quirks = PLAIN, **settings: Any) -> Any:
        """Write a stream, with its calls in its texts."""
        inner = self._inner.encode_stream(quirks, **settings)
        return inner if self.native else Encoder(inner, self._weaver(Ledger(self._wire, of="response")))


def over(
    wire: str | Dialect,
    tools: Iterable[Any] | None = None,
    *,
    format: str | Format | dict[str, Any] = "tagged",  # noqa: A002 - the public name
    readers: Iterable[str] = (),
    native: bool = False,
    compact: bool = False,
    given: Iterable[str] = (),
    earlier: Collection[str] = frozenset(),
) -> TextDialect:
    """Give a dialect for a model that writes its calls in its text, in a format, over the wire of another one.

    Only calls of `tools` are read; without them, those of any name. With `native`, everything is written in the wire's
    own way, and what the model says in its text instead is read all the same. `given` are the texts that the model was
    given (`texts_given(request)`): a block that stands there is a quotation, and no call. `earlier` are ids that calls
    of the conversation have: none of them is made again. For the format `tagged`, `readers` name the forms that are
    read besides it, and `compact` tells each tool in one line.
    """
    form = format if isinstance(format, Format) else _format(format)
    asked, offered = tuple(readers), None if tools is None else list(tools)
    return TextDialect(
        dialect(wire), form, offered, asked, native=native, compact=compact, given=GivenTexts(given), earlier=earlier
    )
