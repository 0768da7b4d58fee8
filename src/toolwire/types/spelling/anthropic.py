"""How Anthropic Messages spells calls, results, texts and media."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import MediumSpelling, TextSpelling, WireSpelling


class MessagesCallSpelling(WireSpelling, frozen=True, tag="anthropic.call", gc=False):
    """How a `tool_use` block was spelled.

    - `is_escaped`: its name or id had the escape that toolwire writes for this wire.
    - `has_no_id`: it had no `id`, or an empty one. Histories that people write by hand have none.
    - `has_no_input`: it had no `input`.
    - `input`: the `input` was not an object. Proxies of Chat Completions forward the JSON text of one.
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
      (https://platform.claude.com/docs/en/build-with-claude/citations).
    """

    is_search_result: bool = False
    content: Any | UnsetType = UNSET
