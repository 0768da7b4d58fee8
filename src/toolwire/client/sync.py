"""The sync face: `generate`, `stream`, `Client`."""

from collections.abc import Callable, Iterator
from typing import Any, Self

from toolwire.client.dialogue import ConversationStream, Dialogue, OnEvent, Shown
from toolwire.loop import Done
from toolwire.types import Response
from toolwire.work.waiting import flow, run


class Client(Dialogue):
    """A client of one provider: `chat` is one round, `run` leads a conversation, `stream` shows it."""

    def chat(self, messages: Any, tools: Any = (), tool_choice: Any = None, **settings: Any) -> Response:
        """Send messages once, and give the answer; nothing is run."""
        return run(self.asking(messages, {"tools": tools or (), "tool_choice": tool_choice, **settings}))

    def run(self, prompt: Any, *, on_event: OnEvent | None = None, **settings: Any) -> Done:
        """Lead a conversation with tools to its end."""
        done: Done = run(self.leading(prompt, settings, on_event))
        return done

    def stream(self, prompt: Any, *, on_event: OnEvent | None = None, **settings: Any) -> "Stream":
        """Lead a conversation, and show it while it happens."""
        return Stream(self, prompt, settings, on_event)

    def close(self) -> None:
        """Close the connections."""
        close = getattr(self.transport, "close", None)
        if callable(close):
            close()

    def __enter__(self) -> Self:
        """Give the client."""
        return self

    def __exit__(self, *_problem: object) -> None:
        """Close the connections."""
        self.close()


class Stream(ConversationStream):
    """A conversation while it happens: iterate over it, or `next()`; `collect()` reads the rest.

    `done` is its end, once there is one; after an interruption it holds the history as far as it came.
    """

    _drive = staticmethod(flow)

    def __iter__(self) -> Iterator[Shown]:
        """Give what is shown, as it comes."""
        for item in self._items:  # noqa: UP028 - `yield from` would close the stream when a loop is left
            yield item

    def next(self) -> tuple[list[Shown], "Stream | None"]:
        """Give what comes next, and the stream; at the end, nothing and None."""
        for item in self._items:
            return [item], self
        return [], None

    def collect(self, on_chunk: Callable[[Shown], Any] | None = None) -> Done:
        """Read the rest, show each of it to `on_chunk`, and give the end."""
        for item in self._items:
            if on_chunk is not None:
                on_chunk(item)
        if self.done is None:
            raise RuntimeError("the stream was closed before it began")
        return self.done

    def close(self) -> None:
        """Stop here; the connection is closed, and `done` says how far it came."""
        self._items.close()

    def __enter__(self) -> Self:
        """Give the stream."""
        return self

    def __exit__(self, *_problem: object) -> None:
        """Stop here."""
        self.close()


def generate(
    prompt: Any = None,
    provider: Any = None,
    model: str | None = None,
    *,
    options: dict[str, Any] | None = None,
    on_event: OnEvent | None = None,
    **settings: Any,
) -> Any:
    """Ask a model, run the tools that it calls, and give the end (`Done`): an answer, or why there is none.

    With `output`, a type or a JSON Schema, the value of the answer is given instead; `NoStructuredOutput` is
    raised where there is none.
    """
    with Client(provider, model, **(options or {})) as client:
        return run(client.leading(prompt, settings, on_event, value=True))


def stream(
    prompt: Any = None,
    provider: Any = None,
    model: str | None = None,
    *,
    options: dict[str, Any] | None = None,
    on_event: OnEvent | None = None,
    **settings: Any,
) -> Stream:
    """Ask a model, and show what happens while it happens."""
    client = Client(provider, model, **(options or {}))
    return Stream(client, prompt, settings, on_event, owns=True)
