"""The request of an exchange: read from the client's wire, and written for the target.

Rules of this file:
- It is pure. The caller sends the encoded request, and looks up the values of earlier turns.
- A request that extends a cached one is decoded as a whole only if something needs all of it.
- What is added for the provider's prompt cache is added to the encoded request, so that the cached bytes do not depend
  on it.
- Tools that the client has deferred are held back until they are named (`deferred_tools`). The translation of such a
  request is not cached.
- Thinking of another wire, which was only shown to the client, is not sent to the client's own wire. Other wires get
  its text.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from toolwire.dialects import Dialect, split_quirks
from toolwire.encoding.quirks import PLAIN, Quirks, tuned
from toolwire.providers import Provider
from toolwire.providers.adapting import adapted, asked_of_stream, quirks_for
from toolwire.providers.prompt_cache import (
    CacheUse,
    ConversationStart,
    takes_key,
    with_due_mark,
    with_key,
)
from toolwire.providers.thoughts import refused_thoughts, without_thoughts
from toolwire.translation.billing import BillingCut, remove_billing_line
from toolwire.translation.caching import CachedRequest, CacheLookup, TranslationCache
from toolwire.translation.deferred_tools import Deferral, DeferredTools, SplitTurns, as_function_calls
from toolwire.translation.foreign_thinking import unmark_foreign_thinking
from toolwire.translation.paths import stream_quirks, wants_stream
from toolwire.translation.tool_restoration import tool_restorer
from toolwire.translation.translate import Body, name_source_paths
from toolwire.translation.turn_keys import join_turns, key_material, read_stored_turn, restore_turn, turn_keys
from toolwire.types import Encoded, Error, Loss, Message, Part, Request
from toolwire.wire.bodies import read_body

Overlay = Callable[[Dialect, Request], Dialect]
"""A function that lays another dialect over the target's, given the request (`text.over`)."""
_write = msgspec.json.Encoder().encode


class Sides(Struct, frozen=True):
    """The client's wire and the target's. An answer between foreign sides has to be translated."""

    source: Dialect
    target: Dialect
    provider: Provider | None = None
    overlay: Overlay | None = None

    @property
    def is_foreign(self) -> bool:
        """Return True if the wires differ, or if another dialect lies over the target's."""
        return self.overlay is not None or self.source.DIALECT != self.target.DIALECT

    @property
    def provider_name(self) -> str:
        """The name by which the stored turns of this target are found: that of its provider or of its dialect."""
        return self.target.DIALECT if self.provider is None else self.provider.name


_VOLATILE = "it differs from the conversation's last request, so no prompt cache matches it and what follows it"


class RequestSettings(Struct, frozen=True, kw_only=True):
    """How a caller wants a request to be sent."""

    path: str = ""
    model: str | None = None
    quirks: Mapping[str, Any] = {}
    answers_searches: bool = False


