"""Tool declarations, the choice among them, and the items of tools that the server runs itself.

Rules of this file:
- A function without `strict` is tried strictly by the server, so a tool from elsewhere says which it is.
- What Chat Completions nests is flat here: the name of a choice, the grammar of a custom tool.
- A tool of the server is told by its item's type: `web_search_call` calls `web_search`; where the item has a
  name of its own (`mcp_call`), that is the tool's. What an item holds beside call and result is replayed.
- A tool without a name of its own that the client runs (`OWN_TOOLS`) is named for its type, and has parameters for
  wires that do not know it. A tool in a namespace is named for both, "crm__look": elsewhere there is only one name.
- A tool may be declared in an item of the input. It is a tool of the request like any other; where it stood is kept
  in the request's form, as is the namespace that it stood in.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects.openai_responses.parts import DIALECT, WIRE, lose_cache
from toolwire.encoding.ledger import Ledger, form_of, kind_of_part, made_by, take
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import Understood
from toolwire.encoding.tools import (
    as_function,
    begin_tool,
    encode_tools,
    keep_tool,
    lose_format,
    lose_metadata,
    read_allowed,
    write_choice,
)
from toolwire.types import Opaque, Part, Request, ServerTool, ServerToolCall, ServerToolResult, Tool, ToolChoice
from toolwire.wire.arguments import format_arguments, parse_arguments
from toolwire.wire.names import fingerprint

_KINDS = frozenset({"function", "custom"})


class _OwnTool(Struct, frozen=True):
    """A tool of this wire without a name, which the client runs: where its calls hold their arguments, and its form."""

    held: str
    output: str
    description: str
    parameters: dict[str, Any]
    said: dict[str, Any] = {}


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


_TEXT, _TEXTS, _COUNT = {"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "integer"}
# openai 3.54.0, ToolSearchToolParam, ApplyPatchToolParam, FunctionShellToolParam, LocalShell (2026-11-22).
OWN_TOOLS: Mapping[str, _OwnTool] = {
    "tool_search": _OwnTool(
        "arguments",
        "tool_search_output",
        "Search for tools that can be called then.",
        _object(("query",), query=_TEXT),
        {"execution": "client"},
    ),
    "apply_patch": _OwnTool(
        "operation",
        "apply_patch_call_output",
        "Create, update or delete a file. `diff` is what changes in it, or all of a new one; none is needed to delete.",
        _object(("type", "path"), type={"enum": ["create_file", "update_file", "delete_file"]}, path=_TEXT, diff=_TEXT),
    ),
    "shell": _OwnTool(
        "action",
        "shell_call_output",
        "Run commands in the user's shell.",
        _object(("commands",), commands=_TEXTS, timeout_ms=_COUNT, max_output_length=_COUNT),
    ),
    "local_shell": _OwnTool(
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
_SPOKEN = ("description", "parameters")


def is_clients(kind: str, body: Mapping[str, Any]) -> bool:
    """Whether the client runs a tool of this wire's own: a search if that is said, a shell if no container is."""
    if kind == "tool_search":
        return body.get("execution") == "client"
    place = body.get("environment")
    return kind in OWN_TOOLS and (place is None or (type(place) is dict and place.get("type") == "local"))


def called_name(space: str | None, name: str) -> str:
    """Give the one name of what is called in a namespace; a deferred function is called in one of its own name."""
    return name if space is None or space == name else _join_name(space, name)


def _join_name(space: str, name: str) -> str:
    return f"{space}__{name}"


_ACTIONS = ("action", "operation", "arguments", "input")
_INPUTS = {"code_interpreter_call": "code", "file_search_call": "queries", "program": "code"}
_OUTCOMES = {"program_output": "result", "tool_search_output": "tools"}


