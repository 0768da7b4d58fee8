"""How Chat Completions spells requests."""

from toolwire.types.spelling.base import RequestSpelling


class ChatRequestSpelling(RequestSpelling, frozen=True, tag="openai-chat.request", gc=False):
    """How a request of Chat Completions was spelled.

    - `has_max_tokens`: the limit of tokens stood in `max_tokens`, which OpenAI has deprecated and most other servers
      have alone (https://platform.openai.com/docs/api-reference/chat/create).
    - `has_serial_functions`: its tools stood in the deprecated `functions` alone, of which a model calls one at a time
      (https://platform.openai.com/docs/api-reference/chat/create).
    """

    has_max_tokens: bool = False
    has_serial_functions: bool = False
