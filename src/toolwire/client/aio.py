"""The awaited face: the same names as the sync one, for async code."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Self

from toolwire.client.dialogue import ConversationStream, Dialogue, OnEvent, Shown
from toolwire.loop import Done
from toolwire.resolvers.execution import aexecute as execute
from toolwire.types import Response
from toolwire.work.waiting import aflow, arun

__all__ = ["Client", "Stream", "execute", "generate", "stream"]


class Client(Dialogue):
    """A client of one provider: `chat` is one round, `run` leads a conversation, `stream` shows it."""

    async def chat(self, messages: Any, tools: Any = (), tool_choice: Any = None, **settings: Any) -> Response:
        """Send messages once, and give the answer; nothing is run."""
        return await arun(self.asking(messages, {"tools": tools or (), "tool_choice": tool_choice, **settings}))

    async def run(self, prompt: Any, *, on_event: OnEvent | None = None, **settings: Any) -> Done:
        """Lead a conversation with tools to its end."""
        return await arun(self.leading(prompt, settings, on_event))

    def stream(self, prompt: Any, *, on_event: OnEvent | None = None, **settings: Any) -> "Stream":
        """Lead a conversation, and show it while it happens."""
        return Stream(self, prompt, settings, on_event)

    async def close(self) -> None:
        """Close the connections."""
        close = getattr(self.transport, "aclose", None)
        if callable(close):
            await close()

    async def __aenter__(self) -> Self:
        """Give the client."""
        return self

    async def __aexit__(self, *_problem: object) -> None:
        """Close the connections."""
        await self.close()


class Stream(ConversationStream):
    """A conversation while it happens: iterate over it, or await `next()`; `collect()` reads the rest.

    `done` is its end, once there is one; after a cancellation it holds the history as far as it came.
    """

    _drive = staticmethod(aflow)

    async def __aiter__(self) -> AsyncIterator[Shown]:
        """Give what is shown, as it comes."""
        async for item in self._items:
            yield item

    async def next(self) -> tuple[list[Shown], "Stream | None"]:
        """Give what comes next, and the stream; at the end, nothing and None."""
        async for item in self._items:
            return [item], self
        return [], None

    async def collect(self, on_chunk: Callable[[Shown], Any] | None = None) -> Done:
        """Read the rest, show each of it to `on_chunk`, and give the end."""
        async for item in self._items:
            if on_chunk is not None:
                on_chunk(item)
        if self.done is None:
            raise RuntimeError("the stream was closed before it began")
        return self.done

    async def close(self) -> None:
        """Stop here; the connection is closed, and `done` says how far it came."""
        await self._items.aclose()

    async def __aenter__(self) -> Self:
        """Give the stream."""
        return self

    async def __aexit__(self, *_problem: object) -> None:
        """Stop here."""
        await self.close()


async def generate(
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
    async with Client(provider, model, **(options or {})) as client:
        return await arun(client.leading(prompt, settings, on_event, value=True))


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
