"""How Chat Completions spells tools."""

from toolwire.types.spelling.base import ToolSpelling


class ChatToolSpelling(ToolSpelling, frozen=True, tag="openai-chat.tool", gc=False):
    """How a tool was declared.

    - `has_no_type`: it had no `type`. The `type` of a tool is optional for Mistral.
      https://github.com/mistralai/client-python/blob/main/docs/models/tool.md
    - `is_deprecated_function`: it was in `functions`, which OpenAI has deprecated in favor of `tools`.
      https://platform.openai.com/docs/api-reference/chat/create#chat-create-functions
    """

    has_no_type: bool = False
    is_deprecated_function: bool = False
