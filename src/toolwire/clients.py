"""What both faces have in common: a client of one provider, and what a stream shows.

Rules of this file:
- A stream shows words, complete calls, results and the end; `on_event` gets every event of the wire as well.
- An error of the provider is raised where nothing was given yet; else it is in the end, with what had come.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from toolwire.conversing import Keep, Turn, conversing, request_of
from toolwire.errors import InvalidField
from toolwire.exchange import Line, Retries, exchanging
from toolwire.execution import Cancel, Limits
from toolwire.failures import exception_of
from toolwire.loop import Done, LoopLimits
from toolwire.providers import Provider, provider_of
from toolwire.steps import Ask, Emit, Steps, through
from toolwire.transport import Timeouts, Transport
from toolwire.types import (
    CallEnd,
    Error,
    RefusalDelta,
    Response,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
)

Shown = TextDelta | ThinkingDelta | RefusalDelta | ToolCall | ToolResult | Done
OnEvent = Callable[[Any], Any]
RUNNING = frozenset({"auto_tools", "limits", "running", "terminal_tool", "cancel"})


class Dialogue:
    """A client of one provider; both faces drive its steps."""

    def __init__(
        self,
        provider: Any = None,
        model: str | None = None,
        *,
        transport: Transport | None = None,
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        **options: Any,
    ) -> None:
        found, chosen = provider_of(provider, model, **options)
        self.provider: Provider = found
        self.model = chosen
        self.transport = transport or _usual_transport()
        self.line = Line(found, found.speaks(), self.transport, timeouts or Timeouts(), retries or Retries())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.provider.name!r}, model={self.model!r})"

    def asking(self, messages: Any, settings: dict[str, Any]) -> Steps[Response]:
        """One round: send the messages, and give the answer; an error of the provider is raised."""
        request, _ = self._request(messages, settings)
        outcome = yield from exchanging(self.line, request)
        if isinstance(outcome, Error):
            raise exception_of(outcome, self.provider.name)
        return outcome

    def leading(
        self,
        prompt: Any,
        settings: dict[str, Any],
        on_event: OnEvent | None,
        keep: Keep | None = None,
        *,
        stream: bool,
    ) -> Steps[Done]:
        """Lead a conversation to its end."""
        leads = {name: settings.pop(name) for name in list(settings) if name in RUNNING}
        context = settings.pop("context", None)
        resolver = settings.pop("resolver", None)
        request, own = self._request(
            prompt, {**settings, "stream": True if stream else settings.get("stream")}
        )
        resolve = resolver or own
        done = yield from conversing(
            self.line, _turn_of(request, _bound(resolve, request, context), leads), on_event, keep
        )
        if done.error is not None and not done.messages:
            raise exception_of(done.error, self.provider.name)
        return done

    def _request(self, prompt: Any, settings: dict[str, Any]) -> tuple[Any, Any]:
        settings = dict(settings)
        model = settings.pop("model", None) or self.model
        if model is None and self.provider.dialect != "gemini":
            raise InvalidField(
                "model", "must be said: neither the client nor the call names one", path=self.provider.name
            )
        return request_of(prompt, model=model, **settings)


def _usual_transport() -> Transport:
    from toolwire.network import HttpxTransport  # noqa: PLC0415 - HTTP is loaded for the first client

    return HttpxTransport()


def _bound(resolve: Any, request: Any, context: Any) -> Any:
    """Bind a resolver to the tools that are declared and to the context of the session."""
    if resolve is None or not hasattr(resolve, "available_tools") or callable(resolve):
        return resolve
    from toolwire.session_tools import prepare  # noqa: PLC0415 - only where there is a resolver

    return prepare(resolve, [getattr(tool, "name", "") for tool in request.tools], context)[1]


def _turn_of(request: Any, resolve: Any, leads: dict[str, Any]) -> Turn:
    limits = leads.pop("limits", None) or LoopLimits()
    running = leads.pop("running", None) or Limits()
    cancel: Cancel | None = leads.pop("cancel", None)
    return Turn(request, resolve, limits=limits, running=running, cancel=cancel, **leads)


class Following:
    """A conversation that is shown while it happens: what the streams of both faces have in common.

    A face says how it drives steps that emit. `owns` says that the client ends with the stream.
    """

    _drive: ClassVar[Any]

    def __init__(
        self,
        client: Any,
        prompt: Any,
        settings: dict[str, Any],
        on_event: OnEvent | None,
        *,
        owns: bool = False,
    ) -> None:
        self._kept = Kept()
        steps = showing(client.leading(prompt, settings, on_event, self._kept, stream=True))
        self._items = self._drive(ending_with(steps, client.close) if owns else steps)

    @property
    def done(self) -> Done | None:
        """The end, once there is one."""
        return self._kept.done

    @property
    def response(self) -> Response | None:
        """The last answer of the model, once the stream has ended."""
        return self.done.response if self.done is not None else None


class Kept:
    """The end of a conversation. Its steps hold it, and not the stream: so a stream that is dropped ends."""

    def __init__(self) -> None:
        self.done: Done | None = None

    def __call__(self, done: Done) -> None:
        """Keep the end."""
        self.done = done


def showing(steps: Steps[Done]) -> Steps[Done]:
    """Emit only what a reader of words and calls wants to see."""
    return through(steps, _show)


def ending_with(steps: Steps[Done], close: Callable[[], Any]) -> Steps[Done]:
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


def _show(event: Any) -> Steps[None]:
    for item in shown(event):
        yield Emit(item)


def shown(event: Any) -> Iterable[Shown]:
    """Give what an event shows: words, a call that is complete, a result, the end."""
    match event:
        case TextDelta() | ThinkingDelta() | RefusalDelta() | ToolResult() | Done():
            return (event,)
        case CallEnd(call=call) if call.runs:
            return (call,)
    return ()
