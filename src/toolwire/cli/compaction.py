"""A long conversation becomes a summary, so that it fits the model's context window again.

Rules of this file:
- The model summarises a transcript in plain text, which fits in any case: long results are cut in the middle, and so is
  the transcript.
- The user's last message stays as it was written.
"""

from collections.abc import Sequence

from toolwire.cli.display import call_summary, result_text
from toolwire.client.clearing import context_window
from toolwire.types import Message, Response, Text, ToolCall, ToolResult

_FULL = 0.8
_CHARACTERS_PER_TOKEN = 2  # of the transcript's window: half of what a token usually has
_UNKNOWN_WINDOW = 30_000
_LONGEST_RESULT, _LONGEST_TEXT = 1_000, 8_000
_LEFT_OUT = "\n[...]\n"
_TASK = (
    "Summarise this conversation between a user and an agent, for the agent that continues it. Keep: what the user "
    "wants and decided, what was done and found, the names of files, commands and values that matter, and what is left "
    "to do. Write only the summary.\n\n"
)
_SUMMARY = "This is a summary of the conversation so far, because it was too long:\n\n"


def is_full(model: str | None, response: Response | None) -> bool:
    """Return True if the last answer and its request used most of the model's context window, as far as it is known."""
    window, usage = context_window(model), None if response is None else response.usage
    if window is None or usage is None:
        return False
    return usage.total_tokens > _FULL * window


def summary_request(messages: Sequence[Message], model: str | None) -> str:
    """Return the request for a summary of `messages`, short enough for the model."""
    window = context_window(model) or _UNKNOWN_WINDOW
    transcript = "\n\n".join(filter(None, map(_described, messages)))
    return _TASK + _shorten_middle(transcript, window * _CHARACTERS_PER_TOKEN)


def summarised(messages: Sequence[Message], summary: str) -> list[Message]:
    """Return the messages that replace `messages`: the summary, with the user's last message."""
    prompts = [message.text for message in messages if message.role == "user" and message.text]
    last = f"\n\nThe user's last message was:\n\n{_shorten_middle(prompts[-1], _LONGEST_TEXT)}" if prompts else ""
    return [Message("user", f"{_SUMMARY}{summary.strip()}{last}"), Message("assistant", "I continue from there.")]


def _described(message: Message) -> str:
    """Return a message as text: its words, its calls, its results."""
    lines = []
    for part in message.parts:
        match part:
            case Text(text=text):
                lines.append(f"{message.role}: {_shorten_middle(text, _LONGEST_TEXT)}")
            case ToolCall():
                lines.append(f"call: {call_summary(part)}")
            case ToolResult():
                lines.append(f"result of {part.name}: {_shorten_middle(result_text(part), _LONGEST_RESULT)}")
    return "\n".join(lines)


def _shorten_middle(text: str, limit: int) -> str:
    """Return `text` without its middle, if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    half = (limit - len(_LEFT_OUT)) // 2
    return f"{text[:half]}{_LEFT_OUT}{text[-half:]}"
