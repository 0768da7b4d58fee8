"""How Responses spells requests."""

from typing import Any

from toolwire.types.spelling.base import RequestSpelling


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
