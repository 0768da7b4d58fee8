"""How a wire spelled a value, where it can spell the same value in more than one way.

Rules of this folder:
- A dialect compares nothing but these fields when it writes a value back to its own wire. Other dialects ignore them.
- Each struct belongs to one wire and one kind of value: its type says both. `spelling_of` relies on it.
- A field is set only if the wire deviated from what the encoder writes by default.
- A field names the server, client or document that needs it.
"""

from toolwire.types.spelling import anthropic, gemini, mcp, ollama, openai_chat, openai_responses
from toolwire.types.spelling.base import MediumSpelling, MessageSpelling, TextSpelling, WireSpelling

Spelling = (
    anthropic.MessagesCallSpelling
    | anthropic.MessagesMediumSpelling
    | anthropic.MessagesResultSpelling
    | anthropic.MessagesTextSpelling
    | gemini.GeminiMessageSpelling
    | gemini.GeminiPartSpelling
    | mcp.McpPartSpelling
    | mcp.McpResultSpelling
    | ollama.OllamaImageSpelling
    | ollama.OllamaMessageSpelling
    | openai_chat.ChatMediumSpelling
    | openai_chat.ChatRefusalSpelling
    | openai_chat.ChatThinkingSpelling
    | openai_responses.ResponsesMediumSpelling
    | openai_responses.ResponsesOutputSpelling
    | openai_responses.ResponsesThinkingSpelling
    | MessageSpelling
    | TextSpelling
)
"""Every struct of this folder; JSON names it in `of`."""

__all__ = ["MediumSpelling", "MessageSpelling", "Spelling", "TextSpelling", "WireSpelling"]
