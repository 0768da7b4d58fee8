"""Tool declarations, the choice among them, and the items of tools that the server runs itself.

Rules of this file:
- The server applies strict mode to a function without `strict`. A function of another wire is always written with it.
- Keys that Chat Completions nests are flat here: the name in a choice, the grammar of a custom tool.
- The type of an item names the server tool that it calls: `web_search_call` calls `web_search`. If the item has a name
  (`mcp_call`), that is the name of the tool. The other keys of an item are replayed.
- A tool that OpenAI defines and the client runs (`BUILTIN_CLIENT_TOOLS`) has no name. Its type becomes its name, and it
  gets parameters for the other wires.
- A tool in a namespace gets a flat name, such as "crm__look", because other wires have no namespaces.
- An item of the input may declare tools too. They become tools of the request like all others. The spelling of the
  request has the layout of the declarations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects.openai_responses.parts import DIALECT, WIRE, lose_cache
from toolwire.encoding.ledger import Ledger, kind_of_part, made_by, spelling_of, take
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import Understood
from toolwire.encoding.tools import (
    as_function,
    begin_tool,
    encode_tools,
    lose_format,
    lose_metadata,
    read_allowed,
    unparsed_tool,
    write_choice,
)
from toolwire.encoding.traits import ToolSearchForm
from toolwire.types import (
    Opaque,
    Part,
    Request,
    ServerTool,
    ServerToolCall,
    ServerToolResult,
    Tool,
    ToolChoice,
    ToolResult,
)
from toolwire.types.spelling.openai_responses import (
    NamespaceLayout,
    QualifiedName,
    RepeatedTool,
    ResponsesResultSpelling,
    ResponsesServerCallSpelling,
    ResponsesToolSpelling,
    ServerToolPlace,
    ToolItem,
    ToolPlace,
)
from toolwire.wire.arguments import format_arguments, parse_arguments
from toolwire.wire.names import fingerprint

_CLIENT_TOOLS = frozenset({"function", "custom"})


class _BuiltinTool(Struct, frozen=True):
    """A tool without a name that OpenAI defines and the client runs.

    - `arguments_key`: the key of the arguments in its calls.
    - `result_type`: the type of its results.
    - `constants`: the keys that its calls and its results always have.
    """

    arguments_key: str
    result_type: str
    description: str
    parameters: dict[str, Any]
    constants: dict[str, Any] = {}


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


_TEXT, _TEXTS, _COUNT = {"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "integer"}
# openai 3.54.0, ToolSearchToolParam, ApplyPatchToolParam, FunctionShellToolParam, LocalShell (2026-11-22).
BUILTIN_CLIENT_TOOLS: Mapping[str, _BuiltinTool] = {
    "tool_search": _BuiltinTool(
        "arguments",
        "tool_search_output",
        "Search for tools that can be called then.",
        _object(("query",), query=_TEXT),
        {"execution": "client"},
    ),
    "apply_patch": _BuiltinTool(
        "operation",
        "apply_patch_call_output",
        "Create, update or delete a file. `diff` is what changes in it, or all of a new one; none is needed to delete.",
        _object(("type", "path"), type={"enum": ["create_file", "update_file", "delete_file"]}, path=_TEXT, diff=_TEXT),
    ),
    "shell": _BuiltinTool(
        "action",
        "shell_call_output",
        "Run commands in the user's shell.",
        _object(("commands",), commands=_TEXTS, timeout_ms=_COUNT, max_output_length=_COUNT),
    ),
    "local_shell": _BuiltinTool(
        "action",
        "local_shell_call_output",
        "Run a command on the user's machine, given as a list of its words.",
        _object(
            ("command",),
            command=_TEXTS,
            working_directory=_TEXT,
            env={"type": "object", "additionalProperties": _TEXT},
            timeout_ms=_COUNT,
        ),
    ),
}


def is_run_by_client(builtin: str, body: Mapping[str, Any]) -> bool:
    """Return True if the client runs the tool `builtin` of OpenAI, and the server does not.

    The client runs a search with `"execution": "client"`, and a shell without a container.
    """
    if builtin == "tool_search":
        return body.get("execution") == "client"
    environment = body.get("environment")
    is_local = environment is None or (type(environment) is dict and environment.get("type") == "local")
    return builtin in BUILTIN_CLIENT_TOOLS and is_local


def flat_name_of(namespace: str | None, name: str) -> str:
    """Return the flat name of the tool that a call names.

    The namespace of a function whose loading is deferred has the name of the function.
    """
    return name if namespace is None or namespace == name else _join_name(namespace, name)


def _join_name(namespace: str, name: str) -> str:
    return f"{namespace}__{name}"


_ARGUMENT_KEYS = ("action", "operation", "arguments", "input")
_INPUT_KEYS = {"code_interpreter_call": "code", "file_search_call": "queries", "program": "code"}
_RESULT_KEYS = {"program_output": "result", "tool_search_output": "tools"}


def decode_tool(body: Any) -> Tool | ServerTool:
    """Read one declaration. The server runs a tool that is no function, no custom tool and not in the table."""
    tool_type = body.get("type") if type(body) is dict else None
    if type(tool_type) is str and is_run_by_client(tool_type, body):
        return _decode_builtin_tool(body, tool_type)
    if type(tool_type) is not str or tool_type not in _CLIENT_TOOLS or type(body.get("name")) is not str:
        return unparsed_tool(body, DIALECT)
    unparsed = body.copy()
    del unparsed["type"]
    name, is_escaped = WIRE.restore_name(unparsed.pop("name"))
    spelling = ResponsesToolSpelling(is_escaped=is_escaped)
    description = take(unparsed, "description", str)
    if tool_type == "custom":
        text_format = _take_format(unparsed)
        return Tool(name, description, custom=True, format=text_format, opaque=WIRE.mark(unparsed, spelling))
    return Tool(
        name,
        description,
        take(unparsed, "parameters", dict),
        strict=take(unparsed, "strict", bool),
        opaque=WIRE.mark(unparsed, spelling),
    )


def _decode_builtin_tool(body: dict[str, Any], builtin: str) -> Tool:
    """Read a tool of OpenAI. The table has the description and the parameters that it does not declare."""
    builtin_tool, unparsed = BUILTIN_CLIENT_TOOLS[builtin], body.copy()
    del unparsed["type"]
    constants = take_client_keys(unparsed)
    description, parameters = take(unparsed, "description", str), take(unparsed, "parameters", dict)
    spelling = ResponsesToolSpelling(
        constants=constants,
        builtin=builtin,
        has_no_description=description is None,
        has_no_parameters=parameters is None,
    )
    description = builtin_tool.description if description is None else description
    parameters = builtin_tool.parameters if parameters is None else parameters
    return Tool(builtin, description, parameters, opaque=WIRE.mark(unparsed, spelling))


def take_client_keys(unparsed: dict[str, Any]) -> dict[str, Any]:
    """Remove the keys from `unparsed` that mark a tool as run by the client, if they have no other content."""
    keys = {"execution": unparsed.pop("execution")} if unparsed.get("execution") == "client" else {}
    if unparsed.get("environment") == {"type": "local"}:
        keys["environment"] = unparsed.pop("environment")
    return keys


def _encode_builtin_tool(tool: Tool, builtin: str, spelling: ResponsesToolSpelling, ledger: Ledger) -> dict[str, Any]:
    """Write a tool of OpenAI as it was declared. Report a changed description or schema as a loss."""
    builtin_tool, body = BUILTIN_CLIENT_TOOLS[builtin], {"type": builtin}
    for field, is_absent in (
        ("description", spelling.has_no_description),
        ("parameters", spelling.has_no_parameters),
    ):
        value = getattr(tool, field)
        if is_absent and value == getattr(builtin_tool, field):
            continue
        if builtin == "tool_search" and value is not None:
            body[field] = value
        else:
            ledger.lose(field, "own_tool", f"{DIALECT} defines this field of {builtin} itself")
    if tool.name != builtin:
        ledger.lose("name", "own_tool", f"{DIALECT} accepts no other name for {builtin}")
    ledger.lose_fields(tool, "own_tool", "strict", "custom", "format")
    lose_metadata(tool, ledger)
    lose_cache(tool, ledger)
    return ledger.replay(body, tool.opaque)


class ToolLayoutReader(Struct, eq=False):
    """Reads the declarations of a request into one list of tools, each with a unique flat name.

    - `declarations`: the `tools` of the request.
    - `tools`: the tools that were read.
    - `layout`: the layout of `declarations`, if there is a namespace or an item that declares tools.
    - `items`: the items of the input that declare tools.
    - `hosted_shells`: the ids of the shell calls that the server runs.
    - `contradictions`: the declarations that contradict an earlier declaration of their tool.
    - `renamed`: the flat names that differ from the called name, by namespace and name.
    """

    declarations: list[Any]
    tools: list[Tool | ServerTool] = []
    layout: list[ToolPlace] | None = None
    items: list[ToolItem] = []
    hosted_shells: set[str] = set()
    contradictions: list[Any] = []
    renamed: dict[tuple[str, str], str] = {}
    _namespace_keys: dict[str, Any] | None = None
    _declared: dict[tuple[str | None, str], tuple[str, Any]] = {}
    _counts: dict[str, int] = {}

    def __post_init__(self) -> None:
        bodies = self.declarations
        if [body for body in bodies if type(body) is dict and body.get("type") == "namespace"]:
            self._start_layout()
        elif bodies:
            self.tools = [decode_tool(body) for body in bodies]

    def _start_layout(self) -> None:
        """Read the `tools` of the request again, this time with their layout."""
        if self.layout is None:
            self.tools, self.layout = [], []
            self.layout = self.read(self.declarations)

    def read_item(self, item: dict[str, Any], before_message: int) -> bool:
        """Read the tools that an item of the input declares. Return False if it has no list of tools."""
        unparsed = item.copy()
        bodies = take(unparsed, "tools", list)
        if bodies is not None:
            self.items.append(ToolItem(before_message, unparsed, self.read(bodies)))
        return bodies is not None

    def read_result(self, bodies: list[Any]) -> tuple[list[ToolPlace], list[Any]]:
        """Read the tools that a search found. Return their layout, and those that contradict an earlier declaration."""
        earlier, self.contradictions = self.contradictions, []
        layout = self.read(bodies)
        contradictions, self.contradictions = self.contradictions, earlier
        return layout, contradictions

    def read(self, bodies: list[Any]) -> list[ToolPlace]:
        """Read declarations that are in one list, and return their layout."""
        self._start_layout()
        return [self._read(body, None) for body in bodies]

    def _read(self, body: Any, namespace: str | None) -> ToolPlace:
        """Read one declaration, or a namespace of several."""
        if namespace is None and _is_namespace(body) and (inner := body["tools"]):
            unparsed = {key: value for key, value in body.items() if key not in ("type", "name", "tools")}
            self._namespace_keys = unparsed
            return NamespaceLayout(body["name"], unparsed, [self._read(entry, body["name"]) for entry in inner])
        tool = decode_tool(body)
        if type(tool) is Tool:
            return self._add(tool, namespace, body)
        self.tools.append(tool)
        return ServerToolPlace(body)

    def _add(self, tool: Tool, namespace: str | None, body: Any) -> ToolPlace:
        """Add a tool under a flat name that no other tool has, unless it is a tool that was declared before."""
        name = tool.name
        flat_name, earlier = self._declared.get((namespace, name), ("", None))
        if flat_name:
            self.contradictions += [body] * (earlier != body)
            return RepeatedTool(body, flat_name)
        flat_name = joined = name if namespace is None else _join_name(namespace, name)
        while flat_name in self._counts:
            self._counts[joined] += 1
            flat_name = f"{joined}_{self._counts[joined]}"
        if flat_name != flat_name_of(namespace, name):
            self.renamed[namespace or "", name] = flat_name
        self._counts[flat_name] = 1
        self._declared[namespace, name] = flat_name, body
        if flat_name != name:
            keys = self._namespace_keys if namespace else None
            tool = _qualify(tool, QualifiedName(namespace, name, flat_name), keys)
        self.tools.append(tool)
        self._namespace_keys = None
        return flat_name


class ToolLayoutWriter:
    """Writes the declarations of a request, each where its layout has it."""

    def __init__(self, tools: Iterable[Tool | ServerTool], ledger: Ledger) -> None:
        self._named: dict[str, tuple[str | None, Any]] = {}
        self._repeated: list[Any] = []
        self._used: set[str] = set()
        server_tools = [tool.value for tool in tools if type(tool) is ServerTool and tool.dialect == DIALECT]
        self._server_tools = {fingerprint(value): value for value in server_tools}
        encode_tools(tools, ledger, self._encode)

    def _encode(self, tool: Tool, ledger: Ledger) -> None:
        """Encode one tool, and store its declaration by the flat name."""
        body, name = encode_tool(tool, ledger), spelling_of(tool.opaque, ResponsesToolSpelling).qualified_name
        namespace = None if name is None else name.namespace
        if tool.name in self._named:
            self._repeated.append(body)
        else:
            self._named[tool.name] = (namespace, body if namespace is None else body["tools"][0])

    def write(self, layout: list[ToolPlace], namespace: str | None = None) -> list[Any]:
        """Write the declarations of `layout`, except for those of tools that the request no longer has."""
        bodies: list[Any] = []
        for entry in layout:
            match entry:
                case str():
                    tool_namespace, body = self._named.get(entry, (None, None))
                    if body is not None and tool_namespace == namespace:
                        bodies.append(body)
                        self._used.add(entry)
                case NamespaceLayout(name, unparsed, tools):
                    if inner := self.write(tools, name):
                        bodies.append({"type": "namespace", "name": name, **unparsed, "tools": inner})
                case RepeatedTool(body):
                    bodies.append(body)
                case ServerToolPlace(body):
                    if (key := fingerprint(body)) in self._server_tools:
                        bodies.append(body)
                        self._used.add(key)
        return bodies

    def write_rest(self) -> list[Any]:
        """Write the declarations that no layout has."""
        client_tools = [_put_in_namespace(*self._named[name]) for name in self._named if name not in self._used]
        return (
            client_tools + self._repeated + [body for key, body in self._server_tools.items() if key not in self._used]
        )


def flat_names(layout: list[ToolPlace]) -> Iterator[str]:
    """Yield the flat names of the client's tools in a layout."""
    for entry in layout:
        match entry:
            case str():
                yield entry
            case RepeatedTool():
                yield entry.flat_name
            case NamespaceLayout():
                yield from flat_names(entry.tools)


