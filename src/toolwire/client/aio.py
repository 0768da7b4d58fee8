"""The async client: the same names as in the sync one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, Self, Unpack, overload

from toolwire.client.chat_state import BaseConversation
from toolwire.client.dialogue import (
    AnswerStream,
    BaseClient,
    ConversationStream,
    chat_steps,
    failed_early,
    run_steps,
    send_steps,
)
from toolwire.client.options import pop_client_options
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
)
from toolwire.loop import Done
from toolwire.loop.steps import T_co
from toolwire.resolvers.execution import aexecute as execute
from toolwire.resolvers.reading import Tools
from toolwire.types import Event, Request, Response
from toolwire.waiting.steps import aflow, arun
from toolwire.waiting.threads import in_thread

__all__ = ["Client", "Conversation", "Stream", "conversation", "execute", "generate", "stream"]


class Client(BaseClient):
    """A client of one provider.

    `chat` sends one request. `run` executes a conversation until it ends, `stream` yields its events, and `generate`
    returns its value.

    >>> import asyncio
    >>> from toolwire import aio
    >>> from toolwire.testing import simulate
    >>> async def main(url: str) -> str | None:
    ...     async with aio.Client("openai", "gpt-6-sol", base_url=url, api_key="any") as client:
    ...         return (await client.run("I am Ann.")).content
    >>> with simulate(["Hello, Ann."]) as model:
    ...     asyncio.run(main(model.url))
    'Hello, Ann.'
    """

    async def chat(
        self, messages: Prompt, tools: Tools = (), tool_choice: AnyChoice = None, **settings: Unpack[ChatSettings]
    ) -> Response:
        """Send messages once and return the answer; no tool runs. Raise ProviderError if the provider fails."""
        return await arun(chat_steps(self, messages, {**settings, "tools": tools or (), "tool_choice": tool_choice}))

    @overload
    async def generate(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> T_co: ...
    @overload
    async def generate(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> Any: ...
    @overload
    async def generate(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> Done[None]: ...
    async def generate(self, prompt: Prompt = None, **settings: Any) -> Any:
        """Run the conversation, tools included, until it ends. Return its `Done`, or with `output` the parsed value.

        Raise NoStructuredOutput if the answer has no such value.
        """
        return await arun(run_steps(self, prompt, settings, value=True))

    @overload
    async def run(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> Done[T_co]: ...
    @overload
    async def run(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> Done: ...
    @overload
    async def run(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> Done[None]: ...
    async def run(self, prompt: Prompt = None, **settings: Any) -> Done:
        """Run the conversation, tools included, and return its `Done`.

        With `output`, `Done.output` is the parsed value.
        """
        return await arun(run_steps(self, prompt, settings))

    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> "Stream[T_co]": ...
    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> "Stream": ...
    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> "Stream[None]": ...
    def stream(self, prompt: Prompt = None, **settings: Any) -> "Stream":
        """Run the conversation, tools included, and yield its events as they arrive."""
        return Stream(partial(run_steps, self, prompt, settings, stream=True))

    def conversation(self, **settings: Unpack[OnceSettings]) -> "Conversation":
        """Return a conversation that uses this client; `settings` apply to each of its questions."""
        return Conversation(self, **settings)

    async def send(self, request: Request) -> Response:
        """Send a request that was decoded from any wire and return the answer; no tool runs."""
        return await arun(send_steps(self, request))

    def send_stream(self, request: Request) -> "EventStream":
        """Send a request that was decoded from any wire and return the events of the answer as they arrive."""
        return EventStream(self, request)

    async def close(self) -> None:
        """Close the connections, and write the records that wait."""
        close = getattr(self.transport, "aclose", None)
        if callable(close):
            await close()
        await asyncio.to_thread(self._close_records)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_problem: object) -> None:
        await self.close()


class Stream(ConversationStream[T_co]):
    """A running conversation: iterate over it, or await `next()`; `collect()` reads the rest.

    `done` is its end, or None before that. After a cancellation it holds the history up to there.
    """

    _drive = staticmethod(aflow)

    async def begin(self) -> Self:
        """Wait for the first item, so that an error before the answer is raised here; return the stream.

        A web server calls this before it sends its status.
        """
        if not self._held:
            async for item in self._items:
                self._held.append(item)
                if not failed_early(item):  # otherwise the error is raised next
                    break
        return self

    async def __aiter__(self) -> AsyncIterator[StreamItem]:
        while self._held:
            yield self._held.pop()
        async for item in self._items:
            yield item

    async def next(self) -> tuple[list[StreamItem], Self | None]:
        """Return the next items and the stream; at the end, an empty list and None."""
        if self._held:
            return [self._held.pop()], self
        async for item in self._items:
            return [item], self
        return [], None

    async def collect(self, on_chunk: Callable[[StreamItem], object] | None = None) -> Done[T_co]:
        """Read the remaining items, pass each one to `on_chunk`, and return the end.

        Raise RuntimeError if the stream was closed before it began.
        """
        async for item in self:
            if on_chunk is not None:
                on_chunk(item)
        if self.done is None:
            raise RuntimeError("the stream was closed before it began")
        return self.done

    async def close(self) -> None:
        """Stop the conversation and close the connection; `done` holds the history up to there."""
        await self._items.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_problem: object) -> None:
        await self.close()


class EventStream(AnswerStream):
    """The events of one answer: iterate over it; `response` is the answer, after it has ended.

    A provider's error is raised before the first event. After it, the error is an event (`ErrorEnd`), and `response` is
    the part that arrived.
    """

    _drive = staticmethod(aflow)

    async def begin(self) -> Self:
        """Wait for the first event, so that an earlier error is raised here; return the stream."""
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
        """Read the rest and return the answer."""
        async for _ in self._items:
            pass
        if self.response is None:
            raise RuntimeError("the stream was closed before its end")
        return self.response

    async def close(self) -> None:
        """Stop the answer and close the connection."""
        await self._items.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_problem: object) -> None:
        await self.close()


class Conversation(BaseConversation):
    """A conversation that keeps its history, its usage, its cost and its losses: `toolwire.Conversation`, awaited.

    >>> import asyncio
    >>> from toolwire import aio
    >>> from toolwire.testing import simulate
    >>> async def main(url: str) -> list[str | None]:
    ...     async with aio.conversation("openai/gpt-6-sol", base_url=url, api_key="any") as chat:
    ...         return [(await chat.ask("I am Ann.")).content, (await chat.ask("Who am I?")).content]
    >>> with simulate(["Hello, Ann.", "You are Ann."]) as model:
    ...     asyncio.run(main(model.url))
    ['Hello, Ann.', 'You are Ann.']
    """

    client: Client
    _make_client = Client

    def __init__(
        self, provider: Providers | Client = None, model: str | None = None, **settings: Unpack[OnceSettings]
    ) -> None:
        super().__init__(provider, model, **settings)

    @overload
    async def ask(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> Done[T_co]: ...
    @overload
    async def ask(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> Done: ...
    @overload
    async def ask(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> Done[None]: ...
    async def ask(self, prompt: Prompt = None, **settings: Any) -> Done:
        """Ask the model, run the tools that it calls, add all of it to the history, and return the `Done`.

        `settings` apply to this question only. With `output`, `Done.output` is the parsed value. A `model` of another
        provider (`PROVIDER/NAME`) answers this question only. Without `prompt`, the model continues.

        Raise ProviderError if the provider fails before an answer has begun, and UserError if an earlier question has
        no answer yet. The history is unchanged then.
        """
        done: Done = await arun(self._ask_steps(prompt, settings))
        return done

    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> Stream[T_co]: ...
    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> Stream: ...
    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> Stream[None]: ...
    def stream(self, prompt: Prompt = None, **settings: Any) -> Stream:
        """Ask the model, and yield the events as they arrive. The history grows when the stream ends or is closed."""
        return Stream(partial(self._ask_steps, prompt, settings, stream=True))

    async def save(self, path: str | Path) -> None:
        """Write the conversation to the file `path`, which only its owner can read. No key and no tool is saved."""
        await in_thread(partial(self._save, path))

    @classmethod
    async def load(
        cls,
        path: str | Path,
        provider: Providers | Client = None,
        model: str | None = None,
        **settings: Unpack[OnceSettings],
    ) -> Self:
        """Return the conversation of a file that `save` or the command line wrote.

        Pass its tools and the options of its client again. Without `provider` and `model`, the saved ones are used.
        Raise InvalidBody or InvalidField if the file has no conversation.
        """
        chat: Self = await in_thread(partial(cls._load, path, provider, model, dict(settings)))
        return chat

    async def close(self) -> None:
        """Close the connections, unless the conversation was made with a client."""
        if self._owns_client:
            await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_problem: object) -> None:
        await self.close()


conversation = Conversation
"""`Conversation` under the name of what it starts: `aio.conversation("openai/gpt-6-sol")`."""


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
    """Ask a model, run the tools that it calls, and return the `Done`. With `output`, return the parsed value.

    - `prompt`: a text, a message, a list of messages or a `Context`.
    - `provider`: a name, a `Provider`, a map of its fields, or a list of these; the next one is asked if one fails.
    - `model`: the name of the model. `PROVIDER/NAME` names the provider too.
    - `settings`: those of a request, of a run and of a client. `output` is a type or a JSON Schema.

    Raise ProviderError if the provider fails before an answer has begun, and NoStructuredOutput if the answer has no
    value of `output`.

    >>> import asyncio
    >>> from toolwire import aio
    >>> from toolwire.testing import simulate
    >>> with simulate(["Hello."]) as model:
    ...     done = asyncio.run(aio.generate("Hi.", "ollama", "qwen3", base_url=model.url, api_key="any"))
    >>> done.content
    'Hello.'
    """
    async with Client(provider, model, **pop_client_options(settings, settings.pop("options", None))) as client:
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
    """Ask a model, run the tools that it calls, and yield the events as they arrive.

    `prompt`, `provider`, `model` and `settings` are those of `generate`. An error of the provider is raised if no event
    arrived before it.

    >>> import asyncio
    >>> from toolwire import TextDelta, aio
    >>> from toolwire.testing import simulate
    >>> async def main(url: str) -> str:
    ...     items = aio.stream("Hi.", "gemini", "gemini-3.5-flash", base_url=url, api_key="any")
    ...     return "".join([item.text async for item in items if isinstance(item, TextDelta)])
    >>> with simulate(["Hello."]) as model:
    ...     asyncio.run(main(model.url))
    'Hello.'
    """
    client = Client(provider, model, **pop_client_options(settings, settings.pop("options", None)))
    return Stream(partial(run_steps, client, prompt, settings, stream=True), client.close)