def decode_tool(body: Any) -> Tool | ServerTool:
    """Read one declaration; what is neither a function nor a custom tool is the server's own."""
    kind = body.get("type") if type(body) is dict else None
    if type(kind) is str and is_clients(kind, body):
        return _decode_own_tool(body, kind)
    if type(kind) is not str or kind not in _KINDS or type(body.get("name")) is not str:
        return keep_tool(body, DIALECT)
    rest = body.copy()
    form: dict[str, Any] = {}
    del rest["type"]
    name = WIRE.read_name(rest.pop("name"), form)
    description = take(rest, "description", str)
    if kind == "custom":
        return Tool(name, description, custom=True, format=_take_format(rest), opaque=WIRE.own(rest, form))
    return Tool(
        name,
        description,
        take(rest, "parameters", dict),
        strict=take(rest, "strict", bool),
        opaque=WIRE.own(rest, form),
    )


def _decode_own_tool(body: dict[str, Any], kind: str) -> Tool:
    """Read a tool that has a type in place of a name; what it does not say of itself stands in the table."""
    own, rest = OWN_TOOLS[kind], body.copy()
    del rest["type"]
    form: dict[str, Any] = {"own": kind, "said": take_place(rest)}
    description, parameters = (take(rest, field, kind) for field, kind in zip(_SPOKEN, (str, dict), strict=True))
    form["unsaid"] = [field for field, given in zip(_SPOKEN, (description, parameters), strict=True) if given is None]
    description = own.description if description is None else description
    parameters = own.parameters if parameters is None else parameters
    return Tool(kind, description, parameters, opaque=WIRE.own(rest, form))


def take_place(rest: dict[str, Any]) -> dict[str, Any]:
    """Take what says that the client runs a tool, and nothing else."""
    said = {"execution": rest.pop("execution")} if rest.get("execution") == "client" else {}
    return {**said, "environment": rest.pop("environment")} if rest.get("environment") == {"type": "local"} else said


def _encode_own_tool(tool: Tool, kind: str, ledger: Ledger) -> dict[str, Any]:
    own, body = OWN_TOOLS[kind], {"type": kind}
    unsaid: Sequence[str] = form_of(tool.opaque, DIALECT).get("unsaid", _SPOKEN)
    for field in _SPOKEN:
        given = getattr(tool, field)
        if field in unsaid and given == getattr(own, field):
            continue
        if kind == "tool_search" and given is not None:
            body[field] = given
        else:
            ledger.lose(field, "own_tool", f"{DIALECT} has its own for {kind}")
    if tool.name != kind:
        ledger.lose("name", "own_tool", f"{DIALECT} knows it as {kind}")
    ledger.lose_fields(tool, "own_tool", "strict", "custom", "format")
    lose_metadata(tool, ledger)
    lose_cache(tool, ledger)
    return ledger.replay(body, tool.opaque)


