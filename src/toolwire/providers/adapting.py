"""A request as a server can take it: what it does not know is said in another way, or named as a loss.

Rules of this file:
- It depends on what is said of the server (`Capabilities`) and of the model (the catalogue), never on a name.
- A server that knows no tool choice is offered the tools that may be chosen, or none; whether one was called
  is for the loop to see. So is one that cannot be told of single tools, but that one must be called.
- A wire that has to be told how long an answer may be is told what the catalogue says of the model; where
  the answer comes as a whole, not more than can be waited for. No model is asked for more than it gives.
"""

from collections.abc import Collection
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.families import family_of
from toolwire.encoding.ledger import made_by
from toolwire.providers import catalogue
from toolwire.providers.known import Provider, quirks_of
from toolwire.types import Loss, Message, Request, Text, Thinking, Tool, ToolChoice

MOST_TOKENS = 16_384
# What a wire does not tell of a stream unless it is asked to.
_ASKED_OF_A_STREAM: dict[str, dict[str, Any]] = {"openai-chat": {"stream_options": {"include_usage": True}}}
# Wires without a word for a tool choice: their encoders say it in another way.
_WITHOUT_CHOICE = frozenset({"ollama"})
# Wires that refuse texts of spaces alone, which their own models write
# (anthropics/claude-code#23440, 2026-02-05; LibreChat-AI/agents#124, 2026-04-30).
_WITHOUT_BLANKS = frozenset({"anthropic"})


def adapted(request: Request, provider: Provider) -> tuple[Request, tuple[Loss, ...]]:
    """Give the request for this server, and what was said otherwise."""
    losses: list[Loss] = []
    if provider.dialect in _WITHOUT_BLANKS:
        request = _worded(request, provider.dialect, losses)
    request = _within(request, provider, losses)
    if not provider.capabilities.strict_tools:
        request = _without_strict(request, provider, losses)
    knows = provider.capabilities.tool_choice or provider.dialect in _WITHOUT_CHOICE
    if request.tool_choice is not None and not knows:
        request = _chosen(request, provider, losses)
    elif request.tool_choice is not None and not provider.capabilities.named_choice:
        request = _narrowed(request, request.tool_choice, provider, losses)
    return request, tuple(losses)


def _worded(request: Request, wire: str, losses: list[Loss]) -> Request:
    """Leave out texts without a word that were read from this wire: it does not take them back."""
    bound, messages, lost = family_of(request.model).thoughts_bound is True, list[Message](), list[Loss]()
    for place, message in enumerate(request.messages):
        blanks = _blanks_of(message, bound=bound) if made_by(message.opaque, wire) else []
        why = f"{wire} refuses a text of spaces alone"
        lost += [Loss(f"messages[{place}].content[{n}]", "blank", "dropped", why, "minor") for n in blanks]
        words = [part for n, part in enumerate(message.parts) if n not in blanks]
        if words or not blanks:
            messages.append(replace(message, content=words) if blanks else message)
    losses += lost
    return replace(request, context=replace(request.context, messages=messages)) if lost else request


def _blanks_of(message: Message, *, bound: bool) -> list[int]:
    """Say where the texts without a word stand in an answer, but those that a thought is bound to."""
    if message.role != "assistant":
        return []
    thoughts = (place for place, part in enumerate(message.parts) if bound and type(part) is Thinking)
    last = max(thoughts, default=-1)
    return [n for n, part in enumerate(message.parts) if n > last and type(part) is Text and not part.text.strip()]


def _within(request: Request, provider: Provider, losses: list[Loss]) -> Request:
    """Ask for no longer answer than the model gives: servers refuse one (Gemini and Messages, 2026-11-20)."""
    known, asked = catalogue.model(request.model), request.max_tokens
    most = known.max_output if known is not None else None
    if most is None or asked is None or asked <= most or made_by(request.opaque, provider.dialect):
        return request
    losses.append(Loss("max_tokens", "max_tokens", "approximated", f"{request.model} gives {most} at most", "minor"))
    return replace(request, max_tokens=most)


def _without_strict(request: Request, provider: Provider, losses: list[Loss]) -> Request:
    """Leave out what the server does not know of its tools."""
    if not any(isinstance(tool, Tool) and tool.strict is not None for tool in request.tools):
        return request
    detail = f"{provider.name} does not know strict tools: arguments are checked when they come"
    losses.append(Loss("tools.strict", "strict", "dropped", detail, "minor"))
    tools = [replace(tool, strict=None) if isinstance(tool, Tool) else tool for tool in request.tools]
    return replace(request, context=replace(request.context, tools=tools))


def _chosen(request: Request, provider: Provider, losses: list[Loss]) -> Request:
    """Offer only the tools that may be called."""
    choice = request.tool_choice
    if choice is None or (choice.mode == "auto" and choice.names is None):
        return replace(request, tool_choice=None)
    names = frozenset[str]() if choice.mode == "none" else choice.names
    how = "no tool is offered" if choice.mode == "none" else "it cannot be forced; what is called is checked"
    losses.append(Loss("tool_choice", "tool_choice", "approximated", f"{provider.name} knows no tool choice: {how}"))
    return replace(_offering(request, names), tool_choice=None)


def _narrowed(request: Request, choice: ToolChoice, provider: Provider, losses: list[Loss]) -> Request:
    """Offer only the tools that are named, where a choice cannot name them."""
    if choice.names is None:
        return request
    how = f"{provider.name} cannot be told of single tools: only those are offered"
    losses.append(Loss("tool_choice.names", "tool_choice", "approximated", how, "minor"))
    return replace(_offering(request, choice.names), tool_choice=ToolChoice(choice.mode))


def _offering(request: Request, names: Collection[str] | None) -> Request:
    """Give the request with no other tools than these, and those that the provider runs."""
    tools = [tool for tool in request.tools if not isinstance(tool, Tool) or names is None or tool.name in names]
    return replace(request, context=replace(request.context, tools=tools))


def quirks_for(request: Request, provider: Provider) -> dict[str, Any]:
    """Say what an encode minds of the model; what was said of the provider comes first."""
    quirks = quirks_of(request.model, catalogue.model(request.model))
    if "default_max_tokens" in quirks and not request.stream:
        quirks["default_max_tokens"] = min(quirks["default_max_tokens"], MOST_TOKENS)
    for version in provider.version_header.values():
        quirks["api_version"] = version
    return quirks | provider.quirks


def asked_of_stream(provider: Provider) -> dict[str, Any]:
    """Give what has to be in a body so that its stream tells what it cost."""
    return _ASKED_OF_A_STREAM.get(provider.dialect, {}) if provider.quirks.get("stream_usage", True) else {}
