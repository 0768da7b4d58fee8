"""What became of requests: their losses by id, and what was told of a set of tools before.

Rule: it is bounded; a report that was not asked for in time is gone.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import asdict

from toolwire.types import Loss

_REPORTS = 2000
_LOSSES = 200_000  # in all reports together
_TOOL_SETS = 4096


class Reports:
    """The losses of the last requests, by the request's id and the key that made it."""

    def __init__(self) -> None:
        self._reports: OrderedDict[str, tuple[str, str, str, tuple[Loss, ...]]] = OrderedDict()
        self._losses = 0
        self._told: OrderedDict[int, None] = OrderedDict()

    def new(self, owner: str, wires: str, losses: Sequence[Loss]) -> Sequence[Loss]:
        """Give the losses that were not told yet: those of a set of tools are told once."""
        of_tools = [loss for loss in losses if loss.path.startswith("tools")]
        if not of_tools:
            return losses
        mark = hash((owner, wires, *of_tools))
        if mark not in self._told:
            self._told[mark] = None
            if len(self._told) > _TOOL_SETS:
                self._told.popitem(last=False)
            return losses
        self._told.move_to_end(mark)
        return [loss for loss in losses if not loss.path.startswith("tools")]

    def file(self, identity: str, owner: str, model: str, provider: str, losses: tuple[Loss, ...]) -> None:
        """Keep what became of a request."""
        self._reports[identity] = owner, model, provider, losses
        self._losses += len(losses)
        while len(self._reports) > _REPORTS or (self._losses > _LOSSES and len(self._reports) > 1):
            self._losses -= len(self._reports.popitem(last=False)[1][3])

    def find(self, identity: str, owner: str) -> dict[str, Any] | None:
        """Give the report of a request to the key that made it."""
        kept = self._reports.get(identity)
        if kept is None or kept[0] != owner:
            return None
        _, model, provider, losses = kept
        return {"request": identity, "model": model, "goal": provider, "losses": [asdict(loss) for loss in losses]}


def header_of(losses: Iterable[Loss]) -> str:
    """Count losses as a header tells them; formal ones stand in the report alone."""
    severities = [loss.severity for loss in losses]
    counts = [(severity, severities.count(severity)) for severity in ("semantic", "minor")]
    return " ".join(f"{severity}={count}" for severity, count in counts if count)
