"""The headers that the gateway forwards, in both directions, as one table.

Rules of this file:
- A header that is not in the table is not forwarded: no key, no cookie, no host, no hop-by-hop header.
- A provider's header that contains one of its secrets is not forwarded.
- A vendor's header is forwarded only to providers that speak the vendor's wire.
"""

from collections.abc import Mapping
from functools import lru_cache

from toolwire.gateway.masking import ProviderSecrets

# anthropic 2.12.0, openai 3.54.0, google-genai 3.4.0 and claude-code 2.1, codex 0.169, as of 2026-11-22.
_TO_PROVIDER: Mapping[str, frozenset[str]] = {
    "anthropic": frozenset({"anthropic-beta", "anthropic-version"}),
    "openai-chat": frozenset({"openai-beta"}),
    "openai-responses": frozenset({"openai-beta", "session_id", "conversation_id"}),
    "gemini": frozenset({"x-goog-api-client"}),
    "ollama": frozenset(),
}
_TO_CLIENT = frozenset({"retry-after", "retry-after-ms", "x-should-retry", "openai-processing-ms", "openai-version"})
_TO_CLIENT_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-")
# Headers in which clients name their session: codex 0.169 (`session_id`, earlier `conversation_id`) and opencode 1.1,
# as of 2026-11-27. Claude Code names it in the body.
_SESSIONS = ("session_id", "x-session-id", "x-opencode-session", "conversation_id")
_LONGEST = 8192


def client_session_of(headers: Mapping[str, str]) -> str:
    """Return the name of the client's session in `headers`. Empty if there is none."""
    return next((headers[name] for name in _SESSIONS if headers.get(name)), "")


def headers_to_provider(dialect: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the client's headers to send to a provider of its own wire."""
    allowed = _TO_PROVIDER.get(dialect, frozenset())
    return {name: headers[name] for name in allowed if name in headers and _is_plain(headers[name])}


def headers_to_client(headers: Mapping[str, str], secrets: ProviderSecrets) -> dict[str, str]:
    """Return the provider's headers to send to the client, without those that contain a secret."""
    names = _names_to_client(tuple(headers))
    return {name: headers[name] for name in names if _is_plain(headers[name]) and not secrets.are_in(headers[name])}


@lru_cache(256)
def _names_to_client(names: tuple[str, ...]) -> list[str]:
    """Return the header names to forward. Cached, because a provider sends the same names each time."""
    return [name for name in names if name in _TO_CLIENT or name.startswith(_TO_CLIENT_PREFIXES)]


def content_type_of(headers: Mapping[str, str], usual: str, secrets: ProviderSecrets) -> str:
    """Return the content type of a provider's answer. Return `usual` if it has none, or none that may be repeated."""
    content_type = headers.get("content-type", usual)
    return content_type if _is_plain(content_type) and not secrets.are_in(content_type) else usual


def _is_plain(value: str) -> bool:
    return len(value) <= _LONGEST and value.isascii() and value.isprintable()
