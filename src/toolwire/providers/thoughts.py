"""Thinking that a server rejects: which blocks those are, and a request without them.

Rules of this file:
- A thinking block is identified by its signature, or by its id if its server stores it.
- An error names one block. The gateway and the clients then drop all blocks of its wire in the request.
"""

from msgspec.structs import replace

from toolwire.encoding.ledger import made_by
from toolwire.types import Error, Loss, Message, Part, Request, Thinking

# The words of these errors. Anthropic rejects thinking that is bound to another system prompt, other tools or another
# model (2026-11-20). OpenAI rejects reasoning that another server or organization stores or encrypted (2026-11-20).
_REFUSALS = {
    "anthropic": (("Invalid", "thinking", "block"),),
    "openai-responses": (("Item with id 'rs_", "not found"), ("encrypted content", "could not be verified")),
}


def refused_thoughts(request: Request, error: Error, dialect: str) -> set[str]:
    """Return the keys of the thinking blocks that the server rejected. Return an empty set for any other error."""
    if not any(all(word in error.message for word in words) for words in _REFUSALS.get(dialect, ())):
        return set()
    keys = (_key_of(part, dialect) for message in request.messages for part in message.parts)
    return {key for key in keys if key is not None}


def without_thoughts(request: Request, refused: set[str], dialect: str) -> tuple[Request, tuple[Loss, ...]]:
    """Return the request without these thinking blocks, and the losses. A message with nothing else is removed."""
    messages, losses = list[Message](), list[Loss]()
    for index, message in enumerate(request.messages if refused else ()):
        dropped = [n for n, part in enumerate(message.parts) if _key_of(part, dialect) in refused]
        reason = f"{dialect} refuses it: it is bound to another conversation, model or server"
        losses += [Loss(f"messages[{index}].content[{n}]", "thinking", "dropped", reason) for n in dropped]
        kept = [part for n, part in enumerate(message.parts) if n not in dropped]
        if kept or not dropped:
            messages.append(replace(message, content=kept) if dropped else message)
    return replace(request, context=replace(request.context, messages=messages)) if losses else request, tuple(losses)


def _key_of(part: Part, dialect: str) -> str | None:
    if type(part) is not Thinking or not made_by(part.opaque, dialect):
        return None
    spelling = None if part.opaque is None else part.opaque.spelling
    return part.signature or (None if spelling is None else spelling.constants.get("id"))
