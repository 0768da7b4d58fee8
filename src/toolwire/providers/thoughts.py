"""Thoughts that a server does not take back: which they are, and a request without them.

Rules of this file:
- A thought is known by its signature, or by its id where its server keeps what it says.
- A refusal names one thought, and counts for all of its wire that the request holds.
"""

from msgspec.structs import replace

from toolwire.encoding.ledger import made_by
from toolwire.types import Error, Loss, Message, Part, Request, Thinking

# What a refusal says, on each wire: of thoughts that are bound to another system prompt, other tools or another model
# (Anthropic, 2026-11-20), and of those that another server or organization keeps, or has sealed (OpenAI, 2026-11-20).
_REFUSALS = {
    "anthropic": (("Invalid", "thinking", "block"),),
    "openai-responses": (("Item with id 'rs_", "not found"), ("encrypted content", "could not be verified")),
}


def refused_thoughts(request: Request, error: Error, dialect: str) -> set[str]:
    """List the thoughts of a request that its server refuses; none if the error is another one."""
    if not any(all(word in error.message for word in words) for words in _REFUSALS.get(dialect, ())):
        return set()
    keys = (_key_of(part, dialect) for message in request.messages for part in message.parts)
    return {key for key in keys if key is not None}


def without_thoughts(request: Request, refused: set[str], dialect: str) -> tuple[Request, tuple[Loss, ...]]:
    """Leave out these thoughts; a message that was nothing else is left out too."""
    messages, losses = list[Message](), list[Loss]()
    for place, message in enumerate(request.messages if refused else ()):
        lost = [n for n, part in enumerate(message.parts) if _key_of(part, dialect) in refused]
        why = f"{dialect} refuses it: it is bound to another conversation, model or server"
        losses += [Loss(f"messages[{place}].content[{n}]", "thinking", "dropped", why) for n in lost]
        kept = [part for n, part in enumerate(message.parts) if n not in lost]
        if kept or not lost:
            messages.append(replace(message, content=kept) if lost else message)
    return replace(request, context=replace(request.context, messages=messages)) if losses else request, tuple(losses)


def _key_of(part: Part, dialect: str) -> str | None:
    if type(part) is not Thinking or not made_by(part.opaque, dialect):
        return None
    spelling = None if part.opaque is None else part.opaque.spelling
    return part.signature or (None if spelling is None else spelling.constants.get("id"))