class _Hooks:
    """Prepares the messages of an exchange, and finds the memory keys of their turns."""

    def __init__(self, source: Dialect, target: Dialect) -> None:
        self._traits, self._is_native = source.TRAITS, source.DIALECT == target.DIALECT
        self._joins_turns = not self._is_native and source.TRAITS.splits_turns

    def prepare(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages with split turns joined, and without thinking that was only shown."""
        messages = join_turns(messages) if self._joins_turns else messages
        if not self._traits.shows_foreign_thinking:
            return messages
        return [unmark_foreign_thinking(message, is_native=self._is_native) for message in messages]

    def memory_keys(self, messages: Sequence[Message], start: int, key_material: bytes) -> tuple[str, ...]:
        """Return the memory keys of the model's turns."""
        return tuple(
            key for _, key in turn_keys(messages, start, key_material, by_call_id=self._traits.repeats_call_ids)
        )

    def key_material(self, message: Message) -> bytes:
        """Return the part of the next turn's memory key that depends on `message`."""
        return key_material(message)


class ExchangeRequest:
    """The request of an exchange."""

    def __init__(
        self,
        body: Body,
        sides: Sides,
        settings: RequestSettings,
        memory: Mapping[str, bytes],
        cache: TranslationCache | None,
        cache_use: CacheUse,
    ) -> None:
        self.sides: Sides = sides
        self._settings, self._memory, self._cache_use = settings, memory, cache_use
        self._data, self._removed_billing = body, BillingCut()
        if sides.source.TRAITS.has_billing_line and sides.source.DIALECT != sides.target.DIALECT:
            self._data, self._removed_billing = remove_billing_line(body)
        self._encoded: Encoded | None = None
        self._refused_thinking = set[str]()
        self._later_messages: list[Message] = []  # the searches of the answer so far, and their results
        self._found: list[str] = []
        self._lookup: CacheLookup | None = None if cache is None else self._look_up(cache)
        self._cached: CachedRequest | None = None if self._lookup is None else self._lookup.find()
        stream_settings = self._stream_settings()
        self.streams: bool = wants_stream(sides.source.DIALECT, stream_settings, settings.path)
        self.stream_quirks: dict[str, bool] = stream_quirks(sides.source.DIALECT, stream_settings, settings.path)
        if sides.overlay is not None:
            self.sides = replace(sides, target=sides.overlay(sides.target, self._with_function(self.request)))

    def _look_up(self, cache: TranslationCache) -> CacheLookup | None:
        """Look the request up by its bytes and by everything else on which its translation depends."""
        sides, settings = self.sides, self._settings
        if sides.overlay is not None or not sides.is_foreign or type(self._data) is not bytes:
            return None
        target, quirks = split_quirks(sides.target)
        try:
            provider = sides.provider and _encoding_settings(sides.provider)
            depends_on = _write([settings, provider, quirks, self._cache_use.is_on])
        except TypeError:
            return None
        return cache.look_up(self._data, sides.source, target, depends_on, _Hooks(sides.source, target))

    def _stream_settings(self) -> dict[str, Any]:
        """Return the fields of the body that are about its stream. The request is decoded, so errors are raised now."""
        if self._cached is not None:
            return self._cached.stream_settings
        _ = self.request
        return self.body

    @cached_property
    def body(self) -> dict[str, Any]:
        """The client's body."""
        body: dict[str, Any] = read_body(self._data)
        return body

    @cached_property
    def request(self) -> Request:
        """The request as the client made it. Messages that are parts of one turn are joined."""
        source = self.sides.source
        request = source.decode_request(self.body, self._settings.path)
        if not self.sides.is_foreign or not source.TRAITS.splits_turns:
            return request
        messages = join_turns(request.context.messages)
        if messages is request.context.messages:
            return request
        return replace(request, context=replace(request.context, messages=messages))

    @cached_property
    def deferred_tools(self) -> DeferredTools | None:
        """The tools that the client has deferred, or None if the request is sent with all of its tools."""
        if self._cached is not None or not self.sides.is_foreign or self.sides.source.TRAITS.tool_search is None:
            return None
        return DeferredTools.of(self.request, answers_searches=self._settings.answers_searches)

    @property
    def named_tools(self) -> dict[str, None]:
        """The names of the deferred tools that are sent, in the order in which they were named."""
        tools = self.deferred_tools
        return {} if tools is None else tools.named_by(self.request, self._found)

    def ask_again(self, message: Message, results: Sequence[Part], found: Iterable[str]) -> None:
        """Continue the request with a message of the model and the results of its searches, which found tools."""
        self._later_messages += [message, Message("tool", list(results))]
        self._found += found
        self._encoded = None

    @property
    def asked_request(self) -> Request:
        """The `answer_request` with all calls that the model has made, of which searches are some."""
        tools, request = self.deferred_tools, self.answer_request
        if tools is None or tools.function is None:
            return request
        messages = [as_function_calls(message, tools) for message in request.messages]
        return replace(request, context=replace(request.context, messages=[*messages, *self._later_messages]))

    def _with_function(self, request: Request) -> Request:
        """Return a request that has the function for searches among its tools, for an overlay that reads its calls."""
        tools = self.deferred_tools
        if tools is None or tools.function is None:
            return request
        return replace(request, context=replace(request.context, tools=[*request.tools, tools.function]))

    @cached_property
    def answer_request(self) -> Request:
        """The request, or the parts of a cached one that are needed to read the answer."""
        return self.request if self._cached is None else self._cached.answer_request

    @property
    def end(self) -> tuple[int, bytes]:
        """The number of messages, and the key material of the last one."""
        if self._cached is not None:
            return self._cached.end
        messages = self.request.context.messages
        return len(messages), key_material(messages[-1]) if messages else b""

    @property
    def memory_keys(self) -> list[str]:
        """The keys under which the caller may have stored values of earlier turns."""
        if self._cached is not None:
            return self._cached.memory_keys
        return [key for _, key in self._turns()] if self.sides.is_foreign else []

    def use_memory(self, memory: Mapping[str, bytes]) -> None:
        """Restore earlier turns from `memory`, the values that were found under the memory keys."""
        self._memory, self._encoded = memory, None

    def drop_refused_thinking(self, error: Error) -> bool:
        """Drop the thinking that the target refused in `error`. Return True if a retry is worthwhile."""
        wire = self.sides.target.DIALECT
        refused = refused_thoughts(self._target_request(), error, wire) - self._refused_thinking
        if refused:
            self._refused_thinking, self._encoded = self._refused_thinking | refused, None
        return bool(refused)

    def _turns(self) -> Iterator[tuple[int, str]]:
        """Yield the index and the memory key of each turn of the model."""
        by_call_id = self.sides.source.TRAITS.repeats_call_ids
        return turn_keys(self.request.context.messages, by_call_id=by_call_id)

    @property
    def encoded(self) -> Encoded:
        """The encoded request for the target. Its losses have the paths of the client's body."""
        if self._encoded is None:
            cached = None if self._memory or self._cached is None else self._cached.encode()
            encoded = self._use_prompt_cache(self._encode() if cached is None else cached)
            if cached is None and self._volatile_losses:
                encoded = replace(encoded, losses=(*encoded.losses, *self._volatile_losses))
            self._encoded = self._with_billing_loss(encoded) if self._removed_billing.lines else encoded
        return self._encoded

    def _use_prompt_cache(self, encoded: Encoded) -> Encoded:
        """Return the encoded request with what the provider's prompt cache needs. On one wire nothing is added."""
        sides, cached, target = self.sides, self._cached, self.sides.target
        if not self._cache_use.is_on or sides.source.DIALECT == target.DIALECT:
            return encoded
        if self._sends_derived_key:
            start = self._start if cached is None else cached.start
            key = start.key(self._cache_use)
            if key is not None:
                encoded = with_key(encoded, key, target, replaces=start.is_client_key)
        if not target.TRAITS.request_cache_mark:
            return encoded
        request = self.request if cached is None else None
        model = self._settings.model or (cached.model if cached is not None else self.request.model)
        marks_blocks = not self._server_quirks().request_cache_mark
        return with_due_mark(encoded, request, model, target.TRAITS, marks_blocks=marks_blocks)

    @cached_property
    def _start(self) -> ConversationStart:
        """The start of the conversation as the client sent it."""
        return ConversationStart.of(self.request, self.sides.source.TRAITS)

    @property
    def _sends_derived_key(self) -> bool:
        """Return True if the request gets a key of its session, in place of a key that the client sent."""
        sides = self.sides
        if not self._cache_use.is_on or sides.source.DIALECT == sides.target.DIALECT:
            return False
        return takes_key(sides.target, sides.provider, {**self._settings.quirks, **_changed_quirks(sides.target)})

    def _server_quirks(self) -> Quirks:
        """Return the quirks of the server, without those of the model."""
        provider = self.sides.provider
        quirks = {**(provider.quirks if provider is not None else {}), **self._settings.quirks}
        return tuned(split_quirks(self.sides.target)[1], quirks)

    def _with_billing_loss(self, encoded: Encoded) -> Encoded:
        return replace(encoded, losses=self._removed_billing.restore_paths(encoded.losses))

    def _encode(self) -> Encoded:
        """Encode the whole request, and store it in the cache if nothing of earlier turns was restored."""
        sides, provider = self.sides, self.sides.provider
        lookup = None if self._memory or self.deferred_tools is not None else self._lookup
        turns = None if self.deferred_tools is None else SplitTurns.of(self._target_messages())
        deferral = None if self.deferred_tools is None else Deferral(self.deferred_tools, self.named_tools)
        request, losses = self._target_request(deferral, turns), tuple[Loss, ...]()
        if self._refused_thinking:
            request, losses = without_thoughts(request, self._refused_thinking, sides.target.DIALECT)
        quirks = dict(self._settings.quirks)
        if provider is not None:
            request, adapted_losses = adapted(request, provider)
            losses, quirks = (*losses, *adapted_losses), {**quirks_for(request, provider), **quirks}
        encoded = sides.target.encode_request(request, **quirks)
        body, losses = encoded.body, (*losses, *encoded.losses)
        if self.streams and provider is not None:
            body = {**asked_of_stream(provider), **body}
        encoded = Encoded(encoded.path, body, losses)
        if deferral is not None:
            encoded = deferral.with_losses(encoded, turns)
        losses = name_source_paths(encoded.losses, self.body, sides.source.SETTING_PATHS)
        encoded = replace(encoded, losses=losses)
        if lookup is not None:
            full_quirks = tuned(split_quirks(sides.target)[1], quirks)
            if full_quirks.id_grammar is None:
                lookup.store(self.body, request, encoded, full_quirks, self._start)
        return encoded

    @cached_property
    def _volatile_losses(self) -> tuple[Loss, ...]:
        """The blocks that have changed since the conversation's last request. They stay where they are.

        A cached translation has the same beginning as the last request.
        """
        paths = () if self._lookup is None else self._lookup.find_changed_blocks(self.request)
        losses = tuple(Loss(path, "volatile", "kept", _VOLATILE, "formal") for path in paths)
        return name_source_paths(losses, self.body, self.sides.source.SETTING_PATHS)

    def _target_request(self, deferral: Deferral | None = None, turns: SplitTurns | None = None) -> Request:
        """Return the request with its model, with restored turns, and without thinking that was only shown.

        `deferral` are its tools and `turns` its messages if it has deferred tools.
        """
        request, changes = self.request, self._changed_settings()
        if deferral is not None and turns is not None:
            return replace(request, **changes, **self._deferring_fields(deferral, turns))
        messages = self._target_messages()
        if any(message is not original for message, original in zip(messages, request.context.messages, strict=True)):
            changes["context"] = replace(request.context, messages=messages)
        return replace(request, **changes) if changes else request

    def _deferring_fields(self, deferral: Deferral, turns: SplitTurns) -> dict[str, Any]:
        """Return the fields that differ from the client's request because tools are held back."""
        request = self.request
        context = replace(request.context, tools=deferral.sent_tools, messages=[*turns.messages, *self._later_messages])
        has_searched = bool(self._later_messages)
        choice = deferral.tools.with_function_choice(request.tool_choice, has_searched=has_searched)
        return {"context": context, "tool_choice": choice}

    def _changed_settings(self) -> dict[str, Any]:
        """Return the settings that differ from the client's request."""
        request, changes = self.request, dict[str, Any]()
        model = self._settings.model
        if model is not None and model != request.model:
            changes["model"] = model
        if request.cache_key is not None and self._sends_derived_key:
            changes["cache_key"] = None
        if request.stream is None and self.sides.is_foreign:
            changes["stream"] = self.streams
        if request.store is None and self.sides.is_foreign and self.sides.target.TRAITS.stores_responses:
            changes["store"] = (
                False  # OpenAI stores responses by default. A client of another wire does not expect that.
            )
        return changes

    def _target_messages(self) -> list[Message]:
        """Return the messages with restored turns, and without thinking that was only shown."""
        sides, request = self.sides, self.request
        messages = list(request.context.messages)
        tools = self.deferred_tools
        if tools is not None and tools.function is not None:
            messages = [as_function_calls(message, tools) for message in messages]
        if self._memory and sides.is_foreign:
            restorer = tool_restorer(request)
            for index, key in self._turns():
                if key in self._memory:
                    messages[index] = restore_turn(
                        messages[index], read_stored_turn(self._memory[key]), sides.provider_name, restorer
                    )
        if sides.source.TRAITS.shows_foreign_thinking:
            is_native = sides.source.DIALECT == sides.target.DIALECT
            messages = [unmark_foreign_thinking(message, is_native=is_native) for message in messages]
        return messages


def _changed_quirks(target: Dialect) -> dict[str, Any]:
    """Return the quirks of a dialect's server that differ from those of the vendor's own."""
    quirks = split_quirks(target)[1]
    return {name: value for name, value in asdict(quirks).items() if value != getattr(PLAIN, name)}


def _encoding_settings(provider: Provider) -> list[object]:
    """Return the parts of a provider on which the encoding of a request depends."""
    return [provider.name, provider.version_header, provider.capabilities, provider.quirks]
