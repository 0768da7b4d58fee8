"""Both faces behind one: the same call, in sync and in async code, to a simulated model."""

import asyncio
from collections.abc import Awaitable
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from toolwire import Context, ToolCall, ToolResult, aio, tool
from toolwire.client import sync
from toolwire.loop import Done

T = TypeVar("T")
KEY = "sk-sentinel-0123456789abcdef"
DIALECTS = ("openai", "openai-responses", "anthropic", "gemini", "ollama")
COMPATIBLE = tuple(
    "ollama-v1 groq mistral deepseek openrouter xai together fireworks azure vllm llama.cpp lmstudio".split()
)
FACES = ("sync", "async")
TOKYO = ToolCall(None, "get_weather", {"city": "Tokyo"})
RUN: list[str] = []


@tool
def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    RUN.append(city)
    return f"25 degrees in {city}"


def options_at(name: str, url: str, **more: Any) -> dict[str, Any]:
    """Give the options of a provider whose server is elsewhere."""
    return {"base_url": f"{url}/v1" if name in COMPATIBLE else url, "api_key": KEY, **more}


class Led(NamedTuple):
    """A conversation that was led: its end, what was shown, what was told."""

    done: Any
    items: list[Any]
    told: list[Any]


def with_history(context: Context, done: Done) -> Context:
    """Give the context with what a run added to it."""
    state = done.response.provider_state if done.response is not None else None
    return replace(
        context, messages=[*context.messages, *done.messages], provider_state=state or context.provider_state
    )


async def tasks_left() -> list[Any]:
    """Give the tasks of this loop besides this one.

    httpx2 drops a generator of a connection, and Python closes it in a task of its own: that one is waited for.
    """
    others = asyncio.all_tasks() - {asyncio.current_task()}
    closing = [task for task in others if type(task.get_coro()).__name__ == "async_generator_athrow"]
    if closing:
        await asyncio.wait(closing, timeout=5)
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def awaited(work: Awaitable[T]) -> T:
    """Await something in a loop of its own, in which no task is left behind."""

    async def main() -> T:
        given = await work
        assert await tasks_left() == []
        return given

    return asyncio.run(main())


def lead(face: str, name: str, url: str, prompt: Any = None, *, shown: bool = False, **settings: Any) -> Led:
    """Lead a conversation through `generate`, or `stream` where it is shown."""
    told: list[Any] = []
    settings = {"model": "m", "on_event": told.append, **settings}
    settings["options"] = {**options_at(name, url), **settings.get("options", {})}
    if face == "sync":
        if not shown:
            return Led(sync.generate(prompt, name, **settings), [], told)
        stream = sync.stream(prompt, name, **settings)
        items = list(stream)
        return Led(stream.done, items, told)

    async def main() -> Led:
        if not shown:
            return Led(await aio.generate(prompt, name, **settings), [], told)
        stream = aio.stream(prompt, name, **settings)
        items = [item async for item in stream]
        return Led(stream.done, items, told)

    return awaited(main())


def chat(face: str, name: str, url: str, messages: Any, **settings: Any) -> Any:
    """Ask once."""
    given = {**options_at(name, url), **settings.pop("options", {})}
    if face == "sync":
        with sync.Client(name, "m", **given) as client:
            return client.chat(messages, **settings)

    async def main() -> Any:
        async with aio.Client(name, "m", **given) as client:
            return await client.chat(messages, **settings)

    return awaited(main())


def legal(messages: Any) -> bool:
    """Whether each call has exactly one result, after it and in order."""
    waiting: list[str | None] = []
    for message in messages:
        results = [part.tool_call_id for part in message.parts if type(part) is ToolResult]
        if results:
            if waiting[: len(results)] != results:
                return False
            del waiting[: len(results)]
            continue
        if waiting:
            return False
        waiting = [part.id for part in message.parts if type(part) is ToolCall]
    return not waiting
