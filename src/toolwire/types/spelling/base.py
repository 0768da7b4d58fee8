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


class ToolSpelling(WireSpelling, frozen=True, gc=False):
    """How one wire declared one tool.

    - `is_escaped`: its name had the escape that toolwire writes for this wire.
    """

    is_escaped: bool = False
