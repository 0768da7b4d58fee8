"""How a wire spelled a value, where it can spell the same value in more than one way.

Rules of this folder:
- A dialect compares nothing but these fields when it writes a value back to its own wire. Other dialects ignore them.
- Each struct belongs to one wire and one kind of value: its type says both. `spelling_of` relies on it.
- A field is set only if the wire deviated from what the encoder writes by default.
- A field names the server, client or document that needs it.
"""

from toolwire.types.spelling import anthropic, gemini, mcp, ollama, openai_chat, openai_responses, text_tagged
from toolwire.types.spelling.base import WireSpelling

Spelling = (
    anthropic.MessagesCallSpelling
    | anthropic.MessagesResultSpelling
    | gemini.GeminiCallSpelling
    | gemini.GeminiResultSpelling
    | mcp.McpResultSpelling
    | ollama.OllamaCallSpelling
    | ollama.OllamaResultSpelling
    | openai_chat.ChatCallSpelling
    | openai_chat.ChatResultSpelling
    | openai_responses.ResponsesCallSpelling
    | openai_responses.ResponsesResultSpelling
    | text_tagged.TextCallSpelling
)
"""Every struct of this folder; JSON names it in `of`."""

__all__ = ["Spelling", "WireSpelling"]
