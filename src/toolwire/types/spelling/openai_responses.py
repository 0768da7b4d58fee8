"""How Responses spells responses, errors and the deltas of a stream."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import WireSpelling


class ResponsesResponseSpelling(WireSpelling, frozen=True, tag="openai-responses.response", gc=False):
    """How a response was spelled: its `constants`, which are its `object`."""


class ResponsesChoiceSpelling(WireSpelling, frozen=True, tag="openai-responses.choice", gc=False):
    """How the end of an answer was spelled.

    - `has_details`: the raw finish reason is the `reason` of `incomplete_details`, and not the `status`
      (https://platform.openai.com/docs/api-reference/responses/object).
    """

    has_details: bool = False


class ResponsesDeltaSpelling(WireSpelling, frozen=True, tag="openai-responses.delta", gc=False):
    """How a delta of a stream was spelled.

    - `reasoning_key`: the list of texts to which words of reasoning belong. It is `content` for open models
      (https://cookbook.openai.com/articles/gpt-oss/handle-raw-cot).
    - `text_index`: the position of the text that begins with these words. OpenAI sends several summaries (recorded).
    - `is_in_delta`: the delta before this event has the same keys, and is written with them.
    """

    reasoning_key: str = "summary"
    text_index: int = 0
    is_in_delta: bool = False


class ResponsesErrorSpelling(WireSpelling, frozen=True, tag="openai-responses.error", gc=False):
    """How an error was spelled.

    - `message_key`: the message stood in the body itself, under this key. The `error` event of a stream has it as
      `message` (https://platform.openai.com/docs/api-reference/responses-streaming/error), xAI sends it as `error`
      (https://github.com/10-X-eng/vibecad/issues/4).
    - `body`: the whole body, which was no error of this wire. Proxies send HTML.
    """

    message_key: str | None = None
    body: Any | UnsetType = UNSET