def _put_in_namespace(namespace: str | None, body: Any, keys: Mapping[str, Any] | None = None) -> Any:
    """Return a declaration in its namespace, if it has one. `keys` are the other keys of the namespace."""
    if namespace is None:
        return body
    return {"type": "namespace", "name": namespace, **(keys or {"description": ""}), "tools": [body]}


def merge_namespaces(bodies: list[Any]) -> list[Any]:
    """Merge successive namespaces that have the same name."""
    gathered: list[Any] = []
    for body in bodies:
        last: Any = gathered[-1] if gathered else None
        if not _is_namespace(body):
            gathered.append(body)
        elif _is_namespace(last) and last["name"] == body["name"]:
            last["tools"] += body["tools"]
        else:
            gathered.append({**body, "tools": [*body["tools"]]})
    return gathered


def _is_namespace(body: Any) -> bool:
    """Return True if a declaration is a namespace with a name and a list of tools."""
    is_named = type(body) is dict and body.get("type") == "namespace" and type(body.get("name")) is str
    return is_named and type(body.get("tools")) is list


def _qualify(tool: Tool, name: QualifiedName, keys: dict[str, Any] | None) -> Tool:
    """Return a tool under its flat name. The first tool of a namespace carries the other `keys` of the namespace."""
    opaque: Any = tool.opaque
    value = {**opaque.value, "namespace": keys} if keys and any(keys.values()) else opaque.value
    spelling = replace(spelling_of(opaque, ResponsesToolSpelling), qualified_name=name)
    return replace(tool, name=name.flat, opaque=WIRE.mark(value, spelling))


