"""The common base of the sync and the async client, and of their streams.

Rules of this file:
- A stream yields text, complete calls, results and the end. `on_event` receives every event of the wire as well.
- A provider's error is raised if no part of an answer was emitted yet. Otherwise it is in the `Done`, with the partial
  answer.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, Unpack

from msgspec.structs import replace

from toolwire.client.budget import Account
from toolwire.client.clearing import Clearing, ConversationClearing, context_window, native_clearing
from toolwire.client.conversation import OnEnd, RunSetup, check_media, conversation_steps, request_of
from toolwire.client.deferred import DeferredSearch
from toolwire.client.exchange import ExchangeState, ProviderConnection, Retries, Retrying, exchange_steps
from toolwire.client.failures import AllFailed, ChoiceIgnored, ProviderError, exception_of
from toolwire.client.options import (
    RunOptions,
    check_approval,
    check_methods,
    check_options,
    check_types,
    names_of,
    struct_of,
)
from toolwire.client.recording import store_of
from toolwire.client.settings import ClientOptions, OnChunk, OnEvent, Prompt, Providers, StreamItem
from toolwire.dialects import traits_of
from toolwire.errors import InvalidField
from toolwire.loop import Done, LoopLimits
from toolwire.loop.steps import ANSWER, T_co
from toolwire.providers import Provider, provider_of
from toolwire.providers.catalogue import cost
from toolwire.providers.known import model_at
from toolwire.resolvers import RunSecrets, approved, cover_files, offers_tools, tools_of
from toolwire.resolvers.execution import Limits, runner_of
from toolwire.types import (
    CallEnd,
    Error,
    ErrorEnd,
    Event,
    MessageEnd,
    RefusalDelta,
    Request,
    Response,
    TextDelta,
    ThinkingDelta,
    ToolResult,
)
from toolwire.types.readable import readable
from toolwire.waiting.steps import Ask, Emit, Work, filter_emits, handle_emits
from toolwire.wire.transport import Bounds, Timeouts, Transport

T = TypeVar("T")
_StartSteps = Callable[["BaseClient", dict[str, Any], bool], Work[T]]
CONNECTION_OPTIONS = ("timeouts", "retries", "bounds", "fallback", "cache", "readers", "record")
for _kind in (Timeouts, Retries, Bounds, LoopLimits, Limits):
    readable(_kind)


class BaseClient:
    """A client of one provider; the sync and the async client drive its steps.

    With `fallback`, calls that a model writes into its text are parsed, and later requests describe the tools as text.
    `readers` are the forms that are parsed besides the protocol (`text_tagged.READERS`). If `provider` is a list, the
    next one is asked when one fails before its answer has begun. With `cache`, requests get what the provider's prompt
    cache needs.
    """

    def __init__(self, provider: Providers = None, model: str | None = None, **options: Unpack[ClientOptions]) -> None:
        given: dict[str, Any] = dict(options)
        check_types({"model": model, "fallback": given.get("fallback"), "cache": given.get("cache")})
        providers: Any = provider if isinstance(provider, list) and provider else [provider]
        first, *others = providers
        connection_options: dict[str, Any] = _pop_options(given, CONNECTION_OPTIONS)
        transport = given.pop("transport", None)
        check_options(given, first if isinstance(first, str) else "")
        self.provider: Provider
        self.model: str | None
        self.provider, self.model = provider_of(first, model, **given)
        check_methods(transport, "transport", "send" if hasattr(transport, "send") else "asend")
        self.transport: Transport = transport or _default_transport()
        store, is_opened_here = store_of(connection_options.get("record"))
        self._own_records = store if is_opened_here else None
        fallback, cache = connection_options.get("fallback"), connection_options.get("cache")
        connection_options |= {
            "timeouts": struct_of(Timeouts, connection_options.get("timeouts"), "timeouts", "total"),
            "retries": struct_of(Retries, connection_options.get("retries"), "retries", "attempts"),
            "bounds": struct_of(Bounds, connection_options.get("bounds"), "bounds"),
            "fallback": True if fallback is None else fallback,
            "cache": True if cache is None else cache,
            "readers": names_of(connection_options.get("readers"), "readers"),
            "record": store,
        }
        self.upstream: ProviderConnection = ProviderConnection(
            self.provider, self.provider.speaks(), self.transport, **connection_options
        )
        self.others: list[BaseClient] = [
            BaseClient(other, transport=self.transport, **connection_options) for other in others
        ]
        for other in self.others:
            other.model = other.model or model

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.provider.name!r}, model={self.model!r})"

    def _close_records(self) -> None:
        """Write the records that wait, if this client has opened their store."""
        if self._own_records is not None:
            self._own_records.close()


def chat_steps(client: BaseClient, messages: Prompt, settings: Mapping[str, Any]) -> Work[Response]:
    """Send the messages once and return the answer. Raise ProviderError if the provider fails."""
    return _ask_in_turn(client, lambda one, options, _last: _chat_once_steps(one, messages, options), settings)


def _ask_in_turn(client: BaseClient, begin: _StartSteps[T], settings: Mapping[str, Any]) -> Work[T]:
    """Ask this provider, and then the others in turn while each fails before its answer has begun."""
    return _ask_others_too(client, begin, settings) if client.others else begin(client, dict(settings), True)


def _ask_others_too(client: BaseClient, begin: _StartSteps[T], settings: Mapping[str, Any]) -> Work[T]:
    """Ask each provider in turn until one has begun an answer."""
    causes: list[Exception] = []
    settings = {name: list(one) if isinstance(one, Iterator) else one for name, one in settings.items()}
    without_model = {name: value for name, value in settings.items() if name != "model"}
    for one in (client, *client.others):
        try:
            options = dict(settings if one is client or one.model is None else without_model)
            return (yield from begin(one, options, len(causes) == len(client.others)))
        except ProviderError as problem:
            causes.append(problem)
    raise causes[0] if len(causes) == 1 else AllFailed(causes)


def _chat_once_steps(client: BaseClient, messages: Any, settings: dict[str, Any]) -> Work[Response]:
    """Send the messages once, to this provider only."""
    upstream = _connection_of(client, settings)
    request, _ = _request_for(client, messages, settings)
    return (yield from _answer_steps(upstream, request))


def send_steps(client: BaseClient, request: Request, *, stream: bool = False) -> Work[Response]:
    """Send a decoded request. With `stream`, emit the events of its answer as they arrive."""
    if not isinstance(request, Request):
        kind = type(request).__name__
        raise InvalidField("request", f"must be a Request, not {kind}; `chat` takes messages", path="send")
    check_media(request.messages)

    def begin(one: BaseClient, options: dict[str, Any], _last: bool) -> Work[Response]:
        prepared = replace(request, model=options.get("model") or _model_for(one, {}))
        if not stream:
            return (yield from _answer_steps(one.upstream, prepared))
        return (yield from _stream_steps(one.upstream, replace(prepared, stream=True)))

    return _ask_in_turn(client, begin, {"model": request.model})


def run_steps(
    client: BaseClient,
    prompt: Prompt,
    settings: Mapping[str, Any],
    on_end: OnEnd | None = None,
    *,
    stream: bool = False,
    value: bool = False,
    call_log: Any = None,
) -> Work[Any]:
    """Run the tool loop until it ends, and return `Done`.

    If `value` is true and `output=` was given, return the parsed output instead. A `call_log` records the outcome
    of each exchange and call, and replays it when the run is resumed.
    """
    settings = dict(settings)
    options = RunOptions.pop_from(settings)
    on_chunk = options.on_chunk
    if stream or on_chunk is not None:
        settings["stream"] = True
    started: list[float] = []

    def begin(one: BaseClient, request_settings: dict[str, Any], last: bool) -> Work[Any]:
        started.append(time.monotonic())
        upstream, setup = prepare_run(one, prompt, options, request_settings, covered=getattr(call_log, "files", ()))
        setup = replace(setup, started=started[0])
        if call_log is not None:
            upstream, setup = call_log.bind(upstream, setup)
        done = yield from _conversation(upstream, setup, options.on_event, on_end, last=last)
        if done.error is not None and failed_early(done):
            raise exception_of(done.error, upstream.provider.name)
        return setup.output_plan.value(done) if value and setup.output_plan is not None else done

    steps = _ask_in_turn(client, begin, settings)
    return steps if on_chunk is None else handle_emits(steps, partial(_show_chunk, on_chunk))


def prepare_run(
    client: BaseClient,
    prompt: Prompt,
    options: RunOptions,
    settings: dict[str, Any],
    *,
    covered: Sequence[str | Path] = (),
) -> tuple[ProviderConnection, RunSetup]:
    """Return the connection and the setup of a run.

    `settings` are those of its requests, `covered` are files that no tool may touch.
    """
    upstream = _connection_of(client, settings)
    resolver_option = None if options.resolver is None else runner_of(options.resolver, "resolver")
    if offers_tools(resolver_option) and not (settings.get("tools") or getattr(prompt, "tools", None)):
        settings["tools"] = resolver_option  # without other tools, a resolver declares those that it lists
    request, tool_resolver = _request_for(client, prompt, settings)
    resolver = tool_resolver if resolver_option is None else _replace_resolver(tool_resolver, resolver_option)
    deferred = DeferredSearch.of(request, upstream.provider.dialect, runs_calls=_can_search(options, resolver))
    setup = RunSetup(
        request,
        _bind_resolver(resolver, request, options, deferred),
        auto_tools=options.auto_tools,
        limits=options.limits,
        running=options.running,
        terminal_tool=options.terminal_tool,
        cancel=options.cancel,
        deferred=deferred,
        approval=() if callable(options.approve) else options.approve or (),
    )
    check_approval(setup.approval, request.tools)
    if options.output is not None:
        setup = _with_output(setup, upstream, options.output)
    if options.clearing is not None:
        upstream, setup = _with_clearing(upstream, setup, options.clearing)
    if options.traces is not None:
        setup = replace(setup, recording=_recording(setup, upstream, options.traces))
        covered = (*covered, *setup.recording.files)
    cover_files(resolver, covered)
    return upstream, setup


def _connection_of(client: BaseClient, settings: dict[str, Any]) -> ProviderConnection:
    """Return the connection with the `capabilities` of this call. Observations about models stay the client's."""
    capabilities = settings.pop("capabilities", None)
    if capabilities is None:
        return client.upstream
    provider = client.provider.with_options(capabilities=capabilities)
    return replace(client.upstream, provider=provider, dialect=provider.speaks())


