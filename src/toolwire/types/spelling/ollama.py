"""How Ollama spells calls and results."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import WireSpelling


class OllamaCallSpelling(WireSpelling, frozen=True, tag="ollama.call", gc=False):
    """How an entry of `tool_calls` was spelled. An `Opaque` part with such a spelling is an entry without a name.

    - `has_no_id`: it had no `id`, or an empty one. Ollama before 0.12.10 writes none
      (https://github.com/ollama/ollama/releases/tag/v0.12.10).
    - `has_no_arguments`: it had no `arguments`, or none that are text or an object. Other keys may hold them, and the
      call must not come back with `{}`.
    - `index`: the `index` of its function, by which the server numbers the calls of an answer
      (https://github.com/ollama/ollama/blob/main/api/types.go, `ToolCallFunction`).
    """

    has_no_id: bool = False
    has_no_arguments: bool = False
    index: int | None = None


class OllamaResultSpelling(WireSpelling, frozen=True, tag="ollama.result", gc=False):
    """How a message of the tool was spelled.

    - `role`: the role, which the server reads in any case
      (https://github.com/ollama/ollama/blob/main/api/types.go, `Message`).
    - `name_key`: the key of the tool's name. Clients wrote `name` before Ollama 0.9.6 had `tool_name`
      (https://github.com/ollama/ollama/pull/11294).
    - `linked_id`: it had no `tool_call_id`, and answers this call. Ollama before 0.12.10 has no ids.
    - `content`: the content was no text. Some clients send what a function returned, which Ollama rejects
      (https://github.com/NousResearch/hermes-agent/pull/81546).
    """

    role: str = "tool"
    name_key: str = "tool_name"
    linked_id: str | None = None
    content: Any | UnsetType = UNSET
