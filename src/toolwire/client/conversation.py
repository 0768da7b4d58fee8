"""A conversation with a provider and its tools, as steps that sync and async code drive.

Rules of this file:
- The caller's values become a `Request` and a resolver of its tools. Strings are user messages, and OpenAI's maps are
  accepted unchanged.
- A run with a time limit is stopped when the time has passed, whatever it does at that moment.
- `Done.messages` is the history that a run added. It can be sent again, whatever ended the run. If an exception stops
  the run, its end is still reported and stored.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.client.budget import Account, Clock, check_price
from toolwire.client.clearing import ConversationClearing
from toolwire.client.deferred import DeferredSearch
from toolwire.client.exchange import ExchangeState, ProviderConnection, exchange_steps
from toolwire.client.options import check_settings
from toolwire.dialects import NAMES, dialect
from toolwire.errors import InvalidField, ToolwireError, listed, suggestion
from toolwire.loop import AskModel, Broken, Cancelled, Done, Loop, LoopLimits, LoopStep, Outcome, RunTools, tool_loop
from toolwire.providers.catalogue import cost
from toolwire.resolvers import RunSecrets
from toolwire.resolvers.execution import Cancel, Limits
from toolwire.resolvers.reading import read_tools, tool_list, unique_tools
from toolwire.types import (
    Audio,
    Context,
    Document,
    Error,
    Image,
    Loss,
    Message,
    Part,
    Request,
    Response,
    ServerTool,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
)
from toolwire.types.conversation import called_name
from toolwire.waiting.results import CallRecord, Ran, format_traceback
from toolwire.waiting.steps import Abandoned, Ask, Emit, Work, handle_emits

logger: logging.Logger = logging.getLogger("toolwire")
_NOT_PARSED = "it repeats the input, or has a format that is not parsed here"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # a single letter is a Windows drive
_MODES = ("auto", "none", "required")
_Callback = Callable[[Any], Any]
OnEnd = Callable[[Done], None]


class RunSetup(Struct, frozen=True):
    """A run's request, the resolver of its tools and its settings.

    `deferred` are the tools that its requests hold back. `started` is the start time (monotonic). `approval` are the
    tools whose calls end the run before they are run.
    """

    request: Request
    resolve: Any = None
    auto_tools: bool = True
    limits: LoopLimits = LoopLimits()
    running: Limits = Limits()
    terminal_tool: str | None = None
    cancel: Cancel | None = None
    output_plan: Any = None
    clearing: ConversationClearing | None = None
    recording: Any = None
    call_log: Any = None
    deferred: DeferredSearch | None = None
    started: float | None = None
    approval: bool | tuple[str, ...] = ()

    def runs_unapproved(self, call: ToolCall) -> bool:
        """Return True if `call` needs no approval."""
        if self.deferred is not None and call.name == self.deferred.name:
            return True
        return not self.approval if isinstance(self.approval, bool) else call.name not in self.approval


class _Listener(Struct, frozen=True):
    """The listener of a run's events, and the secrets that its error log must not contain."""

    callback: _Callback
    secrecy: RunSecrets


def request_of(
    prompt: Any,
    *,
    messages: Iterable[Any] = (),
    system: str | list[Part] | None = None,
    tools: Iterable[Any] = (),
    tool_choice: Any = None,
    **settings: Any,
) -> tuple[Request, Any]:
    """Return the request for the caller's values, and a resolver of those tools that can run.

    Raise InvalidField for a value that cannot be used.
    """
    if isinstance(prompt, Request):
        raise InvalidField("prompt", "is a Request, which `Client.send` takes", path="settings")
    settings = check_settings(settings)
    state = settings.pop("provider_state", None)
    context = prompt if isinstance(prompt, Context) else None
    given = read_tools(_with_handlers(tools, context))
    if context is None:
        context = Context(
            messages=[] if prompt is None else list(prompt) if isinstance(prompt, list | tuple) else [prompt]
        )
    context = Context(
        context.system if system is None else _system_of(system),
        [*_message_list(messages), *context.messages],
        [_as_its_wire_reads(tool) for tool in unique_tools([*context.tools, *given.declared])],
        context.provider_state if state is None else state,
    )
    check_media(context.messages)
    choice = _choice_of(tool_choice)
    _check_offered(choice, context.tools)
    return Request(context=context, tool_choice=choice, **settings), given.resolver


