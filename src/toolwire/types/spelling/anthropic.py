"""How Anthropic Messages spells calls, results and tools."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import ToolSpelling, WireSpelling


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


class MessagesToolSpelling(ToolSpelling, frozen=True, tag="anthropic.tool", gc=False):
    """How a tool was declared.

    - `builtin`: the `type` of a tool that Anthropic defines and the client runs, such as `bash_20250124`. `constants`
      has the type too, and the settings that the description of the tool repeats.
      https://platform.claude.com/docs/en/agents-and-tools/tool-use/computer-use-tool
    """

    builtin: str | None = None
