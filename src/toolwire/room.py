"""Old tool results of one run, cleared between its turns: by the provider where it can, else here.

Rule: what was cleared stays so for the rest of the run, so that each request begins as the one before.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.clearing import NOTHING, Clearing, Cut, clear, native, window_of
from toolwire.exchange import Line
from toolwire.types import Loss, Request, Response, Usage


class Room(Struct):
    """How far the history of a run is cleared, and how much its last answer counted."""

    policy: Clearing
    cut: Cut = NOTHING
    usage: Usage | None = None

    def cleared(self, line: Line, request: Request) -> tuple[Line, Request]:
        """Give a request as it is sent, and the line on which the provider is told to clear by itself."""
        found = native(self.policy, line.provider.dialect, self.policy.window or window_of(request.model))
        if found is not None:
            provider = replace(line.provider, headers=found.beside(line.provider.headers))
            return replace(line, provider=provider, extra={**found.body, **line.extra}), request
        request, self.cut = clear(request, self.policy, self.usage, self.cut)
        return line, request

    def heard(self, outcome: Any) -> None:
        """Note what an answer counted."""
        if type(outcome) is Response and outcome.usage is not None:
            self.usage = outcome.usage

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Name what was not sent."""
        return self.cut.losses
