"""How Ollama spells messages and images."""

from toolwire.types.spelling.base import MediumSpelling, MessageSpelling


class OllamaMessageSpelling(MessageSpelling, frozen=True, tag="ollama.message", gc=False):
    """How a message was spelled.

    - `role`: its role, if that was in other letters, such as `User`. The server reads a role in any case
      (https://github.com/ollama/ollama/blob/main/api/types.go, `Message.UnmarshalJSON`).
    - `has_no_role`: the message of a response had none that says `assistant`. Proxies leave it out.
    """

    role: str | None = None
    has_no_role: bool = False


class OllamaImageSpelling(MediumSpelling, frozen=True, tag="ollama.image", gc=False):
    """How an image was spelled.

    - `is_data_url`: it was a data URL. Clients that were made for OpenAI send one.
    """

    is_data_url: bool = False
