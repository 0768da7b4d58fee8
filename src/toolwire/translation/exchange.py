"""An exchange: one request to a model and its answer, translated between the client's wire and the target's.

The answer is translated with knowledge of the request. So the client gets calls as it declared its tools.

Rules of this file:
- It is pure. The caller sends the encoded request, and stores and looks up the memory of earlier turns.
- `exchange_request` has the request's half, and `exchange_answer` has the answer's half.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from toolwire.dialects import Dialect, dialect
from toolwire.encoding.ledger import Clock
from toolwire.providers import Provider
from toolwire.providers.prompt_cache import CacheUse
from toolwire.translation.caching import TranslationCache
from toolwire.translation.exchange_answer import ExchangeAnswer, ExchangedStream
from toolwire.translation.exchange_request import ExchangeRequest, Overlay, RequestSettings, Sides
from toolwire.translation.translate import Body, raise_if_lossy
from toolwire.types import Encoded, Error, ErrorReply, Event, Request, Tool, Usage


class Exchange:
    """A request as it is sent to the target, and its answer as the client gets it."""

    def __init__(self, request: ExchangeRequest, answer: ExchangeAnswer) -> None:
        self._request, self._answer = request, answer

    @property
    def source(self) -> Dialect:
        """The client's dialect."""
        return self._request.sides.source

    @property
    def target(self) -> Dialect:
        """The dialect of the target."""
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
        """The encoded request for the target. Its losses have the paths of the client's body."""
        return self._request.encoded

    @property
    def memory_keys(self) -> list[str]:
        """The keys under which the caller may have stored values of earlier turns."""
        return self._request.memory_keys

    @property
    def memory_updates(self) -> list[tuple[str, bytes]]:
        """The keys and values of this turn that the caller should store for later turns."""
        return self._answer.memory_updates

    @property
    def usage(self) -> Usage | None:
        """The usage that a whole answer reports."""
        return self._answer.usage

    @property
    def choices(self) -> int:
        """The number of choices of a whole answer."""
        return self._answer.choices

    @property
    def failed(self) -> bool:
        """Return True if a whole answer ends in an error."""
        return self._answer.failed

    def use_memory(self, memory: Mapping[str, bytes]) -> None:
        """Restore earlier turns from `memory`, the values that the caller has found under `memory_keys`."""
        self._request.use_memory(memory)

    def drop_refused_thinking(self, error: Error) -> bool:
        """Drop the thinking that the target refused in `error`. Return True if a retry is worthwhile."""
        return self._request.drop_refused_thinking(error)

    @property
    def answers_searches(self) -> bool:
        """Return True if the answer may need a `follow_up`."""
        return self._answer.searches is not None

    @property
    def deferred(self) -> list[Tool]:
        """The tools that are held back until a search or a reference names them."""
        tools = self._request.deferred_tools
        return [] if tools is None else tools.held_back(self._request.named_tools)

    def search_tools(self, query: str) -> list[Tool]:
        """Return the tools of `deferred` that fit the words of `query`, the best first."""
        tools = self._request.deferred_tools
        return [] if tools is None else tools.search_tools(query, self._request.named_tools)

    @property
    def follow_up(self) -> Encoded | None:
        """The next request for the target, if the model has only searched. None if the answer is whole.

        It is known after `response`, or after `close` of a stream. The answer to it is the rest of the same answer: it
        goes to `response` again, or to the same stream.
        """
        return self._answer.follow_up

    def response(self, body: Body) -> Encoded:
        """Translate the body of a whole answer for the client. It is whole if there is no `follow_up`."""
        return self._answer.response(body)

    def stream(self, after: ExchangedStream | None = None, earlier_events: Iterable[Event] = ()) -> ExchangedStream:
        """Return a translator of the answer's stream for the client.

        With `after`, another provider's stream of this answer, it continues that stream with the same decoder and
        encoder. `earlier_events` are the events of the answer so far.
        """
        return self._answer.stream(after, earlier_events)

    def error(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> ErrorReply:
        """Translate an error for the client. As bytes, `body` may be any text."""
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
    cache: bool = True,
    cache_scope: str = "",
    client_session: str = "",
    tool_search: bool = False,
    response_id: str | None = None,
    now: float | Clock | None = None,
    continues: Mapping[str, Any] | None = None,
) -> Exchange:
    """Translate one request to another wire. The returned exchange then translates the answer for the client.

    - `source`: the dialect of the client's request.
    - `target`: a dialect, or a provider. The request is adapted to the provider's server and model.
    - `path`: the path of the client's request. Gemini's path has the model, and whether to stream.
    - `model`: the model to ask for, if not the one that the request names.
    - `quirks`: deviations of the server from its dialect.
    - `memory`: the values that were found under the `memory_keys` of an exchange.
    - `over`: a function that lays another dialect over the target's, given the request (`text.over`).
    - `strict`: raise LossyTranslation if the request loses meaning.
    - `translation_cache`: reuse the translation of an earlier request that this one extends. Its body must be bytes.
      Without a cache, nothing is stored between two calls.
    - `cache`: add what the provider's prompt cache needs and the client's wire does not have: a cache mark, or a key of
      the session. Each is a formal loss with the action `added`. On one wire nothing is added.
    - `cache_scope`: keys of sessions differ between scopes, such as between the keys of a gateway.
    - `client_session`: the name of the client's session, if a header has it.
    - `tool_search`: the caller sends each `follow_up`. So the provider's own search of deferred tools can become a
      function, whose calls the exchange answers. Without it, the search is a semantic loss.
    - `response_id`: the id of the answer if the wires differ. Servers may use one id for several answers, and clients
      merge answers with the same id.
    - `now`: the time of the answer in seconds of the epoch, or a function that returns the present time. It is used if
      the wires differ and the provider gives no time. A function also gives the time at which the answer is complete.
    - `continues`: the stored state that the client's request continues (`previous_response_id`, `conversation`), if
      `body` has the history itself instead. An answer of Responses repeats it.

    Raise InvalidBody if the request cannot be read, and UnknownDialect if a dialect is unknown.

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
    settings = RequestSettings(path=path, model=model, quirks=quirks or {}, answers_searches=tool_search)
    cache_use = CacheUse(is_on=cache, scope=cache_scope, client_session=client_session)
    request = ExchangeRequest(body, sides, settings, memory or {}, translation_cache, cache_use)
    new_exchange = Exchange(request, ExchangeAnswer(request, response_id, now, continues))
    if strict:
        raise_if_lossy(new_exchange.encoded.losses)
    return new_exchange
