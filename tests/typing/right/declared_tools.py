"""Functions, methods and classes as tools: each is called as before."""

from collections.abc import Callable
from typing import Any

from toolwire import AgentResolver, FunctionTool, ToolCall, ToolError, ToolResult, tool


@tool(name="add_numbers", strict=True, parallel=True)
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool
    def buy(self, item: str, count: int = 1) -> str:
        """Buy something."""
        return f"{count} x {item} from {self.name}"


@tool
class Search:
    """Searches."""

    def execute(self, query: str, context: dict[str, Any]) -> str:
        if not context:
            raise ToolError("log in first")
        return query


def preview(path: str) -> str:
    return f"would write {path}"


@tool(preview=preview, sensitive=("text",))
async def write(path: str, text: str = "") -> None:
    """Write a file."""


three: int = add(1, b=2)
tea: str = Shop("the corner").buy("tea", count=2)
found: str = Search().execute("tea", {"user": "abc"})
kept: FunctionTool = add
plain: Callable[..., int] = add


def run() -> ToolResult:
    resolver = AgentResolver([add, Shop("x"), Search, write])
    return resolver.resolve(ToolCall("call_1", "add_numbers", {"a": 1}), {"user": "abc"})
