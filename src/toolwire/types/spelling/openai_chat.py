"""How Chat Completions spells values."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import MediumSpelling, MessageSpelling, RequestSpelling, ToolSpelling, WireSpelling


class ChatResponseSpelling(WireSpelling, frozen=True, tag="openai-chat.response", gc=False):
    """How a response was spelled.

    - `constants`: its `object`.
    - `order`: the positions of its choices in the order of their `index`, if they stood in another one. The `index`
      says which one is the answer (https://platform.openai.com/docs/api-reference/chat/object).
    """

    order: tuple[int, ...] = ()


class ChatChoiceSpelling(WireSpelling, frozen=True, tag="openai-chat.choice", gc=False):
    """How a choice was spelled: its `constants`, which are its `index`."""


class ChatErrorSpelling(WireSpelling, frozen=True, tag="openai-chat.error", gc=False):
    """How an error was spelled.

    - `is_list`: it stood in a list of one. Google's endpoint for clients of OpenAI sends lists
      (https://github.com/Simpleyyt/ai-manus/issues/101).
    - `message_key`: the message stood in the body itself, under this key. xAI sends it as `error` (recorded), older
      servers of vLLM as `message` (https://github.com/vllm-project/vllm/issues/12886).
    - `body`: the whole body, which was no error of this wire. Mistral sends `{"detail": ...}` (recorded).
    """

    is_list: bool = False
    message_key: str | None = None
    body: Any | UnsetType = UNSET


class ChatRequestSpelling(RequestSpelling, frozen=True, tag="openai-chat.request", gc=False):
    """How a request of Chat Completions was spelled.

    - `has_max_tokens`: the limit of tokens stood in `max_tokens`, which OpenAI has deprecated and most other servers
      have alone (https://platform.openai.com/docs/api-reference/chat/create).
    - `has_serial_functions`: its tools stood in the deprecated `functions` alone, of which a model calls one at a time
      (https://platform.openai.com/docs/api-reference/chat/create).
    """

    has_max_tokens: bool = False
    has_serial_functions: bool = False


class ChatToolSpelling(ToolSpelling, frozen=True, tag="openai-chat.tool", gc=False):
    """How a tool was declared.

    - `has_no_type`: it had no `type`. The `type` of a tool is optional for Mistral
      (https://github.com/mistralai/client-python/blob/main/docs/models/tool.md).
    - `is_deprecated_function`: it was in `functions`, which OpenAI has deprecated in favor of `tools`
      (https://platform.openai.com/docs/api-reference/chat/create#chat-create-functions).
    """

    has_no_type: bool = False
    is_deprecated_function: bool = False


class ChatMessageSpelling(MessageSpelling, frozen=True, tag="openai-chat.message", gc=False):
    """How an assistant's message was spelled.

    - `has_no_role`: it had no role. No server is known that leaves it out of a response, but the client gets what the
      server sent.
    """

    has_no_role: bool = False


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


class ChatCallSpelling(WireSpelling, frozen=True, tag="openai-chat.call", gc=False):
    """How an entry of `tool_calls` was spelled. An `Opaque` part with such a spelling is an entry without a name.

    - `is_deprecated_function`: it was the `function_call` of the deprecated `functions`
      (https://platform.openai.com/docs/api-reference/chat/create).
    - `is_escaped`: its name or id had the escape that toolwire writes for this wire.
    - `has_no_id`: it had no `id`, or none that is one. Gemini's compatible API sends `""` (recorded).
    - `has_no_type`: it had no `type`. Mistral sends none (https://github.com/BerriAI/litellm/issues/2645).
    - `has_no_arguments`: it had no `arguments`, or none that are text or an object. Meta's API sends null
      (https://github.com/simonw/llm/issues/1521).
    """

    is_deprecated_function: bool = False
    is_escaped: bool = False
    has_no_id: bool = False
    has_no_type: bool = False
    has_no_arguments: bool = False


class ChatResultSpelling(WireSpelling, frozen=True, tag="openai-chat.result", gc=False):
    """How a message of the tool was spelled.

    - `is_deprecated_function`: its role was `function`, as in `ChatCallSpelling`.
    - `is_escaped`: its id had the escape that toolwire writes for this wire.
    - `has_name`: it had the `name` of the call's tool. Mistral's guide writes it
      (https://docs.mistral.ai/capabilities/function_calling).
    - `content`: the content was neither text nor parts. Some clients send what a function returned
      (https://github.com/nextcloud/integration_openai/pull/360).
    """

    is_deprecated_function: bool = False
    is_escaped: bool = False
    has_name: bool = False
    content: Any | UnsetType = UNSET
