"""How models are spoken to that only write text: tools are told there and calls are read there, in a format.

Rules of this file:
- What a route names, is told and read in text. What a provider names, is read; its server tells of tools itself, where
  the provider has native calls.
- Only calls of the tools that were offered are read, and a block that the model was given is a quotation.
"""

from collections.abc import Callable

from toolwire.dialects import Dialect
from toolwire.errors import InvalidField, UnknownFormat
from toolwire.providers import Provider
from toolwire.streams.settling import call_ids
from toolwire.text import completions, over
from toolwire.text import format as format_of
from toolwire.text.quoting import texts_given
from toolwire.types import Request, Tool


def check_format(name: str, place: str) -> None:
    """Refuse a format that there is not; raw completions need one."""
    try:
        format_of(name)
    except UnknownFormat as problem:
        raise InvalidField("format", str(problem), path=place) from problem


def wording(provider: Provider, named: str) -> Callable[[Dialect, Request], Dialect] | None:
    """Give what lays a format over a provider's wire; None where calls are the wire's own."""
    form = named or provider.format
    if not form and not provider.completions:
        return None
    native = not named and provider.capabilities.native_tool_calls

    def worded(wire: Dialect, request: Request) -> Dialect:
        tools = [tool for tool in request.tools if isinstance(tool, Tool)]
        given, earlier = texts_given(request), call_ids(request)
        if provider.completions:
            return completions(tools, format=form, path=provider.completions, given=given, earlier=earlier)
        return over(wire, tools, format=form, native=native, given=given, earlier=earlier)

    return worded
