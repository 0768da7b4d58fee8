"""What both faces have in common: a client of one provider, and what a stream shows.

Rules of this file:
- A stream shows words, complete calls, results and the end; `on_event` gets every event of the wire as well.
- An error of the provider is raised where nothing was given yet; else it is in the end, with what had come.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, Unpack

from msgspec.structs import replace

from toolwire.client.budget import Account
from toolwire.client.clearing import Clearing, ConversationClearing, native, window_of
from toolwire.client.conversation import OnEnd, RunSetup, check_media, conversing, request_of
from toolwire.client.exchange import Retries, Retrying, Sent, Upstream, exchanging
from toolwire.client.failures import AllFailed, ChoiceIgnored, ProviderError, exception_of
from toolwire.client.options import RunOptions, check_able, check_kinds, check_options, names_of, value_of
from toolwire.client.settings import ClientOptions, OnChunk, OnEvent, Prompt, Providers, StreamItem
from toolwire.dialects import traits_of
from toolwire.errors import InvalidField
from toolwire.loop import Done, LoopLimits
from toolwire.loop.steps import ANSWER, T_co
from toolwire.providers import Provider, provider_of
from toolwire.providers.catalogue import cost
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
_Begin = Callable[["Dialogue", dict[str, Any], bool], Work[T]]
_REACHED = ("timeouts", "retries", "bounds", "fallback", "readers")
for _kind in (Timeouts, Retries, Bounds, LoopLimits, Limits):
    readable(_kind)


class Dialogue:
    """A client of one provider; both faces drive its steps.

    With `fallback`, calls that a model writes into its text are read there, and it is told of its tools there
    from then on; `readers` name the forms that are read besides the protocol (`text_tagged.READERS`).
    Where a list of providers is given, the next one is asked when one fails before it has said anything.
    """

    def __init__(self, provider: Providers = None, model: str | None = None, **options: Unpack[ClientOptions]) -> None:
        given: dict[str, Any] = dict(options)
        check_kinds({"model": model, "fallback": given.get("fallback")})
        providers: Any = provider if isinstance(provider, list) and provider else [provider]
        first, *others = providers
        reached: dict[str, Any] = _taken(given, _REACHED)
        transport = given.pop("transport", None)
        check_options(given, first if isinstance(first, str) else "")
        self.provider: Provider
        self.model: str | None
        self.provider, self.model = provider_of(first, model, **given)
        check_able(transport, "transport", "send" if hasattr(transport, "send") else "asend")
        self.transport: Transport = transport or _usual_transport()
        fallback = reached.get("fallback")
        reached |= {
            "timeouts": value_of(Timeouts, reached.get("timeouts"), "timeouts", "total"),
            "retries": value_of(Retries, reached.get("retries"), "retries", "attempts"),
            "bounds": value_of(Bounds, reached.get("bounds"), "bounds"),
            "fallback": True if fallback is None else fallback,
            "readers": names_of(reached.get("readers"), "readers"),
        }
        self.upstream: Upstream = Upstream(self.provider, self.provider.speaks(), self.transport, **reached)
        self.others: list[Dialogue] = [Dialogue(other, transport=self.transport, **reached) for other in others]
        for other in self.others:
            other.model = other.model or model

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.provider.name!r}, model={self.model!r})"

    def asking(self, messages: Prompt, settings: Mapping[str, Any]) -> Work[Response]:
        """One round: send the messages, and give the answer; an error of the provider is raised."""
        return self._first(lambda one, options, _last: one.asking_once(messages, options), settings)

    def _first(self, begin: _Begin[T], settings: Mapping[str, Any]) -> Work[T]:
        """Ask this provider, and the others in turn where one fails before it has said anything."""
        return self._first_of_all(begin, settings) if self.others else begin(self, dict(settings), True)

    def _first_of_all(self, begin: _Begin[T], settings: Mapping[str, Any]) -> Work[T]:
        """Ask each in turn until one has said something."""
        causes: list[Exception] = []
        settings = {name: list(one) if isinstance(one, Iterator) else one for name, one in settings.items()}
        rest = {name: value for name, value in settings.items() if name != "model"}
        for one in (self, *self.others):
            try:
                options = dict(settings if one is self or one.model is None else rest)
                return (yield from begin(one, options, len(causes) == len(self.others)))
            except ProviderError as problem:
                causes.append(problem)
        raise causes[0] if len(causes) == 1 else AllFailed(causes)

    def asking_once(self, messages: Any, settings: dict[str, Any]) -> Work[Response]:
        """One round with this very provider."""
        upstream = self._upstream(settings)
        request, _ = self._request(messages, settings)
        return (yield from _answered(upstream, request))

    def sending(self, request: Request, *, stream: bool = False) -> Work[Response]:
        """Send a request as it was decoded; with `stream`, emit the events of its answer as they come."""
        if not isinstance(request, Request):
            kind = type(request).__name__
            raise InvalidField("request", f"must be a Request, not {kind}; `chat` takes messages", path="send")
        check_media(request.messages)

        def begin(one: Dialogue, options: dict[str, Any], _last: bool) -> Work[Response]:
            asked = replace(request, model=one._model(options))
            if not stream:
                return (yield from _answered(one.upstream, asked))
            return (yield from _streamed(one.upstream, replace(asked, stream=True)))

        return self._first(begin, {"model": request.model})

    def leading(
        self,
        prompt: Prompt,
        settings: Mapping[str, Any],
        on_end: OnEnd | None = None,
        *,
        stream: bool = False,
        value: bool = False,
        journal: Any = None,
    ) -> Work[Any]:
        """Lead a conversation, and give its end; with `value`, that of the answer where a form of it was wanted.

        A `journal` keeps what became of each question and call, and gives it again where the run goes on.
        """
        settings = dict(settings)
        options = RunOptions.take(settings)
        on_chunk = options.on_chunk
        if stream or on_chunk is not None:
            settings["stream"] = True
        since: list[float] = []

        def begin(one: Dialogue, asked: dict[str, Any], last: bool) -> Work[Any]:
            since.append(time.monotonic())
            upstream, setup = one.prepared(prompt, options, asked, covered=getattr(journal, "files", ()))
            setup = replace(setup, begun=since[0])
            if journal is not None:
                upstream, setup = journal.bind(upstream, setup)
            done = yield from _conversation(upstream, setup, options.on_event, on_end, last=last)
            if done.error is not None and _failed(done):
                raise exception_of(done.error, upstream.provider.name)
            return setup.form.value(done) if value and setup.form is not None else done

        steps = self._first(begin, settings)
        return steps if on_chunk is None else handle_emits(steps, partial(_showing, on_chunk))

    def prepared(
        self, prompt: Prompt, options: RunOptions, settings: dict[str, Any], *, covered: Sequence[str | Path] = ()
    ) -> tuple[Upstream, RunSetup]:
        """Return whom a run asks and how: `settings` are its requests', `covered` are files that no tool may touch."""
        upstream = self._upstream(settings)
        given = None if options.resolver is None else runner_of(options.resolver, "resolver")
        if offers_tools(given) and not (settings.get("tools") or getattr(prompt, "tools", None)):
            settings["tools"] = given  # a resolver that lists its tools declares them, where nothing else does
        request, own = self._request(prompt, settings)
        resolver = own if given is None else _instead_of(own, given)
        setup = RunSetup(
            request,
            _resolving(resolver, request, options),
            auto_tools=options.auto_tools,
            limits=options.limits,
            running=options.running,
            terminal_tool=options.terminal_tool,
            cancel=options.cancel,
        )
        if options.output is not None:
            setup = _formed(setup, upstream, options.output)
        if options.clearing is not None:
            upstream, setup = _with_clearing(upstream, setup, options.clearing)
        if options.traces is not None:
            setup = replace(setup, recording=_recording(setup, upstream, options.traces))
            covered = (*covered, *setup.recording.files)
        cover_files(resolver, covered)
        return upstream, setup

    def _upstream(self, settings: dict[str, Any]) -> Upstream:
        """Give the line with what this call says of the server; what is learnt of models is the client's."""
        capabilities = settings.pop("capabilities", None)
        if capabilities is None:
            return self.upstream
        provider = self.provider.with_options(capabilities=capabilities)
        return replace(self.upstream, provider=provider, dialect=provider.speaks())

    def _request(self, prompt: Any, settings: dict[str, Any]) -> tuple[Any, Any]:
        return request_of(prompt, **{**settings, "model": self._model(settings)})

    def _model(self, settings: dict[str, Any]) -> str | None:
        """Take the model that a call names, or the client's."""
        model: str | None = settings.get("model") or self.model
        if model is None and not traits_of(self.provider.dialect).names_model_in_path:
            raise InvalidField(
                "model", "is missing: neither the client nor the call names one", path=self.provider.name
            )
        return model


