"""The canonical model of a conversation: its messages, its tools and its settings, in values that no wire format owns.

Rules of this file:
- Every value is frozen. An absent field has the value None, never the default of some provider.
- A message can also be given as a string or in OpenAI's format, and a tool in OpenAI's format: most people know these.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, get_args, overload

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import force_setattr, replace

from toolwire.errors import InvalidField, MissingFields
from toolwire.types.frozen import FrozenList, copy_map, copy_on_read
from toolwire.types.parts import Cache, Opaque, Part, Text, ToolCall, ToolResult, build
from toolwire.types.reading import (
    CLAUDE,
    RESPONSES,
    frozen_content,
    read_call,
    read_parts,
    read_unparsed_of_tool,
    take_images,
    take_wire,
)

Role = Literal["system", "developer", "user", "assistant", "tool"]
ROLES: frozenset[str] = frozenset(get_args(Role))
_SPEAKERS = ROLES - {"tool"}
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
MAPS = (dict, Mapping)  # isinstance checks in this order: most maps are dicts, and Mapping is slow
SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema", "schema")


class Tool(Struct, frozen=True, gc=False, tag="tool", tag_field="kind"):
    """A tool as the model sees it: data without a function. The argument of a `custom` tool is text (of a `format`).

    >>> from toolwire import Tool
    >>> Tool("ping", "Ping.", {"type": "object"}).to_openai_format()
    {'type': 'function', 'function': {'name': 'ping', 'description': 'Ping.', 'parameters': {'type': 'object'}}}
    """

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    metadata: dict[str, Any] = {}
    strict: bool | None = None
    custom: bool = False
    format: dict[str, Any] | None = None
    cache: Cache | None = None
    opaque: Opaque | None = None

    REQUIRED: ClassVar = ("name", "description", "parameters")
    if TYPE_CHECKING:
        plain_parameters: ClassVar[dict[str, Any] | None]
        plain_metadata: ClassVar[dict[str, Any]]
        plain_format: ClassVar[dict[str, Any] | None]
    Call: ClassVar[type[ToolCall]] = ToolCall
    Result: ClassVar[type[ToolResult]] = ToolResult

    def __post_init__(self) -> None:
        if self.opaque is None:
            self._own_maps()

    def _own_maps(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidField("name", f"must be a string, not {self.name!r}", path="Tool")
        for field, value in (("parameters", self.plain_parameters), ("format", self.plain_format)):
            if value is not None and not isinstance(value, dict):
                raise InvalidField(field, f"must be a map, not {value!r}", path="Tool")
            force_setattr(self, field, copy_map(value))
        force_setattr(self, "metadata", copy_map(self.plain_metadata))

    @classmethod
    def new(cls, attrs: Mapping[str, Any] | None = None, /, **fields: Any) -> Self:
        """Make a tool from a map or from keywords. The error names each missing or invalid field.

        >>> from toolwire import Tool
        >>> Tool.new(name="ping", description="Ping.", parameters={"type": "object"}).name
        'ping'
        """
        field_types = {"name": str, "description": str, "parameters": dict, "metadata": dict, "strict": bool}
        if isinstance(attrs, MAPS) or attrs is None:
            fields = {**(attrs or {}), **fields}
            schema = next((fields[key] for key in SCHEMA_KEYS if fields.get(key) is not None), None)
            fields = {**fields, "parameters": schema}
            if fields.get("run") is not None:
                raise InvalidField(
                    "run", "is not a field of a tool, which is data: declare the function with `@tool` instead"
                )
            attrs = None
        return build(cls, attrs, fields, cls.REQUIRED, field_types)

    @classmethod
    def from_map(cls, attrs: Mapping[str, Any]) -> Self:
        """Make a tool from a map as configuration files, MCP listings, and requests to OpenAI or Claude spell it."""
        if not isinstance(attrs, MAPS):
            raise InvalidField("attributes", "must be a map", path="Tool")
        inner: Any = attrs.get("function")
        is_wrapped = isinstance(inner, MAPS)
        fields = {str(key): value for key, value in (inner if is_wrapped else attrs).items()}
        schemas = [fields.pop(key) for key in SCHEMA_KEYS if fields.get(key) is not None]
        if any(schema != schemas[0] for schema in schemas):
            raise InvalidField("parameters", f"must be given under one of {', '.join(SCHEMA_KEYS)}, not several")
        if schemas:
            fields["parameters"] = schemas[0]
        if attrs.get("input_schema") is not None:
            fields["opaque"], fields["cache"] = read_unparsed_of_tool(
                attrs, {*cls.__struct_fields__, "type", *SCHEMA_KEYS}
            )
        if fields.get("description") is None and (is_wrapped or not {"inputSchema", "input_schema"}.isdisjoint(attrs)):
            # The description is optional in the declarations of OpenAI and Claude, and in MCP's listings.
            return replace(cls.new(fields, description=""), description=None)
        return cls.new(fields)

    def to_openai_format(self) -> dict[str, Any]:
        """Return the declaration of the tool as a request to OpenAI's Chat Completions has it."""
        fields = ((name, getattr(self, name)) for name in ("name", "description", "parameters", "strict"))
        return {"type": "function", "function": {name: value for name, value in fields if value is not None}}


