"""A resolver of one's own, wrapped and merged with others."""

from collections.abc import Sequence

from toolwire import (
    AnyResolver,
    CodeTools,
    Composition,
    Resolver,
    Tool,
    ToolCall,
    ToolResolver,
    UnknownTool,
    filtered,
    generate,
    prefixed,
    renamed,
)


class Clock:
    def available_tools(self) -> Sequence[Tool]:
        return [Tool("time", "Says the time.", {"type": "object"})]

    def resolve(self, call: ToolCall) -> tuple[str, str]:
        if call.name != "time":
            raise UnknownTool(call.name, ["time"])
        return "ok", "12:00"


class Bell:
    def available_tools(self) -> list[Tool]:
        return []

    async def resolve(self, call: ToolCall, context: object = None) -> str:
        return f"{call.name} {context}"


def names(resolver: ToolResolver) -> list[str]:
    return [one.name for one in resolver.available_tools()]


def wrapped(resolver: AnyResolver) -> Resolver:
    return filtered(renamed(prefixed(resolver, "my_"), {"my_time": "now"}), ["now"])


def ask() -> list[str]:
    merged = Composition([wrapped(Clock()), Bell, (CodeTools, "/project")])
    generate("What time is it?", model="ollama/qwen3", tools=merged)
    generate("What time is it?", model="ollama/qwen3", tools=[Clock(), Bell()])
    return names(merged)
