"""How a wire spelled a value, where it can spell the same value in more than one way.

Rules of this folder:
- A dialect compares nothing but these fields when it writes a value back to its own wire. Other dialects ignore them.
- Each struct belongs to one wire and one kind of value, which its type determines. `spelling_of` relies on it.
- A field is set only if the wire deviated from what the encoder writes by default.
- A field names the server, client or document that needs it.
"""

from toolwire.types.spelling import anthropic, gemini, mcp, ollama, openai_chat, openai_responses, text_tagged
from toolwire.types.spelling.base import MessageSpelling, RequestSpelling, TextSpelling, WireSpelling

Spelling = (
    MessageSpelling
    | RequestSpelling
    | TextSpelling
    | anthropic.MessagesCallSpelling
    | anthropic.MessagesErrorSpelling
    | anthropic.MessagesMediumSpelling
    | anthropic.MessagesRequestSpelling
    | anthropic.MessagesResponseSpelling
    | anthropic.MessagesResultSpelling
    | anthropic.MessagesTextSpelling
    | anthropic.MessagesToolSpelling
    | gemini.GeminiCallSpelling
    | gemini.GeminiChoiceSpelling
    | gemini.GeminiErrorSpelling
    | gemini.GeminiMessageSpelling
    | gemini.GeminiPartSpelling
    | gemini.GeminiRequestSpelling
    | gemini.GeminiResponseSpelling
    | gemini.GeminiResultSpelling
    | gemini.GeminiToolSpelling
    | mcp.McpPartSpelling
    | mcp.McpResultSpelling
    | ollama.OllamaCallSpelling
    | ollama.OllamaErrorSpelling
    | ollama.OllamaImageSpelling
    | ollama.OllamaLineSpelling
    | ollama.OllamaMessageSpelling
    | ollama.OllamaRequestSpelling
    | ollama.OllamaResponseSpelling
    | ollama.OllamaResultSpelling
    | ollama.OllamaToolSpelling
    | openai_chat.ChatCallSpelling
    | openai_chat.ChatChoiceSpelling
    | openai_chat.ChatErrorSpelling
    | openai_chat.ChatMediumSpelling
    | openai_chat.ChatMessageSpelling
    | openai_chat.ChatRefusalSpelling
    | openai_chat.ChatRequestSpelling
    | openai_chat.ChatResponseSpelling
    | openai_chat.ChatResultSpelling
    | openai_chat.ChatThinkingSpelling
    | openai_chat.ChatToolSpelling
    | openai_responses.ResponsesCallSpelling
    | openai_responses.ResponsesChoiceSpelling
    | openai_responses.ResponsesDeltaSpelling
    | openai_responses.ResponsesErrorSpelling
    | openai_responses.ResponsesMediumSpelling
    | openai_responses.ResponsesOutputSpelling
    | openai_responses.ResponsesRequestSpelling
    | openai_responses.ResponsesResponseSpelling
    | openai_responses.ResponsesResultSpelling
    | openai_responses.ResponsesServerCallSpelling
    | openai_responses.ResponsesThinkingSpelling
    | openai_responses.ResponsesToolSpelling
    | text_tagged.TextCallSpelling
)
"""Every struct of this folder; JSON names it in `of`."""

__all__ = ["MessageSpelling", "RequestSpelling", "Spelling", "TextSpelling", "WireSpelling"]
