"""Adaptation of a request to its server: content that the server does not support is replaced or reported as a loss.

Rules of this file:
- The adaptation depends on the server's `Capabilities` and on the model's entry in the catalogue, never on a name.
- For a server without tool choice, the request offers only the tools that may be chosen, or none. The loop checks if
  one was called. The same holds for a server that can require a call, but cannot name single tools.
- If a wire requires a length limit, it is the one that the catalogue has for the model. An answer that is not streamed
  gets a limit that is short enough to wait for. No request exceeds the model's limit.
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
# Members of a streaming request that make the server report the usage.
_STREAM_USAGE_MEMBERS: dict[str, dict[str, Any]] = {"openai-chat": {"stream_options": {"include_usage": True}}}
# Wires without a tool choice: their encoders write the choice in another way.
_WITHOUT_CHOICE = frozenset({"ollama"})
# Wires that refuse texts of spaces alone, which their own models write
# (anthropics/claude-code#23440, 2026-02-05; LibreChat-AI/agents#124, 2026-04-30).
_WITHOUT_BLANKS = frozenset({"anthropic"})


def adapted(request: Request, provider: Provider) -> tuple[Request, tuple[Loss, ...]]:
    """Return the request as this server accepts it, and the losses."""
    losses: list[Loss] = []
    if provider.dialect in _WITHOUT_BLANKS:
        request = _without_blank_texts(request, provider.dialect, losses)
    request = _within_output_limit(request, provider, losses)
    if not provider.capabilities.strict_tools:
        request = _without_strict(request, provider, losses)
    has_tool_choice = provider.capabilities.tool_choice or provider.dialect in _WITHOUT_CHOICE
    if request.tool_choice is not None and not has_tool_choice:
        request = _without_tool_choice(request, provider, losses)
    elif request.tool_choice is not None and not provider.capabilities.named_choice:
        request = _without_named_choice(request, request.tool_choice, provider, losses)
    return request, tuple(losses)


def _without_blank_texts(request: Request, wire: str, losses: list[Loss]) -> Request:
    """Remove blank texts that were decoded from this wire, which its server does not accept back."""
    thinking_is_bound, messages, dropped = (
        family_of(request.model).thoughts_bound is True,
        list[Message](),
        list[Loss](),
    )
    for index, message in enumerate(request.messages):
        blanks = _blank_indexes(message, thinking_is_bound=thinking_is_bound) if made_by(message.opaque, wire) else []
        reason = f"{wire} rejects a text without visible characters"
        dropped += [Loss(f"messages[{index}].content[{n}]", "blank", "dropped", reason, "minor") for n in blanks]
        kept_parts = [part for n, part in enumerate(message.parts) if n not in blanks]
        if kept_parts or not blanks:
            messages.append(replace(message, content=kept_parts) if blanks else message)
    losses += dropped
    return replace(request, context=replace(request.context, messages=messages)) if dropped else request


def _blank_indexes(message: Message, *, thinking_is_bound: bool) -> list[int]:
    """Return the indexes of the blank texts in an answer, without those that a thinking block is bound to."""
    if message.role != "assistant":
        return []
    thoughts = (index for index, part in enumerate(message.parts) if thinking_is_bound and type(part) is Thinking)
    last = max(thoughts, default=-1)
    return [n for n, part in enumerate(message.parts) if n > last and type(part) is Text and not part.text.strip()]


def _within_output_limit(request: Request, provider: Provider, losses: list[Loss]) -> Request:
    """Limit `max_tokens` to what the model allows: Gemini and Anthropic reject a larger value (2026-11-20)."""
    known, max_tokens = catalogue.model(request.model), request.max_tokens
    limit = known.max_output if known is not None else None
    if limit is None or max_tokens is None or max_tokens <= limit or made_by(request.opaque, provider.dialect):
        return request
    losses.append(
        Loss(
            "max_tokens",
            "max_tokens",
            "approximated",
            f"{request.model} accepts at most {limit}: {limit} is sent",
            "minor",
        )
    )
    return replace(request, max_tokens=limit)


def _without_strict(request: Request, provider: Provider, losses: list[Loss]) -> Request:
    """Remove `strict` from the tools of a server that does not know it."""
    if not any(isinstance(tool, Tool) and tool.strict is not None for tool in request.tools):
        return request
    detail = f"{provider.name} does not know strict tools: arguments are checked when they arrive"
    losses.append(Loss("tools.strict", "strict", "dropped", detail, "minor"))
    tools = [replace(tool, strict=None) if isinstance(tool, Tool) else tool for tool in request.tools]
    return replace(request, context=replace(request.context, tools=tools))


def _without_tool_choice(request: Request, provider: Provider, losses: list[Loss]) -> Request:
    """Offer only the tools that may be called, for a server without tool choice."""
    choice = request.tool_choice
    if choice is None or (choice.mode == "auto" and choice.names is None):
        return replace(request, tool_choice=None)
    names = frozenset[str]() if choice.mode == "none" else choice.names
    remedy = "no tool is offered" if choice.mode == "none" else "a call cannot be forced; the calls are checked"
    losses.append(Loss("tool_choice", "tool_choice", "approximated", f"{provider.name} knows no tool choice: {remedy}"))
    return replace(_offering(request, names), tool_choice=None)


def _without_named_choice(request: Request, choice: ToolChoice, provider: Provider, losses: list[Loss]) -> Request:
    """Offer only the named tools, for a server whose tool choice cannot name tools."""
    if choice.names is None:
        return request
    detail = f"{provider.name} cannot be limited to single tools: only those are offered"
    losses.append(Loss("tool_choice.names", "tool_choice", "approximated", detail, "minor"))
    return replace(_offering(request, choice.names), tool_choice=ToolChoice(choice.mode))


def _offering(request: Request, names: Collection[str] | None) -> Request:
    """Return the request with only the tools in `names` and those that the provider runs."""
    tools = [tool for tool in request.tools if not isinstance(tool, Tool) or names is None or tool.name in names]
    return replace(request, context=replace(request.context, tools=tools))


def quirks_for(request: Request, provider: Provider) -> dict[str, Any]:
    """Return the quirks of the model for an encode. A quirk of the provider replaces that of the model."""
    quirks = quirks_of(request.model, catalogue.model(request.model))
    if "default_max_tokens" in quirks and not request.stream:
        quirks["default_max_tokens"] = min(quirks["default_max_tokens"], MOST_TOKENS)
    for version in provider.version_header.values():
        quirks["api_version"] = version
    return quirks | provider.quirks


def asked_of_stream(provider: Provider) -> dict[str, Any]:
    """Return the members that a body needs so that its stream reports the usage."""
    return _STREAM_USAGE_MEMBERS.get(provider.dialect, {}) if provider.quirks.get("stream_usage", True) else {}
