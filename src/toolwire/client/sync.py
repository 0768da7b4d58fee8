"""The sync client: `generate`, `stream`, `Client`, `Conversation`."""

from collections.abc import Callable, Iterator
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
from toolwire.resolvers.reading import Tools
from toolwire.types import Event, Request, Response
from toolwire.waiting.steps import flow, run


class Client(BaseClient):
    """A client of one provider.

    `chat` sends one request. `run` executes a conversation until it ends, `stream` yields its events, and `generate`
    returns its value.

    >>> from toolwire import Client
    >>> from toolwire.testing import simulate
    >>> with simulate(["Hello, Ann.", "Bye."]) as model:
    ...     with Client("openai", "gpt-6-sol", base_url=model.url, api_key="any") as client:
    ...         [client.run("I am Ann.").content, client.chat("Bye.").content]
    ['Hello, Ann.', 'Bye.']
    """

    def chat(
        self, messages: Prompt, tools: Tools = (), tool_choice: AnyChoice = None, **settings: Unpack[ChatSettings]
    ) -> Response:
        """Send `messages` once and return the answer. No tool runs. Raise ProviderError if the provider fails.

        `tools` are declared to the model. `tool_choice` is whether it may or must call them.

        >>> from toolwire import Client
        >>> from toolwire.testing import simulate
        >>> with simulate(["Hello."]) as model:
        ...     with Client("openai", "gpt-6-sol", base_url=model.url, api_key="any") as client:
        ...         client.chat("Hi.").content
        'Hello.'
        """
        return run(chat_steps(self, messages, {**settings, "tools": tools or (), "tool_choice": tool_choice}))

    @overload
    def generate(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> T_co: ...
    @overload
    def generate(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> Any: ...
    @overload
    def generate(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> Done[None]: ...
    def generate(self, prompt: Prompt = None, **settings: Any) -> Any:
        """Run the conversation, tools included, until it ends. Return its `Done`, or with `output` the parsed value.

        `prompt` is a text, a message, a list of messages or a `Context`.

        Raise NoStructuredOutput if the answer has no such value.

        >>> from toolwire import Client
        >>> from toolwire.testing import simulate
        >>> with simulate(['{"value": 5}']) as model:
        ...     with Client("openai", "gpt-6-sol", base_url=model.url, api_key="any") as client:
        ...         client.generate("What is 2 + 3?", output=int)
        5
        """
        return run(run_steps(self, prompt, settings, value=True))

    @overload
    def run(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> Done[T_co]: ...
    @overload
    def run(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> Done: ...
    @overload
    def run(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> Done[None]: ...
    def run(self, prompt: Prompt = None, **settings: Any) -> Done:
        """Run the conversation, tools included, and return its `Done`.

        With `output`, `Done.output` is the parsed value.

        >>> from toolwire import Client
        >>> from toolwire.testing import simulate
        >>> with simulate(['{"value": 5}']) as model:
        ...     with Client("openai", "gpt-6-sol", base_url=model.url, api_key="any") as client:
        ...         client.run("What is 2 + 3?", output=int).output
        5
        """
        done: Done = run(run_steps(self, prompt, settings))
        return done

    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> "Stream[T_co]": ...
    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> "Stream": ...
    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> "Stream[None]": ...
    def stream(self, prompt: Prompt = None, **settings: Any) -> "Stream":
        """Run the conversation, tools included, and yield its events as they arrive.

        >>> from toolwire import Client, TextDelta
        >>> from toolwire.testing import simulate
        >>> with simulate(["Hello."]) as model:
        ...     with Client("openai", "gpt-6-sol", base_url=model.url, api_key="any") as client:
        ...         "".join(item.text for item in client.stream("Hi.") if isinstance(item, TextDelta))
        'Hello.'
        """
        return Stream(partial(run_steps, self, prompt, settings, stream=True))

    def conversation(self, **settings: Unpack[OnceSettings]) -> "Conversation":
        """Return a conversation that uses this client; `settings` apply to each of its questions.

        >>> from toolwire import Client
        >>> from toolwire.testing import simulate
        >>> with simulate(["Hello, Ann.", "You are Ann."]) as model:
        ...     with Client("openai", "gpt-6-sol", base_url=model.url, api_key="any") as client:
        ...         chat = client.conversation(system="Be brief.")
        ...         [chat.ask("I am Ann.").content, chat.ask("Who am I?").content]
        ['Hello, Ann.', 'You are Ann.']
        """
        return Conversation(self, **settings)

    def send(self, request: Request) -> Response:
        """Send `request`, which was decoded from any wire, and return the answer. No tool runs.

        >>> from toolwire import Client, dialect
        >>> from toolwire.testing import simulate
        >>> with simulate(["Hello."]) as model:
        ...     with Client("openai", "gpt-6-sol", base_url=model.url, api_key="any") as client:
        ...         request = dialect("ollama").decode_request({"messages": [{"role": "user", "content": "Hi."}]})
        ...         client.send(request).content
        'Hello.'
        """
        return run(send_steps(self, request))

    def send_stream(self, request: Request) -> "EventStream":
        """Send `request`, which was decoded from any wire, and return the events of the answer as they arrive."""
        return EventStream(self, request)

    def close(self) -> None:
        """Close the connections, and write the records that wait."""
        close = getattr(self.transport, "close", None)
        if callable(close):
            close()
        self._close_records()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self.close()


class Stream(ConversationStream[T_co]):
    """A running conversation: iterate over it, or call `next()`; `collect()` reads the rest.

    `done` is its end, or None before that. After an interruption it holds the history up to there.

    >>> from toolwire import TextDelta, stream
    >>> from toolwire.testing import simulate
    >>> with simulate(["Hello."]) as model:
    ...     items = stream("Hi.", "openai", "gpt-6-sol", base_url=model.url, api_key="any")
    ...     print("".join(item.text for item in items if isinstance(item, TextDelta)), items.done.ending)
    Hello. answer
    """

    _drive = staticmethod(flow)

    def begin(self) -> Self:
        """Wait for the first item, so that an error before the answer is raised here; return the stream.

        A web server calls this before it sends its status.
        """
        if not self._held:
            for item in self._items:
                self._held.append(item)
                if not failed_early(item):  # otherwise the error is raised next
                    break
        return self

    def __iter__(self) -> Iterator[StreamItem]:
        while self._held:
            yield self._held.pop()
        for item in self._items:  # noqa: UP028 - `yield from` would close the stream when a loop is left
            yield item

    def next(self) -> tuple[list[StreamItem], Self | None]:
        """Return the next items and the stream; at the end, an empty list and None."""
        if self._held:
            return [self._held.pop()], self
        for item in self._items:
            return [item], self
        return [], None

    def collect(self, on_chunk: Callable[[StreamItem], object] | None = None) -> Done[T_co]:
        """Read the remaining items, pass each one to `on_chunk`, and return the end.

        Raise RuntimeError if the stream was closed before it began.
        """
        for item in self:
            if on_chunk is not None:
                on_chunk(item)
        if self.done is None:
            raise RuntimeError("the stream was closed before it began")
        return self.done

    def close(self) -> None:
        """Stop the conversation and close the connection; `done` holds the history up to there."""
        self._items.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self.close()


class EventStream(AnswerStream):
    """The events of one answer: iterate over it; `response` is the answer, after it has ended.

    A provider's error is raised before the first event. After it, the error is an event (`ErrorEnd`), and `response` is
    the part that arrived.
    """

    _drive = staticmethod(flow)

    def begin(self) -> Self:
        """Wait for the first event, so that an earlier error is raised here; return the stream."""
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
        """Read the rest and return the answer."""
        for _ in self._items:
            pass
        if self.response is None:
            raise RuntimeError("the stream was closed before its end")
        return self.response

    def close(self) -> None:
        """Stop the answer and close the connection."""
        self._items.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self.close()


class Conversation(BaseConversation):
    """A conversation that keeps its history, its usage, its cost and its losses.

    - `provider` and `model`: those of `Client`, or a client that is already made.
    - `settings`: those of `generate`. They apply to each question. `messages` are the earlier messages.
    - `history`: the messages so far, without the system prompt. `system` is that. You may change both.
    - `cost`: the sum of the known costs in USD, or None.

    >>> import toolwire
    >>> from toolwire.testing import simulate
    >>> with simulate(["Hello, Ann.", "You are Ann."]) as model:
    ...     with toolwire.conversation("openai/gpt-6-sol", base_url=model.url, api_key="any") as chat:
    ...         [chat.ask("I am Ann.").content, chat.ask("Who am I?").content]
    ['Hello, Ann.', 'You are Ann.']
    >>> [message.text for message in chat.history]
    ['I am Ann.', 'Hello, Ann.', 'Who am I?', 'You are Ann.']
    """

    client: Client
    _make_client = Client

    def __init__(
        self, provider: Providers | Client = None, model: str | None = None, **settings: Unpack[OnceSettings]
    ) -> None:
        super().__init__(provider, model, **settings)

    @overload
    def ask(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> Done[T_co]: ...
    @overload
    def ask(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> Done: ...
    @overload
    def ask(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> Done[None]: ...
    def ask(self, prompt: Prompt = None, **settings: Any) -> Done:
        """Ask the model, run the tools that it calls, add all of it to the history, and return the `Done`.

        `settings` apply to this question only. With `output`, `Done.output` is the parsed value. A `model` of another
        provider (`PROVIDER/NAME`) answers this question only. Without `prompt`, the model continues.

        Raise ProviderError if the provider fails before an answer has begun, and UserError if an earlier question has
        no answer yet. The history is unchanged then.

        >>> import toolwire
        >>> from toolwire.testing import simulate
        >>> with simulate(["It is 25.", '{"value": 25}']) as model:
        ...     with toolwire.conversation("openai/gpt-6-sol", base_url=model.url, api_key="any") as chat:
        ...         [chat.ask("How warm is it?").content, chat.ask("As a number?", output=int).output]
        ['It is 25.', 25]
        """
        done: Done = run(self._ask_steps(prompt, settings))
        return done

    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientTyped[T_co]]) -> Stream[T_co]: ...
    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientSchema]) -> Stream: ...
    @overload
    def stream(self, prompt: Prompt = None, **settings: Unpack[ClientSettings]) -> Stream[None]: ...
    def stream(self, prompt: Prompt = None, **settings: Any) -> Stream:
        """Ask the model, and yield the events as they arrive. The history grows when the stream ends or is closed.

        >>> import toolwire
        >>> from toolwire.testing import simulate
        >>> with simulate(["Hello."]) as model:
        ...     with toolwire.conversation("openai/gpt-6-sol", base_url=model.url, api_key="any") as chat:
        ...         [type(item).__name__ for item in chat.stream("Hi.")], len(chat.history)
        (['TextDelta', 'TextDelta', 'Done'], 2)
        """
        return Stream(partial(self._ask_steps, prompt, settings, stream=True))

    def save(self, path: str | Path) -> None:
        """Write the conversation to the file `path`, which only its owner can read. No key and no tool is saved."""
        self._save(path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        provider: Providers | Client = None,
        model: str | None = None,
        **settings: Unpack[OnceSettings],
    ) -> Self:
        """Return the conversation of a file that `save` or the command line wrote.

        Pass its tools and the options of its client again. Without `provider` and `model`, the saved ones are used.
        Raise InvalidBody or InvalidField if the file has no conversation.

        >>> import os, tempfile, toolwire
        >>> from toolwire.testing import simulate
        >>> path = os.path.join(tempfile.mkdtemp(), "ann.json")
        >>> with simulate(["Hello, Ann.", "You are Ann."]) as model:
        ...     server = {"base_url": model.url, "api_key": "any"}
        ...     with toolwire.conversation("ollama/qwen3", **server) as chat:
        ...         _ = chat.ask("I am Ann.")
        ...         chat.save(path)
        ...     with toolwire.conversation.load(path, **server) as chat:
        ...         chat.ask("Who am I?").content
        'You are Ann.'
        """
        return cls._load(path, provider, model, dict(settings))

    def close(self) -> None:
        """Close the connections, unless the conversation was made with a client."""
        if self._owns_client:
            self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self.close()


conversation = Conversation
"""`Conversation` under the name of what it starts: `toolwire.conversation("openai/gpt-6-sol")`."""


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
    """Ask a model, run the tools that it calls, and return the `Done`. With `output`, return the parsed value.

    - `prompt`: a text, a message, a list of messages or a `Context`.
    - `provider`: a name, a `Provider`, a map of its fields, or a list of these; the next one is asked if one fails.
    - `model`: the name of the model. `PROVIDER/NAME` names the provider too.
    - `settings`: those of a request, of a run and of a client. `output` is a type or a JSON Schema.

    Raise ProviderError if the provider fails before an answer has begun, and NoStructuredOutput if the answer has no
    value of `output`.

    >>> from toolwire import ToolCall, generate
    >>> from toolwire.testing import simulate
    >>> def get_weather(city: str) -> str:
    ...     return f"25 degrees in {city}"
    >>> with simulate([ToolCall(None, "get_weather", {"city": "Oslo"}), "It is warm."]) as model:
    ...     server = {"base_url": model.url, "api_key": "any"}
    ...     done = generate("How is Oslo?", "openai", "gpt-6-sol", tools=[get_weather], **server)
    >>> (done.ending, done.content, done.turns)
    ('answer', 'It is warm.', 2)
    """
    with Client(provider, model, **pop_client_options(settings, settings.pop("options", None))) as client:
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
    """Ask a model, run the tools that it calls, and yield the events as they arrive.

    `prompt`, `provider`, `model` and `settings` are those of `generate`. An error of the provider is raised if no event
    arrived before it.

    >>> from toolwire import TextDelta, stream
    >>> from toolwire.testing import simulate
    >>> with simulate(["Hello."]) as model:
    ...     items = stream("Hi.", "anthropic", "claude-sonnet-5-5", base_url=model.url, api_key="any")
    ...     print("".join(item.text for item in items if isinstance(item, TextDelta)))
    Hello.
    """
    client = Client(provider, model, **pop_client_options(settings, settings.pop("options", None)))
    return Stream(partial(run_steps, client, prompt, settings, stream=True), client.close)
