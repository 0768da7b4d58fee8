"""The recording of a client's exchanges: the canonical request and response, and both bodies on the wire.

Rules of this file:
- Recording only notes bytes and times. The store's thread masks and writes them.
- What goes wrong with a record is logged, and never changes an answer.
"""

import logging
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from toolwire.errors import InvalidField
from toolwire.providers import Provider
from toolwire.providers.addressing import key_of
from toolwire.providers.catalogue import cost
from toolwire.records.capture import MARGIN, Pieces, ProviderExchange, earlier_of, whole_body
from toolwire.records.record import CANONICAL, Body, Record
from toolwire.scrubbing import secrets_of
from toolwire.types import Error, Loss, Request, Response
from toolwire.types.encoded import write_json
from toolwire.wire.transport import HttpRequest, HttpResponse, TransportError

if TYPE_CHECKING:
    from toolwire.records.store import RecordStore

_LOG = logging.getLogger("toolwire")
_JSON = {"content-type": "application/json"}


def store_of(value: Any) -> "tuple[RecordStore | None, bool]":
    """Return the store that `record=` names, and whether it was opened here. Raise `InvalidField` for another value."""
    if value is None:
        return None, False
    if isinstance(value, str):
        from toolwire.records import open as open_records  # noqa: PLC0415 - an extra

        return open_records(value), True
    if not callable(getattr(value, "write", None)) or not hasattr(value, "limits"):
        words = f"must be the URL of a database, or what records.open returns, not {value!r}"
        raise InvalidField("record", words, path="settings")
    return value, False


class _ObservedResponse:
    """An answer whose bytes are noted as they are read, in sync and in async code."""

    def __init__(self, answer: Any, pieces: Pieces, seconds: Callable[[], float]) -> None:
        self._answer, self._pieces, self._seconds = answer, pieces, seconds
        self.status: int = answer.status
        self.headers: dict[str, str] = answer.headers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._answer, name)

    def read(self) -> bytes:
        """Return the next piece."""
        piece: bytes = self._answer.read()
        self._pieces.add(piece, self._seconds())
        return piece

    async def aread(self) -> bytes:
        """Return the next piece."""
        piece: bytes = await self._answer.aread()
        self._pieces.add(piece, self._seconds())
        return piece


class ExchangeRecording:
    """The recording of one exchange, with its retries."""

    def __init__(self, store: "RecordStore", provider: Provider, request: Request) -> None:
        self._store, self._provider, self._request = store, provider, request
        self._limit = store.limits.body + MARGIN
        self._time, self._start = time.time(), time.monotonic()
        self._exchanges: list[ProviderExchange] = []

    def _seconds(self) -> float:
        return time.monotonic() - self._start

    def ask(self, request: HttpRequest, losses: tuple[Loss, ...]) -> None:
        """Note a request to the provider."""
        provider, model = self._provider, self._request.model or ""
        exchange = ProviderExchange(
            provider.name, model, provider.dialect, request, losses, seconds=self._seconds(), limit=self._limit
        )
        self._exchanges.append(exchange)

    def fail(self, problem: TransportError) -> None:
        """Note that the provider could not be reached, or that its answer broke off."""
        self._exchanges[-1].error = problem.kind

    def observe(self, answer: HttpResponse) -> HttpResponse:
        """Note the head of the answer, and return the answer, whose bytes will be noted."""
        exchange = self._exchanges[-1]
        exchange.status, exchange.headers = answer.status, answer.headers
        observed: Any = _ObservedResponse(answer, exchange.pieces, self._seconds)
        if not hasattr(answer, "aread"):  # a transport of sync code
            observed.aread = None
        return observed  # type: ignore[no-any-return]

    def finish(self, outcome: Response | Error | None, partial: Response | None) -> None:
        """Write the record. `outcome` is None if the caller has left before the end."""
        if not self._exchanges:
            return
        try:
            known = [key_of(self._provider), *secrets_of({**self._provider.headers, **self._provider.query}, ())]
            self._store.write(self._record(outcome, partial), [text for text in known if text])
        except Exception:  # noqa: BLE001 - a record must not fail an exchange
            _LOG.exception("an exchange was not recorded")

    def _record(self, outcome: Response | Error | None, partial: Response | None) -> Record:
        last, seconds = self._exchanges[-1], self._seconds()
        response = outcome if isinstance(outcome, Response) else partial
        provider_request, provider_answer = last.bodies(streams=bool(self._request.stream))
        usage = None if response is None else response.usage
        first = provider_answer.frames[0].seconds if provider_answer.frames else seconds
        return Record(
            id=f"twc_{secrets.token_hex(12)}",
            time=round(self._time, 6),
            seconds=round(seconds, 6),
            first_byte=round(first, 6) if provider_answer.size else None,
            wire=CANONICAL,
            provider_wire=last.wire,
            url=last.url,
            model=self._request.model or "",
            provider=last.provider,
            provider_model=last.model,
            streamed=bool(self._request.stream),
            status=last.status,
            provider_status=last.status,
            error=last.error,
            ending=_ending_of(outcome),
            usage=usage,
            cost=cost(usage, self._request.model) or 0.0,
            request_losses=last.losses,
            earlier=earlier_of(self._exchanges),
            client_request=self._canonical(self._request),
            provider_request=provider_request,
            provider_answer=provider_answer,
            client_answer=self._canonical(outcome if outcome is not None else partial),
        )

    def _canonical(self, value: Request | Response | Error | None) -> Body:
        """Return a canonical value as JSON. It is empty if JSON cannot hold it."""
        if value is None:
            return Body()
        try:
            return whole_body(write_json(value), _JSON, self._limit)
        except (TypeError, ValueError, OverflowError, RecursionError) as problem:
            _LOG.info("a canonical value is not recorded: %s", type(problem).__name__)
            return Body()


def _ending_of(outcome: Response | Error | None) -> str:
    if outcome is None:
        return "client gone"
    return "answer" if isinstance(outcome, Response) else "error"
