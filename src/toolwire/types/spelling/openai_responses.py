"""How OpenAI Responses spells values."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import RequestSpelling, WireSpelling


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


class ResponsesRequestSpelling(RequestSpelling, frozen=True, tag="openai-responses.request", gc=False):
    """How a request of Responses was spelled.

    - `has_text_input`: its `input` was a string, which is one message of the user
      (https://platform.openai.com/docs/api-reference/responses/create#responses-create-input).
    - `tools`: the layout of `tools`, if there is a namespace or an item that declares tools
      (https://developers.openai.com/api/docs/guides/tools-tool-search).
    - `tool_items`: the items of the input that declare tools (`additional_tools`), each with the index of the message
      after it, its other keys and the layout of its tools.
    """

    has_text_input: bool = False
    tools: list[Any] | None = None
    tool_items: list[Any] = []

    @property
    def needs_all_messages(self) -> bool:
        """Return True if the request can be written only when all of its messages are known."""
        return self.has_no_messages or self.tools is not None
