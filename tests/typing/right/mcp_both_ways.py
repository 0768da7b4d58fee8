"""Tools of an MCP server for a model, and own tools as an MCP server."""

from toolwire import AgentResolver, CodeTools, Composition, generate, mcp, prefixed


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def ask(folder: str) -> str | None:
    with mcp.stdio("npx", ["-y", "@modelcontextprotocol/server-filesystem", folder]) as files:
        tools = Composition([prefixed(files, "files_"), (CodeTools, folder), AgentResolver([add])])
        return generate("What is here?", model="anthropic/claude-sonnet-5-5", tools=tools).content


def serve() -> None:
    mcp.serve(AgentResolver([add]), transport="stdio")
