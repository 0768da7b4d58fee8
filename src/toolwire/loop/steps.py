"""The steps of the tool loop, their outcomes, and the limits.

Rules of this file:
- A step is a value: it can be stored, sent to another process, and compared.
- `Done` holds the reason for the end of a run, and all that the run added to the history.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal

from msgspec import Struct
from msgspec.structs import replace

from toolwire.types import Error, FinishReason, Loss, Message, Request, Response, Text, ToolCall, ToolResult, Usage
from toolwire.types.summary import summarize

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

Ending = Literal[
    "answer", "calls", "unread_call", "terminal", "limit", "budget", "no_progress", "cancelled", "refused", "error"
]
"""Why a run ended. `unread_call`: the answer has a call of an offered tool in its text, which was not parsed."""
# The tool for structured output, if the server has no other method. Users never see its calls.
ANSWER = "__structured_output__"


class LoopLimits(Struct, frozen=True):
    """When a run without an answer ends: after so many turns, tokens, seconds, or so much money (USD).

    Seconds are checked during an answer and while tools run, tokens and cost during a stream. If a server reports no
    tokens, or they have no price, a run with that limit ends at once with a reason. `repeats` is how often the same
    calls may have the same results in consecutive turns. `blanks` is how often an answer may be empty. `repairs` is how
    often the model may correct an answer that does not fit.

    >>> from toolwire import LoopLimits, ToolCall, generate
    >>> from toolwire.testing import simulate
    >>> def ping() -> str:
    ...     return "pong"
    >>> with simulate([ToolCall(None, "ping", {})]) as model:
    ...     server = {"base_url": model.url, "api_key": "any"}
    ...     generate("Ping.", "openai", "gpt-6-sol", tools=[ping], limits=LoopLimits(turns=1), **server).ending
    'limit'
    """

    turns: int | None = 25
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    repeats: int = 3
    blanks: int = 2
    repairs: int = 2


class AskModel(Struct, frozen=True):
    """Send this request, and send back the `Response` or an `Error`. `tokens` and `cost` may still be used."""

    request: Request
    turn: int
    tokens: int | None = None
    cost: float | None = None


class RunTools(Struct, frozen=True):
    """Run these calls, and send back their results. `tokens` and `cost` may still be used."""

    calls: list[ToolCall]
    turn: int
    tokens: int | None = None
    cost: float | None = None


class Done(Struct, Generic[T_co], frozen=True):
    """The end of a run. `messages` are the messages that it added, `calls` the calls that did not run.

    `earlier` are the messages with which it began, the prompt included. `history` are both: a run with
    `messages=done.history` continues the conversation.

    `losses` are the parts of the requests that the provider's wire could not express, and `output` is the parsed value;
    clients set both. It has the properties of the last answer: `message`, `content`, `tool_calls`, `finish_reason`,
    `model`.

    >>> from toolwire import generate
    >>> from toolwire.testing import simulate
    >>> with simulate(["Hello."]) as model:
    ...     done = generate("Hi.", "openai", "gpt-6-sol", base_url=model.url, api_key="any")
    >>> (done.ending, done.content, done.turns, [message.role for message in done.messages])
    ('answer', 'Hello.', 1, ['assistant'])
    """

    ending: Ending
    messages: list[Message]
    response: Response | None = None
    usage: Usage | None = None
    turns: int = 0
    reason: str = ""
    error: Error | None = None
    calls: list[ToolCall] = []
    cost: float | None = None
    losses: tuple[Loss, ...] = ()
    output: T_co = None  # type: ignore[assignment]
    earlier: list[Message] = []

    def __repr__(self) -> str:
        return summarize(self, skipped=("response", "earlier"))

    @property
    def history(self) -> list[Message]:
        """The whole conversation: the messages with which the run began, and those that it added.

        The system prompt is not part of it, unless it was passed as a message.
        """
        return [*self.earlier, *self.messages]

    @property
    def message(self) -> Message:
        """The last answer; its content is a string if it is only text."""
        message = self.response.message if self.response is not None else Message("assistant", [])
        if message.parts and all(type(part) is Text for part in message.parts):
            return replace(message, content=message.text)
        return message

    @property
    def content(self) -> str | None:
        """The final text, or None."""
        return self.message.text or None

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls of the last answer."""
        return self.message.tool_calls

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the last answer ended."""
        return self.response.finish_reason if self.response is not None else None

    @property
    def model(self) -> str | None:
        """The model that answered."""
        return self.response.model if self.response is not None else None

    @property
    def provider_state(self) -> dict[str, Any] | None:
        """The state of the conversation at the provider."""
        return self.response.provider_state if self.response is not None else None


class Broken(Struct, frozen=True):
    """Sent back instead of a response: the part that arrived, and the error."""

    response: Response
    error: Error


class Cancelled(Struct, frozen=True):
    """Sent back instead of an outcome, to end the run.

    `response` is the partial answer, `results` are those of the calls that had ended. `ending` is `budget` if a limit
    was the reason.
    """

    reason: str = "the run was cancelled"
    response: Response | None = None
    results: Sequence[ToolResult] = ()
    ending: Ending = "cancelled"


LoopStep = AskModel | RunTools | Done
"""A step of the loop."""
Outcome = Response | Error | Broken | Cancelled | list[ToolResult]
"""Sent back to the loop: an answer, results, or the reason for none."""
