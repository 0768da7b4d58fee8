"""How Chat Completions spells calls and results."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import WireSpelling


class ChatCallSpelling(WireSpelling, frozen=True, tag="openai-chat.call", gc=False):
    """How an entry of `tool_calls` was spelled. An `Opaque` part with such a spelling is an entry without a name.

    - `is_legacy`: it was the `function_call` of the deprecated `functions`
      (https://platform.openai.com/docs/api-reference/chat/create).
    - `is_escaped`: its name or id had the escape that toolwire writes for this wire.
    - `has_no_id`: it had no `id`, or none that is one. Gemini's compatible API sends `""` (recorded).
    - `has_no_type`: it had no `type`. Mistral sends none (https://github.com/BerriAI/litellm/issues/2645).
    - `has_no_arguments`: it had no `arguments`, or none that are text or an object. Meta's API sends null
      (https://github.com/simonw/llm/issues/1521).
    """

    is_legacy: bool = False
    is_escaped: bool = False
    has_no_id: bool = False
    has_no_type: bool = False
    has_no_arguments: bool = False


class ChatResultSpelling(WireSpelling, frozen=True, tag="openai-chat.result", gc=False):
    """How a message of the tool was spelled.

    - `is_legacy`: its role was `function`, as in `ChatCallSpelling`.
    - `is_escaped`: its id had the escape that toolwire writes for this wire.
    - `has_name`: it had the `name` of the call's tool. Mistral's guide writes it
      (https://docs.mistral.ai/capabilities/function_calling).
    - `content`: the content was neither text nor parts. Some clients send what a function returned
      (https://github.com/nextcloud/integration_openai/pull/360).
    """

    is_legacy: bool = False
    is_escaped: bool = False
    has_name: bool = False
    content: Any | UnsetType = UNSET
