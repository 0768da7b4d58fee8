"""The tool loop without I/O: a generator of steps that clients, tests and durable runs drive alike.

Rules of this file:
- A step states what is needed next, and its outcome is sent back. `AskModel` needs a `Response`, an `Error`, or a
  partial answer with its error (`Broken`). `RunTools` needs the results of its calls, and `Done` nothing. Sending
  `Cancelled` ends the run at any step.
- The history is valid at every step: each call has exactly one result, in the order of the calls.
- A malformed call is answered with the problem to correct, and never run. A forced tool choice is released after the
  model has called.
- A run that repeats itself is ended: the same calls with the same results in consecutive turns. Turns are compared by
  names, arguments and results; ids do not count.
- A run always ends, and `Done` holds the reason.
"""

import json
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.loop.steps import AskModel, Broken, Cancelled, Done, Ending, LoopLimits, LoopStep, RunTools
from toolwire.types import Error, Message, Request, Response, Text, Tool, ToolCall, ToolChoice, ToolResult, Usage
from toolwire.types.answer import is_count
from toolwire.waiting.results import failure, invalid

_SILENT = frozenset({"Thinking"})
_REFUSALS = frozenset({"content_filter", "refusal"})
_CALL_ONE = "Call at least one of these tools now: {names}."
Loop = Generator[LoopStep, Any, Done]
"""The loop: `next` gives a step, `send` takes its outcome and gives the next one."""
Price = Callable[[Usage | None, str | None], float | None]
"""Returns the cost of a usage with a model, or None."""
Accept = Callable[[Response], str | None]
"""Returns what is wrong with an answer, for the model to correct it, or None."""
AutoTools = bool | Callable[[ToolCall], bool]
"""Whether calls run, or a function that says so for each call."""
_Beside = Callable[[], tuple[Usage | None, float | None]]


def tool_loop(
    request: Request,
    *,
    limits: LoopLimits | None = None,
    auto_tools: AutoTools = True,
    terminal_tool: str | None = None,
    price: Price | None = None,
    elapsed: Callable[[], float] | None = None,
    accept: Accept | None = None,
    beside: _Beside | None = None,
) -> Loop:
    """Run the conversation of `request` with tools until it ends, as a generator of steps.

    - `limits` are the turns, tokens, cost and seconds after which the run ends.
    - Without `auto_tools` no tool runs: the run ends with the calls. If it is a function, it returns True for a call
      that runs without approval. If one call of an answer needs approval, none of them runs.
    - `terminal_tool` names a tool whose call ends the run, and does not run.
    - `price` returns the cost of a model's usage, and `elapsed` the seconds that have passed. Each is called only if
      there is such a limit.
    - `accept` returns what is wrong with an answer, or with the call that ends the run; the model receives that and
      answers again.
    - `beside` returns the usage of nested runs since its last call.

    >>> from toolwire import Context, Message, Request, Response, tool_loop
    >>> loop = tool_loop(Request(model="m", context=Context(messages=[Message("Hi.")])))
    >>> step = next(loop)  # an `AskModel` with the request to send
    >>> loop.send(Response.of(Message("assistant", "Hello."), "stop")).content
    'Hello.'
    """
    run = _Run(request, limits or LoopLimits(), price, elapsed, accept, beside)
    done = yield from run.steps(auto_tools=auto_tools, terminal_tool=terminal_tool)
    yield done
    return done


