"""Text formats for models that only write text: a format renders the tools, and parses the calls in the reply.

Rules of this file:
- If a route names a format, the gateway renders the tools as text and parses the calls. If a provider names one, the
  gateway parses the calls only: the provider's server renders the tools itself, if the provider has native calls.
- The text of a local server's model is parsed in its own format and in the usual forms, if the request is translated.
  Where client and server speak one wire, the answer is passed on unchanged.
- Only calls of offered tools are parsed. A block that also occurs in the model's input is a quotation and no call.
"""

from collections.abc import Callable

from toolwire.dialects import Dialect
from toolwire.errors import InvalidField, UnknownFormat
from toolwire.providers import Provider
from toolwire.streams.call_normalizer import call_ids
from toolwire.text import completions, over
from toolwire.text import format as format_of
from toolwire.text.quoting import texts_given
from toolwire.text.usual_forms import UsualForms
from toolwire.types import Request, Tool


def check_format(name: str, path: str) -> None:
    """Raise `InvalidField` if there is no format `name`. `path` is where a setting names it.

    Raw completions need a format, so an empty name is an error as well.
    """
    try:
        format_of(name)
    except UnknownFormat as problem:
        raise InvalidField("format", str(problem), path=path) from problem


_Wrapper = Callable[[Dialect, Request], Dialect]


def dialect_wrapper(provider: Provider, route_format: str) -> _Wrapper | None:
    """Return the function that lays a text format over a provider's wire. Return None if the wire's own calls are used.

    `route_format` is the format that the route names. It comes before the format of the provider.
    """
    name = route_format or provider.format
    if not name and not provider.completions:
        return None
    native = not route_format and provider.capabilities.native_tool_calls

    def wrap(wire: Dialect, request: Request) -> Dialect:
        tools = [tool for tool in request.tools if isinstance(tool, Tool)]
        quoted_texts, earlier_ids = texts_given(request), call_ids(request)
        if provider.completions:
            return completions(tools, format=name, path=provider.completions, given=quoted_texts, earlier=earlier_ids)
        return over(wire, tools, format=name, native=native, given=quoted_texts, earlier=earlier_ids)

    return wrap


def usual_forms_wrapper(provider: Provider) -> _Wrapper | None:
    """Return the function that lays the usual text forms over the wire of a local server, or None for other servers."""
    if not provider.local or not provider.capabilities.native_tool_calls:
        return None

    def wrap(wire: Dialect, request: Request) -> Dialect:
        tools = [tool for tool in request.tools if isinstance(tool, Tool)]
        if not tools:
            return wire
        quoted_texts, earlier_ids, forms = texts_given(request), call_ids(request), UsualForms(request.model)
        return over(wire, tools, format=forms, native=True, given=quoted_texts, earlier=earlier_ids)

    return wrap
