"""How Chat Completions spells values."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import MediumSpelling, MessageSpelling, RequestSpelling, ToolSpelling, WireSpelling


class ChatResponseSpelling(WireSpelling, frozen=True, tag="openai-chat.response", gc=False):
    """How a response was spelled.

    - `constants`: its `object`.
    - `order`: the positions of its choices in the order of their `index`, if the list had another order. The
      choice with the lowest `index` is the answer (openai 3.57.0, `Choice.index`).
    """

    order: tuple[int, ...] = ()


class ChatChoiceSpelling(WireSpelling, frozen=True, tag="openai-chat.choice", gc=False):
    """How a choice was spelled: its `constants`, which are its `index`."""


class ChatErrorSpelling(WireSpelling, frozen=True, tag="openai-chat.error", gc=False):
    """How an error was spelled.

    - `is_list`: it was in a list of one. Google's endpoint for clients of OpenAI sends lists
      (https://github.com/FoundationAgents/OpenManus/issues/913).
    - `message_key`: the message was in the body itself, under this key. xAI sends it as `error` (recorded), and vLLM
      before 0.10.1 as `message` (https://github.com/vllm-project/vllm/issues/12886).
    - `body`: the whole body, which was not an error of this wire. Mistral sends `{"detail": ...}` (recorded).
    """

    is_list: bool = False
    message_key: str | None = None
    body: Any | UnsetType = UNSET


class ChatRequestSpelling(RequestSpelling, frozen=True, tag="openai-chat.request", gc=False):
    """How a request of Chat Completions was spelled.

    - `has_max_tokens`: the limit of tokens was in `max_tokens`, which OpenAI has deprecated (openai 3.57.0,
      `CompletionCreateParams`) and other servers have alone, such as Meta's
      (https://github.com/vectorize-io/hindsight/pull/4081).
    - `has_serial_functions`: its tools were in the deprecated `functions` alone, of which a model calls one at a time
      (openai 3.57.0, `ChatCompletionMessage.function_call`; recorded).
    """

    has_max_tokens: bool = False
    has_serial_functions: bool = False


class ChatToolSpelling(ToolSpelling, frozen=True, tag="openai-chat.tool", gc=False):
    """How a tool was declared.

    - `has_no_type`: it had no `type`. Mistral's client sends none (recorded;
      https://github.com/mistralai/client-python/blob/main/docs/models/tool.md).
    - `is_deprecated_function`: it was in `functions`, which OpenAI has deprecated in favor of `tools` (openai 3.57.0,
      `CompletionCreateParams`).
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

    - `is_bare`: its data was bare Base64, as OpenAI's client documents it (openai 3.57.0, `FileFile.file_data`), and no
      data URL. OpenAI's server rejects it (https://community.openai.com/t/1377908), other servers accept both
      (https://docs.aivene.com/multimodal/documents).
    - `is_flat`: `image_url` was the URL itself instead of an object. Mistral takes both (recorded;
      https://docs.mistral.ai/studio/conversations/vision).
    """

    is_bare: bool = False
    is_flat: bool = False


class ChatRefusalSpelling(WireSpelling, frozen=True, tag="openai-chat.refusal", gc=False):
    """How a refusal was spelled.

    - `is_block`: it was a block of the content, where a client may send one (openai 3.57.0,
      `ChatCompletionContentPartRefusalParam`). A response has the key `refusal`.
    """

    is_block: bool = False


class ChatThinkingSpelling(WireSpelling, frozen=True, tag="openai-chat.thinking", gc=False):
    """How thinking was spelled. OpenAI has no key for it, and each other server has its own.

    - `key`: the key of the message that held it: `reasoning_content` of DeepSeek, `reasoning` or `reasoning_details` of
      OpenRouter, or `content`, in which Mistral has blocks of thinking (recorded of all three).
    - `texts`: the texts of which it was joined, in `content` and in `reasoning_details`.
    """

    key: str | None = None
    texts: tuple[str, ...] = ()


class ChatCallSpelling(WireSpelling, frozen=True, tag="openai-chat.call", gc=False):
    """How an entry of `tool_calls` was spelled. An `Opaque` part with such a spelling is an entry without a name.

    - `is_deprecated_function`: it was the `function_call` of the deprecated `functions` (openai 3.57.0,
      `ChatCompletionMessage.function_call`).
    - `is_escaped`: its name or id had the escape that toolwire writes for this wire.
    - `has_no_id`: it had no `id`, or none that is one. Gemini's compatible API sends `""` (recorded).
    - `has_no_type`: it had no `type`. Mistral sends none (recorded).
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
      (https://docs.mistral.ai/studio/conversations/function-calling).
    - `content`: the content was neither text nor parts. Some clients send what a function returned
      (https://github.com/NousResearch/hermes-agent/pull/31770).
    """

    is_deprecated_function: bool = False
    is_escaped: bool = False
    has_name: bool = False
    content: Any | UnsetType = UNSET
