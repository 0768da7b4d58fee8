"""How Ollama spells requests."""

from toolwire.types.spelling.base import RequestSpelling


class OllamaRequestSpelling(RequestSpelling, frozen=True, tag="ollama.request", gc=False):
    """How a request of Ollama was spelled.

    - `has_no_stream`: it had no `stream`, or null; the server streams then
      (https://github.com/ollama/ollama/blob/main/docs/api.md#generate-a-chat-completion).
    """

    has_no_stream: bool = False
