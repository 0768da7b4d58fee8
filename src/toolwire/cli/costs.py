"""The totals of a session: requests, tokens and money, for each model."""

from collections.abc import Iterator

from msgspec import Struct

from toolwire.cli.display import usage_summary
from toolwire.loop import Done, add_usage
from toolwire.types import Usage


class _Total(Struct):
    """The requests of one model. `is_priced` is false as soon as the price of one request is unknown."""

    requests: int = 0
    usage: Usage | None = None
    cost: float = 0.0
    is_priced: bool = True


class Costs:
    """The totals of a session by provider and model."""

    def __init__(self) -> None:
        self._totals: dict[str, _Total] = {}

    def add(self, provider: str, model: str | None, done: Done) -> None:
        """Add a run of requests."""
        total = self._totals.setdefault(f"{provider}/{model}", _Total())
        total.requests += done.turns
        total.usage = add_usage(total.usage, done.usage)
        total.cost += done.cost or 0.0
        total.is_priced = total.is_priced and (done.cost is not None or not done.turns)

    def lines(self) -> Iterator[str]:
        """Yield a line for each model, and one for all of them if there are several."""
        for name, total in self._totals.items():
            yield _line(name, total)
        if len(self._totals) > 1:
            totals = list(self._totals.values())
            usage = None
            for total in totals:
                usage = add_usage(usage, total.usage)
            is_priced = all(total.is_priced for total in totals)
            together = _Total(sum(one.requests for one in totals), usage, sum(one.cost for one in totals), is_priced)
            yield _line("in all", together)


def _line(name: str, total: _Total) -> str:
    counts = usage_summary(total.usage, total.cost if total.is_priced and total.requests else None)
    requests = f"{total.requests} request{'s' if total.requests != 1 else ''}"
    price = "" if total.is_priced else "the price is not known"
    return f"{name}: {', '.join(filter(None, [requests, counts, price]))}"
