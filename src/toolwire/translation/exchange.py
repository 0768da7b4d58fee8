"""One request to a model and its answer, whether or not their wires differ; the way back knows the request.

Rules of this file:
- It is pure: who calls it sends what is encoded, and stores and finds the memory of earlier turns.
- The request's half is in `exchange_request`, the answer's in `exchange_answer`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from toolwire.dialects import Dialect, dialect
from toolwire.providers import Provider
from toolwire.translation.caching import TranslationCache
from toolwire.translation.exchange_answer import ExchangeAnswer, ExchangedStream
from toolwire.translation.exchange_request import ExchangeRequest, Overlay, RequestSettings, Sides
from toolwire.translation.translate import Body, refuse
from toolwire.types import Encoded, Error, ErrorReply, Event, Request, Usage


class Exchange:
    """A request as it goes to the target, and its answer as it goes back to the client."""

    def __init__(self, request: ExchangeRequest, answer: ExchangeAnswer) -> None:
        self._request, self._answer = request, answer

    @property
    def source(self) -> Dialect:
        """The client's dialect."""
        return self._request.sides.source

    @property
    def target(self) -> Dialect:
        """The dialect that the target is asked in."""
        return self._request.sides.target

    @property
    def request(self) -> Request:
        """The request as the client made it."""
        return self._request.request

    @property
    def streams(self) -> bool:
        """Return True if the client wants a stream, by its wire's own default."""
        return self._request.streams

    @property
    def encoded(self) -> Encoded:
        """The request as the target is sent it. Its losses are named by the paths of the client's body."""
        return self._request.encoded

    @property
    def memory_keys(self) -> list[str]:
        """The keys under which values of earlier turns may be remembered."""
        return self._request.memory_keys

    @property
    def memory_updates(self) -> list[tuple[str, bytes]]:
        """The keys and values of this turn to be remembered for later turns."""
        return self._answer.memory_updates

    @property
    def usage(self) -> Usage | None:
        """The usage that a whole answer reports."""
        return self._answer.usage

    @property
    def choices(self) -> int:
        """How many choices a whole answer has."""
        return self._answer.choices

    @property
    def failed(self) -> bool:
        """Return True if a whole answer ends in an error."""
        return self._answer.failed

    def use_memory(self, memory: Mapping[str, bytes]) -> None:
        """Restore earlier turns from the values that were remembered under the memory keys."""
        self._request.use_memory(memory)

    def drop_refused_thinking(self, error: Error) -> bool:
        """Drop the thinking that the target refused in `error`. Return True if a retry is worthwhile."""
        return self._request.drop_refused_thinking(error)

    def response(self, body: Body) -> Encoded:
        """Translate a whole answer for the client."""
        return self._answer.response(body)

    def stream(self, after: ExchangedStream | None = None, begun: Iterable[Event] = ()) -> ExchangedStream:
        """Return a translator of the answer's stream for the client.

        It continues `after`, another provider's stream of this answer, whose decoder reads the events of both. `begun`
        are the events of the parts so far.
        """
        return self._answer.stream(after, begun)

    def error(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> ErrorReply:
        """Translate an error for the client; as bytes, `body` may be any text."""
        return self._answer.error(status, body, headers)


def exchange(  # noqa: PLR0913 - a keyword each
    body: Body,
    *,
    source: str | Dialect,
    target: str | Dialect | Provider,
    path: str = "",
    model: str | None = None,
    quirks: dict[str, Any] | None = None,
    memory: Mapping[str, bytes] | None = None,
    over: Overlay | None = None,
    strict: bool = False,
    translation_cache: TranslationCache | None = None,
    response_id: str | None = None,
    now: float | None = None,
) -> Exchange:
    """Take one request to another wire, and its answer back.

    `target` is a dialect, or a provider, whose server's needs are then minded. `memory` is what was found of the
    keys that an exchange asks for. `over` lays a dialect over the target's, knowing the request (`text.over`). `strict`
    raises LossyTranslation. With a `translation_cache`, a longer request is translated from where an earlier one ended,
    if its body is bytes. Without one, nothing is stored between two calls.

    `response_id` is the id of the answer where the wires differ: another server may give one id to several answers, and
    clients take answers of one id for one. `now` is its time, in seconds of the epoch, if the provider gives none. An
    answer of the client's own wire keeps its id and its time.

    >>> from toolwire import translate
    >>> body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    >>> exchange = translate.exchange(body, source="openai-chat", target="ollama")
    >>> exchange.encoded.path
    '/api/chat'
    >>> answer = {"model": "m", "message": {"role": "assistant", "content": "Hello."}, "done": True}
    >>> exchange.response(answer).body["choices"][0]["message"]["content"]
    'Hello.'
    """
    provider = target if isinstance(target, Provider) else None
    sides = Sides(dialect(source), target.speaks() if isinstance(target, Provider) else dialect(target), provider, over)
    settings = RequestSettings(path=path, model=model, quirks=quirks or {})
    request = ExchangeRequest(body, sides, settings, memory or {}, translation_cache)
    exchanged = Exchange(request, ExchangeAnswer(request, response_id=response_id, now=now))
    if strict:
        refuse(exchanged.encoded.losses)
    return exchanged
