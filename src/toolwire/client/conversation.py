"""A conversation with a provider and its tools, as steps: what both faces lead, each in its own way.

Rules of this file:
- What a caller gives becomes a `Request` and what runs its tools; strings are the user's, OpenAI's maps are
  taken as they are.
- A run that may take so many seconds is stopped when they have passed, whatever it does then.
- The history that a run adds is in `Done.messages`, valid to be sent again, whatever ended the run. Where a
  run is stopped by an exception, its end is still told and kept.
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
from toolwire.client.exchange import Sent, Upstream, exchanging
from toolwire.client.options import checked_settings
from toolwire.errors import InvalidField, ToolwireError, meant
from toolwire.loop import AskModel, Broken, Cancelled, Done, Loop, LoopLimits, LoopStep, Outcome, RunTools, tool_loop
from toolwire.providers.catalogue import cost
from toolwire.resolvers import AgentResolver, Composition, RunSecrets, offers_tools, resolver_of, tools_of
from toolwire.resolvers.execution import Cancel, Limits
from toolwire.text import detect
from toolwire.text.looks import look_of_call
from toolwire.text.quoting import texts_given
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
    ToolChoice,
)
from toolwire.waiting.results import CallRecord, Ran, format_traceback
from toolwire.waiting.steps import Abandoned, Ask, Emit, Work, handle_emits

logger: logging.Logger = logging.getLogger("toolwire")
_NOT_TAKEN = "it repeats what the model was given, or stands in a form that is not read here"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # one letter is a drive
_MODES = ("auto", "none", "required")
_Tell = Callable[[Any], Any]
OnEnd = Callable[[Done], None]


class RunSetup(Struct, frozen=True):
    """What is asked for: a request, what runs its tools, and how the run is led; `begun` is when (monotonic)."""

    request: Request
    resolve: Any = None
    auto_tools: bool = True
    limits: LoopLimits = LoopLimits()
    running: Limits = Limits()
    terminal_tool: str | None = None
    cancel: Cancel | None = None
    form: Any = None
    clearing: ConversationClearing | None = None
    recording: Any = None
    journal: Any = None
    begun: float | None = None


class _Listener(Struct, frozen=True):
    """Who is told of events, and what no log of its failures may say."""

    tell: _Tell
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
    """Make a request of what a caller gave, and a resolver of those tools that can be run."""
    if isinstance(prompt, Request):
        raise InvalidField("prompt", "is a Request, which `Client.send` takes", path="settings")
    settings = checked_settings(settings)
    state = settings.pop("provider_state", None)
    context = prompt if isinstance(prompt, Context) else None
    declared, resolver = _tools_given(_with_handlers(_listed(tools), context))
    if context is None:
        context = Context(
            messages=[] if prompt is None else list(prompt) if isinstance(prompt, list | tuple) else [prompt]
        )
    context = Context(
        context.system if system is None else _system_of(system),
        [*_messages_given(messages), *context.messages],
        _first_of_each([*context.tools, *declared]),
        context.provider_state if state is None else state,
    )
    check_media(context.messages)
    choice = _choice_of(tool_choice)
    _check_offered(choice, context.tools)
    return Request(context=context, tool_choice=choice, **settings), resolver


def _check_offered(choice: ToolChoice | None, tools: Iterable[Tool | ServerTool]) -> None:
    """Refuse to ask for a tool that is not offered: a misspelt `required` would be one."""
    if choice is None or choice.names is None or any(isinstance(tool, ServerTool) for tool in tools):
        return  # the names of a server's own tools are its own
    offered = [tool.name for tool in tools if isinstance(tool, Tool)]
    for name in choice.names:
        if name not in offered:
            known = (*_MODES, *offered)
            detail = f"{name!r} is not a tool of this request; there are: {', '.join(known)}{meant(name, known)}"
            raise InvalidField("tool_choice", detail, path="settings")


def _listed(tools: Any) -> Any:
    """Give tools as they were given; one alone is a list of one."""
    if tools is None or hasattr(tools, "available_tools"):
        return tools or ()
    if isinstance(tools, Tool | ServerTool | Mapping) or callable(tools):
        return [tools]
    if isinstance(tools, str | bytes) or not isinstance(tools, Iterable):
        raise InvalidField("tools", f"must be tools in a list, or one tool, not {tools!r}", path="settings")
    return tools


def _messages_given(messages: Any) -> Iterable[Any]:
    """Give messages as they were given; one alone is a list of one."""
    if isinstance(messages, str | Message | Mapping):
        return [messages]
    if not isinstance(messages, Iterable):
        raise InvalidField("messages", f"must be messages in a list, not {messages!r}", path="settings")
    return messages


def _system_of(system: Any) -> str | list[Part]:
    """Give a system prompt: a string, or its parts, of which strings are texts."""
    if isinstance(system, str):
        return system
    parts = [Text(part) if isinstance(part, str) else part for part in system] if isinstance(system, list) else []
    if not parts or not all(isinstance(part, Part) for part in parts):
        raise InvalidField(
            "system", f"must be a string, or a list of strings and parts, not {system!r}", path="settings"
        )
    return parts


def check_media(messages: Iterable[Message]) -> None:
    """Refuse a picture, a file or a sound of a user's own whose URL is none: a path on this machine, for example."""
    for place, message in enumerate(messages):
        for index, part in enumerate(message.content if isinstance(message.content, list) else ()):
            if not isinstance(part, Image | Document | Audio) or part.opaque is not None or part.url is None:
                continue
            if not _SCHEME.match(part.url):
                kind, at = type(part).__name__, f"messages[{place}].content[{index}]"
                what = f"is not a URL: {part.url!r}; of a file, pass its content: {kind}(data=BASE64, media_type=TYPE)"
                raise InvalidField("url", what, path=at)


