"""The awaited face: the same names, the same types."""

import asyncio
from dataclasses import dataclass

from toolwire import Done, TextDelta, aio


@dataclass
class City:
    name: str


async def get_weather(city: str) -> str:
    """Say the weather."""
    await asyncio.sleep(0)
    return f"25 degrees in {city}"


async def capital(country: str) -> str:
    city = await aio.generate(f"The capital of {country}?", model="openai/gpt-6-sol", output=City)
    return city.name


async def words(prompt: str) -> str:
    text = ""
    async with aio.Client("anthropic", "claude-sonnet-5-5") as client:
        async with client.stream(prompt, tools=[get_weather], max_tokens=500) as stream:
            async for item in stream:
                if isinstance(item, TextDelta):
                    text += item.text
        done = await client.run("And now?", messages=[prompt, text])
        value = await client.generate("The capital of Norway?", output=City)
    return text + (done.content or "") + value.name


async def both() -> list[Done[None]]:
    return await asyncio.gather(*(aio.generate(prompt, model="ollama/qwen3") for prompt in ("One?", "Two?")))