def _usual_transport() -> Transport:
    from toolwire.client.httpx import HttpxTransport  # noqa: PLC0415 - HTTP is loaded for the first client

    return HttpxTransport()


def _taken(settings: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: settings.pop(name) for name in names if name in settings}


def _resolving(resolver: Any, request: Any, options: RunOptions) -> Any:
    """Give what runs the calls: bound to the tools that are declared and to the context, and approved."""
    ask = options.approve
    if hasattr(resolver, "available_tools"):
        from toolwire.resolvers.session import Session, prepare  # noqa: PLC0415 - only where there is a resolver

        if not isinstance(resolver, Session):
            resolver = resolver if ask is None else approved(resolver, ask)
            return prepare(resolver, [getattr(tool, "name", "") for tool in request.tools], options.context)[1]
    if ask is not None and resolver is not None:
        raise InvalidField("approve", "needs tools or a resolver that lists its tools", path="run")
    return resolver


def _instead_of(own: Any, given: Any) -> Any:
    """Give what runs the calls instead of the tools themselves; a resolver has to have each of them."""
    if own is not None and offers_tools(given):
        known = [tool.name for tool in tools_of(given)]
        if lacking := [tool.name for tool in tools_of(own) if tool.name not in known]:
            detail = f"does not have {lacking[0]!r}, which can be run; pass them together: tools=[..., resolver]"
            raise InvalidField("resolver", detail, path="settings")
    return given


