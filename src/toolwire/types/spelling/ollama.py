"""How Ollama spells messages and images."""

from toolwire.types.spelling.base import MediumSpelling, MessageSpelling


class OllamaMessageSpelling(MessageSpelling, frozen=True, tag="ollama.message", gc=False):
    """How a message was spelled.

    - `role`: its role, if that was in other letters, such as `User`. The server reads a role in any case
      (`Message.UnmarshalJSON`, https://github.com/ollama/ollama/blob/main/api/types.go).
    """

    role: str | None = None


class OllamaImageSpelling(MediumSpelling, frozen=True, tag="ollama.image", gc=False):
    """How an image was spelled."""
