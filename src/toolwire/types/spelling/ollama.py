"""How Ollama spells values."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import MediumSpelling, MessageSpelling, RequestSpelling, ToolSpelling, WireSpelling


class OllamaResponseSpelling(WireSpelling, frozen=True, tag="ollama.response", gc=False):
    """How a response was spelled.

    - `created_at`: its time as text. Ollama writes nanoseconds
      (https://github.com/ollama/ollama/blob/main/docs/api.md).
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

    - `is_object`: `error` was an object with a `message`. llama.cpp serves `/api/chat` with the errors of OpenAI
      (https://github.com/ggml-org/llama.cpp/pull/13777).
    - `body`: the whole body, which was no error of this wire. Proxies send HTML.
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

    - `has_no_type`: it had no `type`. `Tool.type` is optional in the Python client of Ollama.
      https://github.com/ollama/ollama-python/blob/main/ollama/_types.py
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
