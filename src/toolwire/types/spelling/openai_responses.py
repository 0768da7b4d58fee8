"""How Responses spells what stands in its items."""

from typing import Any

from toolwire.types.spelling.base import MediumSpelling, TextSpelling, WireSpelling


class ResponsesOutputSpelling(TextSpelling, frozen=True, tag="openai-responses.output", gc=False):
    """How a block of an assistant's message item was spelled.

    - `item`: what the item that begins with this block has beside its role and content, as its `id`
      (https://platform.openai.com/docs/api-reference/responses/object).
    - `has_text_content`: the content of the item was a string. Clients send such items
      (`EasyInputMessage`, https://platform.openai.com/docs/api-reference/responses/create#responses-create-input).
    - `is_block`: it is a block that the dialect does not understand, such as one that OpenAI adds later, and no item.
    - `reasoning_id`: the id of the reasoning item before the item. OpenAI refuses the one without the other
      (https://github.com/continuedev/continue/issues/12620).
    """

    item: dict[str, Any] | None = None
    has_text_content: bool = False
    is_block: bool = False
    reasoning_id: str | None = None


class ResponsesThinkingSpelling(WireSpelling, frozen=True, tag="openai-responses.thinking", gc=False):
    """How a reasoning item was spelled.

    - `reasoning_key`: the list that held its texts. It is `content` for open models
      (https://cookbook.openai.com/articles/gpt-oss/handle-raw-cot).
    - `texts`: the texts of which it was joined. OpenAI sends several summaries (recorded).
    """

    reasoning_key: str = "summary"
    texts: tuple[str, ...] = ()


class ResponsesMediumSpelling(MediumSpelling, frozen=True, tag="openai-responses.medium", gc=False):
    """How an image or a file was spelled.

    - `is_bare`: its data was bare Base64, and no data URL. The server takes both
      (https://platform.openai.com/docs/guides/pdf-files).
    """

    is_bare: bool = False
