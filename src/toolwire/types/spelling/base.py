"""The base classes of the spellings of all wires."""

from typing import Any

from msgspec import Struct


class WireSpelling(Struct, frozen=True, omit_defaults=True, tag_field="of", gc=False):
    """How one wire spelled one value.

    `constants` are keys that the wire sends with every such value and that mean nothing elsewhere, with their values,
    such as `{"type": "function"}` around a tool of OpenAI. The encoder adds them again. Other wires ignore them.
    """

    constants: dict[str, Any] = {}

    @property
    def is_usual(self) -> bool:
        """Return True if the value was spelled as the encoder writes it by default."""
        return self == type(self)()


class RequestSpelling(WireSpelling, frozen=True, tag="request", gc=False):
    """How a request was spelled, on every wire. A wire with spellings of its own extends this.

    - `path`: it was sent to another path than its dialect writes, such as that of a deployment at Azure
      (openai 3.57.0, `AzureOpenAI`).
    - `has_no_messages`: it had no list of messages. Ollama loads a model then (`ChatHandler`,
      https://github.com/ollama/ollama/blob/main/server/routes.go), and Responses has a stored `prompt`
      (openai 3.57.0, `ResponsePromptParam`).
    - `is_text`: a text format parsed it: its tools, calls and results were in the text (`toolwire.text`).
    - `settings`: the settings as the client wrote them, by the key of the wire, where the encoder has another default.
      One is written again as long as it means the canonical value.
    """

    path: str = ""
    has_no_messages: bool = False
    is_text: bool = False
    settings: dict[str, Any] = {}

    @property
    def needs_all_messages(self) -> bool:
        """Return True if the request can be written only when all of its messages are known."""
        return self.has_no_messages


class ToolSpelling(WireSpelling, frozen=True, gc=False):
    """How one wire declared one tool.

    - `is_escaped`: its name had the escape that toolwire writes for this wire.
    """

    is_escaped: bool = False


class MessageSpelling(WireSpelling, frozen=True, tag="message", gc=False):
    """How a message was spelled, on every wire. A wire with spellings of its own extends this.

    - `is_unparsed`: it was not a message that the dialect understands, such as an item that only OpenAI's server reads
      (openai 3.57.0, `ItemReference`). Its one part holds all of it.
    - `has_text_content`: its content was a string. It has become parts, because a text format found calls in it
      (`toolwire.text`).
    """

    is_unparsed: bool = False
    has_text_content: bool = False


class TextSpelling(WireSpelling, frozen=True, tag="text", gc=False):
    """How a text was spelled, on every wire. A wire with spellings of its own extends this.

    - `is_continued`: the wire has it in the same string as the part before it, which is a call or thinking that a text
      format found there (`toolwire.text`).
    """

    is_continued: bool = False


class MediumSpelling(WireSpelling, frozen=True, gc=False):
    """How an image, a document or a sound was spelled. Each wire extends this.

    - `data`: its data as it was sent, if that was not standard Base64. Ruby breaks its lines (recorded of llm.rb),
      google-genai writes the alphabet for URLs (google-genai 3.6.1, `encode_unserializable_types`), and a client may
      send a URL, which OpenAI rejects (https://github.com/vercel/ai/issues/7776).
    """

    data: str | None = None
