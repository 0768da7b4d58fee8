"""The contents of a conversation while it is written: which of them what comes from elsewhere may join.

Rules of this file:
- The first call of a turn from elsewhere says for itself that it has no signature, where the model wants one.
  It does so in every turn, not only in the last: what was sent once never changes.
"""

from typing import Any

from toolwire.dialects.gemini.links import Conversation
from toolwire.dialects.gemini.parts import SIGNATURE

SKIP = "skip_thought_signature_validator"


class Turns:
    """The contents written so far, and the two that what comes from elsewhere may still join.

    `open` holds the parts of the user's last content, and `waiting` says whether words are still to come to
    it; `said` holds the parts of the model's last one.
    """

    __slots__ = ("bodies", "ledger", "open", "said", "waiting")

    def __init__(self, ledger: Conversation) -> None:
        self.ledger = ledger
        self.bodies: list[Any] = []
        self.open: list[Any] | None = None
        self.said: list[Any] | None = None
        self.waiting = False

    def own(self, body: Any) -> None:
        """Add a content that was read here; nothing joins it."""
        if self.ledger.below:
            self.settle()
        self.bodies.append(body)
        self.open = self.said = None

    def model(self, parts: list[Any]) -> None:
        """Add what the model said elsewhere, to its last content if nobody spoke in between."""
        if not parts:
            return
        if self.ledger.below:
            self.settle()
        if self.said is None:
            self.said = parts
            self.bodies.append({"role": "model", "parts": parts})
        else:
            self.said += parts
        self.open = None
        if self.ledger.skips_signatures:
            _excuse_first_call(self.said)

    def user(self, parts: list[Any], *, more: bool = False) -> None:
        """Add what the user says, to a content that waits for it; `more` says that it goes on waiting."""
        if not more and self.ledger.below:
            self.settle()
        if self.open is None or not (self.waiting or more):
            self.open = parts
            self.bodies.append({"role": "user", "parts": parts})
        else:
            self.open += parts
        self.waiting = more
        self.said = None

    def result(self, part: Any) -> None:
        """Add one result to a content that waits for it."""
        if self.open is not None and self.waiting:
            self.open.append(part)
        else:
            self.user([part], more=True)

    def settle(self) -> None:
        """Put the media of results below the last result of their turn."""
        if self.ledger.below and self.open is not None:
            self.open += self.ledger.below
            self.ledger.below = []


def _excuse_first_call(parts: list[Any]) -> None:
    calls = (place for place, part in enumerate(parts) if type(part) is dict and "functionCall" in part)
    place = next(calls, None)
    if place is not None and SIGNATURE not in parts[place]:
        parts[place] = {**parts[place], SIGNATURE: SKIP}
