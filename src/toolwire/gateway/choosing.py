"""Which provider of a route is asked first: in the order of the settings, shared by weight, and where its cache is.

Rules of this file:
- A conversation is known by its first words. It stays with the provider that answered it, for as long as caches live.
- One that fails is left alone for a while, and for as long as it asks to be; it is still asked where no other is left.
- It is pure but for the time, which it is given.
"""

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from toolwire.gateway.routes import Candidate

_CACHED = 300.0
_MOST = 10_000
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_LISTS = ("messages", "contents", "input")
_read_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read = msgspec.json.Decoder().decode


class ProviderChooser:
    """What is known of providers and conversations."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._paused: dict[str, tuple[float, int]] = {}
        self._answered: OrderedDict[bytes, tuple[float, str]] = OrderedDict()

    def order(self, candidates: Sequence[Candidate], conversation: bytes) -> list[Candidate]:
        """Give the goals of a route in the order in which they are to be asked."""
        now = self._now()
        at, kept = self._answered.get(conversation, (-math.inf, ""))
        stays = kept if now - at < _CACHED else ""

        def rank(place: int) -> tuple[bool, bool, int, float]:
            candidate = candidates[place]
            first = place  # those with weights that stand beside each other share one place
            while candidate.weight and first and candidates[first - 1].weight:
                first -= 1
            return self.is_paused(candidate), candidate.name != stays, first, _share(candidate, conversation)

        return [candidates[place] for place in sorted(range(len(candidates)), key=rank)]

    def is_paused(self, candidate: Candidate) -> bool:
        """Whether a provider is left alone now."""
        return self._paused.get(candidate.name, (-math.inf, 0))[0] > self._now()

    def failed(self, candidate: Candidate, wait: float | None) -> None:
        """Leave a provider alone for a while."""
        if len(self._paused) > _MOST:
            self._paused.clear()
        failures = self._paused.get(candidate.name, (0.0, 0))[1] + 1
        pause = min(_LONGEST_PAUSE, max(wait or 0.0, _FIRST_PAUSE * 2 ** min(failures - 1, 6)))
        self._paused[candidate.name] = self._now() + pause, failures

    def answered(self, candidate: Candidate, conversation: bytes) -> None:
        """Note who answered a conversation."""
        self._paused.pop(candidate.name, None)
        self._answered[conversation] = self._now(), candidate.name
        self._answered.move_to_end(conversation)
        if len(self._answered) > _MOST:
            self._answered.popitem(last=False)


def _share(candidate: Candidate, conversation: bytes) -> float:
    """Give the place of a goal among those that share: for each conversation the same, over many as the weights say."""
    if not candidate.weight:
        return 0.0
    drawn = int.from_bytes(
        hashlib.blake2b(candidate.name.encode(), key=conversation[:64], digest_size=8).digest(), "big"
    )
    return -math.log((drawn + 1) / (2**64 + 1)) / candidate.weight


def conversation_of(owner: str, members: Mapping[str, Any]) -> bytes:
    """Name a conversation by what its user said first; empty where nothing was said."""
    try:
        said = next((members[name] for name in _LISTS if name in members), None)
        words = b"" if said is None else _first_words(said)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return b""
    return hashlib.sha256(owner.encode() + b"\0" + words).digest() if words else b""


def _first_words(said: Any) -> bytes:
    if bytes(said).startswith(b'"'):
        return bytes(said)
    for raw in _read_list(said):
        message = _read(raw)
        if type(message) is dict and message.get("role", "user") == "user":
            content = message.get("content", message.get("parts"))
            return msgspec.json.encode(_texts(content))
    return b""


def _texts(content: Any) -> list[str]:
    parts = content if type(content) is list else [content]
    texts = [part.get("text") if type(part) is dict else part for part in parts]
    return [text for text in texts if isinstance(text, str)]
