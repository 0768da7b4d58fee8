"""Somebody is asked before a tool runs."""

from toolwire import AgentResolver, ToolCall, ToolError, approved, generate, tool


@tool(sensitive=["token"], timeout=10)
def delete(path: str, token: str) -> str:
    """Delete a file."""
    if not token:
        raise ToolError("a token is needed")
    return f"{path} is gone"


@tool
def read(path: str) -> str:
    """Read a file."""
    return path


def ask(call: ToolCall, preview: str) -> bool | str:
    return True if input(f"{call.name}: {preview}? ") == "y" else "the user said no"


def run() -> str | None:
    return generate("Clean up.", model="ollama/qwen3", tools=[read, delete], approve=ask).content


def only_some() -> str | None:
    tools = approved(AgentResolver([read, delete]), lambda call, _preview: call.name == "read", only=["delete"])
    return generate("Clean up.", model="ollama/qwen3", tools=tools).content


def called_as_before() -> str:
    gone: str = delete("a.txt", token=input())
    return gone + read(path="b.txt")
