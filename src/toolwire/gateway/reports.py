"""Loss reports of the last requests, by request id, and the losses of tool sets that were already counted.

Rule: their number is limited; old reports are deleted.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import asdict

from toolwire.types import Loss

_REPORTS = 2000
_LOSSES = 200_000  # losses in all reports together
_TOOL_SETS = 4096


class Reports:
    """The losses of the last requests, by the request's id and its key."""

    def __init__(self) -> None:
        self._reports: OrderedDict[str, tuple[str, str, str, tuple[Loss, ...]]] = OrderedDict()
        self._losses = 0
        self._counted_tool_sets: OrderedDict[int, None] = OrderedDict()

    def new(self, owner: str, wires: str, losses: Sequence[Loss]) -> Sequence[Loss]:
        """Return the losses to count in a header. The losses of a set of tools are counted once, not in each turn."""
        tool_losses = [loss for loss in losses if loss.path.startswith("tools")]
        if not tool_losses:
            return losses
        digest = hash((owner, wires, *tool_losses))
        if digest not in self._counted_tool_sets:
            self._counted_tool_sets[digest] = None
            if len(self._counted_tool_sets) > _TOOL_SETS:
                self._counted_tool_sets.popitem(last=False)
            return losses
        self._counted_tool_sets.move_to_end(digest)
        return [loss for loss in losses if not loss.path.startswith("tools")]

    def file(self, identity: str, owner: str, model: str, provider: str, losses: tuple[Loss, ...]) -> None:
        """Store the report of a request."""
        self._reports[identity] = owner, model, provider, losses
        self._losses += len(losses)
        while len(self._reports) > _REPORTS or (self._losses > _LOSSES and len(self._reports) > 1):
            self._losses -= len(self._reports.popitem(last=False)[1][3])

    def find(self, identity: str, owner: str) -> dict[str, Any] | None:
        """Return the report of a request, if it is stored and the request was made with this key."""
        report = self._reports.get(identity)
        if report is None or report[0] != owner:
            return None
        _, model, provider, losses = report
        return {"request": identity, "model": model, "provider": provider, "losses": [asdict(loss) for loss in losses]}


def header_of(losses: Iterable[Loss]) -> str:
    """Return the counts of losses for a header. Formal losses are only in the report."""
    severities = [loss.severity for loss in losses]
    counts = [(severity, severities.count(severity)) for severity in ("semantic", "minor")]
    return " ".join(f"{severity}={count}" for severity, count in counts if count)
