"""How Responses spells calls and results."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import WireSpelling


class ResponsesCallSpelling(WireSpelling, frozen=True, tag="openai-responses.call", gc=False):
    """How an item with a call was spelled. Its `id` and the status `completed` are constants.

    - `builtin`: it called a tool of this type, which OpenAI defines and the client runs, such as `apply_patch`
      (https://platform.openai.com/docs/guides/tools-apply-patch).
    - `namespace`, `name`: it called the tool of this name in this namespace
      (https://platform.openai.com/docs/guides/tools-tool-search).
    - `tool_name`: the name of that tool in the request. `namespace` and `name` stand for it.
    - `reasoning_id`: the `id` of the reasoning before it. OpenAI rejects the `id` of a call whose reasoning is gone
      (https://github.com/TanStack/ai/issues/1212).
    - `is_escaped`: its name or id had the escape that toolwire writes for this wire.
    - `has_no_id`: it had no `call_id`, or an empty one. Histories that people write by hand have none.
    - `has_no_arguments`: it had no `arguments`, or none that are text or an object. Other keys may hold them, and the
      call must not come back with `{}`.
    """

    builtin: str | None = None
    namespace: str | None = None
    name: str | None = None
    tool_name: str | None = None
    reasoning_id: str | None = None
    is_escaped: bool = False
    has_no_id: bool = False
    has_no_arguments: bool = False


class ResponsesResultSpelling(WireSpelling, frozen=True, tag="openai-responses.result", gc=False):
    """How an item with a result was spelled. Its `id` and the status `completed` are constants.

    - `builtin`: it was of a tool of this type, as in `ResponsesCallSpelling`.
    - `id_key`: the key of the call's id. OpenAI's guide to `local_shell` writes `call_id`, its client `id`
      (https://platform.openai.com/docs/guides/tools-local-shell; openai 3.57.0, `LocalShellCallOutput`).
    - `layout`: where the tools that a search has found stand among the tools of the request.
    - `has_name`: it had the `name` of the tool. Codex writes it (https://github.com/openai/codex/issues/42088).
    - `namespace`, `name`, `tool_name`: the tool was in a namespace, as in `ResponsesCallSpelling`.
    - `is_custom`: it was of a custom tool, and not of a function.
    - `is_escaped`: its name or id had the escape that toolwire writes for this wire.
    - `has_no_output`: it had no output, which is optional for `apply_patch`
      (openai 3.57.0, `ApplyPatchCallOutput`).
    - `output`: the output was neither text nor parts. Some clients send what a function returned
      (https://github.com/NousResearch/hermes-agent/pull/31770).
    """

    builtin: str | None = None
    id_key: str = "call_id"
    layout: list[Any] | None = None
    has_name: bool = False
    namespace: str | None = None
    name: str | None = None
    tool_name: str | None = None
    is_custom: bool = False
    is_escaped: bool = False
    has_no_output: bool = False
    output: Any | UnsetType = UNSET
