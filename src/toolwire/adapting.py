"""A request as a server can take it: what it does not know is said in another way, or named as a loss.

Rules of this file:
- It depends on what is said of the server (`Capabilities`) and of the model (the catalogue), never on a name.
- A server that knows no tool choice is offered the tools that may be chosen, or none; whether one was called
  is for the loop to see.
- A wire that has to be told how long an answer may be is told what the catalogue says of it.
"""

from msgspec.structs import replace

from toolwire import catalogue
from toolwire.providers import Provider
from toolwire.types import Loss, Request, Tool

MOST_TOKENS = 16_384
# Wires without a word for a tool choice: their encoders say it in another way.
WITHOUT_CHOICE = frozenset({"ollama"})


def adapted(request: Request, provider: Provider) -> tuple[Request, tuple[Loss, ...]]:
    """Give the request for this server, and what was said otherwise."""
    losses: list[Loss] = []
    knows = provider.capabilities.tool_choice or provider.dialect in WITHOUT_CHOICE
    if request.tool_choice is not None and not knows:
        request = _chosen(request, provider, losses)
    if request.max_tokens is None:
        request = _bounded(request, provider, losses)
    return request, tuple(losses)


def _chosen(request: Request, provider: Provider, losses: list[Loss]) -> Request:
    """Offer only the tools that may be called."""
    choice = request.tool_choice
    if choice is None or (choice.mode == "auto" and choice.names is None):
        return replace(request, tool_choice=None)
    names = frozenset[str]() if choice.mode == "none" else choice.names
    offered = [
        tool for tool in request.tools if not isinstance(tool, Tool) or names is None or tool.name in names
    ]
    said = "no tool is offered" if choice.mode == "none" else "it cannot be forced; what is called is checked"
    losses.append(
        Loss("tool_choice", "tool_choice", "approximated", f"{provider.name} knows no tool choice: {said}")
    )
    return replace(request, tool_choice=None, context=replace(request.context, tools=offered))


def _bounded(request: Request, provider: Provider, losses: list[Loss]) -> Request:
    """Say how long an answer may be, where the catalogue knows that the provider has to be told."""
    traits = catalogue.provider(provider.name)
    model = catalogue.model(request.model) if traits is not None and traits.default_max_tokens else None
    if model is None or model.max_output is None:
        return request
    losses.append(
        Loss("max_tokens", "max_tokens", "defaulted", f"{provider.name} requires it", severity="minor")
    )
    return replace(request, max_tokens=min(model.max_output, MOST_TOKENS))