class Declared(Struct, eq=False):
    """The tools of a request as they are read: all in one list, each under a name of its own.

    Where they stood is kept in layouts once there is a namespace or an item that declares some. In a layout stand
    names of tools, namespaces with a layout of their own, tools of the `server`, and what is only `kept`: a second
    declaration of a tool, which is among the `others` if it says otherwise. `items` are those of the input, each with
    the number of the message before which it stood; `hosted` are the calls that the server runs, `renamed` the tools
    that could not be named for where they stand.
    """

    bodies: list[Any]
    tools: list[Tool | ServerTool] = []
    layout: list[Any] | None = None
    items: list[Any] = []
    hosted: set[str] = set()
    others: list[Any] = []
    renamed: dict[tuple[str, str], str] = {}
    _head: dict[str, Any] | None = None
    _known: dict[tuple[str | None, str], tuple[str, Any]] = {}
    _turns: dict[str, int] = {}

    def __post_init__(self) -> None:
        bodies = self.bodies
        if [body for body in bodies if type(body) is dict and body.get("type") == "namespace"]:
            self._open()
        elif bodies:
            self.tools = [decode_tool(body) for body in bodies]

    def _open(self) -> None:
        if self.layout is None:
            self.tools, self.layout = [], []
            self.layout = self.read(self.bodies)

    def hold(self, item: dict[str, Any], place: int) -> bool:
        """Take the tools of an item that stood before the message of this number, if it has any."""
        rest = item.copy()
        bodies = take(rest, "tools", list)
        if bodies is not None:
            self.items.append([place, rest, self.read(bodies)])
        return bodies is not None

    def left(self) -> list[Any]:
        """Take what was said of tools, and is not in the list."""
        left, self.others = self.others, []
        return left

    def read(self, bodies: list[Any]) -> list[Any]:
        """Read declarations that stand together, and give their layout."""
        self._open()
        return [self._read(body, None) for body in bodies]

    def _read(self, body: Any, space: str | None) -> Any:
        if space is None and _is_namespace(body) and (inner := body["tools"]):
            self._head = rest = {key: value for key, value in body.items() if key not in ("type", "name", "tools")}
            return {"space": body["name"], "rest": rest, "tools": [self._read(one, body["name"]) for one in inner]}
        tool = decode_tool(body)
        if type(tool) is Tool:
            return self._add(tool, space, body)
        self.tools.append(tool)
        return {"server": body}

    def _add(self, tool: Tool, space: str | None, body: Any) -> Any:
        """Add a tool; another one of its name gets another name, and the same one is known already."""
        name, (given, before) = tool.name, self._known.get((space, tool.name), ("", None))
        if given:
            self.others += [body] * (before != body)
            return {"kept": body, "name": given}
        given = whole = name if space is None else _join_name(space, name)
        while given in self._turns:
            self._turns[whole] += 1
            given = f"{whole}_{self._turns[whole]}"
        if given != called_name(space, name):
            self.renamed[space or "", name] = given
        self._turns[given] = 1
        self._known[space, name] = given, body
        self.tools.append(tool if given == name else _move(tool, space, given, self._head if space else None))
        self._head = None
        return given


class Shelf:
    """Written declarations, each to be put where it stood."""

    def __init__(self, tools: Iterable[Tool | ServerTool], ledger: Ledger) -> None:
        self._named: dict[str, tuple[str | None, Any]] = {}
        self._more: list[Any] = []
        self._used: set[str] = set()
        own = [tool.value for tool in tools if type(tool) is ServerTool and tool.dialect == DIALECT]
        self._servers = {fingerprint(value): value for value in own}
        encode_tools(tools, ledger, self._write)

    def _write(self, tool: Tool, ledger: Ledger) -> None:
        body, (space, *_) = encode_tool(tool, ledger), form_of(tool.opaque, DIALECT).get("space", [None])
        if tool.name in self._named:
            self._more.append(body)
        else:
            self._named[tool.name] = (space, body if space is None else body["tools"][0])

    def put(self, layout: list[Any], space: str | None = None) -> list[Any]:
        """Give the declarations of a layout; those that are no longer there leave no gap."""
        bodies: list[Any] = []
        for entry in layout:
            if type(entry) is str:
                where, body = self._named.get(entry, (None, None))
                if body is not None and where == space:
                    bodies.append(body)
                    self._used.add(entry)
            elif "space" in entry:
                inner = self.put(entry["tools"], entry["space"])
                bodies += [{"type": "namespace", "name": entry["space"], **entry["rest"], "tools": inner}] * bool(inner)
            elif "kept" in entry:
                bodies.append(entry["kept"])
            elif (mark := fingerprint(entry["server"])) in self._servers:
                bodies.append(entry["server"])
                self._used.add(mark)
        return bodies

    def rest(self) -> list[Any]:
        """Give what no layout has put anywhere."""
        named = [_wrap(*self._named[name]) for name in self._named if name not in self._used]
        return named + self._more + [value for mark, value in self._servers.items() if mark not in self._used]


def _wrap(space: str | None, body: Any, rest: Mapping[str, Any] | None = None) -> Any:
    spaced = {"type": "namespace", "name": space, **(rest or {"description": ""}), "tools": [body]}
    return body if space is None else spaced


def gather(bodies: list[Any]) -> list[Any]:
    """Join namespaces of one name that follow each other."""
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
    """Whether a declaration is a namespace with a name and tools."""
    named = type(body) is dict and body.get("type") == "namespace" and type(body.get("name")) is str
    return named and type(body.get("tools")) is list


