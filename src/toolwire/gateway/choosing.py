"""The order of a route's providers: as in the settings, shared by weight, and first the one with the cache.

Rules of this file:
- A conversation is recognized by its first message. It stays with the provider that answered it, for as long as
  provider caches last.
- The gateway pauses a provider that fails: for a while, and for as long as the provider asks. It still asks a paused
  provider if no other is left.
- This module is pure, except for the clock, which is passed in.
"""

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from toolwire.gateway.routes import Candidate

_CACHE_SECONDS = 300.0
_MAX_REMEMBERED = 10_000
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class ProviderChooser:
    """The pauses of providers, and the provider that answered each conversation."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._paused: dict[str, tuple[float, int]] = {}
        self._answered: OrderedDict[bytes, tuple[float, str]] = OrderedDict()

    def order(self, candidates: Sequence[Candidate], conversation: bytes) -> list[Candidate]:
        """Return `candidates` in the order in which to ask them."""
        now = self._now()
        answered_at, last_provider = self._answered.get(conversation, (-math.inf, ""))
        preferred = last_provider if now - answered_at < _CACHE_SECONDS else ""

        def rank(index: int) -> tuple[bool, bool, int, float]:
            candidate = candidates[index]
            first = index  # neighbours with weights share one place in the order
            while candidate.weight and first and candidates[first - 1].weight:
                first -= 1
            return (
                self.is_paused(candidate),
                candidate.name != preferred,
                first,
                _weighted_rank(candidate, conversation),
            )

        return [candidates[index] for index in sorted(range(len(candidates)), key=rank)]

    def is_paused(self, candidate: Candidate) -> bool:
        """Return True if the gateway has paused the provider."""
        return self._paused.get(candidate.name, (-math.inf, 0))[0] > self._now()

    def failed(self, candidate: Candidate, wait: float | None) -> None:
        """Pause a provider after a failure. `wait` are the seconds that it asked for."""
        if len(self._paused) > _MAX_REMEMBERED:
            self._paused.clear()
        failures = self._paused.get(candidate.name, (0.0, 0))[1] + 1
        pause = min(_LONGEST_PAUSE, max(wait or 0.0, _FIRST_PAUSE * 2 ** min(failures - 1, 6)))
        self._paused[candidate.name] = self._now() + pause, failures

    def answered(self, candidate: Candidate, conversation: bytes) -> None:
        """Note which provider answered a conversation, and end its pause."""
        self._paused.pop(candidate.name, None)
        self._answered[conversation] = self._now(), candidate.name
        self._answered.move_to_end(conversation)
        if len(self._answered) > _MAX_REMEMBERED:
            self._answered.popitem(last=False)


def _weighted_rank(candidate: Candidate, conversation: bytes) -> float:
    """Return the rank of a candidate among those with weights: fixed for a conversation, shared by weight over many."""
    if not candidate.weight:
        return 0.0
    random_number = int.from_bytes(
        hashlib.blake2b(candidate.name.encode(), key=conversation[:64], digest_size=8).digest(), "big"
    )
    return -math.log((random_number + 1) / (2**64 + 1)) / candidate.weight
