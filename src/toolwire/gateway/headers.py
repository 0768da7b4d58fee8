"""Which headers go through the gateway, both ways, as one table.

Rules of this file:
- What is not in the table does not go through: no key, no cookie, no host, nothing of a hop.
- A header of a provider that repeats one of its secrets does not go through.
- A vendor's header goes to a provider that speaks its wire, and to no other.
"""

from collections.abc import Mapping
from functools import lru_cache

from toolwire.gateway.masking import ProviderSecrets

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


def going_up(dialect: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Give those headers of a client that go to a provider of its own wire."""
    allowed = _UP.get(dialect, frozenset())
    return {name: headers[name] for name in allowed if name in headers and _is_plain(headers[name])}


def coming_down(headers: Mapping[str, str], secrets: ProviderSecrets) -> dict[str, str]:
    """Give those headers of a provider's answer that go to the client, but for one that repeats a secret."""
    names = _coming_down(tuple(headers))
    return {name: headers[name] for name in names if _is_plain(headers[name]) and not secrets.are_in(headers[name])}


@lru_cache(256)
def _coming_down(names: tuple[str, ...]) -> list[str]:
    """Choose from the names of a provider's headers: they are the same ones each time."""
    return [name for name in names if name in _DOWN or name.startswith(_DOWN_BEGINNINGS)]


def kind_of(headers: Mapping[str, str], usual: str, secrets: ProviderSecrets) -> str:
    """Give the content type of a provider's answer; the usual one where it says none that can be said again."""
    kind = headers.get("content-type", usual)
    return kind if _is_plain(kind) and not secrets.are_in(kind) else usual


def _is_plain(value: str) -> bool:
    return len(value) <= _LONGEST and value.isascii() and value.isprintable()
