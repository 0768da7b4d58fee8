"""How Ollama spells values."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import MediumSpelling, MessageSpelling, RequestSpelling, ToolSpelling, WireSpelling


class OllamaResponseSpelling(WireSpelling, frozen=True, tag="ollama.response", gc=False):
    """How a response was spelled.

    - `created_at`: its time as text. Ollama writes nanoseconds (recorded).
    """

    created_at: Any | UnsetType = UNSET


class OllamaLineSpelling(WireSpelling, frozen=True, tag="ollama.line", gc=False):
    """How the lines of a stream were spelled.

    - `message`: what each `message` has beside its words, if that is not a role and an empty `content`. Ollama left
      out the `content` of lines with `thinking` (recorded by Prism, 2025).
    - `created_at`: the time of the last line. Ollama dates each line.
    """

    message: Any | UnsetType = UNSET
    created_at: Any | UnsetType = UNSET


class OllamaErrorSpelling(WireSpelling, frozen=True, tag="ollama.error", gc=False):
    """How an error was spelled.

    - `is_object`: `error` was an object with a `message`. llama.cpp serves `/api/chat` as it serves Chat Completions
      (https://github.com/ggml-org/llama.cpp/pull/13777).
    - `body`: the whole body, which was not an error of this wire. Ollama's client allows for text that is not JSON
      (ollama 0.6.3, `ResponseError`), such as the HTML of a proxy.
    """

    is_object: bool = False
    body: Any | UnsetType = UNSET


class OllamaRequestSpelling(RequestSpelling, frozen=True, tag="ollama.request", gc=False):
    """How a request of Ollama was spelled.

    - `has_no_stream`: it had no `stream`, or null; the server streams then
      (https://github.com/ollama/ollama/blob/main/docs/api.md#generate-a-chat-completion).
    """

    has_no_stream: bool = False


class OllamaToolSpelling(ToolSpelling, frozen=True, tag="ollama.tool", gc=False):
    """How a tool was declared.

    - `has_no_type`: it had no `type`, which is optional in the Python client of Ollama (ollama 0.6.3, `Tool.type`).
    """

    has_no_type: bool = False


class OllamaMessageSpelling(MessageSpelling, frozen=True, tag="ollama.message", gc=False):
    """How a message was spelled.

    - `role`: its role, if that was in other letters, such as `User`. The server reads a role in any case
      (`Message.UnmarshalJSON`, https://github.com/ollama/ollama/blob/main/api/types.go).
    - `has_no_role`: the message of a response had none. No server is known that leaves it out, but the client gets what
      the server sent.
    """

    role: str | None = None
    has_no_role: bool = False


class OllamaImageSpelling(MediumSpelling, frozen=True, tag="ollama.image", gc=False):
    """How an image was spelled."""


class OllamaCallSpelling(WireSpelling, frozen=True, tag="ollama.call", gc=False):
    """How an entry of `tool_calls` was spelled. An `Opaque` part with such a spelling is an entry without a name.

    - `has_no_id`: it had no `id`, or an empty one. Ollama before 0.12.10 writes none
      (https://github.com/ollama/ollama/pull/12956; recorded).
    - `has_no_arguments`: it had no `arguments`, or none that are text or an object. Other keys may hold them, and the
      call must not come back with `{}`.
    - `index`: the `index` of its function, by which the server numbers the calls of an answer
      (`ToolCallFunction`, https://github.com/ollama/ollama/blob/main/api/types.go).
    """

    has_no_id: bool = False
    has_no_arguments: bool = False
    index: int | None = None


class OllamaResultSpelling(WireSpelling, frozen=True, tag="ollama.result", gc=False):
    """How a message of the tool was spelled.

    - `role`: the role, which the server reads in any case
      (`Message.UnmarshalJSON`, https://github.com/ollama/ollama/blob/main/api/types.go).
    - `name_key`: the key of the tool's name. Clients wrote `name`
      (https://github.com/ollama/ollama-python/pull/537) before Ollama 0.9.6 had `tool_name`
      (https://github.com/ollama/ollama/pull/11294).
    - `linked_id`: it had no `tool_call_id`, and answers this call. Ollama before 0.12.10 has no ids.
    - `content`: the content was not text. Some clients send what a function returned, which Ollama rejects
      (https://github.com/sgomez/ollama-ai-provider/pull/11).
    """

    role: str = "tool"
    name_key: str = "tool_name"
    linked_id: str | None = None
    content: Any | UnsetType = UNSET
