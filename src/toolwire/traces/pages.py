"""What is asked of a store and what it answers, as values.

Rules of this file:
- A filter that is not given means any; the rows of a page are traces, in the order of their positions.
"""

from datetime import datetime
from typing import Any, TypedDict

from msgspec import Struct

from toolwire.traces.trace import Trace

LIMIT = 100
MOST = 10_000


class Filters(TypedDict, total=False):
    """Which traces are meant."""

    tenant: Any
    conversation: Any
    tool: str | None
    result_type: str | None
    ending: str | None
    since: datetime | None
    until: datetime | None


class Page(Struct, frozen=True):
    """Some traces, and where the next page begins: `after=page.next`, None at the end."""

    rows: tuple[Trace, ...]
    next: int | None = None


class Stats(Struct, frozen=True):
    """Sums over the calls of one tool with one ending."""

    tool_name: str
    result_type: str
    ending: str
    calls: int
    mean_ms: float
    longest_ms: float