def _encode_qualified(
    tool: Tool, name: QualifiedName, spelling: ResponsesToolSpelling, ledger: Ledger
) -> dict[str, Any]:
    """Write a tool in its namespace, under the name that it has there unless it was renamed."""
    opaque: Any = tool.opaque
    value = dict(opaque.value)
    keys = value.pop("namespace", None)
    own_name = name.name if tool.name == name.flat else tool.name
    inner = replace(tool, name=own_name, opaque=WIRE.mark(value, replace(spelling, qualified_name=None)))
    return _put_in_namespace(name.namespace, encode_tool(inner, ledger), keys)  # type: ignore[no-any-return]


def _take_format(unparsed: dict[str, Any]) -> dict[str, Any] | None:
    """Remove and return the text format of a custom tool. The canonical tool nests the keys of a grammar."""
    match unparsed.get("format"):
        case {"type": "grammar", **grammar} if "grammar" not in grammar:
            del unparsed["format"]
            return {"type": "grammar", "grammar": grammar}
        case {"type": "text"}:
            return unparsed.pop("format")  # type: ignore[no-any-return]
    return None


def _encode_format(text_format: dict[str, Any]) -> dict[str, Any]:
    """Write the text format of a custom tool."""
    match text_format:
        case {"type": "grammar", "grammar": dict(grammar), **others}:
            return {"type": "grammar", **grammar, **others}
    return text_format