def _request_for(client: BaseClient, prompt: Any, settings: dict[str, Any]) -> tuple[Any, Any]:
    return request_of(prompt, **{**settings, "model": _model_for(client, settings)})


def _model_for(client: BaseClient, settings: dict[str, Any]) -> str | None:
    """Return the model that a call names, else the client's. Raise InvalidField if there is none."""
    named: str | None = settings.get("model")
    model = model_at(client.provider.name, named) if named and isinstance(named, str) else named or client.model
    if model is None and not traits_of(client.provider.dialect).names_model_in_path:
        raise InvalidField("model", "is missing: neither the client nor the call names one", path=client.provider.name)
    return model


def _default_transport() -> Transport:
    from toolwire.client.httpx import HttpxTransport  # noqa: PLC0415 - HTTP is loaded for the first client

    return HttpxTransport()


def _pop_options(settings: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: settings.pop(name) for name in names if name in settings}


def _can_search(options: RunOptions, resolver: Any) -> bool:
    """Return True if a run can answer searches of deferred tools, beside the calls that `resolver` runs."""
    lists_tools = hasattr(resolver, "available_tools") and not callable(resolver)
    return bool(options.auto_tools) and (resolver is None or lists_tools)


def _bind_resolver(resolver: Any, request: Any, options: RunOptions, deferred: DeferredSearch | None = None) -> Any:
    """Return the resolver of the calls, bound to the declared tools and the context, and with approval."""
    ask = options.approve if callable(options.approve) else None
    if hasattr(resolver, "available_tools"):
        from toolwire.resolvers.session import Session, prepare  # noqa: PLC0415 - only where there is a resolver

        if not isinstance(resolver, Session):
            resolver = resolver if ask is None else approved(resolver, ask)
            names = [getattr(tool, "name", "") for tool in request.tools]
            if deferred is not None:
                resolver, names = deferred.resolver_with(resolver), [*names, deferred.name]
            return prepare(resolver, names, options.context)[1]
    if ask is not None and resolver is not None:
        raise InvalidField("approve", "needs tools or a resolver that lists its tools", path="run")
    return deferred.resolver_with(resolver) if deferred is not None and resolver is None else resolver


