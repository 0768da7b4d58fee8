"""How Anthropic Messages spells values."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import MediumSpelling, RequestSpelling, TextSpelling, ToolSpelling, WireSpelling


class MessagesCallSpelling(WireSpelling, frozen=True, tag="anthropic.call", gc=False):
    """How a `tool_use` block was spelled.

    - `is_escaped`: its name or id had the escape that toolwire writes for this wire.
    - `has_no_id`: it had no `id`, or an empty one. Histories that people write by hand have none.
    - `has_no_input`: it had no `input`.
    - `input`: the `input` was not an object. Proxies of Chat Completions forward the JSON text of one
      (https://github.com/nielspeter/claude-code-proxy/pull/13).
    """

    is_escaped: bool = False
    has_no_id: bool = False
    has_no_input: bool = False
    input: Any | UnsetType = UNSET


class MessagesResultSpelling(WireSpelling, frozen=True, tag="anthropic.result", gc=False):
    """How a `tool_result` block was spelled.

    - `is_escaped`: its id had the escape that toolwire writes for this wire.
    - `has_no_id`: it had no `tool_use_id`, or an empty one.
    - `content`: the content was neither text nor blocks, such as an object.
    """

    is_escaped: bool = False
    has_no_id: bool = False
    content: Any | UnsetType = UNSET


class MessagesResponseSpelling(WireSpelling, frozen=True, tag="anthropic.response", gc=False):
    """How a response was spelled: its `constants`, which are its `type` and `role`."""


class MessagesErrorSpelling(WireSpelling, frozen=True, tag="anthropic.error", gc=False):
    """How an error was spelled.

    - `body`: the whole body, which was not an error of this wire. Cloudflare sends HTML in front of Anthropic
      (https://github.com/anthropics/claude-code/issues/3197), and Bedrock sends `{"message": ...}` (recorded).
    """

    body: Any | UnsetType = UNSET


class MessagesRequestSpelling(RequestSpelling, frozen=True, tag="anthropic.request", gc=False):
    """How a request of Messages was spelled.

    - `has_opening_turn`: it began with the turn of the user that toolwire adds, since this wire begins with the user.
    - `has_output_format`: the form of the answer was in `output_format`, as in the beta
      `structured-outputs-2025-11-13` (https://platform.claude.com/docs/en/build-with-claude/structured-outputs).
    """

    has_opening_turn: bool = False
    has_output_format: bool = False

    @property
    def needs_all_messages(self) -> bool:
        """Return True if the request can be written only when all of its messages are known."""
        return self.has_no_messages or self.has_opening_turn


class MessagesToolSpelling(ToolSpelling, frozen=True, tag="anthropic.tool", gc=False):
    """How a tool was declared.

    - `builtin`: the `type` of a tool that Anthropic defines and the client runs, such as `bash_20250124`
      (https://platform.claude.com/docs/en/agents-and-tools/tool-use/bash-tool). `constants` has the type too, and the
      settings that the description of the tool repeats.
    """

    builtin: str | None = None


class MessagesTextSpelling(TextSpelling, frozen=True, tag="anthropic.text", gc=False):
    """How a text was spelled.

    - `is_tool_reference`: it is the name of a tool that a search found, in a `tool_reference` block
      (https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool).
    """

    is_tool_reference: bool = False


class MessagesMediumSpelling(MediumSpelling, frozen=True, tag="anthropic.medium", gc=False):
    """How an image or a document was spelled.

    - `is_search_result`: the document was a `search_result` block
      (https://platform.claude.com/docs/en/build-with-claude/search-results).
    - `content`: the text of the document came in these blocks, or in a source of the type `content`
      (anthropic 2.14.0, `ContentBlockSourceParam`).
    """

    is_search_result: bool = False
    content: Any | UnsetType = UNSET