def encode_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Write one declaration."""
    spelling = spelling_of(tool.opaque, ResponsesToolSpelling)
    if spelling.qualified_name is not None:
        return _encode_qualified(tool, spelling.qualified_name, spelling, ledger)
    if spelling.builtin is not None and spelling.builtin in BUILTIN_CLIENT_TOOLS:
        return _encode_builtin_tool(tool, spelling.builtin, spelling, ledger)
    if tool.custom and not ledger.quirks.custom_tools:
        tool = replace(as_function(tool, ledger), strict=False)
    body = {"type": "custom" if tool.custom else "function", **begin_tool(tool, ledger)}
    if tool.custom:
        ledger.lose_fields(tool, "custom_tool", "parameters", "strict")
        if tool.plain_format is not None:
            body["format"] = _encode_format(tool.plain_format)
    elif made_by(tool.opaque, DIALECT):
        if tool.plain_parameters is not None:
            body["parameters"] = tool.plain_parameters
        if tool.strict is not None:
            body["strict"] = tool.strict
    else:
        body["parameters"] = _fit_parameters(tool, ledger)
        body["strict"] = bool(tool.strict)
        lose_format(tool, ledger)
    lose_metadata(tool, ledger)
    lose_cache(tool, ledger)
    return body if tool.opaque is None else ledger.replay(body, tool.opaque)


def _fit_parameters(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Return the parameters of a tool of another wire as OpenAI's server accepts them."""
    schema = tool.plain_parameters
    if schema is None:
        ledger.lose("parameters", "schema_absent", f"{DIALECT} requires a schema of an object", "defaulted")
        closed = {"additionalProperties": False, "required": []} if tool.strict else {}
        return {"type": "object", "properties": {}, **closed}
    return ledger.fit(schema, "openai-strict") if tool.strict else ledger.fit_root(schema, "openai")


