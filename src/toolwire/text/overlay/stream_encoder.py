"""Encode streams of a model that writes calls in its text. The calls are written once the answer is complete.

Rule: a call without an end is written as a call that cannot run.
"""

from toolwire.streams import StreamEncoder
from toolwire.streams.accumulation import Accumulator, events_of
from toolwire.text.overlay.responses import write_response
from toolwire.text.overlay.text_parts import MessageWriter
from toolwire.types import ErrorEnd, Event, Loss, MessageEnd


class Encoder:
    """Encodes a stream through the encoder of its wire."""

    def __init__(self, inner: StreamEncoder, writer: MessageWriter) -> None:
        self._inner = inner
        self._writer = writer
        self._received: Accumulator | None = Accumulator()

    @property
    def ended(self) -> bool:
        """Return True if the encoder accepts no more events."""
        return self._inner.ended

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses so far, each once."""
        return (*dict.fromkeys(self._writer.ledger.losses), *self._inner.losses)

    def feed(self, event: Event) -> bytes:
        """Return the bytes that can be sent after this event."""
        if self._received is None:
            return self._inner.feed(event)
        if not isinstance(event, ErrorEnd | MessageEnd):
            self._received.feed(event)
            return b""
        return self._write_received() + self._inner.feed(event)

    def close(self) -> bytes:
        """Return the last bytes."""
        return self._write_received() + self._inner.close()

    def _write_received(self) -> bytes:
        received, self._received = self._received, None
        if received is None:
            return b""
        written = write_response(received.response, self._writer)
        return b"".join(map(self._inner.feed, list(events_of(written))[:-1]))
