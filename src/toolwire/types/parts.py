"""The parts of a message: what one turn of a conversation is made of.

Rules of this file:
- Every value is frozen. Order of parts is kept: it carries meaning.
- `opaque` holds what only the dialect that made it may replay. `Opaque.value` means something that is lost
  elsewhere; `Opaque.spelling` is how that wire spelled the value, and means nothing elsewhere.
- A value with an `opaque` came from a wire; a value without one was made by a user.
- Media and signatures are text exactly as received: nothing is decoded that would have to be encoded again.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args

from msgspec import UNSET, Struct
from msgspec.structs import force_setattr

from toolwire.errors import InvalidField, MissingFields
from toolwire.types.frozen import copied_map, shield
from toolwire.types.spelling import Spelling
from toolwire.wire.arguments import parse_arguments

Made = TypeVar("Made", bound=Struct)


_KINDS = {str: "a string", dict: "a map", bool: "a boolean", (str, list): "a string or a list of parts"}


def build(
    kind: type[Made],
    attrs: Mapping[str, Any] | None,
    fields: dict[str, Any],
    required: tuple[str, ...],
    kinds: dict[str, Any],
    *nullable: str,
) -> Made:
    """Make a value from a map and keywords, naming each required field that is missing, or one of a wrong kind.

    Other keys are ignored, and absent fields keep their defaults; those of `nullable` are None.
    """
    if attrs is not None and not isinstance(attrs, dict | Mapping):
        raise InvalidField("attributes", "must be a map", path=kind.__name__)
    values = {str(key): value for key, value in (attrs or {}).items()} | fields
    missing = [name for name in required if values.get(name) is None]
    if missing:
        raise MissingFields(kind.__name__, missing)
    for name, wanted in kinds.items():
        if values.get(name) is not None and not isinstance(values[name], wanted):
            raise InvalidField(name, f"must be {_KINDS[wanted]}")
    present = {name: values[name] for name in kind.__struct_fields__ if values.get(name) is not None}
    return kind(**{**dict.fromkeys(nullable), **present})


class Opaque(Struct, frozen=True, gc=False, tag="opaque", tag_field="type"):
    """Data of a provider that the canonical model does not have; only the dialect that read it may write it again."""

    dialect: str
    value: Any
    spelling: Spelling | None = None


class Cache(Struct, frozen=True, gc=False):
    """A cache mark: the provider's prompt cache should keep everything up to here."""

    ttl: str | None = None


class Citation(Struct, frozen=True, gc=False):
    """A source that a text names."""

    url: str | None = None
    title: str | None = None
    quote: str | None = None
    start: int | None = None
    end: int | None = None
    opaque: Opaque | None = None


class _Part(Struct, frozen=True, kw_only=True, tag_field="type", gc=False):
    cache: Cache | None = None
    opaque: Opaque | None = None


class Text(_Part, frozen=True, gc=False, tag="text"):
    """Text of the user or of the model."""

    text: str
    citations: list[Citation] | None = None


class Refusal(_Part, frozen=True, gc=False, tag="refusal"):
    """The model's words for not answering."""

    text: str


class Image(_Part, frozen=True, gc=False, tag="image"):
    """A picture: base64 `data` with its `media_type`, or a `url`, or a provider's `file_id`."""

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    file_id: str | None = None
    detail: str | None = None


class Document(_Part, frozen=True, gc=False, tag="document"):
    """A file to read: base64 `data`, plain `text`, a `url`, or a provider's `file_id`."""

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    file_id: str | None = None
    text: str | None = None
    name: str | None = None


class Audio(_Part, frozen=True, gc=False, tag="audio"):
    """Sound: base64 `data` with its `media_type`, or a `url`, or a provider's `file_id`."""

    data: str | None = None
    media_type: str | None = None
    url: str | None = None
    file_id: str | None = None
    transcript: str | None = None


class Thinking(_Part, frozen=True, gc=False, tag="thinking"):
    """A thought of the model; `signature` binds it to the provider that made it (`opaque.dialect`).

    Redacted thinking has no text: its signature is the encrypted blob.
    """

    text: str = ""
    signature: str | None = None
    redacted: bool = False


