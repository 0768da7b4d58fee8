"""What is known of the calls of a generateContent conversation: while it is read, and while it is written.

Rules of this file:
- An id is optional. A call without one gets `gemini_N`, which is never sent; a given one is sent as it is.
- A result without an id answers the first open call of its name, else the first open call.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from toolwire.dialects.gemini.parts import WIRE
from toolwire.ledger import PLAIN, Ledger, Quirks
from toolwire.names import fingerprint, number_of

NEWEST_MEDIA = 3


class Links:
    """What is known of the calls while contents are read: their ids, and which still wait for a result."""

    __slots__ = ("_body", "_contents", "_count", "_stem", "_taken", "answering", "index", "waiting")

    def __init__(self, contents: Iterable[Any], body: dict[str, Any] | None = None) -> None:
        self._contents = contents
        self._body = body
        self._count = 0
        self._stem = ""
        self._taken: set[str] = set()
        self.waiting: list[tuple[str, str, bool]] = []
        self.answering = False
        self.index = 0

    def turn(self, *, of_model: bool) -> None:
        """Begin a content; the calls of the model's last turn wait for results."""
        self.index = 0
        if of_model and self.answering:
            self.waiting = []
        self.answering = not of_model

    def make_id(self) -> str:
        """Make an id for a call that came without one: its number in the conversation, or in the response."""
        if not self._stem:
            self._taken = set(_given_ids(self._contents))
            body = self._body
            self._stem = "gemini"
            if body is not None:
                self._stem += f"_{number_of(body.get('responseId') or fingerprint(body))}"
        made = ""
        while not made or made in self._taken:
            self._count += 1
            made = f"{self._stem}_{self._count}"
        return made

    def add(self, call_id: str, name: str, *, given: bool) -> None:
        """Note a call that waits for its result."""
        self.waiting.append((call_id, name, given))
        self.index += 1

    def answer(self, given: str | None, name: str | None) -> str | None:
        """Find the call that a result answers: by id, else by name, else by order."""
        waiting = self.waiting
        if given is not None:
            if waiting and waiting[0][0] == given:
                del waiting[0]
                return given
            found = next((entry for entry in waiting if entry[0] == given), None)
            found = found or next((entry for entry in waiting if not entry[2] and entry[1] == name), None)
        else:
            found = next((entry for entry in waiting if entry[1] == name), None)
            found = found or (waiting[0] if waiting else None)
        if found is None:
            return given
        waiting.remove(found)
        return found[0]


def _given_ids(contents: Iterable[Any]) -> Iterator[str]:
    for content in contents:
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else [parts]:
            call = (part.get("functionCall") or part.get("function_call")) if isinstance(part, dict) else None
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                yield call["id"]


class Conversation(Ledger):
    """The state of one encode, with what a result has to know of its call and of its model."""

    __slots__ = ("below", "media_in_results", "named", "sent", "skips_signatures")

    def __init__(self, quirks: Quirks = PLAIN, model: str | None = None) -> None:
        super().__init__(WIRE, quirks)
        generation = generation_of(model)
        self.media_in_results = generation is None or generation >= NEWEST_MEDIA
        self.skips_signatures = (
            generation is not None and generation >= NEWEST_MEDIA and quirks.skip_signature
        )
        self.below: list[dict[str, Any]] = []
        self.sent: set[str] = set()
        self.named: dict[str | None, str | list[str]] = {}

    def name_call(self, call_id: str | None, name: str) -> None:
        """Note what the tool of a call is called here."""
        waiting = self.named.get(call_id)
        if waiting is None:
            self.named[call_id] = name
        else:
            self.named[call_id] = [*([waiting] if type(waiting) is str else waiting), name]

    def name_next(self, call_id: str | None, names: list[str]) -> str:
        """Give the first of several calls of one id its name, and leave the others to the next results."""
        self.named[call_id] = names[1:] if len(names) > 2 else names[1]
        return names[0]


_GENERATION = re.compile(r"gemini-([0-9]{1,3})")


def generation_of(model: str | None) -> int | None:
    """Read the generation in a model's name; None where it says none."""
    if model is None or "gemini-" not in model:
        return None
    found = _GENERATION.match(model.rpartition("/")[2])
    return None if found is None else int(found[1])
