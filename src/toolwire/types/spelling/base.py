"""What the spellings of all wires share."""

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


class MessageSpelling(WireSpelling, frozen=True, tag="message", gc=False):
    """How a message was spelled, on every wire; a wire that has more than one spelling of its own extends this.

    - `is_unparsed`: it was no message that the dialect understands, such as an item that only OpenAI's server reads
      (https://platform.openai.com/docs/api-reference/responses/create#responses-create-input). Its one part holds all
      of it.
    - `has_text_content`: its content was a string. It is parts now, because a text format found calls in it
      (`toolwire.text`).
    """

    is_unparsed: bool = False
    has_text_content: bool = False


class TextSpelling(WireSpelling, frozen=True, tag="text", gc=False):
    """How a text was spelled, on every wire; a wire that has more than one spelling of its own extends this.

    - `is_continued`: it stands in the same text of the wire as the part before it, which is a call or a thought that a
      text format found there (`toolwire.text`).
    """

    is_continued: bool = False


class MediumSpelling(WireSpelling, frozen=True, gc=False):
    """How an image, a document or a sound was spelled; each wire extends this.

    - `data`: its data as it was sent, if that was no standard Base64. Ruby breaks its lines (recorded of llm.rb),
      google-genai writes the alphabet for URLs (https://github.com/googleapis/python-genai), and some clients send a
      URL (`file-url-in-file-data` of the cases).
    """

    data: str | None = None