def decode_choice(value: Any) -> Understood | None:
    """Read a `tool_choice` that names tools of the client, or no tool. Return None for any other choice."""
    match value:
        case "auto" | "none" | "required":
            return Understood({"tool_choice": ToolChoice(value)})
        case {"type": "function" | "custom", "name": str(name)} if value.keys() == {"type", "name"}:
            choice = ToolChoice("required", [WIRE.restore_name(name)[0]])
            return Understood({"tool_choice": choice}, keep=True)
        case {"type": "allowed_tools", "mode": "auto" | "required" as mode, "tools": list(tools)} if len(value) == 3:
            names, others = read_allowed(tools, _allowed_name)
            unparsed = {**value, "tools": others} if others else ABSENT
            return Understood({"tool_choice": ToolChoice(mode, names)}, unparsed, keep=True) if names else None
        case {"type": "apply_patch" | "shell" as name} if len(value) == 1:
            return Understood({"tool_choice": ToolChoice("required", [name])}, keep=True)
    return None


def _allowed_name(tool: Any) -> str | None:
    """Return the name of a tool of the client in `allowed_tools`, or None for a tool of the server."""
    match tool:
        case {"type": "function" | "custom", "name": str(name)}:
            return WIRE.restore_name(name)[0]
        case {"type": str(builtin)} if is_run_by_client(builtin, tool):
            return builtin
    return None


