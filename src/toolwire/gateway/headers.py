"""Which headers go through the gateway, both ways, as one table.

Rules of this file:
- What is not in the table does not go through: no key, no cookie, no host, nothing of a hop.
- A vendor's header goes to a provider that speaks its wire, and to no other.
"""

from collections.abc import Mapping

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


def coming_down(headers: Mapping[str, str]) -> dict[str, str]:
    """Give those headers of a provider's answer that go to the client."""
    return {
        name: value
        for name, value in headers.items()
        if (name in _DOWN or name.startswith(_DOWN_BEGINNINGS)) and _is_plain(value)
    }


def kind_of(headers: Mapping[str, str], usual: str) -> str:
    """Give the content type of a provider's answer; the usual one where it says none that can be said again."""
    kind = headers.get("content-type", usual)
    return kind if _is_plain(kind) else usual


def _is_plain(value: str) -> bool:
    return len(value) <= _LONGEST and value.isascii() and value.isprintable()