def _with_handlers(tools: Any, context: Context | None) -> Any:
    """Give the tools with those that came with a context, and can be run."""
    if context is None or not context.handlers:
        return tools
    return [*context.handlers, *([tools] if offers_tools(tools) else tools or ())]


def _tools_given(tools: Any) -> tuple[list[Tool | ServerTool], Any]:
    """Sort what was given as tools: declarations, and what can be run as well."""
    if offers_tools(tools):
        tools = [tools]
    declared: list[Tool | ServerTool] = []
    resolvers: list[Any] = []
    running: list[Any] = []
    for index, tool in enumerate(tools or ()):
        match tool:
            case dict() | Mapping() | Tool() | ServerTool():
                declared += Context(tools=[tool]).tools
            case _ if offers_tools(tool):
                resolvers.append(resolver_of(tool, f"tools[{index}]"))
            case _:
                running.append(tool)
    if running:
        resolvers.insert(0, AgentResolver(running))
    if not resolvers:
        return declared, None
    resolver = resolvers[0] if len(resolvers) == 1 else Composition(resolvers)
    return [*declared, *tools_of(resolver)], resolver


def _first_of_each(tools: Iterable[Tool | ServerTool]) -> list[Tool | ServerTool]:
    """Give the first tool of each name, for providers refuse a name that is declared twice."""
    first: dict[object, Tool | ServerTool] = {}
    for index, tool in enumerate(tools):
        first.setdefault(tool.name if isinstance(tool, Tool) else index, tool)
    return list(first.values())


def _choice_of(choice: Any) -> ToolChoice | None:
    """Read a tool choice: a value of ours, `auto`, `none`, `required`, a tool's name, or OpenAI's map."""
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