copy_on_read(Tool, "parameters", "metadata", "format")


class ServerTool(Struct, frozen=True, tag="server_tool", tag_field="kind"):
    """A tool that the provider runs. `value` is its declaration, which only the wire of `dialect` understands.

    >>> from toolwire import Context, ServerTool
    >>> search = {"type": "web_search_20250305", "name": "web_search"}
    >>> Context(tools=[search]).tools == [ServerTool("web_search_20250305", "anthropic", search)]
    True
    """

    type: str
    dialect: str
    value: dict[str, Any]


class ToolChoice(Struct, frozen=True):
    """Whether the model may, must or must not call tools. With `names`, only these tools.

    >>> from toolwire import Context, Request, Tool, ToolChoice, dialect
    >>> request = Request(context=Context(tools=[Tool("ping")]), tool_choice=ToolChoice("required"))
    >>> dialect("anthropic").encode_request(request).body["tool_choice"]
    {'type': 'any'}
    """

    mode: Literal["auto", "none", "required"]
    names: list[str] | None = None


class Output(Struct, frozen=True):
    """The form of the answer: free text, any JSON, or JSON that matches a schema.

    >>> from toolwire import Context, Output, Request, dialect
    >>> request = Request(model="m", context=Context(messages=["Hi"]), output=Output("json"))
    >>> dialect("openai-chat").encode_request(request).body["response_format"]
    {'type': 'json_object'}
    """

    kind: Literal["text", "json", "schema"]
    schema: dict[str, Any] | None = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class Message(Struct, frozen=True, gc=False):
    """One message. `Message("Hello")` is a message of the user. A tool message has the result of one call.

    >>> from toolwire import Message
    >>> Message("Hello") == Message("user", "Hello") == Message.of({"role": "user", "content": "Hello"})
    True
    """

    role: Role
    content: str | list[Part] | UnsetType = UNSET
    name: str | None = None
    tool_call_id: str | None = None
    opaque: Opaque | None = None

    if TYPE_CHECKING:

        @overload
        def __init__(self, content: str, /) -> None: ...
        @overload
        def __init__(
            self,
            role: Role,
            content: str | Sequence[Part | str | Mapping[str, Any] | tuple[Any, ...]],
            name: str | None = None,
            tool_call_id: str | None = None,
            opaque: Opaque | None = None,
        ) -> None: ...
        def __init__(self, *args: Any, **fields: Any) -> None: ...

    def __post_init__(self) -> None:
        if type(self.content) is not str and (self.opaque is None or self.content is UNSET):
            self._own_content()
        if self.role not in _SPEAKERS:
            self._hold_result(self.content)  # type: ignore[arg-type]

    def _own_content(self) -> None:
        if self.content is UNSET:
            force_setattr(self, "content", self.role)
            force_setattr(self, "role", "user")
        if self.opaque is None:
            force_setattr(self, "content", frozen_content(self.content))

    def _hold_result(self, content: str | list[Part]) -> None:
        if self.role != "tool":
            raise InvalidField("role", f"must be one of {', '.join(sorted(ROLES))}, not {self.role!r}", path="Message")
        if type(content) is not str and content and type(content[0]) is ToolResult:
            if self.tool_call_id is None and len(content) == 1:
                force_setattr(self, "tool_call_id", content[0].tool_call_id)
                force_setattr(self, "name", self.name or content[0].name)
        elif self.tool_call_id is None and content != []:
            raise MissingFields("a tool message", ["tool_call_id"])
        elif content != []:
            parts = [ToolResult(self.tool_call_id, self.name, content)]
            force_setattr(self, "content", parts if self.opaque is not None else FrozenList(parts))

    @classmethod
    def new(cls, *args: Any, **fields: Any) -> Self:
        """Make a message from `(content)` or `(role, content)`."""
        return cls(*args, **fields)

    @classmethod
    def from_map(cls, attrs: Mapping[str, Any]) -> Self:
        """Make a message from a map in OpenAI's format. Its other keys become opaque data of the wire that has them."""
        unparsed = dict(attrs)
        role, content = unparsed.pop("role", "user"), unparsed.pop("content", None)
        calls = unparsed.pop("tool_calls", None) or []
        name, call_id = unparsed.pop("name", None), unparsed.pop("tool_call_id", None)
        images, wire = take_images(unparsed), take_wire(unparsed)
        if not isinstance(calls, list):
            raise InvalidField("tool_calls", "must be a list", path="Message")
        if content is None and not calls and unparsed and role != "assistant":
            others = ", ".join(map(str, unparsed))
            raise InvalidField("content", f"is missing: the message has only {others}", path="Message")
        if calls or images or not isinstance(content, str):
            if content is not None and not isinstance(content, str | list):
                raise InvalidField("content", "must be a string, a list of parts or null", path="Message")
            items = [content] if isinstance(content, str) else content or []
            content = [*read_parts(items), *images, *(read_call(call, index) for index, call in enumerate(calls))]
        return cls(role, content, name, call_id, Opaque(wire, unparsed) if unparsed else None)

    @classmethod
    def of(cls, value: "AnyMessage") -> "Message":
        """Make a message from a message, from the user's text, or from a map in OpenAI's format."""
        match value:
            case dict() | Mapping():
                return cls.from_map(value)
            case str():
                return cls("user", value)
            case Message():
                return value
        raise InvalidField(
            "message", f"must be a Message, a string or a map, not {type(value).__name__}", path="Context"
        )

    @property
    def parts(self) -> list[Part]:
        """The content as parts. A string is one `Text`."""
        content = self.content
        return [Text(content)] if isinstance(content, str) else content  # type: ignore[return-value]

    @property
    def text(self) -> str:
        """The text of the message, without thinking, calls and media. In a tool message, the text of the results.

        >>> from toolwire import Message
        >>> Message(role="tool", tool_call_id="call_1", content="14 degrees").text
        '14 degrees'
        """
        return _text_in(self.parts, with_results=self.role == "tool")

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls to run, in order. Each is complete, and its arguments are a JSON object."""
        return [part for part in self.parts if type(part) is ToolCall and part.runs]

    @property
    def broken_calls(self) -> list[ToolCall]:
        """The calls that cannot run, because they were cut off or their text is not a JSON object (`raw`, `error`)."""
        return [part for part in self.parts if type(part) is ToolCall and not part.runs]


AnyMessage = Message | str | Mapping[str, Any] | ToolResult
"""A message: a value, the user's text, a map in OpenAI's format, or the result of a call."""


class DeclaredTool(Protocol):
    """A tool with its declaration: the result of `@tool`, or a class or an object that has a `definition`."""

    def definition(self) -> Tool | Mapping[str, Any]:
        """Return the declaration."""


class _ListsTools(Protocol):
    def available_tools(self) -> Sequence[Tool]: ...


_AnyTool = (
    Tool | ServerTool | Mapping[str, Any] | DeclaredTool | _ListsTools | Callable[..., object] | tuple[Any, str]
)  # what `toolwire.resolvers.reading` reads


class _DeclaredTools(FrozenList):
    """The declarations of tools, and as `handlers` those of the tools that can run."""

    handlers: Sequence[_AnyTool] = ()


_TOOLS = frozenset({Tool, ServerTool})
_READER = "toolwire.resolvers.reading"
_NO_TOOLS = FrozenList()


class Context(Struct, frozen=True):
    """A conversation: the system prompt, the messages and the tools.

    >>> from toolwire import Context, Message
    >>> context = Context("Be brief.", ["Hello", Message("assistant", "Hi")])
    >>> [message.role for message in context.messages]
    ['user', 'assistant']
    """

    system: str | list[Part] | None = None
    messages: Sequence[Message] = []
    tools: Sequence[Tool | ServerTool] = []
    provider_state: dict[str, Any] | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            system: str | list[Part] | None = None,
            messages: Sequence[AnyMessage] = ...,
            tools: "Sequence[_AnyTool] | _AnyTool" = ...,
            provider_state: dict[str, Any] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        system, messages, tools = self.system, self.messages, self.tools
        if system is not None and not isinstance(system, str):
            force_setattr(self, "system", frozen_content(system, "Context.system"))
        for message in messages:
            if type(message) is not Message:
                messages = _read_messages(messages)
                break
        if type(messages) is not FrozenList:
            force_setattr(self, "messages", FrozenList(messages))
        if not tools:
            force_setattr(self, "tools", _NO_TOOLS)
        elif not isinstance(tools, Sequence) or not _TOOLS.issuperset(map(type, tools)):
            force_setattr(self, "tools", _read_tools(tools))
        elif not isinstance(tools, FrozenList):
            force_setattr(self, "tools", FrozenList(tools))

    @property
    def handlers(self) -> Sequence[_AnyTool]:
        """The tools that can run. A client runs them, and no wire carries them."""
        return getattr(self.tools, "handlers", ())

    @classmethod
    def new(cls, **fields: Any) -> Self:
        """Make a context from any of `system`, `messages`, `tools`, `provider_state`."""
        return cls(**fields)


def _text_in(parts: Iterable[Part], *, with_results: bool) -> str:
    texts: list[str] = []
    for part in parts:
        if type(part) is Text:
            texts.append(part.text)
        elif with_results and type(part) is ToolResult:
            content = part.content
            texts.append(content if isinstance(content, str) else _text_in(content, with_results=False))
    return "".join(texts)


def _read_messages(values: Iterable[Any]) -> list[Message]:
    """Return the messages of `values`. Results that follow each other are one message, as `execute` returns them."""
    messages: list[Message] = []
    results: list[Part] = []
    for value in values:
        if not isinstance(value, ToolResult):
            results = []
            messages.append(Message.of(value))
            continue
        if results:
            messages.pop()
        results = [*results, value]
        messages.append(Message("tool", results))
    return messages


def _read_tools(tools: Any) -> _DeclaredTools:
    """Return the declarations of `tools`, and those of them that can run as they were given.

    Functions and resolvers are read by the room above, which is loaded for them only. See
    docs/decisions/2026-11-27-one-reader-of-tools.md.
    """
    if not isinstance(tools, Sequence) or not all(isinstance(tool, (*_TOOLS, *MAPS)) for tool in tools):
        reading = import_module(_READER)
        tools = list(reading.tool_list(tools))
        declared = _DeclaredTools(reading.read_tools(tools, "Context.tools").declared)
        declared.handlers = [tool for tool in tools if not isinstance(tool, (*_TOOLS, *MAPS))]
        return declared
    return _DeclaredTools(read_declaration(tool) for tool in tools)


def read_declaration(value: Any) -> Tool | ServerTool:
    """Return the declaration that `value` is, or the one that a map spells. Raise `InvalidField` if it is neither."""
    if isinstance(value, Tool | ServerTool):
        return value
    return (_read_server_tool(value) if isinstance(value, MAPS) else None) or Tool.from_map(value)


def called_name(tool: Tool | ServerTool) -> str:
    """Return the name that a call of `tool` has. OpenAI's own tools have no name but their type."""
    return tool.name if isinstance(tool, Tool) else str(tool.value.get("name") or tool.type)


