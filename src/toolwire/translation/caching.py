"""The protocols of a cache of translated requests, as an exchange uses it.

Rules of this file:
- Translation stores nothing between two calls. A caller that wants earlier translations to be reused passes a cache.
  The gateway's cache is `gateway/prefix_cache.py`.
- A cache only saves time: without it, an exchange sends the same bytes and reports the same losses. Only
  the blocks that differ from the conversation's last request are not known without it.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from toolwire.dialects import Dialect
from toolwire.encoding.quirks import Quirks
from toolwire.providers.prompt_cache import ConversationStart
from toolwire.types import Encoded, Message, Request


class ExchangeHooks(Protocol):
    """The operations of an exchange on the messages of a request. A cache applies them to new messages."""

    def prepare(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages to encode: split turns are joined, and thinking that was only shown is removed."""

    def memory_keys(self, messages: Sequence[Message], start: int, key_material: bytes) -> tuple[str, ...]:
        """Return the memory keys of the model's turns in `messages`.

        The first message has the index `start`, and follows a message whose key material is `key_material`.
        """

    def key_material(self, message: Message) -> bytes:
        """Return the part of the next turn's memory key that depends on `message`."""


class CachedRequest(Protocol):
    """A request that extends a cached one. Only its new messages were decoded.

    If the target caches only what is marked, a request with marks is not cached.
    """

    @property
    def stream_settings(self) -> dict[str, Any]:
        """The settings of the body that are about its stream."""

    @property
    def model(self) -> str | None:
        """The model that the request asks for."""

    @property
    def start(self) -> ConversationStart:
        """The start of the conversation, from which the key of its session is derived."""

    @property
    def memory_keys(self) -> list[str]:
        """The memory keys of all turns of the model."""

    @property
    def end(self) -> tuple[int, bytes]:
        """The number of messages, and the key material of the last one."""

    @property
    def answer_request(self) -> Request:
        """The parts of the request that are needed to read the answer: declared tools, the output, generated ids."""

    def encode(self) -> Encoded | None:
        """Return the encoded request, or None if it must be translated as a whole."""


class CacheLookup(Protocol):
    """The lookup of one request in a cache."""

    def find(self) -> CachedRequest | None:
        """Return the request if the cache has a request that it extends."""

    def store(
        self, body: dict[str, Any], request: Request, encoded: Encoded, quirks: Quirks, start: ConversationStart
    ) -> None:
        """Store the translated request, so that longer ones can be found by it.

        `start` is the start of the conversation as the client sent it.
        """

    def find_changed_blocks(self, request: Request) -> Sequence[str]:
        """Return the paths of the blocks at the beginning of a request that differ from its conversation's last one."""


class TranslationCache(Protocol):
    """Requests that were translated earlier."""

    def look_up(
        self, data: bytes, source: Dialect, target: Dialect, settings: bytes, hooks: ExchangeHooks
    ) -> CacheLookup | None:
        """Return a lookup of a request, or None if the cache does not store such requests.

        `data` is the body of the request. `settings` is everything else on which its translation depends.
        """