def _formed(setup: RunSetup, upstream: Upstream, output: Any) -> RunSetup:
    """Give the turn with the form that its answer must have."""
    from toolwire.client.structured import AnswerForm  # noqa: PLC0415 - only where a form is wanted

    if setup.terminal_tool is not None:
        raise InvalidField("terminal_tool", "cannot be used with `output`: the answer ends the run")
    return replace(setup, form=AnswerForm.of(output, upstream.provider, setup.request), terminal_tool=ANSWER)


def _with_clearing(upstream: Upstream, setup: RunSetup, clearing: Any) -> tuple[Upstream, RunSetup]:
    """Have old results cleared: by the provider where it can, else by the run; `True` is the usual way."""
    policy = Clearing() if clearing is True else clearing
    if not isinstance(policy, Clearing):
        raise InvalidField("clearing", "must be a Clearing, or True for the default one")
    provider, window = upstream.provider, window_of(setup.request.model)
    own = native(policy, provider.dialect, window) if provider.capabilities.clearing else None
    if own is None:
        return upstream, replace(setup, clearing=ConversationClearing(policy))
    provider = provider.with_options(headers=own.beside(provider.headers))
    return replace(upstream, provider=provider, extra={**own.body, **upstream.extra}), setup


def _recording(setup: RunSetup, upstream: Upstream, traces: Any) -> Any:
    from toolwire.client.tracing import Recording  # noqa: PLC0415 - only where calls are recorded
    from toolwire.traces.trace import Scope  # noqa: PLC0415 - the same

    return Recording(Scope.of(traces), upstream, setup.resolve, setup.terminal_tool)


def _conversation(
    upstream: Upstream, setup: RunSetup, on_event: OnEvent | None, on_end: OnEnd | None, *, last: bool
) -> Work[Done]:
    """Give the steps of a conversation; an error before any answer is told where nobody else is asked."""
    if callable(know := getattr(on_event, "know", None)):
        know(RunSecrets(setup.resolve, [upstream.provider.key]))
    if last:
        return conversing(upstream, setup, on_event, on_end)
    tell = None if on_event is None else lambda event: None if _failed(event) else on_event(event)
    return handle_emits(conversing(upstream, setup, tell, on_end), _emit_unless_failed)


def _failed(event: Any) -> bool:
    """Whether a run ended before it had any answer, be it a thought."""
    if not isinstance(event, Done) or event.error is None:
        return False
    return not event.messages and not event.message.parts


def _showing(on_chunk: OnChunk, event: Any) -> Work[None]:
    shown = _shown(event)
    if shown is not None:
        yield Ask(on_chunk, (shown,))
    yield Emit(event)


def _emit_unless_failed(event: Any) -> Work[None]:
    if not _failed(event):
        yield Emit(event)


def _answered(upstream: Upstream, request: Request) -> Work[Response]:
    """Send a request, and give its answer; an error of the provider is raised."""
    choice = request.tool_choice
    if choice is not None and choice.mode == "required" and not upstream.provider.capabilities.tool_choice:
        return (yield from _insisting(upstream, request))
    outcome = yield from _apart(upstream, request, Sent())
    if isinstance(outcome, Error):
        raise exception_of(outcome, upstream.provider.name)
    return outcome


