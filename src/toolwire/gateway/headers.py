"""Which headers go through the gateway, both ways, as one table.

Rules of this file:
- What is not in the table does not go through: no key, no cookie, no host, nothing of a hop.
- A provider may repeat its key in an answer; it does not go through.
- A vendor's header goes to a provider that speaks its wire, and to no other.
"""

from collections.abc import Mapping
from functools import lru_cache

from toolwire.providers import Provider
from toolwire.providers.addressing import key_of
from toolwire.scrubbing import Known

# anthropic 2.12.0, openai 3.54.0, google-genai 3.4.0 and claude-code 2.1, codex 0.169, as of 2026-11-22.
_UP: Mapping[str, frozenset[str]] = {
    "anthropic": frozenset({"anthropic-beta", "anthropic-version"}),
    "openai-chat": frozenset({"openai-beta"}),
    "openai-responses": frozenset({"openai-beta", "session_id", "conversation_id"}),
    "gemini": frozenset({"x-goog-api-client"}),
    "ollama": frozenset(),
}
_DOWN = frozenset({"retry-after", "retry-after-ms", "x-should-retry", "openai-processing-ms", "openai-version"})
_DOWN_BEGINNINGS = ("x-ratelimit-", "anthropic-ratelimit-")
_LONGEST = 8192
_NO_WORD = 20  # a shorter key, such as `EMPTY`, may be a word of an answer


def going_up(dialect: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Give those headers of a client that go to a provider of its own wire."""
    allowed = _UP.get(dialect, frozenset())
    return {name: headers[name] for name in allowed if name in headers and _is_plain(headers[name])}


def coming_down(headers: Mapping[str, str], key: str) -> dict[str, str]:
    """Give those headers of a provider's answer that go to the client, but for one that repeats the key."""
    names = _coming_down(tuple(headers))
    return {name: headers[name] for name in names if _is_plain(headers[name]) and not _holds(headers[name], key)}


@lru_cache(256)
def _coming_down(names: tuple[str, ...]) -> list[str]:
    """Choose from the names of a provider's headers: they are the same ones each time."""
    return [name for name in names if name in _DOWN or name.startswith(_DOWN_BEGINNINGS)]


def secret_of(provider: Provider) -> str:
    """Give a provider's key, where it can be told from a word."""
    key = key_of(provider)
    return key if len(key) >= _NO_WORD else ""


def hidden(data: bytes, secret: str) -> bytes:
    """Take a provider's key out of an answer, or a piece of one."""
    return without_key(data, secret) if secret and secret.encode() in data else data


class Hiding:
    """Takes a provider's key out of an answer that comes in pieces, also where two of them cut it."""

    __slots__ = ("_key", "_left", "_secret")

    def __init__(self, secret: str) -> None:
        self._secret, self._key, self._left = secret, secret.encode(), b""

    def feed(self, piece: bytes) -> bytes:
        """Give a piece without the key; an end that may begin the key waits for the next one."""
        if not self._key:
            return piece
        piece = hidden(self._left + piece, self._secret)
        most = 0 if piece.endswith(b"\n") else min(len(piece), len(self._key) - 1)
        held = next((size for size in range(most, 0, -1) if piece.endswith(self._key[:size])), 0)
        self._left = piece[len(piece) - held :]
        return piece[: len(piece) - held] if held else piece

    def close(self) -> bytes:
        """Give what waits at the end of the answer."""
        left, self._left = self._left, b""
        return left


def without_key(data: bytes, key: str) -> bytes:
    """Take the provider's key out of what it said, also where it is encoded."""
    for form in _forms(key):
        data = data.replace(form.encode(), b"[hidden]")
    return data


def _holds(value: str, key: str) -> bool:
    return any(form in value for form in _forms(key))


@lru_cache(256)
def _forms(key: str) -> tuple[str, ...]:
    return tuple(Known([key]).forms)


def kind_of(headers: Mapping[str, str], usual: str) -> str:
    """Give the content type of a provider's answer; the usual one where it says none that can be said again."""
    kind = headers.get("content-type", usual)
    return kind if _is_plain(kind) else usual


def _is_plain(value: str) -> bool:
    return len(value) <= _LONGEST and value.isascii() and value.isprintable()
