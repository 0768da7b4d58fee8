"""The tool loop without I/O: a generator of steps that faces, tests and durable engines drive alike.

Rules of this file:
- A step says what is wanted next; what came of it is sent back: `AskModel` wants a `Response`, an `Error` or
  what came before one (`Broken`), `RunTools` the results of its calls, and `Done` nothing more. Sending
  `Cancelled` ends the run at any step.
- The history is valid at every step: each call has exactly one result, in the order of the calls.
- A call that came broken is answered with what to mend, and never run. A forced choice is released once the
  model has called.
- A run always ends, and `Done` says why.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from toolwire.circles import circle, fingerprint
from toolwire.outcome import failure, invalid
from toolwire.types import (
    Error,
    FinishReason,
    Loss,
    Message,
    Request,
    Response,
    Text,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
)

Ending = Literal[
    "answer", "calls", "terminal", "limit", "budget", "no_progress", "cancelled", "refused", "error"
]
MAX_TURNS = 25
REPEATS = 3
BLANKS = 2
REFUSALS = frozenset({"content_filter", "refusal"})


class LoopLimits(Struct, frozen=True):
    """When a run ends that has no answer: after so many turns, tokens, seconds, or so much money (USD).

    `repeats` is how often the same calls may have the same results, one turn after the other; `blanks` how
    often an answer may say nothing at all.
    """

    turns: int | None = MAX_TURNS
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    repeats: int = REPEATS
    blanks: int = BLANKS


class AskModel(Struct, frozen=True):
    """Send this request; send back the `Response`, or an `Error`."""

    request: Request
    turn: int


class RunTools(Struct, frozen=True):
    """Run these calls; send back their results."""

    calls: list[ToolCall]
    turn: int


class Done(Struct, frozen=True):
    """The run is over. `messages` are those that it added, `calls` those that nobody has run.

    `losses` are what could not be said to the provider; who sends the requests knows them.
    It can be read like the last answer: `message`, `content`, `tool_calls`, `finish_reason`, `model`.
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

    @property
    def message(self) -> Message:
        """The last answer; its content is a string where it has nothing but words."""
        message = self.response.message if self.response is not None else Message("assistant", [])
        if message.parts and all(type(part) is Text for part in message.parts):
            return replace(message, content=message.text)
        return message

    @property
    def content(self) -> str | None:
        """The final text, or None where there is none."""
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
        """What the provider keeps of the conversation."""
        return self.response.provider_state if self.response is not None else None


class Broken(Struct, frozen=True):
    """Sent back instead of a response: what had come of it, and what went wrong."""

    response: Response
    error: Error


class Cancelled(Struct, frozen=True):
    """Sent back instead of an outcome: end the run; `response` is what had come of an answer."""

    reason: str = "the run was cancelled"
    response: Response | None = None


Step = AskModel | RunTools | Done
Outcome = Response | Error | Broken | Cancelled | list[ToolResult]
Loop = Generator[Step, Any, Done]
Price = Callable[[Usage | None, str | None], float | None]


def tool_loop(
    request: Request,
    *,
    limits: LoopLimits | None = None,
    auto_tools: bool = True,
    terminal_tool: str | None = None,
    price: Price | None = None,
    elapsed: Callable[[], float] | None = None,
) -> Loop:
    """Lead a conversation with tools to its end.

    Without `auto_tools` nothing is run: the run ends with the calls. `terminal_tool` names a tool whose call
    ends the run without being run. `price` says what a usage of a model costs, `elapsed` how many seconds
    have passed; both are asked for their budgets only.
    """
    run = _Run(request, limits or LoopLimits(), price, elapsed)
    done = yield from run.steps(auto_tools=auto_tools, terminal_tool=terminal_tool)
    yield done
    return done