def _replace_resolver(tool_resolver: Any, resolver: Any) -> Any:
    """Return the resolver that replaces the tools' own. Raise InvalidField if it lacks one of them."""
    if tool_resolver is not None and offers_tools(resolver):
        known = [tool.name for tool in tools_of(resolver)]
        if lacking := [tool.name for tool in tools_of(tool_resolver) if tool.name not in known]:
            detail = f"does not have {lacking[0]!r}, which can be run; pass them together: tools=[..., resolver]"
            raise InvalidField("resolver", detail, path="settings")
    return resolver


def _with_output(setup: RunSetup, upstream: ProviderConnection, output: Any) -> RunSetup:
    """Return the setup with the plan for the form of its answer."""
    from toolwire.client.structured import OutputPlan  # noqa: PLC0415 - only where a form is wanted

    if setup.terminal_tool is not None:
        raise InvalidField("terminal_tool", "cannot be used with `output`: the answer ends the run")
    return replace(setup, output_plan=OutputPlan.of(output, upstream.provider, setup.request), terminal_tool=ANSWER)


def _with_clearing(upstream: ProviderConnection, setup: RunSetup, clearing: Any) -> tuple[ProviderConnection, RunSetup]:
    """Set up the clearing of old results, by the provider if it can. `True` is the default policy."""
    policy = Clearing() if clearing is True else clearing
    if not isinstance(policy, Clearing):
        raise InvalidField("clearing", "must be a Clearing, or True for the default one")
    provider, window = upstream.provider, context_window(setup.request.model)
    native_settings = native_clearing(policy, provider.dialect, window) if provider.capabilities.clearing else None
    if native_settings is None:
        return upstream, replace(setup, clearing=ConversationClearing(policy))
    provider = provider.with_options(headers=native_settings.merge_headers(provider.headers))
    return replace(upstream, provider=provider, extra={**native_settings.body, **upstream.extra}), setup


