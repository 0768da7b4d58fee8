"""A function around `generate` that passes settings on, and says so."""

from typing import Unpack

from toolwire import AnyTool, Done, OnceSettings, Prompt, RequestSettings, Tools, generate

cheap: RequestSettings = {"effort": "low", "verbosity": "low", "max_tokens": 300}


def ask(prompt: Prompt, **settings: Unpack[OnceSettings]) -> Done[None]:
    settings.setdefault("system", "Be brief.")
    return generate(prompt, model="openai/gpt-6-sol", **settings)


def cheaply(prompt: str, tools: Tools = ()) -> Done[None]:
    return generate(prompt, model="openai/gpt-6-sol", tools=tools, **cheap)


def both(tools: list[AnyTool]) -> list[Done[None]]:
    return [ask("Hello", tools=tools, tool_choice="auto"), cheaply("Hello", tools)]