class _Run:
    """One run: what was added to the history, and what it cost."""

    def __init__(
        self, request: Request, limits: LoopLimits, price: Price | None, elapsed: Callable[[], float] | None
    ) -> None:
        self.request = request
        self.limits = limits
        self.price = price
        self.elapsed = elapsed
        self.added: list[Message] = []
        self.response: Response | None = None
        self.usage: Usage | None = None
        self.cost: float | None = None
        self.turns = 0
        self.blanks = 0
        self.seen: list[str] = []

    def steps(self, *, auto_tools: bool, terminal_tool: str | None) -> Generator[Step, Any, Done]:
        while True:
            ended = self._over_budget()
            if ended is not None:
                return ended
            answer = yield AskModel(self._present(), self.turns)
            ended = self._take(answer)
            if ended is not None:
                return ended
            calls = self._calls()
            if not calls:
                ended = self._without_calls()
                if ended is not None:
                    return ended
                continue
            waiting = [call for call in calls if call.runs]
            final = next((call for call in waiting if call.name == terminal_tool), None)
            if final is not None or not auto_tools:
                return self._done("calls" if final is None else "terminal", calls=waiting)
            results: Any = []
            if waiting:
                results = yield RunTools(waiting, self.turns - 1)
            ended = self._answer(calls, results)
            if ended is not None:
                return ended

    def _present(self) -> Request:
        """Give the request of the present turn."""
        request = self.request
        if not self.added:
            return request
        context = replace(
            request.context,
            messages=[*request.context.messages, *self.added],
            provider_state=self._state(request.context.provider_state),
        )
        choice = request.tool_choice
        released = (
            choice is not None and choice.mode == "required" and any(one.tool_calls for one in self.added)
        )
        return replace(request, context=context, tool_choice=ToolChoice("auto") if released else choice)

    def _state(self, given: dict[str, Any] | None) -> dict[str, Any] | None:
        """Give what the provider keeps by now, if the run is led with that at all."""
        state = self.response.provider_state if self.response is not None else None
        return given if given is None or state is None else state

    def _over_budget(self) -> Done | None:
        limits, used = self.limits, self.usage.total_tokens if self.usage is not None else 0
        if limits.turns is not None and self.turns >= limits.turns:
            return self._done("limit", reason=f"{limits.turns} turns brought no answer")
        if limits.tokens is not None and used >= limits.tokens:
            return self._done("budget", reason=f"{used} of {limits.tokens} tokens are used")
        if limits.cost is not None and (self.cost or 0.0) >= limits.cost:
            return self._done("budget", reason=f"{self.cost:.4f} of {limits.cost:.4f} USD are used")
        if (
            limits.seconds is not None
            and self.elapsed is not None
            and (spent := self.elapsed()) >= limits.seconds
        ):
            return self._done("budget", reason=f"{spent:.1f} of {limits.seconds:g} seconds have passed")
        return None

    def _take(self, answer: Any) -> Done | None:
        """Take what the model said."""
        match answer:
            case Cancelled(response=partial):
                if partial is not None:
                    self._keep(partial)
                    self._answer(self._calls(), [], "not run: the answer broke off")
                return self._done("cancelled", reason=answer.reason)
            case Error():
                return self._done("error", reason=answer.message, error=answer)
            case Broken(response=partial, error=error):
                self._keep(partial)
                self._answer(self._calls(), [], "not run: the answer broke off")
                return self._done("error", reason=error.message, error=error)
            case Response():
                self._keep(answer)
                return self._without_answer(answer)
        raise TypeError(f"a Response, an Error or Cancelled is wanted, not {type(answer).__name__}")

    def _keep(self, answer: Response) -> None:
        self.turns += 1
        self.response = answer
        self.usage = add_usage(self.usage, answer.usage)
        if self.price is not None:
            cost = self.price(answer.usage, answer.model or self.request.model)
            self.cost = self.cost if cost is None else (self.cost or 0.0) + cost
        if answer.choices and (answer.message.content not in ("", [])):
            self.added.append(answer.message)

    def _without_answer(self, answer: Response) -> Done | None:
        """End with an answer that is none."""
        if answer.finish_reason in REFUSALS:
            self._answer(self._calls(), [], "not run: the answer was refused")
            return self._done("refused", reason=f"the model's answer ended with {answer.finish_reason}")
        if answer.finish_reason in ("error", "incomplete"):
            self._answer(self._calls(), [], "not run: the answer broke off")
            return self._done("error", reason="the answer broke off before it was whole")
        return None

    def _calls(self) -> list[ToolCall]:
        message = self.response.message if self.response is not None else None
        return [part for part in message.parts if type(part) is ToolCall] if message is not None else []

    def _without_calls(self) -> Done | None:
        """End with an answer; a pause is gone on from, and an answer that says nothing is asked for again."""
        response = self.response
        if response is None or response.finish_reason == "pause":
            return None
        if (response.content or "").strip() or any(
            part for part in response.parts if type(part).__name__ not in SILENT
        ):
            return self._done("answer")
        self.blanks += 1
        if self.blanks > self.limits.blanks:
            return self._done("error", reason=f"the model said nothing, {self.blanks} times")
        return None

    def _answer(self, calls: Sequence[ToolCall], results: Any, missing: str = "not run") -> Done | None:
        """Put exactly one result for each call into the history, in their order."""
        if not calls:
            return None
        cancelled = results if isinstance(results, Cancelled) else None
        given = _by_call([] if cancelled else results, [call for call in calls if call.runs])
        reason = (
            missing if cancelled is None else f"{cancelled.reason} before there was a result; it may have run"
        )
        ordered = [_result_of(call, given, reason) for call in calls]
        self.added += [Message("tool", [result]) for result in ordered]
        if cancelled is not None:
            return self._done("cancelled", reason=cancelled.reason)
        return self._progress(calls, ordered)

    def _progress(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Done | None:
        """End a run that goes around in a circle: the same calls have had the same results too often."""
        self.seen.append(fingerprint(calls, results))
        reason = circle(self.seen, self.limits.repeats, calls, results)
        return None if reason is None else self._done("no_progress", reason=reason)

    def _done(self, ending: Ending, **said: Any) -> Done:
        return Done(
            ending,
            self.added,
            self.response,
            self.usage,
            self.turns,
            said.get("reason", ""),
            said.get("error"),
            said.get("calls", []),
            self.cost,
        )


SILENT = frozenset({"Thinking", "Text"})


def _by_call(results: Iterable[ToolResult], calls: Sequence[ToolCall]) -> dict[int, ToolResult]:
    """Give each result to its call: by id where ids tell them apart, else by its place."""
    given = list(results)
    ids = [call.id for call in calls]
    if None not in ids and len(set(ids)) == len(ids):
        known = {result.tool_call_id: result for result in reversed(given)}
        return {id(call): known[call.id] for call in calls if call.id in known}
    return {id(call): result for call, result in zip(calls, given, strict=False)}


def _result_of(call: ToolCall, given: dict[int, ToolResult], missing: str) -> ToolResult:
    if not call.runs:
        return invalid(call, [call.error or "they were cut off; call again, with less at once"])
    found = given.get(id(call))
    return failure(call, missing) if found is None else replace(found, tool_call_id=call.id, name=call.name)


def add_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """Add the tokens of two exchanges; what neither has counted stays unknown."""
    if one is None or other is None:
        return other if one is None else one
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in names}
    return Usage(
        **{name: None if pair == (None, None) else sum(filter(None, pair)) for name, pair in pairs.items()}
    )