def _check_offered(choice: ToolChoice | None, tools: Iterable[Tool | ServerTool]) -> None:
    """Raise InvalidField if the choice names a tool that is not offered, as a misspelt `required` would."""
    if choice is None or choice.names is None or any(isinstance(tool, ServerTool) for tool in tools):
        return  # a server tool may have any name
    offered = [tool.name for tool in tools if isinstance(tool, Tool)]
    for name in choice.names:
        if name not in offered:
            known = (*_MODES, *offered)
            known_names = listed(known, suggestion(name, known))
            detail = f"{name!r} is not a tool of this request{known_names}"
            raise InvalidField("tool_choice", detail, path="settings")


def _message_list(messages: Any) -> Iterable[Any]:
    """Return the messages as an iterable; a single message is a list of one."""
    if isinstance(messages, str | Message | Mapping):
        return [messages]
    if not isinstance(messages, Iterable):
        raise InvalidField("messages", f"must be messages in a list, not {messages!r}", path="settings")
    return messages


def _system_of(system: Any) -> str | list[Part]:
    """Return a system prompt: a string, or a list of parts, in which strings are texts."""
    if isinstance(system, str):
        return system
    parts = [Text(part) if isinstance(part, str) else part for part in system] if isinstance(system, list) else []
    if not parts or not all(isinstance(part, Part) for part in parts):
        raise InvalidField(
            "system", f"must be a string, or a list of strings and parts, not {system!r}", path="settings"
        )
    return parts


def check_media(messages: Iterable[Message]) -> None:
    """Raise InvalidField if the URL of a user's image, document or audio is none, for example a local path."""
    for index, message in enumerate(messages):
        for part_index, part in enumerate(message.content if isinstance(message.content, list) else ()):
            if not isinstance(part, Image | Document | Audio) or part.opaque is not None or part.url is None:
                continue
            if not _SCHEME.match(part.url):
                kind, path = type(part).__name__, f"messages[{index}].content[{part_index}]"
                problem = (
                    f"is not a URL: {part.url!r}; of a file, pass its content: {kind}(data=BASE64, media_type=TYPE)"
                )
                raise InvalidField("url", problem, path=path)


def _with_handlers(tools: Any, context: Context | None) -> Any:
    """Return the tools together with the handlers that the context holds."""
    return tools if context is None or not context.handlers else [*context.handlers, *tool_list(tools)]


def _as_its_wire_reads(tool: Tool | ServerTool) -> Tool | ServerTool:
    """Return a tool that its provider defines and the client runs, such as Claude's text editor, as a function.

    The wire knows its description and its schema, so models of other wires can call it as well.
    """
    if isinstance(tool, Tool) or tool.dialect not in NAMES:
        return tool
    read = dialect(tool.dialect).decode_request({"tools": [tool.value]}).tools
    return read[0] if len(read) == 1 and type(read[0]) is Tool and read[0].name == called_name(tool) else tool


def _choice_of(choice: Any) -> ToolChoice | None:
    """Return the tool choice of `auto`, `none`, `required`, a tool's name, OpenAI's map, or a ToolChoice."""
    match choice:
        case None | ToolChoice():
            return choice
        case str() if choice in _MODES:
            return ToolChoice(choice)  # type: ignore[arg-type]
        case str():
            return ToolChoice("required", [choice])
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            return ToolChoice("required", [name])
    raise InvalidField("tool_choice", f"must be auto, none, required or a tool by its name, not {choice!r}")


