"""A conversation that keeps its history, in both faces, with a value of a type and with none."""

from dataclasses import dataclass

import toolwire
from toolwire import Client, Conversation, Message, TextDelta, aio


@dataclass
class Point:
    x: int
    y: int


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def spoken(client: Client) -> list[Message]:
    chat: Conversation = client.conversation(system="Be brief.", tools=[double], max_tokens=100)
    text = "".join(item.text for item in chat.stream("Hi.") if isinstance(item, TextDelta))
    print(text, chat.ask("Where?", output=Point).output.x + 1, chat.cost or 0.0)
    chat.switch("gemini/gemini-3.5-flash", api_key="any")
    return chat.fork().history


def saved(path: str) -> Conversation:
    with toolwire.conversation("openai/gpt-4o", temperature=0, base_url="http://localhost:1/v1") as chat:
        chat.save(path)
    return toolwire.conversation.load(path, api_key="any")


async def awaited(path: str) -> int:
    async with aio.conversation("openai/gpt-4o") as chat:
        async for item in chat.stream("Hi."):
            print(item)
        await chat.save(path)
        loaded = await aio.Conversation.load(path)
        return (await loaded.ask("Where?", output=Point)).output.y
