"""What a scripted answer is made of: steps, done in the order in which they are written.

Rules of this file:
- A step is a value and does nothing itself. Parts of a message, texts, usage and errors are steps too.
- Where a step stands says when it happens: a `Wait` before the first part delays the first byte, a `Cut`
  between two parts closes the connection between them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolwire.types import Error, FinishReason, Message, Part, Request, Response, Usage


class Wait(Struct, frozen=True):
    """Wait before what follows."""

    seconds: float


class Pace(Struct, frozen=True):
    """Wait between each two events of what follows."""

    seconds: float


class Cut(Struct, frozen=True):
    """Close the connection: here, or once so many events of the stream or bytes of the body were sent.

    A cut before anything was said gives no answer at all. `reset` closes it as a crash does.
    """

    events: int | None = None
    bytes: int | None = None
    reset: bool = False


class Raw(Struct, frozen=True):
    """Send these bytes as they are; without any other part they are the whole body."""

    data: bytes
    status: int = 200
    content_type: str | None = None


class Fail(Struct, frozen=True):
    """Answer with an error; after the first part, end the stream with one."""

    error: Error
    retry_after: float | None = None
    headers: Mapping[str, str] = {}


class Finish(Struct, frozen=True):
    """Say why the answer ended, where its parts do not say it."""

    reason: FinishReason
    stop_sequence: str | None = None


class Expect(Struct, frozen=True, kw_only=True):
    """What a request must say; a request that does not is refused, and the simulation fails.

    `last` stands in the last message, `system` in the system prompt; `tools` are offered; `results` gives a
    text for each tool whose result the request must bring; `messages` is how many there are; `where` gives
    something true, or raises.
    """

    last: str | None = None
    system: str | None = None
    model: str | None = None
    tools: Sequence[str] | None = None
    results: Mapping[str, str] | None = None
    messages: int | None = None
    where: Callable[[Request], object] | None = None


ScriptStep = Response | Message | str | Part | Usage | Error | Fail | Wait | Pace | Cut | Raw | Finish | Expect
STEPS: tuple[type, ...] = (
    *(Response, Message, str, Usage, Error, Fail, Wait, Pace, Cut, Raw, Finish, Expect),
    *Part.__args__,
)
Player = Callable[[Request, Any], Any]
