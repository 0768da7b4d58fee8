"""Definitions, calls and results of a provider, without a client."""

from typing import Any

from toolwire import Tool, ToolCall, ToolResult, codec, execute, session_tools, tool


@tool
def ping(host: str) -> str:
    """Ping."""
    return host


def definitions() -> list[dict[str, Any]]:
    return codec.encode_definitions(
        [Tool("ping", "Pings.", {"type": "object"}), {"name": "x", "description": "y", "parameters": {}}], "anthropic"
    )


def results(body: dict[str, Any]) -> list[dict[str, Any]]:
    calls = codec.decode_tool_calls(body, "ollama")
    return [codec.encode_result(result, "ollama") for result in execute(calls, answer)]


def answer(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, ping(str(call.arguments["host"])))


def of_a_turn(calls: list[ToolCall]) -> list[ToolResult]:
    from toolwire import AgentResolver

    tools, resolve = session_tools.prepare(AgentResolver([ping]), ["ping"], {"user": "abc"})
    assert tools != []
    assert resolve is not None
    return execute(calls, resolve, timeout=5, parallel=2)
