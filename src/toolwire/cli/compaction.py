"""A summary in place of a long conversation: `/compact`, a full context, and one try after "too long".

Rules of this file:
- The model is sent the conversation as text, without tools, so that every provider can summarize it. Long results are
  cut, and if the text is still too long for the model, its middle is left out.
- The summary replaces the messages only when it is there. The whole conversation stays saved under another id.
- A window that nobody knows is not guessed: such a conversation is summarized only when the provider rejects it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from toolwire.cli.display import call_summary, result_text
from toolwire.client.clearing import context_window, estimate_tokens
from toolwire.client.failures import ContextTooLong
from toolwire.client.sync import Client
from toolwire.errors import UserError
from toolwire.loop import Done, LoopLimits
from toolwire.resolvers.execution import Cancel
from toolwire.types import Context, Message, Request, Text, ToolCall, ToolResult, Usage

_COMPACT_AT = 0.8
_REQUEST = "Summarize our conversation, so that you can go on with the summary alone."
_SYSTEM = (
    "You write the summary with which a coding agent continues its conversation. It replaces all earlier messages, so "
    "nothing that is missing in it is known afterwards. Write under these headings: the task, in the user's own words; "
    "what the user decided or forbade; what was done, with the paths of files and what was changed in each; what was "
    "found out; what failed, and why; what is left to do. Be exact with names, paths and commands, and brief elsewhere."
)
_PART, _RESULT = 8_000, 2_000
_CHARACTERS = 240_000
_CHARACTERS_PER_TOKEN = 3
_ATTEMPTS = 3
_LEAST = 2  # messages: a prompt and its answer


class _Summary(NamedTuple):
    """The messages that replace a conversation, and the request that made them."""

    messages: list[Message]
    done: Done


def is_full(request: Request, usage: Usage | None, window: int | None) -> bool:
    """Return True if `request` fills most of the context window. `usage` is that of the last answer in it."""
    known = window or context_window(request.model)
    return known is not None and estimate_tokens(request, usage) >= _COMPACT_AT * known


def can_compact(messages: Sequence[Message]) -> bool:
    """Return True if there is something to summarize."""
    return len(messages) >= _LEAST and any(message.role == "assistant" for message in messages)


def may_compact_again(messages: Sequence[Message]) -> bool:
    """Return True if enough follows the last summary in `messages`, so that another one can make room."""
    is_summary = messages[0].text.startswith(_REQUEST) if messages else False
    return can_compact(messages) and len(messages) >= _LEAST * (3 if is_summary else 1)


def summarize(
    client: Client, messages: Sequence[Message], cancel: Cancel, *, focus: str = "", window: int | None = None
) -> _Summary:
    """Ask the model for a summary of `messages`, and return the messages that replace them.

    `focus` is the main subject of the summary. Raise ProviderError if the provider fails, KeyboardInterrupt if `cancel`
    is set, and UserError if the answer is no summary.
    """
    known = window or context_window(client.model)
    characters = _CHARACTERS if known is None else max(_PART, int(known * _COMPACT_AT) * _CHARACTERS_PER_TOKEN)
    for attempt in range(_ATTEMPTS):
        text = transcript(messages, characters >> attempt)
        prompt = "\n\n".join(filter(None, [_REQUEST, focus and f"Say most about this: {focus}", text]))
        try:
            done = client.run(Context(_SYSTEM, [Message("user", prompt)]), cancel=cancel, limits=LoopLimits(turns=1))
        except ContextTooLong:
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        break
    if done.ending == "cancelled":
        raise KeyboardInterrupt
    if done.ending != "answer" or not (done.content or "").strip():
        raise UserError(f"the model wrote no summary ({done.reason or done.ending}); the conversation is as it was")
    return _Summary([Message("user", _REQUEST), Message("assistant", str(done.content))], done)


def transcript(messages: Sequence[Message], characters: int) -> str:
    """Return `messages` as text of about `characters` at most: the first message, and as many of the last as fit."""
    names = {part.id: part.name for message in messages for part in message.parts if isinstance(part, ToolCall)}
    texts = [text for message in messages if (text := _message_text(message, names))]
    first, later = texts[:1], texts[1:]
    room = characters - sum(map(len, first))
    kept: list[str] = []
    for text in reversed(later):
        room -= len(text)
        if room < 0:
            break
        kept.insert(0, text)
    omitted = len(later) - len(kept)
    return "\n\n".join([*first, *([f"[{omitted} parts of the conversation are left out here]"] * bool(omitted)), *kept])


def _message_text(message: Message, names: dict[str | None, str]) -> str:
    lines = []
    for part in message.parts:
        match part:
            case Text(text=text):
                lines.append(f"{message.role}: {_cut(text, _PART)}")
            case ToolCall():
                lines.append(f"call: {call_summary(part)}")
            case ToolResult():
                ending = "error" if part.is_error else "result"
                name = part.name or names.get(part.tool_call_id) or "a tool"
                lines.append(f"{ending} of {name}: {_cut(result_text(part), _RESULT)}")
    return "\n".join(lines)


def _cut(text: str, limit: int) -> str:
    omitted = len(text) - limit
    if omitted <= 0:
        return text
    return f"{text[: limit * 2 // 3]}\n[{omitted} characters are left out]\n{text[-limit // 3 :]}"