class _Run(Struct):
    """The state of one run: the messages that it added, and its usage."""

    request: Request
    limits: LoopLimits
    price: Price | None
    elapsed: Callable[[], float] | None
    accept: Accept | None
    beside: _Beside | None
    repairs: int = 0
    added: list[Message] = []
    response: Response | None = None
    has_content: bool = False
    usage: Usage | None = None
    uncounted: bool = False
    unpriced: bool = False
    cost: float | None = None
    turns: int = 0
    blanks: int = 0
    fingerprints: list[str] = []

    def steps(self, *, auto_tools: AutoTools, terminal_tool: str | None) -> Generator[LoopStep, Any, Done]:
        while True:
            ended = self._over_budget()
            if ended is None:
                ended = self._handle_outcome((yield AskModel(self._next_request(), self.turns, *self._remaining())))
            if ended is None:
                calls = self._calls()
                if calls:
                    ended = yield from self._with_calls(calls, auto_tools=auto_tools, terminal_tool=terminal_tool)
                else:
                    ended = self._without_calls()
            if ended is not None:
                return ended

    def _with_calls(
        self, calls: list[ToolCall], *, auto_tools: AutoTools, terminal_tool: str | None
    ) -> Generator[LoopStep, Any, Done | None]:
        """Run the calls of an answer, or end with them."""
        waiting = [call for call in calls if call.runs]
        finals = [call for call in waiting if call.name == terminal_tool]
        if finals:
            correction = self._correction()
            if correction is None:
                return self._done("terminal", calls=waiting)
            others = [call for call in waiting if call.name != terminal_tool]
            if others and not auto_tools:
                return self._done("calls", calls=others)
            results: Any = (yield self._run_step(others)) if others else []
            ended = self._add_results(calls, results, settled={id(one): failure(one, correction) for one in finals})
            return ended if ended is not None or others else self._count_repair(correction)
        held = [call.name for call in waiting if not (auto_tools(call) if callable(auto_tools) else auto_tools)]
        if held or not auto_tools:
            reason = f"approval is needed: {', '.join(held)}" if auto_tools else ""
            return self._done("calls", calls=waiting, reason=reason)
        results = (yield self._run_step(waiting)) if waiting else []
        return self._add_results(calls, results)

    def _correction(self) -> str | None:
        """Return what the answer has to be corrected in, or None."""
        return None if self.accept is None or self.response is None else self.accept(self.response)

    def _count_repair(self, problem: str) -> Done | None:
        """Count a rejected answer, and end the run if there were too many."""
        self.repairs += 1
        return self._done("error", reason=problem) if self.repairs > self.limits.repairs else None

    def _ask_again(self, correction: str) -> Done | None:
        """Add the correction as a user message, if the model may try again."""
        ended = self._count_repair(correction)
        if ended is None:
            self.added.append(Message("user", correction))
        return ended

    def _next_request(self) -> Request:
        request = self.request
        if not self.added:
            return request
        context = replace(
            request.context,
            messages=[*request.context.messages, *self.added],
            provider_state=self._latest_state(request.context.provider_state),
        )
        choice = request.tool_choice
        released = choice is not None and choice.mode == "required" and self._uncalled_required() is None
        return replace(request, context=context, tool_choice=ToolChoice("auto") if released else choice)

    def _uncalled_required(self) -> list[str] | None:
        """Return the tools of which one is required and none was called yet, or None."""
        choice = self.request.tool_choice
        if choice is None or choice.mode != "required":
            return None
        names = choice.names or [tool.name for tool in self.request.tools if type(tool) is Tool]
        called = {call.name for message in self.added for call in message.tool_calls}
        return None if called.intersection(names) or not names else names

    def _latest_state(self, before: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the provider's latest state, if the run uses provider state at all."""
        state = self.response.provider_state if self.response is not None else None
        return before if before is None or state is None else state

    def _over_budget(self) -> Done | None:
        limits = self.limits
        if limits.turns is not None and self.turns >= limits.turns:
            turns = f"{limits.turns} turn{'' if limits.turns == 1 else 's'}"
            return self._done("limit", reason=f"no answer after {turns}; LoopLimits(turns=...) allows more")
        if limits.tokens is not None and self.uncounted:
            return self._done("limit", reason="the server reports no tokens, so they cannot be limited")
        if limits.tokens is not None and (used := self._used()) >= limits.tokens:
            return self._done("budget", reason=f"{used} of {limits.tokens} tokens are used")
        if limits.cost is not None and self.unpriced:
            return self._done("limit", reason="the reported usage has no known price, so its cost cannot be limited")
        if limits.cost is not None and (spent := self.cost or 0.0) >= limits.cost:
            return self._done("budget", reason=f"{spent:.4f} of {limits.cost:.4f} USD are used")
        if limits.seconds is not None and self.elapsed is not None and (spent := self.elapsed()) >= limits.seconds:
            return self._done("budget", reason=f"{spent:.1f} of {limits.seconds:g} seconds have passed")
        return None

    def _run_step(self, calls: list[ToolCall]) -> RunTools:
        """Return the step that runs calls, with the remaining tokens and cost, which also limit nested runs."""
        return RunTools(calls, self.turns - 1, *self._remaining())

    def _remaining(self) -> tuple[int | None, float | None]:
        """Return the tokens and the money that may still be used."""
        tokens, cost = self.limits.tokens, self.limits.cost
        return None if tokens is None else tokens - self._used(), None if cost is None else cost - (self.cost or 0.0)

    def _used(self) -> int:
        """Return the tokens that were used so far."""
        return self.usage.total_tokens if self.usage is not None else 0

    def _handle_outcome(self, answer: Any) -> Done | None:
        match answer:
            case Cancelled(response=partial):
                if partial is not None:
                    self._add_partial(partial)
                return self._done(answer.ending, reason=answer.reason)
            case Error():
                return self._done("error", reason=answer.message, error=answer)
            case Broken(response=partial, error=error):
                self._add_partial(partial)
                return self._done("error", reason=error.message, error=error)
            case Response():
                self._add_answer(answer)
                return self._without_answer(answer)
        raise TypeError(f"a Response, an Error or Cancelled must be sent, not {type(answer).__name__}")

    def _add_answer(self, answer: Response) -> None:
        self.turns += 1
        self.response = answer
        self.usage = add_usage(self.usage, answer.usage)
        self._charge(answer)
        self.has_content = _has_content(answer)
        if self.has_content or (answer.parts and answer.finish_reason == "pause"):
            self.added.append(answer.message)

    def _charge(self, answer: Response) -> None:
        """Add the cost of an answer, by the model that it names, or the one that was requested."""
        usage = answer.usage if _has_counts(answer.usage) else None
        self.uncounted = self.uncounted or usage is None
        cost = None
        for name in (answer.model, self.request.model):
            if cost is None and name and self.price is not None:
                cost = self.price(usage, name)
        self.unpriced = self.unpriced or cost is None
        self.cost = self.cost if cost is None else (self.cost or 0.0) + cost

    def _add_partial(self, answer: Response) -> None:
        self._add_answer(answer)
        self._add_results(self._calls(), [], "not run: the answer broke off")

    def _without_answer(self, answer: Response) -> Done | None:
        """End the run if an answer was refused or broke off."""
        if answer.finish_reason in _REFUSALS:
            self._add_results(self._calls(), [], "not run: the answer was refused")
            return self._done("refused", reason=f"the model's answer ended with {answer.finish_reason}")
        if answer.finish_reason in ("error", "incomplete"):
            self._add_results(self._calls(), [], "not run: the answer broke off")
            return self._done("error", reason="the answer broke off before it was complete")
        return None

    def _calls(self) -> list[ToolCall]:
        message = self.response.message if self.response is not None else None
        return [part for part in message.parts if type(part) is ToolCall] if message is not None else []

    def _without_calls(self) -> Done | None:
        """End with an answer. A pause continues, and a rejected answer is requested again."""
        response = self.response
        if response is None or response.finish_reason == "pause":
            return None
        names = self._uncalled_required()
        if names is not None:
            return self._ask_again(_CALL_ONE.format(names=", ".join(names)))
        if self.has_content:
            correction = self._correction()
            return self._done("answer") if correction is None else self._ask_again(correction)
        self.blanks += 1
        if self.blanks > self.limits.blanks:
            return self._done("error", reason=f"the model's answer was empty {self.blanks} times")
        return None

    def _add_results(
        self,
        calls: Sequence[ToolCall],
        results: Any,
        missing: str = "not run",
        settled: dict[int, ToolResult] | None = None,
    ) -> Done | None:
        """Add exactly one result for each call to the history, in their order.

        `settled` holds results that are known already.
        """
        if not calls:
            return None
        self._add_nested_usage()
        settled = settled or {}
        cancelled = results if isinstance(results, Cancelled) else None
        ran = [call for call in calls if call.runs and id(call) not in settled]
        known = _by_call(cancelled.results if cancelled else results, ran) | settled
        reason = missing if cancelled is None else f"{cancelled.reason} before there was a result; it may have run"
        ordered = [_result_of(call, known, reason) for call in calls]
        self.added += [Message("tool", [result]) for result in ordered]
        if cancelled is not None:
            return self._done(cancelled.ending, reason=cancelled.reason)
        return self._progress(calls, ordered)

    def _add_nested_usage(self) -> None:
        """Add the usage of nested runs."""
        if self.beside is not None:
            usage, cost = self.beside()
            self.usage = self.usage if usage is None else add_usage(self.usage, usage)
            self.cost = self.cost if cost is None else (self.cost or 0.0) + cost

    def _progress(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Done | None:
        """End the run if the same calls had the same results too often."""
        self.fingerprints.append(_fingerprint(calls, results))
        reason = _find_repetition(self.fingerprints, self.limits.repeats, calls, results)
        return None if reason is None else self._done("no_progress", reason=reason)

    def _done(self, ending: Ending, **fields: Any) -> Done:
        totals = (self.response, self.usage, self.turns)
        return Done(ending, self.added, *totals, cost=self.cost, earlier=list(self.request.messages), **fields)


def _find_repetition(
    fingerprints: Sequence[str], limit: int, calls: Sequence[ToolCall], results: Sequence[ToolResult]
) -> str | None:
    """Return what repeats itself, if the last turns did so `limit` times: alone, in pairs, or as errors."""
    if not 2 <= limit <= len(fingerprints):
        return None
    for length in (1, 2):
        recent = fingerprints[-limit * length :]
        rounds = [recent[n : n + length] for n in range(0, len(recent), length)]
        if len(rounds) == limit and len(set(rounds[0])) == length and all(one == rounds[0] for one in rounds):
            return _repetition(calls, results, limit)
    errors = [_errors_of(one) for one in fingerprints[-limit:]]
    if errors[0] and len(set(errors)) == 1:
        return f"tool error repeated {limit}+ times: {_error_texts(results)}"
    return None


def _fingerprint(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
    """Return a text that identifies the calls of a turn and their results, without ids."""
    turn = []
    for call, result in zip(calls, results, strict=True):
        raw = call.raw if call.error or call.custom else None
        turn.append([call.name, call.plain_arguments, raw, repr(result.content), result.is_error])
    return json.dumps(turn, sort_keys=True, default=repr)


def _errors_of(fingerprint: str) -> str:
    """Return the errors of a turn if all its results were errors, else an empty string."""
    turn = json.loads(fingerprint)
    return json.dumps([[one[0], one[3]] for one in turn]) if turn and all(one[4] for one in turn) else ""


def _error_texts(results: Sequence[ToolResult]) -> str:
    return "; ".join(str(result.content)[:200] for result in results if result.is_error)


def _repetition(calls: Sequence[ToolCall], results: Sequence[ToolResult], limit: int) -> str:
    names = ", ".join(dict.fromkeys(call.name for call in calls))
    errors = _error_texts(results)
    remedy = f": {errors}" if errors else "; LoopLimits(repeats=...) allows more"
    return f"{names} had the same result {limit} times{remedy}"


def _has_content(answer: Response) -> bool:
    """Return True if an answer has more than thinking and white space: no provider accepts other answers in a history.

    If the model wanted calls and none could be parsed, an opaque part does not count as an answer.
    """
    silent = _SILENT if answer.finish_reason != "tool_calls" else _SILENT | {"Opaque"}
    contents = [part.text.strip() if type(part) is Text else type(part).__name__ not in silent for part in answer.parts]
    return any(contents)


def _by_call(results: Iterable[ToolResult], calls: Sequence[ToolCall]) -> dict[int, ToolResult]:
    """Return the results by call: matched by id if the ids are unique, otherwise by position."""
    results = list(results)
    ids = [call.id for call in calls]
    if None not in ids and len(set(ids)) == len(ids):
        known = {result.tool_call_id: result for result in reversed(results)}
        return {id(call): known[call.id] for call in calls if call.id in known}
    return {id(call): result for call, result in zip(calls, results, strict=False)}


def _result_of(call: ToolCall, known: dict[int, ToolResult], missing: str) -> ToolResult:
    if not call.runs:
        return invalid(call, [call.error or "they were cut off; call again, with less at once"])
    result = known.get(id(call))
    return failure(call, missing) if result is None else replace(result, tool_call_id=call.id, name=call.name)


_COUNTS = (
    *("input_tokens", "output_tokens", "reasoning_tokens"),
    *("cache_read_tokens", "cache_write_tokens", "cache_write_long_tokens"),
)


def add_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """Return the sum of the usages `one` and `other`.

    A field that neither has stays unknown, and values that are not counts are left out.

    >>> from toolwire import Usage
    >>> from toolwire.loop import add_usage
    >>> add_usage(Usage(input_tokens=10), Usage(input_tokens=5, output_tokens=2)).input_tokens
    15
    """
    sums: dict[str, Any] = {}
    others = 0
    for usage in (one, other):
        for name in _COUNTS:
            count = getattr(usage, name, None)
            if count is None:
                continue
            if is_count(count):
                sums[name] = sums.get(name, 0) + count
            else:
                others += 1
    only = one if other is None else other if one is None else None
    return only if others == 0 and (one is None or other is None) else Usage(**sums)


def _has_counts(usage: Usage | None) -> bool:
    """Return True if a server has reported a number of tokens."""
    counts = () if usage is None else (usage.input_tokens, usage.output_tokens)
    return any(filter(is_count, counts))
