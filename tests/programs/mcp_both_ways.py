import sys

from toolwire import AgentResolver, generate, mcp


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if sys.argv[1:] == ["serve"]:
    mcp.serve(AgentResolver([add]))
else:
    with mcp.stdio(sys.executable, [__file__, "serve"]) as server:
        print(generate("What is 2 + 3?", model="anthropic/claude-sonnet-5-5", tools=server).content)