def conversing(
    upstream: Upstream, setup: RunSetup, tell: _Tell | None = None, on_end: OnEnd | None = None
) -> Work[Done]:
    """Lead a conversation to its end; events of the model, results and the end are emitted.

    `tell` is told each of them first. `on_end` is given the end whatever happens, also where it cannot be
    emitted any more because everything is stopped by an exception.
    """
    above = Account.of_the_run_around()
    if above is not None:
        setup = replace(setup, limits=above.limited(setup.limits))
    check_price(setup.limits, setup.request.model)
    upstream = upstream.apart()
    account = Account(setup.limits, setup.cancel, above, setup.begun)
    loop = _loop_of(upstream, setup, account)
    step = next(loop)
    losses: dict[Loss, None] = {}
    secrecy = RunSecrets(setup.resolve, [upstream.provider.key])
    listener = None if tell is None else _Listener(tell, secrecy)
    while not isinstance(step, Done):
        sent = Sent(digest=None if setup.recording is None else setup.recording.new_digest())
        ran: list[Ran] = []
        try:
            secrecy.observe(step)
            yield from _told(listener, step)
            yield from _recorded(setup, step)
            with account.clock:
                steps = _outcome(upstream, setup, step, sent, ran, account, secrecy)
                outcome = yield from steps if tell is None else handle_emits(steps, partial(_telling, listener))
        except GeneratorExit:
            raise
        except BaseException as problem:  # whatever it is, the history is made whole, and it goes on
            results = [one.result for one in ran]
            step = loop.send(Cancelled(_words_of(problem), sent.partial, results))
            step = _with_losses(step, losses, sent)
            done = _finished(setup, step, on_end, above)
            yield from _recorded_in_a_storm(setup, step)
            yield from _told(listener, done)
            raise
        step = _with_losses(loop.send(outcome), losses, sent)
    done = _finished(setup, step, on_end, above)
    yield from _ending(setup, step, done, listener)
    return done


def _words_of(problem: BaseException) -> str:
    return "the stream was closed" if isinstance(problem, Abandoned) else f"stopped by {type(problem).__name__}"


def _loop_of(upstream: Upstream, setup: RunSetup, account: Account) -> Loop:
    begun = upstream.now()
    return tool_loop(
        setup.request,
        limits=setup.limits,
        auto_tools=setup.auto_tools,
        terminal_tool=setup.terminal_tool,
        price=cost,
        elapsed=lambda: upstream.now() - begun,
        accept=None if setup.form is None else setup.form.mended,
        beside=account.taken,
    )


def _ending(setup: RunSetup, step: Done, done: Done, listener: _Listener | None) -> Work[None]:
    """Record the last calls, and tell the end, also where an exception stops the recording."""
    try:
        yield from _recorded(setup, step)
    except GeneratorExit:
        raise
    except BaseException:
        yield from _told(listener, done)
        raise
    yield from _telling(listener, done)


def _finished(setup: RunSetup, done: Done, on_end: OnEnd | None, above: Account | None) -> Done:
    """Give the end in its last form, keep it, and add what it used to the run that it is a part of."""
    if above is not None:
        above.add(done.usage, done.cost)
    if setup.clearing is not None:
        done = replace(done, losses=(*done.losses, *setup.clearing.cut.losses))
    done = _with_hint(setup, done)
    done = done if setup.form is None else setup.form.finished(done)
    if on_end is not None:
        on_end(done)
    return done


def _recorded_in_a_storm(setup: RunSetup, done: Done) -> Work[None]:
    """Record what there is while an exception is on its way: it is the one to be raised."""
    try:
        yield from _recorded(setup, done)
    except ToolwireError:
        logger.exception("the last calls could not be recorded")


def _recorded(setup: RunSetup, step: LoopStep) -> Work[None]:
    if setup.recording is not None:
        yield from setup.recording.settling(step, len(setup.request.messages))


def _with_losses(step: LoopStep, losses: dict[Loss, None], sent: Sent) -> Any:
    """Note what an exchange could not say, and put all of it into the end."""
    losses.update(dict.fromkeys(sent.losses))
    return replace(step, losses=tuple(losses)) if isinstance(step, Done) else step


