"""How OpenAI Responses spells values."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from toolwire.types.spelling.base import MediumSpelling, RequestSpelling, TextSpelling, ToolSpelling, WireSpelling


class QualifiedName(Struct, frozen=True, gc=False):
    """The name of a tool and of its namespace, and the flat name that the tool has in the canonical request.

    Responses groups tools in namespaces (https://developers.openai.com/api/docs/guides/tools-tool-search). A canonical
    request has one list of tools.
    """

    namespace: str | None
    name: str
    flat: str


class NamespaceLayout(Struct, frozen=True, tag="namespace", tag_field="kind", gc=False):
    """A namespace: its name, its other keys, and the layout of its tools, which has the place of each declaration."""

    name: str
    unparsed: dict[str, Any]
    tools: "list[ToolPlace]"


class ServerToolPlace(Struct, frozen=True, tag="server_tool", tag_field="kind", gc=False):
    """The declaration of a tool that the server runs, at its place in a layout."""

    body: Any


class RepeatedTool(Struct, frozen=True, tag="repeated_tool", tag_field="kind", gc=False):
    """A declaration of a tool that was declared before, with the flat name of the tool."""

    body: Any
    flat_name: str


ToolPlace = str | NamespaceLayout | ServerToolPlace | RepeatedTool
"""One declaration in a layout; a string is the flat name of a tool."""


class ToolItem(Struct, frozen=True, gc=False):
    """An `additional_tools` item of the input: the index of the message after it, its other keys, its tools.

    Codex sends such items (https://github.com/openai/codex/issues/39532; openai 3.57.0, `AdditionalTools`).
    """

    before_message: int
    unparsed: dict[str, Any]
    tools: list[ToolPlace]


class ResponsesResponseSpelling(WireSpelling, frozen=True, tag="openai-responses.response", gc=False):
    """How a response was spelled: its `constants`, which are its `object`."""


class ResponsesChoiceSpelling(WireSpelling, frozen=True, tag="openai-responses.choice", gc=False):
    """How the end of an answer was spelled.

    - `has_details`: the raw finish reason is the `reason` of `incomplete_details`, and not the `status`
      (openai 3.57.0, `IncompleteDetails`).
    """

    has_details: bool = False


class ResponsesDeltaSpelling(WireSpelling, frozen=True, tag="openai-responses.delta", gc=False):
    """How a delta of a stream was spelled.

    - `reasoning_key`: the list of texts to which words of reasoning belong. It is `content` for open models
      (https://developers.openai.com/cookbook/articles/gpt-oss/handle-raw-cot; recorded of DeepSeek and Bedrock).
    - `text_index`: the position of the text that begins with these words. OpenAI sends several summaries (recorded).
    - `is_in_delta`: the delta before this event has the same keys, and is written with them.
    """

    reasoning_key: str = "summary"
    text_index: int = 0
    is_in_delta: bool = False


class ResponsesErrorSpelling(WireSpelling, frozen=True, tag="openai-responses.error", gc=False):
    """How an error was spelled.

    - `message_key`: the message was in the body itself, under this key. The `error` event of a stream has it as
      `message` (openai 3.57.0, `ResponseErrorEvent`), xAI sends it as `error`
      (https://github.com/vercel/ai/pull/15338).
    - `body`: the whole body, which was not an error of this wire. Cloudflare sends HTML in front of OpenAI
      (https://github.com/openai/codex/issues/9110).
    """

    message_key: str | None = None
    body: Any | UnsetType = UNSET


class ResponsesRequestSpelling(RequestSpelling, frozen=True, tag="openai-responses.request", gc=False):
    """How a request of Responses was spelled.

    - `has_text_input`: its `input` was a string, which is one message of the user (recorded).
    - `tools`: the layout of `tools`, if there is a namespace or an item that declares tools
      (https://developers.openai.com/api/docs/guides/tools-tool-search).
    - `tool_items`: the items of the input that declare tools (`additional_tools`), each with the index of the message
      after it, its other keys and the layout of its tools.
    """

    has_text_input: bool = False
    tools: list[ToolPlace] | None = None
    tool_items: tuple[ToolItem, ...] = ()

    @property
    def needs_all_messages(self) -> bool:
        """Return True if the request can be written only when all of its messages are known."""
        return self.has_no_messages or self.tools is not None


class ResponsesToolSpelling(ToolSpelling, frozen=True, tag="openai-responses.tool", gc=False):
    """How a tool was declared.

    - `qualified_name`: the tool was in a namespace, or its name was not unique.
    - `builtin`: the `type` of a tool that OpenAI defines and the client runs, such as `apply_patch`
      (https://developers.openai.com/api/docs/guides/tools-apply-patch). It has no name.
    - `has_no_description`, `has_no_parameters`: a tool of OpenAI did not declare these. The canonical tool has the
      description and the parameters that are documented.
    """

    qualified_name: QualifiedName | None = None
    builtin: str | None = None
    has_no_description: bool = False
    has_no_parameters: bool = False


class ResponsesCallSpelling(WireSpelling, frozen=True, tag="openai-responses.call", gc=False):
    """How an item with a call was spelled. Its `id` and the status `completed` are constants.

    - `builtin`: it called a tool of this type, which OpenAI defines and the client runs, such as `apply_patch`
      (https://developers.openai.com/api/docs/guides/tools-apply-patch).
    - `qualified_name`: the tool was in a namespace, or its name was not unique
      (https://developers.openai.com/api/docs/guides/tools-tool-search).
    - `reasoning_id`: the `id` of the reasoning before it. OpenAI rejects the `id` of a call whose reasoning is gone
      (https://github.com/TanStack/ai/issues/1212).
    - `is_escaped`: its name or id had the escape that toolwire writes for this wire.
    - `has_no_id`: it had no `call_id`, or an empty one. Histories that people write by hand have none.
    - `has_no_arguments`: it had no `arguments`, or none that are text or an object. Other keys may hold them, and the
      call must not come back with `{}`.
    """

    builtin: str | None = None
    qualified_name: QualifiedName | None = None
    reasoning_id: str | None = None
    is_escaped: bool = False
    has_no_id: bool = False
    has_no_arguments: bool = False


class ResponsesResultSpelling(WireSpelling, frozen=True, tag="openai-responses.result", gc=False):
    """How an item with a result was spelled. Its `id` and the status `completed` are constants.

    - `builtin`: it was of a tool of this type, as in `ResponsesCallSpelling`.
    - `id_key`: the key of the call's id. OpenAI's guide to `local_shell` writes `call_id`, its client `id`
      (https://developers.openai.com/api/docs/guides/tools-local-shell; openai 3.57.0, `LocalShellCallOutput`).
    - `tools`: the layout of the `tools` of a `tool_search_output`. The canonical result has their names.
    - `has_name`: it had the `name` of the tool, which is optional (openai 3.57.0, `FunctionCallOutput.name`).
    - `qualified_name`: that tool was in a namespace, as in `ResponsesCallSpelling`.
    - `is_custom`: it was of a custom tool, and not of a function.
    - `is_escaped`: its name or id had the escape that toolwire writes for this wire.
    - `has_no_output`: it had no output, which is optional for `apply_patch`
      (openai 3.57.0, `ApplyPatchCallOutput`).
    - `output`: the output was neither text nor parts. Some clients send what a function returned
      (https://github.com/langchain-ai/deepagents/issues/202).
    """

    builtin: str | None = None
    id_key: str = "call_id"
    tools: list[ToolPlace] | None = None
    has_name: bool = False
    qualified_name: QualifiedName | None = None
    is_custom: bool = False
    is_escaped: bool = False
    has_no_output: bool = False
    output: Any | UnsetType = UNSET


class ResponsesServerCallSpelling(WireSpelling, frozen=True, tag="openai-responses.server_call", gc=False):
    """How an item was spelled that calls a tool of the server.

    - `item_type`: the item had a `name`, which its type does not contain. `mcp_call` has one (recorded).
    - `has_call_id`: its id was in `call_id`. OpenAI's `shell_call` has one (recorded), and so has xAI's `x_search_call`
      (recorded), which xAI also sends as a `custom_tool_call` (https://github.com/vercel/ai/issues/10607).
    - `input_key`: the key of its arguments: `action` of `web_search_call`, `arguments` of `mcp_call` (recorded).
    - `input_text`: its arguments were JSON text, as those of `mcp_call` are (recorded).
    """

    item_type: str | None = None
    has_call_id: bool = False
    input_key: str | None = None
    input_text: str | None = None


class ResponsesOutputSpelling(TextSpelling, frozen=True, tag="openai-responses.output", gc=False):
    """How a block of an assistant's message item was spelled.

    - `item`: what the item that begins with this block has beside its role and content, as its `id`
      (openai 3.57.0, `ResponseOutputMessage`).
    - `has_text_content`: the content of the item was a string. Clients send such items (openai 3.57.0,
      `EasyInputMessage`).
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
      (https://developers.openai.com/cookbook/articles/gpt-oss/handle-raw-cot; recorded of DeepSeek and Bedrock).
    - `texts`: the texts of which it was joined. OpenAI sends several summaries (recorded).
    """

    reasoning_key: str = "summary"
    texts: tuple[str, ...] = ()


class ResponsesMediumSpelling(MediumSpelling, frozen=True, tag="openai-responses.medium", gc=False):
    """How an image or a file was spelled.

    - `is_bare`: its data was bare Base64 instead of a data URL. Clients send it, though OpenAI's server rejects it
      (https://community.openai.com/t/1377908).
    """

    is_bare: bool = False