def _apart(upstream: Upstream, request: Request, sent: Sent) -> Work[Response | Error]:
    """Send a request that no run of its own leads; if a tool does, it is a part of the run around it."""
    above = Account.of_the_run_around()
    stop = None if above is None else above.clock.stop
    outcome = yield from exchanging(upstream.apart(), request, sent, stop)
    if above is not None and isinstance(outcome, Response):
        above.add(outcome.usage, cost(outcome.usage, request.model))
    return outcome


def _streamed(upstream: Upstream, request: Request) -> Work[Response]:
    """Send a request, and emit the events of its answer; an error is raised before the first, and is one after it."""
    sent, ends = Sent(), list[MessageEnd]()
    given = failed = False

    def pick(event: Event | Retrying) -> Event | None:
        nonlocal given, failed
        if isinstance(event, Retrying):
            return None
        if type(event) is MessageEnd:
            ends.append(event)
            return None
        given, failed = True, failed or type(event) is ErrorEnd
        return event

    outcome = yield from filter_emits(_apart(upstream, request, sent), pick)
    if isinstance(outcome, Error):
        if not given:
            raise exception_of(outcome, upstream.provider.name)
        if not failed:
            yield Emit(ErrorEnd(outcome))
        yield Emit(MessageEnd(complete=False))
        return replace(sent.partial or Response(), losses=sent.losses)
    yield Emit(ends[-1] if ends else MessageEnd())
    return outcome


def _insisting(upstream: Upstream, request: Any) -> Work[Response]:
    """Ask until a tool is called that has to be, as often as a loop does; nothing is run."""
    done = yield from conversing(upstream, RunSetup(request, auto_tools=False))
    if done.error is not None:
        raise exception_of(done.error, upstream.provider.name)
    if done.response is None or done.ending == "error":
        raise ChoiceIgnored(upstream.provider.name, done)
    return done.response


class ConversationStream(Generic[T_co]):
    """A conversation that is shown while it happens: what the streams of both faces have in common.

    A face says how it drives steps that emit. `close` ends the client, where that ends with the stream.
    """

    _drive: ClassVar[Any]

    def __init__(
        self, client: Dialogue, prompt: Prompt, settings: Mapping[str, Any], close: Callable[[], object] | None = None
    ) -> None:
        # The steps hold this list, and not the stream: so a stream that is dropped ends.
        self._ends: list[Done[T_co]] = []
        steps = filter_emits(client.leading(prompt, settings, self._ends.append, stream=True), _shown)
        self._items = self._drive(steps if close is None else _closing(steps, close))

    @property
    def done(self) -> Done[T_co] | None:
        """The end, once there is one."""
        return self._ends[-1] if self._ends else None

    @property
    def response(self) -> Response | None:
        """The last answer of the model, once the stream has ended."""
        return self.done.response if self.done is not None else None


class AnswerStream:
    """One answer while it comes: what the event streams of both faces have in common."""

    _drive: ClassVar[Any]

    def __init__(self, client: Dialogue, request: Request) -> None:
        # The steps hold this list, and not the stream: so a stream that is dropped ends.
        self._answers: list[Response] = []
        self._held: list[Event] = []
        self._items: Any = self._drive(_keeping(client.sending(request, stream=True), self._answers.append))

    @property
    def response(self) -> Response | None:
        """The answer, once it has ended; of one that broke off, what had come."""
        return self._answers[-1] if self._answers else None


def _keeping(steps: Work[T], keep: Callable[[T], None]) -> Work[T]:
    value = yield from steps
    keep(value)
    return value


def _closing(steps: Work[Done], close: Callable[[], object]) -> Work[Done]:
    """Do the steps, and close at their end, whatever it is."""
    try:
        done = yield from steps
    except GeneratorExit:
        raise
    except BaseException:
        yield Ask(close)
        raise
    yield Ask(close)
    return done


def _shown(event: Any) -> StreamItem | None:
    """Give what an event shows: words, a call that is complete, a result, the end."""
    if type(event) in _SHOWN_AS_IT_IS:
        return event  # type: ignore[no-any-return]
    if type(event) is CallEnd and event.call.runs and event.call.name != ANSWER:
        return event.call
    return None


_SHOWN_AS_IT_IS = frozenset({TextDelta, ThinkingDelta, RefusalDelta, ToolResult, Done})
