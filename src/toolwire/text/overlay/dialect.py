"""A dialect over a dialect: the same wire, to a model that calls in its text.

Rules of this file:
- It has what every dialect has, under the same names. Its name is the wire's, for the bodies are the wire's.
- It keeps nothing from one body to the next: which tools were offered, it is told when it is made.
"""

from collections.abc import Collection, Iterable
from typing import Any

from toolwire.dialects import Dialect, dialect
from toolwire.encoding.ledger import PLAIN, Ledger, Quirks, Wire
from toolwire.text.calls import offer_of
from toolwire.text.overlay.answers import Reading, write
from toolwire.text.overlay.requests import Telling, mark
from toolwire.text.overlay.stream_decoder import Decoder
from toolwire.text.overlay.stream_encoder import Encoder
from toolwire.text.overlay.weaving import Weaver
from toolwire.text.quoting import Given
from toolwire.text.tagged.forms import forms_of
from toolwire.types import Encoded, Request, Response


class TextTagged:
    """A wire whose tools, calls and results are words."""

    def __init__(
        self,
        inner: Dialect,
        tools: Iterable[Any] | None,
        readers: Iterable[str],
        *,
        native: bool,
        compact: bool,
        given: Given | None,
        earlier: Collection[str],
    ) -> None:
        offer, asked = offer_of(tools), tuple(readers)
        self.DIALECT = inner.DIALECT
        self.SETTING_PATHS = inner.SETTING_PATHS
        self.decode_error = inner.decode_error
        self.encode_error = inner.encode_error
        self.native = native
        self._inner = inner
        self._compact = compact
        self._forms = forms_of(asked) if offer is None or offer else ()
        self._wire = Wire(inner.DIALECT)
        self._reading = Reading(inner.DIALECT, offer, asked, native=native, given=given, earlier=earlier)

    def decode_request(self, body: dict[str, Any], path: str = "") -> Request:
        """Read a request's body; its texts are texts, whatever stands in them."""
        return mark(self._inner.decode_request(body, path), self.DIALECT)

    def encode_request(self, request: Request, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Write a request's body, with tools, calls and results in words, and say what it cannot hold."""
        if self.native:
            return self._inner.encode_request(request, quirks, **settings)
        ledger = Ledger(self._wire)
        telling = Telling(request, ledger, Weaver(ledger, self._forms), compact=self._compact)
        encoded = self._inner.encode_request(telling.tell(), quirks, **settings)
        return Encoded(encoded.path, encoded.body, telling.losses(encoded.losses))

    def decode_response(self, body: dict[str, Any]) -> Response:
        """Read a response's body, and the calls in its texts."""
        return self._reading.read(self._inner.decode_response(body))

    def encode_response(self, response: Response, quirks: Quirks = PLAIN, **settings: Any) -> Encoded:
        """Write a response's body, with its calls in its texts, and say what it cannot hold."""
        if self.native:
            return self._inner.encode_response(response, quirks, **settings)
        ledger = Ledger(self._wire, of="response")
        told = write(response, Weaver(ledger, self._forms))
        encoded = self._inner.encode_response(told, quirks, **settings)
        return Encoded(encoded.path, encoded.body, (*ledger.losses, *encoded.losses))

    def decode_stream(self) -> Any:
        """Read a stream, and the calls in its texts."""
        return Decoder(self._inner.decode_stream(), self._reading)

    def encode_stream(self, quirks: Quirks = PLAIN, **settings: Any) -> Any:
        """Write a stream, with its calls in its texts."""
        inner = self._inner.encode_stream(quirks, **settings)
        return inner if self.native else Encoder(inner, Ledger(self._wire, of="response"), self._forms)


def over(
    wire: str | Dialect,
    tools: Iterable[Any] | None = None,
    *,
    readers: Iterable[str] = (),
    native: bool = False,
    compact: bool = False,
    given: Iterable[str] = (),
    earlier: Collection[str] = frozenset(),
) -> TextTagged:
    """Give a dialect for a model that calls in its text, over the wire of another one.

    Only calls of `tools` are read; without them, those of any name. `readers` name the forms that are read
    besides the protocol. With `native`, everything is written in the wire's own way, and what the model says
    in its text instead is read all the same. `compact` tells each tool in one line. `given` are the texts that the
    model was given (`texts_given(request)`): a block that stands there is a quotation, and no call. `earlier` are ids
    that calls of the conversation have: none of them is made again.
    """
    return TextTagged(
        dialect(wire), tools, readers, native=native, compact=compact, given=Given(given), earlier=earlier
    )