def _outcome(
    upstream: Upstream,
    setup: RunSetup,
    step: AskModel | RunTools,
    sent: Sent,
    ran: list[Ran],
    account: Account,
    secrecy: RunSecrets,
) -> Work[Outcome]:
    """Give the steps that do what the loop wants; what comes of it is emitted."""
    if isinstance(step, RunTools):
        return _ran(setup, step, ran, account, secrecy)
    return _answered(upstream, setup, step, sent, account.clock)


def _answered(upstream: Upstream, setup: RunSetup, step: AskModel, sent: Sent, clock: Clock) -> Work[Outcome]:
    if clock.is_over():
        return clock.end()
    request = step.request
    sent.tokens, sent.cost = step.tokens, step.cost
    if setup.clearing is not None:
        sent.given = texts_given(request)
        request = setup.clearing.asked(request)
    if setup.form is not None:
        request = setup.form.asked(request)
    steps = exchanging(upstream, request, sent, clock.stop)
    outcome = yield from steps if setup.journal is None else setup.journal.ask_model(sent, steps)
    if setup.clearing is not None and type(outcome) is Response:
        setup.clearing.answered(outcome.usage)
    if setup.recording is not None:
        setup.recording.answered(step, sent)
    told = outcome if type(outcome) is not Error else _broken(outcome, sent, clock)
    yield Emit(told)
    return told


def _broken(error: Error, sent: Sent, clock: Clock) -> Outcome:
    """Say what a failure is to the loop: the run may have been stopped, or the answer begun."""
    if sent.over:
        return Cancelled(sent.over, sent.partial, ending="budget")
    if clock.is_over():
        return clock.end(sent.partial)
    return error if sent.partial is None else Broken(sent.partial, error)


def _ran(setup: RunSetup, tools: RunTools, ran: list[Ran], account: Account, secrecy: RunSecrets) -> Work[Outcome]:
    """Run the calls; what became of each is emitted, and its result."""
    if account.clock.is_over():
        return account.clock.end()
    if setup.recording is not None:
        setup.recording.check()
    options: dict[str, Any] = {
        "limits": setup.running,
        "cancel": account.clock.stop,
        "record": CallRecord(ran.append, secrecy),
    }
    resolve = setup.resolve or (lambda call: ("error", f"nothing here runs {call.name!r}"))
    execute = Ask(account.execute, (tools, resolve), options, account.aexecute)
    try:
        if setup.journal is None:
            results = yield execute
        else:
            results = yield from setup.journal.run_calls(tools, setup.resolve, execute, ran)
    finally:
        if setup.recording is not None:
            setup.recording.keep(ran)
    for one in ran:
        yield Emit(one)
    for result in results:
        yield Emit(result)
    return results  # type: ignore[no-any-return]


def _with_hint(setup: RunSetup, done: Done) -> Done:
    """Say of an answer that looks like a call, and was not taken for one, that it does."""
    looks = look_of_call(done.message.text) if done.ending == "answer" and setup.request.tools else None
    if looks is None:
        return done
    names = [name for name in detect(done.message.text, tools=setup.request.tools).names if name != "tagged"]
    reads = f"; it is read with {' or '.join(f'format={name!r}' for name in names)}" if names else ""
    return replace(done, reason=f"the answer looks like a call ({looks}), but nothing was run: {_NOT_TAKEN}{reads}")


def _telling(listener: _Listener | None, event: Any) -> Work[None]:
    yield from _told(listener, event)
    yield Emit(event)


def _told(listener: _Listener | None, event: Any) -> Work[None]:
    """Tell an event; what the listener raises is its own affair, and is logged."""
    if listener is None:
        return
    try:
        yield Ask(listener.tell, (event,))
    except Exception as problem:  # noqa: BLE001 - it may raise anything
        why = format_traceback(problem, listener.secrecy(event))
        logger.error("on_event failed at %s\n%s", type(event).__name__, why)  # noqa: TRY400 - scrubbed