def _move(tool: Tool, space: str | None, given: str, head: dict[str, Any] | None) -> Tool:
    """Name a tool for where it stands; the first of a namespace carries what that says, which is a loss elsewhere."""
    opaque: Any = tool.opaque
    said = {"namespace": head} if head and any(head.values()) else {}
    form = {**(opaque.form or {}), "space": [space, tool.name, given]}
    return replace(tool, name=given, opaque=Opaque(DIALECT, {**opaque.value, **said}, form))


def _encode_moved(tool: Tool, space: list[Any], ledger: Ledger) -> dict[str, Any]:
    """Write a tool under the name that it has where it stands."""
    opaque: Any = tool.opaque
    value, form = dict(opaque.value), {key: given for key, given in opaque.form.items() if key != "space"}
    head = value.pop("namespace", None)
    name = space[1] if tool.name == space[2] else tool.name
    body = encode_tool(replace(tool, name=name, opaque=WIRE.own(value, form)), ledger)
    return _wrap(space[0], body, head)  # type: ignore[no-any-return]


def _take_format(rest: dict[str, Any]) -> dict[str, Any] | None:
    """Take the form of a custom tool's text; the model keeps a grammar in a map of its own."""
    match rest.get("format"):
        case {"type": "grammar", **grammar} if "grammar" not in grammar:
            del rest["format"]
            return {"type": "grammar", "grammar": grammar}
        case {"type": "text"}:
            return rest.pop("format")  # type: ignore[no-any-return]
    return None


def _encode_format(given: dict[str, Any]) -> dict[str, Any]:
    match given:
        case {"type": "grammar", "grammar": dict(grammar), **others}:
            return {"type": "grammar", **grammar, **others}
    return given