class ToolCall(_Part, frozen=True, gc=False, tag="tool_call", eq=False):
    """A call: the model asks to run a tool.

    `raw` is the argument text as it arrived; `error` says why it is not a JSON object (then `arguments` is empty).
    A custom tool takes free text: `custom` is true and the text is `raw`.
    """

    id: str | None = None
    name: str = UNSET  # type: ignore[assignment]  # it must be given, also where the id is not
    arguments: dict[str, Any] = {}
    index: int = 0
    complete: bool = True
    raw: str | None = None
    error: str | None = None
    custom: bool = False

    if TYPE_CHECKING:
        plain_arguments: ClassVar[dict[str, Any]]

    def __post_init__(self) -> None:
        if self.opaque is None or type(self.plain_arguments) is not dict:
            self._own_arguments()
        if type(self.name) is not str:
            raise InvalidField("name", "must be a string", path="ToolCall")

    def _own_arguments(self) -> None:
        if not isinstance(self.plain_arguments, dict):
            raise InvalidField("arguments", "must be a map", path="ToolCall")
        force_setattr(self, "arguments", copied_map(self.plain_arguments))

    @property
    def runs(self) -> bool:
        """Whether the call can run: it is whole, and its arguments are a JSON object."""
        return self.complete and self.error is None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolCall):
            return NotImplemented
        return self._identity() == other._identity()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.id, self.name))

    def _identity(self) -> tuple[Any, ...]:
        free_text = self.raw if self.custom or self.error else None
        return self.id, self.name, self.plain_arguments, self.complete, self.error is None, self.custom, free_text

    @classmethod
    def new(cls, attrs: Mapping[str, Any] | None = None, /, **fields: Any) -> "ToolCall":
        """Make a call from a map or from keywords, naming each missing or invalid field."""
        kinds = {"id": str, "name": str, "arguments": dict}
        return build(cls, attrs, fields, ("name", "arguments"), kinds, "id")

    @classmethod
    def parse(cls, id: str | None, name: str, raw: str, **fields: Any) -> "ToolCall":  # noqa: A002 - the field's name
        """Make a call from the argument text of a wire; the call keeps the text, and says what is wrong with it.

        >>> from toolwire import ToolCall
        >>> ToolCall.parse("call_1", "look", '{"a": 1}').arguments
        {'a': 1}
        >>> ToolCall.parse("call_1", "look", '{"a": ').runs
        False
        """
        arguments, error = parse_arguments(raw)
        return cls(id, name, arguments, raw=raw, error=error, **fields)


shield(ToolCall, "arguments")


class ToolResult(_Part, frozen=True, gc=False, tag="tool_result"):
    """The result of a call, linked to it by `tool_call_id`."""

    tool_call_id: str | None
    name: str | None
    content: "str | list[Part]" = ""
    is_error: bool = False

    @classmethod
    def new(cls, attrs: Mapping[str, Any] | None = None, /, **fields: Any) -> "ToolResult":
        """Make a result from a map or from keywords, naming each missing or invalid field."""
        kinds = {"tool_call_id": str, "name": str, "content": (str, list)}
        return build(cls, attrs, fields, ("name", "content"), kinds, "tool_call_id")


class ServerToolCall(_Part, frozen=True, gc=False, tag="server_tool_call"):
    """A call that the provider runs itself; toolwire never runs it."""

    id: str | None
    name: str
    arguments: dict[str, Any] | None = None


class ServerToolResult(_Part, frozen=True, gc=False, tag="server_tool_result"):
    """The result of a tool of the provider; `content` is in the provider's own form."""

    tool_call_id: str | None
    name: str
    content: Any = None


Part = (
    Text
    | Refusal
    | Image
    | Document
    | Audio
    | Thinking
    | ToolCall
    | ToolResult
    | ServerToolCall
    | ServerToolResult
    | Opaque
)
"""A part of a message."""
PARTS: tuple[type, ...] = get_args(Part)