def _recording(setup: RunSetup, upstream: ProviderConnection, traces: Any) -> Any:
    from toolwire.client.tracing import Recording  # noqa: PLC0415 - only where calls are recorded
    from toolwire.traces.trace import Scope  # noqa: PLC0415 - the same

    return Recording(Scope.of(traces), upstream, setup.resolve, setup.terminal_tool)


def _conversation(
    upstream: ProviderConnection, setup: RunSetup, on_event: OnEvent | None, on_end: OnEnd | None, *, last: bool
) -> Work[Done]:
    """Return the steps of a conversation. If another provider is left, an error before any answer is not reported."""
    if callable(set_secrets := getattr(on_event, "know", None)):
        set_secrets(RunSecrets(setup.resolve, [upstream.provider.key]))
    if last:
        return conversation_steps(upstream, setup, on_event, on_end)
    report = None if on_event is None else lambda event: None if failed_early(event) else on_event(event)
    return handle_emits(conversation_steps(upstream, setup, report, on_end), _emit_unless_failed)


def failed_early(event: Any) -> bool:
    """Return True if a run ended with an error before any part of an answer, thinking included."""
    if not isinstance(event, Done) or event.error is None:
        return False
    return not event.messages and not event.message.parts


def _show_chunk(on_chunk: OnChunk, event: Any) -> Work[None]:
    item = _stream_item(event)
    if item is not None:
        yield Ask(on_chunk, (item,))
    yield Emit(event)


def _emit_unless_failed(event: Any) -> Work[None]:
    if not failed_early(event):
        yield Emit(event)


def _answer_steps(upstream: ProviderConnection, request: Request) -> Work[Response]:
    """Send a request and return its answer. Raise ProviderError if the provider fails."""
    choice = request.tool_choice
    if choice is not None and choice.mode == "required" and not upstream.provider.capabilities.tool_choice:
        return (yield from _ask_until_called(upstream, request))
    outcome = yield from _single_exchange(upstream, request, ExchangeState())
    if isinstance(outcome, Error):
        raise exception_of(outcome, upstream.provider.name)
    return outcome


def _single_exchange(upstream: ProviderConnection, request: Request, state: ExchangeState) -> Work[Response | Error]:
    """Send a request outside of a run. If a tool of a run sends it, its usage counts for that run."""
    parent = Account.current()
    stop = None if parent is None else parent.clock.stop
    outcome = yield from exchange_steps(upstream.for_conversation(), request, state, stop)
    if parent is not None and isinstance(outcome, Response):
        parent.add(outcome.usage, cost(outcome.usage, request.model))
    return outcome