def conversation_steps(
    upstream: ProviderConnection, setup: RunSetup, callback: _Callback | None = None, on_end: OnEnd | None = None
) -> Work[Done]:
    """Run a conversation until it ends and return its `Done`. Events, results and the end are emitted.

    `callback` is called with each of them first. `on_end` is called with the end in any case, also if an exception
    stops everything and the end can no longer be emitted.
    """
    parent = Account.current()
    if parent is not None:
        setup = replace(setup, limits=parent.nested_limits(setup.limits))
    check_price(setup.limits, setup.request.model)
    upstream = upstream.for_conversation()
    account = Account(setup.limits, setup.cancel, parent, setup.started)
    loop = _loop_of(upstream, setup, account)
    step = next(loop)
    losses: dict[Loss, None] = {}
    secrecy = RunSecrets(setup.resolve, [upstream.provider.key])
    listener = None if callback is None else _Listener(callback, secrecy)
    while not isinstance(step, Done):
        state = ExchangeState(digest=None if setup.recording is None else setup.recording.new_digest())
        ran: list[Ran] = []
        try:
            secrecy.observe(step)
            yield from _report(listener, step)
            yield from _record(setup, step)
            with account.clock:
                steps = _do_step(upstream, setup, step, state, ran, account, secrecy)
                outcome = (
                    yield from steps if callback is None else handle_emits(steps, partial(_report_and_emit, listener))
                )
        except GeneratorExit:
            raise
        except BaseException as problem:  # any exception: complete the history, then raise it again
            results = [one.result for one in ran]
            step = loop.send(Cancelled(_stop_reason(problem), state.partial, results))
            step = _with_losses(step, losses, state)
            done = _finish(setup, step, on_end, parent)
            yield from _record_despite_error(setup, step)
            yield from _report(listener, done)
            raise
        step = _with_losses(loop.send(outcome), losses, state)
    done = _finish(setup, step, on_end, parent)
    yield from _report_end(setup, step, done, listener)
    return done


def _stop_reason(problem: BaseException) -> str:
    return "the stream was closed" if isinstance(problem, Abandoned) else f"stopped by {type(problem).__name__}"


def _loop_of(upstream: ProviderConnection, setup: RunSetup, account: Account) -> Loop:
    start_time = upstream.now()
    return tool_loop(
        setup.request,
        limits=setup.limits,
        auto_tools=setup.runs_unapproved if setup.auto_tools and setup.approval else setup.auto_tools,
        terminal_tool=setup.terminal_tool,
        price=cost,
        elapsed=lambda: upstream.now() - start_time,
        accept=None if setup.output_plan is None else setup.output_plan.correction,
        beside=account.take_added,
    )


def _report_end(setup: RunSetup, step: Done, done: Done, listener: _Listener | None) -> Work[None]:
    """Record the last calls and report the end, also if an exception stops the recording."""
    try:
        yield from _record(setup, step)
    except GeneratorExit:
        raise
    except BaseException:
        yield from _report(listener, done)
        raise
    yield from _report_and_emit(listener, done)


def _finish(setup: RunSetup, done: Done, on_end: OnEnd | None, parent: Account | None) -> Done:
    """Return the final `Done`, pass it to `on_end`, and add its usage to the run that this run is part of."""
    if parent is not None:
        parent.add(done.usage, done.cost)
    if setup.clearing is not None:
        done = replace(done, losses=(*done.losses, *setup.clearing.clearance.losses))
    done = _with_hint(setup, done)
    done = done if setup.output_plan is None else setup.output_plan.finish(done)
    if on_end is not None:
        on_end(done)
    return done


def _record_despite_error(setup: RunSetup, done: Done) -> Work[None]:
    """Record the calls while an exception is propagating: a failure here must not replace it."""
    try:
        yield from _record(setup, done)
    except ToolwireError:
        logger.exception("the last calls could not be recorded")


def _record(setup: RunSetup, step: LoopStep) -> Work[None]:
    if setup.recording is not None:
        yield from setup.recording.record_steps(step, len(setup.request.messages))


def _with_losses(step: LoopStep, losses: dict[Loss, None], state: ExchangeState) -> Any:
    """Collect the losses of an exchange, and put all of them into the end."""
    losses.update(dict.fromkeys(state.losses))
    return replace(step, losses=tuple(losses)) if isinstance(step, Done) else step


def _do_step(
    upstream: ProviderConnection,
    setup: RunSetup,
    step: AskModel | RunTools,
    state: ExchangeState,
    ran: list[Ran],
    account: Account,
    secrecy: RunSecrets,
) -> Work[Outcome]:
    """Return the steps that do what the loop asks for. Events and results are emitted."""
    if isinstance(step, RunTools):
        return _run_tools(setup, step, ran, account, secrecy)
    return _ask_model(upstream, setup, step, state, account.clock)


