"""The search of deferred tools in a run: a function that the model calls, and the tools that its requests hold back."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.resolvers.composition import Composition
from toolwire.resolvers.handler import AgentResolver
from toolwire.translation.deferred_tools import Deferral, DeferredTools
from toolwire.types import Request, Tool, ToolCall


class DeferredSearch(Struct, eq=False):
    """The deferred tools of a run. It is the tool that searches them, if the provider's own search is declared."""

    tools: DeferredTools
    request: Request
    found: dict[str, None] = {}

    @classmethod
    def of(cls, request: Request, dialect: str, *, runs_calls: bool) -> "DeferredSearch | None":
        """Return the deferred tools of a request to another wire than theirs. None if there are none."""
        tools = DeferredTools.of(request, answers_searches=runs_calls)
        return None if tools is None or tools.dialect == dialect else cls(tools, request)

    @property
    def name(self) -> str:
        """The name of the function. Empty if the model has none."""
        return "" if self.tools.function is None else self.tools.function.name

    def definition(self) -> Tool:
        """Return the declaration of the function."""
        assert self.tools.function is not None  # noqa: S101 - only a run with the function has it as a tool
        return self.tools.function

    def execute(self, arguments: Mapping[str, Any]) -> str:
        """Search the tools that the model does not have yet."""
        call = ToolCall(None, self.name, dict(arguments))
        found, result = self.tools.answer(call, self.tools.named_by(self.request) | self.found)
        self.found |= dict.fromkeys(tool.name for tool in found)
        return str(result.content)

    def resolver_with(self, resolver: Any) -> Any:
        """Return a resolver that runs the function as well."""
        if not self.name:
            return resolver
        own = AgentResolver([self])
        return own if resolver is None else Composition([own, resolver])

    def deferred(self, request: Request) -> tuple[Request, Deferral]:
        """Return a request of the run without the tools that are held back, and how to report them."""
        named = self.tools.named_by(request)
        deferral = Deferral(self.tools, named)
        choice = self.tools.with_function_choice(request.tool_choice, has_searched=bool(self.found))
        context = replace(request.context, tools=deferral.sent_tools)
        return replace(request, context=context, tool_choice=choice), deferral