def _stream_steps(upstream: ProviderConnection, request: Request) -> Work[Response]:
    """Send a request and emit the events of its answer.

    An error is raised before the first event, and emitted after it.
    """
    state, ends = ExchangeState(), list[MessageEnd]()
    emitted = failed = False

    def pick(event: Event | Retrying) -> Event | None:
        nonlocal emitted, failed
        if isinstance(event, Retrying):
            return None
        if type(event) is MessageEnd:
            ends.append(event)
            return None
        emitted, failed = True, failed or type(event) is ErrorEnd
        return event

    outcome = yield from filter_emits(_single_exchange(upstream, request, state), pick)
    if isinstance(outcome, Error):
        if not emitted:
            raise exception_of(outcome, upstream.provider.name)
        if not failed:
            yield Emit(ErrorEnd(outcome))
        yield Emit(MessageEnd(complete=False))
        return replace(state.partial or Response(), losses=state.losses)
    yield Emit(ends[-1] if ends else MessageEnd())
    return outcome


def _ask_until_called(upstream: ProviderConnection, request: Any) -> Work[Response]:
    """Ask until a required tool is called, as often as the loop does. No tool runs."""
    done = yield from conversation_steps(upstream, RunSetup(request, auto_tools=False))
    if done.error is not None:
        raise exception_of(done.error, upstream.provider.name)
    if done.response is None or done.ending == "error":
        raise ChoiceIgnored(upstream.provider.name, done)
    return done.response


class ConversationStream(Generic[T_co]):
    """A conversation that is shown while it runs: the common base of the sync and the async stream.

    A subclass defines how emitting steps are driven. `start` returns the steps, and passes the end to the function that
    it is given. `close` closes the client, if it belongs to the stream.
    """

    _drive: ClassVar[Any]

    def __init__(self, start: Callable[[OnEnd], Work[Done[T_co]]], close: Callable[[], object] | None = None) -> None:
        # The steps refer to this list and not to the stream, so that an unused stream is collected and ends.
        self._ends: list[Done[T_co]] = []
        self._held: list[StreamItem] = []
        steps = filter_emits(start(self._ends.append), _stream_item)
        self._items = self._drive(steps if close is None else _close_after(steps, close))

    @property
    def done(self) -> Done[T_co] | None:
        """The end of the conversation, or None before that."""
        return self._ends[-1] if self._ends else None

    @property
    def response(self) -> Response | None:
        """The model's last answer, after the stream has ended."""
        return self.done.response if self.done is not None else None


class AnswerStream:
    """One answer while it arrives: the common base of the sync and the async event stream."""

    _drive: ClassVar[Any]

    def __init__(self, client: BaseClient, request: Request) -> None:
        # The steps refer to this list and not to the stream, so that an unused stream is collected and ends.
        self._answers: list[Response] = []
        self._held: list[Event] = []
        self._items: Any = self._drive(_pass_result(send_steps(client, request, stream=True), self._answers.append))

    @property
    def response(self) -> Response | None:
        """The answer, after it has ended; if it broke off, the part that arrived."""
        return self._answers[-1] if self._answers else None


def _pass_result(steps: Work[T], store: Callable[[T], None]) -> Work[T]:
    value = yield from steps
    store(value)
    return value


def _close_after(steps: Work[Done], close: Callable[[], object]) -> Work[Done]:
    """Run `steps`, and call `close` when they return or raise.

    If the steps are abandoned (`GeneratorExit`), no further step is possible, and `close` is not called.
    """
    try:
        done = yield from steps
    except GeneratorExit:
        raise
    except BaseException:
        yield Ask(close)
        raise
    yield Ask(close)
    return done


def _stream_item(event: Any) -> StreamItem | None:
    """Return what a stream yields for an event: text, a complete call, a result, the end; None for all others."""
    if type(event) in _YIELDED:
        return event  # type: ignore[no-any-return]
    if type(event) is CallEnd and event.call.runs and event.call.name != ANSWER:
        return event.call
    return None


_YIELDED = frozenset({TextDelta, ThinkingDelta, RefusalDelta, ToolResult, Done})
