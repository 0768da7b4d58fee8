"""The awaited face: the same names as the sync one, for async code."""

from collections.abc import AsyncIterator, Callable
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
from toolwire.resolvers.execution import aexecute as execute
from toolwire.types import Event, Request, Response
from toolwire.waiting.steps import aflow, arun

__all__ = ["Client", "Stream", "execute", "generate", "stream"]


class Client(Dialogue):
    """A client of one provider.

    `chat` is one round. `run` leads a conversation to its end, `stream` shows it, and `generate` gives its value.
    """

    async def chat(
        self, messages: Prompt, tools: Tools = (), tool_choice: AnyChoice = None, **settings: Unpack[ChatSettings]
    ) -> Response:
        """Send messages once, and give the answer; no tool runs."""
        return await arun(self.asking(messages, {**settings, "tools": tools or (), "tool_choice": tool_choice}))

    @overload
    async def generate(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> T_co: ...
    @overload
    async def generate(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> Any: ...
    @overload
    async def generate(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> Done[None]: ...
    async def generate(self, prompt: Prompt = None, **settings: Any) -> Any:
        """Lead a conversation with tools to its end, and give the end; with `output`, give the value of the answer.

        If the answer has no such value, `NoStructuredOutput` is raised.
        """
        return await arun(self.leading(prompt, settings, value=True))

    @overload
    async def run(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> Done[T_co]: ...
    @overload
    async def run(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> Done: ...
    @overload
    async def run(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> Done[None]: ...
    async def run(self, prompt: Prompt = None, **settings: Any) -> Done:
        """Lead a conversation with tools to its end, and give the end; with `output`, `Done.output` is the value."""
        return await arun(self.leading(prompt, settings))

    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> "Stream[T_co]": ...
    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> "Stream": ...
    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> "Stream[None]": ...
    def stream(self, prompt: Prompt = None, **settings: Any) -> "Stream":
        """Lead a conversation with tools, and yield what happens as it happens."""
        return Stream(self, prompt, settings)

    async def send(self, request: Request) -> Response:
        """Send a request that was decoded from any wire, and give the answer; no tool runs."""
        return await arun(self.sending(request))

    def send_stream(self, request: Request) -> "EventStream":
        """Send a request that was decoded from any wire, and give the events of the answer as they arrive."""
        return EventStream(self, request)

    async def close(self) -> None:
        """Close the connections."""
        close = getattr(self.transport, "aclose", None)
        if callable(close):
            await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_problem: object) -> None:
        await self.close()


class Stream(ConversationStream[T_co]):
    """A conversation while it happens: iterate over it, or await `next()`; `collect()` reads the rest.

    `done` is its end, once there is one; after a cancellation it holds the history as far as it came.
    """

    _drive = staticmethod(aflow)

    async def __aiter__(self) -> AsyncIterator[StreamItem]:
        async for item in self._items:
            yield item

    async def next(self) -> tuple[list[StreamItem], Self | None]:
        """Give the next items, and the stream; at the end, an empty list and None."""
        async for item in self._items:
            return [item], self
        return [], None

    async def collect(self, on_chunk: Callable[[StreamItem], object] | None = None) -> Done[T_co]:
        """Read the rest, show each of it to `on_chunk`, and give the end."""
        async for item in self._items:
            if on_chunk is not None:
                on_chunk(item)
        if self.done is None:
            raise RuntimeError("the stream was closed before it began")
        return self.done

    async def close(self) -> None:
        """Stop here, and close the connection; `done` holds the history so far."""
        await self._items.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_problem: object) -> None:
        await self.close()


class EventStream(AnswerStream):
    """The events of one answer: iterate over it; `response` is the answer, once it has ended.

    An error of the provider is raised before the first event; after it, the error is an event (`ErrorEnd`), and
    `response` is what had come.
    """

    _drive = staticmethod(aflow)

    async def begin(self) -> Self:
        """Wait for the first event, so that an error before it is raised here; give the stream."""
        if not self._held:
            async for event in self._items:
                self._held.append(event)
                break
        return self

    async def __aiter__(self) -> AsyncIterator[Event]:
        while self._held:
            yield self._held.pop()
        async for event in self._items:
            yield event

    async def collect(self) -> Response:
        """Read the rest, and give the answer."""
        async for _ in self._items:
            pass
        if self.response is None:
            raise RuntimeError("the stream was closed before its end")
        return self.response

    async def close(self) -> None:
        """Stop here, and close the connection."""
        await self._items.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_problem: object) -> None:
        await self.close()


@overload
async def generate(
    prompt: Prompt = None, provider: Providers = None, model: str | None = None, **settings: Unpack[OnceTyped[T_co]]
) -> T_co: ...
@overload
async def generate(
    prompt: Prompt = None, provider: Providers = None, model: str | None = None, **settings: Unpack[OnceSchema]
) -> Any: ...
@overload
async def generate(
    prompt: Prompt = None, provider: Providers = None, model: str | None = None, **settings: Unpack[OnceSettings]
) -> Done[None]: ...
async def generate(prompt: Prompt = None, provider: Providers = None, model: str | None = None, **settings: Any) -> Any:
    """Ask a model, run the tools that it calls, and give the end (`Done`): an answer, or the reason for none.

    With `output`, a type or a JSON Schema, give the value of the answer instead; if the answer has none,
    `NoStructuredOutput` is raised.
    """
    async with Client(provider, model, **options_among(settings, settings.pop("options", None))) as client:
        return await client.generate(prompt, **settings)


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
