"""The rows of the usage ledger, and the rows of a process that wait to be written.

Rules of this file:
- A row has no text of a client but the name of a model that the gateway knows. The client's session is a hash.
- A row is about one request. Refusals that are equal share a row, so that a client in a loop does not fill the disk.
- The number of rows that wait is bounded. Above it, equal requests share a row: their sums stay exact. Only a row that
  equals none of those that wait is lost then, and it is counted.
"""

from collections.abc import Hashable
from datetime import date, timedelta
from functools import lru_cache

from msgspec import Struct

_MOST_TOKENS = 1 << 40
_MOST_COST = 1 << 46
MOST_ROWS = 20_000
"""How many rows of single requests may wait while the database is unavailable."""
MOST_SHARED_ROWS = 5_000
"""How many more rows may wait, each of which is about several equal requests."""


class UsageRow(Struct, gc=False):
    """One answered request. The fields are the columns of the table, in order.

    In a row about several requests, the tokens, the costs and the losses are sums. All other fields are those of the
    first request.
    """

    id: str
    """The time and the end of the request's id: rows are stored in the order of time, so their table needs no index."""
    request: str
    """The id that the gateway gave the request."""
    time: float
    """When the response ended, in seconds since 1970."""
    day: str
    """The day of `time` in UTC."""
    key: str
    """The id of the client's key. Empty if the gateway has no keys."""
    key_name: str
    team: str
    user_name: str
    session: str
    """A hash of the session that the client names. Empty if it names none."""
    wire: str
    action: str
    """The operation that was requested: `answer`, `count`, `compact`, or `other`, such as embeddings."""
    asked: str
    """The model that the client named, if the gateway knows it."""
    provider: str
    """The provider that was asked last. Empty if none was asked."""
    model: str
    """The model that a provider may bill, as `provider/model`. Empty if there is none."""
    status: int
    ending: str
    requests: int
    """How many requests the row is about."""
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    """The tokens of the input that were read from a provider's prompt cache."""
    cache_write_tokens: int
    cost_nano: int
    """The cost in billionths of a US dollar."""
    estimated: bool
    seconds: float
    first_byte: float | None
    """The seconds until the response began. None if it did not begin."""
    formal_losses: int
    minor_losses: int
    semantic_losses: int

    @property
    def was_refused(self) -> bool:
        """True if the gateway asked no provider."""
        return not self.provider

    @property
    def likeness(self) -> Hashable:
        """The values that are equal in two rows which may become one row."""
        return (
            self.day,
            self.key,
            self.wire,
            self.action,
            self.asked,
            self.provider,
            self.model,
            self.status,
            self.ending,
            self.estimated,
        )

    def bound(self) -> None:
        """Limit the amounts: a provider that reports more must not stop the ledger."""
        tokens = self.input_tokens + self.output_tokens + self.cached_tokens + self.cache_write_tokens
        if tokens <= _MOST_TOKENS and self.cost_nano <= _MOST_COST:
            return
        self.input_tokens = min(self.input_tokens, _MOST_TOKENS)
        self.output_tokens = min(self.output_tokens, _MOST_TOKENS)
        self.cached_tokens = min(self.cached_tokens, _MOST_TOKENS)
        self.cache_write_tokens = min(self.cache_write_tokens, _MOST_TOKENS)
        self.cost_nano = min(self.cost_nano, _MOST_COST)

    def absorb(self, other: "UsageRow") -> None:
        """Add the requests of `other` to this row."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.cached_tokens += other.cached_tokens
        self.cache_write_tokens += other.cache_write_tokens
        self.cost_nano += other.cost_nano
        self.formal_losses += other.formal_losses
        self.minor_losses += other.minor_losses
        self.semantic_losses += other.semantic_losses


def row_id(time: float, request: str = "") -> str:
    """Return the id of the row of a request. Without a request it comes before all rows of this time or later."""
    return f"{max(0, int(time * 1000)):012x}{request[-12:]}"


def day_of(time: float) -> str:
    """Return the day of a time, in UTC."""
    return _day(int(time // 86_400))


@lru_cache(256)
def _day(number: int) -> str:
    return (date(1970, 1, 1) + timedelta(number)).isoformat()


class WaitingRows:
    """The rows that a process has not begun to write. `merged` and `lost` count requests without a row of their own."""

    def __init__(self) -> None:
        self._rows: list[UsageRow] = []
        self._shared: dict[Hashable, UsageRow] = {}
        self.merged = 0
        self.lost = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: UsageRow) -> None:
        """Add a row, or count its request in a row that waits."""
        row.bound()
        is_full = len(self._rows) >= MOST_ROWS
        if not (is_full or row.was_refused):
            self._rows.append(row)
            return
        likeness = row.likeness
        shared = self._shared.get(likeness)
        if shared is not None:
            shared.absorb(row)
            self.merged += is_full
        elif len(self._rows) < MOST_ROWS + MOST_SHARED_ROWS:
            self._shared[likeness] = row
            self._rows.append(row)
        else:
            self.lost += 1

    def take(self, most: int) -> list[UsageRow]:
        """Remove and return the rows that have waited longest. No request is added to them any more."""
        taken, self._rows = self._rows[:most], self._rows[most:]
        self._shared.clear()
        return taken