def encode_choice(request: Request, ledger: Ledger) -> Any:
    """Write the `tool_choice`."""

    def entry(tool_type: str, name: str) -> Any:
        return {"type": tool_type, "name": ledger.names.write(name)}

    return write_choice(request, ledger, entry, dict)


def decode_server_item(item: dict[str, Any]) -> Part:
    """Read an item of a tool that the server runs. Any other item stays unparsed."""
    item_type = item["type"]
    if item_type.endswith("_call") or item_type == "program":
        return _decode_server_call(item, item_type)
    if item_type.endswith("_output"):
        return _decode_server_result(item, item_type)
    return Opaque(DIALECT, item)


def _decode_server_call(item: dict[str, Any], item_type: str) -> Part:
    """Read a call that the server runs. The tool is named by the item, or by its type."""
    unparsed = item.copy()
    del unparsed["type"]
    name = take(unparsed, "name", str)
    has_call_id = bool(unparsed.get("call_id"))
    call_id = take(unparsed, "call_id" if has_call_id else "id", str)
    arguments, input_key, input_text = _take_input(unparsed, item_type)
    spelling = ResponsesServerCallSpelling(
        item_type=None if name is None else item_type,
        has_call_id=has_call_id,
        input_key=input_key,
        input_text=input_text,
    )
    name = item_type.removesuffix("_call") if name is None else name
    return ServerToolCall(call_id, name, arguments, opaque=WIRE.mark(unparsed, spelling))


def _take_input(unparsed: dict[str, Any], item_type: str) -> tuple[dict[str, Any] | None, str | None, str | None]:
    """Remove the arguments of a server's call. Return them with their key, and their text if they were JSON text."""
    for key in _ARGUMENT_KEYS:
        value = unparsed.get(key)
        if type(value) is dict:
            return unparsed.pop(key), key, None
        if type(value) is str:
            arguments, error = parse_arguments(value)
            if error is None:
                return arguments, key, unparsed.pop(key)
    key = _INPUT_KEYS.get(item_type, "")
    return {key: unparsed.pop(key)} if unparsed.get(key) is not None else None, None, None


def encode_server_item(part: ServerToolCall | ServerToolResult, ledger: Ledger) -> dict[str, Any] | None:
    """Write an item of a tool that this server ran. Report the call or result of another provider as a loss."""
    if not made_by(part.opaque, DIALECT):
        ledger.lose("", kind_of_part(part), "another provider ran this tool")
        return None
    lose_cache(part, ledger)
    body = _encode_server_call(part) if isinstance(part, ServerToolCall) else _encode_server_result(part)
    return ledger.replay(body, part.opaque)


