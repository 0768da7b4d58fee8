"""How Chat Completions spells the parts of a message."""

from toolwire.types.spelling.base import MediumSpelling, WireSpelling


class ChatMediumSpelling(MediumSpelling, frozen=True, tag="openai-chat.medium", gc=False):
    """How an image, a document or a sound was spelled.

    - `is_bare`: its data was bare Base64, and no data URL. The server takes both
      (https://platform.openai.com/docs/guides/pdf-files).
    - `is_flat`: `image_url` was the URL itself, and no object that has it. Mistral takes both
      (recorded; https://docs.mistral.ai/capabilities/vision).
    """

    is_bare: bool = False
    is_flat: bool = False


class ChatRefusalSpelling(WireSpelling, frozen=True, tag="openai-chat.refusal", gc=False):
    """How a refusal was spelled.

    - `is_block`: it was a block of the content, where a client may send one. A response has the key `refusal`
      (https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages).
    """

    is_block: bool = False


class ChatThinkingSpelling(WireSpelling, frozen=True, tag="openai-chat.thinking", gc=False):
    """How a thought was spelled. OpenAI has no place for one, and each other server has its own.

    - `key`: the key of the message that held it: `reasoning_content` of DeepSeek
      (https://api-docs.deepseek.com/guides/reasoning_model), `reasoning` or `reasoning_details` of OpenRouter
      (https://openrouter.ai/docs/use-cases/reasoning-tokens), or `content`, in which Mistral has blocks of thinking
      (https://docs.mistral.ai/capabilities/reasoning).
    - `texts`: the texts of which it was joined, in `content` and in `reasoning_details`.
    """

    key: str | None = None
    texts: tuple[str, ...] = ()
