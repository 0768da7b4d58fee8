"""Streams of a model that calls in its text, written: when the answer is whole, its calls are words in it.

Rule: a call that never ended is said as one that does not run.
"""

from toolwire.streams import StreamEncoder
from toolwire.streams.accumulation import Accumulator, events_of
from toolwire.text.overlay.responses import write_response
from toolwire.text.overlay.text_parts import MessageWriter
from toolwire.types import ErrorEnd, Event, Loss, MessageEnd


class Encoder:
    """Writes a stream through the encoder of its wire."""

    def __init__(self, inner: StreamEncoder, weaver: MessageWriter) -> None:
        self._inner = inner
        self._weaver = weaver
        self._heard: Accumulator | None = Accumulator()

    @property
    def ended(self) -> bool:
        """Whether nothing more is said."""
        return self._inner.ended

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be said so far, each thing once."""
        return (*dict.fromkeys(self._weaver.ledger.losses), *self._inner.losses)

    def feed(self, event: Event) -> bytes:
        """Give the bytes that can be said after this event."""
        if self._heard is None:
            return self._inner.feed(event)
        if not isinstance(event, ErrorEnd | MessageEnd):
            self._heard.feed(event)
            return b""
        return self._say() + self._inner.feed(event)

    def close(self) -> bytes:
        """Give the last bytes."""
        return self._say() + self._inner.close()

    def _say(self) -> bytes:
        heard, self._heard = self._heard, None
        if heard is None:
            return b""
        written = write_response(heard.response, self._weaver)
        return b"".join(map(self._inner.feed, list(events_of(written))[:-1]))
