"""What an exchange asks of a cache of translated requests.

Rules of this file:
- Translation stores nothing between two calls. A caller that wants earlier translations to be reused passes a cache.
  The gateway's cache is `gateway/prefix_cache.py`.
- A cache only saves time: without it, an exchange sends the same bytes and reports the same losses.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from toolwire.dialects import Dialect
from toolwire.encoding.quirks import Quirks
from toolwire.types import Encoded, Message, Request


class ExchangeHooks(Protocol):
    """What an exchange does with the messages of a request before it encodes them."""

    def prepare(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages as they are encoded: without split turns, and without thinking that was only shown."""

    def memory_keys(self, messages: Sequence[Message], start: int, key_material: bytes) -> tuple[str, ...]:
        """Return the memory keys of the model's turns in `messages`.

        The first message has the index `start`, and follows a message whose key_material is `key_material`.
        """

    def key_material(self, message: Message) -> bytes:
        """Return what the memory key of a turn after `message` depends on."""


class CachedRequest(Protocol):
    """A request that begins as a cached one. Only its new messages were decoded."""

    @property
    def stream_settings(self) -> dict[str, Any]:
        """The settings of the body that are about its stream."""

    @property
    def memory_keys(self) -> list[str]:
        """The memory keys of all turns of the model."""

    @property
    def end(self) -> tuple[int, bytes]:
        """The number of messages, and the key_material of the last one."""

    @property
    def answer_request(self) -> Request:
        """The parts of the request by which its answer is read: declared tools, the output, generated ids."""

    def encode(self) -> Encoded | None:
        """Return the encoded request, or None if it must be translated as a whole."""


class CacheLookup(Protocol):
    """One request that is looked up in a cache, and stored there."""

    def find(self) -> CachedRequest | None:
        """Return the request if the cache has a beginning of it."""

    def store(self, body: dict[str, Any], request: Request, encoded: Encoded, quirks: Quirks) -> None:
        """Store the translated request, so that longer ones can be found by it."""


class TranslationCache(Protocol):
    """Requests that were translated earlier."""

    def look_up(
        self, data: bytes, source: Dialect, target: Dialect, settings: bytes, hooks: ExchangeHooks
    ) -> CacheLookup | None:
        """Begin to look up a request, or return None if the cache has no use for it.

        `data` is its body. `settings` is everything else on which its translation depends.
        """
