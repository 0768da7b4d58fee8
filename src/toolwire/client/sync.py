"""The sync face: `generate`, `stream`, `Client`."""

from collections.abc import Callable, Iterator
from typing import Any, Self, Unpack, overload

from toolwire.client.dialogue import AnswerStream, ConversationStream, Dialogue
from toolwire.client.options import options_among
from toolwire.client.settings import (
    AnyChoice,
    ChatSettings,
    ClientSchema,
    ClientSettings,
    ClientTyped,
    OnceSchema,
    OnceSettings,
    OnceTyped,
    Prompt,
    Providers,
    StreamItem,
    Tools,
)
from toolwire.loop import Done
from toolwire.loop.steps import T_co
from toolwire.types import Event, Request, Response
from toolwire.waiting.steps import flow, run


class Client(Dialogue):
    """A client of one provider.

    `chat` is one round. `run` leads a conversation to its end, `stream` shows it, and `generate` gives its value.
    """

    def chat(
        self, messages: Prompt, tools: Tools = (), tool_choice: AnyChoice = None, **settings: Unpack[ChatSettings]
    ) -> Response:
        """Send messages once, and give the answer; no tool runs."""
        return run(self.asking(messages, {**settings, "tools": tools or (), "tool_choice": tool_choice}))

    @overload
    def generate(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> T_co: ...
    @overload
    def generate(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> Any: ...
    @overload
    def generate(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> Done[None]: ...
    def generate(self, prompt: Prompt = None, **settings: Any) -> Any:
        """Lead a conversation with tools to its end, and give the end; with `output`, give the value of the answer.

        If the answer has no such value, `NoStructuredOutput` is raised.
        """
        return run(self.leading(prompt, settings, value=True))

    @overload
    def run(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> Done[T_co]: ...
    @overload
    def run(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> Done: ...
    @overload
    def run(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> Done[None]: ...
    def run(self, prompt: Prompt = None, **settings: Any) -> Done:
        """Lead a conversation with tools to its end, and give the end; with `output`, `Done.output` is the value."""
        done: Done = run(self.leading(prompt, settings))
        return done

    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> "Stream[T_co]": ...
    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> "Stream": ...
    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> "Stream[None]": ...
    def stream(self, prompt: Prompt = None, **settings: Any) -> "Stream":
        """Lead a conversation with tools, and yield what happens as it happens."""
        return Stream(self, prompt, settings)

    def send(self, request: Request) -> Response:
        """Send a request that was decoded from any wire, and give the answer; no tool runs."""
        return run(self.sending(request))

    def send_stream(self, request: Request) -> "EventStream":
        """Send a request that was decoded from any wire, and give the events of the answer as they arrive."""
        return EventStream(self, request)

    def close(self) -> None:
        """Close the connections."""
        close = getattr(self.transport, "close", None)
        if callable(close):
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self.close()


class Stream(ConversationStream[T_co]):
    """A conversation while it happens: iterate over it, or `next()`; `collect()` reads the rest.

    `done` is the end, once there is one; after an interruption it holds the history so far.
    """

    _drive = staticmethod(flow)

    def __iter__(self) -> Iterator[StreamItem]:
        for item in self._items:  # noqa: UP028 - `yield from` would close the stream when a loop is left
            yield item

    def next(self) -> tuple[list[StreamItem], Self | None]:
        """Give the next items, and the stream; at the end, an empty list and None."""
        for item in self._items:
            return [item], self
        return [], None

    def collect(self, on_chunk: Callable[[StreamItem], object] | None = None) -> Done[T_co]:
        """Read the rest, show each of it to `on_chunk`, and give the end."""
        for item in self._items:
            if on_chunk is not None:
                on_chunk(item)
        if self.done is None:
            raise RuntimeError("the stream was closed before it began")
        return self.done

    def close(self) -> None:
        """Stop here, and close the connection; `done` holds the history so far."""
        self._items.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self.close()


class EventStream(AnswerStream):
    """The events of one answer: iterate over it; `response` is the answer, once it has ended.

    An error of the provider is raised before the first event; after it, the error is an event (`ErrorEnd`), and
    `response` is what had come.
    """

    _drive = staticmethod(flow)

    def begin(self) -> Self:
        """Wait for the first event, so that an error before it is raised here; give the stream."""
        if not self._held:
            for event in self._items:
                self._held.append(event)
                break
        return self

    def __iter__(self) -> Iterator[Event]:
        while self._held:
            yield self._held.pop()
        for event in self._items:  # noqa: UP028 - `yield from` would close the stream when a loop is left
            yield event

    def collect(self) -> Response:
        """Read the rest, and give the answer."""
        for _ in self._items:
            pass
        if self.response is None:
            raise RuntimeError("the stream was closed before its end")
        return self.response

    def close(self) -> None:
        """Stop here, and close the connection."""
        self._items.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self.close()


@overload
def generate(
    prompt: Prompt = None, provider: Providers = None, model: str | None = None, **settings: Unpack[OnceTyped[T_co]]
) -> T_co: ...
@overload
def generate(
    prompt: Prompt = None, provider: Providers = None, model: str | None = None, **settings: Unpack[OnceSchema]
) -> Any: ...
@overload
def generate(
    prompt: Prompt = None, provider: Providers = None, model: str | None = None, **settings: Unpack[OnceSettings]
) -> Done[None]: ...
def generate(prompt: Prompt = None, provider: Providers = None, model: str | None = None, **settings: Any) -> Any:
    """Ask a model, run the tools that it calls, and give the end (`Done`): an answer, or the reason for none.

    With `output`, a type or a JSON Schema, give the value of the answer instead; if the answer has none,
    `NoStructuredOutput` is raised.
    """
    with Client(provider, model, **options_among(settings, settings.pop("options", None))) as client:
        return client.generate(prompt, **settings)


@overload
def stream(
    prompt: Prompt = None, provider: Providers = None, model: str | None = None, **settings: Unpack[OnceTyped[T_co]]
) -> Stream[T_co]: ...
@overload
def stream(
    prompt: Prompt = None, provider: Providers = None, model: str | None = None, **settings: Unpack[OnceSchema]
) -> Stream: ...
@overload
def stream(
    prompt: Prompt = None, provider: Providers = None, model: str | None = None, **settings: Unpack[OnceSettings]
) -> Stream[None]: ...
def stream(prompt: Prompt = None, provider: Providers = None, model: str | None = None, **settings: Any) -> Stream:
    """Ask a model, run the tools that it calls, and yield what happens as it happens."""
    client = Client(provider, model, **options_among(settings, settings.pop("options", None)))
    return Stream(client, prompt, settings, client.close)
