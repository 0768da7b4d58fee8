"""What an import path of a handler led to: read as AgentResolver reads it, and compared with the file.

Rules of this file:
- A function is called with the arguments as keywords; an object's `execute` with all at once.
- A handler that declares itself (`@tool`, or a `definition`) may leave the file little to say.
- A function that cannot be called with what the file declares is refused before the first call.
"""

import inspect
from collections.abc import Collection, Iterator
from typing import Any

from toolwire.declarations.nodes import below
from toolwire.errors import InvalidField
from toolwire.resolvers.functions import FunctionTool, tool
from toolwire.resolvers.handler import Handler, handlers_of
from toolwire.types import Tool

# Beside these a schema may have properties that its own `properties` does not name.
ELSEWHERE = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if"})
METHOD = "my_app.tools:toolbox.search"


class _FoundHandler:
    """A handler that was found: how it runs, what it takes if that is known, whether it declares itself."""

    __slots__ = ("declares", "handler", "takes")

    def __init__(self, handler: Handler, takes: dict[str, Any] | None = None, *, declares: bool) -> None:
        self.handler = handler
        self.takes = takes
        self.declares = declares

    def running(self, declared: Tool, sensitive: Collection[str]) -> Handler:
        """Give what runs the tool that the file declares."""
        own, bind = self.handler, self.handler.bind
        if declared.custom and self.takes is not None:
            bind = _bind_text
        return Handler(
            declared,
            own.function,
            bind,
            sensitive=tuple(dict.fromkeys((*own.sensitive, *sensitive))),
            preview=own.preview,
            read=own.read,
        )


def _bind_text(arguments: dict[str, Any], _context: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Give a function the text of the model, and nothing else."""
    return (arguments["input"],), {}


def read_handler(given: Any) -> _FoundHandler:
    """Read what an import path led to."""
    if isinstance(given, FunctionTool):
        return _of_function(given, declares=True)
    if callable(getattr(given, "execute", None)) and getattr(given, "definition", None) is None:
        made: Any = given() if inspect.isclass(given) else given
        return _FoundHandler(Handler(Tool(""), made.execute), declares=False)
    if inspect.isroutine(given):
        return _of_function(tool(given), declares=False)
    several = handlers_of(given)
    if len(several) != 1:
        names = ", ".join(handler.tool.name for handler in several)
        raise InvalidField("handler", f"has several tools ({names}); name one of them, as in {METHOD}")
    signature = getattr(given, "__signature_of_tool__", None)
    return _FoundHandler(several[0], None if signature is None else signature.parameters, declares=True)


def _of_function(given: FunctionTool, *, declares: bool) -> _FoundHandler:
    if not given.bound:
        raise InvalidField("handler", f"is a method without its object; name it as in {METHOD}")
    [handler] = handlers_of(given)
    return _FoundHandler(handler, given.signature.parameters, declares=declares)


def misfits(takes: dict[str, Any], parameters: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Say where a function cannot be called as declared, each with its path in the parameters."""
    names, properties = takes["properties"], parameters.get("properties") or {}
    if takes.get("additionalProperties") is False:
        for name in properties:
            if name not in names:
                reason = f"the handler takes no {name}; it takes {', '.join(names) or 'nothing'}"
                yield below("properties", name), reason
    if not parameters.keys() & ELSEWHERE:
        for name in takes.get("required", ()):
            if name not in (parameters.get("required") or []):
                yield "required", f"must have {name}, which the handler cannot do without"
