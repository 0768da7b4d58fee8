"""How Chat Completions spells values."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import RequestSpelling, ToolSpelling, WireSpelling


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

    - `has_no_type`: it had no `type`. The `type` of a tool is optional for Mistral.
      https://github.com/mistralai/client-python/blob/main/docs/models/tool.md
    - `is_deprecated_function`: it was in `functions`, which OpenAI has deprecated in favor of `tools`.
      https://platform.openai.com/docs/api-reference/chat/create#chat-create-functions
    """

    has_no_type: bool = False
    is_deprecated_function: bool = False
