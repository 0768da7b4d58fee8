"""The parts of a message: texts, media, thinking, calls and results.

Rules of this file:
- Every value is frozen. The order of parts has a meaning, and does not change.
- `opaque` has the data of one wire that only its dialect may write again. `Opaque.value` is data that other wires lose.
  `Opaque.spelling` is how the wire spelled the value, which means nothing to other wires.
- A value with an `opaque` was read from a wire. A value without one was made by an application.
- Media and signatures are stored as the text that was received, since they are sent again as text.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args

from msgspec import UNSET, Struct
from msgspec.structs import force_setattr

from toolwire.errors import InvalidField, MissingFields
from toolwire.types.frozen import copy_map, copy_on_read
from toolwire.types.spelling import Spelling
from toolwire.wire.arguments import parse_arguments

_Value = TypeVar("_Value", bound=Struct)


_TYPE_NAMES = {str: "a string", dict: "a map", bool: "a boolean", (str, list): "a string or a list of parts"}


def build(
    value_type: type[_Value],
    attrs: Mapping[str, Any] | None,
    fields: dict[str, Any],
    required: tuple[str, ...],
    field_types: dict[str, Any],
    *nullable: str,
) -> _Value:
    """Make a `value_type` from the keys of `attrs` and `fields`. The latter win.

    Other keys are ignored. An absent field has its default, or None if `nullable` names it. Raise `MissingFields` with
    each field of `required` that is absent, and `InvalidField` for a field that has another type than in `field_types`.
    """
    if attrs is not None and not isinstance(attrs, dict | Mapping):
        raise InvalidField("attributes", "must be a map", path=value_type.__name__)
    values = {str(key): value for key, value in (attrs or {}).items()} | fields
    missing = [name for name in required if values.get(name) is None]
    if missing:
        raise MissingFields(value_type.__name__, missing)
    for name, field_type in field_types.items():
        if values.get(name) is not None and not isinstance(values[name], field_type):
            raise InvalidField(name, f"must be {_TYPE_NAMES[field_type]}")
    present = {name: values[name] for name in value_type.__struct_fields__ if values.get(name) is not None}
    return value_type(**{**dict.fromkeys(nullable), **present})


class Opaque(Struct, frozen=True, gc=False, tag="opaque", tag_field="type"):
    """Data of a provider that the canonical model does not have. Only the dialect that read it may write it again.

    >>> from toolwire import Message
    >>> message = Message.of({"role": "assistant", "content": "Hi", "audio": {"id": "a_1"}})
    >>> message.opaque.dialect, message.opaque.value
    ('openai-chat', {'audio': {'id': 'a_1'}})
    """

    dialect: str
    value: Any
    spelling: Spelling | None = None


class Cache(Struct, frozen=True, gc=False):
    """A cache mark: it asks the provider's prompt cache to store everything up to here.

    >>> from toolwire import Cache, Context, Request, Text, dialect
    >>> request = Request(context=Context([Text("Be brief.", cache=Cache())], ["Hi"]))
    >>> dialect("anthropic").encode_request(request).body["system"]
    [{'type': 'text', 'text': 'Be brief.', 'cache_control': {'type': 'ephemeral'}}]
    """

    ttl: str | None = None


class Citation(Struct, frozen=True, gc=False):
    """A source that a text cites.

    >>> from toolwire import Citation, Message, Text
    >>> message = Message("assistant", [Text("It rains.", [Citation("https://example.com", "Weather")])])
    >>> [citation.title for citation in message.parts[0].citations]
    ['Weather']
    """

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
    """Text of the user or of the model.

    >>> from toolwire import Message, Text
    >>> Message("assistant", [Text("Hel"), Text("lo")]).text
    'Hello'
    """

    text: str
    citations: list[Citation] | None = None


class Refusal(_Part, frozen=True, gc=False, tag="refusal"):
    """The text with which the model refuses to answer.

    >>> from toolwire import Context, Message, Refusal, Request, dialect
    >>> request = Request(context=Context(messages=[Message("assistant", [Refusal("I cannot.")])]))
    >>> dialect("openai-chat").encode_request(request).body["messages"]
    [{'role': 'assistant', 'refusal': 'I cannot.', 'content': None}]
    """

    text: str


class Image(_Part, frozen=True, gc=False, tag="image"):
    """An image: Base64 `data` with its `media_type`, or a `url`, or a provider's `file_id`.

    >>> from toolwire import Context, Image, Message, Request, dialect
    >>> request = Request(context=Context(messages=[Message("user", [Image(url="https://example.com/a.png")])]))
    >>> dialect("openai-chat").encode_request(request).body["messages"][0]["content"]
    [{'type': 'image_url', 'image_url': {'url': 'https://example.com/a.png'}}]
    """

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    file_id: str | None = None
    detail: str | None = None


class Document(_Part, frozen=True, gc=False, tag="document"):
    """A file: Base64 `data`, plain `text`, a `url`, or a provider's `file_id`.

    >>> from toolwire import Context, Document, Message, Request, dialect
    >>> request = Request(context=Context(messages=[Message("user", [Document(url="https://example.com/a.pdf")])]))
    >>> dialect("anthropic").encode_request(request).body["messages"][0]["content"]
    [{'type': 'document', 'source': {'type': 'url', 'url': 'https://example.com/a.pdf'}}]
    """

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    file_id: str | None = None
    text: str | None = None
    name: str | None = None


class Audio(_Part, frozen=True, gc=False, tag="audio"):
    """Sound: Base64 `data` with its `media_type`, or a `url`, or a provider's `file_id`.

    >>> from toolwire import Audio, Context, Message, Request, dialect
    >>> request = Request(context=Context(messages=[Message("user", [Audio("UklGRg==", "audio/wav")])]))
    >>> dialect("openai-chat").encode_request(request).body["messages"][0]["content"]
    [{'type': 'input_audio', 'input_audio': {'data': 'UklGRg==', 'format': 'wav'}}]
    """

    data: str | None = None
    media_type: str | None = None
    url: str | None = None
    file_id: str | None = None
    transcript: str | None = None


class Thinking(_Part, frozen=True, gc=False, tag="thinking"):
    """Thinking of the model. `signature` binds it to the provider that made it (`opaque.dialect`).

    Redacted thinking has no text. Its signature is the encrypted data.

    >>> from toolwire import Message, Text, Thinking
    >>> Message("assistant", [Thinking("Two and two", "c2ln"), Text("Four")]).text
    'Four'
    """

    text: str = ""
    signature: str | None = None
    redacted: bool = False


class ToolCall(_Part, frozen=True, gc=False, tag="tool_call", eq=False):
    """A call: the model asks to run a tool.

    `raw` is the argument text as it arrived. If it is not a JSON object, `error` says why, and `arguments` is empty.
    If the tool takes free text, `custom` is true and `raw` is this text.

    >>> from toolwire import ToolCall
    >>> call = ToolCall("call_1", "get_weather", {"city": "Oslo"})
    >>> call.arguments["city"], call.runs
    ('Oslo', True)
    """

    id: str | None = None
    name: str = UNSET  # type: ignore[assignment]  # required, though the field before it has a default
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
        force_setattr(self, "arguments", copy_map(self.plain_arguments))

    @property
    def runs(self) -> bool:
        """Whether the call can run: it is complete, and its arguments are a JSON object."""
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
        """Make a call from a map or from keywords. The error names each missing or invalid field."""
        field_types = {"id": str, "name": str, "arguments": dict}
        return build(cls, attrs, fields, ("name", "arguments"), field_types, "id")

    @classmethod
    def parse(cls, id: str | None, name: str, raw: str, **fields: Any) -> "ToolCall":  # noqa: A002 - the field's name
        """Make a call from the argument text `raw` of a wire. If `raw` is not a JSON object, `error` is the reason.

        >>> from toolwire import ToolCall
        >>> ToolCall.parse("call_1", "look", '{"a": 1}').arguments
        {'a': 1}
        >>> ToolCall.parse("call_1", "look", '{"a": ').runs
        False
        """
        arguments, error = parse_arguments(raw)
        return cls(id, name, arguments, raw=raw, error=error, **fields)


copy_on_read(ToolCall, "arguments")


class ToolResult(_Part, frozen=True, gc=False, tag="tool_result"):
    """The result of a call, linked to it by `tool_call_id`.

    >>> from toolwire import Context, ToolResult
    >>> Context(messages=[ToolResult("call_1", "get_weather", "14 degrees")]).messages[0].role
    'tool'
    """

    tool_call_id: str | None
    name: str | None
    content: "str | list[Part]" = ""
    is_error: bool = False

    @classmethod
    def new(cls, attrs: Mapping[str, Any] | None = None, /, **fields: Any) -> "ToolResult":
        """Make a result from a map or from keywords. The error names each missing or invalid field."""
        field_types = {"tool_call_id": str, "name": str, "content": (str, list)}
        return build(cls, attrs, fields, ("name", "content"), field_types, "tool_call_id")


class ServerToolCall(_Part, frozen=True, gc=False, tag="server_tool_call"):
    """A call that the provider runs itself. toolwire never runs it.

    >>> from toolwire import dialect
    >>> block = {"type": "server_tool_use", "id": "s_1", "name": "web_search", "input": {"query": "Oslo"}}
    >>> [(part.name, part.arguments) for part in dialect("anthropic").decode_response({"content": [block]}).parts]
    [('web_search', {'query': 'Oslo'})]
    """

    id: str | None
    name: str
    arguments: dict[str, Any] | None = None


class ServerToolResult(_Part, frozen=True, gc=False, tag="server_tool_result"):
    """The result of a tool that the provider ran. `content` has the shape that the provider gives it.

    >>> from toolwire import dialect
    >>> block = {"type": "web_search_tool_result", "tool_use_id": "s_1", "content": []}
    >>> [(part.tool_call_id, part.content) for part in dialect("anthropic").decode_response({"content": [block]}).parts]
    [('s_1', [])]
    """

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
