"""What is noted of an exchange while it is on the wire: bytes and times.

Rules of this file:
- A body is noted up to its limit. Its size counts all bytes.
- The headers of requests hold keys. They stay in this process: a record has only those that may be recorded.
"""

import re
from collections.abc import Mapping, Sequence

from toolwire.records.record import Body, EarlierExchange, Frame
from toolwire.types import Loss
from toolwire.wire.transport import HttpRequest, url_without_secrets

MARGIN = 65_536
"""Bytes behind the limit of a body that are noted as well: they are masked with it, and then cut off."""
_STREAMS = re.compile(r"text/event-stream|application/x-ndjson|application/vnd\.amazon\.eventstream")


class Pieces:
    """The bytes of a body as they come, with their times. Bytes behind the limit are only counted."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._frames: list[Frame] = []
        self.size: int = 0

    def add(self, data: bytes, seconds: float) -> None:
        """Note a piece."""
        if data and self.size < self._limit:
            self._pieces.append(data)
            self._frames.append(Frame(seconds, len(data)))
        self.size += len(data)

    def body(self, headers: Mapping[str, str], *, is_stream: bool) -> Body:
        """Return the body. The pieces of a stream keep their times."""
        frames = tuple(self._frames) if is_stream else ()
        data = b"".join(self._pieces)
        return Body(data=data, size=self.size, cut=self.size > self._limit, headers=dict(headers), frames=frames)


def whole_body(data: bytes, headers: Mapping[str, str], limit: int) -> Body:
    """Return a body that was there at once."""
    kept = data if len(data) <= limit else data[:limit]
    return Body(data=kept, size=len(data), cut=len(data) > limit, headers=dict(headers))


class ProviderExchange:
    """One request to a provider, and its answer as far as it has come."""

    def __init__(
        self,
        provider: str,
        model: str,
        wire: str,
        request: HttpRequest,
        losses: tuple[Loss, ...],
        *,
        seconds: float,
        limit: int,
    ) -> None:
        self.provider, self.model, self.wire = provider, model, wire
        self.request: HttpRequest = request
        self.losses: tuple[Loss, ...] = losses
        self.asked_at: float = seconds
        self.status: int = 0
        self.error: str = ""
        self.headers: Mapping[str, str] = {}
        self.pieces: Pieces = Pieces(limit)
        self._limit = limit

    @property
    def url(self) -> str:
        """The address of the provider, without secrets."""
        return url_without_secrets(self.request.url)

    def bodies(self, *, streams: bool = False) -> tuple[Body, Body]:
        """Return the request and the answer. With `streams`, the answer is a stream, whatever its type is."""
        is_stream = streams or _STREAMS.match(self.headers.get("content-type", "")) is not None
        request = whole_body(self.request.body, self.request.headers, self._limit)
        return request, self.pieces.body(self.headers, is_stream=is_stream)

    def earlier(self, until: float) -> EarlierExchange:
        """Return this exchange as one before the last."""
        request, answer = self.bodies()
        return EarlierExchange(
            provider=self.provider,
            provider_model=self.model,
            provider_wire=self.wire,
            url=self.url,
            status=self.status,
            error=self.error,
            seconds=round(until - self.asked_at, 6),
            request=request,
            answer=answer,
        )


def earlier_of(exchanges: Sequence[ProviderExchange]) -> tuple[EarlierExchange, ...]:
    """Return all exchanges but the last. Each lasted until the next one began."""
    starts = [exchange.asked_at for exchange in exchanges[1:]]
    return tuple(exchange.earlier(until) for exchange, until in zip(exchanges[:-1], starts, strict=True))