def encode_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Write one declaration."""
    mine = made_by(tool.opaque, DIALECT)
    form = form_of(tool.opaque, DIALECT)
    if "space" in form:
        return _encode_moved(tool, form["space"], ledger)
    if "own" in form:
        return _encode_own_tool(tool, form["own"], ledger)
    if tool.custom and not ledger.quirks.custom_tools:
        tool = replace(as_function(tool, ledger), strict=False)
    body = {"type": "custom" if tool.custom else "function", **begin_tool(tool, ledger)}
    if tool.custom:
        ledger.lose_fields(tool, "custom_tool", "parameters", "strict")
        if tool.plain_format is not None:
            body["format"] = _encode_format(tool.plain_format)
    elif mine:
        if tool.plain_parameters is not None:
            body["parameters"] = tool.plain_parameters
        if tool.strict is not None:
            body["strict"] = tool.strict
    else:
        body["parameters"] = _fit(tool, ledger)
        body["strict"] = bool(tool.strict)
        lose_format(tool, ledger)
    lose_metadata(tool, ledger)
    lose_cache(tool, ledger)
    return body if tool.opaque is None else ledger.replay(body, tool.opaque)


def _fit(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    schema = tool.plain_parameters
    if schema is None:
        ledger.lose("parameters", "schema_absent", "a function takes an object here", "defaulted")
        closed = {"additionalProperties": False, "required": []} if tool.strict else {}
        return {"type": "object", "properties": {}, **closed}
    return ledger.fit(schema, "openai-strict") if tool.strict else ledger.fit_root(schema, "openai")


def decode_choice(value: Any) -> Understood | None:
    """Read a `tool_choice`, in each of its forms that name functions and custom tools."""
    match value:
        case "auto" | "none" | "required":
            return Understood({"tool_choice": ToolChoice(value)})
        case {"type": "function" | "custom", "name": str(name)} if value.keys() == {"type", "name"}:
            choice = ToolChoice("required", [WIRE.restore_name(name)[0]])
            return Understood({"tool_choice": choice}, keep=True)
        case {"type": "allowed_tools", "mode": "auto" | "required" as mode, "tools": list(tools)} if len(value) == 3:
            names, others = read_allowed(tools, _allowed_name)
            left = {**value, "tools": others} if others else ABSENT
            return Understood({"tool_choice": ToolChoice(mode, names)}, left, keep=True) if names else None
        case {"type": "apply_patch" | "shell" as name} if len(value) == 1:
            return Understood({"tool_choice": ToolChoice("required", [name])}, keep=True)
    return None


def _allowed_name(tool: Any) -> str | None:
    match tool:
        case {"type": "function" | "custom", "name": str(name)}:
            return WIRE.restore_name(name)[0]
        case {"type": str(kind)} if is_clients(kind, tool):
            return kind
    return None


def encode_choice(request: Request, ledger: Ledger) -> Any:
    """Write the choice among tools; a narrowed one lists the tools that are allowed."""

    def entry(kind: str, name: str) -> Any:
        return {"type": kind, "name": ledger.names.write(name)}

    return write_choice(request, ledger, entry, dict)


def decode_server_item(item: dict[str, Any]) -> Part:
    """Read an item of a tool that the server runs; any other item is kept whole."""
    kind = item["type"]
    if kind.endswith("_call") or kind == "program":
        return _decode_server_call(item, kind)
    if kind.endswith("_output"):
        return _decode_server_result(item, kind)
    return Opaque(DIALECT, item)


def _decode_server_call(item: dict[str, Any], kind: str) -> Part:
    rest = item.copy()
    del rest["type"]
    form: dict[str, Any] = {}
    name = take(rest, "name", str)
    if name is None:
        name = kind.removesuffix("_call")
    else:
        form["type"] = kind
    if rest.get("call_id"):
        form["key"] = "call_id"
    call_id = take(rest, form.get("key", "id"), str)
    return ServerToolCall(call_id, name, _take_input(rest, form, kind), opaque=WIRE.own(rest, form))


def _take_input(rest: dict[str, Any], form: dict[str, Any], kind: str) -> dict[str, Any] | None:
    for key in _ACTIONS:
        if type(given := rest.get(key)) is dict:
            form["input"] = key
            return rest.pop(key)  # type: ignore[no-any-return]
        if type(given) is str:
            arguments, error = parse_arguments(given)
            if error is None:
                form |= {"input": key, "raw": rest.pop(key)}
                return arguments
    key = _INPUTS.get(kind, "")
    return {key: rest.pop(key)} if rest.get(key) is not None else None


def encode_server_item(part: ServerToolCall | ServerToolResult, ledger: Ledger) -> dict[str, Any] | None:
    """Write an item of a tool that this server ran; what another one did cannot be told to it."""
    if not made_by(part.opaque, DIALECT):
        ledger.lose("", kind_of_part(part), "another provider ran this tool")
        return None
    lose_cache(part, ledger)
    body = _encode_server_call(part) if isinstance(part, ServerToolCall) else _encode_server_result(part)
    return ledger.replay(body, part.opaque)


def _encode_server_call(part: ServerToolCall) -> dict[str, Any]:
    form = form_of(part.opaque, DIALECT)
    kind = form.get("type") or (part.name if part.name == "program" else f"{part.name}_call")
    body: dict[str, Any] = {"type": kind}
    if "type" in form:
        body["name"] = part.name
    if part.id is not None:
        body[form.get("key", "id")] = part.id
    if part.arguments is not None:
        body |= _encode_input(part.arguments, form)
    return body


def _encode_input(arguments: dict[str, Any], form: Any) -> dict[str, Any]:
    key, raw = form.get("input"), form.get("raw")
    if key is None:
        return arguments
    if raw is None:
        return {key: arguments}
    return {key: raw if parse_arguments(raw)[0] == arguments else format_arguments(arguments)}


def _decode_server_result(item: dict[str, Any], kind: str) -> Part:
    rest = item.copy()
    del rest["type"]
    content = rest.pop(key, None) if rest.get(key := _OUTCOMES.get(kind, "output")) is not None else None
    return ServerToolResult(take(rest, "call_id", str), kind, content, opaque=WIRE.own(rest))


def _encode_server_result(part: ServerToolResult) -> dict[str, Any]:
    body: dict[str, Any] = {"type": part.name}
    if part.tool_call_id is not None:
        body["call_id"] = part.tool_call_id
    if part.content is not None:
        body[_OUTCOMES.get(part.name, "output")] = part.content
    return body