def _encode_server_call(part: ServerToolCall) -> dict[str, Any]:
    """Write a call that the server runs."""
    spelling = spelling_of(part.opaque, ResponsesServerCallSpelling)
    item_type = spelling.item_type or (part.name if part.name == "program" else f"{part.name}_call")
    body: dict[str, Any] = {"type": item_type}
    if spelling.item_type is not None:
        body["name"] = part.name
    if part.id is not None:
        body["call_id" if spelling.has_call_id else "id"] = part.id
    if part.arguments is not None:
        body |= _encode_input(part.arguments, spelling)
    return body


def _encode_input(arguments: dict[str, Any], spelling: ResponsesServerCallSpelling) -> dict[str, Any]:
    """Write the arguments of a server's call, under the key that they had."""
    key, text = spelling.input_key, spelling.input_text
    if key is None:
        return arguments
    if text is None:
        return {key: arguments}
    return {key: text if parse_arguments(text)[0] == arguments else format_arguments(arguments)}


def _decode_server_result(item: dict[str, Any], item_type: str) -> Part:
    """Read the result of a tool that the server ran."""
    unparsed = item.copy()
    del unparsed["type"]
    key = _RESULT_KEYS.get(item_type, "output")
    content = unparsed.pop(key, None) if unparsed.get(key) is not None else None
    return ServerToolResult(take(unparsed, "call_id", str), item_type, content, opaque=WIRE.mark(unparsed))


def _encode_server_result(part: ServerToolResult) -> dict[str, Any]:
    """Write the result of a tool that the server ran."""
    body: dict[str, Any] = {"type": part.name}
    if part.tool_call_id is not None:
        body["call_id"] = part.tool_call_id
    if part.content is not None:
        body[_RESULT_KEYS.get(part.name, "output")] = part.content
    return body


# openai 3.57.0, ToolSearchToolParam, ResponseToolSearchCall and ResponseToolSearchOutputItem (2026-11-27).
_SEARCH = "tool_search"
_SEARCH_RESULT = "tool_search_output"


def _is_search(tool: ServerTool) -> bool:
    return tool.type == _SEARCH


def _is_search_call(call: ServerToolCall) -> bool:
    return call.name == _SEARCH


def _names_in(part: Part) -> Sequence[str] | None:
    """Return the names in the result of OpenAI's search, or of a search that the client runs."""
    match part:
        case ServerToolResult(name=name, content=content) if name == _SEARCH_RESULT:
            return list(_names(content, None))
        case ToolResult():
            layout = spelling_of(part.opaque, ResponsesResultSpelling).tools
            return None if layout is None else list(flat_names(layout))
    return None


def _names(bodies: Any, namespace: str | None) -> Iterator[str]:
    """Yield the flat names of declared tools."""
    for body in bodies if isinstance(bodies, list) else ():
        match body:
            case {"type": "namespace", "name": str(name), "tools": tools} if namespace is None:
                yield from _names(tools, name)
            case {"name": str(name)}:
                yield flat_name_of(namespace, WIRE.restore_name(name)[0])


def _search_parts(_tool: ServerTool, call_id: str, arguments: Mapping[str, Any], found: Sequence[Tool]) -> list[Part]:
    ledger, state = Ledger(WIRE), {"execution": "server", "call_id": None, "status": "completed"}
    bodies = merge_namespaces([encode_tool(tool, ledger) for tool in found])
    spelling = ResponsesServerCallSpelling(input_key="arguments")
    return [
        ServerToolCall(call_id, _SEARCH, dict(arguments), opaque=Opaque(DIALECT, state, spelling=spelling)),
        ServerToolResult(None, _SEARCH_RESULT, bodies, opaque=Opaque(DIALECT, {"id": f"tso_{call_id}", **state})),
    ]


TOOL_SEARCH = ToolSearchForm(_is_search, _is_search_call, _names_in, _search_parts, "tsc_")