def _ask_model(
    upstream: ProviderConnection, setup: RunSetup, step: AskModel, state: ExchangeState, clock: Clock
) -> Work[Outcome]:
    if clock.is_over():
        return clock.end()
    request = step.request
    state.tokens, state.cost = step.tokens, step.cost
    if setup.clearing is not None:
        from toolwire.text.quoting import texts_given  # noqa: PLC0415 - formats are loaded only for tools

        state.earlier_texts = texts_given(request)
        request = setup.clearing.clear_request(request)
    if setup.output_plan is not None:
        request = setup.output_plan.prepare_request(request)
    if setup.deferred is not None:
        request, state.deferral = setup.deferred.deferred(request)
    steps = exchange_steps(upstream, request, state, clock.stop)
    outcome = yield from steps if setup.call_log is None else setup.call_log.ask_model(state, steps)
    if setup.clearing is not None and type(outcome) is Response:
        setup.clearing.note_usage(outcome.usage)
    if setup.recording is not None:
        setup.recording.note_exchange(step, state)
    result = outcome if type(outcome) is not Error else _failure_outcome(outcome, state, clock)
    yield Emit(result)
    return result


def _failure_outcome(error: Error, state: ExchangeState, clock: Clock) -> Outcome:
    """Return the outcome of a failed exchange: the run was stopped, the answer is partial, or only the error."""
    if state.over_budget:
        return Cancelled(state.over_budget, state.partial, ending="budget")
    if clock.is_over():
        return clock.end(state.partial)
    return error if state.partial is None else Broken(state.partial, error)


def _run_tools(
    setup: RunSetup, tools: RunTools, ran: list[Ran], account: Account, secrecy: RunSecrets
) -> Work[Outcome]:
    """Run the calls. The record of each call is emitted, and its result."""
    if account.clock.is_over():
        return account.clock.end()
    if setup.recording is not None:
        setup.recording.check()
    options: dict[str, Any] = {
        "limits": setup.running,
        "cancel": account.clock.stop,
        "record": CallRecord(ran.append, secrecy),
    }
    resolve = setup.resolve or (lambda call: ("error", f"no resolver runs {call.name!r}"))
    execute = Ask(account.execute, (tools, resolve), options, account.aexecute)
    try:
        if setup.call_log is None:
            results = yield execute
        else:
            results = yield from setup.call_log.run_calls(tools, setup.resolve, execute, ran)
    finally:
        if setup.recording is not None:
            setup.recording.add_records(ran)
    for one in ran:
        yield Emit(one)
    for result in results:
        yield Emit(result)
    return results  # type: ignore[no-any-return]


def _with_hint(setup: RunSetup, done: Done) -> Done:
    """Add a reason to an answer that looks like a call and was not taken for one.

    If a known format has a call of an offered tool there, the answer is an unread call. An answer that fits the form of
    `output=` stays an answer.
    """
    tools = [tool for tool in setup.request.tools if isinstance(tool, Tool)]
    if done.ending != "answer" or not tools:
        return done
    from toolwire.text.looks import look_of_call  # noqa: PLC0415 - formats are loaded only for tools
    from toolwire.text.quoting import texts_given  # noqa: PLC0415 - the same
    from toolwire.text.usual_forms import unread_formats  # noqa: PLC0415 - the same

    text, model = done.message.text, setup.request.model
    context = replace(setup.request.context, messages=done.history)
    given = texts_given(replace(setup.request, context=context))
    names = None if setup.output_plan is not None else unread_formats(text, model, tools, given)
    looks = look_of_call(text)
    if looks is None and names is not None:
        looks = f"in the format {names[0]}" if names else "the whole answer names a tool and its arguments"
    if looks is None:
        return done
    parsers = [name for name in names or () if name != "tagged"]
    hint = f"; to parse it, pass {' or '.join(f'format={name!r}' for name in parsers)}" if parsers else ""
    reason = f"the answer looks like a call ({looks}), but nothing was run: {_NOT_PARSED}{hint}"
    return replace(done, ending="answer" if names is None else "unread_call", reason=reason)


def _report_and_emit(listener: _Listener | None, event: Any) -> Work[None]:
    yield from _report(listener, event)
    yield Emit(event)


def _report(listener: _Listener | None, event: Any) -> Work[None]:
    """Call the listener with an event. An exception of the listener is logged and does not stop the run."""
    if listener is None:
        return
    try:
        yield Ask(listener.callback, (event,))
    except Exception as problem:  # noqa: BLE001 - a listener may raise anything
        why = format_traceback(problem, listener.secrecy(event))
        logger.error("on_event failed at %s\n%s", type(event).__name__, why)  # noqa: TRY400 - scrubbed