def _read_server_tool(attrs: Mapping[str, Any]) -> ServerTool | None:
    """Parse the map of a tool that its provider runs: it has a type of its own, and neither a function nor a schema."""
    tool_type = attrs.get("type")
    if (
        not isinstance(tool_type, str)
        or tool_type in ("function", "custom")
        or any(key in attrs for key in SCHEMA_KEYS)
    ):
        return None
    # Claude's types end with a date: web_search_20250305 (anthropic 2.11.0, 2026-11-20).
    return ServerTool(tool_type, CLAUDE if tool_type[-8:].isdigit() else RESPONSES, dict(attrs))


class Request(Struct, frozen=True, kw_only=True):
    """A request to a model: a context, the model's name and the settings.

    >>> from toolwire import Context, Request, dialect
    >>> request = Request(model="m", context=Context(messages=["Hello"]), max_tokens=9)
    >>> dialect("anthropic").encode_request(request).body
    {'model': 'm', 'max_tokens': 9, 'messages': [{'role': 'user', 'content': 'Hello'}]}
    """

    context: Context
    model: str | None = None
    stream: bool | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    stop: list[str] | None = None
    seed: int | None = None
    n: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: dict[str, Any] | None = None
    thinking: Literal["enabled", "adaptive", "between_tools", "disabled"] | None = None
    thinking_budget: int | None = None
    thinking_display: str | None = None
    effort: Effort | None = None
    output: Output | None = None
    verbosity: str | None = None
    metadata: dict[str, Any] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    store: bool | None = None
    cache_key: str | None = None
    cache_mode: str | None = None
    cache_ttl: str | None = None
    opaque: Opaque | None = None

    @property
    def system(self) -> str | list[Part] | None:
        """The context's system prompt."""
        return self.context.system

    @property
    def messages(self) -> Sequence[Message]:
        """The context's messages."""
        return self.context.messages

    @property
    def tools(self) -> Sequence[Tool | ServerTool]:
        """The context's tools."""
        return self.context.tools

    @property
    def provider_state(self) -> dict[str, Any] | None:
        """The context's provider state."""
        return self.context.provider_state
