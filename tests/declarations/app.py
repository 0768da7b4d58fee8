"""What the files of the tests name as handlers and resolvers."""

import os as system  # noqa: F401 - a path through it is refused
from dataclasses import dataclass
from os import getcwd  # noqa: F401 - a function of a module that must be named
from typing import Any

from toolwire import Tool, ToolCall, ToolResult, UnknownTool, tool

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def search(query: str, limit: int = 5) -> str:
    """Search the knowledge base."""
    return f"{limit} pages about {query}"


async def fetch(query: str) -> str:
    """Fetch a page."""
    return f"the page of {query}"


def whoami(query: str, context: dict[str, Any]) -> str:
    """Say who asks."""
    return f"{context['user']} asks for {query}"


def anything(**arguments: Any) -> str:
    """Take anything."""
    return ", ".join(sorted(arguments))


def shout(text: str) -> str:
    """Take the text of the model."""
    return text.upper()


def without_words(query: str) -> str:
    return query


@tool(sensitive=["token"], parallel=True, timeout=9)
def declared(query: str, token: str = "") -> str:
    """Search with a token."""
    return f"{query} {len(token)}"


class Lookup:
    """A tool as a class, in the words of the original."""

    sensitive_fields = ("secret",)

    def definition(self) -> Tool:
        return Tool("lookup", "Look it up", SCHEMA)

    def execute(self, args: dict[str, Any], context: Any) -> tuple[str, str]:
        return "ok", f"{args['query']} for {context}"


class Bare:
    """What runs, without saying what it is."""

    def execute(self, args: dict[str, Any], context: Any) -> str:
        return f"{sorted(args)} {context}"


bare = Bare()


@dataclass
class Toolbox:
    name: str = "box"

    @tool
    def open(self) -> str:
        """Open the box."""
        return f"{self.name} is open"

    @tool
    def close(self) -> str:
        """Close the box."""
        return f"{self.name} is closed"


toolbox = Toolbox("chest")


class Broken:
    def __init__(self) -> None:
        raise RuntimeError("no database")

    def execute(self, args: dict[str, Any], context: Any) -> str:
        raise NotImplementedError


class Files:
    """A resolver that minds a folder."""

    names = ("read_file", "write_file")

    def __init__(self, cwd: str = ".") -> None:
        self.cwd = cwd

    def available_tools(self) -> list[Tool]:
        return [Tool(name, f"{name} it", {"type": "object"}) for name in self.names]

    def resolve(self, call: ToolCall) -> ToolResult:
        if call.name not in self.names:
            raise UnknownTool(call.name, self.names)
        return ToolResult(call.id, call.name, f"{call.name} in {self.cwd}")


class Silent:
    def available_tools(self) -> list[Tool]:
        raise OSError("nobody is there")

    def resolve(self, call: ToolCall) -> ToolResult:
        raise NotImplementedError


files = Files()
silent = Silent()
number = 5
nothing = None
